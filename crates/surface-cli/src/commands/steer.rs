//! `pause`, `resume`, `cancel`, `retry`: changes of an active run, over its socket.
//!
//! Room: surface.

use clap::Args;
use surface_journal::{RunRow, Status};

use crate::control::{AskError, Client, Request, Target, Unanswered};
use crate::exit::{Exit, Failure};
use crate::out::print;
use crate::runs::{Found, Intent, RunResolver, orphans};
use crate::view::text::{clean, counted};

/// Which run or job.
#[derive(Debug, Clone, Args)]
pub(crate) struct Selector {
    /// A run (`r-7f3a`, its beginning, `latest`), a job (`image[8]`), a group of jobs (`image`), or a run and a job
    /// [default: the only active run; of `cancel` also the only interrupted run whose jobs still run]
    #[arg(value_name = "RUN|JOB", num_args = 0..=2)]
    words: Vec<String>,
    /// Also everything that needs the job, directly or not
    #[arg(long)]
    subtree: bool,
}

/// Options of `bursar cancel`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    selector: Selector,
    /// Kill at once; without it, each job gets its `grace` time to end
    #[arg(long)]
    now: bool,
}

impl Selector {
    fn find(&self, resolver: &RunResolver) -> Result<Found, Failure> {
        let found = match self.words.as_slice() {
            [] => resolver.find(None, None, Intent::Change),
            [word] => resolver.find(None, Some(word), Intent::Change),
            [run, job, ..] => resolver.find(Some(run), Some(job), Intent::Change),
        }?;
        if self.subtree && found.jobs.is_empty() {
            return Err(Failure::new(Exit::Usage, "--subtree needs a job; name one"));
        }
        Ok(found)
    }
}

/// `bursar pause`
pub(crate) fn pause(selector: &Selector) -> Result<Exit, Failure> {
    steer(selector, "paused", Request::Pause)
}

/// `bursar resume`
pub(crate) fn resume(selector: &Selector) -> Result<Exit, Failure> {
    steer(selector, "resumed", Request::Resume)
}

/// `bursar cancel`
pub(crate) fn cancel(options: &Cancel) -> Result<Exit, Failure> {
    let resolver = RunResolver::open()?;
    let Found { run, client, jobs } = options.selector.find(&resolver)?;
    if client.is_none() && !orphans::of(resolver.journal_of(&run.id), &run)?.is_empty() {
        let ended = orphans::end(resolver.journal_of(&run.id), &run, &jobs, options.now)?;
        ended.warnings.iter().for_each(|text| crate::exit::say!("bursar: {}", clean(text)));
        let jobs = counted(ended.count, "job");
        print(&format!("ended {jobs} of run {}, which was interrupted\n", run.id))?;
        return Ok(Exit::Success);
    }
    steer(&options.selector, "cancelled", |target| Request::Cancel { target, now: options.now })
}

fn steer(selector: &Selector, done: &str, request: impl Fn(Target) -> Request) -> Result<Exit, Failure> {
    let resolver = RunResolver::open()?;
    let Found { run, client, jobs } = selector.find(&resolver)?;
    let Some(mut client) = client else { return Err(not_running(&run)) };
    if jobs.is_empty() {
        client.ask(request(Target::default()))?;
        print(&format!("{done} run {}\n", run.id))?;
        return Ok(Exit::Success);
    }
    let is_group = jobs.len() > 1;
    let (mut done_count, mut refused, mut undone) = (0, None, None);
    for job in &jobs {
        match client.ask(request(Target { job: Some(job.clone()), subtree: selector.subtree })) {
            Ok(_) => done_count += 1,
            Err(error @ AskError { why: Unanswered::Refused(_), .. }) if is_group && error.is_unpaused() => {
                undone = Some(error)
            }
            // Some jobs of a group may have ended: the others are still changed.
            Err(error @ AskError { why: Unanswered::Refused(_), .. }) if is_group => refused = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(undone) = undone {
        return Err(undone.into());
    }
    match (done_count, refused) {
        (0, Some(refused)) => Err(refused.into()),
        (done_count, _) if is_group => {
            print(&format!("{done} {done_count} of {} jobs of run {}\n", jobs.len(), run.id))
        }
        _ => {
            let below = if selector.subtree { " and what needs it" } else { "" };
            print(&format!("{done} {}{below} of run {}\n", clean(&jobs[0]), run.id))
        }
    }?;
    Ok(Exit::Success)
}

/// `bursar retry`
pub(crate) fn retry(selector: &Selector) -> Result<Exit, Failure> {
    if selector.subtree {
        let message = "--subtree is not needed: a retry includes what was cancelled because of the job";
        return Err(Failure::new(Exit::Usage, message));
    }
    let resolver = RunResolver::open()?;
    let Found { run, client, jobs } = selector.find(&resolver)?;
    let Some(mut client) = client else { return Err(not_running(&run)) };
    let wanted = if jobs.is_empty() { failed(&mut client)? } else { jobs };
    if wanted.is_empty() {
        return Err(Failure::broken(format!("run {} has no failed job to retry", run.id)));
    }
    let mut done_count = 0;
    for job in &wanted {
        match client.ask(Request::Retry { job: job.clone() }) {
            Ok(_) => done_count += 1,
            // It was included in the retry of another job.
            Err(AskError { why: Unanswered::Refused(refusal), .. })
                if wanted.len() > 1 && refusal.kind == "not_now" => {}
            Err(error) => return Err(error.into()),
        }
    }
    print(&match wanted.as_slice() {
        [job] => format!("retrying {} of run {}\n", clean(job), run.id),
        _ => format!("retrying {done_count} of {} jobs of run {}\n", wanted.len(), run.id),
    })?;
    Ok(Exit::Success)
}

fn failed(client: &mut Client) -> Result<Vec<String>, Failure> {
    let run = client.ask(Request::Ps { all: true, limit: None })?.run.unwrap_or_default();
    Ok(run.jobs.into_iter().filter(|job| job.state == "failed").map(|job| job.name).collect())
}

fn not_running(run: &RunRow) -> Failure {
    let id = &run.id;
    let way_out = match run.status {
        Status::Failed | Status::Cancelled => {
            format!("retry what did not succeed with `bursar run --resume {id} --retry-failed`")
        }
        Status::Interrupted => format!("resume it with `bursar run --resume {id}`"),
        Status::Running | Status::Paused => {
            format!("process {} runs it but does not answer; is it just starting?", run.pid)
        }
        Status::Succeeded => format!("show it with `bursar show {id}`"),
    };
    Failure::broken(format!("run {id} is not active ({}); {way_out}", run.status))
}
