//! What tasks promise, one sentence a test.

mod block_on;
mod channels;
mod channels_model;
mod channels_stress;
mod http;
mod interop;
mod locals;
mod locks;
mod net;
mod nurseries;
mod select;
mod unblock;
mod unwinding;
mod wakers;
