//! Whether the broker of an edge can be used, asked before anything runs.
//!
//! Room: driver.

use std::sync::mpsc;

use async_nats::jetstream::stream::Stream;
use tokio::time::sleep;

use crate::drive::claim::consumer;
use crate::drive::connect::{self, Link};
use crate::drive::engine::Engine;
use crate::drive::lock::{Lock, NotYet, Stage};
use crate::drive::permit;
use crate::drive::presence::End;
use crate::edge::Edge;
use crate::error::NatsError;

/// How often it is looked at an end whose process lost its connection: longer than that is given to come back.
const fn attempts(end: End) -> usize {
    match end {
        End::Sender => 18,
        End::Receiver => 12,
    }
}

/// What is asked of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Whether it is free.
    Free,
    /// And takes it.
    Reserve,
    /// Gives it back.
    GiveBack,
}

impl Edge {
    /// Connects once and makes the stream of the edge, so that what is wrong with the broker is known before anything runs. Blocks its thread, for seconds if no answer comes.
    ///
    /// # Errors
    /// If the broker cannot be used.
    pub fn check(&self) -> Result<(), NatsError> {
        self.ask(None)
    }

    /// As [`check`](Self::check), and asks whether another process [sends](crate::publish) to the edge. One of another machine that has lost its connection is given 8 s to come back.
    ///
    /// # Errors
    /// If the broker cannot be used, or another process sends.
    pub fn check_sender(&self) -> Result<(), NatsError> {
        self.ask(Some((End::Sender, Asks::Free)))
    }

    /// As [`check_sender`](Self::check_sender), and takes the sending end for this process: of several that do so at the same time one succeeds. The next [`publish`](crate::publish) of this process uses it. It
    /// is free again when the process has ended.
    ///
    /// # Errors
    /// If the broker cannot be used, or another process sends.
    pub fn reserve_sender(&self) -> Result<(), NatsError> {
        self.ask(Some((End::Sender, Asks::Reserve)))
    }

    /// Gives the sending end back that [`reserve_sender`](Self::reserve_sender) took, if no flow of this process uses it.
    pub fn release_sender(&self) {
        let _ = self.ask(Some((End::Sender, Asks::GiveBack))); // else the next one waits
    }

    /// As [`check`](Self::check), and asks whether another process [receives](crate::subscribe) from the edge. One that has lost its connection is given some seconds to come back.
    ///
    /// # Errors
    /// If the broker cannot be used, or another process receives.
    pub fn check_receiver(&self) -> Result<(), NatsError> {
        self.ask(Some((End::Receiver, Asks::Free)))
    }

    /// As [`check_receiver`](Self::check_receiver), and takes the receiving end for this process: of several that do so at the same time one succeeds. The next [`subscribe`](crate::subscribe) of this process uses
    /// it. It is free again when the process has ended.
    ///
    /// Who reserves several ends does that in the order of their addresses, and gives back what it has when one is refused: so of two processes that want the same ones, one gets all.
    ///
    /// # Errors
    /// If the broker cannot be used, or another process receives.
    pub fn reserve_receiver(&self) -> Result<(), NatsError> {
        self.ask(Some((End::Receiver, Asks::Reserve)))
    }

    /// Gives the receiving end back that [`reserve_receiver`](Self::reserve_receiver) took, if no flow of this process uses it.
    pub fn release_receiver(&self) {
        let _ = self.ask(Some((End::Receiver, Asks::GiveBack))); // else the next one waits
    }

    fn ask(&self, asks: Option<(End, Asks)>) -> Result<(), NatsError> {
        let engine = Engine::shared()?;
        let (sender, answer) = mpsc::channel();
        let edge = self.clone();
        engine.spawn(async move {
            let checked = async {
                let link = connect::connect(&edge).await?;
                let checked = async {
                    match asks {
                        None => connect::stream(&link, &edge).await.map(drop),
                        Some((end, Asks::GiveBack)) => {
                            Lock::new(end).give_back(&link, &edge).await;
                            Ok(())
                        }
                        Some((end, asks)) => {
                            let stream = connect::stream(&link, &edge).await?;
                            permit::probe(&link, &edge, end).await;
                            is_free(&edge, &link, &stream, end, asks == Asks::Reserve).await
                        }
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

/// Whether an end is free; and then takes it, if `reserves`.
async fn is_free(edge: &Edge, link: &Link, stream: &Stream, end: End, reserves: bool) -> Result<(), NatsError> {
    let mut lock = Lock::new(end);
    for done in 0.. {
        let looked = async {
            if end == End::Receiver {
                consumer(edge, stream).await?;
            }
            match reserves {
                true => lock.take(link, edge, Stage::Reserved).await,
                false => lock.check(link, edge).await,
            }
        };
        if known(edge, looked.await, done == attempts(end))? {
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
