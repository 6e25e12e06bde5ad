//! An account as its budget supervisors know it: which tasks ask, and what they are answered.
//!
//! Room: state. Knows which tasks ask; wakes no task itself.
//!
//! # Invariant
//! A task that asks is on the list before a budget supervisor hears of it, and leaves the list with an answer, or because the last budget supervisor is gone.
//!
//! # Why it holds
//! Both sides change the list under the lock of the account; wakes and the notifier come after it is released.

use mech_sync::WaitToken;
use vocab::{Budget, TaskId};

use super::{
    Answer, Exhausted, Settlement,
    account::{Account, Notice, ToWake, Waiting},
};

impl Account {
    /// Waits for a budget supervisor, if there is one.
    pub(crate) fn ask_supervisor(&self, exhausted: &Exhausted, token: WaitToken) -> Option<(u32, ToWake)> {
        let mut state = self.state.lock();
        if state.supervisors == 0 {
            return None;
        }
        Some((state.enlist(token, exhausted, true), ToWake(std::mem::take(&mut state.watchers))))
    }

    /// Calls the notifier, if there is one: a task asks.
    pub(crate) fn notify_supervisor(&self) {
        if let Some(notifier) = self.notifier.get() {
            notifier();
        }
    }

    pub(crate) fn add_supervisor(&self) {
        self.state.lock().supervisors += 1;
    }

    /// A budget supervisor is gone. The last one leaves no task waiting.
    pub(crate) fn remove_supervisor(&self) -> ToWake {
        let mut state = self.state.lock();
        state.supervisors -= 1;
        let none_left = state.supervisors == 0;
        state.notify(|waiting| (none_left && waiting.asks).then_some(Notice::Look))
    }

    /// The next task that asks and that no budget supervisor has seen; else `token` is woken when there is one.
    pub(crate) fn next_exhausted(&self, token: WaitToken) -> Option<Exhausted> {
        let mut state = self.state.lock();
        let fresh = state.waiting.iter_mut().find(|(_, waiting)| waiting.asks && !waiting.seen);
        if let Some((_, waiting)) = fresh {
            waiting.seen = true;
            return Some(waiting.exhausted.clone());
        }
        state.watchers.push(token);
        None
    }

    /// A budget supervisor does not wait any more.
    pub(crate) fn stop_watching(&self, token: WaitToken) {
        self.state.lock().watchers.retain(|watcher| !watcher.is_same(token));
    }

    /// The tasks that wait for a budget supervisor.
    pub(crate) fn exhausted(&self) -> Vec<Exhausted> {
        let state = self.state.lock();
        let asking = |(_, waiting): (usize, &Waiting)| {
            (waiting.asks && waiting.answer.is_none()).then(|| waiting.exhausted.clone())
        };
        state.waiting.iter().filter_map(asking).collect()
    }

    /// Whether this task waits for a budget supervisor.
    pub(crate) fn is_exhausted(&self, task: TaskId) -> bool {
        let state = self.state.lock();
        state.waiting.iter().any(|(_, waiting)| waiting.exhausted.task.id == task)
    }

    /// A budget supervisor's answer. None: the task does not wait. Else what it was given.
    pub(crate) fn answer(&self, task: TaskId, answer: Answer) -> Option<(Budget, ToWake)> {
        let mut state = self.state.lock();
        let asks = |waiting: &Waiting| waiting.asks && waiting.answer.is_none() && waiting.exhausted.task.id == task;
        let place = state.waiting.iter().find(|(_, waiting)| asks(waiting)).map(|(place, _)| place)?;
        let nothing = (Budget::ZERO, ToWake::default());
        let notice = match answer {
            Answer::Ignore => return Some(nothing),
            Answer::Cancel => Notice::Refused,
            Answer::Recharge(amount) => {
                let drawn = state.pool.draw(&amount);
                if drawn[state.waiting[place].exhausted.component] == 0 {
                    state.pool.settle(&Settlement { left: drawn, ..Settlement::default() });
                    return Some(nothing); // nothing that would help
                }
                Notice::Recharged(drawn)
            }
        };
        let waiting = &mut state.waiting[place];
        waiting.answer = Some(notice);
        let given = if let Notice::Recharged(drawn) = notice { drawn } else { Budget::ZERO };
        Some((given, ToWake(vec![waiting.token])))
    }

    /// A budget supervisor cannot help this one: it asks further out.
    pub(crate) fn let_go(&self, task: TaskId) -> ToWake {
        self.state.lock().notify(|waiting| (waiting.asks && waiting.exhausted.task.id == task).then_some(Notice::Look))
    }

    /// What to call when a task asks; the first one counts.
    pub(crate) fn set_notifier(&self, notifier: impl Fn() + Send + Sync + 'static) {
        let _ = self.notifier.set(Box::new(notifier));
    }
}
