//! Runs a foreign closure, and continues after everything that can stop it.
//!
//! Room: interface.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use crate::{
    error::TaskError,
    strand::panics,
    strand::{self, Cancellation, Strand},
};

/// What stopped a closure; see [`contain`].
#[derive(Debug)]
pub enum Stop {
    /// The nursery around it was cancelled.
    Cancelled,
    /// It was refused a budget, or stack.
    Failed(TaskError),
    /// It panicked.
    Panicked {
        /// What was thrown.
        thrown: Box<dyn Any + Send>,
        /// Where: `file:line:column`, if the panic hook saw it.
        at: Option<Arc<str>>,
    },
}

/// Runs `body`, and reports what stopped it before its end. For schedulers built on tasks: `std::panic::catch_unwind`
/// catches a cancellation, too, but cannot tell it from a panic.
///
/// ```
/// use bursar::{nursery, sleep, task::{Stop, contain}};
/// use std::time::Duration;
///
/// nursery(|n| {
///     n.cancel();
///     assert!(matches!(contain(|| sleep(Duration::from_secs(3600))), Err(Stop::Cancelled)));
///     Ok(())
/// })
/// .unwrap_err();
/// assert!(matches!(contain(|| panic!("no")), Err(Stop::Panicked { .. })));
/// assert_eq!(contain(|| 6 * 7).unwrap(), 42);
/// ```
pub fn contain<R>(body: impl FnOnce() -> R) -> Result<R, Stop> {
    strand::with(Strand::ensure_room);
    catch_unwind(AssertUnwindSafe(body)).map_err(|payload| {
        strand::with(|strand| strand.traces.unwinding().set(false)); // it was caught
        if payload.is::<Cancellation>() {
            return Stop::Cancelled;
        }
        match payload.downcast::<TaskError>() {
            Ok(error) => Stop::Failed(*error),
            Err(thrown) if panics::is_panic(&*thrown) => Stop::Panicked { thrown, at: panics::take_place() },
            Err(payload) => Stop::Failed(TaskError::new(panics::reason(&*payload), strand::with(Strand::label))),
        }
    })
}
