//! Mistakes of a file, as they are told.

use serde::Serialize;

use crate::exit::{Exit, Failure};

/// A problem of a file, for programs.
#[derive(Serialize)]
pub(crate) struct Wrong<'a> {
    pub(crate) file: &'a str,
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    pub(crate) message: &'a str,
    pub(crate) help: &'a str,
}

impl<'a> Wrong<'a> {
    pub(crate) fn of(problem: &'a surface_jobfile::Problem) -> Wrong<'a> {
        Wrong {
            file: &problem.file,
            line: problem.place.map(|place| place.line),
            column: problem.place.map(|place| place.column),
            message: &problem.message,
            help: &problem.help,
        }
    }
}

/// Shows what is wrong with a file; what is given is the last line about it.
pub(crate) fn invalid(problems: &surface_jobfile::Problems) -> Failure {
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    let file = problems.iter().next().map_or("the file", |problem| &problem.file);
    let picture = problems.pretty(console::colors_enabled_stderr());
    // The picture stands on its own above the one line that every failure has.
    eprint!("{picture}");
    if !picture.ends_with('\n') {
        crate::exit::say!();
    }
    Failure::new(Exit::BadFile, format!("{file} has {count}; mend what is marked above"))
}
