//! The run resolver: runs and jobs by the names that people type.
//!
//! Room: driver.
//!
//! A word is a run if it looks like one (`r-7f3a`, the beginning of one, `latest`, `-`), else a job. A job without a run belongs to an
//! active run. For reading, the newest such run is taken; for changes, there must be only one.

use surface_jobfile::Plan;
use surface_journal::{Filter, JobRow, Journal, JournalError, RunId, RunRow};

use super::{kept_plan, orphans, unrecorded};
use crate::control::{AskError, Client, Request, Unanswered, is_id};
use crate::exit::{Exit, Failure};
use crate::view::text;

/// Runs that are searched for a job that is in no active run.
const RUNS_SEARCHED: usize = 50;
/// Runs that an error lists.
const LISTED: usize = 8;

/// The journal of this user, and those of runs that leave no record.
pub(crate) struct RunResolver {
    journals: Vec<Journal>,
}

/// Whether a command only reads, or changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Intent {
    /// The newest run will do.
    Look,
    /// It must be clear which.
    Change,
}

/// What the words on a command line mean.
pub(crate) struct Found {
    pub(crate) run: RunRow,
    /// If it is active and answers.
    pub(crate) client: Option<Client>,
    /// The jobs that were named, by one name or by that of their group; none: the whole run.
    pub(crate) jobs: Vec<String>,
}

/// The jobs of a run that a word names, and a connection to the run; `None` if there are none.
type Matched = Option<(Option<Client>, Vec<String>)>;

/// Whether a word is the name of a run, or the beginning of one.
pub(crate) fn is_run(word: &str) -> bool {
    is_id("r-", 6, word) || matches!(word, "latest" | "-")
}

impl RunResolver {
    /// Opens the journals.
    ///
    /// # Errors
    /// If that of this user cannot be read.
    pub(crate) fn open() -> Result<RunResolver, Failure> {
        let mut journals = unrecorded::all();
        match Journal::default_dir().and_then(|dir| Journal::open_to_read(&dir)) {
            Ok(journal) => journals.insert(0, journal),
            // Without a journal, there may still be runs without a record.
            Err(error) if journals.is_empty() => return Err(error.into()),
            Err(error) => crate::exit::say!("bursar: {error}"),
        }
        Ok(RunResolver { journals })
    }

    /// The journal that has this run; the first if none has.
    pub(crate) fn journal_of(&self, run: &RunId) -> &Journal {
        let has = |journal: &&Journal| journal.run(run).is_ok();
        self.journals.iter().rev().find(has).unwrap_or(&self.journals[0])
    }

    /// The runs of all journals that pass, newest first.
    ///
    /// # Errors
    /// If a journal cannot be read.
    pub(crate) fn runs(&self, filter: Filter) -> Result<Vec<RunRow>, Failure> {
        let mut runs = self.journals[0].runs(filter)?;
        for journal in &self.journals[1..] {
            runs.extend(journal.runs(filter)?);
        }
        runs.sort_by_key(|run| std::cmp::Reverse(run.began_ms)); // stable: newest first in each already
        runs.truncate(filter.limit.unwrap_or(usize::MAX));
        Ok(runs)
    }

    /// The active runs, newest first.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub(crate) fn live(&self) -> Result<Vec<RunRow>, Failure> {
        self.runs(Filter { live: true, ..Filter::default() })
    }

    /// Interrupted runs with jobs that still run, newest first in each journal.
    ///
    /// # Errors
    /// If a journal cannot be read.
    pub(crate) fn orphans(&self) -> Result<Vec<(RunRow, Vec<JobRow>)>, Failure> {
        let mut found = Vec::new();
        for journal in &self.journals {
            found.extend(orphans::all(journal)?);
        }
        Ok(found)
    }

    /// A connection to a run. `None` if it is not active.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn client(&self, run: &RunId) -> Result<Option<Client>, Failure> {
        Client::connect(&self.journal_of(run).folder(run), format!("run {run}"))
            .map_err(|error| Failure::broken(error.to_string()))
    }

    /// The run that a word names.
    ///
    /// # Errors
    /// If there is none, or more than one.
    pub(crate) fn run(&self, word: &str) -> Result<RunRow, Failure> {
        let (mut found, mut missing) = (Vec::new(), None);
        for journal in &self.journals {
            match journal.find(word).and_then(|id| journal.run(&id)) {
                Ok(run) => found.push(run),
                Err(error @ JournalError::NoRun { .. }) => missing = missing.or(Some(error)),
                Err(error) => return Err(error.into()),
            }
        }
        let newest = found.into_iter().max_by_key(|run| run.began_ms);
        newest.ok_or_else(|| missing.map_or_else(|| Failure::not_found("there are no runs"), Failure::from))
    }

    /// What `[RUN] [JOB]` means.
    ///
    /// # Errors
    /// If there is no such run or job, or several.
    pub(crate) fn find(&self, run: Option<&str>, job: Option<&str>, intent: Intent) -> Result<Found, Failure> {
        match (run, job) {
            (Some(run), Some(job)) => self.job_of(self.run(run)?, job),
            (Some(run), None) => self.whole(self.run(run)?),
            (None, None) => self.only_live().and_then(|run| self.whole(run)),
            (None, Some(word)) if is_run(word) => match self.run(word) {
                Ok(run) => self.whole(run),
                // A job may have a name like a run.
                Err(error) => self.job_anywhere(word, intent).map_err(|_| error),
            },
            (None, Some(job)) => self.job_anywhere(job, intent),
        }
    }

    fn whole(&self, run: RunRow) -> Result<Found, Failure> {
        let client = self.client(&run.id)?;
        Ok(Found { run, client, jobs: Vec::new() })
    }

    fn only_live(&self) -> Result<RunRow, Failure> {
        let mut live = self.live()?;
        match live.len() {
            // An interrupted run counts as active while its jobs run.
            0 => {
                let mut orphaned: Vec<RunRow> = self.orphans()?.into_iter().map(|(run, _)| run).collect();
                match orphaned.len() {
                    0 => Err(Failure::not_found(
                        "no run is active; start one with `bursar run FILE`, or name one of `bursar runs`",
                    )),
                    1 => Ok(orphaned.swap_remove(0)),
                    count => {
                        let runs = listed(&orphaned);
                        let message = format!("{count} interrupted runs have jobs that still run: {runs}; name one");
                        Err(Failure::new(Exit::Usage, message))
                    }
                }
            }
            1 => Ok(live.swap_remove(0)),
            count => Err(Failure::new(Exit::Usage, format!("{count} runs are active: {}; name one", listed(&live)))),
        }
    }

    /// A job of a run, or all jobs of a group.
    fn job_of(&self, run: RunRow, job: &str) -> Result<Found, Failure> {
        match self.jobs_of(&run, job)? {
            Some((client, jobs)) => Ok(Found { run, client, jobs }),
            None => {
                let names: Vec<String> =
                    self.journal_of(&run.id).jobs(&run.id)?.into_iter().map(|row| row.name).collect();
                let near = nearest(job, &names).map(|near| format!("; did you mean `{near}`?"));
                let way_out = near.unwrap_or_else(|| format!("; `bursar show {}` lists its jobs", run.id));
                Err(Failure::not_found(format!("run {} has no job `{job}`{way_out}", run.id)))
            }
        }
    }

    fn jobs_of(&self, run: &RunRow, job: &str) -> Result<Matched, Failure> {
        let mut client = self.client(&run.id)?;
        if let Some(live) = &mut client {
            match live.ask(Request::Status { job: job.to_owned() }) {
                Ok(_) => return Ok(Some((client, vec![job.to_owned()]))),
                Err(AskError { why: Unanswered::Refused(refusal), .. }) if refusal.kind == "unknown_job" => {}
                Err(AskError { why: Unanswered::Gone, .. }) => client = None, // it has just ended
                Err(error) => return Err(error.into()),
            }
        }
        let rows = self.journal_of(&run.id).jobs(&run.id)?;
        let is_wanted = |row: &&JobRow| row.name == job || row.group == job;
        let jobs: Vec<String> = rows.iter().filter(is_wanted).map(|row| row.name.clone()).collect();
        Ok((!jobs.is_empty()).then_some((client, jobs)))
    }

    fn job_anywhere(&self, job: &str, intent: Intent) -> Result<Found, Failure> {
        let mut found = Vec::new();
        for run in self.live()? {
            if let Some((client, jobs)) = self.jobs_of(&run, job)? {
                found.push(Found { run, client, jobs });
            }
            if intent == Intent::Look && !found.is_empty() {
                break;
            }
        }
        if found.is_empty() {
            for (run, orphans) in self.orphans()? {
                let is_wanted = |row: &&JobRow| row.name == job || row.group == job;
                let jobs: Vec<String> = orphans.iter().filter(is_wanted).map(|row| row.name.clone()).collect();
                if !jobs.is_empty() {
                    found.push(Found { run, client: None, jobs });
                }
            }
        }
        if found.len() > 1 {
            let runs: Vec<RunRow> = found.into_iter().map(|found| found.run).collect();
            let message = format!("{} runs have a job `{job}`: {}; name the run, too", runs.len(), listed(&runs));
            return Err(Failure::new(Exit::Usage, message));
        }
        if let Some(found) = found.pop() {
            return Ok(found);
        }
        if intent == Intent::Look {
            for run in self.runs(Filter { limit: Some(RUNS_SEARCHED), ..Filter::default() })? {
                if let Some((client, jobs)) = self.jobs_of(&run, job)? {
                    return Ok(Found { run, client, jobs });
                }
            }
            let message = format!("none of the newest {RUNS_SEARCHED} runs has a job `{job}`");
            return Err(Failure::not_found(format!("{message}; `bursar show RUN` lists the jobs of a run")));
        }
        Err(Failure::not_found(format!(
            "no active run has a job `{job}`; `bursar ps --all` lists the jobs of active runs"
        )))
    }

    /// The plan of a run.
    ///
    /// # Errors
    /// If the run has no plan that we can read.
    pub(crate) fn plan(&self, run: &RunId) -> Result<Plan, Failure> {
        kept_plan(self.journal_of(run), run)
    }
}

fn listed(runs: &[RunRow]) -> String {
    text::listed(runs, LISTED, |run| format!("{} ({})", run.id, run.name))
}

/// The name that is most like `wanted`, if one is.
fn nearest<'a>(wanted: &str, names: &'a [String]) -> Option<&'a str> {
    let lower = wanted.to_lowercase();
    let like = |name: &str| {
        let name = name.to_lowercase();
        name.starts_with(&lower) || lower.starts_with(&name) || name.contains(&lower)
    };
    names.iter().take(10_000).find(|name| like(name)).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::{is_run, nearest};

    #[test]
    fn runs_look_like_runs() {
        for word in ["r-7f3a", "r-7", "latest", "-"] {
            assert!(is_run(word), "{word}");
        }
        for word in ["r-", "render", "r-render-all", "r-loop", "image[8]", "R-7F3A", ""] {
            assert!(!is_run(word), "{word}");
        }
    }

    #[test]
    fn a_name_that_is_nearly_right_is_offered() {
        let names = ["storyboard".to_owned(), "image[1]".to_owned(), "compose".to_owned()];
        assert_eq!(nearest("image", &names), Some("image[1]"));
        assert_eq!(nearest("Compose", &names), Some("compose"));
        assert_eq!(nearest("zzz", &names), None);
    }
}
