//! Who sends to an edge: one process at a time.
//!
//! Room: driver. Knows async-nats; knows nothing of packs.
//!
//! # Invariant
//! At most one process sends. One that is there is never disturbed by another that begins, also while its connection is lost. One that was killed is followed at once on its machine, and after [`TERM`]
//! elsewhere.
//!
//! # Why it holds
//! The broker keeps a *record* for each edge, in a stream of its own: which process sends. It survives a restart of the broker. Who writes it names the number of the record that it has read, and the broker
//! refuses that if another was written meanwhile (compare and swap). So of two that read the same, one writes.
//!
//! The holder writes its record before its first pack, and again after each lost connection before the next pack. One that waits for it to be gone for [`TERM`] then reads a new record, or its own is refused; and
//! a holder whose record was replaced ends before it sends anything more.
//!
//! # A broker that lost its files
//! Then it has no record. The holder comes back within [`RETURN`] and writes a new one. So who makes the stream of records, which is done once for each broker, waits so long before the first record. Should a
//! second process have written its record nevertheless, the holder replaces it: it alone knows a stream of records that is gone. The second hears of that at once, and ends.
//!
//! # Rejected
//! To ask only who is there: just after a restart of the broker the first has no connection, and does not answer.
//! The description of the stream of the edge: it can be changed, and not compared. A bucket of keys: its subjects need a permission of their own.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::{NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, NATS_EXPECTED_STREAM};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::{Config, DiscardPolicy, LastRawMessageErrorKind, StorageType, Stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::drive::claim::NotYet;
use crate::drive::connect::{self, Link};
use crate::drive::presence::{self, End, Heard};
use crate::drive::process::Process;
use crate::edge::{Edge, number};
use crate::error::NatsError;

/// How long a sender of another machine that is not connected may take to come back: an attempt to connect that fails takes 5 s, and the pause before the next 1 s.
pub(crate) const TERM: Duration = Duration::from_secs(8);
/// How long a sender may take to come back to a broker that was restarted without its files. Its pauses between two attempts are 1 s at most.
const RETURN: Duration = Duration::from_millis(1500);
/// The stream of the records of all edges. No stream of an edge begins so.
const RECORDS: &str = "BURSAR-SENDERS";
/// What is kept of them at most. A record has some 250 bytes.
const RECORDS_BYTES: u64 = 1 << 20;

/// The locks of this process, by their numbers. What is not in it, and has a record of this process, is gone.
static HERE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

/// The subject of the record of an edge.
pub(crate) fn subject(edge: &Edge) -> String {
    format!("_BURSAR.sends.{}", edge.address().subject())
}

/// What a process does that has the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is about to send: any node of this process may.
    Reserved,
    /// It sends.
    Sends,
    /// It has ended.
    Over,
}

/// A sender that wants the end, or has it.
pub(crate) struct Lock {
    process: Process,
    number: u64,
    /// The number of our record, and when the stream was made that has it.
    held: Option<(u64, String)>,
    /// The number of a record whose process is away, and since when.
    away: Option<(u64, Instant)>,
    /// When we made the stream of records.
    made: Option<Instant>,
}

impl Lock {
    pub(crate) fn new() -> Self {
        let number = number();
        HERE.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
        Self { process: Process::this(), number, held: None, away: None, made: None }
    }

    /// Whether `text` is a record of ours.
    pub(crate) fn wrote(&self, text: &[u8]) -> bool {
        Record::read(text).number == self.number
    }

    /// Takes the end.
    pub(crate) async fn take(&mut self, link: &Link, edge: &Edge, stage: Stage) -> Result<(), NotYet> {
        let records = self.records(link, edge).await.map_err(NotYet::Never)?;
        let before = self.look(link, edge, &records).await?;
        self.write(link, edge, &records, before, stage).await
    }

    /// Whether the end can be had, without taking it.
    pub(crate) async fn check(&mut self, link: &Link, edge: &Edge) -> Result<(), NotYet> {
        let records = self.records(link, edge).await.map_err(NotYet::Never)?;
        self.look(link, edge, &records).await.map(drop)
    }

    /// Makes sure that the end is ours still, after the connection was lost or another wrote a record.
    pub(crate) async fn renew(&mut self, link: &Link, edge: &Edge) -> Result<(), NotYet> {
        let records = self.records(link, edge).await?;
        let Some((ours, made)) = self.held.clone() else { return self.take(link, edge, Stage::Sends).await };
        let now = records.cached_info().created.to_string();
        let is_same = made == now;
        let before = if is_same { ours } else { read(&records, edge).await?.map_or(0, |(number, _)| number) };
        let Err(refused) = self.write(link, edge, &records, before, Stage::Sends).await else { return Ok(()) };
        match read(&records, edge).await? {
            // Its answer was lost.
            Some((number, record)) if record.number == self.number => self.held = Some((number, now)),
            Some((number, record)) if is_same && number != ours => {
                return Err(taken(edge, record.said()));
            }
            None if is_same => self.held = Some((0, now)), // someone removed it
            _ => {}
        }
        Err(refused)
    }

    /// Gives the end back: who comes next need not wait.
    pub(crate) async fn release(&mut self, link: &Link, edge: &Edge) {
        let Some((ours, _)) = self.held.take() else { return };
        if let Ok(records) = link.context.get_stream(RECORDS).await {
            let _ = self.write(link, edge, &records, ours, Stage::Over).await; // else the next one waits
        }
    }

    /// The number of the record that may be replaced; 0 if there is none. Else why the end cannot be had.
    async fn look(&mut self, link: &Link, edge: &Edge, records: &Stream) -> Result<u64, NotYet> {
        let found = read(records, edge).await?;
        if let Some((number, record)) = &found
            && self.may_replace(record)
        {
            return Ok(*number);
        }
        let heard = presence::ask(link, edge, presence::subject(edge, End::Sender)).await?;
        let Some((number, record)) = found else {
            return match (heard, self.made) {
                (Heard::Away, Some(made)) if made.elapsed() < RETURN => Err(NotYet::Later(format!(
                    "the broker knows of no sender yet; one that was there before it was restarted may come back within {RETURN:?}"
                ))),
                (Heard::Away, _) => Ok(0),
                (other, _) => Err(taken(edge, other.said())),
            };
        };
        let is_gone = self.is_gone(&record);
        let is_ending = match &heard {
            Heard::Answer(answer) => is_gone && Process::from_json(answer) == record.process,
            Heard::Silence => is_gone,
            Heard::Away => false,
        };
        match heard {
            _ if is_ending => Err(NotYet::Later("the connection of the sender before is just ending".to_owned())),
            Heard::Away if is_gone => Ok(number),
            Heard::Answer(_) => Err(taken(edge, heard.said())),
            Heard::Silence => Err(taken(edge, format!("{}: {}", record.said(), heard.said()))),
            // It runs, so it comes back.
            Heard::Away if record.process.as_ref().is_some_and(Process::is_here) && !self.is_ours(&record) => {
                Err(taken(edge, record.said()))
            }
            Heard::Away => {
                let since = match self.away {
                    Some((known, since)) if known == number => since,
                    _ => self.away.insert((number, Instant::now())).1,
                };
                if since.elapsed() >= TERM {
                    return Ok(number);
                }
                Err(NotYet::Later(format!(
                    "{} sends to the edge, and is not connected; it may come back within {TERM:?}",
                    record.said()
                )))
            }
        }
    }

    /// Whether a record says that the end is ours, without asking anyone.
    fn may_replace(&self, record: &Record) -> bool {
        record.number == self.number || (record.stage == Stage::Reserved && self.is_ours(record))
    }

    /// Whether it is of this process.
    fn is_ours(&self, record: &Record) -> bool {
        record.process.as_ref() == Some(&self.process)
    }

    /// Whether who wrote it sends no more, for certain.
    fn is_gone(&self, record: &Record) -> bool {
        let is_here = || HERE.lock().unwrap_or_else(PoisonError::into_inner).contains(&record.number);
        record.stage == Stage::Over
            || record.process.as_ref().is_some_and(Process::is_gone)
            || (self.is_ours(record) && !is_here())
    }

    /// The stream of records, made if it is not there.
    async fn records(&mut self, link: &Link, edge: &Edge) -> Result<Stream, NatsError> {
        let records = connect::get_or_make(link, config()).await;
        let (records, is_new) = records.map_err(|error| connect::no_stream(edge, RECORDS_BYTES, &error))?;
        if is_new {
            self.made = Some(Instant::now());
        }
        Ok(records)
    }

    /// Writes our record in place of the one with the number `before`.
    async fn write(
        &mut self,
        link: &Link,
        edge: &Edge,
        records: &Stream,
        before: u64,
        stage: Stage,
    ) -> Result<(), NotYet> {
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, before.to_string());
        headers.insert(NATS_EXPECTED_STREAM, RECORDS);
        let record = Record { process: Some(self.process.clone()), number: self.number, stage };
        let written =
            async { link.context.publish_with_headers(subject(edge), headers, record.written().into()).await?.await };
        match written.await {
            Ok(ack) => {
                self.held = Some((ack.sequence, records.cached_info().created.to_string()));
                Ok(())
            }
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => {
                Err(NotYet::Later(format!("another process begins to send to {}", edge.address())))
            }
            // What is not permitted gets no answer.
            Err(error) => {
                Err(link.forbidden(edge).map_or_else(|| NotYet::Later(connect::innermost(&error)), NotYet::Never))
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        HERE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

fn taken(edge: &Edge, who: String) -> NotYet {
    NotYet::Never(NatsError::AnotherSender { address: edge.address().to_string(), who })
}

/// The record of an edge, and its number.
async fn read(records: &Stream, edge: &Edge) -> Result<Option<(u64, Record)>, NotYet> {
    match records.get_last_raw_message_by_subject(&subject(edge)).await {
        Ok(message) => Ok(Some((message.sequence, Record::read(&message.payload)))),
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
        Err(error) => Err(NotYet::Later(connect::innermost(&error))),
    }
}

fn config() -> Config {
    Config {
        name: RECORDS.to_owned(),
        description: Some("which processes send to edges of flows of Bursar".to_owned()),
        subjects: vec!["_BURSAR.sends.>".to_owned()],
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        max_bytes: RECORDS_BYTES as i64,
        max_messages_per_subject: 1,
        ..Config::default()
    }
}

/// What the broker keeps of who sends to an edge.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    process: Option<Process>,
    /// The number of its lock.
    number: u64,
    stage: Stage,
}

impl Record {
    fn written(&self) -> String {
        let process = self.process.as_ref().map_or(Value::Null, Process::to_json);
        let stage = match self.stage {
            Stage::Reserved => "reserved",
            Stage::Sends => "sends",
            Stage::Over => "over",
        };
        json!({ "sender": process, "lock": self.number, "stage": stage }).to_string()
    }

    /// Reads it again. All that may use the broker may have written it: what is no record is one of an unknown process, which is waited for.
    fn read(text: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(text).unwrap_or_default();
        let stage = match value["stage"].as_str() {
            Some("reserved") => Stage::Reserved,
            Some("over") => Stage::Over,
            _ => Stage::Sends,
        };
        Self { process: Process::from_json(&value["sender"]), number: value["lock"].as_u64().unwrap_or(0), stage }
    }

    /// Who that is, for people.
    fn said(&self) -> String {
        self.process.as_ref().map_or_else(|| "an unknown process".to_owned(), Process::said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lock: &Lock, stage: Stage) -> Record {
        Record { process: Some(lock.process.clone()), number: lock.number, stage }
    }

    #[test]
    fn a_record_is_read_again_and_anything_else_is_one_of_an_unknown_process() {
        for stage in [Stage::Reserved, Stage::Sends, Stage::Over] {
            let record = Record { process: Some(Process::this()), number: u64::MAX, stage };
            assert_eq!(Record::read(record.written().as_bytes()), record);
        }
        let unknown = Record { process: None, number: 0, stage: Stage::Sends };
        for text in ["", "a record", "[1]", "{\"stage\": 3}"] {
            assert_eq!(Record::read(text.as_bytes()), unknown, "{text}");
        }
    }

    #[test]
    fn what_a_process_reserved_its_nodes_take_and_what_one_of_them_has_no_other_takes() {
        let (first, second) = (Lock::new(), Lock::new());
        assert!(second.may_replace(&of(&first, Stage::Reserved)));
        assert!(!second.may_replace(&of(&first, Stage::Sends)));
        assert!(first.may_replace(&of(&first, Stage::Sends)), "its own");
        let elsewhere = Process::from_json(&json!({ "host": "h", "process": 1, "machine": "m", "started": 1 }));
        assert!(!second.may_replace(&Record { process: elsewhere, ..of(&first, Stage::Reserved) }));
    }

    #[test]
    fn a_lock_that_this_process_dropped_is_gone_and_one_that_it_has_is_not() {
        let (first, second) = (Lock::new(), Lock::new());
        let record = of(&first, Stage::Sends);
        assert!(!second.is_gone(&record));
        drop(first);
        assert!(second.is_gone(&record));
        assert!(second.is_gone(&of(&second, Stage::Over)));
    }
}
