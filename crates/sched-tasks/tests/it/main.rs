//! What tasks promise, one sentence a test.

mod block_on;
mod cancel;
mod channels;
mod channels_model;
mod channels_stress;
mod destructors;
mod errors;
mod explore;
mod futures_core;
mod http;
mod interop;
mod liveness;
mod locals;
mod locks;
mod medley;
mod net;
mod nurseries;
mod overflow;
mod seeded;
mod select;
mod stress;
mod support;
mod unblock;
mod unwinding;
mod wakers;
mod workers;
