//! Between a node and the tasks it starts: bounded both ways, and each wakes the other.
//!
//! Room: surface. Knows channels and wakers; knows no sockets and no processes.
//!
//! # Invariant
//! Whoever waits is woken: a node that took nothing because nothing was there, and one that could send nothing because there was no room.
//!
//! # Why it holds
//! A task wakes the node after it sent, and after it closed. A node that finds no room says so in `wants` *and then tries once more*;
//! the task looks at `wants` after it took something. One of the two is second, and sees the other.
//!
//! # No line falls in between
//! A task that stops closes the channel before it empties it ([`Drain::close`]). A line is put before that, and handed out, or after it, and comes back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use bursar::{
    Receiver, Sender, channel,
    mpmc::{SendError, TryRecvError, TrySendError},
};

use super::line::Item;

/// Handfuls of messages on their way from a task to its node.
const HANDFULS: usize = 4;
/// Lines on their way from a node to its task.
const LINES: usize = 256;

/// Where a node takes what its task read.
pub(crate) struct Intake {
    handfuls: Receiver<Vec<Item>>,
    ready: VecDeque<Item>,
}

/// Where a task puts what it read.
pub(crate) struct Feed {
    // Closed before the node is woken: fields are dropped in this order.
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

/// What a node found.
pub(crate) enum Next {
    Item(Item),
    /// Nothing now; it will be woken.
    Nothing,
    /// Nothing more will come.
    Over,
}

pub(crate) fn intake(waker: Waker) -> (Feed, Intake) {
    let (sender, handfuls) = channel(HANDFULS);
    (Feed { sender, waker: WakeAtEnd(waker) }, Intake { handfuls, ready: VecDeque::new() })
}

impl Intake {
    pub(crate) fn next(&mut self) -> Next {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Next::Item(item);
            }
            match self.handfuls.try_recv() {
                Ok(items) => self.ready.extend(items),
                Err(TryRecvError::Empty) => return Next::Nothing,
                Err(TryRecvError::Closed) => return Next::Over,
            }
        }
    }

    /// Puts back what was found.
    pub(crate) fn put_back(&mut self, item: Item) {
        self.ready.push_front(item);
    }
}

impl Feed {
    /// Waits for room. False if nobody takes it any more.
    pub(crate) fn put(&self, items: Vec<Item>) -> bool {
        if items.is_empty() {
            return true;
        }
        let sent = self.sender.send(items);
        self.waker.0.wake_by_ref();
        !matches!(sent, Err(SendError(_)))
    }
}

/// Where a node puts lines for its task.
pub(crate) struct Outlet {
    lines: Sender<String>,
    /// What found no room.
    waiting: Option<String>,
    wants: Arc<AtomicBool>,
}

/// Where a task takes the lines of its node.
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

    /// Puts a line; there is room. The line comes back if nobody takes it any more.
    pub(crate) fn put(&mut self, line: String) -> Result<(), String> {
        self.waiting = Some(line);
        self.push()
    }

    /// No more is put: what found no room.
    pub(crate) fn take(self) -> Option<String> {
        self.waiting
    }

    /// Tries again what found no room.
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

    /// What is there besides, without waiting.
    pub(crate) fn more(&self) -> Option<String> {
        let line = self.lines.try_recv().ok()?;
        self.taken();
        Some(line)
    }

    /// No more is taken: what is put from now on comes back to the node, and what was put before is handed out here.
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
        // Whoever waits for room learns that there will be none.
        self.waker.wake_by_ref();
    }
}
