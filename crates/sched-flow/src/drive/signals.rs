//! The scheduler's mind behind its lock, and the bell that wakes workers.
//!
//! Room: drive.
//!
//! All changes are made under the lock, and so is the decision to sleep. Who is rung when is the matter of `sleepers.rs`.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::Wake,
    time::Duration,
};

use sched_tasks::{Receiver, Sender, channel};

pub(crate) use super::sleepers::Rings;
use super::sleepers::Sleepers;
use policy_flow::Core;

use crate::{error::NodeError, message::Time};

/// The decisions and who waits for them.
pub(crate) struct Mind {
    pub(crate) core: Core,
    /// The priorities of the edges, as users gave them.
    pub(crate) priorities: Vec<i32>,
    pub(super) sleepers: Sleepers,
    /// All nodes were started.
    pub(crate) started: bool,
    /// Somebody wants the flow to drain; perhaps before it was started.
    pub(crate) shutdown_asked: bool,
    /// What stopped the graph, and in which node.
    pub(crate) failure: Option<(u32, NodeError)>,
    /// Edges that were closed and hold what nobody gets.
    pub(crate) to_sweep: Vec<u32>,
    /// What was last told to those who have turns.
    rushed: bool,
}

pub(crate) struct Signals {
    mind: Mutex<Mind>,
    ring: Sender<()>,
    bell: Receiver<()>,
    /// Looked at after every message.
    pub(crate) rush: Arc<AtomicBool>,
}

impl Mind {
    /// Lets the flow drain until then. One that is still being started drains when it is: a source that starts later must end, too.
    pub(crate) fn drain(&mut self, until: Time) {
        self.shutdown_asked = true;
        if self.started {
            self.core.drain(until);
        }
    }

    /// One worker, if one sleeps and would find something.
    pub(crate) fn ring_if_ready(&mut self) -> Rings {
        self.sleepers.ring_one(self.core.has_ready(), self.core.next_time())
    }

    /// Everybody who sleeps.
    pub(crate) fn ring_all(&mut self) -> Rings {
        self.sleepers.ring_all()
    }
}

impl Signals {
    pub(crate) fn new(core: Core, priorities: Vec<i32>, workers: usize) -> Self {
        let (ring, bell) = channel(workers.max(1));
        let mind = Mind {
            core,
            priorities,
            sleepers: Sleepers::default(),
            started: false,
            shutdown_asked: false,
            failure: None,
            to_sweep: Vec::new(),
            rushed: false,
        };
        Self { mind: Mutex::new(mind), ring, bell, rush: Arc::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Mind> {
        // No user code runs under this lock; if an assertion failed, others may still see what is left.
        self.mind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells those who have turns whether to hurry. Written only when it changes: they all read it.
    pub(crate) fn tell_rush(&self, mind: &mut Mind) {
        let rushed = mind.core.is_rushed();
        if rushed != mind.rushed {
            mind.rushed = rushed;
            self.rush.store(rushed, Relaxed);
        }
    }

    pub(crate) fn ring(&self, rings: Rings) {
        for _ in 0..rings.count() {
            // A full channel wakes somebody in any case.
            let _ = self.ring.try_send(());
        }
    }

    /// Waits for a ring, for at most so long.
    pub(crate) fn wait(&self, at_most: Option<Duration>) {
        let _rung_or_late = match at_most {
            Some(time) => self.bell.recv_timeout(time).is_ok(),
            None => self.bell.recv().is_ok(),
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
        let mut mind = self.signals.lock();
        mind.core.woken(self.node);
        let rings = mind.ring_if_ready();
        self.signals.tell_rush(&mut mind);
        drop(mind);
        self.signals.ring(rings);
    }
}
