//! Whether the broker of an edge can be used, asked before anything runs.
//!
//! Room: driver.

use std::sync::mpsc;

use crate::drive::{connect, engine::Engine};
use crate::edge::Edge;
use crate::error::NatsError;

impl Edge {
    /// Connects once and makes the stream of the edge, so that what is wrong with the broker is known before anything runs. Blocks its thread, for seconds if no answer comes.
    ///
    /// # Errors
    /// If the broker cannot be used.
    pub fn check(&self) -> Result<(), NatsError> {
        let engine = Engine::shared()?;
        let (sender, answer) = mpsc::channel();
        let edge = self.clone();
        engine.spawn(async move {
            let checked = async {
                let link = connect::connect(&edge).await?;
                connect::stream(&link, &edge).await.map(drop)
            };
            let _ = sender.send(checked.await);
        });
        answer.recv().unwrap_or_else(|_| Err(NatsError::NoThread { why: "it has ended".to_owned() }))
    }
}
