//! Closures and iterators as nodes.
//!
//! Room: interface.

use std::marker::PhantomData;

use crate::{
    error::{NodeError, NodeResult},
    message::{Message, Payload},
    node::{NodeSpec, Out, Produced, Source, Stage},
};

/// A closure that is asked for messages; `None` ends the stream.
///
/// It is called whenever there is room downstream, or once each [tick](NodeSpec::tick), if it has a cadence. It should not block: see
/// [`Source::produce`].
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::source;
///
/// let mut count = 0;
/// let every_5_ms = source(move || { count += 1; Some(count) }).tick(Duration::from_millis(5));
/// ```
pub fn source<T: Payload>(ask: impl FnMut() -> Option<T> + Send + 'static) -> NodeSpec {
    NodeSpec::source(Ask(ask))
}

struct Ask<F>(F);

impl<T: Payload, F: FnMut() -> Option<T> + Send + 'static> Source for Ask<F> {
    type Out = T;

    #[inline]
    fn produce(&mut self, out: &mut Out<'_, T>) -> Result<Produced, NodeError> {
        Ok(match (self.0)() {
            Some(payload) => {
                out.emit(payload);
                Produced::More
            }
            None => Produced::End,
        })
    }
}

/// Emits all items of an iterator, as fast as the graph takes them.
pub fn from_iter<I>(items: I) -> NodeSpec
where
    I: IntoIterator<Item: Payload, IntoIter: Send + 'static>,
{
    let mut items = items.into_iter();
    source(move || items.next())
}

/// A closure from `A` to `Result<B>`, as a stage.
struct Each<A, B, F>(F, PhantomData<fn(A) -> B>);

impl<A, B, F> Stage for Each<A, B, F>
where
    A: Payload,
    B: Payload,
    F: FnMut(A, &mut Out<'_, B>) -> NodeResult + Send + 'static,
{
    type In = A;
    type Out = B;

    #[inline]
    fn on_message(&mut self, message: Message<A>, out: &mut Out<'_, B>) -> NodeResult {
        (self.0)(message.payload, out)
    }
}

fn each<A: Payload, B: Payload>(call: impl FnMut(A, &mut Out<'_, B>) -> NodeResult + Send + 'static) -> NodeSpec {
    NodeSpec::stage(Each(call, PhantomData))
}

/// Each message becomes another.
pub fn map<A: Payload, B: Payload>(mut change: impl FnMut(A) -> B + Send + 'static) -> NodeSpec {
    each(move |payload, out| {
        out.emit(change(payload));
        Ok(())
    })
}

/// Each message becomes another, or fails; the [error policy](NodeSpec::on_error) decides.
pub fn try_map<A, B, E>(mut change: impl FnMut(A) -> Result<B, E> + Send + 'static) -> NodeSpec
where
    A: Payload,
    B: Payload,
    E: Into<NodeError>,
{
    each(move |payload, out| {
        out.emit(change(payload).map_err(Into::into)?);
        Ok(())
    })
}

/// Forwards only messages for which the closure returns true.
pub fn filter<T: Payload>(mut passes: impl FnMut(&T) -> bool + Send + 'static) -> NodeSpec {
    each(move |payload, out| {
        if passes(&payload) {
            out.emit(payload);
        }
        Ok(())
    })
}

/// Each message becomes any number of others.
pub fn flat_map<A: Payload, I>(mut change: impl FnMut(A) -> I + Send + 'static) -> NodeSpec
where
    I: IntoIterator<Item: Payload> + 'static,
{
    each(move |payload, out| {
        change(payload).into_iter().for_each(|item| out.emit(item));
        Ok(())
    })
}

/// Messages end in a closure.
struct End<A, F>(F, PhantomData<fn(A)>);

impl<A: Payload, F: FnMut(A) -> NodeResult + Send + 'static> Stage for End<A, F> {
    type In = A;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    #[inline]
    fn on_message(&mut self, message: Message<A>, _out: &mut Out<'_, ()>) -> NodeResult {
        (self.0)(message.payload)
    }
}

/// Messages end in a closure.
pub fn sink<T: Payload>(mut take: impl FnMut(T) + Send + 'static) -> NodeSpec {
    try_sink(move |payload| {
        take(payload);
        Ok::<(), NodeError>(())
    })
}

/// Messages end in a closure that may fail; the [error policy](NodeSpec::on_error) decides.
pub fn try_sink<T: Payload, E: Into<NodeError>>(mut take: impl FnMut(T) -> Result<(), E> + Send + 'static) -> NodeSpec {
    NodeSpec::stage(End(move |payload| take(payload).map_err(Into::into), PhantomData))
}
