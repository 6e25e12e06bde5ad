//! Messages in flight: those that a node took and has not finished with.
//!
//! Room: driver. Knows counters; knows nothing of payloads.
//!
//! A node, its tasks and the statistics share it.
//!
//! # Invariant
//! A message that a node took is in flight, or it is counted as handled, failed, unwanted or lost. A message that is still in flight when the tasks of the node have ended is lost.
//! It is never reported as [finished](InFlight::unfinished).

use std::fmt;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};
use std::time::{Duration, Instant};

use crate::stats::LinkStats;

/// The messages in flight of a node: those that it took and has not finished with. A node that keeps messages, or gives them to a task, counts them here. What is left when the flow is over, and the
/// tasks of the node have ended, counts as [lost](crate::NodeStats::lost).
///
/// Clones share one count, and may be used on any thread.
///
/// ```
/// use bursar::flow::{Harness, Message, NodeResult, NodeSpec, Out, Stage};
///
/// /// Keeps every message for ever.
/// struct Keeps(Vec<u32>);
///
/// impl Stage for Keeps {
///     type In = u32;
///     type Out = u32;
///
///     fn on_message(&mut self, message: Message<u32>, out: &mut Out<'_, u32>) -> NodeResult {
///         self.0.push(message.payload);
///         out.in_flight().set(self.0.len());
///         Ok(())
///     }
/// }
/// # let _ = Harness::new(NodeSpec::stage(Keeps(Vec::new())));
/// ```
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    held: AtomicU64,
    /// What was left when the tasks of the node had ended.
    abandoned: AtomicU64,
    unwanted: AtomicU64,
    failed: AtomicU64,
    unconnected: AtomicU64,
    waits_for: Mutex<Option<Wait>>,
    /// The half of an edge between processes that this node is.
    link: Mutex<Option<LinkStats>>,
    listeners: Listeners,
}

/// Listeners for messages that are finished. Most nodes have no listener, and read one flag.
#[derive(Default)]
struct Listeners {
    any: AtomicBool,
    list: Mutex<Vec<Listener>>,
}

/// Called when messages may have been finished.
pub(crate) type Listener = Arc<dyn Fn() + Send + Sync>;

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listeners").finish_non_exhaustive()
    }
}

/// What a node waits for outside the graph.
#[derive(Debug)]
struct Wait {
    what: Arc<str>,
    /// When it began, if it may be short: then it is shown only after [`SLOW`].
    since: Option<Instant>,
}

/// A shorter wait is not shown.
const SLOW: Duration = Duration::from_millis(100);

impl InFlight {
    /// Adds messages.
    pub fn add(&self, messages: usize) {
        self.0.held.fetch_add(messages as u64, Relaxed);
    }

    /// Removes messages that are finished.
    pub fn remove(&self, messages: usize) {
        // A clone on another thread may not have added them yet. The sum is right when both are done.
        self.0.held.fetch_sub(messages as u64, Relaxed);
        self.changed();
    }

    /// Sets the number, for a node that has all of them itself.
    pub fn set(&self, messages: usize) {
        self.0.held.store(messages as u64, Relaxed);
        self.changed();
    }

    /// How many messages are in flight.
    pub fn held(&self) -> u64 {
        (self.0.held.load(Relaxed) as i64).max(0) as u64
    }

    /// Sets what the node waits for outside the graph, for [`Handle::why`](crate::Handle::why): "127.0.0.1:7000 refuses the connection". None if it waits for nothing there.
    pub fn waits_for(&self, what: Option<String>) {
        self.set_wait(what.map(|what| Wait { what: what.into(), since: None }));
    }

    /// The same for a wait that is mostly short: it is shown only after a tenth of a second.
    pub fn may_wait_for(&self, what: &Arc<str>) {
        self.set_wait(Some(Wait { what: Arc::clone(what), since: Some(Instant::now()) }));
    }

    fn set_wait(&self, wait: Option<Wait>) {
        *self.0.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = wait;
    }

    pub(crate) fn waited_for(&self) -> Option<String> {
        let wait = self.0.waits_for.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = wait.as_ref().filter(|wait| wait.since.is_none_or(|since| since.elapsed() >= SLOW));
        shown.map(|wait| wait.what.to_string())
    }

    /// Takes all that is left: it was abandoned.
    pub(crate) fn take(&self) -> u64 {
        // First there, then no longer here: no reader sees them finished in between.
        let left = self.held();
        self.0.abandoned.fetch_add(left, Release);
        self.0.held.store(0, Release);
        left
    }

    /// Messages that were taken and are not finished, or never will be.
    pub(crate) fn unfinished(&self) -> u64 {
        let held = (self.0.held.load(Acquire) as i64).max(0) as u64;
        held + self.0.abandoned.load(Acquire)
    }

    /// Adds a listener for messages that are finished.
    pub(crate) fn listen(&self, listener: Listener) {
        self.0.listeners.list.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
        self.0.listeners.any.store(true, Release);
    }

    /// Messages may have been finished: calls the listeners.
    #[inline]
    pub(crate) fn changed(&self) {
        if self.0.listeners.any.load(Acquire) {
            self.notify();
        }
    }

    #[cold]
    fn notify(&self) {
        self.0.listeners.list.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|listener| listener());
    }

    /// Sets the counters of an edge between processes, of which this node is one half; see [`NodeStats::link`](crate::NodeStats::link).
    pub fn set_link(&self, link: LinkStats) {
        *self.0.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(link);
    }

    pub(crate) fn link(&self) -> Option<LinkStats> {
        self.0.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn count_unwanted(&self, messages: u64) {
        self.0.unwanted.fetch_add(messages, Relaxed);
    }

    pub(crate) fn unwanted(&self) -> u64 {
        self.0.unwanted.load(Relaxed)
    }

    pub(crate) fn count_unconnected(&self, messages: u64) {
        self.0.unconnected.fetch_add(messages, Relaxed);
    }

    pub(crate) fn unconnected(&self) -> u64 {
        self.0.unconnected.load(Relaxed)
    }

    pub(crate) fn count_failed(&self) {
        self.0.failed.fetch_add(1, Relaxed);
    }

    pub(crate) fn failed(&self) -> u64 {
        self.0.failed.load(Relaxed)
    }
}
