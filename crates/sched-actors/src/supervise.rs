//! The loop of a supervisor: an input comes, a decision is made, the plan changes, the plan is carried out.
//!
//! Room: driver.
//!
//! # Invariants
//! At most one incarnation of a child exists at a time. Children are stopped one by one, the last started first. They
//! are started one by one in order, after all that are to be stopped have ended. Nothing here waits for one child only:
//! while one is slow to stop or to start, others may end and questions are answered.
//!
//! # Why they hold
//! There is one plan: a set to stop, a set to start, and at most one child that is being stopped or started.
//! [`SupervisorLoop::advance`] alone takes from the sets, and launches only when nothing is to be stopped. A child is
//! in the set to start or has a fiber, and joins the former only after it has ended. A report of an incarnation that
//! has ended is known by its serial and ignored.
//!
//! # How a child is isolated
//! Its fiber is a task of the supervisor's nursery, which waits for all and cancels none. Inside, it opens a nursery of
//! its own, so that it can be cancelled alone. A future awaits the task and reports how it ended, panics and overflows
//! included: that costs no second stack.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Instant,
};

use sched_tasks::{
    Nursery, NurseryOptions, Receiver, RecvTimeoutError, Select, TaskError, internals, now, nursery_with,
};

use crate::{
    budget::{BudgetHandler, ChildBudgets},
    clock::due,
    decide::{self, Decision, Ending, History, Restart, Rules, Sibling},
    error::{RestartsExceeded, SupervisorError},
    mailbox::{Signal, StopMode},
    run::{Link, Run},
    state::{ChildEvent, ChildState},
    tree::{
        Child, ChildEntry, ChildReport, Inbox, Incarnation, Input, Kind, Reply, Request, Shared, begin_table,
        end_table, retire_instance,
    },
};

/// What a supervisor was started by.
pub(crate) enum Parent<'i, 'a> {
    /// The nursery it was started in. It ends when there is no child, and either no handle or a caller that waits for
    /// its end.
    Nursery(Weak<Inbox<'a>>),
    /// Another supervisor, which says when it is to end.
    Supervisor(Incarnation<'i>),
}

/// Runs one incarnation of a supervisor: returns when all its children have ended.
pub(crate) fn supervise<'a>(
    rules: Rules,
    budget: &ChildBudgets,
    shared: &Shared<'a>,
    inbox: &Receiver<Input<'a>>,
    parent: Parent<'_, 'a>,
) -> Result<(), TaskError> {
    begin_table(shared);
    let mut verdict = None;
    let _ = nursery_with(budget.nursery(), |children| {
        let supervisor = SupervisorLoop {
            children,
            budgets: BudgetHandler::open(children, budget),
            shared,
            inbox,
            parent,
            is_ready: false,
            rules,
            history: History::default(),
            runs: BTreeMap::new(),
            to_stop: BTreeSet::new(),
            to_start: shared.entries().keys().copied().collect(),
            stopping: None,
            starting: None,
            finishing: None,
            replies: Vec::new(),
        };
        verdict = Some(supervisor.run());
        Ok(())
    });
    end_table(shared);
    // The nursery's own outcome reports children that failed, and that has been handled. Without a verdict, it was
    // cancelled.
    verdict.unwrap_or_else(|| Err(internals::cancelled()))
}

/// A caller that waits for a child.
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

struct SupervisorLoop<'k, 'scope, 'env, 'a> {
    children: &'scope Nursery<'scope, 'env>,
    budgets: Option<BudgetHandler<'k>>,
    shared: &'k Shared<'a>,
    inbox: &'k Receiver<Input<'a>>,
    parent: Parent<'k, 'a>,
    is_ready: bool,
    rules: Rules,
    history: History,
    runs: BTreeMap<u64, Run>,
    to_stop: BTreeSet<u64>,
    to_start: BTreeSet<u64>,
    /// The child that is being stopped, and when its time is up.
    stopping: Option<(u64, Option<Instant>)>,
    starting: Option<u64>,
    /// Set when everything is to end: with what outcome, and whether for good.
    finishing: Option<(Result<(), TaskError>, StopMode)>,
    replies: Vec<Waiting>,
}

impl<'scope, 'a: 'scope> SupervisorLoop<'_, 'scope, '_, 'a> {
    fn run(mut self) -> Result<(), TaskError> {
        loop {
            self.check_parent();
            self.advance();
            if let Some(budgets) = &self.budgets {
                budgets.answer_all();
            }
            if self.finishing.is_some() && self.stopping.is_none() {
                return self.finishing.take().map_or(Ok(()), |(outcome, _)| outcome);
            }
            match self.receive() {
                Ok(Input::Child { id, serial, report }) => {
                    if self.runs.get(&id).is_some_and(|run| run.serial == serial) {
                        self.on_child_report(id, report);
                    }
                }
                Ok(Input::Request(request)) => self.on_request(request),
                Ok(Input::Recheck) => {}
                Err(RecvTimeoutError::Timeout) => self.on_shutdown_timeout(),
                // Closed by the parent, which does so only after we ended.
                Err(RecvTimeoutError::Closed) => unreachable!("an inbox is open while its supervisor runs"),
            }
        }
    }

    /// Reports to the parent what it waits for, and does what it wants.
    fn check_parent(&mut self) {
        let nothing_to_start = self.to_start.is_empty() && self.starting.is_none();
        match &self.parent {
            Parent::Nursery(handles) => {
                let is_unused = handles.strong_count() == 0 || self.shared.is_awaited();
                if is_unused && self.runs.is_empty() && nothing_to_start {
                    self.finish(Ok(()), StopMode::ForGood);
                }
            }
            Parent::Supervisor(incarnation) => {
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

    /// Waits for the next input. No budget pays for that: it is the runtime's own traffic.
    fn receive(&self) -> Result<Input<'a>, RecvTimeoutError> {
        internals::uncharged(|| self.receive_input())
    }

    fn receive_input(&self) -> Result<Input<'a>, RecvTimeoutError> {
        let timeout = self.stopping.and_then(|(_, until)| until).map(|until| until.saturating_duration_since(now()));
        let Some(budgets) = &self.budgets else {
            return match timeout {
                Some(time) => self.inbox.recv_timeout(time),
                None => self.inbox.recv().map_err(RecvTimeoutError::from),
            };
        };
        let (mut input, mut notified) = (self.inbox.case(), budgets.notified.case());
        let select = Select::new().with(&mut input).with(&mut notified);
        let ready = match timeout {
            Some(time) => select.wait_timeout(time),
            None => select.wait(),
        };
        match ready {
            None => Err(RecvTimeoutError::Timeout),
            Some(0) => input.take().map_err(RecvTimeoutError::from),
            Some(_) => {
                let _ = notified.take(); // the list is checked anyway
                Ok(Input::Recheck)
            }
        }
    }

    // ---- inputs ----

    /// A report of a child.
    fn on_child_report(&mut self, id: u64, report: ChildReport) {
        match report {
            ChildReport::Started => {
                self.with(id, |entry| entry.step(ChildEvent::Started));
                self.starting = self.starting.filter(|&starting| starting != id);
                self.answer(id, Until::Ready);
            }
            ChildReport::Ended { outcome } => self.ended(id, outcome),
        }
    }

    /// A request of a handle.
    fn on_request(&mut self, request: Request<'a>) {
        match request {
            Request::Stop => self.finish(Ok(()), StopMode::ForGood),
            Request::Start(child, reply) => match self.add(child) {
                Ok(id) => self.replies.push(Waiting { id, until: Until::Ready, reply }),
                Err(refusal) => drop(reply.send(Err(refusal))), // the caller may be gone; so below
            },
            Request::StopChild(name, reply) => self.for_child(&name, reply, |this, id, state, reply| {
                this.to_start.remove(&id);
                if !state.is_alive() {
                    let _ = reply.send(Ok(()));
                    return;
                }
                this.to_stop.insert(id);
                this.replies.push(Waiting { id, until: Until::Ended, reply });
            }),
            Request::RestartChild(name, reply) => self.for_child(&name, reply, |this, id, state, reply| {
                if state.has_fiber() {
                    this.to_stop.insert(id);
                } else {
                    this.queue(id);
                }
                this.to_start.insert(id);
                this.replies.push(Waiting { id, until: Until::Ready, reply });
            }),
        }
    }

    fn for_child(&mut self, name: &str, reply: Reply, act: impl FnOnce(&mut Self, u64, ChildState, Reply)) {
        let found = self.shared.find(name, |id, entry| (id, entry.state));
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
        let known = self.shared.find(&child.name, |id, entry| (id, entry.state.is_alive()));
        if let Ok((_, true)) = known {
            let (name, supervisor) = (child.name, self.shared.name.clone());
            return Err(SupervisorError::DuplicateChild { name, supervisor });
        }
        let entry = ChildEntry::new(child, true);
        let mut entries = self.shared.entries();
        if let Ok((old, _)) = known {
            entries.remove(&old);
        }
        let id = entries.last_key_value().map_or(0, |(&last, _)| last + 1);
        entries.insert(id, entry);
        self.to_start.insert(id);
        Ok(id)
    }

    fn over(&self) -> SupervisorError {
        SupervisorError::Over { supervisor: self.shared.name.clone() }
    }

    /// A child has ended: if it was not asked to, decide what to do.
    fn ended(&mut self, id: u64, outcome: Result<(), TaskError>) {
        let Some(run) = self.runs.remove(&id) else { return };
        let error = outcome.err();
        let planned = self.to_stop.remove(&id) || self.finishing.is_some();
        self.starting = self.starting.filter(|&starting| starting != id);
        self.stopping = self.stopping.filter(|&(stopping, _)| stopping != id);
        let (kind, expected) = self.with(id, |entry| {
            let expected = planned || entry.state == ChildState::Stopping;
            entry.step(if error.is_some() { ChildEvent::Failed } else { ChildEvent::Returned });
            // To be cancelled is no failure of one that was asked to stop.
            if let Some(error) = error.as_ref().filter(|error| !(expected && error.is_cancelled())) {
                entry.last_error = Some(error.clone());
            }
            (entry.instance.kind.clone(), expected)
        });
        if let Kind::Actor(mailbox) = kind {
            mailbox.settle(error.as_ref());
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
                let child = self.with(id, |entry| entry.child.name.clone());
                let (supervisor, within) = (self.shared.name.clone(), self.rules.intensity.within);
                let error = RestartsExceeded { supervisor, child, restarts, within, last: error };
                // Whether it is for good is known to the parent.
                self.finish(Err(error.into()), StopMode::ToRestart);
            }
        }
    }

    /// The children as a decision sees them. One that is being stopped for good counts as gone.
    fn siblings(&self) -> Vec<Sibling> {
        let leaving = |id: &u64, entry: &ChildEntry<'a>| {
            !self.to_start.contains(id) && (entry.state == ChildState::Stopping || self.to_stop.contains(id))
        };
        let entries = self.shared.entries();
        let sibling = |(id, entry): (&u64, &ChildEntry<'a>)| Sibling {
            id: *id,
            restart: entry.child.restart,
            alive: entry.state.is_alive() && !leaving(id, entry),
        };
        entries.iter().map(sibling).collect()
    }

    // ---- the plan ----

    /// Stops everything, and then ends.
    fn finish(&mut self, outcome: Result<(), TaskError>, mode: StopMode) {
        if self.finishing.is_some() {
            return;
        }
        self.finishing = Some((outcome, mode));
        self.to_start.clear();
        let alive = |(&id, entry): (&u64, &ChildEntry<'a>)| {
            (entry.state.is_alive() && entry.state != ChildState::Stopping).then_some(id)
        };
        self.to_stop = self.shared.entries().iter().filter_map(alive).collect();
    }

    /// Carries out the plan as far as that can be done without waiting.
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
            // It has no fiber. It will be started with the others, or never.
            self.answer(id, Until::Ended);
            if !self.to_start.contains(&id) {
                self.with(id, |entry| entry.step(ChildEvent::StopAsked));
                if self.finishing.is_none() {
                    self.leave(id);
                }
            }
            return;
        };
        run.for_good |= mode == StopMode::ForGood;
        let (signal, link) = (run.signal.clone(), run.link.clone());
        let (kind, timeout) = self.with(id, |entry| {
            entry.step(ChildEvent::StopAsked);
            (entry.instance.kind.clone(), entry.child.shutdown)
        });
        let mut until = timeout.map(due);
        match kind {
            Kind::Actor(mailbox) if mode == StopMode::ForGood => mailbox.close(), // it finishes what it has
            Kind::Actor(_) => signal.send(mode),
            Kind::Supervisor(handle, _) => {
                signal.send(mode);
                handle.inbox.put(Input::Recheck);
            }
            Kind::Task => {
                link.cancel();
                until = None; // the grace of its nursery ends by itself
            }
        }
        self.stopping = Some((id, until));
    }

    /// The child that is being stopped did not end in time: cancels it.
    fn on_shutdown_timeout(&mut self) {
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
        let (child, run, restarts, options) = self.with(id, |entry| {
            entry.step(ChildEvent::Launched);
            if entry.instance.retired {
                entry.instance = entry.child.spec.prepare(&entry.child);
            }
            let options = NurseryOptions::new();
            let options = match entry.child.grace(&entry.instance.kind) {
                Some(grace) => options.grace(grace),
                None => options,
            };
            entry.launches += 1;
            (entry.child.clone(), entry.instance.run.clone(), entry.launches - 1, options)
        });
        let serial = self.shared.next_serial();
        let (signal, link) = (Arc::new(Signal::new()), Arc::new(Link::default()));
        let stray = link.clone();
        self.runs.insert(id, Run { serial, signal: signal.clone(), link: link.clone(), for_good: false });
        self.starting = Some(id);

        let inbox = internals::sender(self.inbox);
        let send = move |report| {
            internals::put(&inbox, Input::Child { id, serial, report });
        };
        let (send_end, send_refused) = (send.clone(), send.clone());
        let task = internals::try_spawn_at(self.children.task().name(&*child.name), child.site, move || {
            let ready = || send(ChildReport::Started);
            nursery_with(options, |own| {
                link.publish(own.canceller());
                run(Incarnation { signal: &signal, restarts, ready: &ready })
            })
        });
        let watch = async move { send_end(ChildReport::Ended { outcome: task.await }) };
        let watcher = internals::spawn_free(self.children, child.site, watch);
        // A nursery that may start no more tasks refuses the watcher, too: then nothing else would report the end.
        if watcher.is_done()
            && let Err(refused) = watcher.join()
        {
            stray.cancel(); // the child itself may have been the last that was admitted
            send_refused(ChildReport::Ended { outcome: Err(refused) });
        }
    }

    // ---- the table ----

    fn with<R>(&self, id: u64, look: impl FnOnce(&mut ChildEntry<'a>) -> R) -> R {
        look(self.shared.entries().get_mut(&id).expect("a child is in the table while it is in the plan or runs"))
    }

    /// A child is to be started again.
    fn queue(&self, id: u64) {
        self.with(id, |entry| entry.step(ChildEvent::Queued));
    }

    /// A child is gone for good. A caller that waits for it to be ready is answered.
    fn leave(&mut self, id: u64) {
        self.answer(id, Until::Ready);
        self.retire(id);
        let mut entries = self.shared.entries();
        if entries.get(&id).is_some_and(|entry| entry.dynamic && entry.child.restart == Restart::Temporary) {
            entries.remove(&id);
        }
    }

    fn retire(&self, id: u64) {
        let kind = self.with(id, retire_instance);
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
