//! The side that hears a policy service and believes nothing.
//!
//! Room: state. Knows messages and times as values; knows nothing of sockets, threads or clocks.
//!
//! ```text
//!            heard (1)
//!   Unheard ───────────▶ Alive ◀──────────────┐
//!                        │  │ silent (2)      │ heard (1)
//!              lost (3)  │  ▼                 │
//!                        │ Stale ─────────────┤
//!                        ▼  │ lost (3)        │
//!                       Gone ◀──────────────── (also from Stale)
//! ```
//! 1: a message that was not refused. 2: nothing for `stale_after`. 3: nothing for `gone_after`, or the connection ended.
//!
//! # Invariants
//! - The epoch in force passed all checks, and its number never falls.
//! - A message that is refused changes nothing but the log.
//! - The work for a second of messages is bounded: what comes too quickly is refused before it is looked at, and the connection is to be dropped.

use std::sync::Arc;

use policy_cpu::Nanos;

use super::check::Machine;
use super::epoch::Epoch;
use super::handle::PolicyHandle;
use super::log::{DecisionLog, Heard, Record, Verdict};
use super::rate::Rate;
use super::refusal::Refusal;
use super::set::PolicySet;

/// The longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 128 * 1024;
/// How far ahead the next number may be. So a lie cannot use up the numbers.
pub const EPOCH_STEP_MAX: u64 = 1 << 20;
/// The largest number of a first epoch: what every reader of JSON can hold.
pub const FIRST_EPOCH_MAX: u64 = 1 << 53;

/// Where a service stands, as its receiver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServiceState {
    /// It was never heard.
    Unheard,
    /// It was heard lately.
    Alive,
    /// It is connected, and says nothing.
    Stale,
    /// It is not connected, or has said nothing for long.
    Gone,
}

/// What moves a [`ServiceState`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Heard,
    Silent,
    Lost,
}

impl ServiceState {
    /// The only function that makes one `ServiceState` from another.
    const fn after(self, sign: Sign) -> ServiceState {
        use ServiceState as S;
        match (self, sign) {
            (_, Sign::Heard) => S::Alive,
            (S::Alive, Sign::Silent) => S::Stale,
            (S::Alive | S::Stale, Sign::Lost) => S::Gone,
            (S::Unheard | S::Stale | S::Gone, Sign::Silent) | (S::Unheard | S::Gone, Sign::Lost) => self,
        }
    }

    /// As it is written in files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            ServiceState::Unheard => "unheard",
            ServiceState::Alive => "alive",
            ServiceState::Stale => "stale",
            ServiceState::Gone => "gone",
        }
    }
}

/// What comes from a service, or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// There is a connection.
    Connected,
    /// It offers a policy under a number.
    Proposed {
        /// The number.
        number: u64,
        /// The policy.
        set: PolicySet,
    },
    /// It says that it is there, and which epoch it has.
    Heartbeat {
        /// The number.
        number: u64,
    },
    /// It sent bytes that are no message, or too many of them.
    Garbled(Refusal),
    /// The connection ended.
    Lost,
    /// Time has passed.
    Tick,
}

/// What the driver does.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "an ignored decision keeps a connection that should be dropped"]
#[non_exhaustive]
pub enum Decision {
    /// The policy is in force.
    Accepted {
        /// Its number.
        number: u64,
    },
    /// It is known already.
    Known,
    /// The service has an epoch that did not arrive: ask for it.
    Ask {
        /// Its number.
        number: u64,
    },
    /// Nothing has changed. With `hang_up` the connection is to be dropped.
    Refused {
        /// Why.
        reason: Refusal,
        /// Whether this service is not worth listening to for now.
        hang_up: bool,
    },
    /// The service says nothing.
    Stale,
    /// The service is not there: drop the connection, and try again later.
    Gone,
    /// Nothing happened.
    Nothing,
}

/// How long a service may say nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silence {
    /// After this it is stale.
    pub stale_after: Nanos,
    /// After this it is gone.
    pub gone_after: Nanos,
}

impl Default for Silence {
    /// Five and thirty heartbeats.
    fn default() -> Self {
        Silence { stale_after: 5_000_000_000, gone_after: 30_000_000_000 }
    }
}

/// How a receiver stands, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiverStatus {
    /// The epoch in force.
    pub epoch: u64,
    /// For how long it has been.
    pub age: Nanos,
    /// The service.
    pub service: ServiceState,
    /// How long ago it was heard, if it was.
    pub heard: Option<Nanos>,
    /// The largest number that the service named in a message that was not a lie by itself.
    pub offered: u64,
    /// How often anything was refused.
    pub refused: u64,
    /// Why, the last time.
    pub last_refusal: Option<String>,
}

/// Takes what a service sends, and decides what is in force.
///
/// ```
/// use policy_admission::service::{CpuProfile, Decision, Event, Machine, PolicySet, Receiver, Refusal, Silence};
///
/// let mut receiver = Receiver::new(Machine::new(2), Silence::default());
/// let policy = receiver.handle();
/// let mut fast = CpuProfile::new("fast");
/// fast.weight = 4096;
///
/// let proposal = Event::Proposed { number: 7, set: PolicySet::new(fast.clone()) };
/// assert_eq!(receiver.take(0, proposal), Decision::Accepted { number: 7 });
/// assert_eq!(policy.profile("anything").weight, 4096);
///
/// fast.weight = 0;
/// let Decision::Refused { reason, .. } = receiver.take(1, Event::Proposed { number: 8, set: PolicySet::new(fast) }) else { panic!() };
/// assert_eq!(reason.to_string(), "profile `fast`: weight is 0, but the minimum is 1");
/// assert_eq!(policy.epoch().number(), 7);
/// ```
#[derive(Debug)]
pub struct Receiver {
    machine: Machine,
    silence: Silence,
    handle: PolicyHandle,
    state: ServiceState,
    /// When the epoch in force came.
    accepted_at: Nanos,
    /// When the service was heard last, or connected.
    heard_at: Option<Nanos>,
    waits_since: Nanos,
    is_connected: bool,
    offered: u64,
    /// The number that was refused last for what it says: it is not asked for again.
    rejected: Option<u64>,
    messages: Rate,
    proposals: Rate,
    last_reason: Option<std::mem::Discriminant<Refusal>>,
    log: DecisionLog,
}

impl Receiver {
    /// A receiver under whose policy all work is normal.
    pub fn new(machine: Machine, silence: Silence) -> Self {
        Receiver {
            machine,
            silence,
            handle: PolicyHandle::default(),
            state: ServiceState::Unheard,
            accepted_at: 0,
            heard_at: None,
            waits_since: 0,
            is_connected: false,
            offered: 0,
            rejected: None,
            messages: Rate::new(64, 16),
            proposals: Rate::new(8, 2),
            last_reason: None,
            log: DecisionLog::default(),
        }
    }

    /// A receiver that begins with a policy of its own, as epoch 0.
    ///
    /// # Errors
    /// Everything that is wrong with the policy.
    pub fn starting_with(set: PolicySet, machine: Machine, silence: Silence) -> Result<Self, Vec<Refusal>> {
        let receiver = Receiver::new(machine, silence);
        receiver.handle.publish(Arc::new(Epoch::new(0, set, &machine)?));
        Ok(receiver)
    }

    /// What runtimes read.
    pub fn handle(&self) -> PolicyHandle {
        self.handle.clone()
    }

    /// Takes one event. The only function that changes what is in force.
    pub fn take(&mut self, now: Nanos, event: Event) -> Decision {
        match event {
            Event::Connected => {
                self.is_connected = true;
                self.waits_since = now;
                Decision::Nothing
            }
            Event::Proposed { number, set } => self.proposed(now, number, set),
            Event::Heartbeat { number } => self.heartbeat(now, number),
            Event::Garbled(reason) => {
                let _ = self.messages.take(now);
                // It is no policy service, or a broken one: the next connection tells.
                self.refuse(now, Heard::Garbage, None, reason, true)
            }
            Event::Lost => {
                self.is_connected = false;
                self.to(now, Sign::Lost, Heard::Disconnection);
                Decision::Gone
            }
            Event::Tick => self.tick(now),
        }
    }

    /// When it wants to hear a [`Tick`](Event::Tick) at the latest; never, if there is nothing to wait for.
    pub fn next_tick(&self) -> Option<Nanos> {
        let after = match self.state {
            ServiceState::Alive => self.silence.stale_after,
            _ => self.silence.gone_after,
        };
        self.is_connected.then(|| self.waits_since.saturating_add(after))
    }

    /// How it stands.
    pub fn status(&self, now: Nanos) -> ReceiverStatus {
        ReceiverStatus {
            epoch: self.in_force(),
            age: now.saturating_sub(self.accepted_at),
            service: self.state,
            heard: self.heard_at.map(|at| now.saturating_sub(at)),
            offered: self.offered,
            refused: self.log.refused(),
            last_refusal: self.log.last_refusal().map(|record| record.reason.clone()),
        }
    }

    /// What was decided, oldest first; bounded.
    pub fn log(&self) -> Vec<Record> {
        self.log.records()
    }

    fn in_force(&self) -> u64 {
        self.handle.epoch().number()
    }

    fn proposed(&mut self, now: Nanos, number: u64, set: PolicySet) -> Decision {
        if let Err(decision) = self.in_time(now, Heard::Proposal, number) {
            return decision;
        }
        let current = self.handle.epoch();
        if number == current.number() && number > 0 {
            if *current.set() == set {
                self.hear(now, Heard::Proposal, number);
                return Decision::Known;
            }
            return self.refuse(now, Heard::Proposal, Some(number), Refusal::EpochReused { number }, false);
        }
        if let Err(reason) = self.plausible(number) {
            return self.refuse(now, Heard::Proposal, Some(number), reason, false);
        }
        if let Err(reason) = self.proposals.take(now) {
            return self.refuse(now, Heard::Proposal, Some(number), reason.of("proposals"), false);
        }
        match Epoch::new(number, set, &self.machine) {
            Ok(epoch) => {
                self.handle.publish(Arc::new(epoch));
                (self.accepted_at, self.rejected) = (now, None);
                self.hear(now, Heard::Proposal, number);
                self.note(now, Heard::Proposal, Some(number), Verdict::Accepted, String::new(), false);
                Decision::Accepted { number }
            }
            Err(mut refusals) => {
                self.rejected = Some(number);
                self.offered = self.offered.max(number);
                self.refuse(now, Heard::Proposal, Some(number), refusals.swap_remove(0), false)
            }
        }
    }

    fn heartbeat(&mut self, now: Nanos, number: u64) -> Decision {
        if let Err(decision) = self.in_time(now, Heard::Heartbeat, number) {
            return decision;
        }
        let in_force = self.in_force();
        if number < in_force {
            return self.refuse(
                now,
                Heard::Heartbeat,
                Some(number),
                Refusal::EpochFell { offered: number, in_force },
                false,
            );
        }
        if number > in_force
            && let Err(reason) = self.plausible(number)
        {
            return self.refuse(now, Heard::Heartbeat, Some(number), reason, false);
        }
        self.hear(now, Heard::Heartbeat, number);
        match number > in_force && self.rejected != Some(number) {
            true => Decision::Ask { number },
            false => Decision::Known,
        }
    }

    /// Whether an honest service could have this number, and it is newer than the one in force.
    fn plausible(&self, number: u64) -> Result<(), Refusal> {
        let in_force = self.in_force();
        let limit = if in_force == 0 { FIRST_EPOCH_MAX } else { in_force.saturating_add(EPOCH_STEP_MAX) };
        match number {
            number if number <= in_force => Err(Refusal::EpochFell { offered: number, in_force }),
            number if number > limit => Err(Refusal::EpochJumped { offered: number, limit }),
            _ => Ok(()),
        }
    }

    fn in_time(&mut self, now: Nanos, heard: Heard, number: u64) -> Result<(), Decision> {
        let result = self.messages.take(now);
        result.map_err(|reason| self.refuse(now, heard, Some(number), reason.of("messages"), true))
    }

    fn tick(&mut self, now: Nanos) -> Decision {
        if !self.is_connected {
            return Decision::Nothing;
        }
        let silent = now.saturating_sub(self.waits_since);
        if silent >= self.silence.gone_after {
            self.is_connected = false;
            self.to(now, Sign::Lost, Heard::Silence);
            return Decision::Gone;
        }
        if silent >= self.silence.stale_after && self.to(now, Sign::Silent, Heard::Silence) {
            return Decision::Stale;
        }
        Decision::Nothing
    }

    /// Notes that the service said something that is not refused.
    fn hear(&mut self, now: Nanos, heard: Heard, number: u64) {
        self.offered = self.offered.max(number);
        self.heard_at = Some(now);
        self.waits_since = now;
        self.is_connected = true;
        self.to(now, Sign::Heard, heard);
    }

    /// Moves the state. Whether that is a change, which is then in the log.
    fn to(&mut self, now: Nanos, sign: Sign, heard: Heard) -> bool {
        let after = self.state.after(sign);
        let is_new = after != self.state;
        self.state = after;
        if is_new {
            let verdict = match after {
                ServiceState::Alive => Verdict::Alive,
                ServiceState::Stale => Verdict::Stale,
                ServiceState::Gone | ServiceState::Unheard => Verdict::Gone,
            };
            self.note(now, heard, None, verdict, String::new(), false);
        }
        is_new
    }

    fn refuse(&mut self, now: Nanos, heard: Heard, number: Option<u64>, reason: Refusal, hang_up: bool) -> Decision {
        let kind = std::mem::discriminant(&reason);
        let is_again = self.last_reason == Some(kind);
        let text = format!("{reason}; {}", reason.way_out());
        self.note(now, heard, number, Verdict::Refused, text, is_again);
        self.last_reason = Some(kind);
        Decision::Refused { reason, hang_up }
    }

    fn note(&mut self, at: Nanos, heard: Heard, number: Option<u64>, verdict: Verdict, reason: String, is_again: bool) {
        let in_force = self.in_force();
        let record = Record { sequence: 0, at, heard, number, verdict, in_force, reason, repeated: 0 };
        self.log.add(record, is_again);
    }
}
