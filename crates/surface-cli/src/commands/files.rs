//! `check`, `graph`, `report`: a file or a run as text, graph or HTML.
//!
//! Room: surface.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use surface_jobfile::{Plan, graph};
use surface_journal::Status;
use surface_journal::report::{Facts, Limits, html};

use crate::exit::{Exit, Failure};
use crate::out::{json, print};
use crate::picture::{Picture, deliver};
use crate::problems::{Check, ProblemJson, invalid};
use crate::runs::{RunResolver, is_run};

/// What to draw.
#[derive(Debug, Clone, Args)]
pub(crate) struct Graph {
    /// A job file, or a run (`r-7f3a`, `latest`)
    #[arg(value_name = "FILE|RUN")]
    what: String,
    #[command(flatten)]
    picture: Picture,
}

/// The run to report on.
#[derive(Debug, Clone, Args)]
pub(crate) struct Report {
    /// The run: `r-7f3a`, its beginning, or `latest`
    #[arg(default_value = "latest")]
    run: String,
    /// Output file; `-` for stdout [default: bursar-RUN.html]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Serialize)]
struct Checked<'a> {
    ok: bool,
    plan: Option<&'a Plan>,
    problems: Vec<ProblemJson<'a>>,
}

/// `bursar check`
pub(crate) fn check(options: &Check) -> Result<Exit, Failure> {
    match surface_jobfile::load(&options.file) {
        Ok(plan) if options.json => {
            let refused = crate::run::check(&plan).err();
            let file = options.file.to_string_lossy();
            let message = refused.iter().map(|refused| refused.message.as_str());
            let problems =
                message.map(|message| ProblemJson { file: &file, line: None, column: None, message, help: "" });
            json(&Checked { ok: refused.is_none(), plan: Some(&plan), problems: problems.collect() })?;
            Ok(refused.map_or(Exit::Success, |refused| refused.exit))
        }
        Ok(plan) => {
            crate::run::check(&plan)?;
            print(&graph::text(&plan))?;
            Ok(Exit::Success)
        }
        Err(problems) if options.json => {
            json(&Checked { ok: false, plan: None, problems: problems.iter().map(ProblemJson::of).collect() })?;
            Ok(Exit::BadFile)
        }
        Err(problems) => Err(invalid(&problems)),
    }
}

/// `bursar graph`
pub(crate) fn draw(options: &Graph) -> Result<Exit, Failure> {
    let path = Path::new(&options.what);
    // A file may have the name of a run; a run is never a path with folders.
    let plan = if is_run(&options.what) && !path.is_file() {
        let resolver = RunResolver::open()?;
        let run = resolver.run(&options.what)?;
        resolver.plan(&run.id)?
    } else {
        surface_jobfile::load(path).map_err(|problems| invalid(&problems))?
    };
    options.picture.draw(|| graph::dot(&plan), || graph::svg(&plan), || graph::text(&plan))
}

/// `bursar report`
pub(crate) fn report(options: &Report) -> Result<Exit, Failure> {
    let resolver = RunResolver::open()?;
    let run = resolver.run(&options.run)?;
    let jobs = resolver.journal_of(&run.id).jobs(&run.id)?;
    let events = resolver.journal_of(&run.id).events(&run.id)?;
    let plan = resolver.plan(&run.id).unwrap_or_default();
    let edges: Vec<(u32, u32)> = plan
        .jobs
        .iter()
        .enumerate()
        .flat_map(|(job, about)| about.needs.iter().map(move |need| (*need as u32, job as u32)))
        .collect();
    let limits = Limits {
        cpu_slots: plan.resources.cpu.unwrap_or(0).into(),
        ram_mb: plan.resources.ram_mb.unwrap_or(0),
        vram_mb: plan.resources.vram_mb.unwrap_or(0),
    };
    let html = html(&Facts { run: &run, jobs: &jobs, events: &events, edges: &edges, limits });
    let default = PathBuf::from(format!("bursar-{}.html", run.id));
    let output = options.output.clone().unwrap_or(default);
    deliver(&html, Some(&output))?;
    if output != Path::new("-") {
        let more = if run.status == Status::Running { "; the run is still active, so this is a snapshot" } else { "" };
        print(&format!("{}{more}\n", output.display()))?;
    }
    Ok(Exit::Success)
}
