//! The task that receives: fetches packs, hands them to the node, and acknowledges them when the next node has finished.
//!
//! Room: driver. Knows sockets and clocks; what is handed on and acknowledged is decided in `decide/receive.rs`.
//!
//! # Invariant
//! A pack is acknowledged to the broker after the next node has finished with its messages. What is not acknowledged when this process ends is given to the next one, in order.
//!
//! # Why it holds
//! The consumer at the broker is made anew ([`Claim::open`]) whenever packs may have been lost on their way: at the start, after a lost connection, after a gap. The stream keeps what is not acknowledged, so
//! the new consumer begins with the oldest of that, at once. An old one would wait 30 s for acknowledgements of a process that is gone, and give later packs meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use async_nats::Event;
use async_nats::jetstream::consumer::pull::MessagesErrorKind;
use async_nats::jetstream::message::{AckKind, Acker, Message};
use futures_util::StreamExt;
use sched_flow::{InFlight, LinkStats, Receipts};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::decide::receive::{Came, Decision, Position, Receiver};
use crate::drive::claim::Claim;
use crate::drive::connect::{self, Link};
use crate::drive::lock::NotYet;
use crate::drive::permit;
use crate::drive::presence::End;
use crate::edge::Edge;
use crate::error::NatsError;
use crate::pack::{self, Item};

/// How often the broker is told that the next node takes its time.
const ALIVE: Duration = Duration::from_secs(10);
/// How often the sender is told how far we are.
const REPORT: Duration = Duration::from_millis(250);
/// How long the last acknowledgements may take.
const LAST: Duration = Duration::from_secs(3);
/// What a node gets.
pub(crate) enum Arrived {
    Pack(Vec<Item>),
    /// The stream has ended.
    End,
}

/// How the task is.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) failure: Option<NatsError>,
}

/// Asks for the end: all that is finished is acknowledged, then it answers.
pub(crate) type Stop = oneshot::Sender<Box<dyn FnOnce() + Send>>;

/// The task.
pub(crate) struct ReceiveTask {
    pub(crate) edge: Edge,
    /// A number that no other receiver has.
    pub(crate) id: u64,
    pub(crate) packs: UnboundedSender<Arrived>,
    /// The node emitted a pack; so many messages in all.
    pub(crate) emitted: UnboundedReceiver<u64>,
    pub(crate) receipts: Arc<Receipts>,
    /// Messages were finished.
    pub(crate) progress: Arc<Notify>,
    pub(crate) stop: oneshot::Receiver<Box<dyn FnOnce() + Send>>,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) in_flight: InFlight,
    pub(crate) waker: Waker,
}

/// What is known while it runs.
struct Receiving {
    task: ReceiveTask,
    window: Receiver,
    /// How to acknowledge each pack of the window.
    ackers: VecDeque<Acker>,
    claim: Claim,
    ended: bool,
    stats: LinkStats,
    /// The connection was lost and is not made again.
    is_cut: bool,
    /// What the sender was told last.
    reported: Option<Position>,
    /// What to call when the end that was asked for is reached.
    answer: Option<Box<dyn FnOnce() + Send>>,
}

impl ReceiveTask {
    pub(crate) async fn run(self) {
        let (messages, bytes) = self.edge.credit();
        let stats = LinkStats { address: self.edge.address().to_string(), ..LinkStats::default() };
        self.in_flight.set_link(stats.clone());
        let mut receiving = Receiving {
            claim: Claim::new(self.id),
            task: self,
            window: Receiver::new(messages, bytes),
            ackers: VecDeque::new(),
            ended: false,
            stats,
            is_cut: false,
            reported: None,
            answer: None,
        };
        let outcome = receiving.run().await;
        let Receiving { task, answer, .. } = receiving;
        task.state.lock().unwrap_or_else(PoisonError::into_inner).failure = outcome.err();
        task.in_flight.waits_for(None);
        // The node learns of the end by this, so it is woken after.
        drop(task.packs);
        task.waker.wake_by_ref();
        if let Some(answer) = answer {
            answer();
        }
    }
}

impl Receiving {
    async fn run(&mut self) -> Result<(), NatsError> {
        let Some(mut link) = self.connect().await? else { return Ok(()) };
        let mut report = interval(REPORT);
        report.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut alive = interval(ALIVE);
        alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        'open: for attempt in 0.. {
            // What is asked now gets no answer, and that says nothing of the broker.
            while self.is_cut {
                tokio::select! {
                    biased;
                    asked = &mut self.task.stop => {
                        self.answer = asked.ok();
                        return self.finish(&link).await;
                    }
                    Some(event) = link.events.recv() => { self.connection(&link, event)?; }
                }
            }
            let mut messages = match self.claim.open(&link, &self.task.edge).await {
                Ok(messages) => messages,
                Err(NotYet::Never(error)) => return Err(error),
                Err(NotYet::Later(why)) => {
                    while let Ok(event) = link.events.try_recv() {
                        self.connection(&link, event)?;
                    }
                    if !self.is_cut {
                        self.away(Some(why));
                    }
                    if self.pause(connect::backoff(attempt)).await {
                        return self.finish(&link).await;
                    }
                    continue 'open;
                }
            };
            self.away(None);
            self.window.was_told(self.claim.told());
            loop {
                self.acknowledge().await;
                tokio::select! {
                    biased;
                    asked = &mut self.task.stop => {
                        self.answer = asked.ok();
                        return self.finish(&link).await;
                    }
                    Some(event) = link.events.recv() => if self.connection(&link, event)? { continue 'open },
                    () = self.task.progress.notified() => {}
                    Some(total) = self.task.emitted.recv() => {
                        self.window.emitted(total);
                        while let Ok(total) = self.task.emitted.try_recv() {
                            self.window.emitted(total);
                        }
                    }
                    came = messages.next(), if !self.is_cut && !self.ended && self.window.has_credit() => match came {
                        Some(Ok(message)) => if self.came(message).await { continue 'open },
                        Some(Err(error)) if error.kind() == MessagesErrorKind::MissingHeartbeat => {
                            self.away(Some("it gives no sign of life, as after SIGSTOP".to_owned()));
                            continue 'open;
                        }
                        // Also if someone removed the consumer: if that is a receiver it has the lock.
                        Some(Err(_)) | None => continue 'open,
                    },
                    _ = alive.tick() => {
                        self.reported = None; // a report may have been lost
                        self.report_alive().await;
                    }
                    _ = report.tick() => self.report(&link).await,
                }
            }
        }
        Ok(())
    }

    /// Waits, or until the end is asked for: then true.
    async fn pause(&mut self, time: Duration) -> bool {
        tokio::select! {
            asked = &mut self.task.stop => {
                self.answer = asked.ok();
                true
            }
            () = sleep(time) => false,
        }
    }

    /// Connects, as long as it takes. None if the end is asked for meanwhile.
    async fn connect(&mut self) -> Result<Option<Link>, NatsError> {
        for attempt in 0.. {
            match connect::connect(&self.task.edge).await {
                Ok(link) => return Ok(Some(link)),
                Err(NatsError::Unreachable { why, .. }) => self.away(Some(why)),
                Err(error) => return Err(error),
            }
            if self.pause(connect::backoff(attempt)).await {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// A pack came. True if the broker must be asked again.
    async fn came(&mut self, message: Message) -> bool {
        let stream_sequence = message.info().map_or(u64::MAX, |info| info.stream_sequence);
        let (message, acker) = message.split();
        let Some((head, mut items)) = pack::read(&message.payload) else {
            // It would come for ever.
            let _ = acker.ack_with(AckKind::Term).await;
            self.stats.foreign += 1;
            self.task.in_flight.set_link(self.stats.clone());
            return false;
        };
        let pack = Came {
            session: head.session,
            first: head.first,
            messages: u64::from(head.count),
            bytes: message.payload.len() as u64,
            given_before: self.claim.was_given(stream_sequence),
            lost: head.lost,
        };
        match self.window.came(pack) {
            Decision::HandOn { skip } => {
                items.drain(..skip as usize);
                self.ackers.push_back(acker);
                // To an ended node it is of no use; then it stays with the broker.
                let _ = self.task.packs.send(if head.ends { Arrived::End } else { Arrived::Pack(items) });
                self.ended |= head.ends;
                self.task.waker.wake_by_ref();
            }
            Decision::Acknowledge => drop(acker.ack().await),
            Decision::Held { at } => self.ackers[at] = acker,
            Decision::AskAgain => return true,
        }
        false
    }

    /// Acknowledges what is finished.
    async fn acknowledge(&mut self) {
        let (handled, finished) = (self.task.receipts.handled(), self.task.receipts.finished());
        let packs = self.window.progressed(handled, finished);
        for acker in self.ackers.drain(..packs) {
            // Without a connection it comes again, and is acknowledged then.
            let _ = acker.ack().await;
        }
        self.count();
    }

    fn count(&mut self) {
        let counts = self.window.counts();
        let stats = LinkStats {
            received: counts.received,
            delivered: self.task.receipts.finished().min(counts.received),
            redelivered: counts.redelivered,
            duplicates: counts.duplicates,
            missing: counts.missing,
            ..self.stats.clone()
        };
        if stats != self.stats {
            self.stats = stats;
            self.task.in_flight.set_link(self.stats.clone());
        }
    }

    /// Tells the sender how far we are, for its statistics, and to know what would be lost with the stream. It may not arrive.
    async fn report(&mut self, link: &Link) {
        let position = self.window.position();
        if let Some(Position { session, received, delivered, missing }) = position
            && self.reported != position
        {
            let text = format!("{session:016x} {received} {delivered} {missing}");
            let _ = link.client.publish(connect::reports(&self.task.edge), text.into()).await;
            self.reported = position;
        }
    }

    /// The next node takes its time: the broker shall not give these packs again meanwhile.
    async fn report_alive(&mut self) {
        for acker in &self.ackers {
            let _ = acker.ack_with(AckKind::Progress).await;
        }
    }

    /// The end was asked for: acknowledges what is finished, and gives the edge back. Without a connection neither can be told: what is not acknowledged comes again.
    ///
    /// # Errors
    /// If the broker does not permit an acknowledgement, also one of before.
    async fn finish(&mut self, link: &Link) -> Result<(), NatsError> {
        while let Ok(total) = self.task.emitted.try_recv() {
            self.window.emitted(total);
        }
        let (handled, finished) = (self.task.receipts.handled(), self.task.receipts.finished());
        let packs = self.window.progressed(handled, finished);
        let done: Vec<Acker> = self.ackers.drain(..packs).collect();
        self.count();
        if self.is_cut {
            return Ok(());
        }
        let edge = self.task.edge.clone();
        tokio::select! {
            biased;
            error = link.until_forbidden(&edge) => Err(error),
            _ = timeout(LAST, self.last(link, done)) => Ok(()),
        }
    }

    async fn last(&mut self, link: &Link, mut done: Vec<Acker>) {
        let last = done.pop();
        for acker in &done {
            let _ = acker.ack().await;
        }
        if let Some(last) = last {
            // An answer to the last one says that all before it arrived.
            let _ = last.double_ack().await;
        }
        // What was said of those before has come when this is answered.
        permit::probe(link, &self.task.edge, End::Receiver).await;
        self.report(link).await;
        let told = self.window.position().map(|position| (position.session, position.received + 1));
        self.claim.release(link, &self.task.edge, told).await;
        let _ = link.client.flush().await;
    }

    /// True if packs may have been lost on their way.
    fn connection(&mut self, link: &Link, event: Event) -> Result<bool, NatsError> {
        match event {
            Event::Connected if std::mem::take(&mut self.is_cut) => {
                self.away(None);
                return Ok(true);
            }
            Event::Disconnected => {
                self.is_cut = true;
                self.stats.outages += 1;
                self.away(Some("the connection was lost".to_owned()));
            }
            Event::ClientError(error) if self.stats.away.is_some() => {
                if let Some(why) = connect::why_not(&error) {
                    self.away(Some(why));
                }
            }
            Event::ServerError(error) => {
                // Without acknowledgements all would come again for ever. What was not acknowledged stays with the broker.
                if let Some(error) = link.forbidden(&self.task.edge) {
                    return Err(error);
                }
                self.away(Some(error.to_string()));
            }
            _ => {}
        }
        Ok(false)
    }

    /// Notes why the broker cannot be used, or that it can.
    fn away(&mut self, why: Option<String>) {
        let broker = self.task.edge.address().broker();
        self.task.in_flight.waits_for(why.as_ref().map(|why| format!("the broker {broker}: {why}")));
        self.stats.away = why;
        self.task.in_flight.set_link(self.stats.clone());
    }
}
