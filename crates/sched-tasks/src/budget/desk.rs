//! An account as its budget supervisors know it: who asks, and what they are told.
//!
//! Room: state. Knows who asks; wakes no task itself.
//!
//! # Invariant
//! Whoever asks is on the list before a budget supervisor hears of it, and leaves the list with an answer, or because the last budget supervisor went.
//!
//! # Why it holds
//! Both sides change the list under the lock of the account; wakes and bells come after it is released.

use mech_sync::WaitToken;
use vocab::{Budget, TaskId};

use super::{
    Answer, Exhausted, Settlement,
    account::{Account, ToWake, Told, Waiting},
};

impl Account {
    /// Waits for a budget supervisor, if there is one.
    pub(crate) fn ask_supervisor(&self, exhausted: &Exhausted, token: WaitToken) -> Option<(u32, ToWake)> {
        let mut books = self.books.lock();
        if books.supervisors == 0 {
            return None;
        }
        Some((books.enlist(token, exhausted, true), ToWake(std::mem::take(&mut books.watchers))))
    }

    /// Calls who wants to be called when somebody asks.
    pub(crate) fn ring_bell(&self) {
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }

    pub(crate) fn add_supervisor(&self) {
        self.books.lock().supervisors += 1;
    }

    /// The last one leaves nobody waiting.
    pub(crate) fn remove_supervisor(&self) -> ToWake {
        let mut books = self.books.lock();
        books.supervisors -= 1;
        let none_left = books.supervisors == 0;
        books.tell(|waiting| (none_left && waiting.asks).then_some(Told::Look))
    }

    /// The next who asks and of whom no budget supervisor has heard; else `token` is woken when there is one.
    pub(crate) fn next_exhausted(&self, token: WaitToken) -> Option<Exhausted> {
        let mut books = self.books.lock();
        let fresh = books.waiting.iter_mut().find(|(_, waiting)| waiting.asks && !waiting.seen);
        if let Some((_, waiting)) = fresh {
            waiting.seen = true;
            return Some(waiting.exhausted.clone());
        }
        books.watchers.push(token);
        None
    }

    /// A budget supervisor does not wait any more.
    pub(crate) fn stop_watching(&self, token: WaitToken) {
        self.books.lock().watchers.retain(|watcher| !watcher.is_same(token));
    }

    /// Who waits for a budget supervisor.
    pub(crate) fn exhausted(&self) -> Vec<Exhausted> {
        let books = self.books.lock();
        let asking = |(_, waiting): (usize, &Waiting)| {
            (waiting.asks && waiting.answer.is_none()).then(|| waiting.exhausted.clone())
        };
        books.waiting.iter().filter_map(asking).collect()
    }

    /// Whether this task waits for a budget supervisor.
    pub(crate) fn is_exhausted(&self, task: TaskId) -> bool {
        let books = self.books.lock();
        books.waiting.iter().any(|(_, waiting)| waiting.exhausted.task.id == task)
    }

    /// A budget supervisor's answer. None: the task does not wait. Else what it was given.
    pub(crate) fn answer(&self, task: TaskId, answer: Answer) -> Option<(Budget, ToWake)> {
        let mut books = self.books.lock();
        let asks = |waiting: &Waiting| waiting.asks && waiting.answer.is_none() && waiting.exhausted.task.id == task;
        let place = books.waiting.iter().find(|(_, waiting)| asks(waiting)).map(|(place, _)| place)?;
        let nothing = (Budget::ZERO, ToWake::default());
        let told = match answer {
            Answer::Ignore => return Some(nothing),
            Answer::Cancel => Told::Refused,
            Answer::Recharge(amount) => {
                let drawn = books.pool.draw(&amount);
                if drawn[books.waiting[place].exhausted.component] == 0 {
                    books.pool.settle(&Settlement { left: drawn, ..Settlement::default() });
                    return Some(nothing); // nothing that would help
                }
                Told::Recharged(drawn)
            }
        };
        let waiting = &mut books.waiting[place];
        waiting.answer = Some(told);
        let given = if let Told::Recharged(drawn) = told { drawn } else { Budget::ZERO };
        Some((given, ToWake(vec![waiting.token])))
    }

    /// A budget supervisor cannot help this one: it asks further out.
    pub(crate) fn let_go(&self, task: TaskId) -> ToWake {
        self.books.lock().tell(|waiting| (waiting.asks && waiting.exhausted.task.id == task).then_some(Told::Look))
    }

    /// What to call when somebody asks; the first to say so counts.
    pub(crate) fn set_bell(&self, bell: impl Fn() + Send + Sync + 'static) {
        let _ = self.bell.set(Box::new(bell));
    }
}
