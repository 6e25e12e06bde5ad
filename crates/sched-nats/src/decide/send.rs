//! The sending half: which packs are with the broker and not acknowledged, and when they are sent again.
//!
//! Room: decisions. Knows packs by their numbers; knows nothing of sockets, clocks and payloads.
//!
//! # Invariant
//! The broker stores the packs of a session in their order, none left out. A pack leaves the window when the broker has it.
//!
//! # Why it holds
//! Every pack names the one before it, and the broker refuses it unless that is the last that it stored (`Nats-Expected-Last-Msg-Id`). So if one is lost or refused, all after it are refused, too. Then
//! nothing is sent until [`Sender::due`]; and then the oldest pack alone, which names none. When it is acknowledged the others follow. It may have been stored before: the broker drops it as a
//! duplicate by its name (`Nats-Msg-Id`), or, if the broker has forgotten that name, the receiver does by its number.
//! An acknowledgement of a pack covers those before it, from whatever attempt it comes: it was stored after them. If packs were [replaced](Sender::replace) by smaller ones, that of an old pack covers the new
//! one that begins with it. The others are sent; what the broker has of them already, the receiver drops by its number.
//!
//! # Rejected
//! To send only what was refused again: the broker would store it behind its successors.

use std::collections::VecDeque;
use std::time::Duration;

/// Packs that may be unacknowledged at a time. With packs of one message, as in a slow flow, more than a round trip takes; with full packs, far more than a connection holds.
pub(crate) const PACKS: usize = 256;
/// How long an acknowledgement may take.
pub(crate) const ACK_TIMEOUT: Duration = Duration::from_secs(5);
/// The first pause before sending again, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));
/// The longest pause while the stream is full: its consumer makes room at any time.
const PAUSE_FULL: Duration = Duration::from_millis(50);

/// A pack in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pack {
    /// The number of its first message; of a pack that ends the stream, the number that the next message would have.
    pub(crate) first: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// Why the broker did not take a pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The stream is full.
    Full,
    /// An earlier pack is not there, no answer came, or another failure that may pass.
    Again,
}

/// What is sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a pack that is not sent is never acknowledged"]
pub(crate) struct Send {
    /// Its place in the window, from the oldest.
    pub(crate) at: usize,
    pub(crate) first: u64,
    pub(crate) messages: u64,
    /// The pack before it, which must be the last that the broker has.
    pub(crate) after: Option<u64>,
    /// It was sent before.
    pub(crate) again: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Packs follow each other.
    Streams,
    /// The oldest is sent alone.
    Probes,
    /// Nothing is sent before this time.
    Waits { until: Duration },
}

/// The window of a session. Times are since its beginning.
#[derive(Debug)]
pub(crate) struct Sender {
    packs: VecDeque<(Pack, bool)>,
    /// So many of the oldest were sent in this attempt.
    sent: usize,
    mode: Mode,
    pause: Duration,
    /// Number of the attempt: answers of earlier ones that refuse are void.
    attempt: u64,
    /// When the oldest that was sent must be acknowledged.
    deadline: Duration,
    connected: bool,
    /// The newest pack that is known to be with the broker.
    newest: Option<u64>,
}

impl Sender {
    pub(crate) fn new() -> Self {
        Self {
            packs: VecDeque::new(),
            sent: 0,
            mode: Mode::Probes,
            pause: PAUSE.0,
            attempt: 0,
            deadline: Duration::MAX,
            connected: true,
            newest: None,
        }
    }

    /// Whether another pack may join the window.
    pub(crate) fn has_room(&self) -> bool {
        self.packs.len() < PACKS
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packs.is_empty()
    }

    pub(crate) fn attempt(&self) -> u64 {
        self.attempt
    }

    /// A pack joins the window.
    pub(crate) fn push(&mut self, pack: Pack) {
        debug_assert!(self.packs.back().is_none_or(|(last, _)| last.first + last.messages <= pack.first));
        self.packs.push_back((pack, false));
    }

    /// The broker takes smaller packs than before: these are in the window now, with the same messages in the same order. Each begins where an old one did, or within it.
    pub(crate) fn replace(&mut self, packs: impl IntoIterator<Item = Pack>, now: Duration) {
        self.packs = packs.into_iter().map(|pack| (pack, true)).collect();
        self.begin_again(now);
    }

    /// The next pack to send, if one may be sent now.
    pub(crate) fn next(&mut self, now: Duration) -> Option<Send> {
        if let Mode::Waits { until } = self.mode
            && now >= until
        {
            self.mode = Mode::Probes;
        }
        let may = match self.mode {
            Mode::Streams => usize::MAX,
            Mode::Probes => 1,
            Mode::Waits { .. } => 0,
        };
        if !self.connected || self.sent >= may.min(self.packs.len()) {
            return None;
        }
        let at = self.sent;
        // The one before it: in the window, or the last that left it.
        let after = at.checked_sub(1).map(|before| self.packs[before].0.first);
        let after = if self.mode == Mode::Streams { after.or(self.newest) } else { None };
        let (pack, was_sent) = &mut self.packs[at];
        let send =
            Send { at, first: pack.first, messages: pack.messages, after, again: std::mem::replace(was_sent, true) };
        if self.sent == 0 {
            self.deadline = now + ACK_TIMEOUT;
        }
        self.sent += 1;
        Some(send)
    }

    /// The broker has this pack, and so all before it. Returns the messages and bytes that leave the window, and how many packs.
    pub(crate) fn acked(&mut self, first: u64, now: Duration) -> (u64, u64, usize) {
        let covered = self.packs.iter().take_while(|(pack, sent)| *sent && pack.first <= first).count();
        let mut left = (0, 0, covered);
        for (pack, _) in self.packs.drain(..covered) {
            left.0 += pack.messages;
            left.1 += pack.bytes;
            self.newest = Some(pack.first);
        }
        if covered > 0 {
            self.sent = self.sent.saturating_sub(covered);
            self.pause = PAUSE.0;
            self.deadline = if self.sent > 0 { now + ACK_TIMEOUT } else { Duration::MAX };
            if self.mode == Mode::Probes {
                self.mode = Mode::Streams;
            }
        }
        left
    }

    /// The broker refused a pack of an attempt. False if that attempt is over.
    pub(crate) fn refused(&mut self, attempt: u64, why: Refused, now: Duration) -> bool {
        if attempt != self.attempt || matches!(self.mode, Mode::Waits { .. }) {
            return false;
        }
        let longest = if why == Refused::Full { PAUSE_FULL } else { PAUSE.1 };
        self.begin_again(now + self.pause.min(longest));
        self.pause = (self.pause * 2).min(PAUSE.1);
        true
    }

    /// The connection was lost: nothing is sent, and what was sent may not have arrived.
    pub(crate) fn disconnected(&mut self) {
        self.connected = false;
    }

    /// There is a connection again.
    pub(crate) fn connected(&mut self, now: Duration) {
        if !std::mem::replace(&mut self.connected, true) {
            self.begin_again(now);
        }
    }

    /// Time has passed. True if an acknowledgement is overdue, and all is sent again.
    pub(crate) fn tick(&mut self, now: Duration) -> bool {
        if !self.connected || self.sent == 0 || now < self.deadline {
            return false;
        }
        self.refused(self.attempt, Refused::Again, now)
    }

    /// When something is due without an event.
    pub(crate) fn due(&self) -> Option<Duration> {
        match self.mode {
            _ if !self.connected || self.packs.is_empty() => None,
            Mode::Waits { until } => Some(until),
            _ if self.sent > 0 => Some(self.deadline),
            _ => None,
        }
    }

    fn begin_again(&mut self, until: Duration) {
        self.attempt += 1;
        self.sent = 0;
        self.deadline = Duration::MAX;
        self.mode = Mode::Waits { until };
    }
}
