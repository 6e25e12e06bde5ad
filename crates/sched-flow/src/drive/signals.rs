//! The scheduler's mind behind its lock, and the bell that wakes workers.
//!
//! Room: drive.
//!
//! # Invariant
//! When something can be done, a worker is awake, or one that sleeps has been rung. When a time is waited for, an idle worker waits for the
//! earliest, or a busy one will look before it sleeps.
//!
//! # Why it holds
//! All changes are made under the lock, and so is the decision to sleep: `idle` is raised in the same hold of the lock in which nothing was found. Whoever
//! changes something looks at `idle` in the same hold, and rings after it. A ring is a token in a channel that outlives the moment, so it
//! cannot come too early. `idle` and `rung` together say how many sleep or are being woken, whichever of them takes the token.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Wake,
    time::Duration,
};

use sched_tasks::{Receiver, Sender, channel};

use crate::{decide::Core, error::NodeError, message::Time};

/// The decisions and who waits for them.
pub(crate) struct Mind {
    pub(crate) core: Core,
    /// The priorities of the edges, as users gave them.
    pub(crate) priorities: Vec<i32>,
    /// So many workers sleep and have not been rung.
    idle: usize,
    /// So many have been rung and have not looked yet.
    rung: usize,
    /// One that sleeps wakes up at this time.
    keeper: Option<Time>,
    /// All nodes were started.
    pub(crate) started: bool,
    /// Somebody wants the flow to drain; perhaps before it was started.
    pub(crate) shutdown_asked: bool,
    /// What stopped the graph, and in which node.
    pub(crate) failure: Option<(u32, NodeError)>,
    /// Edges that were closed and hold what nobody gets.
    pub(crate) to_sweep: Vec<u32>,
}

pub(crate) struct Signals {
    mind: Mutex<Mind>,
    ring: Sender<()>,
    bell: Receiver<()>,
}

/// How many to ring.
#[must_use = "workers sleep on until they are rung"]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rings(usize);

impl Rings {
    pub(crate) const NONE: Rings = Rings(0);
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
        let next = self.core.next_time();
        let late = next.is_some_and(|next| self.keeper.is_none_or(|keeper| next < keeper));
        let one = self.idle > 0 && (late || self.core.has_ready());
        self.idle -= usize::from(one);
        self.rung += usize::from(one);
        Rings(usize::from(one))
    }

    /// Everybody who sleeps.
    pub(crate) fn ring_all(&mut self) -> Rings {
        let all = std::mem::take(&mut self.idle);
        self.rung += all;
        Rings(all)
    }

    /// The worker that has the lock goes to sleep.
    pub(crate) fn sleeps(&mut self, until: Option<Time>) -> Option<Time> {
        self.idle += 1;
        // One watches the clock, the others need not.
        match until {
            Some(at) if self.keeper.is_none_or(|keeper| at < keeper) => {
                self.keeper = Some(at);
                Some(at)
            }
            _ => None,
        }
    }

    /// It woke up.
    pub(crate) fn woke(&mut self, kept: Option<Time>) {
        if self.rung > 0 {
            self.rung -= 1;
        } else {
            self.idle -= 1;
        }
        if kept.is_some() && self.keeper == kept {
            self.keeper = None;
        }
    }
}

impl Signals {
    pub(crate) fn new(core: Core, priorities: Vec<i32>, workers: usize) -> Self {
        let (ring, bell) = channel(workers.max(1));
        let mind = Mind {
            core,
            priorities,
            idle: 0,
            rung: 0,
            keeper: None,
            started: false,
            shutdown_asked: false,
            failure: None,
            to_sweep: Vec::new(),
        };
        Self { mind: Mutex::new(mind), ring, bell }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Mind> {
        // No user code runs under this lock; if an assertion failed, others may still see what is left.
        self.mind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ring(&self, rings: Rings) {
        for _ in 0..rings.0 {
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
        drop(mind);
        self.signals.ring(rings);
    }
}
