//! A cluster, through slurmrestd.
//!
//! Room: driver. Knows what is asked; how it is carried is `http.rs`, and how it is spelled `rest/`.
//!
//! # Invariants
//! - A call waits no longer than its time limit for slurmrestd, whatever that and slurmctld do. Only a cancellation may take longer, as long as each of its jobs is answered.
//! - A question is answered, or the call was [`CallError::Unanswered`]: it is never refused, because a refusal would be taken for an empty queue.
//!
//! # Why they hold
//! One deadline covers all exchanges of a call; a cancellation ends at the first job that is not answered within one. What makes a question fail (slurmctld is down, a token has expired) concerns no job.
//!
//! # What REST does not have
//! - A trial without a submission: `try_out` says nothing against a job. slurmctld refuses what it can never run when it is submitted, if it is configured to.
//! - The configuration, with `MaxArraySize`: its default is assumed. An array that is refused goes job by job.
//! - To suspend a job: its processes are stopped by a signal, and keep their CPUs.

use core::fmt;
use std::collections::BTreeSet;
use std::io::{BufReader, ErrorKind, Read};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use hyper::Request;
use serde::Deserialize;
use serde_json::{Map, Value, from_reader, from_str, json};

use super::access::{Credentials, Location, Owner};
use super::cluster::{CallError, Cluster, Partition, TIMEOUT};
use super::failures::error_of;
use super::http::{self, Answer};
use crate::error::SlurmError;
use crate::id::SlurmId;
use crate::request::{Submission, Terms};
use crate::rest::answers::{Node, Offer, PartitionName, Problem, Said};
use crate::rest::jobs::{Job, TASK_LIST_MAX, fate};
use crate::rest::list::list;
use crate::rest::{VERSIONS, options, submission};
use crate::rows::{Fate, Row};
use crate::sbatch;

/// The default of `MaxArraySize`.
const ARRAY_SIZE_MAX: u32 = 1_001;
/// The most of an answer that is kept as a whole.
const TEXT_BYTES_MAX: u64 = 64 * 1024;

/// slurmrestd.
#[derive(Debug)]
pub struct Rest {
    place: Location,
    credentials: Credentials,
    owner: Owner,
    /// Further properties of every job.
    options: Map<String, Value>,
    /// The newest version that it and this program have, when it is known.
    version: OnceLock<&'static str>,
    /// The time limit of a call.
    timeout: Duration,
}

impl Rest {
    /// slurmrestd at this address, and further options of `sbatch`. Nothing is asked yet.
    ///
    /// # Errors
    /// If the address is none, nothing says who asks, or an option cannot be said to slurmrestd.
    pub fn new(address: &str, credentials: Credentials, options: &[String]) -> Result<Self, SlurmError> {
        let place: Location = address.parse().map_err(|why| SlurmError::Rest { address: address.to_owned(), why })?;
        let no_user = |why| Err(SlurmError::NoUser { address: place.to_string(), why });
        let owner = match (&credentials.token, &credentials.user, &place) {
            (Some(_), Some(name), _) => Owner::Name(name.clone()),
            (Some(_), None, _) => {
                return no_user("SLURM_JWT is set, and says nothing of its user; set SLURM_USER_NAME");
            }
            (None, _, Location::Tcp(_)) => return no_user("SLURM_JWT is not set; `export $(scontrol token)` sets it"),
            // It never runs as root, and jobs run as its own user: they could not be root's.
            (None, _, Location::Unix(_)) if rustix::process::getuid().is_root() => {
                return no_user(
                    "without SLURM_JWT jobs run as the user of slurmrestd, which is not root; start bursar as that user",
                );
            }
            (None, _, Location::Unix(_)) => Owner::Id(rustix::process::getuid().as_raw()),
        };
        sbatch::check(options)?;
        let options = options::properties(options)?;
        Ok(Self { place, credentials, owner, options, version: OnceLock::new(), timeout: TIMEOUT })
    }

    /// The same with another time limit of each call; it is 20 s.
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    fn is_ours(&self, job: &Job) -> bool {
        match &self.owner {
            Owner::Name(name) => job.user_name.as_ref() == Some(name),
            Owner::Id(id) => job.user_id == Some(*id),
        }
    }

    /// Orders something for each of these jobs. A job that is not there is none.
    fn each(
        &self,
        ids: &[SlurmId],
        order: impl Fn(Call<'_>, &SlurmId) -> Result<Result<Said, Failed>, CallError>,
    ) -> Result<(), CallError> {
        let mut refused = None;
        for id in ids {
            match order(self.call(), id)? {
                Ok(_) => {}
                Err(failed) if failed.problems.iter().any(Problem::is_unknown_job) => {}
                Err(Failed { error: CallError::Refused(why), .. }) => refused = Some(CallError::Refused(why)),
                Err(failed) => return Err(failed.error),
            }
        }
        refused.map_or(Ok(()), Err)
    }

    fn call(&self) -> Call<'_> {
        Call { rest: self, deadline: Instant::now() + self.timeout }
    }
}

/// One call: some exchanges, until one deadline.
struct Call<'a> {
    rest: &'a Rest,
    deadline: Instant,
}

impl Call<'_> {
    /// Asks `path`, below the version.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, CallError> {
        let version = self.version()?;
        self.send(method, &format!("/slurm/{version}/{path}"), body)
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer, CallError> {
        let Rest { place, credentials, .. } = self.rest;
        let host = match place {
            Location::Unix(_) => "localhost",
            Location::Tcp(host) => host,
        };
        let mut request = Request::builder().method(method).uri(path).header("host", host);
        request = request.header("accept", "application/json").header("connection", "close");
        if let Credentials { token: Some(token), user: Some(user) } = credentials {
            request = request.header("x-slurm-user-name", user).header("x-slurm-user-token", token);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(body.map(Value::to_string).unwrap_or_default()).map_err(|_| {
            CallError::Refused("SLURM_JWT or SLURM_USER_NAME has characters that no HTTP header may have".to_owned())
        })?;
        http::send(place, request, self.deadline).map_err(|error| self.broken(error.kind(), &error))
    }

    /// No answer came, or not all of it, or it cannot be read.
    fn broken(&self, kind: ErrorKind, error: &dyn fmt::Display) -> CallError {
        let Rest { place, timeout, .. } = self.rest;
        CallError::Unanswered(match kind {
            ErrorKind::TimedOut => format!("slurmrestd at {place} does not answer within {timeout:?}"),
            ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::WouldBlock => {
                format!("slurmrestd at {place} cannot be reached: {error}")
            }
            _ => format!("the answer of slurmrestd at {place} is broken: {error}"),
        })
    }

    fn unreadable(&self, error: &serde_json::Error) -> CallError {
        self.broken(error.io_error_kind().unwrap_or(ErrorKind::InvalidData), error)
    }

    /// The newest version that both have. What slurmrestd offers does not change while it runs.
    fn version(&self) -> Result<&'static str, CallError> {
        if let Some(known) = self.rest.version.get() {
            return Ok(known);
        }
        let answer = self.send("GET", "/openapi/v3", None)?;
        if answer.status != 200 {
            let failed = self.failed(answer)?;
            return Err(self.unanswered(failed));
        }
        let offer: Offer = from_reader(BufReader::new(answer)).map_err(|error| self.unreadable(&error))?;
        let offered = offer.versions();
        let common = VERSIONS.into_iter().find(|version| offered.iter().any(|one| one == version));
        let version = common.ok_or_else(|| {
            let offered = if offered.is_empty() { "no version".to_owned() } else { offered.join(", ") };
            CallError::Refused(format!(
                "slurmrestd at {} offers {offered} of its OpenAPI plugin, and bursar knows {}; leave out `rest` in [slurm]: then jobs go through `sbatch`",
                self.rest.place,
                VERSIONS.join(", ")
            ))
        })?;
        Ok(self.rest.version.get_or_init(|| version))
    }

    /// A list, of which `keep` says what is kept. Also a job that is not known is a failure.
    fn list<T, K>(
        &self,
        path: &str,
        name: &'static str,
        keep: impl FnMut(T) -> K,
    ) -> Result<Result<Vec<K::Item>, Failed>, CallError>
    where
        T: for<'de> Deserialize<'de>,
        K: IntoIterator,
    {
        let answer = self.ask("GET", path, None)?;
        if answer.status != 200 {
            return self.failed(answer).map(Err);
        }
        let listed = list(answer, name, keep).map_err(|error| self.unreadable(&error))?;
        Ok(if listed.errors.iter().any(Problem::is_real) { Err(Failed::of(listed.errors)) } else { Ok(listed.items) })
    }

    /// Something that is done or not.
    fn order(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Result<Said, Failed>, CallError> {
        let answer = self.ask(method, path, body)?;
        if answer.status != 200 {
            return self.failed(answer).map(Err);
        }
        let said: Said = from_reader(BufReader::new(answer)).map_err(|error| self.unreadable(&error))?;
        // With the id of a job they are remarks.
        let has_failed = said.job_id.is_none() && said.errors.iter().any(Problem::is_real);
        Ok(if has_failed { Err(Failed::of(said.errors)) } else { Ok(said) })
    }

    /// What an answer means that is no success.
    fn failed(&self, answer: Answer) -> Result<Failed, CallError> {
        let (status, place) = (answer.status, &self.rest.place);
        let mut text = String::new();
        let read = answer.take(TEXT_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| self.broken(error.kind(), &error))?;
        let unanswered = |why: String| Failed { error: CallError::Unanswered(why), problems: Vec::new() };
        let problems = from_str::<Said>(&text).map(|said| said.errors).unwrap_or_default();
        let first = || text.lines().next().unwrap_or("it says nothing").trim().to_owned();
        Ok(match status {
            401 | 403 => unanswered(format!(
                "slurmrestd at {place} does not accept {} ({status})",
                match self.rest.credentials.token {
                    Some(_) =>
                        "the token in SLURM_JWT: it may have expired. Set a new one; `bursar run --resume` continues a run",
                    None => "connections of this user: start bursar as the user that it runs as, or set SLURM_JWT",
                }
            )),
            400 | 413 | 415 | 422 if problems.is_empty() => Failed { error: CallError::Refused(first()), problems },
            400 | 413 | 415 | 422 | 500 if !problems.is_empty() => Failed::of(problems),
            // What a proxy says, or a server in trouble.
            _ => unanswered(format!("slurmrestd at {place} answers with status {status}: {}", first())),
        })
    }

    /// For a question, which nothing about a job makes fail. With a wrong token slurmctld closes the connection to slurmrestd, which then knows no reason.
    fn unanswered(&self, failed: Failed) -> CallError {
        let (CallError::Refused(why) | CallError::Full(why) | CallError::Unanswered(why)) = failed.error;
        let is_without_reason = failed.problems.iter().any(|problem| !problem.has_reason());
        let hint = match self.rest.credentials.token {
            Some(_) if is_without_reason => "; if slurmctld runs, the token in SLURM_JWT may have expired",
            _ => "",
        };
        CallError::Unanswered(format!("{why}{hint}"))
    }

    /// All that Slurm knows under the number of a job.
    fn jobs_of(&self, id: SlurmId) -> Result<Vec<Job>, CallError> {
        match self.list(&format!("job/{}", id.job), "jobs", |job: Job| Some(job))? {
            Ok(jobs) => Ok(jobs),
            Err(failed) if failed.problems.iter().any(Problem::is_unknown_job) => Ok(Vec::new()),
            Err(failed) => Err(self.unanswered(failed)),
        }
    }
}

/// Slurm did not do it.
#[derive(Debug)]
struct Failed {
    error: CallError,
    problems: Vec<Problem>,
}

impl Failed {
    fn of(problems: Vec<Problem>) -> Self {
        let mut words: Vec<String> = problems.iter().map(Problem::to_string).collect();
        words.dedup();
        let why = words.join("; ");
        let error = if problems.iter().any(Problem::is_of_transport) {
            CallError::Unanswered(why)
        } else {
            error_of(&why.clone(), why)
        };
        Self { error, problems }
    }
}

impl Cluster for Rest {
    fn submit(&self, submission: &Submission) -> Result<u64, CallError> {
        let unreadable = |error| CallError::Refused(format!("{} cannot be read: {error}", submission.script.display()));
        let script = std::fs::read_to_string(&submission.script).map_err(unreadable)?;
        let arguments = submission.batch.arguments();
        let inherited = submission::inherited();
        let body = submission::body(&submission.description, &self.options, &script, &arguments, inherited);
        let said = self.call().order("POST", "job/submit", Some(&body))?.map_err(|failed| failed.error)?;
        let nothing = || CallError::Unanswered(format!("slurmrestd at {} names no id of the job", self.place));
        said.job_id.ok_or_else(nothing)
    }

    fn try_out(&self, _: &Terms) -> Result<Option<String>, CallError> {
        Ok(None)
    }

    fn queue(&self) -> Result<Vec<Row>, CallError> {
        let keep = |job: Job| if self.is_ours(&job) && job.is_queued() { job.rows() } else { Vec::new() };
        let call = self.call();
        call.list("jobs", "jobs", keep)?.map_err(|failed| call.unanswered(failed))
    }

    fn fate(&self, id: SlurmId) -> Result<Option<Fate>, CallError> {
        Ok(fate(id, &self.call().jobs_of(id)?))
    }

    /// slurmctld asks the processes with TERM, and kills them after its `KillWait`. To say KILL is the same for it, as it is for `scancel`; a second request does no harm.
    fn cancel(&self, ids: &[SlurmId], _: bool) -> Result<(), CallError> {
        self.each(ids, |call, id| call.order("DELETE", &format!("job/{id}"), None))
    }

    fn hold(&self, ids: &[SlurmId], held: bool) -> Result<(), CallError> {
        self.each(ids, |call, id| call.order("POST", &format!("job/{id}"), Some(&json!({ "hold": held }))))
    }

    fn freeze(&self, ids: &[SlurmId], frozen: bool) -> Result<(), CallError> {
        let signal = if frozen { "SIGSTOP" } else { "SIGCONT" };
        self.each(ids, |call, id| call.order("DELETE", &format!("job/{id}?signal={signal}"), None))
    }

    fn array_size_max(&self) -> Result<u32, CallError> {
        Ok(ARRAY_SIZE_MAX)
    }

    fn task_list_max(&self) -> usize {
        TASK_LIST_MAX
    }

    fn partitions(&self) -> Result<Vec<Partition>, CallError> {
        let call = self.call();
        let names = call.list("partitions", "partitions", |one: PartitionName| Some(one.name))?;
        let names = names.map_err(|failed| call.unanswered(failed))?;
        // Nodes of a partition mostly have the same.
        let mut known: BTreeSet<(String, String)> = names.into_iter().map(|name| (name, String::new())).collect();
        let keep = |node: Node| {
            let gres = node.gres.unwrap_or_default();
            known.extend(node.partitions.into_iter().map(|name| (name, gres.clone())));
            None::<()>
        };
        call.list("nodes", "nodes", keep)?.map_err(|failed| call.unanswered(failed))?;
        Ok(known.into_iter().map(|(name, gres)| Partition { name, gres }).collect())
    }
}
