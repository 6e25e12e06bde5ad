//! What tasks promise, one sentence a test.

mod liveness;
mod nurseries;
mod support;
