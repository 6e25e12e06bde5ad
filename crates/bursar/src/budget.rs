//! Budgets: what tasks may spend, who gives more, and what is charged.
//!
//! Room: interface.
//!
//! A [`Budget`](crate::Budget) is given to a nursery by [`NurseryOptions::budget`](crate::NurseryOptions::budget), or to each of its tasks by
//! [`task_budget`](crate::NurseryOptions::task_budget). The [guide](crate#budgets) says how the pool of a nursery, the shares of its tasks and their answers work together.
//!
//! ```
//! use bursar::{Budget, NurseryOptions, budget::{budget_left, charge}, nursery_with};
//!
//! let options = NurseryOptions::new().task_budget(Budget::ops(1_000));
//! nursery_with(options, |n| {
//!     n.spawn(|| {
//!         charge(10); // ten operations
//!         assert!(budget_left().ops <= 990);
//!     })
//!     .join()
//! })?;
//! # Ok::<(), bursar::TaskError>(())
//! ```
#[doc(inline)]
pub use sched_tasks::{
    Answer, BudgetSupervisor, BudgetedAlloc, CHILD_BUDGET, Component, Exhausted, Operation, Pool, Recharge, Settlement,
    Shortage, UNLIMITED, budget_left, charge, recharge,
};
