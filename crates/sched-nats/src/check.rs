//! Whether the broker of an edge can be used, asked before anything runs.
//!
//! Room: driver.

use std::sync::mpsc;

use async_nats::jetstream::stream::Stream;
use tokio::time::sleep;

use crate::drive::claim::{Claim, NotYet};
use crate::drive::connect::{self, Link};
use crate::drive::engine::Engine;
use crate::drive::lock::{Lock, Stage};
use crate::edge::{Edge, number};
use crate::error::NatsError;

/// How often it is looked at an end whose process lost its connection: longer than a receiver is given to come back, and a sender.
const ATTEMPTS: usize = 12;
const ATTEMPTS_SENDER: usize = 18;

/// What shall be free.
#[derive(Debug, Clone, Copy)]
enum Asks {
    Nothing,
    Sender,
    /// And takes it.
    Reserve,
    Receiver,
}

impl Edge {
    /// Connects once and makes the stream of the edge, so that what is wrong with the broker is known before anything runs. Blocks its thread, for seconds if no answer comes.
    ///
    /// # Errors
    /// If the broker cannot be used.
    pub fn check(&self) -> Result<(), NatsError> {
        self.ask(Asks::Nothing)
    }

    /// As [`check`](Self::check), and asks whether another process [sends](crate::publish) to the edge. One of another machine that has lost its connection is given 8 s to come back.
    ///
    /// # Errors
    /// If the broker cannot be used, or another process sends.
    pub fn check_sender(&self) -> Result<(), NatsError> {
        self.ask(Asks::Sender)
    }

    /// As [`check_sender`](Self::check_sender), and takes the sending end for this process: of several that do so at the same time one succeeds. The next [`publish`](crate::publish) of this process uses it. It
    /// is free again when the process has ended.
    ///
    /// # Errors
    /// If the broker cannot be used, or another process sends.
    pub fn reserve_sender(&self) -> Result<(), NatsError> {
        self.ask(Asks::Reserve)
    }

    /// As [`check`](Self::check), and asks whether another process [receives](crate::subscribe) from the edge. One that has lost its connection is given some seconds to come back.
    ///
    /// # Errors
    /// If the broker cannot be used, or another process receives.
    pub fn check_receiver(&self) -> Result<(), NatsError> {
        self.ask(Asks::Receiver)
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
                        Asks::Sender => no_sender(&edge, &link, false).await,
                        Asks::Reserve => no_sender(&edge, &link, true).await,
                        Asks::Receiver => no_receiver(&edge, &link, &stream).await,
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
    for done in 0.. {
        let looked = claim.check(link, edge, stream).await;
        if known(edge, looked, done == ATTEMPTS)? {
            break;
        }
        sleep(connect::backoff(done)).await;
    }
    Ok(())
}

async fn no_sender(edge: &Edge, link: &Link, reserves: bool) -> Result<(), NatsError> {
    let mut lock = Lock::new();
    for done in 0.. {
        let looked = match reserves {
            true => lock.take(link, edge, Stage::Reserved).await,
            false => lock.check(link, edge).await,
        };
        if known(edge, looked, done == ATTEMPTS_SENDER)? {
            break;
        }
        sleep(connect::backoff(done)).await;
    }
    Ok(())
}

/// Whether an end can be had; false if it is not known yet.
fn known(edge: &Edge, looked: Result<(), NotYet>, is_last: bool) -> Result<bool, NatsError> {
    match looked {
        Ok(()) => Ok(true),
        Err(NotYet::Never(error)) => Err(error),
        Err(NotYet::Later(why)) if is_last => Err(NatsError::Unreachable { broker: edge.address().broker(), why }),
        Err(NotYet::Later(_)) => Ok(false),
    }
}
