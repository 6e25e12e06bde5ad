//! The thread on which connections to brokers live.
//!
//! Room: driver. Knows tokio; knows nothing of flows and packs.
//!
//! # Invariant
//! There is one such thread while there are edges over a broker, and none else. No worker of a flow ever runs tokio, and this thread never runs a node.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::error::NatsError;

/// The thread. It ends when the last edge lets go of it.
pub(crate) struct Engine {
    handle: Handle,
    /// Dropped with it: that ends the thread.
    _end: oneshot::Sender<()>,
}

static CURRENT: Mutex<Weak<Engine>> = Mutex::new(Weak::new());

impl Engine {
    /// The one of this process.
    pub(crate) fn shared() -> Result<Arc<Self>, NatsError> {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = current.upgrade() {
            return Ok(engine);
        }
        let no_thread = |error: std::io::Error| NatsError::NoThread { why: error.to_string() };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let (end, ended) = oneshot::channel();
        let handle = runtime.handle().clone();
        let body = move || {
            let _ = runtime.block_on(ended);
            // A name that is being looked up must not keep the process.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("bursar-nats".to_owned()).spawn(body).map_err(no_thread)?;
        let engine = Arc::new(Self { handle, _end: end });
        *current = Arc::downgrade(&engine);
        Ok(engine)
    }

    /// Runs a task there.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }
}
