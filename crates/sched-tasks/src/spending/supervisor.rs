//! A budget supervisor: exhausted tasks of a nursery wait here for an answer.
//!
//! Room: interface. Knows one nursery and its account.

use std::{fmt, sync::Arc, time::Duration};

use vocab::{Budget, TaskId};

use crate::{
    budget::{Account, Answer, Exhausted, Pool},
    kernel::{clock, nursery::NurseryCore, scope},
    strand::{self, room},
    wait::{self, End},
};

/// Answers for the tasks of a nursery that have spent their budget; made by [`Nursery::budget_supervisor`](crate::Nursery::budget_supervisor).
///
/// While there is one, an exhausted task waits instead of failing; except for the owner of the nursery, which would wait for itself: it asks further out. When the last one is dropped, those that still wait go on asking further out, or fail.
///
/// ```
/// use bursar::{Budget, NurseryOptions, budget::{Answer, charge}, nursery_with};
///
/// let options = NurseryOptions::new().budget(Budget::ops(1_000).spawns(1)).task_budget(Budget::ops(100));
/// nursery_with(options, |n| {
///     let supervisor = n.budget_supervisor();
///     let task = n.spawn(|| charge(150)); // more than it has
///     let exhausted = supervisor.next();
///     assert_eq!(exhausted.missing, 50);
///     supervisor.answer(exhausted.task.id, Answer::Recharge(Budget::ops(50)));
///     task.join()
/// })?;
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub struct BudgetSupervisor {
    /// Has an account.
    core: Arc<NurseryCore>,
    /// Those around it that share the account. A supervisor may outlive them, and looks at them all the same.
    _around: Vec<Arc<NurseryCore>>,
}

impl BudgetSupervisor {
    /// The nursery has an account, and has not ended.
    pub(crate) fn open(core: Arc<NurseryCore>) -> Self {
        let mut around = Vec::new();
        let mut inner = &*core;
        while let Some(outer) = inner.outer_ref().filter(|_| inner.shares_account()) {
            around.push(scope::shared(outer));
            inner = outer;
        }
        let supervisor = Self { core, _around: around };
        supervisor.account().add_supervisor();
        supervisor
    }

    fn account(&self) -> &Account {
        self.core.account().expect("a budget supervisor is opened for a nursery with an account")
    }

    /// Waits for a task that asks for more and was not seen before.
    pub fn next(&self) -> Exhausted {
        self.next_before(None).expect("without a deadline it waits for one")
    }

    /// The same, but not longer than `time`.
    pub fn next_timeout(&self, time: Duration) -> Option<Exhausted> {
        self.next_before(Some(clock::due(time)))
    }

    fn next_before(&self, deadline: Option<std::time::Instant>) -> Option<Exhausted> {
        strand::with(|strand| {
            loop {
                let token = strand.token();
                if let Some(exhausted) = self.account().next_exhausted(token) {
                    return Some(exhausted);
                }
                match wait::wait(strand, token, deadline) {
                    End::Claimed(_) => {}
                    End::TimedOut => {
                        self.account().stop_watching(token);
                        return None;
                    }
                    End::Cancelled => {
                        self.account().stop_watching(token);
                        strand.unwind();
                    }
                }
            }
        })
    }

    /// All that wait for an answer now.
    pub fn exhausted(&self) -> Vec<Exhausted> {
        self.account().exhausted()
    }

    /// Answers for a task. What it was given may be less than the answer says: no more than the nursery has. None if the task does not wait for an answer.
    ///
    /// [`Answer::Ignore`] leaves it waiting, and so does a recharge if the nursery has nothing of what it needs: then it was given nothing.
    pub fn answer(&self, task: TaskId, answer: Answer) -> Option<Budget> {
        let (given, to_wake) = self.account().answer(task, answer)?;
        to_wake.wake();
        Some(given)
    }

    /// Leaves a task to those further out: it asks there, or fails.
    pub fn let_go(&self, task: TaskId) {
        self.account().let_go(task).wake();
    }

    /// What to call when a task asks. One notifier a nursery.
    pub(crate) fn set_notifier(&self, notifier: impl Fn() + Send + Sync + 'static) {
        self.account().set_notifier(notifier);
    }

    /// Where the nursery's budget is.
    pub fn pool(&self) -> Pool {
        self.core.pool().expect("a budget supervisor is opened for a nursery with an account")
    }
}

impl Drop for BudgetSupervisor {
    fn drop(&mut self) {
        let _room = room::to_drop();
        self.account().remove_supervisor().wake();
    }
}

impl fmt::Debug for BudgetSupervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetSupervisor").field("pool", &self.pool()).finish_non_exhaustive()
    }
}
