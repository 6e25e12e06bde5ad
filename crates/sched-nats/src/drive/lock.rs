//! Who has an end of an edge: one process at a time.
//!
//! Room: driver. Knows async-nats; knows nothing of packs.
//!
//! # Invariant
//! At most one process sends, and at most one receives. One that is there is never disturbed by another that begins, also while its connection is lost. One that was killed is followed at once on its machine, and after [`term`]
//! elsewhere.
//!
//! # Why it holds
//! The broker keeps a *record* for each end of an edge, in a stream of its own: which process has it. It survives a restart of the broker. Who writes it names the number of the record that it has read, and the broker
//! refuses that if another was written meanwhile (compare and swap). So of two that read the same, one writes.
//!
//! The holder writes its record before its first pack, and again after each lost connection before the next pack. One that waits for it to be gone for [`term`] then reads a new record, or its own is refused; and
//! a holder whose record was replaced ends before it sends or receives anything more.
//!
//! # A broker that lost its files
//! Then it has no record. The holder comes back within [`RETURN`] and writes a new one. So who makes the stream of records, which is done once for each broker, waits so long before the first record. Should a
//! second process have written its record nevertheless, the holder replaces it: it alone knows a stream of records that is gone. The second hears of that at once, and ends.
//!
//! # Several ends
//! A process that wants several takes them in one order, that of their addresses. So of two that want the same ones, the one that has the first gets all.
//!
//! # Rejected
//! To ask only who is there: just after a restart of the broker the first has no connection, and does not answer.
//! The consumer of the edge: it is made when the flow has begun, and that is too late to refuse the flow.
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

use crate::drive::connect::{self, Link};
use crate::drive::presence::{self, End, Heard};
use crate::drive::process::Process;
use crate::edge::{Edge, number};
use crate::error::NatsError;

/// How long a process of another machine that is not connected may take to come back. The pauses between two attempts are 1 s at most. A sender is given longer: an attempt to connect that fails takes 5 s.
pub(crate) const fn term(end: End) -> Duration {
    match end {
        End::Sender => Duration::from_secs(8),
        End::Receiver => Duration::from_secs(4),
    }
}
/// How long a holder may take to come back to a broker that was restarted without its files. Its pauses between two attempts are 1 s at most.
const RETURN: Duration = Duration::from_millis(1500);
/// The stream of the records of all edges. No stream of an edge begins so.
const RECORDS: &str = "BURSAR-LOCKS";
/// What is kept of them at most. A record has some 250 bytes.
const RECORDS_BYTES: u64 = 1 << 20;

/// The locks of this process, by their numbers. What is not in it, and has a record of this process, is gone.
static HERE: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

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

/// The subject of the record of an end.
pub(crate) fn subject(edge: &Edge, end: End) -> String {
    format!("_BURSAR.lock.{}.{}", end.name(), edge.address().subject())
}

/// What a process does that has the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is about to begin: any node of this process may.
    Reserved,
    /// It sends, or receives.
    Holds,
    /// It has ended.
    Over,
}

/// A process that wants an end, or has it.
pub(crate) struct Lock {
    end: End,
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
    pub(crate) fn new(end: End) -> Self {
        let number = number();
        HERE.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
        Self { end, process: Process::this(), number, held: None, away: None, made: None }
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
        let Some((ours, made)) = self.held.clone() else { return self.take(link, edge, Stage::Holds).await };
        let now = records.cached_info().created.to_string();
        let is_same = made == now;
        let before = if is_same { ours } else { self.read(&records, edge).await?.map_or(0, |(number, _)| number) };
        let Err(refused) = self.write(link, edge, &records, before, Stage::Holds).await else { return Ok(()) };
        match self.read(&records, edge).await? {
            // Its answer was lost.
            Some((number, record)) if record.number == self.number => self.held = Some((number, now)),
            Some((number, record)) if is_same && number != ours => {
                return Err(self.taken(edge, record.said()));
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

    /// Gives back what this process reserved, if no node of it has taken it.
    pub(crate) async fn give_back(&mut self, link: &Link, edge: &Edge) {
        if let Ok(records) = link.context.get_stream(RECORDS).await
            && let Ok(Some((number, record))) = self.read(&records, edge).await
            && record.stage == Stage::Reserved
            && self.is_ours(&record)
        {
            let _ = self.write(link, edge, &records, number, Stage::Over).await; // else the next one waits
        }
    }

    /// The number of the record that may be replaced; 0 if there is none. Else why the end cannot be had.
    async fn look(&mut self, link: &Link, edge: &Edge, records: &Stream) -> Result<u64, NotYet> {
        let found = self.read(records, edge).await?;
        if let Some((number, record)) = &found
            && self.may_replace(record)
        {
            return Ok(*number);
        }
        let heard = presence::ask(link, edge, presence::subject(edge, self.end)).await?;
        let Some((number, record)) = found else {
            return match (heard, self.made) {
                (Heard::Away, Some(made)) if made.elapsed() < RETURN => Err(NotYet::Later(format!(
                    "the broker knows of no {} yet; one that was there before it was restarted may come back within {RETURN:?}",
                    self.end.name()
                ))),
                (Heard::Away, _) => Ok(0),
                (other, _) => Err(self.taken(edge, other.said())),
            };
        };
        let is_gone = self.is_gone(&record);
        let is_ending = match &heard {
            Heard::Answer(answer) => is_gone && Process::from_json(answer) == record.process,
            Heard::Silence => is_gone,
            Heard::Away => false,
        };
        match heard {
            _ if is_ending => {
                Err(NotYet::Later(format!("the connection of the {} before is just ending", self.end.name())))
            }
            Heard::Away if is_gone => Ok(number),
            Heard::Answer(_) => Err(self.taken(edge, heard.said())),
            Heard::Silence => Err(self.taken(edge, format!("{}: {}", record.said(), heard.said()))),
            // It runs, so it comes back.
            Heard::Away if record.process.as_ref().is_some_and(Process::is_here) && !self.is_ours(&record) => {
                Err(self.taken(edge, record.said()))
            }
            Heard::Away => {
                let since = match self.away {
                    Some((known, since)) if known == number => since,
                    _ => self.away.insert((number, Instant::now())).1,
                };
                let term = term(self.end);
                if since.elapsed() >= term {
                    return Ok(number);
                }
                Err(NotYet::Later(format!(
                    "{} has the end of the {}, and is not connected; it may come back within {term:?}",
                    record.said(),
                    self.end.name()
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

    /// Whether who wrote it has the end no more, for certain.
    fn is_gone(&self, record: &Record) -> bool {
        let is_here = || HERE.lock().unwrap_or_else(PoisonError::into_inner).contains(&record.number);
        record.stage == Stage::Over
            || record.process.as_ref().is_some_and(Process::is_gone)
            || (self.is_ours(record) && !is_here())
    }

    /// The stream of records, made if it is not there.
    async fn records(&mut self, link: &Link, edge: &Edge) -> Result<Stream, NatsError> {
        let records = connect::get_or_make(link, config()).await;
        let (records, is_new) = records.map_err(|error| connect::no_stream(link, edge, RECORDS_BYTES, &error))?;
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
        let written = async {
            link.context.publish_with_headers(subject(edge, self.end), headers, record.written().into()).await?.await
        };
        match written.await {
            Ok(ack) => {
                self.held = Some((ack.sequence, records.cached_info().created.to_string()));
                Ok(())
            }
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Err(NotYet::Later(format!(
                "another process takes the end of the {} of {}",
                self.end.name(),
                edge.address()
            ))),
            // What is not permitted gets no answer.
            Err(error) => {
                Err(link.forbidden(edge).map_or_else(|| NotYet::Later(connect::innermost(&error)), NotYet::Never))
            }
        }
    }

    /// The record of the end, and its number.
    async fn read(&self, records: &Stream, edge: &Edge) -> Result<Option<(u64, Record)>, NotYet> {
        match records.get_last_raw_message_by_subject(&subject(edge, self.end)).await {
            Ok(message) => Ok(Some((message.sequence, Record::read(&message.payload)))),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(NotYet::Later(connect::innermost(&error))),
        }
    }

    fn taken(&self, edge: &Edge, who: String) -> NotYet {
        let address = edge.address().to_string();
        NotYet::Never(match self.end {
            End::Sender => NatsError::AnotherSender { address, who },
            End::Receiver => NatsError::AnotherReceiver { address, who },
        })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        HERE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

fn config() -> Config {
    Config {
        name: RECORDS.to_owned(),
        description: Some("which processes have the ends of edges of flows of Bursar".to_owned()),
        subjects: vec!["_BURSAR.lock.>".to_owned()],
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        max_bytes: RECORDS_BYTES as i64,
        max_messages_per_subject: 1,
        ..Config::default()
    }
}

/// What the broker keeps of who has an end.
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
            Stage::Holds => "holds",
            Stage::Over => "over",
        };
        json!({ "process": process, "lock": self.number, "stage": stage }).to_string()
    }

    /// Reads it again. All that may use the broker may have written it: what is no record is one of an unknown process, which is waited for.
    fn read(text: &[u8]) -> Self {
        let value: Value = serde_json::from_slice(text).unwrap_or_default();
        let stage = match value["stage"].as_str() {
            Some("reserved") => Stage::Reserved,
            Some("over") => Stage::Over,
            _ => Stage::Holds,
        };
        Self { process: Process::from_json(&value["process"]), number: value["lock"].as_u64().unwrap_or(0), stage }
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
        for stage in [Stage::Reserved, Stage::Holds, Stage::Over] {
            let record = Record { process: Some(Process::this()), number: u64::MAX, stage };
            assert_eq!(Record::read(record.written().as_bytes()), record);
        }
        let unknown = Record { process: None, number: 0, stage: Stage::Holds };
        for text in ["", "a record", "[1]", "{\"stage\": 3}"] {
            assert_eq!(Record::read(text.as_bytes()), unknown, "{text}");
        }
    }

    #[test]
    fn what_a_process_reserved_its_nodes_take_and_what_one_of_them_has_no_other_takes() {
        let (first, second) = (Lock::new(End::Sender), Lock::new(End::Sender));
        assert!(second.may_replace(&of(&first, Stage::Reserved)));
        assert!(!second.may_replace(&of(&first, Stage::Holds)));
        assert!(first.may_replace(&of(&first, Stage::Holds)), "its own");
        let elsewhere = Process::from_json(&json!({ "host": "h", "process": 1, "machine": "m", "started": 1 }));
        assert!(!second.may_replace(&Record { process: elsewhere, ..of(&first, Stage::Reserved) }));
    }

    #[test]
    fn a_lock_that_this_process_dropped_is_gone_and_one_that_it_has_is_not() {
        let (first, second) = (Lock::new(End::Sender), Lock::new(End::Sender));
        let record = of(&first, Stage::Holds);
        assert!(!second.is_gone(&record));
        drop(first);
        assert!(second.is_gone(&record));
        assert!(second.is_gone(&of(&second, Stage::Over)));
    }
}
