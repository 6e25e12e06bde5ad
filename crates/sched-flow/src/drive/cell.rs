//! A node and all that is needed to give it a turn.
//!
//! Room: drive. The worker that was given the turn has the cell to itself: the decisions hand out one turn of a node at a time.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use policy_flow::{Band, Event, Outcome, Turn, Work};

use crate::{
    error::{NodeError, NodeResult, OnError},
    graph::check::Place,
    message::{Control, Message, Time},
    node::{
        Produced,
        cx::Cx,
        inlet::{Body, Fate, Inlet, panic_of, panicked},
        unit::{Hook, Unit, call_hook, note},
    },
};

/// After a failure, a source is left alone for this long; twice as long after the next, and so on.
const FIRST_REST: Duration = Duration::from_millis(1);
const LONGEST_REST: Duration = Duration::from_secs(1);

pub(crate) struct Cell {
    pub(crate) unit: Box<dyn Unit>,
    pub(crate) cx: Cx,
    pub(crate) control: Inlet<Control>,
    pub(crate) on_error: OnError,
    pub(crate) paced: bool,
    /// How often in a row a source has failed, or a tick or the end of another node.
    failed: u32,
    /// Something that was emitted is not accepted yet.
    unsent: bool,
}

/// What is left of a turn besides its [`Outcome`]: the error that stops the graph.
pub(crate) type Fatal = Option<NodeError>;

impl Cell {
    pub(crate) fn new(unit: Box<dyn Unit>, cx: Cx, on_error: OnError, paced: bool) -> Self {
        Self { unit, cx, control: Inlet::new("control"), on_error, paced, failed: 0, unsent: false }
    }

    /// Gives the node its turn. `place`: where the edge of this turn ends.
    pub(crate) fn turn(&mut self, turn: Turn, place: impl Fn(u32) -> (Place, usize), now: Time) -> (Outcome, Fatal) {
        self.guarded(|cell| cell.try_turn(turn, place, now))
    }

    /// The node's own panics are dealt with where it is called. What is left are payloads that panic when they are copied for another edge, or dropped by
    /// one: nobody knows who has them and who has not, so the graph stops.
    fn guarded(&mut self, body: impl FnOnce(&mut Self) -> (Outcome, Fatal)) -> (Outcome, Fatal) {
        catch_unwind(AssertUnwindSafe(|| body(self))).unwrap_or_else(|panic| {
            let error = panicked(panic);
            note(&error, &mut self.cx);
            (Outcome { broke: true, ..Outcome::default() }, Some(error))
        })
    }

    fn try_turn(&mut self, turn: Turn, place: impl Fn(u32) -> (Place, usize), now: Time) -> (Outcome, Fatal) {
        self.begin(now, turn.band == Band::Control);
        let mut outcome = Outcome::default();
        let mut fatal = None;
        if let Work::Steer(edge) = turn.work {
            let mut steering = Steering(None);
            let (_, at) = place(edge);
            let (_, more) = self.control.serve(at, turn.budget, &OnError::Skip, &mut steering, &mut self.cx);
            outcome.more = more;
            outcome.steered = steering.0;
        } else if self.unsent && !self.unit.flush(&mut self.cx) || !self.unit.has_room(turn.budget as usize) {
            outcome.refused = true;
            outcome.more = true;
        } else {
            let fate = match turn.work {
                Work::Serve(edge) => {
                    let (mut fate, more) = self.serve(place(edge), turn.budget);
                    outcome.more = more;
                    for edge in turn.also.edges() {
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
                        (fate, more) = self.serve(place(*edge), left);
                        outcome.also += 1;
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
                    outcome.refused = matches!(fate, Fate::Rest(_)); // it is told again
                    fate
                }
                Work::Flush | Work::Steer(_) => Fate::Continue,
            };
            fatal = apply(fate, &mut outcome);
        }
        self.finish(&mut outcome);
        (outcome, fatal)
    }

    /// Calls `on_start`.
    pub(crate) fn start(&mut self, now: Time) -> (Outcome, Fatal) {
        self.guarded(|cell| {
            cell.begin(now, false);
            let mut outcome = Outcome::default();
            let fate = cell.hook(Hook::Start);
            let fatal = apply(fate, &mut outcome);
            cell.finish(&mut outcome);
            (outcome, fatal)
        })
    }

    /// Calls `on_stop`, ends the tasks of the node, and lets go of what it could not send. That, and what it still has in its custody, is lost.
    pub(crate) fn stop(&mut self, now: Time, was_started: bool) {
        self.begin(now, false);
        let Self { unit, cx, .. } = self;
        // This may be part of an unwinding already, where a second panic would abort the process.
        let mut safely = |what: &mut dyn FnMut(&mut dyn Unit, &mut Cx)| {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| what(&mut **unit, cx))) {
                note(&panic_of(panic), cx);
            }
        };
        if was_started {
            safely(&mut |unit, cx| {
                // Told by the counters. What could not be written at the end is lost, whatever the policy.
                if call_hook(unit, Hook::Stop, cx).is_err_and(|error| error.is_for_good()) {
                    cx.log.fail_for_good();
                }
            });
        }
        safely(&mut |unit, cx| {
            // What a source could not send it never took from anybody.
            if !unit.is_source() {
                cx.log.lost += unit.unsent() as u64;
            }
            unit.discard();
        });
        self.cx.host.end();
        // Its tasks have ended: nothing comes to a better end any more.
        self.cx.log.lost += self.cx.custody.take();
    }

    fn begin(&mut self, now: Time, of_control: bool) {
        self.cx.now = now;
        self.cx.log.clear();
        self.cx.pace.begin(now, of_control);
    }

    fn finish(&mut self, outcome: &mut Outcome) {
        self.unsent = !self.unit.flush(&mut self.cx);
        outcome.unsent = self.unsent;
        outcome.blocked = self.unsent || !self.unit.has_room(1);
        outcome.accepts = self.unit.accepts();
        outcome.done = self.unit.is_done();
    }

    fn serve(&mut self, (place, at): (Place, usize), budget: u32) -> (Fate, bool) {
        let Place::Port(port) = place else { unreachable!("edges to `control` steer") };
        self.unit.serve(port, at, budget, &self.on_error, &mut self.cx)
    }

    fn hook(&mut self, hook: Hook) -> Fate {
        match call_hook(&mut *self.unit, hook, &mut self.cx) {
            Ok(()) => {
                if matches!(hook, Hook::Tick | Hook::End) && !self.unit.is_source() {
                    self.failed = 0;
                }
                Fate::Continue
            }
            Err(error) => {
                if let Some(until) = self.tries_again(hook, &error) {
                    return Fate::Rest(until);
                }
                let starts = matches!(hook, Hook::Start);
                let error = if starts { error.for_good() } else { error };
                let must_stop = error.is_for_good() && (starts || self.unit.is_source());
                if error.is_of_record() && self.on_error.buries() {
                    self.unit.bury(&error, &mut self.cx);
                }
                self.fail(error, must_stop)
            }
        }
    }

    /// When a tick or the end of the node is tried again, if its policy says so. Meanwhile it takes no messages.
    fn tries_again(&mut self, hook: Hook, error: &NodeError) -> Option<Time> {
        let pause = pause_after(&self.on_error, hook, error, self.failed).filter(|_| !self.unit.is_source())?;
        self.failed += 1;
        self.cx.log.retries += 1;
        let until = self.cx.now + pause;
        if hook == Hook::Tick {
            self.cx.tick_at(until);
        }
        Some(until)
    }

    /// What becomes of the node after an error that no message is to blame for. It may have to stop, whatever the policy.
    fn fail(&mut self, error: NodeError, must_stop: bool) -> Fate {
        if error.is_for_good() {
            self.cx.log.fail_for_good();
        }
        match stops(&self.on_error, error) {
            Fate::Continue if must_stop => Fate::StopNode,
            fate => fate,
        }
    }

    fn produce(&mut self, budget: u32, outcome: &mut Outcome) -> Fate {
        match self.unit.produce(budget, &mut self.cx) {
            Ok(produced) => {
                self.failed = 0;
                outcome.produced = Some(produced);
                Fate::Continue
            }
            Err(error) => {
                note(&error, &mut self.cx);
                outcome.produced = Some(Produced::More);
                if error.is_of_record() || error.is_for_good() {
                    self.failed = 0; // it brought a record, or will bring no more
                    if error.is_of_record() && self.on_error.buries() {
                        self.unit.bury(&error, &mut self.cx);
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
                        // It is asked again, but a source that does nothing but fail must not eat the CPU.
                        FIRST_REST.saturating_mul(1 << self.failed.min(16)).min(LONGEST_REST)
                    }
                };
                Fate::Rest(self.cx.now + pause)
            }
        }
    }
}

/// How long a node waits before its tick or its end is tried again, after it failed `failed` times before: what it gathered from messages fails there, as they would have. None, if it is not.
pub(crate) fn pause_after(policy: &OnError, hook: Hook, error: &NodeError, failed: u32) -> Option<Duration> {
    let OnError::Retry(retry) = policy else { return None };
    let is_tried = matches!(hook, Hook::Tick | Hook::End) && !error.is_of_record() && failed < retry.times;
    is_tried.then(|| retry.pause(failed + 1))
}

/// What a policy says where there is no message to try again or to bury.
pub(crate) fn stops(policy: &OnError, error: NodeError) -> Fate {
    match policy {
        OnError::StopNode => Fate::StopNode,
        OnError::StopGraph => Fate::StopGraph(error),
        OnError::Retry(retry) if !matches!(*retry.then, OnError::Retry(_)) => stops(&retry.then, error),
        OnError::Skip | OnError::Retry(_) if error.is_for_good() => Fate::StopNode,
        OnError::Skip | OnError::DeadLetter | OnError::Retry(_) => Fate::Continue,
    }
}

fn apply(fate: Fate, outcome: &mut Outcome) -> Fatal {
    match fate {
        Fate::Continue => {}
        Fate::Rest(until) => outcome.rest_until = Some(until),
        Fate::StopNode => outcome.broke = true,
        Fate::StopGraph(error) => {
            outcome.broke = true;
            return Some(error);
        }
    }
    None
}

/// Reads the input `control`.
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
