//! Where an edge over a broker leads.
//!
//! Room: values.
//!
//! # Invariant
//! Without the feature `nats` there is no value of this type, so no plan has such an edge.

#[cfg(not(feature = "nats"))]
use std::fmt;

/// The broker and the subject of an edge.
#[cfg(feature = "nats")]
pub type Over = bursar::flow::nats::Address;

/// The broker and the subject of an edge: without the feature `nats` there is none.
#[cfg(not(feature = "nats"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Over {}

#[cfg(not(feature = "nats"))]
impl fmt::Display for Over {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

/// Reads an address; else what is wrong, and what to write. Neither shows the text, which may have a password in it.
#[cfg(feature = "nats")]
pub(crate) fn address(text: &str) -> Result<Over, (String, String)> {
    text.parse::<Over>().map_err(|error| {
        let said = error.to_string();
        let (message, help) = said.split_once("; ").unwrap_or((&said, "write `over = \"nats://127.0.0.1:4222/imu\"`"));
        (message.to_owned(), help.to_owned())
    })
}

/// Refuses any address.
#[cfg(not(feature = "nats"))]
pub(crate) fn address(_text: &str) -> Result<Over, (String, String)> {
    let message = "this `bursar` was built without edges over a broker".to_owned();
    Err((message, "build it with the feature `nats`, or remove `over`".to_owned()))
}

/// Its subject.
#[cfg(feature = "nats")]
pub(crate) fn subject(over: &Over) -> &str {
    over.subject()
}

/// Its subject.
#[cfg(not(feature = "nats"))]
pub(crate) fn subject(over: &Over) -> &str {
    match *over {}
}
