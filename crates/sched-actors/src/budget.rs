//! What the children of a supervisor may spend, and how the supervisor answers for exhausted children.
//!
//! Room: driver.
//!
//! # Invariant
//! An exhausted child gets more from the supervisor's own pool, or ends and is treated like any child that failed. It
//! never waits for a supervisor that does not know of it.
//!
//! # Why it holds
//! A child is on the list of the budget supervisor before the notification is sent, and the supervisor checks the list
//! after every notification.

use std::sync::Arc;

use sched_tasks::{
    Answer, Budget, BudgetSupervisor, Exhausted, Nursery, NurseryOptions, OnFailure, Receiver, Recharge, channel,
    internals,
};

/// How to answer for children that have spent their budget.
pub(crate) type Handler = Arc<dyn Fn(&Exhausted) -> Answer + Send + Sync>;

/// The budgets that a supervisor was given.
#[derive(Clone, Default)]
pub(crate) struct ChildBudgets {
    pub(crate) pool: Option<Budget>,
    pub(crate) child: Option<Budget>,
    pub(crate) answer: Option<Handler>,
}

impl ChildBudgets {
    fn is_limited(&self) -> bool {
        self.pool.is_some() || self.child.is_some()
    }

    /// The nursery in which the children live.
    pub(crate) fn nursery(&self) -> NurseryOptions {
        let mut options = NurseryOptions::new().on_failure(OnFailure::WaitAll);
        if self.is_limited() {
            options = options.recharge(Recharge::Never); // the supervisor answers
        }
        if let Some(pool) = self.pool {
            options = options.budget(pool);
        }
        if let Some(child) = self.child {
            options = options.task_budget(child);
        }
        internals::supervising(options)
    }
}

/// Answers exhausted children on behalf of their supervisor.
pub(crate) struct BudgetHandler<'m> {
    supervisor: BudgetSupervisor,
    /// A child asks for more.
    pub(crate) notified: Receiver<()>,
    budgets: &'m ChildBudgets,
}

impl<'m> BudgetHandler<'m> {
    /// None if nothing is limited.
    pub(crate) fn open(children: &Nursery<'_, '_>, budgets: &'m ChildBudgets) -> Option<Self> {
        if !budgets.is_limited() {
            return None;
        }
        let (notify, notified) = channel(1);
        let supervisor = children.budget_supervisor();
        internals::set_notifier(&supervisor, move || {
            internals::put(&notify, ()); // full: a notification is under way already
        });
        Some(Self { supervisor, notified, budgets })
    }

    /// Answers every child that asks.
    pub(crate) fn answer_all(&self) {
        for exhausted in self.supervisor.exhausted() {
            let answer = match &self.budgets.answer {
                Some(answer) => answer(&exhausted),
                None => Answer::Recharge(another_share(&exhausted)),
            };
            let given = self.supervisor.answer(exhausted.task.id, answer);
            let recharged = given.is_none_or(|given| given[exhausted.component] > 0); // or it does not wait any more
            if !recharged && answer != Answer::Cancel {
                // The pool is dry, or the answer was to ignore it: a supervisor above may help; else it fails and may
                // be started again.
                self.supervisor.let_go(exhausted.task.id);
            }
        }
    }
}

/// As much as it had, and at least what it needs.
fn another_share(exhausted: &Exhausted) -> Budget {
    let mut share = Budget::ZERO;
    share.set(exhausted.component, exhausted.granted.max(exhausted.missing));
    share
}
