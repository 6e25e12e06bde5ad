//! What tasks promise, one sentence a test.

mod block_on;
mod http;
mod interop;
mod locals;
mod net;
mod nurseries;
mod unblock;
mod unwinding;
mod wakers;
