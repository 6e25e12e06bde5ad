//! What a panic said, and where. Only the panic hook learns the location, so ours is called before the hook of the program.
//!
//! Room: driver. Knows panic payloads; knows nothing of nurseries.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Once},
};

use crate::{
    error::{Reason, TaskError, TaskLabel},
    strand::{self, Cancellation, OutOfRoom, Strand},
};

/// Puts our hook in front of the present one, once.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let at = info.location().map(|at| Arc::from(at.to_string()));
            strand::with(|strand| {
                *strand.panicked_at.borrow_mut() = at;
                strand.failed_before.take();
                strand.traces.unwinding().set(true);
            });
            if !strand::with(Strand::is_quiet) {
                next(info);
            }
        }));
    });
}

/// Drops a caught payload. Its destructor may panic, and so may that panic's payload: that one is leaked.
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
}

/// The reason a caught payload gives.
pub(crate) fn reason(payload: &(dyn Any + Send)) -> Reason {
    if let Some(OutOfRoom { stack_bytes }) = payload.downcast_ref() {
        return Reason::StackOverflow { stack_bytes: *stack_bytes };
    }
    let message = if let Some(text) = payload.downcast_ref::<&str>() {
        Arc::from(*text)
    } else if let Some(text) = payload.downcast_ref::<String>() {
        Arc::from(text.as_str())
    } else {
        Arc::from("(the panic's payload is not a text)")
    };
    Reason::Panicked { message, location: take_place() }
}

/// What a caught payload means for the task that `who` names.
pub(crate) fn error(payload: Box<dyn Any + Send>, who: impl FnOnce() -> TaskLabel) -> TaskError {
    let error = match payload.downcast::<TaskError>() {
        Ok(error) => *error, // a half of a `join` got no stack, or a budget was refused
        Err(payload) => {
            let reason = reason(&*payload);
            discard(payload);
            TaskError::new(reason, Some(who()))
        }
    };
    error.and_others(take_others())
}

/// Where the last panic of this strand happened; taken once.
pub(crate) fn take_place() -> Option<Arc<str>> {
    strand::with(|strand| strand.panicked_at.take())
}

/// What failed in the nurseries that the last panic of this strand came through; taken once.
pub(crate) fn take_others() -> Vec<TaskError> {
    strand::with(|strand| strand.failed_before.take())
}

/// Drops what the runtime holds for a task. While its owner unwinds, a destructor that panics would end the process, as the language has it for what
/// stands on the stack; what we hold we can drop apart. The panic hook has printed it.
#[inline]
pub(crate) fn drop_contained<T>(value: T) {
    if std::mem::needs_drop::<T>() {
        contained(|| drop(value));
    }
}

/// The same, for whatever else may run a destructor.
#[inline]
pub(crate) fn contained(body: impl FnOnce()) {
    if std::thread::panicking() {
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(discard);
    } else {
        body();
    }
}

/// Drops every value, whatever the destructors of others do. The first panic goes on afterwards, unless one is on its way.
pub(crate) fn drop_each<T>(values: impl Iterator<Item = T>) {
    if !std::mem::needs_drop::<T>() {
        return values.for_each(drop);
    }
    let mut first = None;
    for value in values {
        match (drop_apart(value), &first) {
            (Ok(()), _) => {}
            (Err(payload), None) => first = Some(payload),
            (Err(payload), Some(_)) => discard(payload),
        }
    }
    match first {
        Some(payload) if !std::thread::panicking() => strand::current().rethrow(payload),
        Some(payload) => discard(payload),
        None => {}
    }
}

/// Drops `value`, whatever its destructor does.
pub(crate) fn drop_apart<T>(value: T) -> std::thread::Result<()> {
    apart(|| drop(value))
}

/// Runs destructors, whatever they do.
pub(crate) fn apart(destructors: impl FnOnce()) -> std::thread::Result<()> {
    let before = strand::with(|strand| strand.traces.unwinding().get());
    let outcome = catch_unwind(AssertUnwindSafe(destructors));
    if outcome.is_err() {
        strand::with(|strand| strand.traces.unwinding().set(before)); // it was caught
    }
    outcome
}

/// Whether a caught payload is a panic of the program: not the way the runtime ends a task that was cancelled, refused a budget or is out of stack.
pub(crate) fn is_panic(payload: &(dyn Any + Send)) -> bool {
    !payload.is::<Cancellation>() && !payload.is::<TaskError>() && !payload.is::<OutOfRoom>()
}
