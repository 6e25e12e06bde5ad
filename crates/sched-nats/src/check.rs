//! Whether the broker of an edge can be used, asked before anything runs.
//!
//! Room: driver.

use std::sync::mpsc;

use async_nats::jetstream::stream::Stream;
use tokio::time::sleep;

use crate::drive::claim::{Claim, NotYet};
use crate::drive::connect::{self, Link};
use crate::drive::engine::Engine;
use crate::drive::presence::{self, End};
use crate::edge::{Edge, number};
use crate::error::NatsError;

/// How often a receiver that lost its connection is asked: longer than it is given to come back.
const ATTEMPTS: usize = 12;

/// What shall be free.
#[derive(Debug, Clone, Copy)]
enum Asks {
    Nothing,
    For(End),
}

impl Edge {
    /// Connects once and makes the stream of the edge, so that what is wrong with the broker is known before anything runs. Blocks its thread, for seconds if no answer comes.
    ///
    /// # Errors
    /// If the broker cannot be used.
    pub fn check(&self) -> Result<(), NatsError> {
        self.ask(Asks::Nothing)
    }

    /// As [`check`](Self::check), and asks whether another process [sends](crate::publish) to the edge.
    ///
    /// # Errors
    /// If the broker cannot be used, or another process sends.
    pub fn check_sender(&self) -> Result<(), NatsError> {
        self.ask(Asks::For(End::Sender))
    }

    /// As [`check`](Self::check), and asks whether another process [receives](crate::subscribe) from the edge. One that has lost its connection is given some seconds to come back.
    ///
    /// # Errors
    /// If the broker cannot be used, or another process receives.
    pub fn check_receiver(&self) -> Result<(), NatsError> {
        self.ask(Asks::For(End::Receiver))
    }

    fn ask(&self, asks: Asks) -> Result<(), NatsError> {
        let engine = Engine::shared()?;
        let (sender, answer) = mpsc::channel();
        let edge = self.clone();
        engine.spawn(async move {
            let checked = async {
                let link = connect::connect(&edge).await?;
                let checked = async {
                    let stream = connect::stream(&link, &edge).await?;
                    match asks {
                        Asks::Nothing => Ok(()),
                        Asks::For(End::Sender) => presence::no_sender(&edge, &link).await,
                        Asks::For(End::Receiver) => no_receiver(&edge, &link, &stream).await,
                    }
                };
                // What is not permitted gets no answer.
                tokio::select! {
                    biased;
                    error = link.until_forbidden(&edge) => Err(error),
                    checked = checked => checked,
                }
            };
            let _ = sender.send(checked.await);
        });
        answer.recv().unwrap_or_else(|_| Err(NatsError::NoThread { why: "it has ended".to_owned() }))
    }
}

async fn no_receiver(edge: &Edge, link: &Link, stream: &Stream) -> Result<(), NatsError> {
    let mut claim = Claim::new(number());
    let mut attempt = 0;
    loop {
        match claim.check(link, edge, stream).await {
            Ok(()) => return Ok(()),
            Err(NotYet::Never(error)) => return Err(error),
            Err(NotYet::Later(why)) if attempt == ATTEMPTS => {
                return Err(NatsError::Unreachable { broker: edge.address().broker(), why });
            }
            Err(NotYet::Later(_)) => sleep(connect::backoff(attempt)).await,
        }
        attempt += 1;
    }
}
