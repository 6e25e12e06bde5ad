//! What tasks promise, one sentence a test.

mod destructors;
mod liveness;
mod nurseries;
mod overflow;
mod support;
