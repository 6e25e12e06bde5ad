//! Nodes that remember keys for a time: a cache and a filter of duplicates.
//!
//! Room: interface.
//!
//! # Invariant
//! At most `capacity` keys are remembered, and none longer than its time to live.
//!
//! # Why it holds
//! [`Memory`] forgets in the order in which it learned. All entries live equally long, so that is also the order in which they expire.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    marker::PhantomData,
    time::Duration,
};

use crate::{
    error::{NodeError, NodeResult},
    message::{Message, Payload, Time},
    node::{NodeSpec, Out, Stage},
};

/// Values by key, each for a time.
struct Memory<K, V> {
    ttl: Duration,
    capacity: usize,
    values: HashMap<K, V>,
    /// The oldest first, with the time at which each expires. The same keys as in `values`.
    order: VecDeque<(Time, K)>,
}

impl<K: Hash + Eq + Clone, V> Memory<K, V> {
    #[track_caller]
    fn new(ttl: Duration, capacity: usize) -> Self {
        assert!(capacity > 0, "a memory for 0 keys remembers nothing; give it at least 1");
        Self { ttl, capacity, values: HashMap::new(), order: VecDeque::new() }
    }

    fn get(&mut self, key: &K, now: Time) -> Option<&V> {
        while let Some((_, expired)) = self.order.pop_front_if(|(expires, _)| *expires <= now) {
            self.values.remove(&expired);
        }
        self.values.get(key)
    }

    /// Adds a key that is not known: `get` was called before.
    fn learn(&mut self, key: K, value: V, now: Time) {
        if self.values.len() >= self.capacity
            && let Some((_, oldest)) = self.order.pop_front()
        {
            self.values.remove(&oldest);
        }
        self.order.push_back((now + self.ttl, key.clone()));
        self.values.insert(key, value);
    }
}

/// Forwards the first message with each key, and drops those with the same key within `ttl` of the first. Remembers at most 65,536 keys; see [`dedup_up_to`].
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, dedup};
///
/// let mut node = Harness::new(dedup(Duration::from_secs(1), |x: &i32| x % 10));
/// for x in [1, 2, 11, 3] {
///     node.send("in", x)?;
/// }
/// assert_eq!(node.take::<i32>("out"), [1, 2, 3]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn dedup<T, K>(ttl: Duration, key: impl FnMut(&T) -> K + Send + 'static) -> NodeSpec
where
    T: Payload,
    K: Hash + Eq + Clone + Send + 'static,
{
    dedup_up_to(65_536, ttl, key)
}

/// As [`dedup`]; of more than `capacity` keys the oldest is forgotten, and its next message passes.
///
/// # Panics
/// If the capacity is 0.
#[track_caller]
pub fn dedup_up_to<T, K>(capacity: usize, ttl: Duration, key: impl FnMut(&T) -> K + Send + 'static) -> NodeSpec
where
    T: Payload,
    K: Hash + Eq + Clone + Send + 'static,
{
    NodeSpec::stage(Dedup { key, seen: Memory::new(ttl, capacity), of: PhantomData })
}

struct Dedup<T, K, F> {
    key: F,
    seen: Memory<K, ()>,
    of: PhantomData<fn(T)>,
}

impl<T, K, F> Stage for Dedup<T, K, F>
where
    T: Payload,
    K: Hash + Eq + Clone + Send + 'static,
    F: FnMut(&T) -> K + Send + 'static,
{
    type In = T;
    type Out = T;

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, T>) -> NodeResult {
        let key = (self.key)(&message.payload);
        if self.seen.get(&key, out.now()).is_none() {
            self.seen.learn(key, (), out.now());
            out.send(message);
        }
        Ok(())
    }
}

/// As [`try_map`](crate::try_map), with a cache: the result for a key is used again for `ttl`, for at most `capacity` keys. With more, the
/// oldest is forgotten. Failures are not cached.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, NodeError, cache};
///
/// let mut asked = 0;
/// let mut node = Harness::new(cache(Duration::from_secs(60), 1000, |name: &String| name.clone(), move |name: String| {
///     asked += 1;
///     Ok::<_, NodeError>(format!("{name} is {asked}"))
/// }));
/// for name in ["a", "b", "a"] {
///     node.send("in", name.to_string())?;
/// }
/// assert_eq!(node.take::<String>("out"), ["a is 1", "b is 2", "a is 1"]);
/// # Ok::<(), NodeError>(())
/// ```
///
/// # Panics
/// If the capacity is 0.
#[track_caller]
pub fn cache<A, B, K, E>(
    ttl: Duration,
    capacity: usize,
    key: impl FnMut(&A) -> K + Send + 'static,
    ask: impl FnMut(A) -> Result<B, E> + Send + 'static,
) -> NodeSpec
where
    A: Payload,
    B: Payload,
    K: Hash + Eq + Clone + Send + 'static,
    E: Into<NodeError>,
{
    NodeSpec::stage(Cache { key, ask, known: Memory::new(ttl, capacity), of: PhantomData })
}

struct Cache<A, B, K, F, G> {
    key: F,
    ask: G,
    known: Memory<K, B>,
    of: PhantomData<fn(A)>,
}

impl<A, B, K, E, F, G> Stage for Cache<A, B, K, F, G>
where
    A: Payload,
    B: Payload,
    K: Hash + Eq + Clone + Send + 'static,
    E: Into<NodeError>,
    F: FnMut(&A) -> K + Send + 'static,
    G: FnMut(A) -> Result<B, E> + Send + 'static,
{
    type In = A;
    type Out = B;

    fn on_message(&mut self, message: Message<A>, out: &mut Out<'_, B>) -> NodeResult {
        let key = (self.key)(&message.payload);
        if let Some(known) = self.known.get(&key, out.now()) {
            out.emit(known.clone());
            return Ok(());
        }
        let answer = (self.ask)(message.payload).map_err(Into::into)?;
        out.emit(answer.clone());
        self.known.learn(key, answer, out.now());
        Ok(())
    }
}
