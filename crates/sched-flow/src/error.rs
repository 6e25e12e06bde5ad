//! Errors of a node, and the policies that apply to them.
//!
//! Room: values.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use sched_tasks::internals::{AnyError, IntoError, kind, with_mark};
use sched_tasks::{RunError, TaskError};

/// The error of a node. Any error converts into it, so `?` works; [`NodeError::msg`] makes one from a text.
///
/// ```
/// use bursar::flow::{NodeError, NodeResult};
///
/// fn parse(text: &str) -> NodeResult {
///     let number: i64 = text.parse()?;
///     if number < 0 {
///         return Err(NodeError::msg(format!("{number} is below 0; give a count")));
///     }
///     Ok(())
/// }
/// assert_eq!(parse("-1").unwrap_err().to_string(), "-1 is below 0; give a count");
/// ```
///
/// So do the errors of tasks and jobs, and strings; [`downcast_ref`](Self::downcast_ref) finds the original after any number of conversions:
///
/// ```
/// use bursar::{flow::NodeResult, prelude::*};
///
/// fn handle(text: &str) -> NodeResult {
///     let number: u32 = nursery(|n| n.try_spawn(|| Ok(text.parse()?)).join())?; // a `TaskError`
///     if number == 0 { Err("none")? }
///     Ok(())
/// }
/// assert!(handle("many").unwrap_err().downcast_ref::<std::num::ParseIntError>().is_some());
/// assert_eq!(handle("0").unwrap_err().to_string(), "none");
/// ```
///
/// It does not implement [`Error`] itself, as [`TaskError`] does not: a type that did would convert to itself twice. [`into_boxed`](Self::into_boxed) makes a standard error of it.
pub struct NodeError {
    error: AnyError,
    about: About,
}

/// What an error is about.
#[derive(Clone, PartialEq, Eq)]
enum About {
    /// One call failed.
    Call,
    /// One record that came from outside is bad: its bytes, as far as they are known.
    Record(Vec<u8>),
    /// The node cannot continue.
    Node,
}

/// The result of a node's function.
pub type NodeResult = Result<(), NodeError>;

impl NodeError {
    /// An error from a text.
    pub fn msg(text: impl Into<String>) -> Self {
        Self::from(text.into())
    }

    /// Marks the error as one about a single record from outside: a line that is no text, a connection that broke. The source itself works. It is asked again
    /// at once, without backoff. The record is not tried again: after [`OnError::Retry`] the policy that follows it applies.
    ///
    /// ```
    /// use bursar::flow::{NodeError, Out, Produced, Source};
    ///
    /// struct Readings(std::vec::IntoIter<&'static str>);
    ///
    /// impl Source for Readings {
    ///     type Out = i64;
    ///
    ///     fn produce(&mut self, out: &mut Out<'_, i64>) -> Result<Produced, NodeError> {
    ///         let Some(line) = self.0.next() else { return Ok(Produced::End) };
    ///         out.emit(line.parse().map_err(|error| NodeError::from(error).of_record())?);
    ///         Ok(Produced::More)
    ///     }
    /// }
    /// ```
    #[must_use = "it is returned, not changed"]
    pub fn of_record(self) -> Self {
        self.with_record(Vec::new())
    }

    /// As [`of_record`](Self::of_record), with the bytes of the record. From a source with [`OnError::DeadLetter`] they leave by the output `dead`, as a
    /// [`DeadLetter<Vec<u8>>`](DeadLetter); without bytes the letter is empty, and says why.
    ///
    /// ```
    /// use bursar::flow::{DeadLetter, Harness, NodeError, NodeSpec, OnError, Out, Produced, Source};
    ///
    /// struct Readings(std::vec::IntoIter<&'static str>);
    ///
    /// impl Source for Readings {
    ///     type Out = i64;
    ///
    ///     fn produce(&mut self, out: &mut Out<'_, i64>) -> Result<Produced, NodeError> {
    ///         let Some(line) = self.0.next() else { return Ok(Produced::End) };
    ///         out.emit(line.parse().map_err(|error| NodeError::from(error).with_record(line))?);
    ///         Ok(Produced::More)
    ///     }
    /// }
    ///
    /// let readings = Readings(vec!["1", "one", "2"].into_iter());
    /// let mut node = Harness::new(NodeSpec::source(readings).on_error(OnError::DeadLetter));
    /// assert_eq!(node.collect::<i64>("out", 2), [1, 2]);
    /// assert_eq!(node.take::<DeadLetter<Vec<u8>>>("dead")[0].payload, b"one");
    /// ```
    #[must_use = "it is returned, not changed"]
    pub fn with_record(self, record: impl Into<Vec<u8>>) -> Self {
        Self { about: About::Record(record.into()), ..self }
    }

    /// Whether it is about [one record](Self::of_record).
    pub fn is_of_record(&self) -> bool {
        matches!(self.about, About::Record(_))
    }

    /// The bytes of the [record](Self::with_record) it is about.
    pub fn record(&self) -> &[u8] {
        match &self.about {
            About::Record(bytes) => bytes,
            About::Call | About::Node => &[],
        }
    }

    /// The same error with a prefix: where it came from.
    #[cfg(feature = "net")]
    pub(crate) fn said_of(self, what: impl fmt::Display) -> Self {
        Self { error: AnyError::Other(format!("{what}: {}", self.error).into()), about: self.about }
    }

    /// Marks the error as one of a node that cannot continue: a file that does not exist, a disk that is full, a program that is gone. [`NodeStats::failure`](crate::NodeStats::failure)
    /// keeps the first. The node is stopped where its policy would only skip a message; a node with dead letters goes on, and makes one of each message. An error of `on_start` is always
    /// such an error, and stops the node.
    #[must_use = "it is returned, not changed"]
    pub fn for_good(self) -> Self {
        Self { about: About::Node, ..self }
    }

    /// Whether the node [cannot continue](Self::for_good).
    pub fn is_for_good(&self) -> bool {
        self.about == About::Node
    }

    /// The original error, if it was of this type.
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }

    /// The error of the task that it comes from, if it does.
    pub fn task_error(&self) -> Option<&TaskError> {
        self.error.task_error()
    }

    /// This error as a standard one.
    pub fn into_boxed(self) -> Box<dyn Error + Send + Sync> {
        self.error.into_boxed()
    }
}

impl<E: IntoError<kind::Node>> From<E> for NodeError {
    fn from(error: E) -> Self {
        let error = error.into_error();
        let about = error.mark().cloned().unwrap_or(About::Call);
        Self { error, about }
    }
}

impl IntoError<kind::Job> for NodeError {
    fn into_error(self) -> AnyError {
        match self.about {
            About::Call => self.error,
            about => AnyError::Task(with_mark(self.error.into_task_error(), about)),
        }
    }
}

impl From<NodeError> for TaskError {
    fn from(error: NodeError) -> Self {
        error.into_error().into_task_error()
    }
}

impl From<NodeError> for RunError {
    fn from(error: NodeError) -> Self {
        RunError::Task(error.into())
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

/// The error policy: what is done when a node's function fails or panics. What it emitted in the failed call is taken back in any case: a message is
/// handled with all its output, or fails with none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnError {
    /// The message is dropped, the error is counted, the node goes on.
    #[default]
    Skip,
    /// The message is tried again after a backoff. The ones behind it wait. A tick or an end that fails is tried again, too, except for sources.
    Retry(Retry),
    /// The node is stopped. Messages for it are dropped, and counted so. A node that feeds only such nodes ends, too, up to the sources, as after
    /// [`Out::finish`](crate::Out::finish).
    StopNode,
    /// The whole graph is stopped without draining, and its run returns the error.
    StopGraph,
    /// The message leaves by the output `dead`, as a [`DeadLetter`]; from a source, the [bad record](NodeError::with_record). Without an edge there it is
    /// [lost](crate::NodeStats::lost), and counted so.
    DeadLetter,
}

impl OnError {
    /// Whether failed messages leave by an output `dead`.
    pub(crate) fn has_dead_letters(&self) -> bool {
        match self {
            OnError::DeadLetter => true,
            OnError::Retry(retry) => *retry.then == OnError::DeadLetter,
            _ => false,
        }
    }
}

/// How a failed message is tried again.
///
/// ```
/// use std::time::Duration;
/// use bursar::flow::{OnError, Retry};
///
/// let stubborn = OnError::Retry(Retry::times(5).backoff(Duration::from_millis(10)).then(OnError::DeadLetter));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    pub(crate) times: u32,
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
    pub(crate) then: Box<OnError>,
}

impl Retry {
    /// Tries so many times after the first, with pauses that double from 10 ms up to 10 s; after that, the message is skipped.
    pub fn times(times: u32) -> Self {
        Self {
            times,
            first: Duration::from_millis(10),
            longest: Duration::from_secs(10),
            then: Box::new(OnError::Skip),
        }
    }

    /// The first pause. Each is twice the one before.
    pub fn backoff(mut self, first: Duration) -> Self {
        self.first = first;
        self
    }

    /// The longest pause.
    pub fn at_most(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    /// What is done when all tries failed. Another `Retry` means `Skip`.
    pub fn then(mut self, then: OnError) -> Self {
        self.then = Box::new(then);
        self
    }

    /// The pause after the `failed`-th failure.
    pub(crate) fn pause(&self, failed: u32) -> Duration {
        let doubled = 1u32.checked_shl(failed.saturating_sub(1)).and_then(|factor| self.first.checked_mul(factor));
        doubled.unwrap_or(Duration::MAX).min(self.longest)
    }
}

/// A message that could not be handled, as it leaves by the output `dead` of its node.
#[derive(Clone, PartialEq, Eq)]
pub struct DeadLetter<T> {
    /// Its payload.
    pub payload: T,
    /// The last error.
    pub error: Arc<str>,
    /// How often it was tried.
    pub tries: u32,
}

impl<T> fmt::Debug for DeadLetter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeadLetter({}, tried {} times, payload hidden)", self.error, self.tries)
    }
}
