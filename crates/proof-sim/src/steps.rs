//! How a CPU goes on: it chooses a thread, the thread does its steps, the timer is set.
//!
//! Room: driver.

use policy_cpu::{CallError, Handoff, Nanos, ThreadId, Wake};

use crate::event::Event;
use crate::machine::Machine;
use crate::program::Step;
use crate::thread::Simulated;

/// How many steps that take no time a thread may do one after the other.
const STEPS_AT_ONCE_MAX: u32 = 1_000;

/// How a CPU goes on after a step.
pub(crate) enum After {
    Computes,
    Chooses,
    HandedOver,
}

impl Machine {
    pub(crate) fn wake(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if state.is_over {
            return;
        }
        let Ok(Wake { cpu, interrupt }) = self.scheduler.wake(state.id, self.now, None) else { return };
        if let Some(cpu) = cpu {
            state.is_ready(self.now);
            self.touched.insert(cpu);
        }
        if let Some(cpu) = interrupt {
            self.interrupt(cpu);
        }
    }

    /// Counts what the thread of a CPU computed since it was last looked at.
    pub(crate) fn compute(&mut self, cpu: u32) {
        let since = std::mem::replace(&mut self.since[cpu as usize], self.now);
        if let Some(current) = self.scheduler.current(cpu) {
            let state = &mut self.threads[self.by_index[current.index() as usize] as usize];
            state.left = state.left.saturating_sub(self.now - since);
        }
    }

    /// Lets the thread of a CPU do its steps that take no time, chooses a thread, and sets the timer.
    ///
    /// A thread that has computed what it wanted goes on at once, as one does that enters a kernel: the choice comes when it blocks, or computes again.
    pub(crate) fn go_on(&mut self, cpu: u32) {
        self.touched.insert(cpu);
        let mut steps = 0;
        let mut current = self.scheduler.current(cpu);
        // For how long the last choice holds.
        let mut chosen = None;
        let left = loop {
            if let Some(id) = current {
                let thread = self.number_of(id);
                self.note_start(thread);
                let state = &self.threads[thread as usize];
                if state.left == 0 {
                    steps += 1;
                    assert!(steps < STEPS_AT_ONCE_MAX, "`{}` takes no time", state.name);
                    match self.step(cpu, thread) {
                        After::Computes => {}
                        After::Chooses => (current, chosen) = (None, None),
                        After::HandedOver => {
                            current = self.scheduler.current(cpu);
                            chosen = chosen.map(|_| self.scheduler.time_limit(cpu, self.now));
                        }
                    }
                    continue;
                }
                if chosen.is_some() {
                    break Some(state.left);
                }
            } else if chosen.is_some() {
                break None;
            }
            let dispatch = self.scheduler.schedule(cpu, self.now);
            self.send(dispatch.interrupt);
            (current, chosen) = (dispatch.thread, Some(dispatch.at_most));
        };
        let limit = chosen.flatten();
        self.since[cpu as usize] = self.now;
        match (left, limit) {
            (None, None) => self.events.clear(Event::Timer { cpu }),
            (left, limit) => {
                let time = left.unwrap_or(Nanos::MAX).min(limit.unwrap_or(Nanos::MAX)).max(1);
                self.events.set(self.now + time, Event::Timer { cpu });
            }
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.runs(cpu, current.map(|id| self.by_index[id.index() as usize]), self.now);
        }
    }

    fn step(&mut self, cpu: u32, thread: u32) -> After {
        if self.threads[thread as usize].serves.is_some() {
            self.complete(thread);
        }
        let state = &mut self.threads[thread as usize];
        let step = state.program.step(state.at);
        state.at += 1;
        if state.program.again && state.at == state.program.steps.len() {
            state.at = 0;
            state.rounds += 1;
        }
        match step {
            Step::Run(_) | Step::RunBetween(..) => {
                state.left = step.length(&mut self.dice);
                After::Computes
            }
            Step::Sleep(_) | Step::SleepBetween(..) => {
                let length = step.length(&mut self.dice);
                state.is_done(self.now);
                self.scheduler.block(cpu, self.now);
                self.events.set(self.now + length, Event::Wake { thread });
                After::Chooses
            }
            Step::Yield => {
                self.scheduler.yield_now(cpu, self.now);
                After::Chooses
            }
            Step::Receive => {
                state.is_done(self.now);
                self.scheduler.block(cpu, self.now);
                self.next_caller(thread);
                After::Chooses
            }
            Step::Exit => {
                state.is_done(self.now);
                self.end(thread);
                After::Chooses
            }
            Step::Poll(ring) => self.poll(cpu, thread, ring),
            Step::Call(callee) => self.call(cpu, thread, callee),
            Step::Reply => self.reply(cpu, thread),
        }
    }

    fn call(&mut self, cpu: u32, thread: u32, callee: u32) -> After {
        let target = self.threads[callee as usize].id;
        match self.scheduler.call(cpu, target, self.now) {
            Ok(handoff) => {
                let callee = &mut self.threads[callee as usize];
                callee.due = callee.deadline.map(|deadline| self.now + deadline);
                self.after_handoff(handoff)
            }
            Err(CallError::Busy) => {
                // It waits its turn and calls again.
                let state = &mut self.threads[thread as usize];
                state.at = if state.at == 0 { state.program.steps.len() - 1 } else { state.at - 1 };
                self.scheduler.block(cpu, self.now);
                self.threads[callee as usize].callers.push_back(thread);
                After::Chooses
            }
            // A call to what has ended, or in a circle, fails at once.
            Err(_) => {
                self.threads[thread as usize].refused += 1;
                After::Computes
            }
        }
    }

    fn reply(&mut self, cpu: u32, thread: u32) -> After {
        let handoff = self.scheduler.reply(cpu, self.now);
        let state = &mut self.threads[thread as usize];
        state.is_done(self.now);
        if state.program.step(state.at) == Step::Receive {
            state.at += 1; // a reply waits for the next call itself
            if state.program.again {
                state.at %= state.program.steps.len();
            }
        }
        let after = match handoff {
            Ok(handoff) => self.after_handoff(handoff),
            Err(_) => {
                self.scheduler.block(cpu, self.now); // its caller is gone
                After::Chooses
            }
        };
        self.next_caller(thread);
        after
    }

    fn after_handoff(&mut self, handoff: Handoff) -> After {
        match handoff {
            Handoff::Here(_) => After::HandedOver,
            Handoff::Elsewhere { interrupt } => {
                if let Some(cpu) = interrupt {
                    self.interrupt(cpu);
                }
                After::Chooses
            }
        }
    }

    /// A server waits for calls: the next thread that wanted to call it tries again.
    fn next_caller(&mut self, server: u32) {
        if let Some(caller) = self.threads[server as usize].callers.pop_front() {
            self.wake(caller);
        }
    }

    /// What they want to call has ended: all who wait for it try again.
    pub(crate) fn release_callers(&mut self, server: u32) {
        while !self.threads[server as usize].callers.is_empty() {
            self.next_caller(server);
        }
    }

    /// Ends a thread, wherever it is.
    pub(crate) fn end(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if std::mem::replace(&mut state.is_over, true) {
            return;
        }
        let id = state.id;
        for cpu in 0..self.since.len() as u32 {
            if self.scheduler.current(cpu) == Some(id) {
                self.scheduler.block(cpu, self.now); // charged up to now
            }
        }
        let state = &mut self.threads[thread as usize];
        state.final_account = *self.scheduler.thread(id).expect("it has not ended before").account();
        let interrupt = self.scheduler.exit(id, self.now).expect("it has not ended before");
        self.send(interrupt);
        self.release_callers(thread);
    }

    fn note_start(&mut self, thread: u32) {
        let state = &mut self.threads[thread as usize];
        if state.ready_since.is_some()
            && let Some(waited) = state.starts(self.now)
        {
            self.note_long_wait(thread, waited);
        }
    }

    /// A thread that still waits may have waited too long.
    pub(crate) fn note_long_waits(&mut self) {
        for thread in 0..self.threads.len() {
            let state = &self.threads[thread];
            if let (Some(since), Some(limit), false) = (state.ready_since, state.wait_limit, state.is_over)
                && self.now - since > limit
            {
                self.note_long_wait(thread as u32, self.now - since);
            }
        }
    }

    fn note_long_wait(&mut self, thread: u32, waited: Nanos) {
        let Simulated { name, wait_limit, .. } = &self.threads[thread as usize];
        let limit = wait_limit.unwrap_or_default();
        self.broken
            .get_or_insert_with(|| format!("`{name}` waited {waited} ns for a CPU, and its limit is {limit} ns"));
    }

    fn number_of(&self, id: ThreadId) -> u32 {
        self.by_index[id.index() as usize]
    }
}
