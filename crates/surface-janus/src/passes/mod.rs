//! What is done with QTJIR between the source and an engine.
//!
//! Room: decisions.
//!
//! | pass | what it does |
//! |---|---|
//! | [`asynchronous`] | `spawn`, `async_call` and `await` become `task_create` and `task_join` |
//! | [`fuse`] | two blocks that always follow each other become one |
//! | [`yield_checks`] | puts a decrement and a check wherever something costs |
//! | [`merge_checks`] | of several decrements and checks that nothing sees apart one is left |

mod asynchronous;
mod fuse;
mod merge;
mod yields;

pub use asynchronous::asynchronous;
pub use fuse::fuse;
pub use merge::merge_checks;
pub use yields::yield_checks;
