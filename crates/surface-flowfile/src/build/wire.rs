//! Bounded channels between a node and its tasks; each side wakes the other.
//!
//! Room: driver. Knows channels and wakers; knows nothing of sockets and processes.
//!
//! # Invariant
//! A node that waits is woken: one that found nothing to take, and one that found no room to send.
//!
//! # Why it holds
//! A task wakes the node after it sent, and after it closed. A node that finds no room sets `wants` *and then tries once more*;
//! the task reads `wants` after it took a line. One of the two comes second, and sees the other.
//!
//! # No line is lost
//! A task that stops closes the channel before it empties it ([`Drain::close`]). A line that was put before is returned there; a line that is put after comes back to the node.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use bursar::{
    Receiver, Sender, channel,
    mpmc::{SendError, TryRecvError, TrySendError},
};

use super::line::Item;

/// Batches of messages in transit from a task to its node.
const BATCHES: usize = 4;
/// Lines in transit from a node to its task.
const LINES: usize = 256;

/// The node's end: receives what its task read.
pub(crate) struct Intake {
    batches: Receiver<Vec<Item>>,
    ready: VecDeque<Item>,
}

/// The task's end: sends what it read.
pub(crate) struct Feed {
    // The channel closes before the node is woken: fields are dropped in this order.
    sender: Sender<Vec<Item>>,
    waker: WakeAtEnd,
}

#[derive(Clone)]
struct WakeAtEnd(Waker);

impl Drop for WakeAtEnd {
    fn drop(&mut self) {
        self.0.wake_by_ref();
    }
}

/// What a node received.
pub(crate) enum Next {
    Item(Item),
    /// Nothing now; it will be woken.
    Nothing,
    /// Nothing more will come.
    Over,
}

pub(crate) fn intake(waker: Waker) -> (Feed, Intake) {
    let (sender, batches) = channel(BATCHES);
    (Feed { sender, waker: WakeAtEnd(waker) }, Intake { batches, ready: VecDeque::new() })
}

impl Intake {
    pub(crate) fn next(&mut self) -> Next {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Next::Item(item);
            }
            match self.batches.try_recv() {
                Ok(items) => self.ready.extend(items),
                Err(TryRecvError::Empty) => return Next::Nothing,
                Err(TryRecvError::Closed) => return Next::Over,
            }
        }
    }

    /// Puts an item back to the front.
    pub(crate) fn put_back(&mut self, item: Item) {
        self.ready.push_front(item);
    }
}

impl Feed {
    /// Waits for room. False if the node is gone.
    pub(crate) fn put(&self, items: Vec<Item>) -> bool {
        if items.is_empty() {
            return true;
        }
        let sent = self.sender.send(items);
        self.waker.0.wake_by_ref();
        !matches!(sent, Err(SendError(_)))
    }
}

/// The node's end: sends lines to its task.
pub(crate) struct Outlet {
    lines: Sender<String>,
    /// A line that found no room.
    waiting: Option<String>,
    wants: Arc<AtomicBool>,
}

/// The task's end: receives the lines of its node.
pub(crate) struct Drain {
    lines: Receiver<String>,
    wants: Arc<AtomicBool>,
    waker: Waker,
}

pub(crate) fn outlet(waker: Waker) -> (Outlet, Drain) {
    let (sender, lines) = channel(LINES);
    let wants = Arc::new(AtomicBool::new(false));
    let outlet = Outlet { lines: sender, waiting: None, wants: Arc::clone(&wants) };
    (outlet, Drain { lines, wants, waker })
}

impl Outlet {
    /// Whether a line can be put.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.is_none()
    }

    /// Puts a line; there must be room. The line comes back if the task is gone.
    pub(crate) fn put(&mut self, line: String) -> Result<(), String> {
        self.waiting = Some(line);
        self.push()
    }

    /// Closes this end; returns the line that found no room.
    pub(crate) fn take(self) -> Option<String> {
        self.waiting
    }

    /// Retries the line that found no room.
    pub(crate) fn push(&mut self) -> Result<(), String> {
        for again in [false, true] {
            let Some(line) = self.waiting.take() else { return Ok(()) };
            match self.lines.try_send(line) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(line)) => return Err(line),
                Err(TrySendError::Full(line)) => self.waiting = Some(line),
            }
            if !again {
                self.wants.store(true, Ordering::SeqCst);
            }
        }
        Ok(())
    }
}

impl Drain {
    /// The next line; waits for it. `None` when no more will come.
    pub(crate) fn next(&self) -> Option<String> {
        let line = self.lines.recv().ok();
        self.taken();
        line
    }

    /// A further line, if there is one; does not wait.
    pub(crate) fn more(&self) -> Option<String> {
        let line = self.lines.try_recv().ok()?;
        self.taken();
        Some(line)
    }

    /// Closes the channel: lines that are put from now on come back to the node; lines that were put before are returned here.
    pub(crate) fn close(&self) -> impl Iterator<Item = String> {
        self.lines.close();
        std::iter::from_fn(|| self.lines.try_recv().ok())
    }

    fn taken(&self) {
        if self.wants.swap(false, Ordering::SeqCst) {
            self.waker.wake_by_ref();
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        // A node that waits for room learns that there will be none.
        self.waker.wake_by_ref();
    }
}
