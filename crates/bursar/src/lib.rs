//! Tasks that borrow, a tree that cancels cleanly.
#![forbid(unsafe_code)]

pub use sched_tasks::*;

/// What most programs use.
pub mod prelude {
    pub use sched_tasks::*;
}
