//! The task that sends: takes messages of a node, packs them, and sees to it that the broker has them.
//!
//! Room: driver. Knows sockets and clocks; what is sent when is decided in `decide/send.rs`.
//!
//! # Invariant
//! A message that the node handed over leaves its window when the broker has acknowledged it, and then only. Whenever one leaves, the node is woken *after*: so a node that found no room is asked again.
//!
//! # A stream that is gone
//! A new stream may be there after a lost connection, or after the broker refused a pack. Then the oldest is sent alone, and before that it is looked when the stream was made. So what was lost with the old
//! one is known before anything is in the new one, and all packs in it say so.
//!
//! # Two senders
//! One process sends ([`Lock`]). Whenever it may have lost that, it makes sure before the next pack: after a lost connection, after the broker refused a pack, and when another process writes that it sends.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use async_nats::header::{NATS_EXPECTED_LAST_MESSAGE_ID, NATS_MESSAGE_ID};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::{Event, HeaderMap, StatusCode, Subscriber};
use futures_util::StreamExt;
use sched_flow::{FarEnd, InFlight, LinkStats};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::decide::lost::Losses;
use crate::decide::send::{Pack, Refused, Sender};
use crate::drive::connect::{self, Link};
use crate::drive::lock::{self, Lock, NotYet, Stage};
use crate::drive::presence::{self, End, Presence};
use crate::drive::process::Process;
use crate::edge::Edge;
use crate::error::NatsError;
use crate::pack::{self, Head, Item};

/// Messages in a pack, at most.
const PACK_MESSAGES: usize = 512;
/// A pack takes no further message when it has so many bytes.
const PACK_BYTES: usize = 64 << 10;
/// How often it is looked whether the node is gone, with packs in the window and without any.
const LOOK: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(3600);
/// How long a sender at its end waits for a receiver to say whether it misses what may be lost. One that is there says it each quarter of a second.
const REPORT: Duration = Duration::from_secs(1);
/// What a node hands over.
pub(crate) enum Work {
    Item(Item),
    /// The stream ends.
    End,
}

/// What node and task share.
pub(crate) struct Shared {
    /// Bytes in the window.
    pub(crate) bytes: AtomicU64,
    /// The largest message that the broker takes; 0 before there was a connection.
    pub(crate) largest: AtomicU64,
    /// There is a connection.
    pub(crate) connected: AtomicBool,
    pub(crate) state: Mutex<State>,
}

/// How the task is.
#[derive(Default)]
pub(crate) struct State {
    /// Why it has ended, if it failed.
    pub(crate) failure: Option<NatsError>,
    /// Everything is with the broker, also the end.
    pub(crate) is_over: bool,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            bytes: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            connected: AtomicBool::new(false),
            state: Mutex::default(),
        }
    }

    pub(crate) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task.
pub(crate) struct SendTask {
    pub(crate) edge: Edge,
    pub(crate) session: u64,
    pub(crate) work: UnboundedReceiver<Work>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) in_flight: InFlight,
    pub(crate) waker: Waker,
}

/// What is known while it runs.
struct Sending {
    task: SendTask,
    window: Sender,
    /// The bytes of the packs in the window.
    packs: VecDeque<bytes::Bytes>,
    /// Messages that joined the window.
    queued: u64,
    ended: bool,
    stats: LinkStats,
    losses: Losses,
    /// When the stream was made.
    made: Option<String>,
    /// Whether it is still that one is not known.
    is_unsure: bool,
    lock: Lock,
    begun: Instant,
}

impl SendTask {
    /// Runs until everything is sent, or the node is gone.
    pub(crate) async fn run(self) {
        let stats = LinkStats { address: self.edge.address().to_string(), sends: true, ..LinkStats::default() };
        self.in_flight.set_link(stats.clone());
        let mut sending = Sending {
            task: self,
            window: Sender::new(),
            packs: VecDeque::new(),
            queued: 0,
            ended: false,
            stats,
            losses: Losses::default(),
            made: None,
            is_unsure: true,
            lock: Lock::new(End::Sender),
            begun: Instant::now(),
        };
        let outcome = sending.run().await;
        let task = &sending.task;
        {
            let mut state = task.shared.state();
            state.is_over = true;
            state.failure = outcome.err();
        }
        task.in_flight.waits_for(None);
        task.waker.wake_by_ref();
    }
}

impl Sending {
    async fn run(&mut self) -> Result<(), NatsError> {
        let Some(mut link) = self.connect().await? else { return Ok(()) };
        let presence = self.begin(&link).await?;
        let outcome = self.work(&mut link).await;
        let ends = async {
            // Before we stop to answer: or the next sender takes us for one that is away.
            if !outcome.as_ref().is_err_and(NatsError::is_taken) {
                self.lock.release(&link, &self.task.edge).await;
            }
            presence.end().await;
            let _ = link.client.flush().await; // the next sender asks at once
        };
        let _ = timeout(LOOK, ends).await;
        outcome
    }

    /// Answers from now on when a sender is asked for.
    async fn begin(&self, link: &Link) -> Result<Presence, NatsError> {
        let edge = &self.task.edge;
        let answer = Process::this().to_json();
        let presence = Presence::begin(&link.client, presence::subject(edge, End::Sender), move || answer.clone());
        presence.await.map_err(|why| NatsError::Unreachable { broker: edge.address().broker(), why })
    }

    async fn work(&mut self, link: &mut Link) -> Result<(), NatsError> {
        let inbox = link.client.new_inbox();
        let mut answers = self.subscribe(link, format!("{inbox}.*")).await?;
        let mut reports = self.subscribe(link, connect::reports(&self.task.edge)).await?;
        let mut records = self.subscribe(link, lock::subject(&self.task.edge, End::Sender)).await?;
        let mut incoming = Vec::new();
        loop {
            let now = self.begun.elapsed();
            if self.window.tick(now) {
                self.is_unsure = true;
                let why = link.forbidden(&self.task.edge).map(|error| error.to_string());
                self.away(Some(why.unwrap_or_else(|| "it does not acknowledge".to_owned())));
            }
            while let Some(send) = self.window.next(now) {
                if self.is_unsure && !self.is_sure(link).await? {
                    break;
                }
                self.publish(link, &inbox, send).await;
            }
            if self.ended && self.window.is_empty() {
                let waits = async {
                    while self.losses.is_guess()
                        && let Some(report) = reports.next().await
                    {
                        self.reported(&report.payload);
                    }
                };
                let _ = timeout(REPORT, waits).await; // else what may be lost counts as lost
                return Ok(());
            }
            // With a full window the work is not looked at, and so not whether the node is gone.
            let look = if self.window.is_empty() { IDLE } else { LOOK };
            let due = self.begun + self.window.due().map_or(now + look, |due| due.min(now + look));
            if self.task.work.is_closed() && !self.window.is_empty() {
                return Ok(()); // the node is gone
            }
            tokio::select! {
                biased;
                Some(event) = link.events.recv() => self.connection(link, event)?,
                Some(answer) = answers.next() => {
                    self.answer(&answer);
                    // What came with it needs no further turn.
                    while let Some(Some(answer)) = futures_util::FutureExt::now_or_never(answers.next()) {
                        self.answer(&answer);
                    }
                }
                taken = self.task.work.recv_many(&mut incoming, PACK_MESSAGES), if !self.ended && self.window.has_room() => {
                    if taken == 0 {
                        return Ok(()); // the node is gone
                    }
                    self.pack(&mut incoming);
                }
                Some(record) = records.next(), if !self.is_unsure => {
                    if !self.lock.wrote(&record.payload) {
                        self.is_unsure = !self.is_sure(link).await?;
                    }
                }
                Some(report) = reports.next() => self.reported(&report.payload),
                () = sleep_until(due) => {}
            }
        }
    }

    /// Connects, as long as it takes. None if the node goes meanwhile.
    async fn connect(&mut self) -> Result<Option<Link>, NatsError> {
        for attempt in 0.. {
            let made = async {
                let link = connect::connect(&self.task.edge).await?;
                connect::stream(&link, &self.task.edge).await?;
                let taken = self.lock.take(&link, &self.task.edge, Stage::Holds).await;
                Ok((link, taken))
            };
            match made.await {
                Ok((link, Ok(()))) => {
                    self.fits(&link);
                    self.away(None);
                    self.connected(true);
                    return Ok(Some(link));
                }
                Ok((_, Err(NotYet::Later(why)))) | Err(NatsError::Unreachable { why, .. }) => self.away(Some(why)),
                Ok((_, Err(NotYet::Never(error)))) | Err(error) => return Err(error),
            }
            sleep(connect::backoff(attempt)).await;
            if self.task.work.is_closed() {
                return Ok(None);
            }
        }
        Ok(None)
    }

    async fn subscribe(&self, link: &Link, subject: String) -> Result<Subscriber, NatsError> {
        link.client.subscribe(subject).await.map_err(|error| NatsError::Unreachable {
            broker: self.task.edge.address().broker(),
            why: connect::innermost(&error),
        })
    }

    /// Makes packs of what the node handed over.
    fn pack(&mut self, incoming: &mut Vec<Work>) {
        let mut items = Vec::with_capacity(incoming.len());
        let mut size = 0;
        for work in incoming.drain(..) {
            match work {
                Work::Item(item) => {
                    let largest = self.task.shared.largest.load(SeqCst) as usize;
                    if !items.is_empty() && size + item.size() > PACK_BYTES.min(largest) {
                        self.push(&items, size, false);
                        items.clear();
                        size = 0;
                    }
                    size += item.size();
                    items.push(item);
                }
                Work::End => self.ended = true,
            }
        }
        if !items.is_empty() {
            self.push(&items, size, false);
        }
        if self.ended {
            self.push(&[], 0, true);
        }
    }

    fn push(&mut self, items: &[Item], size: usize, ends: bool) {
        let first = self.queued + 1;
        let lost = self.losses.told();
        let head = Head { session: self.task.session, first, count: items.len() as u32, ends, lost };
        self.queued += items.len() as u64;
        self.packs.push_back(pack::write(head, items).into());
        self.window.push(Pack { first, messages: items.len() as u64, bytes: size as u64 });
    }

    async fn publish(&mut self, link: &Link, inbox: &str, send: crate::decide::send::Send) {
        let session = self.task.session;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, pack::name(session, send.first));
        if let Some(after) = send.after {
            headers.insert(NATS_EXPECTED_LAST_MESSAGE_ID, pack::name(session, after));
        }
        if send.again {
            self.stats.resent += send.messages;
        }
        let reply = format!("{inbox}.{}-{}", self.window.attempt(), send.first);
        let subject = self.task.edge.address().subject().to_owned();
        let payload = self.packs[send.at].clone();
        if let Err(error) = link.client.publish_with_reply_and_headers(subject, reply, headers, payload).await {
            self.refused(self.window.attempt(), Refused::Again, &connect::innermost(&error));
        }
    }

    /// Looks whether we are the one that sends, and whether the stream is the one that has the packs so far. False if it cannot be seen, and nothing is sent now.
    ///
    /// # Errors
    /// If another process sends.
    async fn is_sure(&mut self, link: &Link) -> Result<bool, NatsError> {
        match self.lock.renew(link, &self.task.edge).await {
            Ok(()) => {}
            Err(NotYet::Never(error)) => return Err(error),
            Err(NotYet::Later(why)) => {
                self.refused(self.window.attempt(), Refused::Again, &why);
                return Ok(false);
            }
        }
        let stream = match connect::stream_again(link, &self.task.edge).await {
            Ok(stream) => stream,
            Err(error) => {
                self.refused(self.window.attempt(), Refused::Again, &error.to_string());
                return Ok(false);
            }
        };
        let made = stream.cached_info().created.to_string();
        if self.made.replace(made.clone()).is_some_and(|before| before != made) {
            self.losses.stream_gone(self.stats.stored);
            let lost = self.losses.told();
            self.stats.missing = lost.messages;
            self.task.in_flight.set_link(self.stats.clone());
            self.packs.iter_mut().for_each(|bytes| *bytes = pack::after(bytes, lost).into());
        }
        self.is_unsure = false;
        Ok(true)
    }

    /// The broker answered for a pack.
    fn answer(&mut self, answer: &async_nats::Message) {
        let about = answer.subject.rsplit_once('.').and_then(|(_, about)| about.split_once('-'));
        let Some((Ok(attempt), Ok(first))) = about.map(|(attempt, first)| (attempt.parse(), first.parse())) else {
            return;
        };
        if answer.status == Some(StatusCode::NO_RESPONDERS) {
            // It is starting, or the stream was removed.
            self.refused(attempt, Refused::Again, "JetStream does not answer");
            return;
        }
        match serde_json::from_slice::<Response<PublishAck>>(&answer.payload) {
            Ok(Response::Ok(_)) => self.acked(first),
            Ok(Response::Err { error }) if error.error_code() == ErrorCode::STREAM_WRONG_LAST_MESSAGE_ID => {
                self.refused(attempt, Refused::Again, "");
            }
            // The limits of the stream: the receiver makes room.
            Ok(Response::Err { error })
                if error.error_code() == ErrorCode::STREAM_STORE_FAILED && error.to_string().contains("maximum") =>
            {
                let why = format!("the stream is full, and its receiver slow or away ({error})");
                self.refused(attempt, Refused::Full, &why);
            }
            Ok(Response::Err { error }) => {
                self.refused(attempt, Refused::Again, &error.to_string());
            }
            Err(error) => {
                self.refused(attempt, Refused::Again, &format!("its answer cannot be read: {error}"));
            }
        }
    }

    /// The receiver says how far it is.
    fn reported(&mut self, text: &[u8]) {
        let mut words = std::str::from_utf8(text).unwrap_or_default().split(' ');
        let session = words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
        let mut number = || words.next().and_then(|word| word.parse().ok());
        if session == Some(self.task.session)
            && let (Some(received), Some(delivered), missing) = (number(), number(), number())
        {
            self.losses.reported(delivered, missing);
            let missing = missing.unwrap_or(0);
            self.stats.far = Some(FarEnd { received, delivered, missing });
            self.stats.missing = missing.max(self.losses.told().messages);
            self.task.in_flight.set_link(self.stats.clone());
        }
    }

    fn acked(&mut self, first: u64) {
        let (messages, bytes, packs) = self.window.acked(first, self.begun.elapsed());
        if packs == 0 {
            return;
        }
        self.packs.drain(..packs);
        self.stats.stored += messages;
        if self.stats.away.is_some() {
            self.away(None);
        }
        let task = &self.task;
        task.in_flight.set_link(self.stats.clone());
        task.shared.bytes.fetch_sub(bytes, SeqCst);
        task.in_flight.remove(messages as usize);
        task.waker.wake_by_ref();
    }

    fn refused(&mut self, attempt: u64, why: Refused, text: &str) -> bool {
        let is_new = self.window.refused(attempt, why, self.begun.elapsed());
        self.is_unsure |= is_new && why == Refused::Again;
        if is_new && !text.is_empty() {
            self.away(Some(text.to_owned()));
        }
        is_new
    }

    fn connection(&mut self, link: &Link, event: Event) -> Result<(), NatsError> {
        match event {
            Event::Connected => {
                self.fits(link);
                self.is_unsure = true;
                self.window.connected(self.begun.elapsed());
                self.connected(true);
                self.away(None);
            }
            Event::Disconnected => {
                self.window.disconnected();
                self.connected(false);
                self.stats.outages += 1;
                self.away(Some("the connection was lost".to_owned()));
            }
            Event::ClientError(error) if self.stats.away.is_some() => {
                if let Some(why) = connect::why_not(&error) {
                    self.away(Some(why));
                }
            }
            Event::ServerError(error) => {
                // What we may not hear will not pass, and nothing was taken yet. What we may not send waits, as for a broker that is away.
                let why = link.forbidden(&self.task.edge);
                if let Some(why) = why.filter(|_| error.to_string().contains("Subscription")) {
                    return Err(why);
                }
                self.away(Some(error.to_string()));
            }
            _ => {}
        }
        Ok(())
    }

    /// How much the broker takes at a time: another may, or the same after a restart. What is in the window already is packed anew if it does not fit.
    fn fits(&mut self, link: &Link) {
        let most = link.client.max_payload().saturating_sub(pack::HEADERS);
        self.task.shared.largest.store(most.saturating_sub(pack::HEAD + pack::EACH) as u64, SeqCst);
        // Room for what is lost meanwhile, in whatever head.
        if self.packs.iter().all(|bytes| bytes.len() + pack::LOST <= most) {
            return;
        }
        let parts: Vec<_> =
            self.packs.iter().flat_map(|bytes| pack::split(bytes, most.saturating_sub(pack::LOST))).collect();
        let pack = |(head, bytes): &(Head, Vec<u8>)| {
            let messages = u64::from(head.count);
            Pack { first: head.first, messages, bytes: (bytes.len() - head.size()) as u64 }
        };
        self.window.replace(parts.iter().map(pack), self.begun.elapsed());
        self.packs = parts.into_iter().map(|(_, bytes)| bytes.into()).collect();
    }

    /// Without a connection the node takes nothing: so the edge before it fills, and its policy decides.
    fn connected(&self, is: bool) {
        self.task.shared.connected.store(is, SeqCst);
        self.task.waker.wake_by_ref();
    }

    /// Notes why the broker cannot be used, or that it can.
    fn away(&mut self, why: Option<String>) {
        let broker = self.task.edge.address().broker();
        self.task.in_flight.waits_for(why.as_ref().map(|why| format!("the broker {broker}: {why}")));
        self.stats.away = why;
        self.task.in_flight.set_link(self.stats.clone());
    }
}
