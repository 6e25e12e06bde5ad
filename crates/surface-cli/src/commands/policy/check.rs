//! `bursar policy check`: a file and all its problems.
//!
//! Room: surface.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use surface_policyfile::{PolicyFile, Problems};
use surface_text::amounts::counted;

use super::Target;
use crate::exit::{Exit, Failure};
use crate::out::{json, print};
use crate::problems::{ProblemJson, invalid};

/// Options of `bursar policy check`.
#[derive(Debug, Clone, Args)]
pub(super) struct Options {
    /// The policy file, TOML or JSON
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    /// One JSON object: problems and warnings
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked<'a> {
    ok: bool,
    problems: Vec<ProblemJson<'a>>,
    warnings: Vec<ProblemJson<'a>>,
}

fn lines(problems: Option<&Problems>) -> Vec<ProblemJson<'_>> {
    problems.into_iter().flatten().map(ProblemJson::of).collect()
}

/// The file, if nothing is wrong with it on this machine.
pub(super) fn load(file: &std::path::Path, machine: &bursar::policy::Machine) -> Result<PolicyFile, Problems> {
    let file = surface_policyfile::load(file)?;
    match file.problems_on(machine) {
        Some(problems) => Err(problems),
        None => Ok(file),
    }
}

/// `bursar policy check`
pub(super) fn run(options: &Options) -> Result<Exit, Failure> {
    let machine = options.target.machine();
    match load(&options.file, &machine) {
        Ok(file) => {
            let warnings = file.warnings();
            if options.json {
                json(&Checked { ok: true, problems: Vec::new(), warnings: lines(warnings.as_ref()) })?;
                return Ok(Exit::Success);
            }
            for warning in warnings.iter().flatten() {
                print(&format!("warning: {warning}\n"))?;
            }
            let set = file.set();
            let reserved = set.profiles.iter().filter(|profile| profile.reserve.is_some()).count();
            print(&format!(
                "{}: {}, {reserved} with reserved time; {}; {}; default `{}`\n",
                options.file.display(),
                counted(set.profiles.len(), "profile"),
                counted(set.hints.len(), "hint"),
                counted(set.rules.len(), "rule"),
                set.default
            ))?;
            Ok(Exit::Success)
        }
        Err(problems) if options.json => {
            json(&Checked { ok: false, problems: lines(Some(&problems)), warnings: Vec::new() })?;
            Ok(Exit::BadFile)
        }
        Err(problems) => Err(invalid(&problems)),
    }
}
