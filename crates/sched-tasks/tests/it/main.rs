//! What tasks promise, one sentence a test.

mod cancel;
mod destructors;
mod errors;
mod liveness;
mod nurseries;
mod overflow;
mod support;
