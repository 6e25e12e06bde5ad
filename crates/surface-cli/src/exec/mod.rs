//! `bursar exec`: a Janus program, run under a budget.
//!
//! Room: surface.
//!
//! - `options.rs`: the command line; `source.rs`: from a file to a program.
//! - `run.rs`: one run, within its limits; `stop.rs`: signals; `output.rs`: what the program prints; `explore.rs`: one run for each of many seeds.
//! - `ending.rs`: how a run ended, as values; `report.rs`: the same for people and for scripts; `replay.rs`: the command that repeats it.

mod ending;
mod explore;
mod options;
mod output;
mod replay;
mod report;
mod run;
mod source;
mod stop;

pub(crate) use options::Options;

use std::ffi::OsString;
use std::path::Path;

use clap::Parser;

use crate::exit::{Exit, Failure};
use crate::out::{json, print};
use crate::view::text::clean;
use options::Emit;
use source::{Asker, Source};

/// `bursar exec`. Returns the exit code, which may be that of the program.
pub(crate) fn exec(options: &Options) -> Result<u8, Failure> {
    let source = match Source::load(options, Asker::CommandLine) {
        Ok(source) => source,
        Err(source::Unusable::Invalid(problems)) if options.json => {
            return json(&report::problems_json(&problems)).map(|()| Exit::BadFile as u8);
        }
        Err(source::Unusable::Invalid(problems)) => return Err(crate::problems::invalid(&problems)),
        Err(source::Unusable::Unread(failure)) => return Err(failure),
    };
    if let Some(form) = options.emit {
        let text = match form {
            Emit::Qtjir => source.program.ir().to_string(),
            Emit::Clif => source.program.clif().ok_or_else(|| {
                Failure::broken(format!(
                    "{} has no machine code: it is interpreted, for its size or for this processor; see `--emit qtjir`",
                    name(options)
                ))
            })?,
        };
        return print(&text).map(|()| Exit::Success as u8);
    }
    if options.check {
        return report::checked(options, &source).map(|()| Exit::Success as u8);
    }
    source.callable(options, Asker::CommandLine)?;
    if let Some(seeds) = &options.explore {
        return explore::explore(options, &source, seeds.clone());
    }
    let ended = run::run(options, &source)?;
    report::report(options, &source, &ended)?;
    Ok(ended.code())
}

/// What a run is called in messages; no name commands the terminal.
fn name(options: &Options) -> String {
    if options.is_stdin() { "standard input".to_owned() } else { clean(&options.file.to_string_lossy()) }
}

/// The command line of `bursar exec` alone.
#[derive(Debug, Parser)]
#[command(no_binary_name = true)]
struct Alone {
    #[command(flatten)]
    options: Options,
}

/// Whether `bursar exec` with these options would run the program in this file, for a job of this name.
pub(crate) fn valid(job: &str, file: &Path, options: &[String]) -> Result<(), Failure> {
    let words = options.iter().map(OsString::from).chain(["--".into(), file.into()]);
    let named = |failure: &dyn std::fmt::Display| {
        Failure::new(Exit::BadFile, format!("job `{job}`: {}: {failure}", file.display()))
    };
    let Alone { options } = Alone::try_parse_from(words).map_err(|error| {
        // Its first line says what is wrong; the others show the usage of a command that was not typed.
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        named(&first.replace("'--arg <VALUE>'", "`args`"))
    })?;
    let asker = Asker::Job(job);
    match Source::load(&options, asker) {
        Ok(source) => source.callable(&options, asker).map_err(|failure| Failure { exit: Exit::BadFile, ..failure }),
        Err(source::Unusable::Invalid(problems)) => Err(crate::problems::invalid(&problems)),
        Err(source::Unusable::Unread(failure)) => Err(named(&failure)),
    }
}
