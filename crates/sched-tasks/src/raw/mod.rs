//! The unsafe room of this crate: where scopes lend their lifetimes to tasks that run elsewhere.
//!
//! Room: mechanism. Knows tasks and lifetimes; knows nothing of queues and clocks.
//!
//! # Invariant
//! Nothing that borrows from a scope is used after the scope's frame is gone.
//!
//! # Why it holds
//! A nursery's frame, and a `join`'s, is left only after every task it started has been counted as ended; a task is counted as ended
//! last, after its closure, its result and everything it captured has been moved out or dropped. Unwinding waits as well. A stack that overflowed is
//! never reused, and its frames count as left only when a cleanup has waited in their place (see `kernel/scope/raw.rs`).

pub(crate) mod alloc;
pub(crate) mod future;
pub(crate) mod handle;
pub(crate) mod in_place;
pub(crate) mod join;
pub(crate) mod loan;
pub(crate) mod overflow;
pub(crate) mod owned;
mod pool;
pub(crate) mod scope;
pub(crate) mod task;
pub(crate) mod unblock;
pub(crate) mod value;
