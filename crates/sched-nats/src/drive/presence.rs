//! How a process at an end of an edge is asked whether it is there.
//!
//! Room: driver. Knows async-nats; knows nothing of streams and packs.
//!
//! # Invariant
//! While a process holds an end, and is connected, it answers on the subject of that end. The broker itself says when no process listens there: so a process that was killed is known to be away as soon as its
//! connection has ended, and no time is waited.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::{Client, Request};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::drive::connect::{self, Link};
use crate::drive::process::Process;
use crate::edge::Edge;
use crate::error::NatsError;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(1);
/// How often a process that listens and does not answer is asked: its connection may just be ending.
const ASKED: u32 = 2;
/// The pause before it is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// An end of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Sender,
    Receiver,
}

impl End {
    /// Who has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

/// The subject on which the process that has an end answers. No stream keeps it, and no two subjects share one.
pub(crate) fn subject(edge: &Edge, end: End) -> String {
    format!("_BURSAR.{}.{}", end.name(), edge.address().subject())
}

/// What was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heard {
    /// No process is connected there.
    Away,
    /// An answer.
    Answer(Value),
    /// A process is connected there, and does not answer: it was stopped, or is very busy.
    Silence,
}

impl Heard {
    /// Who that is, for people.
    pub(crate) fn said(&self) -> String {
        match self {
            Self::Answer(answer) => Process::from_json(answer).map_or_else(|| "it answers".to_owned(), |it| it.said()),
            Self::Silence => "it is connected and does not answer, as after SIGSTOP".to_owned(),
            Self::Away => "it is away".to_owned(),
        }
    }
}

/// Asks the process that has an end.
///
/// # Errors
/// If the connection was lost meanwhile, or we may not ask.
pub(crate) async fn ask(link: &Link, edge: &Edge, subject: String) -> Result<Heard, NatsError> {
    let client = &link.client;
    let lost = |why: String| NatsError::Unreachable { broker: edge.address().broker(), why };
    let connects = || client.statistics().connects.load(Relaxed);
    let before = connects();
    for attempt in 0..ASKED {
        if attempt > 0 {
            sleep(AGAIN).await;
        }
        let request = Request::new().timeout(Some(ANSWER));
        match client.send_request(subject.clone(), request).await {
            Ok(answer) => return Ok(Heard::Answer(serde_json::from_slice(&answer.payload).unwrap_or_default())),
            Err(error) if error.kind() == RequestErrorKind::NoResponders => return Ok(Heard::Away),
            Err(error) if error.kind() == RequestErrorKind::TimedOut => {}
            Err(error) => return Err(lost(connect::innermost(&error))),
        }
    }
    if let Some(error) = link.forbidden(edge) {
        return Err(error);
    }
    match client.connection_state() == State::Connected && before == connects() {
        true => Ok(Heard::Silence),
        false => Err(lost("the connection was lost".to_owned())),
    }
}

/// Answers, as long as it is not ended.
pub(crate) struct Presence {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Presence {
    /// Begins to answer on `subject` with `answer`.
    ///
    /// # Errors
    /// If the connection has ended for good.
    pub(crate) async fn begin(
        client: &Client,
        subject: String,
        answer: impl Fn() -> Value + Send + 'static,
    ) -> Result<Self, String> {
        let mut asked = client.subscribe(subject).await.map_err(|error| connect::innermost(&error))?;
        let (end, mut ended) = oneshot::channel();
        let client = client.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    // Also if it is dropped.
                    _ = &mut ended => break,
                    question = asked.next() => match question {
                        Some(question) => if let Some(reply) = question.reply {
                            let _ = client.publish(reply, answer().to_string().into()).await;
                        },
                        None => break,
                    },
                }
            }
            // Dropping it gives the subject back.
        });
        Ok(Self { end, task })
    }

    /// Ends it: what is sent after this comes to the broker after the end of the subscription.
    pub(crate) async fn end(self) {
        let _ = self.end.send(());
        let _ = self.task.await;
    }
}
