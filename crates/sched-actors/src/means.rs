//! What the children of a supervisor may spend, and how it answers for those that have spent theirs.
//!
//! # Invariant
//! A child that is exhausted gets more from the supervisor's own pool, or ends and is treated like any child that failed. It never waits for a
//! supervisor that does not know.
//!
//! # Why it holds
//! A child is on the list of the budget supervisor before the bell is rung, and the supervisor looks at the list after it hears the bell, every time.

use std::sync::Arc;

use sched_tasks::{
    Answer, Budget, BudgetSupervisor, Exhausted, Nursery, NurseryOptions, OnFailure, Receiver, Recharge, channel,
    internals,
};

/// How to answer for children that have spent their budget.
pub(crate) type Handler = Arc<dyn Fn(&Exhausted) -> Answer + Send + Sync>;

/// What a supervisor was told about budgets.
#[derive(Clone, Default)]
pub(crate) struct Means {
    pub(crate) pool: Option<Budget>,
    pub(crate) child: Option<Budget>,
    pub(crate) answer: Option<Handler>,
}

impl Means {
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

/// A supervisor at its desk.
pub(crate) struct BudgetHandler<'m> {
    supervisor: BudgetSupervisor,
    /// Somebody asks.
    pub(crate) bell: Receiver<()>,
    means: &'m Means,
}

impl<'m> BudgetHandler<'m> {
    /// None if nothing is limited.
    pub(crate) fn open(children: &Nursery<'_, '_>, means: &'m Means) -> Option<Self> {
        if !means.is_limited() {
            return None;
        }
        let (ring, bell) = channel(1);
        let supervisor = children.budget_supervisor();
        internals::set_bell(&supervisor, move || {
            internals::put(&ring, ()); // full: it is ringing already
        });
        Some(Self { supervisor, bell, means })
    }

    /// Answers everybody who asks.
    pub(crate) fn attend(&self) {
        for exhausted in self.supervisor.exhausted() {
            let answer = match &self.means.answer {
                Some(answer) => answer(&exhausted),
                None => Answer::Recharge(another_share(&exhausted)),
            };
            let given = self.supervisor.answer(exhausted.task.id, answer);
            let recharged = given.is_none_or(|given| given[exhausted.component] > 0); // or it does not wait any more
            if !recharged && answer != Answer::Cancel {
                // The pool is dry, or nobody cares: somebody above may, else it fails and may be started again.
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
