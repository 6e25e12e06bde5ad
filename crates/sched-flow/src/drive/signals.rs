//! The scheduler behind its lock, and the channel that wakes workers.
//!
//! Room: driver. Knows the lock and the channel; knows nothing of messages and turns.
//!
//! All changes are made under the lock, and so is the decision to sleep. `sleepers.rs` decides which workers are woken.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Wake,
    time::Duration,
};

use sched_tasks::{Receiver, Sender, channel};

use super::sleepers::Sleepers;
pub(crate) use super::sleepers::Wakeups;
use policy_flow::Core;

use crate::{error::NodeError, message::Time};

/// The decisions, and the state that is changed together with them.
pub(crate) struct Scheduler {
    pub(crate) core: Core,
    /// The priorities of the edges, as users gave them.
    pub(crate) priorities: Vec<i32>,
    pub(super) sleepers: Sleepers,
    /// All nodes were started.
    pub(crate) started: bool,
    /// The flow was asked to drain, perhaps before it was started.
    pub(crate) shutdown_asked: bool,
    /// The error that stopped the graph, and its node.
    pub(crate) failure: Option<(u32, NodeError)>,
    /// Edges that hold discarded messages.
    pub(crate) to_clean: Vec<u32>,
    /// The last value of `Signals::preempt`.
    preempting: bool,
}

pub(crate) struct Signals {
    scheduler: Mutex<Scheduler>,
    notifier: Sender<()>,
    notified: Receiver<()>,
    /// Turns of other bands should end early. Read every few messages.
    pub(crate) preempt: Arc<AtomicBool>,
}

impl Scheduler {
    /// Drains the flow until that time. A flow that is still being started drains afterwards: a source that starts later must end, too.
    pub(crate) fn drain(&mut self, until: Time) {
        self.shutdown_asked = true;
        if self.started {
            self.core.drain(until);
        }
    }

    /// Wakes one worker, if one sleeps and would find a turn.
    pub(crate) fn wake_if_ready(&mut self) -> Wakeups {
        self.sleepers.wake_one(self.core.has_ready(), self.core.next_time())
    }

    /// Wakes all workers that sleep.
    pub(crate) fn wake_all(&mut self) -> Wakeups {
        self.sleepers.wake_all()
    }
}

impl Signals {
    pub(crate) fn new(core: Core, priorities: Vec<i32>, workers: usize) -> Self {
        let (notifier, notified) = channel(workers.max(1));
        let scheduler = Scheduler {
            core,
            priorities,
            sleepers: Sleepers::default(),
            started: false,
            shutdown_asked: false,
            failure: None,
            to_clean: Vec::new(),
            preempting: false,
        };
        Self { scheduler: Mutex::new(scheduler), notifier, notified, preempt: Arc::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Scheduler> {
        // No user code runs under this lock. After a failed assertion others may still read the state.
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells running turns whether to end early. Written only on a change, because all of them read it.
    pub(crate) fn publish_preemption(&self, scheduler: &mut Scheduler) {
        let preempting = scheduler.core.wants_preemption();
        if preempting != scheduler.preempting {
            scheduler.preempting = preempting;
            self.preempt.store(preempting, Relaxed);
        }
    }

    /// Wakes so many workers.
    pub(crate) fn notify(&self, wakeups: Wakeups) {
        for _ in 0..wakeups.count() {
            // A full channel wakes a worker in any case.
            let _ = self.notifier.try_send(());
        }
    }

    /// Waits for a notification, for at most so long.
    pub(crate) fn wait(&self, at_most: Option<Duration>) {
        let _notified_or_late = match at_most {
            Some(time) => self.notified.recv_timeout(time).is_ok(),
            None => self.notified.recv().is_ok(),
        };
    }
}

/// Wakes a node.
pub(crate) struct NodeWaker {
    pub(crate) signals: Arc<Signals>,
    pub(crate) node: u32,
}

impl Wake for NodeWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut scheduler = self.signals.lock();
        scheduler.core.woken(self.node);
        let wakeups = scheduler.wake_if_ready();
        self.signals.publish_preemption(&mut scheduler);
        drop(scheduler);
        self.signals.notify(wakeups);
    }
}
