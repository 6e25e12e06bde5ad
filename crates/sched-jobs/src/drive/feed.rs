//! Event queues for listeners.
//!
//! Room: driver.
//!
//! Each listener has its own bounded queue. A listener that does not read loses the oldest events, and [`Events::missed`] counts them.

use core::fmt;
use core::time::Duration;
use policy_jobs::Event;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use sched_tasks::{Condvar, Mutex};

/// The limit of unread events of one listener.
const LIMIT: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Feed {
    listeners: Vec<Weak<Queue>>,
}

#[derive(Default)]
struct Queue {
    unread: Mutex<Unread>,
    arrived: Condvar,
}

#[derive(Default)]
struct Unread {
    events: VecDeque<Event>,
    missed: u64,
    is_over: bool,
}

/// The events of a scheduler, from the call of [`Jobs::events`](super::Jobs::events) on.
pub struct Events(Arc<Queue>);

impl Feed {
    pub(super) fn listen(&mut self) -> Events {
        let queue = Arc::new(Queue::default());
        self.listeners.push(Arc::downgrade(&queue));
        Events(queue)
    }

    /// Whether there are listeners.
    pub(super) fn has_listeners(&mut self) -> bool {
        self.listeners.retain(|listener| listener.strong_count() > 0);
        !self.listeners.is_empty()
    }

    pub(super) fn push(&mut self, events: &[Event]) {
        self.listeners.retain(|listener| {
            let Some(queue) = listener.upgrade() else { return false };
            let mut unread = queue.unread.lock_uninterrupted();
            unread.events.extend(events.iter().copied());
            let over = unread.events.len().saturating_sub(LIMIT);
            unread.events.drain(..over);
            unread.missed += over as u64;
            queue.arrived.notify_one();
            true
        });
    }

    pub(super) fn close(&mut self) {
        for queue in self.listeners.drain(..).filter_map(|listener| listener.upgrade()) {
            queue.unread.lock_uninterrupted().is_over = true;
            queue.arrived.notify_all();
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.close();
    }
}

impl Events {
    /// Waits for the next event. `None` when the scheduler is gone.
    pub fn recv(&mut self) -> Option<Event> {
        let mut unread = self.0.unread.lock_uninterrupted();
        loop {
            if let Some(event) = unread.events.pop_front() {
                return Some(event);
            }
            if unread.is_over {
                return None;
            }
            self.0.arrived.wait(&mut unread);
        }
    }

    /// The next event, if there is one within that time.
    pub fn recv_timeout(&mut self, time: Duration) -> Option<Event> {
        let mut unread = self.0.unread.lock_uninterrupted();
        let empty = |unread: &mut Unread| unread.events.is_empty() && !unread.is_over;
        self.0.arrived.wait_while_timeout(&mut unread, time, empty);
        unread.events.pop_front()
    }

    /// The next event, if it is there.
    pub fn try_recv(&mut self) -> Option<Event> {
        self.0.unread.lock_uninterrupted().events.pop_front()
    }

    /// The number of events that were lost because more than a million were unread.
    pub fn missed(&self) -> u64 {
        self.0.unread.lock_uninterrupted().missed
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.recv()
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}
