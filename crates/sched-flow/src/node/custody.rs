//! What a node has in its hands between two calls, told where anybody may look.
//!
//! Room: mechanism of the crate. Shared by a node, its tasks and the statistics.
//!
//! # Invariant
//! A message that a node took is in its custody, or came to an end that is counted. What is left in the custody of a node when its tasks have ended is lost, and counted so.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use std::time::{Duration, Instant};

/// Messages that a node took and has not finished with. A node that keeps messages, or gives them to a task, says so here; what is left when the flow is over, and the
/// tasks of the node have ended, counts as [lost](crate::NodeStats::lost).
///
/// Clones are the same custody, and may be used on any thread.
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
///         out.custody().set(self.0.len());
///         Ok(())
///     }
/// }
/// # let _ = Harness::new(NodeSpec::stage(Keeps(Vec::new())));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Custody(Arc<Inner>);

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
    /// If it may be over in a moment: then it is told only after [`SLOW`].
    since: Option<Instant>,
}

/// What takes no longer than this is no wait that anybody wants to hear of.
const SLOW: Duration = Duration::from_millis(100);

impl Custody {
    /// So many messages more.
    pub fn add(&self, messages: usize) {
        self.0.held.fetch_add(messages as u64, Relaxed);
    }

    /// So many came to their end.
    pub fn remove(&self, messages: usize) {
        // A clone of another thread may not have added them yet: the sum is right when both have.
        self.0.held.fetch_sub(messages as u64, Relaxed);
    }

    /// So many, whatever was said before: for a node that alone has them.
    pub fn set(&self, messages: usize) {
        self.0.held.store(messages as u64, Relaxed);
    }

    /// How many there are.
    pub fn held(&self) -> u64 {
        (self.0.held.load(Relaxed) as i64).max(0) as u64
    }

    /// What the node waits for outside the graph, in words, for [`Handle::why`](crate::Handle::why): "127.0.0.1:7000 refuses the connection". None if it waits for nothing there.
    pub fn waits_for(&self, what: Option<String>) {
        self.set_wait(what.map(|what| Wait { what: what.into(), since: None }));
    }

    /// The same for something that is mostly over at once: it is told only if it takes a tenth of a second.
    pub fn may_wait_for(&self, what: &Arc<str>) {
        self.set_wait(Some(Wait { what: Arc::clone(what), since: Some(Instant::now()) }));
    }

    fn set_wait(&self, wait: Option<Wait>) {
        *self.0.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = wait;
    }

    pub(crate) fn waited_for(&self) -> Option<String> {
        let wait = self.0.waits_for.lock().unwrap_or_else(PoisonError::into_inner);
        let told = wait.as_ref().filter(|wait| wait.since.is_none_or(|since| since.elapsed() >= SLOW));
        told.map(|wait| wait.what.to_string())
    }

    /// All that is left; nothing is, after that.
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
