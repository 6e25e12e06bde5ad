//! Nodes that choose where a message goes.
//!
//! Room: interface.

use std::marker::PhantomData;

use crate::{
    error::{DeadLetter, NodeError, NodeResult},
    message::{Kind, Message, Payload},
    node::{AnyMessage, Context, Node, NodeSpec, Out, Ports, Stage},
};

/// How a closure names an output of a [`router`]: by its index, or by its name.
pub trait Route {
    /// The index of the output among these. None if it is not one of them.
    fn index(&self, outputs: &[String]) -> Option<usize>;
    /// Its text in an error.
    fn describe(&self) -> String;
}

impl Route for usize {
    fn index(&self, outputs: &[String]) -> Option<usize> {
        (*self < outputs.len()).then_some(*self)
    }
    fn describe(&self) -> String {
        self.to_string()
    }
}

impl Route for &str {
    fn index(&self, outputs: &[String]) -> Option<usize> {
        outputs.iter().position(|output| output == self)
    }
    fn describe(&self) -> String {
        format!("`{self}`")
    }
}

impl Route for String {
    fn index(&self, outputs: &[String]) -> Option<usize> {
        self.as_str().index(outputs)
    }
    fn describe(&self) -> String {
        self.as_str().describe()
    }
}

/// Sends each message to one of several outputs, by index or name. An index or name that does not exist is an error of the node.
///
/// A full output makes all messages wait, also those for other outputs: give outputs that may be slow an edge with
/// [`Policy::Drop`](crate::Policy::Drop) or a large capacity.
///
/// ```
/// use bursar::flow::{Harness, router};
///
/// let mut node = Harness::new(router(["low", "high"], |celsius: &f64| if *celsius < 80.0 { "low" } else { "high" }));
/// node.send("in", 20.5)?;
/// node.send("in", 99.0)?;
/// assert_eq!(node.take::<f64>("high"), [99.0]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
///
/// # Panics
/// Without outputs.
#[track_caller]
pub fn router<T: Payload, R: Route>(
    outputs: impl IntoIterator<Item: Into<String>>,
    choose: impl FnMut(&T) -> R + Send + 'static,
) -> NodeSpec {
    let outputs: Vec<String> = outputs.into_iter().map(Into::into).collect();
    assert!(!outputs.is_empty(), "a router without outputs sends nothing anywhere; name at least one");
    NodeSpec::stage(Router { outputs, choose, of: PhantomData })
}

struct Router<T, F> {
    outputs: Vec<String>,
    choose: F,
    of: PhantomData<fn(T)>,
}

impl<T: Payload, R: Route, F: FnMut(&T) -> R + Send + 'static> Stage for Router<T, F> {
    type In = T;
    type Out = T;

    fn outputs(&self) -> Vec<String> {
        self.outputs.clone()
    }

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, T>) -> NodeResult {
        let route = (self.choose)(&message.payload);
        match route.index(&self.outputs) {
            Some(place) => out.send_to(place, message),
            None => {
                let known = self.outputs.join("`, `");
                let wanted = route.describe();
                return Err(NodeError::msg(format!("router has no output {wanted}; its outputs are `{known}`")));
            }
        }
        Ok(())
    }
}

/// Deals messages to `n` outputs, `0` to `n - 1`, one after the other: each gets every `n`th. Waits for the output whose turn it is.
///
/// To give more to faster consumers, see [`deal`].
///
/// ```
/// use bursar::flow::{Harness, splitter};
///
/// let mut node = Harness::new(splitter::<i32>(2));
/// for x in 0..5 {
///     node.send("in", x)?;
/// }
/// assert_eq!(node.take::<i32>("0"), [0, 2, 4]);
/// assert_eq!(node.take::<i32>("1"), [1, 3]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
///
/// # Panics
/// If `n` is 0.
#[track_caller]
pub fn splitter<T: Payload>(n: usize) -> NodeSpec {
    assert!(n > 0, "a splitter into 0 outputs sends nothing anywhere; give it at least 1");
    let mut next = 0;
    router((0..n).map(|place| place.to_string()), move |_: &T| {
        let place = next;
        next = (next + 1) % n;
        place
    })
}

/// Deals messages to `n` outputs, `0` to `n - 1`: each goes to the one with the most room, in turn if they have the same. A slow consumer
/// gets less, and does not block the others.
///
/// # Panics
/// If `n` is 0.
#[track_caller]
pub fn deal<T: Payload>(n: usize) -> NodeSpec {
    assert!(n > 0, "dealing to 0 outputs sends nothing anywhere; give it at least 1");
    NodeSpec::stage(Deal::<T> { outputs: n, last: n - 1, of: PhantomData })
}

struct Deal<T> {
    outputs: usize,
    last: usize,
    of: PhantomData<fn(T)>,
}

impl<T: Payload> Stage for Deal<T> {
    type In = T;
    type Out = T;

    fn outputs(&self) -> Vec<String> {
        (0..self.outputs).map(|place| place.to_string()).collect()
    }

    fn any_output(&self) -> bool {
        true
    }

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, T>) -> NodeResult {
        let mut best = (self.last + 1) % self.outputs;
        for step in 2..=self.outputs {
            let place = (self.last + step) % self.outputs;
            if out.room_at(place) > out.room_at(best) {
                best = place;
            }
        }
        self.last = best;
        out.send_to(best, message);
        Ok(())
    }
}

/// Forwards all messages. An input takes any number of edges, so this is only a name for the point where streams meet.
pub fn merger<T: Payload>() -> NodeSpec {
    super::map(|payload: T| payload)
}

/// Forwards messages that the closure accepts. The others leave by the output `invalid`, as a [`DeadLetter`] with the reason.
///
/// ```
/// use bursar::flow::{DeadLetter, Harness, validator};
///
/// let mut node = Harness::new(validator(|age: &u32| {
///     if *age < 150 { Ok(()) } else { Err(format!("{age} is no age; check the unit")) }
/// }));
/// node.send("in", 42u32)?;
/// node.send("in", 504u32)?;
/// assert_eq!(node.take::<u32>("out"), [42]);
/// let invalid = node.take::<DeadLetter<u32>>("invalid");
/// assert_eq!(&*invalid[0].error, "504 is no age; check the unit");
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn validator<T: Payload>(check: impl FnMut(&T) -> Result<(), String> + Send + 'static) -> NodeSpec {
    NodeSpec::node(Validator { check, of: PhantomData })
}

struct Validator<T, F> {
    check: F,
    of: PhantomData<fn(T)>,
}

impl<T: Payload, F: FnMut(&T) -> Result<(), String> + Send + 'static> Node for Validator<T, F> {
    fn ports(&self, ports: &mut Ports) {
        ports.input::<T>("in").output::<T>("out").output::<DeadLetter<T>>("invalid");
    }

    fn on_message(&mut self, _port: &str, message: AnyMessage<'_>, cx: &mut Context<'_>) -> NodeResult {
        let message = message.take::<T>()?;
        match (self.check)(&message.payload) {
            Ok(()) => cx.send("out", message),
            Err(reason) => {
                let mut letter = message.map(|payload| DeadLetter { payload, error: reason.as_str().into(), tries: 1 });
                letter.header.kind = Kind::Error;
                cx.send("invalid", letter)
            }
        }
    }
}
