//! What tasks promise, one sentence a test.

mod block_on;
mod budgets;
mod cancel;
mod channels;
mod channels_model;
mod channels_stress;
mod destructors;
mod errors;
mod fs;
mod futures_core;
mod http;
mod interop;
mod liveness;
mod locals;
mod locks;
mod net;
mod nurseries;
mod overflow;
mod select;
mod stress;
mod support;
mod unblock;
mod unwinding;
mod wakers;
mod watchdog;
mod workers;
