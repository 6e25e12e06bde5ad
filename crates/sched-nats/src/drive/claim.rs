//! Who receives from an edge, and its consumer.
//!
//! Room: driver. Knows async-nats; knows nothing of packs.
//!
//! # Invariant
//! At most one process receives: the one that has the lock of the receiving end ([`Lock`]). The consumer at the broker is its own.
//!
//! # Why it holds
//! A process makes sure of the lock before it removes a consumer and makes its own, whenever it begins to fetch. A work queue has one consumer at most, and each process makes it under a name of its own. So a process that has
//! just lost the lock, and does not know it yet, is refused by the broker, or its consumer is removed by the holder; it then begins to fetch anew, and hears that the lock is gone.
//!
//! # Rejected
//! One name for all: a process that has lost the lock would fetch from the consumer of the next.
//! The consumer as the lock: see `drive/lock.rs`.

use std::time::Duration;

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::pull::{Config, Stream as Messages};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, Info};
use async_nats::jetstream::stream::{ConsumerErrorKind, Stream};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::drive::connect::{self, Link};
use crate::drive::lock::{Lock, NotYet};
use crate::drive::presence::{self, End, Presence};
use crate::drive::process::Process;
use crate::edge::Edge;
use crate::error::NatsError;

/// How the names of consumers of edges begin.
const NAME: &str = "bursar";
/// How long the broker waits for an acknowledgement; what takes longer is reported to it meanwhile.
const ACK_WAIT: Duration = Duration::from_secs(30);
/// Packs that the broker sends without being asked again.
const FETCH: usize = 64;
/// Signs of life of the broker while there is nothing to fetch.
const HEARTBEAT: Duration = Duration::from_secs(3);
const EXPIRES: Duration = Duration::from_secs(30);

/// A receiver that wants the end, or has it.
pub(crate) struct Claim {
    name: String,
    lock: Lock,
    /// Packs of the stream up to this one were given to an earlier process. None before it was looked.
    given: Option<u64>,
    /// An earlier process ended, and told what of this session is missing before this number.
    told: Option<(u64, u64)>,
    /// When the stream was made. One that is made anew counts from 1, and nothing of it was given to others.
    made: Option<String>,
    presence: Option<Presence>,
}

impl Claim {
    pub(crate) fn new(id: u64) -> Self {
        Self {
            name: format!("{NAME}_{id:016x}"),
            lock: Lock::new(End::Receiver),
            given: None,
            told: None,
            made: None,
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
        let stream = match self.given {
            None => connect::stream(link, edge).await?,
            Some(_) => connect::stream_again(link, edge).await?,
        };
        self.lock.renew(link, edge).await?;
        if self.presence.is_none() {
            let answer = Process::this().to_json();
            let subject = presence::subject(edge, End::Receiver);
            let presence = Presence::begin(&link.client, subject, move || answer.clone()).await;
            self.presence = Some(presence.map_err(NotYet::Later)?);
        }
        let before = consumer(edge, &stream).await?;
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
        let consumer = self.make(edge, &stream).await?;
        let fetch = consumer.stream().max_messages_per_batch(FETCH).heartbeat(HEARTBEAT).expires(EXPIRES);
        fetch.messages().await.map_err(|error| NotYet::Later(connect::innermost(&error)))
    }

    /// Gives the end back: who comes next need not wait, nor tell again what of a session was missing before a number.
    pub(crate) async fn release(&mut self, link: &Link, edge: &Edge, told: Option<(u64, u64)>) {
        self.told = told.or(self.told);
        if let Ok(stream) = link.context.get_stream_no_info(edge.address().stream()).await
            && self.presence.is_some()
        {
            let _ = self.make(edge, &stream).await;
        }
        // Before we stop to answer: or the next receiver takes us for one that is away.
        self.lock.release(link, edge).await;
        if let Some(presence) = self.presence.take() {
            presence.end().await;
        }
    }

    /// Makes our consumer, or changes what is written on it.
    async fn make<I>(&self, edge: &Edge, stream: &Stream<I>) -> Result<Consumer<Config>, NotYet> {
        let given = self.given.unwrap_or(0);
        let holder = Holder { given, told: self.told };
        let made = stream.create_consumer(config(&self.name, holder.written())).await;
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
}

/// The consumer of an earlier receiver, if there is one.
///
/// # Errors
/// If it is none of an edge.
pub(crate) async fn consumer(edge: &Edge, stream: &Stream) -> Result<Option<Info>, NotYet> {
    let Some(found) = stream.consumers().next().await else { return Ok(None) };
    let found = found.map_err(|error| NotYet::Later(connect::innermost(&error)))?;
    if !found.name.starts_with(NAME) {
        return Err(NotYet::Never(NatsError::ForeignConsumer {
            address: edge.address().to_string(),
            stream: edge.address().stream(),
            consumer: found.name,
        }));
    }
    Ok(Some(found))
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

/// What is written on a consumer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Holder {
    /// What it knew to be given to earlier processes.
    given: u64,
    /// Those that ended told what of this session is missing before this number.
    told: Option<(u64, u64)>,
}

impl Holder {
    fn written(&self) -> String {
        json!({ "given": self.given, "told": self.told }).to_string()
    }

    fn read(text: &str) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        Self {
            given: value["given"].as_u64().unwrap_or(0),
            told: value["told"][0].as_u64().zip(value["told"][1].as_u64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_on_a_consumer_is_read_again_and_anything_else_is_nothing() {
        let holder = Holder { given: 7, told: Some((u64::MAX, 8)) };
        assert_eq!(Holder::read(&holder.written()), holder);
        for text in ["", "a consumer", "[1]", "{\"told\": 3}"] {
            assert_eq!(Holder::read(text), Holder::default(), "{text}");
        }
    }
}
