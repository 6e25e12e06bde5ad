//! What a panic said, and where. The place is only told to the panic hook, so we stand in front of whatever hook there is.

use std::{
    any::Any,
    sync::{Arc, Once},
};

use crate::{
    error::Reason,
    strand::{self, Strand},
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

/// The reason a caught payload gives.
pub(crate) fn reason(payload: &(dyn Any + Send)) -> Reason {
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
