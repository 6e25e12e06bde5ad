//! Nodes that gather messages: batches and windows.
//!
//! Room: interface.
//!
//! # Invariant
//! A batch or a tumbling window holds each message once. What is gathered is bounded, by count or by [`Windows::at_most`].
//!
//! A batch or window has the header of its oldest message, so that its age is the longest wait.

use std::{collections::VecDeque, fmt, marker::PhantomData, sync::Arc, time::Duration};

use crate::{
    error::NodeResult,
    message::{Header, Message, Payload, Time},
    node::{NodeSpec, Out, Stage},
};

/// Gathers messages into a `Vec` of `size`. What is left at the end is a smaller one.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, batcher};
///
/// let mut node = Harness::new(batcher::<i32>(3).within(Duration::from_millis(10)));
/// for x in 0..4 {
///     node.send("in", x)?;
/// }
/// assert_eq!(node.take::<Vec<i32>>("out"), [[0, 1, 2]]);
/// node.advance(Duration::from_millis(10)); // the fourth has waited long enough
/// assert_eq!(node.take::<Vec<i32>>("out"), [[3]]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
///
/// # Panics
/// If the size is 0.
#[track_caller]
pub fn batcher<T: Payload>(size: usize) -> Batcher<T> {
    assert!(size > 0, "a batch of 0 messages is never full; give it at least 1");
    Batcher { size, within: None, of: PhantomData }
}

/// Gathers messages; made by [`batcher`].
#[derive(Debug, Clone)]
pub struct Batcher<T> {
    size: usize,
    within: Option<Duration>,
    of: PhantomData<fn(T)>,
}

impl<T: Payload> Batcher<T> {
    /// Emits a batch, full or not, when its first message has waited so long.
    pub fn within(mut self, longest: Duration) -> Self {
        self.within = Some(longest);
        self
    }

    /// The node, to change the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        NodeSpec::stage(Batch::<T> {
            size: self.size,
            within: self.within,
            oldest: Header::default(),
            due: None,
            items: Vec::new(),
        })
    }
}

impl<T: Payload> From<Batcher<T>> for NodeSpec {
    fn from(batcher: Batcher<T>) -> NodeSpec {
        batcher.spec()
    }
}

struct Batch<T> {
    size: usize,
    within: Option<Duration>,
    oldest: Header,
    due: Option<Time>,
    items: Vec<T>,
}

impl<T: Payload> Batch<T> {
    fn emit(&mut self, out: &mut Out<'_, Vec<T>>) {
        self.due = None;
        out.in_flight().set(0);
        if !self.items.is_empty() {
            out.send(Message { header: self.oldest, payload: std::mem::take(&mut self.items) });
        }
    }
}

impl<T: Payload> Stage for Batch<T> {
    type In = T;
    type Out = Vec<T>;

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, Vec<T>>) -> NodeResult {
        if self.items.is_empty() {
            self.oldest = message.header;
            self.due = self.within.map(|longest| out.now() + longest);
            self.due.into_iter().for_each(|due| out.tick_at(due));
        }
        self.items.push(message.payload);
        out.in_flight().set(self.items.len());
        if self.items.len() >= self.size {
            self.emit(out);
        }
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, Vec<T>>) -> NodeResult {
        match self.due {
            Some(due) if due <= out.now() => self.emit(out),
            // An earlier batch, which was full before, asked for this tick.
            Some(due) => out.tick_at(due),
            None => {}
        }
        Ok(())
    }

    fn on_end(&mut self, out: &mut Out<'_, Vec<T>>) -> NodeResult {
        self.emit(out);
        Ok(())
    }
}

/// How long a window is, or how far it moves: in messages, or in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Span {
    /// A number of messages.
    Count(usize),
    /// A time. Windows of time begin at multiples of it, counted from the start of the flow.
    Time(Duration),
}

impl Span {
    pub(super) fn is_nothing(self) -> bool {
        matches!(self, Span::Count(0) | Span::Time(Duration::ZERO))
    }
}

/// Windows that follow each other without overlap: each message is in one. Empty windows are not emitted; the last may be shorter.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, Span, tumbling_window};
///
/// let mut node = Harness::new(tumbling_window::<i32>(Span::Time(Duration::from_secs(1))));
/// for x in 0..5 {
///     node.send("in", x)?;
///     node.advance(Duration::from_millis(300));
/// }
/// assert_eq!(node.take::<Vec<i32>>("out"), [[0, 1, 2, 3]]);
/// node.end();
/// assert_eq!(node.take::<Vec<i32>>("out"), [[4]]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
///
/// # Panics
/// If the length is zero.
#[track_caller]
pub fn tumbling_window<T: Payload>(length: Span) -> Windows<T> {
    assert!(!length.is_nothing(), "a window of length {length:?} holds nothing; make it longer");
    Windows { length: None, step: length, at_most: MAX_MESSAGES, fits: None }
}

/// The last `length`, every `step`; each in messages or in time. Empty windows are not emitted.
///
/// ```
/// use bursar::flow::{Harness, Span, sliding_window};
///
/// let mut node = Harness::new(sliding_window::<i32>(Span::Count(3), Span::Count(1)));
/// for x in 0..4 {
///     node.send("in", x)?;
/// }
/// assert_eq!(node.take::<Vec<i32>>("out"), [vec![0], vec![0, 1], vec![0, 1, 2], vec![1, 2, 3]]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
///
/// # Panics
/// If the length or the step is zero.
#[track_caller]
pub fn sliding_window<T: Payload>(length: Span, step: Span) -> Windows<T> {
    assert!(!length.is_nothing(), "a window of length {length:?} holds nothing; make it longer");
    assert!(!step.is_nothing(), "a window that moves by {step:?} stands still; let it move");
    Windows { length: Some(length), step, at_most: MAX_MESSAGES, fits: None }
}

const MAX_MESSAGES: usize = 65_536;

/// Checks whether a message belongs into a window.
pub(super) type Fits<T> = Arc<dyn Fn(&T) -> NodeResult + Send + Sync>;

/// Windows of messages; made by [`tumbling_window`] and [`sliding_window`].
#[derive(Clone)]
pub struct Windows<T> {
    /// None: a message is in one window only.
    length: Option<Span>,
    step: Span,
    at_most: usize,
    fits: Option<Fits<T>>,
}

impl<T> fmt::Debug for Windows<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { length, step, at_most, .. } = self;
        let mut shown = f.debug_struct("Windows");
        shown.field("length", length).field("step", step).field("at_most", at_most).finish_non_exhaustive()
    }
}

impl<T: Payload> Windows<T> {
    /// Sets a check: a message for which it is an error is in no window. It fails, and the error policy decides.
    pub fn only(mut self, fits: impl Fn(&T) -> NodeResult + Send + Sync + 'static) -> Self {
        self.fits = Some(Arc::new(fits));
        self
    }

    /// The limit of messages of a window; 65,536 by default. A tumbling window that is full is emitted before its time, a
    /// sliding one forgets its oldest.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn at_most(mut self, messages: usize) -> Self {
        assert!(messages > 0, "a window for 0 messages holds nothing; give it at least 1");
        self.at_most = messages;
        self
    }

    /// Each window becomes one value, instead of a `Vec`.
    ///
    /// ```
    /// use bursar::flow::{Harness, Span, tumbling_window};
    ///
    /// let mut node = Harness::new(tumbling_window::<f64>(Span::Count(2)).fold(0.0, |sum: f64, x| sum + x));
    /// for x in [1.0, 2.0, 3.0, 4.0] {
    ///     node.send("in", x)?;
    /// }
    /// assert_eq!(node.take::<f64>("out"), [3.0, 7.0]);
    /// # Ok::<(), bursar::flow::NodeError>(())
    /// ```
    pub fn fold<A: Payload>(self, first: A, mut step: impl FnMut(A, &T) -> A + Send + 'static) -> NodeSpec {
        self.make(move |items| items.fold(first.clone(), &mut step))
    }

    /// The node, to change the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        self.make(|items| items.cloned().collect::<Vec<T>>())
    }

    fn make<A: Payload>(self, make: impl FnMut(&mut dyn Iterator<Item = &T>) -> A + Send + 'static) -> NodeSpec {
        NodeSpec::stage(Window { options: self, items: VecDeque::new(), fresh: 0, closes: None, make })
    }
}

impl<T: Payload> From<Windows<T>> for NodeSpec {
    fn from(windows: Windows<T>) -> NodeSpec {
        windows.spec()
    }
}

struct Window<T, F> {
    options: Windows<T>,
    /// The messages, with the time at which each came.
    items: VecDeque<(Time, Message<T>)>,
    /// The number of messages since the last window.
    fresh: usize,
    /// When the open window is emitted, if its step is a time.
    closes: Option<Time>,
    make: F,
}

impl<T, F> Window<T, F>
where
    T: Payload,
{
    /// Drops messages that are too old for a window that ends now.
    fn forget(&mut self, now: Time) {
        match self.options.length {
            Some(Span::Count(length)) => {
                let surplus = self.items.len().saturating_sub(length);
                self.items.drain(..surplus);
            }
            // A window that ends now began `length` ago, and a message of that moment belongs to it.
            Some(Span::Time(length)) => while self.items.pop_front_if(|(came, _)| *came + length < now).is_some() {},
            None => {}
        }
    }

    /// The next multiple of the step, if it is a time.
    fn closes_after(&self, now: Time) -> Option<Time> {
        let Span::Time(step) = self.options.step else { return None };
        let step = u64::try_from(step.as_nanos()).unwrap_or(u64::MAX);
        Some(Time::from_nanos((now.nanos() / step).saturating_add(1).saturating_mul(step)))
    }

    fn emit<A: Payload>(&mut self, now: Time, out: &mut Out<'_, A>)
    where
        F: FnMut(&mut dyn Iterator<Item = &T>) -> A,
    {
        self.forget(now);
        self.fresh = 0;
        out.in_flight().set(0);
        if let Some((_, oldest)) = self.items.front() {
            let payload = (self.make)(&mut self.items.iter().map(|(_, message)| &message.payload));
            out.send(Message { header: oldest.header, payload });
        }
        if self.options.length.is_none() {
            self.items.clear();
        }
    }

    /// Emits the window that is due.
    fn close_due<A: Payload>(&mut self, out: &mut Out<'_, A>)
    where
        F: FnMut(&mut dyn Iterator<Item = &T>) -> A,
    {
        let now = out.now();
        while let Some(closes) = self.closes.filter(|closes| *closes <= now) {
            // Windows without new messages are not emitted, and need no ticks.
            let same = self.fresh == 0 && matches!(self.options.length, Some(Span::Count(_)));
            if !same {
                self.emit(closes, out);
            }
            self.closes = if same || self.items.is_empty() { None } else { self.closes_after(closes) };
        }
        self.closes.into_iter().for_each(|closes| out.tick_at(closes));
    }
}

impl<T, A, F> Stage for Window<T, F>
where
    T: Payload,
    A: Payload,
    F: FnMut(&mut dyn Iterator<Item = &T>) -> A + Send + 'static,
{
    type In = T;
    type Out = A;

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, A>) -> NodeResult {
        if let Some(fits) = &self.options.fits {
            fits(&message.payload)?;
        }
        let now = out.now();
        self.close_due(out);
        if self.closes.is_none() {
            self.closes = self.closes_after(now);
            self.closes.into_iter().for_each(|closes| out.tick_at(closes));
        }
        self.items.push_back((now, message));
        self.fresh += 1;
        if self.items.len() > self.options.at_most {
            self.items.pop_front();
        }
        let full = self.items.len() == self.options.at_most;
        match self.options.step {
            Span::Count(step) if self.fresh >= step => self.emit(now, out),
            _ if full && self.options.length.is_none() => self.emit(now, out),
            // Only messages that the next window may hold are kept.
            Span::Count(_) => self.forget(now),
            Span::Time(_) if matches!(self.options.length, Some(Span::Count(_))) => self.forget(now),
            Span::Time(_) => {}
        }
        // Messages that were in a window are finished, also if they are kept for the next.
        out.in_flight().set(self.fresh.min(self.items.len()));
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, A>) -> NodeResult {
        self.close_due(out);
        Ok(())
    }

    fn on_end(&mut self, out: &mut Out<'_, A>) -> NodeResult {
        self.close_due(out);
        if self.fresh > 0 {
            self.emit(out.now(), out);
        }
        Ok(())
    }
}
