//! The protocol of the socket of a run or a flow: a line of JSON each way.
//!
//! Room: values.
//!
//! This is an interface: programs may use it. Fields are added, never changed; a side that gets a `v` it
//! does not know answers with an error and closes the connection.
//!
//! ```text
//! > {"v":1,"do":"why","job":"image[8]"}
//! < {"v":1,"ok":{"text":"image[8] waits for VRAM: …","state":"ready"}}
//! > {"v":1,"do":"pause"}                                     the whole run
//! < {"v":1,"ok":{"state":"paused"}}                          when everything is paused
//! > {"v":1,"do":"cancel","job":"image","subtree":true,"now":true}
//! < {"v":1,"ok":{}}                                          when all of it has ended
//! > {"v":1,"do":"why","job":"unknown"}
//! < {"v":1,"error":{"kind":"unknown_job","message":"there is no job `unknown`"}}
//! ```
//!
//! `subscribe` is answered with `ok`, then with an event a line until either side closes the connection: `crates/surface-cli/src/control/event.rs`.
//!
//! A flow takes the same requests, where they make sense: `node` or `what` stand for `job`, `stats` for `ps`, `stop` for `cancel`. Only a flow takes `set` and `prometheus`.
//!
//! ```text
//! > {"v":1,"do":"set","edge":"imu,filter","capacity":512}
//! < {"v":1,"ok":{"id":"imu:out->filter:in"}}
//! > {"v":1,"do":"why","what":"imu"}
//! < {"v":1,"ok":{"text":"imu waits for room: imu:out->filter:in is full (512 of 512), filter is running"}}
//! > {"v":1,"do":"stop"}
//! < {"v":1,"ok":{"flow":{"flow":"f-7f3a", … }}}              when the flow has ended
//! > {"v":1,"do":"stats"}
//! < {"v":1,"ok":{"flow":{"flow":"f-7f3a","name":"sensors", … "nodes":[…],"edges":[…]}}}
//! ```

use std::io::{BufRead, ErrorKind, Read};

use serde::{Deserialize, Serialize};

use super::lines::{FlowLine, JobLine, RunLine};
use super::policy::{PolicyLine, PolicyRecord};

/// The kind of the refusal of another version.
pub(crate) const WRONG_VERSION: &str = "wrong_version";
/// The version of this protocol.
pub(crate) const VERSION: u32 = 1;
/// The longest request, in bytes. The longest name of a job is 4 KiB.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// The longest reply that a client reads: a list of a million jobs.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 30;

/// A line from a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RequestLine {
    pub(crate) v: u32,
    #[serde(flatten)]
    pub(crate) request: Request,
}

/// What a client wants. Nodes and edges of a flow are named as people type them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// The run, and its jobs that have not ended; with `all`, every job. Or everything that the flow counted.
    #[serde(alias = "stats")]
    Ps {
        #[serde(default)]
        all: bool,
        /// Limit of jobs.
        #[serde(default)]
        limit: Option<usize>,
    },
    /// What is known about one job.
    Status { job: String },
    /// The counters of a flow, in the text format of Prometheus.
    Prometheus,
    /// What a job, a node, or the target of an edge waits for.
    Why {
        #[serde(alias = "what", alias = "node")]
        job: String,
    },
    /// Pause it.
    Pause(Target),
    /// Resume it.
    Resume(Target),
    /// End it. With `now`, without grace time, and without delivering messages on their way.
    #[serde(alias = "stop")]
    Cancel {
        #[serde(flatten)]
        target: Target,
        #[serde(default)]
        now: bool,
    },
    /// Retry a job that failed or was cancelled.
    Retry { job: String },
    /// Change an edge of a flow.
    Set {
        edge: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        capacity: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        priority: Option<i32>,
    },
    /// Every event from now on.
    Subscribe,
    /// What a program decided about the epochs of a policy service. Only a policy service takes it.
    Report { who: String, pid: u32, records: Vec<PolicyRecord> },
}

/// The target of a request: a job, with `subtree` everything that needs it, too, or a node; without a name, the run or the flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Target {
    #[serde(default, alias = "node", skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) subtree: bool,
}

/// A line to a client: one of the two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ok: Option<Answer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Refusal>,
}

/// The answer; each request fills in its own fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    /// The full name of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
    /// What the system has in force for the command of a job, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_force: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<RunLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flow: Option<FlowLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<PolicyLine>,
}

/// Why a request was refused.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    /// `bad_request`, `wrong_version`, `too_long`, `busy`, `unknown_job`, `not_now`, `pause_timeout`; of a flow also `unknown_node`,
    /// `unknown_edge`, `ambiguous`, `bad_value`.
    pub(crate) kind: String,
    pub(crate) message: String,
    /// The number of this kind of error, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<u32>,
}

impl Refusal {
    /// The refusal of a request that `who` does not take.
    pub(crate) fn not_for(who: &str, way_out: &str) -> Refusal {
        Refusal::new("bad_request", format!("{who} does not take this request; {way_out}"), None)
    }

    pub(crate) fn new(kind: &str, message: impl Into<String>, code: Option<u32>) -> Refusal {
        Refusal { kind: kind.to_owned(), message: message.into(), code }
    }
}

impl From<Result<Answer, Refusal>> for Reply {
    fn from(answer: Result<Answer, Refusal>) -> Reply {
        let (ok, error) = match answer {
            Ok(answer) => (Some(answer), None),
            Err(refusal) => (None, Some(refusal)),
        };
        Reply { v: VERSION, ok, error }
    }
}

impl Reply {
    pub(crate) fn error(kind: &str, message: impl Into<String>) -> Reply {
        Err(Refusal::new(kind, message, None)).into()
    }
}

/// How reading a line ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is in the buffer, without its end.
    Whole,
    /// The other side closed the connection; half a line is ignored.
    End,
    /// It is longer than allowed.
    TooLong,
}

/// Reads a line of at most `limit` bytes into `line`.
///
/// # Errors
/// If the connection breaks, or nothing comes in time.
pub(crate) fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>, limit: usize) -> std::io::Result<Line> {
    line.clear();
    // One byte more than allowed shows that a line is too long.
    let read = loop {
        match from.by_ref().take(limit as u64 + 1).read_until(b'\n', line) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    match line.last() {
        Some(b'\n') => {
            line.pop();
            Ok(Line::Whole)
        }
        _ if read > limit => Ok(Line::TooLong),
        _ => Ok(Line::End),
    }
}

/// A request, or what is wrong with it.
pub(crate) fn parse(line: &[u8]) -> Result<Request, Refusal> {
    #[derive(Deserialize)]
    struct Version {
        v: Option<u32>,
    }
    let bad = |error: serde_json::Error| {
        let way_out = "a request is a line such as {\"v\":1,\"do\":\"ps\"}";
        Refusal::new("bad_request", format!("this is not a request: {error}; {way_out}"), None)
    };
    // The version first: a request of another one may be anything.
    let Version { v } = serde_json::from_slice(line).map_err(bad)?;
    if v != Some(VERSION) {
        let said = v.map_or_else(|| "none".to_owned(), |v| v.to_string());
        let message = format!(
            "this process speaks version {VERSION}, but the request has {said}; use the bursar that started it"
        );
        return Err(Refusal::new(WRONG_VERSION, message, None));
    }
    serde_json::from_slice::<RequestLine>(line).map(|asked| asked.request).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::{Line, Request, RequestLine, Target, parse, read_line};

    #[test]
    fn requests_are_the_lines_of_the_documentation() {
        let cases = [
            (r#"{"v":1,"do":"ps"}"#, Request::Ps { all: false, limit: None }),
            (r#"{"v":1,"do":"why","job":"image[8]"}"#, Request::Why { job: "image[8]".into() }),
            (r#"{"v":1,"do":"pause"}"#, Request::Pause(Target::default())),
            (
                r#"{"v":1,"do":"cancel","job":"image","subtree":true,"now":true}"#,
                Request::Cancel { target: Target { job: Some("image".into()), subtree: true }, now: true },
            ),
            (r#"{"v":1,"do":"subscribe"}"#, Request::Subscribe),
            (
                r#"{"v":1,"do":"set","edge":"imu,filter","capacity":512}"#,
                Request::Set { edge: "imu,filter".into(), capacity: Some(512), priority: None },
            ),
            (r#"{"v":1,"do":"why","what":"imu"}"#, Request::Why { job: "imu".into() }),
            (
                r#"{"v":1,"do":"pause","node":"imu"}"#,
                Request::Pause(Target { job: Some("imu".into()), subtree: false }),
            ),
            (r#"{"v":1,"do":"stop"}"#, Request::Cancel { target: Target::default(), now: false }),
            (r#"{"v":1,"do":"stats"}"#, Request::Ps { all: false, limit: None }),
        ];
        for (line, request) in cases {
            assert_eq!(parse(line.as_bytes()).unwrap(), request, "{line}");
            let said = serde_json::to_string(&RequestLine { v: 1, request: request.clone() }).unwrap();
            assert_eq!(parse(said.as_bytes()).unwrap(), request, "{said}");
        }
    }

    #[test]
    fn what_is_no_request_is_answered_with_one_that_is() {
        for (line, kind) in [
            ("", "bad_request"),
            ("garbage", "bad_request"),
            ("[1]", "bad_request"),
            (r#"{"do":"ps"}"#, "wrong_version"),
            (r#"{"v":2,"do":"fly"}"#, "wrong_version"),
            (r#"{"v":1,"do":"fly"}"#, "bad_request"),
            (r#"{"v":1,"do":"why"}"#, "bad_request"),
        ] {
            let refusal = parse(line.as_bytes()).unwrap_err();
            assert_eq!(refusal.kind, kind, "{line}: {}", refusal.message);
        }
    }

    #[test]
    fn a_line_is_whole_too_long_or_nothing() {
        let read = |text: &str, limit| {
            let mut line = Vec::new();
            (read_line(&mut text.as_bytes(), &mut line, limit).unwrap(), line.len())
        };
        assert_eq!(read("1234\n", 5), (Line::Whole, 4));
        assert_eq!(read("12345", 5), (Line::End, 5), "the connection was closed within a line");
        assert_eq!(read("123456", 5).0, Line::TooLong);
        assert_eq!(read("", 5).0, Line::End);
    }
}
