//! Nodes that inspect, count or fold messages.
//!
//! Room: interface.

use std::marker::PhantomData;

use crate::{
    error::NodeResult,
    message::{Message, Payload},
    node::{NodeSpec, Out, Stage},
};

/// Calls a closure with each message, and forwards it.
///
/// ```
/// use bursar::flow::{Harness, inspect};
///
/// let mut node = Harness::new(inspect(|x: &i32| println!("saw {x}")));
/// node.send("in", 7)?;
/// assert_eq!(node.take::<i32>("out"), [7]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn inspect<T: Payload>(mut look: impl FnMut(&T) + Send + 'static) -> NodeSpec {
    super::map(move |payload: T| {
        look(&payload);
        payload
    })
}

/// Counts messages, and emits the number so far at each [tick](NodeSpec::tick) and at the end.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, counter};
///
/// let mut node = Harness::new(counter::<String>().tick(Duration::from_secs(1)));
/// node.send("in", "a".to_string())?;
/// node.send("in", "b".to_string())?;
/// node.advance(Duration::from_secs(1));
/// assert_eq!(node.take::<u64>("out"), [2]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn counter<T: Payload>() -> NodeSpec {
    fold(0u64, |count: &mut u64, _: T| *count += 1)
}

/// Folds all messages into one value, which is emitted at each [tick](NodeSpec::tick), if the node has a cadence, and at the end.
///
/// ```
/// use bursar::flow::{Harness, fold};
///
/// let mut node = Harness::new(fold(0, |sum: &mut i32, x: i32| *sum += x));
/// node.send("in", 1)?;
/// node.send("in", 2)?;
/// node.end();
/// assert_eq!(node.take::<i32>("out"), [3]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn fold<S: Payload, T: Payload>(state: S, step: impl FnMut(&mut S, T) + Send + 'static) -> NodeSpec {
    NodeSpec::stage(Fold { first: None, state, step, of: PhantomData })
}

/// As [`counter`], of messages since the last [tick](NodeSpec::tick): it begins at 0 again after each.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{Harness, counter_per_tick};
///
/// let mut node = Harness::new(counter_per_tick::<i32>().tick(Duration::from_secs(1)));
/// node.send("in", 1)?;
/// node.advance(Duration::from_secs(2));
/// assert_eq!(node.take::<u64>("out"), [1, 0]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn counter_per_tick<T: Payload>() -> NodeSpec {
    fold_per_tick(0u64, |count: &mut u64, _: T| *count += 1)
}

/// As [`fold`], of messages since the last [tick](NodeSpec::tick): it begins with the first value again after each.
pub fn fold_per_tick<S: Payload, T: Payload>(first: S, step: impl FnMut(&mut S, T) + Send + 'static) -> NodeSpec {
    NodeSpec::stage(Fold { state: first.clone(), first: Some(first), step, of: PhantomData })
}

struct Fold<S, T, F> {
    /// What it begins with again after each tick, if it does.
    first: Option<S>,
    state: S,
    step: F,
    of: PhantomData<fn(T)>,
}

impl<S, T, F> Stage for Fold<S, T, F>
where
    S: Payload,
    T: Payload,
    F: FnMut(&mut S, T) + Send + 'static,
{
    type In = T;
    type Out = S;

    fn on_message(&mut self, message: Message<T>, _out: &mut Out<'_, S>) -> NodeResult {
        (self.step)(&mut self.state, message.payload);
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, S>) -> NodeResult {
        out.emit(match &self.first {
            Some(first) => std::mem::replace(&mut self.state, first.clone()),
            None => self.state.clone(),
        });
        Ok(())
    }

    fn on_end(&mut self, out: &mut Out<'_, S>) -> NodeResult {
        self.on_tick(out)
    }
}

/// As [`map`](crate::map), with a state that lasts from message to message.
///
/// ```
/// use bursar::flow::{Harness, scan};
///
/// let mut node = Harness::new(scan(0, |sum: &mut i32, x: i32| { *sum += x; *sum }));
/// for x in 1..=3 {
///     node.send("in", x)?;
/// }
/// assert_eq!(node.take::<i32>("out"), [1, 3, 6]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn scan<S: Send + 'static, A: Payload, B: Payload>(
    mut state: S,
    mut step: impl FnMut(&mut S, A) -> B + Send + 'static,
) -> NodeSpec {
    super::map(move |payload| step(&mut state, payload))
}
