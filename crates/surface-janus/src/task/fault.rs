//! What can go wrong in a program that runs, and where.
//!
//! Room: values.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use sched_tasks::TaskError;

use crate::limits::{CHANNEL_CAPACITY_MAX, OPEN_NURSERIES_MAX};

/// An error of a program, with the line of its source. It is the error of the task that it happened in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What happened.
    pub kind: FaultKind,
    /// The source, as it was named when it was compiled.
    pub file: Arc<str>,
    /// The function.
    pub function: Arc<str>,
    /// From 1; 0 if the program did not come from a source.
    pub line: u32,
}

/// The kinds of errors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A result does not fit into an i64.
    Overflow,
    /// A divisor is 0.
    DivisionByZero,
    /// Calls are nested too deeply.
    Stack {
        /// The limit, in bytes as `Host::stack_bytes` counts them.
        limit: u64,
    },
    /// Channels took too much memory.
    Memory {
        /// The limit, in bytes.
        limit: u64,
    },
    /// Too many nurseries are open in one task.
    Nurseries,
    /// To send to a closed channel, or to receive from one that is empty, too.
    Closed,
    /// The capacity of a channel.
    Capacity(i64),
    /// The time of a `timeout`, in milliseconds.
    Timeout(i64),
    /// The awaited task has no result: it was cancelled.
    NoResult,
    /// The task runtime refused something: a budget, a capability.
    Refused(Arc<str>),
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Overflow => write!(f, "overflow: the result is not an i64 ({} to {})", i64::MIN, i64::MAX),
            FaultKind::DivisionByZero => f.write_str("division by zero"),
            FaultKind::Stack { limit } => {
                write!(
                    f,
                    "stack: calls take more than {limit} bytes; recurse less deeply, or raise `Host::stack_bytes`"
                )
            }
            FaultKind::Memory { limit } => {
                write!(
                    f,
                    "memory: channels take more than {limit} bytes; make fewer or smaller ones, or raise `Host::memory_bytes`"
                )
            }
            FaultKind::Nurseries => {
                write!(
                    f,
                    "more than {OPEN_NURSERIES_MAX} nurseries are open in one task; spawn a task for the inner ones"
                )
            }
            FaultKind::Closed => {
                f.write_str("the channel is closed; ask `is_closed()`, or receive with `for value in channel`")
            }
            FaultKind::Capacity(capacity) => {
                write!(f, "a channel cannot hold {capacity} values; 0 to {CHANNEL_CAPACITY_MAX} can be")
            }
            FaultKind::Timeout(time) => write!(f, "a timeout of {time} ms is in the past; write 0 or more"),
            FaultKind::NoResult => f.write_str("the awaited task was cancelled and has no result"),
            FaultKind::Refused(why) => f.write_str(why),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: in `{}`: {}", self.file, self.line, self.function, self.kind)
    }
}

impl Error for Fault {}

/// Why an instruction did not succeed.
#[derive(Clone, Debug)]
pub(crate) enum Stopped {
    /// An error of the program.
    Fault(Fault),
    /// An error of the task runtime, or of a task in a nursery.
    Task(TaskError),
    /// The awaited task failed. Its nursery has its error, or will.
    Awaited(TaskError),
    /// The task is cancelled.
    Cancelled,
}

/// As long as it has no line.
pub(crate) enum Failure {
    Kind(FaultKind),
    Stopped(Stopped),
}

impl From<FaultKind> for Failure {
    fn from(kind: FaultKind) -> Self {
        Failure::Kind(kind)
    }
}

impl From<Stopped> for Failure {
    fn from(stopped: Stopped) -> Self {
        Failure::Stopped(stopped)
    }
}
