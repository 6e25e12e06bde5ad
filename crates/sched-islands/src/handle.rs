//! What others know of an island: to stop it, to take its CPUs away, to read what it has done.
//!
//! Room: state. Knows phases; the threads that look at them are in `drive/`.
//!
//! # Invariants
//! - A lease that is revoked is given back once: here if the island does not run, else by its guard or by the last of its threads.
//! - The first reason to end counts.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sched_tasks::{Receiver, Sender, channel};

use crate::ended::Ended;
use crate::in_force::InForce;
use crate::lease::Lease;
use crate::spec::Island;
use crate::telemetry::{IslandStats, Telemetry};

/// What an island, its threads and its handles share.
pub(crate) struct Shared {
    pub(crate) spec: Island,
    pub(crate) lease: Lease,
    /// Its threads look at this before each cycle: whether there is a reason to end.
    pub(crate) ends: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_running: bool,
    /// Why the last run ended, or the current one is about to; before a run, why it is to end at once.
    ended: Option<Ended>,
    /// Threads that wait for a release that is far away are woken when this is dropped.
    awake: Option<Sender<()>>,
    revoked_at: Option<Instant>,
    in_force: Option<InForce>,
    /// Of the current run, or of the last one: by task, with its CPU.
    telemetry: Arc<[(u32, Telemetry)]>,
}

impl Shared {
    pub(crate) fn new(spec: Island, lease: Lease) -> Arc<Self> {
        Arc::new(Self { spec, lease, ends: AtomicBool::new(false), state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run begins; it ends when what is returned is dropped. None if the lease was revoked before.
    pub(crate) fn begin(&self, telemetry: Arc<[(u32, Telemetry)]>) -> Option<Running<'_>> {
        let mut state = self.lock();
        if state.revoked_at.is_some() {
            return None;
        }
        let (awake, sleeps) = channel(0);
        state.is_running = true;
        state.telemetry = telemetry;
        if !self.is_ended() {
            state.ended = None; // else it was stopped before it began
            state.awake = Some(awake);
        }
        Some(Running { shared: self, sleeps })
    }

    pub(crate) fn set_in_force(&self, in_force: InForce) {
        self.lock().in_force = Some(in_force);
    }

    /// There is a reason to end.
    pub(crate) fn end(&self, why: Ended) {
        self.lock().end(why, &self.ends);
    }

    pub(crate) fn revoked_at(&self) -> Option<Instant> {
        self.lock().revoked_at
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ends.load(Relaxed)
    }

    pub(crate) fn stats(&self) -> IslandStats {
        let state = self.lock();
        let tasks = self.spec.tasks.iter().zip(state.telemetry.iter());
        IslandStats {
            name: self.spec.name.clone(),
            tasks: tasks.map(|(task, (cpu, telemetry))| telemetry.read(&task.name, *cpu)).collect(),
            in_force: state.in_force.clone(),
            ended: state.ended.clone(),
        }
    }

    fn revoke(&self) {
        let mut state = self.lock();
        if state.revoked_at.is_some() {
            return;
        }
        state.revoked_at = Some(sched_tasks::now());
        state.end(Ended::Revoked, &self.ends);
        if !state.is_running {
            self.lease.release();
        }
    }
}

impl State {
    fn end(&mut self, why: Ended, ends: &AtomicBool) {
        if !ends.swap(true, Relaxed) {
            self.ended = Some(why);
        }
        self.awake = None;
    }
}

/// A run of an island, until it is dropped: then all its threads have ended.
pub(crate) struct Running<'a> {
    shared: &'a Shared,
    /// Is disconnected when there is a reason to end.
    pub(crate) sleeps: Receiver<()>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.end(Ended::Failed, &self.shared.ends); // unless there was another reason
        state.is_running = false;
        if state.revoked_at.is_some() {
            self.shared.lease.release();
        } else {
            self.shared.ends.store(false, Relaxed); // it may run again
        }
    }
}

/// Stops an island, takes its CPUs away, and reads what it has done; from any thread or task.
#[derive(Clone)]
pub struct IslandHandle(pub(crate) Arc<Shared>);

impl IslandHandle {
    /// Ends the island after the cycles that run now; if it does not run, the next run as soon as it begins.
    pub fn stop(&self) {
        self.0.end(Ended::Stopped);
    }

    /// Takes its CPUs away, for good. Tasks end after the cycles that run now; when the [revocation latency](Island::revocation_latency) is over, the CPUs are given back all the
    /// same, and a cycle that still runs does so as an ordinary thread among all others.
    pub fn revoke(&self) {
        self.0.revoke();
    }

    /// What it has done so far, in the current run or in the last one.
    pub fn stats(&self) -> IslandStats {
        self.0.stats()
    }

    /// Whether it still has its CPUs.
    pub fn is_leased(&self) -> bool {
        self.0.lease.is_held()
    }
}

impl fmt::Debug for IslandHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IslandHandle").field("island", &self.0.spec.name).finish_non_exhaustive()
    }
}
