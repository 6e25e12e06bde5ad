//! Messages in flight: those that a node took and has not finished with.
//!
//! Room: driver. Knows counters; knows nothing of payloads.
//!
//! A node, its tasks and the statistics share it.
//!
//! # Invariant
//! A message that a node took is in flight, or it is counted as handled, failed, unwanted or lost. A message that is still in flight when the tasks of the node have ended is lost.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use std::time::{Duration, Instant};

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
    unwanted: AtomicU64,
    failed: AtomicU64,
    unconnected: AtomicU64,
    waits_for: Mutex<Option<Wait>>,
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
    }

    /// Sets the number, for a node that has all of them itself.
    pub fn set(&self, messages: usize) {
        self.0.held.store(messages as u64, Relaxed);
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

    /// Takes all that is left.
    pub(crate) fn take(&self) -> u64 {
        (self.0.held.swap(0, Relaxed) as i64).max(0) as u64
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
