//! What tasks promise, one sentence a test.

mod nurseries;
