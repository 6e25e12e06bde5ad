//! Windows by key: one value for each key of a window.
//!
//! Room: interface.
//!
//! # Invariant
//! Every message is part of exactly one value that is emitted, and the number of keys is bounded. Values of a window leave in the order in which their keys came first.
//!
//! # Why it holds
//! A message is folded into the value of its key at once and not kept. A value leaves the memory when it is emitted: at the end of its window, or earlier, when it is the oldest and
//! another key needs room.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::Hash,
    marker::PhantomData,
    sync::Arc,
};

use super::{Span, group::Fits};
use crate::{
    error::NodeResult,
    message::{Header, Message, Payload, Time},
    node::{NodeSpec, Out, Stage},
};

/// The default limit of keys.
const MAX_KEYS: usize = 65_536;

/// Windows side by side, one for each key: by a number of messages of the key, or by time, at multiples of the length.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, Span, keyed_window};
///
/// // How many requests each path had, minute by minute.
/// let minute = Span::Time(Duration::from_secs(60));
/// let per_path = keyed_window(minute, |path: &String| path.clone()).fold(0u64, |count, _| *count += 1);
/// let mut node = Harness::new(per_path);
/// for path in ["/a", "/b", "/a"] {
///     node.send("in", path.to_string())?;
/// }
/// node.advance(Duration::from_secs(60));
/// assert_eq!(node.take::<(String, u64)>("out"), [("/a".to_string(), 2), ("/b".to_string(), 1)]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
///
/// # Panics
/// If the length is zero.
#[track_caller]
pub fn keyed_window<T: Payload, K: Payload + Hash + Eq>(
    length: Span,
    key: impl FnMut(&T) -> K + Send + 'static,
) -> KeyedWindows<T, K> {
    assert!(!length.is_nothing(), "a window of length {length:?} holds nothing; make it longer");
    KeyedWindows { length, keys: MAX_KEYS, key: Box::new(key), fits: None }
}

/// Windows by key; made by [`keyed_window`].
pub struct KeyedWindows<T, K> {
    length: Span,
    keys: usize,
    key: Box<dyn FnMut(&T) -> K + Send>,
    fits: Option<Fits<T>>,
}

impl<T: Payload, K: Payload + Hash + Eq> KeyedWindows<T, K> {
    /// Sets a check: a message for which it is an error is in no window. It fails, and the error policy decides.
    pub fn only(mut self, fits: impl Fn(&T) -> NodeResult + Send + Sync + 'static) -> Self {
        self.fits = Some(Arc::new(fits));
        self
    }

    /// The limit of keys; 65,536 by default. For one more, the value of the oldest is emitted before its time.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn keys(mut self, at_most: usize) -> Self {
        assert!(at_most > 0, "windows of 0 keys hold nothing; give them at least 1");
        self.keys = at_most;
        self
    }

    /// The messages of a key and a window become one value, which is emitted with the key: `(K, A)`.
    pub fn fold<A: Payload>(self, first: A, step: impl FnMut(&mut A, &T) + Send + 'static) -> NodeSpec {
        self.fold_then(first, step, |key, value| Some((key, value)))
    }

    /// As [`fold`](Self::fold), with a function that makes a message of key and value, or none.
    pub fn fold_then<A: Payload, B: Payload>(
        self,
        first: A,
        step: impl FnMut(&mut A, &T) + Send + 'static,
        make: impl FnMut(K, A) -> Option<B> + Send + 'static,
    ) -> NodeSpec {
        let options = self;
        NodeSpec::stage(Keyed {
            options,
            first,
            step,
            make,
            open: HashMap::new(),
            order: VecDeque::new(),
            held: 0,
            closes: None,
            of: PhantomData,
        })
    }
}

impl<T, K> fmt::Debug for KeyedWindows<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedWindows").field("length", &self.length).field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// The value of a key, so far.
struct Opened<A> {
    /// The header of its first message.
    header: Header,
    value: A,
    count: usize,
}

struct Keyed<T, K, A, B, F, G> {
    options: KeyedWindows<T, K>,
    first: A,
    step: F,
    make: G,
    open: HashMap<K, Opened<A>>,
    /// Open keys, in the order in which they came.
    order: VecDeque<K>,
    /// The number of messages in open windows.
    held: usize,
    /// When the open windows end, if their length is a time.
    closes: Option<Time>,
    of: PhantomData<fn() -> B>,
}

impl<T, K, A, B, F, G> Keyed<T, K, A, B, F, G>
where
    T: Payload,
    K: Payload + Hash + Eq,
    A: Payload,
    B: Payload,
    G: FnMut(K, A) -> Option<B>,
{
    fn close(&mut self, key: K, out: &mut Out<'_, B>) {
        let Some(Opened { header, value, count }) = self.open.remove(&key) else { return };
        self.held -= count;
        out.in_flight().set(self.held);
        if let Some(payload) = (self.make)(key, value) {
            out.send(Message { header, payload });
        }
    }

    fn close_all(&mut self, out: &mut Out<'_, B>) {
        while let Some(key) = self.order.pop_front() {
            self.close(key, out);
        }
    }

    fn close_due(&mut self, out: &mut Out<'_, B>) {
        match self.closes {
            Some(closes) if closes <= out.now() => {
                self.closes = None;
                self.close_all(out);
            }
            Some(closes) => out.tick_at(closes),
            None => {}
        }
    }
}

impl<T, K, A, B, F, G> Stage for Keyed<T, K, A, B, F, G>
where
    T: Payload,
    K: Payload + Hash + Eq,
    A: Payload,
    B: Payload,
    F: FnMut(&mut A, &T) + Send + 'static,
    G: FnMut(K, A) -> Option<B> + Send + 'static,
{
    type In = T;
    type Out = B;

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, B>) -> NodeResult {
        let Message { header, payload } = message;
        if let Some(fits) = &self.options.fits {
            fits(&payload)?;
        }
        self.close_due(out);
        let key = (self.options.key)(&payload);
        if !self.open.contains_key(&key) {
            if self.open.len() == self.options.keys
                && let Some(oldest) = self.order.pop_front()
            {
                self.close(oldest, out);
            }
            self.order.push_back(key.clone());
            self.open.insert(key.clone(), Opened { header, value: self.first.clone(), count: 0 });
        }
        let opened = self.open.get_mut(&key).expect("there, or inserted");
        (self.step)(&mut opened.value, &payload);
        opened.count += 1;
        self.held += 1;
        out.in_flight().set(self.held);
        match self.options.length {
            Span::Count(length) if opened.count >= length => {
                // A linear search, but windows by number have few keys or many messages.
                if let Some(at) = self.order.iter().position(|known| *known == key) {
                    self.order.remove(at);
                }
                self.close(key, out);
            }
            Span::Count(_) => {}
            Span::Time(length) if self.closes.is_none() => {
                let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
                let ends = (out.now().nanos() / length).saturating_add(1).saturating_mul(length);
                self.closes = Some(Time::from_nanos(ends));
                out.tick_at(Time::from_nanos(ends));
            }
            Span::Time(_) => {}
        }
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, B>) -> NodeResult {
        self.close_due(out);
        Ok(())
    }

    fn on_end(&mut self, out: &mut Out<'_, B>) -> NodeResult {
        self.close_all(out);
        Ok(())
    }
}
