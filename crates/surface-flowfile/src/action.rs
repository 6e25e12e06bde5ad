//! What a node does: its kind with all its fields, checked.
//!
//! Room: values.
//!
//! # Invariant
//! Every action can be built: regular expressions are compiled, addresses are parsed, and fields that exclude each other are different variants.

use std::net::SocketAddr;
use std::path::PathBuf;

use bursar::Budget;
use bursar::flow::NotUtf8;
use bursar::janus::{Program, ir};
use serde_json::Value;

use crate::over::Over;
use crate::value::{Condition, Name, Template};

/// What a node does.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "fields are described in the table of kinds")]
pub enum Action {
    /// Half of an edge over a broker: sends what comes, so many messages at a time; `None` is the default.
    Publish {
        over: Over,
        credit: Option<u64>,
    },
    /// The other half.
    Subscribe(Over),
    Command(Command),
    Lines {
        path: PathBuf,
        follow: bool,
        from_end: bool,
        reading: Reading,
    },
    Stdin {
        reading: Reading,
    },
    TcpIn {
        listen: SocketAddr,
        reading: Reading,
    },
    Every {
        interval_ms: u64,
        emit: Emit,
        count: Option<u64>,
    },
    Numbers {
        from: i64,
        to: i64,
    },
    Values {
        list: Vec<Value>,
        repeat: u64,
    },
    RandomWalk(Walk),
    Map(Map),
    Filter(Condition),
    Janus(Box<Janus>),
    Router(Vec<Route>),
    Splitter {
        outputs: usize,
    },
    Merger,
    Batcher {
        size: usize,
        within_ms: Option<u64>,
    },
    Window {
        extent: Extent,
        aggregate: Aggregate,
        field: Name,
        key: Option<Name>,
        keys: usize,
    },
    Throttle {
        rate: f64,
        burst: u32,
    },
    Debounce {
        quiet_ms: u64,
    },
    Sample {
        every: u64,
    },
    Validator {
        fields: Vec<Rule>,
    },
    Counter {
        interval_ms: u64,
        field: Option<Name>,
        reset: bool,
    },
    Head {
        count: u64,
    },
    Cache {
        key: Name,
        ttl_ms: u64,
        keys: usize,
    },
    Breaker {
        failure: Condition,
        failures: u32,
        cool_ms: u64,
    },
    Timeout {
        after_ms: u64,
    },
    Delay {
        by_ms: u64,
    },
    Correlator {
        key: Name,
        within_ms: u64,
        keys: usize,
    },
    Json,
    Text,
    Print {
        format: Format,
    },
    Write {
        path: PathBuf,
        append: bool,
        format: Format,
    },
    TcpOut {
        connect: SocketAddr,
        format: Format,
    },
    Discard,
    Stop,
}

impl Action {
    /// Whether it reads lines from outside, some of which may be bad. A program does if its edges make it a source.
    pub(crate) fn reads_lines(&self) -> bool {
        matches!(self, Self::Command(_) | Self::Lines { .. } | Self::Stdin { .. } | Self::TcpIn { .. })
    }
}

/// How a message is written as a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A text as it is; anything else as JSON.
    #[default]
    Lines,
    /// A JSON value, also a text.
    Json,
}

/// How lines from outside become messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// How a line is read.
    pub format: Format,
    /// Limit of the length of a line, in bytes.
    pub longest_line: usize,
    /// What happens to a line that is not UTF-8.
    pub not_utf8: NotUtf8,
}

impl Default for Reading {
    fn default() -> Self {
        Self { format: Format::default(), longest_line: 1 << 20, not_utf8: NotUtf8::default() }
    }
}

/// A program.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program and its arguments; a shell line is `["sh", "-c", LINE]`.
    pub argv: Vec<String>,
    /// How its lines are read. Its input has the same format.
    pub reading: Reading,
    /// How often it is restarted after a failure.
    pub restart: u32,
    /// The folder it runs in, relative to the folder of the file.
    pub cwd: Option<PathBuf>,
    /// Environment variables, besides ours.
    pub env: Vec<(String, String)>,
    /// On a stop: time from the end of its input, or from SIGTERM, until it is killed.
    pub grace_ms: u64,
}

/// What `every` emits.
#[derive(Clone, Debug, PartialEq)]
pub enum Emit {
    /// 0, 1, 2.
    Count,
    /// Seconds since the start.
    Time,
    /// The same each time.
    Value(Value),
}

/// A random walk.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    /// Time between two numbers; `None`: as fast as they are taken.
    pub interval_ms: Option<u64>,
    /// The first number.
    pub start: f64,
    /// The largest difference between two numbers.
    pub step: f64,
    /// The same seed gives the same walk.
    pub seed: u64,
    /// The field of an object that holds the number.
    pub field: Name,
    /// It ends after this many.
    pub count: Option<u64>,
}

/// Changes of a message, in the order they are applied.
#[derive(Clone, Debug, Default)]
pub struct Map {
    /// How the text is parsed.
    pub parse: Option<Parse>,
    /// Fields and their new names.
    pub rename: Vec<(Name, Name)>,
    /// Fields to keep.
    pub pick: Option<Vec<Name>>,
    /// Fields to remove.
    pub drop: Vec<Name>,
    /// The field that `parse` and `linear` change.
    pub field: Name,
    /// Scale and offset of a number.
    pub linear: Option<(f64, f64)>,
    /// Fields and their values.
    pub set: Vec<(Name, Value)>,
    /// The message becomes this text.
    pub format: Option<Template>,
}

/// A function of a Janus program.
#[derive(Clone, Debug)]
pub struct Janus {
    /// The program, relative to the folder of the file.
    pub file: PathBuf,
    /// The function.
    pub function: String,
    /// Fields that are its arguments; `None`: the message itself, if it has a parameter.
    pub args: Option<Vec<Name>>,
    /// The field that gets the result; `None`: the result decides.
    pub result: Option<Name>,
    /// What one message may cost.
    pub budget: Budget,
    /// How long one message may take.
    pub timeout_ms: u64,
    /// The program; a parsed plan has it.
    pub program: Option<Program>,
}

impl Janus {
    /// The types of its parameters, and of its result; `None` before it was compiled.
    pub(crate) fn signature(&self) -> Option<(&[ir::Type], ir::Type)> {
        let functions = &self.program.as_ref()?.ir().functions;
        let function = functions.iter().find(|function| function.name == self.function)?;
        Some((&function.registers[..function.parameters], function.result))
    }
}

/// How a text is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parse {
    /// Any JSON.
    Json,
    /// A number.
    Number,
}

/// A route of a router.
#[derive(Clone, Debug)]
pub struct Route {
    /// The output.
    pub to: String,
    /// The condition that a message must meet.
    pub condition: Condition,
}

/// The size of a window, and the distance from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Extent {
    Count { size: usize, slide: usize },
    Time { span_ms: u64, slide_ms: u64 },
}

/// How the messages of a window become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names say it")]
pub enum Aggregate {
    Count,
    Sum,
    Mean,
    Min,
    Max,
    Last,
    List,
}

/// A field and its type, for a validator.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Which field.
    pub field: Name,
    /// The type it must have.
    pub wanted: FieldType,
    /// Whether it may be missing.
    pub optional: bool,
}

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "their names say it")]
pub enum FieldType {
    Number,
    Text,
    Flag,
    List,
    Object,
    Any,
}
