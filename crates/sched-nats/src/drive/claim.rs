//! Who receives from an edge: one process at a time.
//!
//! Room: driver. Knows async-nats; knows nothing of packs.
//!
//! # Invariant
//! At most one process receives. One that is there is never disturbed by another that begins. One that was killed is followed at once on its machine, and after [`GRACE`] elsewhere.
//!
//! # Why it holds
//! The consumer at the broker is the lock: a work queue has one at most, and each process makes it under a name of its own. So of two that begin at the same time the broker refuses one. To take the lock
//! from another, its consumer is removed by its name; so one that was made meanwhile is not removed.
//!
//! The other is asked before that, on the subject of the end. It listens there before it makes its consumer, and until its connection ends. So this order leaves no gap: *look for a consumer, ask, listen,
//! remove, make*. A process that finds no consumer, because its owner is just making it anew, hears the owner's answer.
//!
//! No answer comes while the connection of the other is lost, as when the broker was restarted. It makes it again within [`GRACE`], if it is alive. Only of a process that is gone for certain
//! ([`Process::is_gone`]), and of one that gave the lock back, that is not waited for.
//!
//! # Rejected
//! One name for all: the one that begins removes the consumer of the other, and takes over from a healthy process to fail a moment later.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::pull::{Config, Stream as Messages};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, Info};
use async_nats::jetstream::stream::{ConsumerErrorKind, Stream};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::drive::connect::{self, Link};
use crate::drive::presence::{self, End, Heard, Presence};
use crate::drive::process::Process;
use crate::edge::Edge;
use crate::error::NatsError;

/// How long a receiver that is not connected may take to come back. Its pauses between two attempts are 1 s at most.
const GRACE: Duration = Duration::from_secs(4);
/// How the names of consumers of edges begin.
const NAME: &str = "bursar";
/// How long the broker waits for an acknowledgement; what takes longer is reported to it meanwhile.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Packs that the broker sends without being asked again.
const FETCH: usize = 64;
/// Signs of life of the broker while there is nothing to fetch.
const HEARTBEAT: Duration = Duration::from_secs(5);
const EXPIRES: Duration = Duration::from_secs(30);

/// Why the end is not ours now.
#[derive(Debug)]
pub(crate) enum NotYet {
    /// It will not be.
    Never(NatsError),
    /// It may be later: try again soon.
    Later(String),
}

impl From<NatsError> for NotYet {
    fn from(error: NatsError) -> Self {
        match error {
            NatsError::Forbidden { .. } => Self::Never(error),
            error => Self::Later(error.to_string()),
        }
    }
}

/// A receiver that wants the end, or has it.
pub(crate) struct Claim {
    name: String,
    process: Process,
    /// Packs of the stream up to this one were given to an earlier process. None before it was looked.
    given: Option<u64>,
    /// An earlier process ended, and told what of this session is missing before this number.
    told: Option<(u64, u64)>,
    /// When the stream was made. One that is made anew counts from 1, and nothing of it was given to others.
    made: Option<String>,
    /// A holder that is away, and since when.
    away: Option<(String, Instant)>,
    presence: Option<Presence>,
}

impl Claim {
    pub(crate) fn new(id: u64) -> Self {
        Self {
            name: format!("{NAME}_{id:016x}"),
            process: Process::this(),
            given: None,
            told: None,
            made: None,
            away: None,
            presence: None,
        }
    }

    /// Whether a pack of the stream was given to an earlier process.
    pub(crate) fn was_given(&self, sequence: u64) -> bool {
        self.given.is_some_and(|given| sequence <= given)
    }

    /// A session of which an earlier process told what is missing, and before which number.
    pub(crate) fn told(&self) -> Option<(u64, u64)> {
        self.told
    }

    /// Takes the end, and begins to fetch from the oldest message that is not acknowledged. Also again, after messages may have been lost on their way.
    pub(crate) async fn open(&mut self, link: &Link, edge: &Edge) -> Result<Messages, NotYet> {
        if let Some(presence) = self.presence.take() {
            presence.end().await; // or we hear ourselves
        }
        let stream = match self.given {
            None => connect::stream(link, edge).await?,
            Some(_) => connect::stream_again(link, edge).await?,
        };
        let before = self.look(link, edge, &stream).await?;
        let answer = self.process.to_json();
        let subject = presence::subject(edge, End::Receiver);
        let presence = Presence::begin(&link.client, subject, move || answer.clone()).await;
        self.presence = Some(presence.map_err(NotYet::Later)?);
        if let Some(before) = &before {
            let holder = Holder::read(before.config.description.as_deref().unwrap_or_default());
            if self.given.is_none() {
                // Only what was given before this process began came twice to the flow.
                self.given = Some(holder.given.max(before.delivered.stream_sequence));
                self.told = holder.told;
            }
            // Someone may have done so before us.
            let _ = stream.delete_consumer(&before.name).await;
        }
        let made = stream.cached_info().created.to_string();
        if self.made.replace(made.clone()).is_some_and(|before| before != made) {
            self.given = Some(0);
        }
        self.given.get_or_insert(0);
        let consumer = self.make(edge, &stream, false).await?;
        let fetch = consumer.stream().max_messages_per_batch(FETCH).heartbeat(HEARTBEAT).expires(EXPIRES);
        fetch.messages().await.map_err(|error| NotYet::Later(connect::innermost(&error)))
    }

    /// Gives the end back: who comes next need not wait, nor tell again what of a session was missing before a number.
    pub(crate) async fn release(&mut self, link: &Link, edge: &Edge, told: Option<(u64, u64)>) {
        self.told = told.or(self.told);
        if let Ok(stream) = link.context.get_stream_no_info(edge.address().stream()).await
            && self.presence.is_some()
        {
            let _ = self.make(edge, &stream, true).await;
        }
        if let Some(presence) = self.presence.take() {
            presence.end().await;
        }
    }

    /// Whether the end can be had, without taking it. A holder that stays away is written down as gone, so that it is waited for once.
    pub(crate) async fn check(&mut self, link: &Link, edge: &Edge, stream: &Stream) -> Result<(), NotYet> {
        let Some(before) = self.look(link, edge, stream).await? else { return Ok(()) };
        let text = before.config.description.as_deref().unwrap_or_default();
        let holder = Holder::read(text);
        if !holder.is_over {
            let config = Self::config(&before.name, Holder { is_over: true, ..holder }.written());
            let _ = stream.create_consumer(config).await; // if this fails it is waited for twice
        }
        Ok(())
    }

    /// The consumer that may be removed, if there is one. Else why the end cannot be had.
    async fn look(&mut self, link: &Link, edge: &Edge, stream: &Stream) -> Result<Option<Info>, NotYet> {
        let mut found = Vec::new();
        let mut consumers = stream.consumers();
        while let Some(consumer) = consumers.next().await {
            found.push(consumer.map_err(|error| NotYet::Later(connect::innermost(&error)))?);
        }
        match presence::ask(link, edge, presence::subject(edge, End::Receiver)).await? {
            Heard::Away => {}
            other => {
                return Err(NotYet::Never(NatsError::AnotherReceiver {
                    address: edge.address().to_string(),
                    who: other.said(),
                }));
            }
        }
        let Some(before) = found.into_iter().next() else { return Ok(None) };
        if !before.name.starts_with(NAME) {
            return Err(NotYet::Never(NatsError::ForeignConsumer {
                address: edge.address().to_string(),
                stream: edge.address().stream(),
                consumer: before.name,
            }));
        }
        let holder = Holder::read(before.config.description.as_deref().unwrap_or_default());
        if before.name == self.name || holder.is_over || holder.process.as_ref().is_some_and(Process::is_gone) {
            return Ok(Some(before));
        }
        let since = match &self.away {
            Some((name, since)) if *name == before.name => *since,
            _ => self.away.insert((before.name.clone(), Instant::now())).1,
        };
        if since.elapsed() >= GRACE {
            return Ok(Some(before));
        }
        let who = holder.process.map_or_else(|| "an earlier receiver".to_owned(), |process| process.said());
        Err(NotYet::Later(format!(
            "{who} receives from the edge, and is not connected; it may come back within {GRACE:?}"
        )))
    }

    /// Makes our consumer, or changes what is written on it.
    async fn make<I>(&self, edge: &Edge, stream: &Stream<I>, is_over: bool) -> Result<Consumer<Config>, NotYet> {
        let given = self.given.unwrap_or(0);
        let holder = Holder { process: Some(self.process.clone()), given, told: self.told, is_over };
        let made = stream.create_consumer(Self::config(&self.name, holder.written())).await;
        made.map_err(|error| match error.kind() {
            ConsumerErrorKind::JetStream(said)
                if [ErrorCode::CONSUMER_WQ_MULTIPLE_UNFILTERED, ErrorCode::CONSUMER_WQ_CONSUMER_NOT_UNIQUE]
                    .contains(&said.error_code()) =>
            {
                NotYet::Later(format!("another process begins to receive from {}", edge.address()))
            }
            _ => NotYet::Later(connect::innermost(&error)),
        })
    }

    fn config(name: &str, description: String) -> Config {
        Config {
            durable_name: Some(name.to_owned()),
            description: Some(description),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: ACK_WAIT,
            // The credit limits what is taken; see `has_credit`.
            max_ack_pending: -1,
            ..Config::default()
        }
    }
}

/// What is written on a consumer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Holder {
    process: Option<Process>,
    /// What it knew to be given to earlier processes.
    given: u64,
    /// Those that ended told what of this session is missing before this number.
    told: Option<(u64, u64)>,
    /// It gave the end back, or is known to be gone.
    is_over: bool,
}

impl Holder {
    fn written(&self) -> String {
        let process = self.process.as_ref().map_or(Value::Null, Process::to_json);
        json!({ "receiver": process, "given": self.given, "told": self.told, "over": self.is_over }).to_string()
    }

    fn read(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        Self {
            process: Process::from_json(&value["receiver"]),
            given: value["given"].as_u64().unwrap_or(0),
            told: value["told"][0].as_u64().zip(value["told"][1].as_u64()),
            is_over: value["over"].as_bool().unwrap_or(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_on_a_consumer_is_read_again_and_anything_else_is_no_process() {
        let holder = Holder { process: Some(Process::this()), given: 7, told: Some((u64::MAX, 8)), is_over: true };
        assert_eq!(Holder::read(&holder.written()), holder);
        for text in ["", "a consumer", "[1]", "{\"over\": 3}"] {
            assert_eq!(Holder::read(text), Holder::default(), "{text}");
        }
    }
}
