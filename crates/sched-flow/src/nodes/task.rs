//! Tasks as ends of a graph: what may block, blocks there, and the node is woken.
//!
//! # Invariant
//! A source ends when its task has returned and all that it sent is emitted; the task's failure is a failure of the node, after that. A sink is done
//! when its task has returned, and its task is told by the closed channel that no more comes.
//!
//! # Why it holds
//! The verdict is left in [`Verdict`] before the channel is closed, or the node woken. Whoever sees the channel closed sees the verdict.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};

use sched_tasks::{Receiver, Sender};

use super::channel::{Inflow, Outflow};
use crate::{
    error::{NodeError, NodeResult},
    message::{Message, Payload},
    node::{Custody, NodeSpec, Out, Produced, Source, Stage, inlet::panicked},
};

/// How a task ended.
#[derive(Default)]
enum Verdict {
    #[default]
    Running,
    Returned(NodeResult),
    Told,
}

#[derive(Clone, Default)]
struct Desk(Arc<Mutex<Verdict>>);

impl Desk {
    fn leave(&self, result: NodeResult) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Verdict::Returned(result);
    }

    fn is_over(&self) -> bool {
        !matches!(*self.0.lock().unwrap_or_else(PoisonError::into_inner), Verdict::Running)
    }

    /// What it failed with, once.
    fn take(&self) -> NodeResult {
        let mut verdict = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*verdict, Verdict::Returned(_)) {
            return Ok(());
        }
        match std::mem::replace(&mut *verdict, Verdict::Told) {
            Verdict::Returned(result) => result,
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

/// What a task sends. The task may block: it runs in the nursery of the node, beside the graph, and is cancelled when the node stops. This is how to read from
/// anything that makes one wait.
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

/// As [`from_task`], of a task that may also tell of errors and go on.
pub(super) fn from_reporting_task<T: Payload>(
    capacity: usize,
    body: impl FnOnce(Sender<Result<T, NodeError>>) -> NodeResult + Send + 'static,
) -> NodeSpec {
    source_of(capacity, |told| told, body)
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
        desk: Desk::default(),
        held: None,
    })
}

type Job<P> = Box<dyn FnOnce(P) -> NodeResult + Send>;

struct FromTask<M, T> {
    capacity: usize,
    open: fn(M) -> Result<T, NodeError>,
    body: Option<Job<Sender<M>>>,
    inflow: Inflow<M>,
    desk: Desk,
    /// An error that waits until what came before it is emitted: a call that fails emits nothing.
    held: Option<NodeError>,
}

impl<M: Send + 'static, T: Payload> Source for FromTask<M, T> {
    type Out = T;

    fn on_start(&mut self, out: &mut Out<'_, T>) -> NodeResult {
        let Some(body) = self.body.take() else { return Ok(()) };
        let (sender, receiver) = sched_tasks::channel(self.capacity);
        self.inflow = Inflow::Open(receiver);
        let desk = self.desk.clone();
        out.spawn(move || {
            let after = sender.clone();
            desk.leave(body(sender));
            after.close(); // whoever else has a sender
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
                Poll::Ready(Some(told)) => match (self.open)(told) {
                    Ok(payload) => out.emit(payload),
                    Err(error) if turn == 0 => return Err(error),
                    Err(error) => {
                        self.held = Some(error);
                        break;
                    }
                },
                Poll::Ready(None) => match self.desk.take().map_err(NodeError::for_good) {
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

/// Hands everything to a task, which may block: it runs in the nursery of the node, beside the graph. This is how to write to anything that makes one wait.
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

/// The same for a task that says what it took and has not finished with.
#[track_caller]
pub(super) fn to_holding_task<T, E>(
    capacity: usize,
    body: impl FnOnce(Receiver<T>, &Custody) -> Result<(), E> + Send + 'static,
) -> NodeSpec
where
    T: Payload,
    E: Into<NodeError>,
{
    check(capacity);
    let body: Job<(Receiver<T>, Custody)> = Box::new(move |(receiver, custody)| attempt(|| body(receiver, &custody)));
    NodeSpec::stage(ToTask {
        capacity,
        body: Some(body),
        outflow: Outflow::Closed,
        desk: Desk::default(),
        ended: false,
    })
}

struct ToTask<T> {
    capacity: usize,
    body: Option<Job<(Receiver<T>, Custody)>>,
    outflow: Outflow<T>,
    desk: Desk,
    /// No more comes.
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
        let custody = out.custody().clone();
        let rest = Rest { channel: receiver.clone(), custody: custody.clone() };
        let over = Over { desk: self.desk.clone(), waker: out.waker() };
        out.spawn(move || {
            // Dropped in the other order: what is left is counted before the node hears that the task is over.
            let over = over;
            let _rest = rest;
            over.desk.leave(body((receiver, custody)));
        });
        Ok(())
    }

    fn on_message(&mut self, message: Message<T>, out: &mut Out<'_, ()>) -> NodeResult {
        self.outflow.send(message.payload, &out.waker())
    }

    fn on_wake(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        // What the task said comes first: it says why nobody receives.
        let verdict = self.desk.take().map_err(NodeError::for_good);
        let sent = self.outflow.poll(&out.waker());
        verdict.and(sent)
    }

    fn on_end(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.outflow = Outflow::Closed; // its sender is the only one
        self.ended = true;
        Ok(())
    }

    fn on_stop(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        out.lose(self.outflow.held() as u64);
        // If the end was faster than the wake.
        self.desk.take().map_err(NodeError::for_good)
    }

    fn accepts(&self) -> bool {
        self.outflow.is_free()
    }

    fn is_done(&self) -> bool {
        // Before its end the task may take its time; after it, the node is over when the task is.
        self.outflow.is_free() && (!self.ended || self.desk.is_over())
    }
}

/// What a task that is over has not taken from its channel stays in the custody of the node; nothing more is put there.
struct Rest<T> {
    channel: Receiver<T>,
    custody: Custody,
}

impl<T> Drop for Rest<T> {
    fn drop(&mut self) {
        self.channel.close();
        while self.channel.try_recv().is_ok() {
            self.custody.add(1);
        }
    }
}

/// Wakes the node when its task is over, however that came about.
struct Over {
    desk: Desk,
    waker: std::task::Waker,
}

impl Drop for Over {
    fn drop(&mut self) {
        if !self.desk.is_over() {
            self.desk.leave(Ok(()));
        }
        self.waker.wake_by_ref();
    }
}
