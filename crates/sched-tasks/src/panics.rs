//! What a panic said, and where. The place is only told to the panic hook, so we stand in front of whatever hook there is.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Once},
};

use crate::{
    error::Reason,
    strand::{self, OutOfRoom, Strand},
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
                strand.unwinding.set(true);
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

/// Where the last panic of this strand happened, told once.
pub(crate) fn take_place() -> Option<Arc<str>> {
    strand::with(|strand| strand.panicked_at.take())
}
