//! A cell: a node and all that is needed to give it a turn.
//!
//! Room: driver. Knows the calls of a node; knows nothing of workers, bands and clocks.
//!
//! The worker that gives the turn has the cell to itself: the decisions give one turn of a node at a time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use policy_flow::{Band, Event, Outcome, Turn, Work};

use super::hooks::stops;

use crate::{
    error::{NodeError, NodeResult, OnError},
    graph::check::Target,
    message::{Control, Message, Time},
    node::{
        Produced,
        cx::Cx,
        inlet::{Body, Fate, Inlet, panicked},
        unit::{Hook, Unit, note},
    },
};

/// The backoff of a source after its first failure. It doubles with each further one.
const FIRST_BACKOFF: Duration = Duration::from_millis(1);
const MAX_BACKOFF: Duration = Duration::from_secs(1);

pub(crate) struct Cell {
    pub(crate) unit: Box<dyn Unit>,
    pub(crate) cx: Cx,
    pub(crate) control: Inlet<Control>,
    pub(crate) on_error: OnError,
    pub(crate) paced: bool,
    /// How often in a row a source failed; for other nodes, a tick or the end.
    pub(super) failed: u32,
    /// Some emitted messages are not accepted yet.
    unsent: bool,
    /// The last answer of a source, or its error.
    pub(super) answer: Option<Result<Produced, Arc<str>>>,
}

/// The error that stops the graph, if a turn had one.
pub(crate) type Fatal = Option<NodeError>;

impl Cell {
    pub(crate) fn new(unit: Box<dyn Unit>, cx: Cx, on_error: OnError, paced: bool) -> Self {
        Self { unit, cx, control: Inlet::new("control"), on_error, paced, failed: 0, unsent: false, answer: None }
    }

    /// Gives the node its turn. `target`: where the edge of this turn ends.
    pub(crate) fn turn(&mut self, turn: Turn, target: impl Fn(u32) -> (Target, usize), now: Time) -> (Outcome, Fatal) {
        self.guarded(|cell| cell.try_turn(turn, target, now))
    }

    /// Panics of the node itself are caught where it is called. What is left are payloads that panic when they are copied for another edge, or dropped by
    /// one. Then it is not known which edges have the message, so the graph stops.
    pub(super) fn guarded(&mut self, body: impl FnOnce(&mut Self) -> (Outcome, Fatal)) -> (Outcome, Fatal) {
        catch_unwind(AssertUnwindSafe(|| body(self))).unwrap_or_else(|panic| {
            let error = panicked(panic);
            note(&error, &mut self.cx);
            (Outcome { broke: true, ..Outcome::default() }, Some(error))
        })
    }

    fn try_turn(&mut self, turn: Turn, target: impl Fn(u32) -> (Target, usize), now: Time) -> (Outcome, Fatal) {
        self.begin(now, turn.band == Band::Control);
        let mut outcome = Outcome::default();
        let mut fatal = None;
        if let Work::Steer(edge) = turn.work {
            let mut steering = Steering(None);
            let (_, at) = target(edge);
            let (_, more) = self.control.serve(at, turn.budget, &OnError::Skip, &mut steering, &mut self.cx);
            outcome.more = more;
            outcome.steered = steering.0;
        } else if self.unsent && !self.unit.flush(&mut self.cx) || !self.unit.has_room(turn.budget as usize) {
            outcome.refused = true;
            outcome.more = true;
        } else {
            let fate = match turn.work {
                Work::Serve(edge) => {
                    let (mut fate, more) = self.serve(target(edge), turn.budget);
                    outcome.more = more;
                    for edge in turn.extra.edges() {
                        let spent = self.cx.log.handled + self.cx.log.errors;
                        let left = u64::from(turn.budget).saturating_sub(spent) as u32;
                        if left == 0
                            || self.cx.pace.over
                            || !matches!(fate, Fate::Continue)
                            || !self.unit.accepts()
                            || self.unit.room() == 0
                        {
                            break;
                        }
                        let more;
                        (fate, more) = self.serve(target(*edge), left);
                        outcome.extra_served += 1;
                        if more {
                            self.cx.log.filled.push(*edge);
                        }
                    }
                    fate
                }
                Work::Produce => self.produce(turn.budget, &mut outcome),
                Work::Tick => {
                    self.cx.log.ticked = true;
                    match self.hook(Hook::Tick) {
                        // A source with a cadence produces once a tick.
                        Fate::Continue if self.paced => self.produce(1, &mut outcome),
                        fate => fate,
                    }
                }
                Work::Wake => self.hook(Hook::Wake),
                Work::End => {
                    let fate = self.hook(Hook::End);
                    outcome.refused = matches!(fate, Fate::BackOff(_)); // `on_end` is called again
                    fate
                }
                Work::Flush | Work::Steer(_) => Fate::Continue,
            };
            fatal = apply(fate, &mut outcome);
        }
        self.finish(&mut outcome);
        (outcome, fatal)
    }

    pub(super) fn begin(&mut self, now: Time, of_control: bool) {
        self.cx.now = now;
        self.cx.log.clear();
        self.cx.pace.begin(now, of_control);
    }

    pub(super) fn finish(&mut self, outcome: &mut Outcome) {
        self.unsent = !self.unit.flush(&mut self.cx);
        outcome.unsent = self.unsent;
        outcome.blocked = self.unsent || !self.unit.has_room(1);
        outcome.accepts = self.unit.accepts();
        outcome.done = self.unit.is_done();
    }

    fn serve(&mut self, (target, at): (Target, usize), budget: u32) -> (Fate, bool) {
        let Target::Port(port) = target else { unreachable!("edges to `control` steer") };
        self.unit.serve(port, at, budget, &self.on_error, &mut self.cx)
    }

    fn produce(&mut self, budget: u32, outcome: &mut Outcome) -> Fate {
        match self.unit.produce(budget, &mut self.cx) {
            Ok(produced) => {
                self.failed = 0;
                self.answer = Some(Ok(produced));
                outcome.produced = Some(produced);
                Fate::Continue
            }
            Err(error) => {
                note(&error, &mut self.cx);
                self.answer = self.cx.log.last_error.clone().map(Err);
                outcome.produced = Some(Produced::More);
                if error.is_of_record() || error.is_for_good() {
                    self.failed = 0; // it read a record, or will read no more
                    if error.is_of_record() && self.on_error.has_dead_letters() {
                        self.unit.emit_dead_letter(&error, &mut self.cx);
                    }
                    let must_stop = error.is_for_good();
                    return self.fail(error, must_stop);
                }
                self.failed += 1;
                let pause = match &self.on_error {
                    OnError::Retry(retry) if self.failed <= retry.times => {
                        self.cx.log.retries += 1;
                        retry.pause(self.failed)
                    }
                    policy => {
                        let fate = stops(policy, error);
                        if !matches!(fate, Fate::Continue) {
                            return fate;
                        }
                        // It is asked again after a backoff, so that a source that always fails does not use up the CPU.
                        FIRST_BACKOFF.saturating_mul(1 << self.failed.min(16)).min(MAX_BACKOFF)
                    }
                };
                Fate::BackOff(self.cx.now + pause)
            }
        }
    }
}

pub(super) fn apply(fate: Fate, outcome: &mut Outcome) -> Fatal {
    match fate {
        Fate::Continue => {}
        Fate::BackOff(until) => outcome.backoff_until = Some(until),
        Fate::StopNode => outcome.broke = true,
        Fate::StopGraph(error) => {
            outcome.broke = true;
            return Some(error);
        }
    }
    None
}

/// Reads the control messages of a turn.
struct Steering(Option<Event>);

impl Body<Control> for Steering {
    fn call(&mut self, message: Message<Control>, _cx: &mut Cx) -> NodeResult {
        // Nothing undoes a stop.
        if self.0 != Some(Event::InputsEnded) {
            self.0 = Some(match message.payload {
                Control::Stop => Event::InputsEnded,
                Control::Pause => Event::Paused,
                Control::Resume => Event::Resumed,
            });
        }
        Ok(())
    }

    fn roll_back(&mut self, _call: u64) {}

    fn room(&self) -> usize {
        usize::MAX
    }

    fn accepts(&self) -> bool {
        true
    }
}
