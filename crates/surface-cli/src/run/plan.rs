//! The plan of a run: of a file, of one command, or of an earlier run; and as the journal keeps it.
//!
//! Room: surface.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use sched_jobs::process::Class;
use serde::{Deserialize, Serialize};
use surface_jobfile::{Action, Job, On, Plan, Resources, Slurm};

use super::options::{LimitArgs, Options};
use crate::exit::Failure;

/// A plan and where it is from.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    /// The file, absolute.
    pub(crate) file: Option<PathBuf>,
    /// Limits; with one command, its demands are in its job.
    pub(crate) asked: LimitArgs,
    pub(crate) is_single: bool,
    /// The class of jobs that do not say their own.
    pub(crate) class: Option<Class>,
}

impl Planned {
    /// The plan that the options name, reduced by `--only`.
    pub(crate) fn from_options(options: &Options) -> Result<Planned, Failure> {
        let asked = options.asked.clone();
        if !options.command.is_empty() {
            return single(options);
        }
        let file = options.file.as_deref().unwrap_or(Path::new(""));
        let plan = surface_jobfile::load(file).map_err(|problems| {
            let colour = console::colors_enabled_stderr();
            Failure::drawn(problems.pretty(colour))
        })?;
        let plan = placed(plan, options.on);
        let plan = if options.only.is_empty() { plan } else { only(plan, &options.only)? };
        Ok(Planned {
            plan,
            file: std::path::absolute(file).ok(),
            asked,
            is_single: false,
            class: options.default_class(),
        })
    }
}

/// The plan with what `--on` says. What a job says of itself stays, except that `--on local` needs no cluster at all.
fn placed(mut plan: Plan, on: Option<On>) -> Plan {
    plan.on = on.or(plan.on);
    if on == Some(On::Local) {
        plan.jobs.iter_mut().for_each(|job| job.on = None);
    }
    plan
}

/// One command is a plan with one job.
fn single(options: &Options) -> Result<Planned, Failure> {
    let argv = options.command.iter().map(|word| {
        word.to_str().map(str::to_owned).ok_or_else(|| {
            let word = word.to_string_lossy();
            Failure::usage(format!("`{word}` is not UTF-8; put it into a script and run that"))
        })
    });
    let argv: Vec<String> = argv.collect::<Result<_, _>>()?;
    if argv[0].is_empty() {
        return Err(Failure::usage("the command is empty; write `bursar run -- PROGRAM …`".to_owned()));
    }
    let program = Path::new(&argv[0]).file_name().map_or(argv[0].clone(), |name| name.to_string_lossy().into_owned());
    let base = std::env::current_dir().map_err(|error| {
        Failure::broken(format!("cannot find the current directory: {error}; change to one that exists"))
    })?;
    let asked = &options.asked;
    let mut job = Job::new(options.name.clone().unwrap_or(program), Action::Argv(argv));
    job.cpu = asked.cpu;
    job.ram_mb = asked.ram;
    job.vram_mb = asked.vram;
    job.gpus = asked.gpus;
    job.named = asked.resource.clone();
    job.priority = options.priority.unwrap_or(0);
    job.timeout_ms = options.timeout;
    job.log_limit_mb = options.log_limit;
    // A resource that only this command names has room for it; other runs that name it share it.
    let resources = Resources { named: asked.resource.clone(), ..Resources::default() };
    let asked = LimitArgs { jobs: asked.jobs, scheduler: asked.scheduler, ..LimitArgs::default() };
    let plan = Plan { name: job.name.clone(), base, resources, jobs: vec![job], ..Plan::default() };
    Ok(Planned { plan, file: None, asked, is_single: true, class: options.default_class() })
}

/// The named jobs and what they need, in the order of the plan.
fn only(plan: Plan, names: &[String]) -> Result<Plan, Failure> {
    let mut keep = vec![false; plan.jobs.len()];
    let mut queue = VecDeque::new();
    for name in names {
        let before = queue.len();
        queue.extend((0..plan.jobs.len()).filter(|&at| plan.jobs[at].name == *name || plan.jobs[at].group == *name));
        if queue.len() == before {
            let mut groups: Vec<&str> = plan.jobs.iter().map(|job| job.group.as_str()).collect();
            groups.dedup();
            groups.truncate(12);
            let message = format!("--only {name}: there is no such job; there are: {}", groups.join(", "));
            return Err(Failure::usage(message));
        }
    }
    while let Some(at) = queue.pop_front() {
        if !std::mem::replace(&mut keep[at], true) {
            queue.extend(plan.jobs[at].needs.iter().copied());
        }
    }
    let indices = keep.iter().scan(0, |next, &kept| {
        let index = *next;
        *next += usize::from(kept);
        Some(index)
    });
    let new_index: Vec<usize> = indices.collect();
    let mut jobs: Vec<Job> = plan.jobs.into_iter().zip(&keep).filter(|(_, kept)| **kept).map(|(job, _)| job).collect();
    for job in &mut jobs {
        job.needs.iter_mut().for_each(|need| *need = new_index[*need]);
    }
    Ok(Plan { jobs, ..plan })
}

/// A plan as the journal keeps it: a reader of [`Plan`] alone can read it, too.
#[derive(Serialize)]
struct Written<'a> {
    name: &'a str,
    base: &'a Path,
    resources: &'a Resources,
    jobs: &'a [Job],
    on: &'a Option<On>,
    slurm: &'a Slurm,
    run: Extra,
}

/// What else is needed to resume a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Extra {
    pub(crate) asked: LimitArgs,
    pub(crate) fail_fast: bool,
    pub(crate) keep_incomplete: bool,
    pub(crate) is_single: bool,
    /// The class of jobs that do not say their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<Class>,
}

/// The text for the journal.
pub(crate) fn write(planned: &Planned, fail_fast: bool, keep_incomplete: bool) -> Result<String, Failure> {
    let Plan { name, base, resources, jobs, on, slurm } = &planned.plan;
    let (asked, is_single, class) = (planned.asked.clone(), planned.is_single, planned.class);
    let run = Extra { asked, fail_fast, keep_incomplete, is_single, class };
    serde_json::to_string(&Written { name, base, resources, jobs, on, slurm, run }).map_err(|error| {
        Failure::broken(format!("the plan cannot be written into the journal: {error}; use --no-journal"))
    })
}

/// What [`write`] wrote.
pub(crate) fn read(text: &str) -> Result<(Plan, Extra), serde_json::Error> {
    #[derive(Deserialize)]
    struct Kept {
        #[serde(default)]
        run: Extra,
    }
    Ok((serde_json::from_str(text)?, serde_json::from_str::<Kept>(text)?.run))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Plan {
        surface_jobfile::parse("x.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
    }

    const FILM: &str = "[job.board]\nrun='a'\n[job.other]\nrun='b'\n[job.image]\nforeach={s='1..2'}\nneeds=['board']\nrun='c'\n\
                        [job.film]\nneeds=['image','other']\nrun='d'";

    #[test]
    fn only_takes_a_job_with_everything_it_needs_and_nothing_else() {
        let plan = only(parsed(FILM), &["image[2]".to_owned()]).unwrap();
        let names: Vec<&str> = plan.jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["board", "image[2]"]);
        assert_eq!(plan.jobs[1].needs, [0]);
        let plan = only(parsed(FILM), &["image".to_owned()]).unwrap();
        assert_eq!(plan.jobs.len(), 3);
    }

    #[test]
    fn only_a_job_that_is_not_there_names_those_that_are() {
        let failure = only(parsed(FILM), &["imag".to_owned()]).unwrap_err();
        assert_eq!(failure.message, "--only imag: there is no such job; there are: board, other, image, film");
    }

    #[test]
    fn a_plan_comes_back_from_the_journal_as_it_went_in() {
        let asked = LimitArgs { cpu: Some(3), scheduler: Some(sched_jobs::Scheduler::Simple), ..LimitArgs::default() };
        let planned = Planned { plan: parsed(FILM), file: None, asked, is_single: false, class: Some(Class::Batch) };
        let text = write(&planned, true, true).unwrap();
        let (plan, extra) = read(&text).unwrap();
        assert_eq!(plan, planned.plan);
        assert_eq!((extra.asked, extra.fail_fast, extra.keep_incomplete), (planned.asked, true, true));
        assert_eq!(extra.class, Some(Class::Batch));
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), planned.plan);
    }
}
