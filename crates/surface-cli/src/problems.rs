//! Problems of a file, as they are reported.
//!
//! Room: surface.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use surface_text::amounts::counted;

use crate::exit::{Exit, Failure};

/// Options of `bursar check` and `bursar flow check`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Check {
    /// The file, TOML or JSON
    pub(crate) file: PathBuf,
    /// One JSON object: the problems, or the plan
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

/// Prints the problems of a file; returns the failure with the last line about it.
pub(crate) fn invalid(problems: &surface_jobfile::Problems) -> Failure {
    let count = counted(problems.len(), "problem");
    let file = problems.iter().next().map_or("the file", |problem| &problem.file);
    let picture = problems.pretty(console::colors_enabled_stderr());
    // The drawing is above the one line that every failure has.
    let _ = write!(crate::streams::stderr().lock(), "{picture}"); // what cannot be said is known by the exit code
    if !picture.ends_with('\n') {
        crate::exit::say!();
    }
    let syntax = match Path::new(file).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("json")) {
        true => {
            "; the help shows TOML: in JSON, `[job.a]` is `\"job\": { \"a\": { … } }`, and `key = 1` is `\"key\": 1`"
        }
        false => "",
    };
    Failure::new(Exit::BadFile, format!("{file} has {count}; fix what is marked above{syntax}"))
}
