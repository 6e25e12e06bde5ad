//! Tasks as ends of a graph: blocking code runs in a task, which wakes its node.
//!
//! Room: interface.
//!
//! # Invariant
//! A source ends when its task has returned and all that it sent is emitted; the task's failure is a failure of the node, after that. A sink is done
//! when its task has returned; a closed channel tells the task that no more messages come.
//!
//! # Why it holds
//! The result is stored in [`ResultSlot`] before the channel is closed, or the node woken. So a node that sees the channel closed sees the result.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};

use sched_tasks::{Receiver, Sender};

use super::channel::{Inflow, Outflow};
use crate::{
    error::{NodeError, NodeResult},
    in_flight::InFlight,
    message::{Message, Payload},
    node::{NodeSpec, Out, Produced, Source, Stage, inlet::panicked},
};

/// The state of a task, and its result.
#[derive(Default)]
enum TaskResult {
    #[default]
    Running,
    Returned(NodeResult),
    /// The result was taken.
    Taken,
}

#[derive(Clone, Default)]
struct ResultSlot(Arc<Mutex<TaskResult>>);

impl ResultSlot {
    fn set(&self, result: NodeResult) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = TaskResult::Returned(result);
    }

    fn is_over(&self) -> bool {
        !matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), TaskResult::Running)
    }

    /// Takes the result. Ok if it was taken before, or the task still runs.
    fn take(&self) -> NodeResult {
        let mut result = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*result, TaskResult::Returned(_)) {
            return Ok(());
        }
        match std::mem::replace(&mut *result, TaskResult::Taken) {
            TaskResult::Returned(result) => result,
            _ => Ok(()),
        }
    }
}

/// Runs the body of a task; a panic is a failure like any other.
fn attempt<E: Into<NodeError>>(body: impl FnOnce() -> Result<(), E>) -> NodeResult {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result.map_err(Into::into),
        Err(panic) => Err(panicked(panic)),
    }
}

#[track_caller]
fn check(capacity: usize) {
    assert!(
        capacity > 0,
        "a channel with room for 0 messages makes task and graph wait for each other; give it at least 1"
    );
}

/// Emits what a task sends. The task may block: it runs in the nursery of the node, beside the graph, and is cancelled when the node stops. Use it to read from
/// anything that blocks.
///
/// At most `capacity` messages wait between the task and the graph; then the task waits. The source ends when the task returns. If it returns an error, or panics, that
/// is an error of the node.
///
/// ```
/// use bursar::{flow::{Harness, from_task}, mpmc::SendError, sleep};
/// use std::time::Duration;
///
/// let mut node = Harness::new(from_task(8, |readings| {
///     for i in 0..3 {
///         sleep(Duration::from_millis(1)); // blocks the task, not the graph
///         readings.send(i)?;
///     }
///     Ok::<_, SendError<i32>>(())
/// }));
/// assert_eq!(node.collect::<i32>("out", 3), [0, 1, 2]);
/// ```
///
/// # Panics
/// If the capacity is 0.
#[track_caller]
pub fn from_task<T, E>(capacity: usize, body: impl FnOnce(Sender<T>) -> Result<(), E> + Send + 'static) -> NodeSpec
where
    T: Payload,
    E: Into<NodeError>,
{
    check(capacity);
    source_of(capacity, Ok, body)
}

/// As [`from_task`], for a task that may report errors and go on.
pub(super) fn from_reporting_task<T: Payload>(
    capacity: usize,
    body: impl FnOnce(Sender<Result<T, NodeError>>) -> NodeResult + Send + 'static,
) -> NodeSpec {
    source_of(capacity, |item| item, body)
}

fn source_of<M, T, E>(
    capacity: usize,
    open: fn(M) -> Result<T, NodeError>,
    body: impl FnOnce(Sender<M>) -> Result<(), E> + Send + 'static,
) -> NodeSpec
where
    M: Send + 'static,
    T: Payload,
    E: Into<NodeError>,
{
    let body: Job<Sender<M>> = Box::new(move |sender| attempt(|| body(sender)));
    NodeSpec::source(FromTask {
        capacity,
        open,
        body: Some(body),
        inflow: Inflow::Closed,
        result: ResultSlot::default(),
        held: None,
    })
}

type Job<P> = Box<dyn FnOnce(P) -> NodeResult + Send>;

struct FromTask<M, T> {
    capacity: usize,
    open: fn(M) -> Result<T, NodeError>,
    body: Option<Job<Sender<M>>>,
    inflow: Inflow<M>,
    result: ResultSlot,
    /// An error that waits until the messages before it are emitted: a call that fails emits nothing.
    held: Option<NodeError>,
}

impl<M: Send + 'static, T: Payload> Source for FromTask<M, T> {
    type Out = T;

    fn on_start(&mut self, out: &mut Out<'_, T>) -> NodeResult {
        let Some(body) = self.body.take() else { return Ok(()) };
        let (sender, receiver) = sched_tasks::channel(self.capacity);
        self.inflow = Inflow::Open(receiver);
        let result = self.result.clone();
        out.spawn(move || {
            let after = sender.clone();
            result.set(body(sender));
            after.close(); // also for clones of the sender
        });
        Ok(())
    }

    fn produce(&mut self, out: &mut Out<'_, T>) -> Result<Produced, NodeError> {
        if let Some(error) = self.held.take() {
            return Err(error);
        }
        let waker = out.waker();
        for turn in 0..64.min(out.room()) {
            match self.inflow.poll(&waker) {
                Poll::Pending => return Ok(Produced::Idle),
                Poll::Ready(Some(item)) => match (self.open)(item) {
                    Ok(payload) => out.emit(payload),
                    Err(error) if turn == 0 => return Err(error),
                    Err(error) => {
                        self.held = Some(error);
                        break;
                    }
                },
                Poll::Ready(None) => match self.result.take().map_err(NodeError::for_good) {
                    Ok(()) => return Ok(Produced::End),
                    Err(error) if turn == 0 => return Err(error),
                    Err(error) => {
                        self.held = Some(error);
                        break;
                    }
                },
            }
        }
        Ok(Produced::More)
    }
}

/// Hands everything to a task, which may block: it runs in the nursery of the node, beside the graph. Use it to write to anything that blocks.
///
/// At most `capacity` messages wait between the graph and the task; then the node takes no more. At the end the channel is closed, and the flow waits until the task has
/// returned. If it returns an error, or panics, that is an error of the node; so is every message for a task that is over. What it has not received then is
/// [lost](crate::NodeStats::lost).
///
/// ```
/// use bursar::{Receiver, flow::{Harness, NodeError, to_task}};
///
/// let (done, sum) = bursar::sync::oneshot::channel();
/// let mut node = Harness::new(to_task(8, |numbers: Receiver<i32>| {
///     done.send(numbers.iter().sum::<i32>())?; // until no more comes
///     Ok::<_, bursar::mpmc::SendError<i32>>(())
/// }));
/// node.send("in", 1)?;
/// node.send("in", 2)?;
/// node.end();
/// assert_eq!(sum.recv().unwrap(), 3);
/// # Ok::<(), NodeError>(())
/// ```
///
/// # Panics
/// If the capacity is 0.
#[track_caller]
pub fn to_task<T, E>(capacity: usize, body: impl FnOnce(Receiver<T>) -> Result<(), E> + Send + 'static) -> NodeSpec
where
    T: Payload,
    E: Into<NodeError>,
{
    to_holding_task(capacity, move |receiver, _| body(receiver))
}

/// The same for a task that counts its messages in flight.
#[track_caller]
pub(super) fn to_holding_task<T, E>(
    capacity: usize,
    body: impl FnOnce(Receiver<T>, &InFlight) -> Result<(), E> + Send + 'static,
) -> NodeSpec
where
    T: Payload,
    E: Into<NodeError>,
{
    check(capacity);
    let body: Job<(Receiver<T>, InFlight)> =
        Box::new(move |(receiver, in_flight)| attempt(|| body(receiver, &in_flight)));
    NodeSpec::stage(ToTask {
        capacity,
        body: Some(body),
        outflow: Outflow::Closed,
        result: ResultSlot::default(),
        ended: false,
    })
}

struct ToTask<T> {
    capacity: usize,
    body: Option<Job<(Receiver<T>, InFlight)>>,
    outflow: Outflow<T>,
    result: ResultSlot,
    /// No more messages come.
    ended: bool,
}

impl<T: Payload> Stage for ToTask<T> {
    type In = T;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_start(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        let Some(body) = self.body.take() else { return Ok(()) };
        let (sender, receiver) = sched_tasks::channel(self.capacity);
        self.outflow = Outflow::Open(sender);
        let in_flight = out.in_flight().clone();
        let leftover = Leftover { channel: receiver.clone(), in_flight: in_flight.clone() };
        let guard = EndGuard { result: self.result.clone(), waker: out.waker() };
        out.spawn(move || {
            // Dropped in reverse order: what is left is counted before the node sees that the task is over.
            let guard = guard;
            let _leftover = leftover;
            guard.result.set(body((receiver, in_flight)));
        });
        Ok(())
    }

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, ()>) -> NodeResult {
        self.outflow.send(message.payload, &out.waker())
    }

    fn on_wake(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        // The result of the task comes first: it says why the channel has no receiver.
        let result = self.result.take().map_err(NodeError::for_good);
        let sent = self.outflow.poll(&out.waker());
        result.and(sent)
    }

    fn on_end(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.outflow = Outflow::Closed; // its sender is the only one
        self.ended = true;
        Ok(())
    }

    fn on_stop(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        out.lose(self.outflow.held() as u64);
        // The end may come before the wake.
        self.result.take().map_err(NodeError::for_good)
    }

    fn accepts(&self) -> bool {
        self.outflow.is_free()
    }

    fn is_done(&self) -> bool {
        // Before its end the node does not wait for the task; after it, the node is over when the task is.
        self.outflow.is_free() && (!self.ended || self.result.is_over())
    }
}

/// Closes the channel of a task that is over. Messages that are left in it stay in flight.
struct Leftover<T> {
    channel: Receiver<T>,
    in_flight: InFlight,
}

impl<T> Drop for Leftover<T> {
    fn drop(&mut self) {
        self.channel.close();
        while self.channel.try_recv().is_ok() {
            self.in_flight.add(1);
        }
    }
}

/// Wakes the node when its task is over, also after a panic or a cancellation.
struct EndGuard {
    result: ResultSlot,
    waker: std::task::Waker,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if !self.result.is_over() {
            self.result.set(Ok(()));
        }
        self.waker.wake_by_ref();
    }
}
