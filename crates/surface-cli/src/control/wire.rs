//! What is said over the socket of a run: a line of JSON each way.
//!
//! Room: surface, values only. This is an interface: programs may speak it. Fields are added, never changed; whoever sees a `v` it
//! does not know says so and hangs up.
//!
//! ```text
//! > {"v":1,"do":"why","job":"image[8]"}
//! < {"v":1,"ok":{"text":"image[8] waits for VRAM: …","state":"ready"}}
//! > {"v":1,"do":"pause"}                                     the whole run
//! < {"v":1,"ok":{"state":"paused"}}                          when everything stands still
//! > {"v":1,"do":"cancel","job":"image","subtree":true,"now":true}
//! < {"v":1,"ok":{}}                                          when all of it has ended
//! > {"v":1,"do":"why","job":"nobody"}
//! < {"v":1,"error":{"kind":"unknown_job","message":"there is no job `nobody`"}}
//! ```
//!
//! A flow is asked in the same way, for other things: `crates/surface-cli/src/flow/wire.rs`. `subscribe` is answered with `ok`, then with a line `{"v":1,"event":{…}}` for every event until either side hangs up.

use std::io::{BufRead, ErrorKind, Read};

use sched_jobs::State;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of this protocol.
pub(crate) const VERSION: u32 = 1;
/// The longest request, in bytes. The longest name of a job is 4 KiB.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 * 1024;
/// The longest reply that a client reads: a list of a million jobs.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 30;

/// A line from a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked<Q> {
    pub(crate) v: u32,
    #[serde(flatten)]
    pub(crate) request: Q,
}

/// What a client wants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// The run, and its jobs that have not ended; with `all`, every job.
    Ps {
        #[serde(default)]
        all: bool,
        /// At most so many jobs.
        #[serde(default)]
        limit: Option<usize>,
    },
    /// What is known about one job.
    Status { job: String },
    /// What a job waits for.
    Why { job: String },
    /// Make it stand still.
    Pause(Target),
    /// Let it go on.
    Resume(Target),
    /// End it. With `now`, without asking it politely first.
    Cancel {
        #[serde(flatten)]
        target: Target,
        #[serde(default)]
        now: bool,
    },
    /// Try a job again that failed or was cancelled.
    Retry { job: String },
    /// Every event from now on.
    Subscribe,
}

/// Whom a request is about: a job, with `subtree` everything that needs it too; without a job, the run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Target {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) subtree: bool,
}

/// A line to a client: one of the three. What an answer is depends on what was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "A: Deserialize<'de>"))]
pub(crate) struct Reply<A> {
    pub(crate) v: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ok: Option<A>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Refusal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<Happened>,
}

/// What was asked for; a request fills in what it is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<RunLine>,
}

/// A run, as `ps` tells it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunLine {
    pub(crate) run: String,
    pub(crate) pid: u32,
    pub(crate) age_ms: u64,
    /// By the names of the states.
    pub(crate) counts: std::collections::BTreeMap<String, usize>,
    pub(crate) cpu_slots: u64,
    pub(crate) ram_mb: u64,
    pub(crate) vram_mb: u64,
    pub(crate) jobs: Vec<JobLine>,
    /// Jobs that were left out.
    pub(crate) more: usize,
}

/// A job, as `ps` tells it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JobLine {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) state: String,
    pub(crate) attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl JobLine {
    pub(crate) fn is_over(&self) -> bool {
        State::from_name(&self.state).is_some_and(State::is_terminal)
    }
}

/// Why a request was not granted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    /// `bad_request`, `wrong_version`, `too_long`, `busy`, `unknown_job`, `not_now`, `pause_timeout`; of a flow also `unknown_node`,
    /// `unknown_edge`, `bad_value`.
    pub(crate) kind: String,
    pub(crate) message: String,
    /// The number of this kind of error, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<u32>,
}

/// Something that happened to a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Happened {
    pub(crate) at_ms: u64,
    pub(crate) job: String,
    /// `ready`, `started`, `progress`, `paused`, `resumed`, `retrying`, `succeeded`, `failed`, `canceled`, `revived`.
    pub(crate) what: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) progress: Option<f32>,
    /// Events that were lost up to now because they were read too slowly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missed: Option<u64>,
}

impl Refusal {
    pub(crate) fn new(kind: &str, message: impl Into<String>, code: Option<u32>) -> Refusal {
        Refusal { kind: kind.to_owned(), message: message.into(), code }
    }
}

impl<A> Reply<A> {
    pub(crate) fn ok(answer: A) -> Reply<A> {
        Reply { v: VERSION, ok: Some(answer), error: None, event: None }
    }
}

impl Reply<()> {
    pub(crate) fn refusal(refusal: Refusal) -> Reply<()> {
        Reply { v: VERSION, ok: None, error: Some(refusal), event: None }
    }

    pub(crate) fn error(kind: &str, message: impl Into<String>, code: Option<u32>) -> Reply<()> {
        Reply::refusal(Refusal::new(kind, message, code))
    }

    pub(crate) fn event(event: Happened) -> Reply<()> {
        Reply { v: VERSION, ok: None, error: None, event: Some(event) }
    }
}

/// How reading a line ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is in the buffer, without its end.
    Whole,
    /// The other side hung up; half a line counts for nothing.
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
    // One byte more than allowed tells a line that is too long.
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
pub(crate) fn parse<Q: DeserializeOwned>(line: &[u8]) -> Result<Q, Refusal> {
    #[derive(Deserialize)]
    struct Version {
        v: Option<u32>,
    }
    let bad = |error: serde_json::Error| {
        let way_out = "a request is a line such as {\"v\":1,\"do\":\"ps\"}";
        Refusal::new("bad_request", format!("that is no request: {error}; {way_out}"), None)
    };
    // The version first: a request of another one may be anything.
    let Version { v } = serde_json::from_slice(line).map_err(bad)?;
    if v != Some(VERSION) {
        let said = v.map_or_else(|| "none".to_owned(), |v| v.to_string());
        let message =
            format!("this run speaks version {VERSION} and was asked in {said}; use the bursar that started it");
        return Err(Refusal::new("wrong_version", message, None));
    }
    serde_json::from_slice::<Asked<Q>>(line).map(|asked| asked.request).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::{Asked, Line, Request, Target, parse, read_line};

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
        ];
        for (line, request) in cases {
            assert_eq!(parse::<Request>(line.as_bytes()).unwrap(), request, "{line}");
            let said = serde_json::to_string(&Asked { v: 1, request: request.clone() }).unwrap();
            assert_eq!(parse::<Request>(said.as_bytes()).unwrap(), request, "{said}");
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
            let refusal = parse::<Request>(line.as_bytes()).unwrap_err();
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
        assert_eq!(read("12345", 5), (Line::End, 5), "the other side hung up within a line");
        assert_eq!(read("123456", 5).0, Line::TooLong);
        assert_eq!(read("", 5).0, Line::End);
    }
}
