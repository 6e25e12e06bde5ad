//! A node that pairs messages by key.
//!
//! Room: interface.
//!
//! # Invariant
//! Every message leaves once: in a pair, or unmatched. At most `capacity` wait on each side.
//!
//! # Why it holds
//! A message enters [`Side`] once and leaves it by its number, which is taken out of both of its tables at the same time.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::Hash,
    time::Duration,
};

use crate::{
    error::NodeResult,
    message::{Message, Payload, Time},
    node::{AnyMessage, Context, Node, NodeSpec, Ports},
};

/// Pairs each message of the input `left` with one of the input `right` that has the same key and comes within a time. Pairs leave by `out`, as `(L, R)`; those for
/// which no partner came leave by `left` and `right`.
///
/// Of several with the same key, the oldest is paired first. A pair has the trace id of the message that completed it.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, correlator};
///
/// let requests_and_answers = correlator(
///     |request: &(u32, &str)| request.0,
///     |answer: &(u32, f64)| answer.0,
///     Duration::from_secs(5),
/// );
/// let mut node = Harness::new(requests_and_answers);
/// node.send("left", (1u32, "pi"))?;
/// node.send("left", (2u32, "e"))?;
/// node.send("right", (1u32, 3.14))?;
/// assert_eq!(node.take::<((u32, &str), (u32, f64))>("out"), [((1, "pi"), (1, 3.14))]);
/// node.advance(Duration::from_secs(5));
/// assert_eq!(node.take::<(u32, &str)>("left"), [(2, "e")]); // never answered
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn correlator<L, R, K, F, G>(left: F, right: G, within: Duration) -> Correlator<L, R, K, F, G>
where
    L: Payload,
    R: Payload,
    K: Hash + Eq + Clone + Send + 'static,
    F: FnMut(&L) -> K + Send + 'static,
    G: FnMut(&R) -> K + Send + 'static,
{
    Correlator { left, right, within, capacity: 65_536, lefts: Side::new(), rights: Side::new() }
}

/// Pairs messages by key; made by [`correlator`].
pub struct Correlator<L, R, K, F, G> {
    left: F,
    right: G,
    within: Duration,
    capacity: usize,
    lefts: Side<L, K>,
    rights: Side<R, K>,
}

impl<L, R, K, F, G> Correlator<L, R, K, F, G> {
    /// The limit of messages that wait on each side; 65,536 by default. With more, the oldest leaves unmatched before its time.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn capacity(mut self, messages: usize) -> Self {
        assert!(messages > 0, "a correlator for 0 messages pairs nothing; give it at least 1");
        self.capacity = messages;
        self
    }
}

impl<L, R, K, F, G> Correlator<L, R, K, F, G>
where
    Self: Node,
{
    /// The node, to change the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        NodeSpec::node(self)
    }
}

impl<L, R, K, F, G> From<Correlator<L, R, K, F, G>> for NodeSpec
where
    Correlator<L, R, K, F, G>: Node,
{
    fn from(correlator: Correlator<L, R, K, F, G>) -> NodeSpec {
        correlator.spec()
    }
}

/// The messages that wait on one side.
struct Side<T, K> {
    next: u64,
    /// By number, so the oldest first.
    waiting: BTreeMap<u64, (Time, K, Message<T>)>,
    /// The numbers of the messages of a key, the oldest first. No entry is empty.
    by_key: HashMap<K, VecDeque<u64>>,
}

impl<T, K: Hash + Eq + Clone> Side<T, K> {
    fn new() -> Self {
        Self { next: 0, waiting: BTreeMap::new(), by_key: HashMap::new() }
    }

    fn add(&mut self, expires: Time, key: K, message: Message<T>) {
        self.by_key.entry(key.clone()).or_default().push_back(self.next);
        self.waiting.insert(self.next, (expires, key, message));
        self.next += 1;
    }

    /// The oldest with this key.
    fn take(&mut self, key: &K) -> Option<Message<T>> {
        let number = *self.by_key.get(key)?.front()?;
        self.remove(number)
    }

    /// The oldest of all, if its time fits.
    fn take_oldest_if(&mut self, gone: impl FnOnce(Time) -> bool) -> Option<Message<T>> {
        let (number, (expires, ..)) = self.waiting.first_key_value()?;
        if gone(*expires) { self.remove(*number) } else { None }
    }

    fn remove(&mut self, number: u64) -> Option<Message<T>> {
        let (_, key, message) = self.waiting.remove(&number)?;
        // It is the oldest of its key in both cases, so it is the first there.
        if let Some(numbers) = self.by_key.get_mut(&key) {
            let first = numbers.pop_front();
            debug_assert_eq!(first, Some(number));
            if numbers.is_empty() {
                self.by_key.remove(&key);
            }
        }
        Some(message)
    }

    fn earliest(&self) -> Option<Time> {
        self.waiting.first_key_value().map(|(_, (expires, ..))| *expires)
    }
}

impl<L, R, K, F, G> Correlator<L, R, K, F, G>
where
    L: Payload,
    R: Payload,
    K: Hash + Eq + Clone + Send + 'static,
{
    /// Emits the messages that waited long enough.
    fn expire(&mut self, cx: &mut Context<'_>) -> NodeResult {
        let now = cx.now();
        while let Some(message) = self.lefts.take_oldest_if(|expires| expires <= now) {
            cx.send("left", message)?;
        }
        while let Some(message) = self.rights.take_oldest_if(|expires| expires <= now) {
            cx.send("right", message)?;
        }
        cx.in_flight().set(self.lefts.waiting.len() + self.rights.waiting.len());
        let earliest = self.lefts.earliest().into_iter().chain(self.rights.earliest()).min();
        earliest.into_iter().for_each(|earliest| cx.tick_at(earliest));
        Ok(())
    }
}

impl<L, R, K, F, G> Node for Correlator<L, R, K, F, G>
where
    L: Payload,
    R: Payload,
    K: Hash + Eq + Clone + Send + 'static,
    F: FnMut(&L) -> K + Send + 'static,
    G: FnMut(&R) -> K + Send + 'static,
{
    fn ports(&self, ports: &mut Ports) {
        ports.input::<L>("left").input::<R>("right");
        ports.output::<(L, R)>("out").output::<L>("left").output::<R>("right");
    }

    fn on_message(&mut self, port: &str, message: AnyMessage<'_>, cx: &mut Context<'_>) -> NodeResult {
        let expires = cx.now() + self.within;
        if port == "left" {
            let message = message.take::<L>()?;
            let key = (self.left)(&message.payload);
            // The key comes first: if that fails, nothing has left its table. Then late messages leave, since a tick may
            // come after a message.
            self.expire(cx)?;
            if let Some(right) = self.rights.take(&key) {
                cx.in_flight().remove(1);
                return cx.emit("out", (message.payload, right.payload));
            }
            self.lefts.add(expires, key, message);
            if self.lefts.waiting.len() > self.capacity
                && let Some(oldest) = self.lefts.take_oldest_if(|_| true)
            {
                cx.send("left", oldest)?;
            }
        } else {
            let message = message.take::<R>()?;
            let key = (self.right)(&message.payload);
            self.expire(cx)?;
            if let Some(left) = self.lefts.take(&key) {
                cx.in_flight().remove(1);
                return cx.emit("out", (left.payload, message.payload));
            }
            self.rights.add(expires, key, message);
            if self.rights.waiting.len() > self.capacity
                && let Some(oldest) = self.rights.take_oldest_if(|_| true)
            {
                cx.send("right", oldest)?;
            }
        }
        self.expire(cx)
    }

    fn on_tick(&mut self, cx: &mut Context<'_>) -> NodeResult {
        self.expire(cx)
    }

    fn on_end(&mut self, cx: &mut Context<'_>) -> NodeResult {
        cx.in_flight().set(0);
        while let Some(message) = self.lefts.take_oldest_if(|_| true) {
            cx.send("left", message)?;
        }
        while let Some(message) = self.rights.take_oldest_if(|_| true) {
            cx.send("right", message)?;
        }
        Ok(())
    }
}
