//! What tasks promise, one sentence a test.

mod block_on;
mod channels;
mod channels_model;
mod channels_stress;
mod destructors;
mod http;
mod interop;
mod liveness;
mod locals;
mod locks;
mod net;
mod nurseries;
mod overflow;
mod select;
mod support;
mod unblock;
mod unwinding;
mod wakers;
