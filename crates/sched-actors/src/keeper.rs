//! The loop of a supervisor: an input comes, a decision is made, the plan changes, the plan is carried on.
//!
//! # Invariants
//! At most one incarnation of a child exists at a time. Children are stopped one by one, the last started first, and started one by one in order, after all that
//! are to be stopped have ended. Nothing here waits for one child only: while one is slow to stop or to start, others may end and questions are answered.
//!
//! # Why they hold
//! There is one plan: a set to stop, a set to start, and at most one child that is being stopped or started. [`Keeper::advance`] alone takes from the
//! sets, and launches only when nothing is to be stopped. A child is in the set to start or has a fiber, and joins the former only after it has ended; an event
//! of an incarnation that is over is known by its serial and ignored.
//!
//! # How a child is kept apart
//! Its fiber is a task of the supervisor's nursery, which waits for all and cancels nobody. Inside, it opens a nursery of its own, so that it can be
//! cancelled alone. A future awaits the task and says how it ended, panics and overflows included: that costs no second stack.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Instant,
};

use sched_tasks::{
    Nursery, NurseryOptions, Receiver, RecvTimeoutError, Select, TaskError, internals, now, nursery_with,
};

use crate::{
    clock::due,
    decide::{self, Decision, Ending, History, Restart, Rules, Sibling},
    error::{RestartsExceeded, SupervisorError},
    mailbox::{Signal, StopMode},
    means::{BudgetHandler, Means},
    run::{Link, Run},
    state::{ChildState, Happening},
    tree::{
        Child, ChildEvent, Inbox, Incarnation, Input, Kid, Kind, Reply, Request, Shared, begin_table, end_table,
        retire_life,
    },
};

/// Who a supervisor answers to.
pub(crate) enum Above<'i, 'a> {
    /// The nursery it was started in. It ends when there is no child, and no handle or somebody who waits for its end.
    Nursery(Weak<Inbox<'a>>),
    /// Another supervisor, which says when it is to end.
    Supervisor(Incarnation<'i>),
}

/// Runs one incarnation of a supervisor: returns when all its children have ended.
pub(crate) fn supervise<'a>(
    rules: Rules,
    means: &Means,
    shared: &Shared<'a>,
    inbox: &Receiver<Input<'a>>,
    above: Above<'_, 'a>,
) -> Result<(), TaskError> {
    begin_table(shared);
    let mut verdict = None;
    let _ = nursery_with(means.nursery(), |children| {
        let keeper = Keeper {
            children,
            budgets: BudgetHandler::open(children, means),
            shared,
            inbox,
            above,
            is_ready: false,
            rules,
            history: History::default(),
            runs: BTreeMap::new(),
            to_stop: BTreeSet::new(),
            to_start: shared.kids().keys().copied().collect(),
            stopping: None,
            starting: None,
            finishing: None,
            replies: Vec::new(),
        };
        verdict = Some(keeper.keep());
        Ok(())
    });
    end_table(shared);
    // The nursery's own outcome tells of children that failed, and that has been dealt with. Without a verdict, it was cancelled.
    verdict.unwrap_or_else(|| Err(internals::cancelled()))
}

/// Somebody who waits for a child.
struct Waiting {
    id: u64,
    until: Until,
    reply: Reply,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Ready,
    Ended,
}

struct Keeper<'k, 'scope, 'env, 'a> {
    children: &'scope Nursery<'scope, 'env>,
    budgets: Option<BudgetHandler<'k>>,
    shared: &'k Shared<'a>,
    inbox: &'k Receiver<Input<'a>>,
    above: Above<'k, 'a>,
    is_ready: bool,
    rules: Rules,
    history: History,
    runs: BTreeMap<u64, Run>,
    to_stop: BTreeSet<u64>,
    to_start: BTreeSet<u64>,
    /// Who is being stopped, and when patience ends.
    stopping: Option<(u64, Option<Instant>)>,
    starting: Option<u64>,
    /// Set when everything is to end: with what outcome, and whether for good.
    finishing: Option<(Result<(), TaskError>, StopMode)>,
    replies: Vec<Waiting>,
}

impl<'scope, 'a: 'scope> Keeper<'_, 'scope, '_, 'a> {
    fn keep(mut self) -> Result<(), TaskError> {
        loop {
            self.look_up();
            self.advance();
            if let Some(budgets) = &self.budgets {
                budgets.attend();
            }
            if self.finishing.is_some() && self.stopping.is_none() {
                return self.finishing.take().map_or(Ok(()), |(outcome, _)| outcome);
            }
            match self.receive() {
                Ok(Input::Child { id, serial, event }) => {
                    if self.runs.get(&id).is_some_and(|run| run.serial == serial) {
                        self.heard(id, event);
                    }
                }
                Ok(Input::Request(request)) => self.asked(request),
                Ok(Input::Nudge) => {}
                Err(RecvTimeoutError::Timeout) => self.lose_patience(),
                // Retired by the one above, which does so only after we ended.
                Err(RecvTimeoutError::Closed) => unreachable!("an inbox is open while its supervisor runs"),
            }
        }
    }

    /// Tells the one above what it waits for, and does what it wants.
    fn look_up(&mut self) {
        let nothing_to_start = self.to_start.is_empty() && self.starting.is_none();
        match &self.above {
            Above::Nursery(handles) => {
                let nobody_asks = handles.strong_count() == 0 || self.shared.is_awaited();
                if nobody_asks && self.runs.is_empty() && nothing_to_start {
                    self.finish(Ok(()), StopMode::ForGood);
                }
            }
            Above::Supervisor(incarnation) => {
                if nothing_to_start && !self.is_ready {
                    self.is_ready = true;
                    (incarnation.ready)();
                }
                if let Some(mode) = incarnation.signal.asked() {
                    self.finish(Ok(()), mode);
                }
            }
        }
    }

    /// Waits for what comes next. Nobody pays for that: it is the runtime's own news.
    fn receive(&self) -> Result<Input<'a>, RecvTimeoutError> {
        internals::uncharged(|| self.receive_input())
    }

    fn receive_input(&self) -> Result<Input<'a>, RecvTimeoutError> {
        let patience = self.stopping.and_then(|(_, until)| until).map(|until| until.saturating_duration_since(now()));
        let Some(budgets) = &self.budgets else {
            return match patience {
                Some(time) => self.inbox.recv_timeout(time),
                None => self.inbox.recv().map_err(RecvTimeoutError::from),
            };
        };
        let (mut input, mut bell) = (self.inbox.case(), budgets.bell.case());
        let select = Select::new().with(&mut input).with(&mut bell);
        let ready = match patience {
            Some(time) => select.wait_timeout(time),
            None => select.wait(),
        };
        match ready {
            None => Err(RecvTimeoutError::Timeout),
            Some(0) => input.take().map_err(RecvTimeoutError::from),
            Some(_) => {
                let _ = bell.take(); // the handler looks anyway
                Ok(Input::Nudge)
            }
        }
    }

    // ---- inputs ----

    /// A child says something.
    fn heard(&mut self, id: u64, event: ChildEvent) {
        match event {
            ChildEvent::Started => {
                self.with(id, |kid| kid.step(Happening::Started));
                self.starting = self.starting.filter(|&starting| starting != id);
                self.answer(id, Until::Ready);
            }
            ChildEvent::Ended { outcome } => self.ended(id, outcome),
        }
    }

    /// Somebody wants something.
    fn asked(&mut self, request: Request<'a>) {
        match request {
            Request::Stop => self.finish(Ok(()), StopMode::ForGood),
            Request::Start(child, reply) => match self.add(child) {
                Ok(id) => self.replies.push(Waiting { id, until: Until::Ready, reply }),
                Err(refusal) => drop(reply.send(Err(refusal))), // whoever asked may be gone; so below
            },
            Request::StopChild(name, reply) => self.for_child(&name, reply, |keeper, id, state, reply| {
                keeper.to_start.remove(&id);
                if !state.is_alive() {
                    let _ = reply.send(Ok(()));
                    return;
                }
                keeper.to_stop.insert(id);
                keeper.replies.push(Waiting { id, until: Until::Ended, reply });
            }),
            Request::RestartChild(name, reply) => self.for_child(&name, reply, |keeper, id, state, reply| {
                if state.has_fiber() {
                    keeper.to_stop.insert(id);
                } else {
                    keeper.queue(id);
                }
                keeper.to_start.insert(id);
                keeper.replies.push(Waiting { id, until: Until::Ready, reply });
            }),
        }
    }

    fn for_child(&mut self, name: &str, reply: Reply, act: impl FnOnce(&mut Self, u64, ChildState, Reply)) {
        let found = self.shared.find(name, |id, kid| (id, kid.state));
        match found {
            Ok((id, state)) if self.finishing.is_none() => act(self, id, state, reply),
            Ok(_) => drop(reply.send(Err(self.over()))),
            Err(unknown) => drop(reply.send(Err(unknown))),
        }
    }

    fn add(&mut self, child: Child<'a>) -> Result<u64, SupervisorError> {
        if self.finishing.is_some() {
            return Err(self.over());
        }
        let known = self.shared.find(&child.name, |id, kid| (id, kid.state.is_alive()));
        if let Ok((_, true)) = known {
            let (name, supervisor) = (child.name, self.shared.name.clone());
            return Err(SupervisorError::DuplicateChild { name, supervisor });
        }
        let kid = Kid::new(child, true);
        let mut kids = self.shared.kids();
        if let Ok((old, _)) = known {
            kids.remove(&old);
        }
        let id = kids.last_key_value().map_or(0, |(&last, _)| last + 1);
        kids.insert(id, kid);
        self.to_start.insert(id);
        Ok(id)
    }

    fn over(&self) -> SupervisorError {
        SupervisorError::Over { supervisor: self.shared.name.clone() }
    }

    /// A child has ended: if nobody had asked it to, something is to be decided.
    fn ended(&mut self, id: u64, outcome: Result<(), TaskError>) {
        let Some(run) = self.runs.remove(&id) else { return };
        let error = outcome.err();
        let planned = self.to_stop.remove(&id) || self.finishing.is_some();
        self.starting = self.starting.filter(|&starting| starting != id);
        self.stopping = self.stopping.filter(|&(stopping, _)| stopping != id);
        let (kind, expected) = self.with(id, |kid| {
            let expected = planned || kid.state == ChildState::Stopping;
            kid.step(if error.is_some() { Happening::Failed } else { Happening::Returned });
            // To be cancelled is no failure of one that was asked to stop.
            if let Some(error) = error.as_ref().filter(|error| !(expected && error.is_cancelled())) {
                kid.last_error = Some(error.clone());
            }
            (kid.life.kind.clone(), expected)
        });
        if let Kind::Actor(post) = kind {
            post.settle(error.as_ref());
        }
        self.answer(id, Until::Ended);
        if run.for_good {
            self.retire(id); // its mailbox is closed; if it comes back nevertheless, it gets another
        }
        if !expected {
            self.answer(id, Until::Ready);
            self.decide(id, error);
        } else if self.to_start.contains(&id) {
            self.queue(id);
        } else if self.finishing.is_none() {
            self.leave(id);
        }
    }

    fn decide(&mut self, id: u64, error: Option<TaskError>) {
        let ending = if error.is_some() { Ending::Failed } else { Ending::Returned };
        let history = std::mem::take(&mut self.history);
        let (history, decision) = decide::decide(&self.rules, history, &self.siblings(), id, ending, now());
        self.history = history;
        match decision {
            Decision::Leave => self.leave(id),
            Decision::Again { stop, start } => {
                self.to_stop.extend(stop);
                self.to_start.extend(start);
                self.queue(id);
            }
            Decision::GiveUp { restarts } => {
                let child = self.with(id, |kid| kid.child.name.clone());
                let (supervisor, within) = (self.shared.name.clone(), self.rules.intensity.within);
                let error = RestartsExceeded { supervisor, child, restarts, within, last: error };
                // Whether it is for good is known to whoever is above.
                self.finish(Err(error.into()), StopMode::ToRestart);
            }
        }
    }

    /// The children as a decision sees them. One that is being stopped for good is as good as gone.
    fn siblings(&self) -> Vec<Sibling> {
        let leaving = |id: &u64, kid: &Kid<'a>| {
            !self.to_start.contains(id) && (kid.state == ChildState::Stopping || self.to_stop.contains(id))
        };
        let kids = self.shared.kids();
        let sibling = |(id, kid): (&u64, &Kid<'a>)| Sibling {
            id: *id,
            restart: kid.child.restart,
            alive: kid.state.is_alive() && !leaving(id, kid),
        };
        kids.iter().map(sibling).collect()
    }

    // ---- the plan ----

    /// Stops everything, and then ends.
    fn finish(&mut self, outcome: Result<(), TaskError>, mode: StopMode) {
        if self.finishing.is_some() {
            return;
        }
        self.finishing = Some((outcome, mode));
        self.to_start.clear();
        let alive =
            |(&id, kid): (&u64, &Kid<'a>)| (kid.state.is_alive() && kid.state != ChildState::Stopping).then_some(id);
        self.to_stop = self.shared.kids().iter().filter_map(alive).collect();
    }

    /// Goes on with the plan as far as that can be done without waiting.
    fn advance(&mut self) {
        while self.stopping.is_none()
            && let Some(id) = self.to_stop.pop_last()
        {
            self.begin_stop(id);
        }
        if self.stopping.is_none()
            && self.starting.is_none()
            && let Some(id) = self.to_start.pop_first()
        {
            self.launch(id);
        }
    }

    fn begin_stop(&mut self, id: u64) {
        let mode = match &self.finishing {
            Some((_, mode)) => *mode,
            None if self.to_start.contains(&id) => StopMode::ToRestart,
            None => StopMode::ForGood,
        };
        let Some(run) = self.runs.get_mut(&id) else {
            // It has no fiber. It will be started with the others, or it never is.
            self.answer(id, Until::Ended);
            if !self.to_start.contains(&id) {
                self.with(id, |kid| kid.step(Happening::StopAsked));
                if self.finishing.is_none() {
                    self.leave(id);
                }
            }
            return;
        };
        run.for_good |= mode == StopMode::ForGood;
        let (signal, link) = (run.signal.clone(), run.link.clone());
        let (kind, patience) = self.with(id, |kid| {
            kid.step(Happening::StopAsked);
            (kid.life.kind.clone(), kid.child.shutdown)
        });
        let mut until = patience.map(due);
        match kind {
            Kind::Actor(post) if mode == StopMode::ForGood => post.close(), // it finishes what it has
            Kind::Actor(_) => signal.ring(mode),
            Kind::Supervisor(handle, _) => {
                signal.ring(mode);
                handle.inbox.put(Input::Nudge);
            }
            Kind::Task => {
                link.cancel();
                until = None; // the grace of its nursery ends by itself
            }
        }
        self.stopping = Some((id, until));
    }

    /// Whoever is being stopped had its time.
    fn lose_patience(&mut self) {
        if let Some((id, until)) = &mut self.stopping
            && until.is_some_and(|until| now() >= until)
        {
            *until = None; // a cancellation cannot be hurried
            if let Some(run) = self.runs.get(id) {
                run.link.cancel();
            }
        }
    }

    /// Gives a child a fiber.
    fn launch(&mut self, id: u64) {
        let (child, run, restarts, options) = self.with(id, |kid| {
            kid.step(Happening::Launched);
            if kid.life.retired {
                kid.life = kid.child.recipe.prepare(&kid.child);
            }
            let options = NurseryOptions::new();
            let options = match kid.child.grace(&kid.life.kind) {
                Some(grace) => options.grace(grace),
                None => options,
            };
            kid.launches += 1;
            (kid.child.clone(), kid.life.run.clone(), kid.launches - 1, options)
        });
        let serial = self.shared.next_serial();
        let (signal, link) = (Arc::new(Signal::new()), Arc::new(Link::default()));
        let stray = link.clone();
        self.runs.insert(id, Run { serial, signal: signal.clone(), link: link.clone(), for_good: false });
        self.starting = Some(id);

        let inbox = internals::sender(self.inbox);
        let say = move |event| {
            internals::put(&inbox, Input::Child { id, serial, event });
        };
        let (say_end, say_refused) = (say.clone(), say.clone());
        let task = internals::try_spawn_at(self.children.task().name(&*child.name), child.site, move || {
            let ready = || say(ChildEvent::Started);
            nursery_with(options, |own| {
                link.publish(own.canceller());
                run(Incarnation { signal: &signal, restarts, ready: &ready })
            })
        });
        let watch = async move { say_end(ChildEvent::Ended { outcome: task.await }) };
        let watcher = internals::spawn_free(self.children, child.site, watch);
        // A nursery that may start no more tasks refuses the watcher, too: nobody else would tell.
        if watcher.is_done()
            && let Err(refused) = watcher.join()
        {
            stray.cancel(); // the child itself may have been the last that was let in
            say_refused(ChildEvent::Ended { outcome: Err(refused) });
        }
    }

    // ---- the table ----

    fn with<R>(&self, id: u64, look: impl FnOnce(&mut Kid<'a>) -> R) -> R {
        look(self.shared.kids().get_mut(&id).expect("a child is in the table while it is in the plan or runs"))
    }

    /// A child is to be started again.
    fn queue(&self, id: u64) {
        self.with(id, |kid| kid.step(Happening::Queued));
    }

    /// A child is gone for good. Whoever waits for it to be ready waits in vain.
    fn leave(&mut self, id: u64) {
        self.answer(id, Until::Ready);
        self.retire(id);
        let mut kids = self.shared.kids();
        if kids.get(&id).is_some_and(|kid| kid.dynamic && kid.child.restart == Restart::Temporary) {
            kids.remove(&id);
        }
    }

    fn retire(&self, id: u64) {
        let kind = self.with(id, retire_life);
        if let Some(kind) = kind {
            kind.retire();
        }
    }

    fn answer(&mut self, id: u64, until: Until) {
        for waiting in self.replies.extract_if(.., |waiting| waiting.id == id && waiting.until == until) {
            let _ = waiting.reply.send(Ok(()));
        }
    }
}
