//! What to send, what to send again, what to hand on, what to acknowledge. Pure: no clock, no socket, no thread.
//!
//! Room: decisions.

pub(crate) mod lost;
pub(crate) mod receive;
pub(crate) mod send;
#[cfg(test)]
mod tests;
