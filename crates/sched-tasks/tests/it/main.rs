//! What tasks promise, one sentence a test.

mod cancel;
mod destructors;
mod errors;
mod futures_core;
mod liveness;
mod nurseries;
mod overflow;
mod stress;
mod support;
mod workers;
