//! Mistakes of a file, as they are told.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use surface_text::amounts::counted;

use crate::exit::{Exit, Failure};

/// Which file to check.
#[derive(Debug, Clone, Args)]
pub(crate) struct Check {
    /// The file, TOML or JSON
    pub(crate) file: PathBuf,
    /// The problems, or what would run, as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// A problem of a file, for programs.
#[derive(Serialize)]
pub(crate) struct ProblemJson<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    pub(crate) message: &'a str,
    pub(crate) help: &'a str,
}

impl<'a> ProblemJson<'a> {
    pub(crate) fn of(problem: &'a surface_jobfile::Problem) -> ProblemJson<'a> {
        ProblemJson {
            file: &problem.file,
            line: problem.location.map(|at| at.line),
            column: problem.location.map(|at| at.column),
            message: &problem.message,
            help: &problem.help,
        }
    }
}

/// Shows what is wrong with a file; what is given is the last line about it.
pub(crate) fn invalid(problems: &surface_jobfile::Problems) -> Failure {
    let count = counted(problems.len(), "problem");
    let file = problems.iter().next().map_or("the file", |problem| &problem.file);
    let picture = problems.pretty(console::colors_enabled_stderr());
    // The picture stands on its own above the one line that every failure has.
    eprint!("{picture}");
    if !picture.ends_with('\n') {
        crate::exit::say!();
    }
    Failure::new(Exit::BadFile, format!("{file} has {count}; mend what is marked above"))
}
