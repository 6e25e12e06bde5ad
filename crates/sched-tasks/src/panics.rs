//! What a panic said, and where. The place is only told to the panic hook, so we stand in front of whatever hook there is.

use std::{
    any::Any,
    cell::RefCell,
    sync::{Arc, Once},
};

use crate::{error::Reason, strand};

thread_local! {
    /// Where the last panic of this thread happened. Read by the `catch_unwind` that follows; a fiber does not leave its thread in between.
    static LAST: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Puts our hook in front of the present one, once.
pub(crate) fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let next = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let at = info.location().map(|at| Arc::from(at.to_string()));
            let _ = LAST.try_with(|last| *last.borrow_mut() = at);
            strand::with(|strand| strand.unwinding.set(true));
            next(info);
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
    Reason::Panicked { message, location: LAST.with(|last| last.borrow_mut().take()) }
}
