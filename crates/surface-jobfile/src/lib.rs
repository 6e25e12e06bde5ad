//! A job file: TOML to a checked plan, and its picture.
//!
//! Room: surface. Parses and draws; runs nothing, and knows no scheduler.
//!
//! # Invariant
//! Any bytes give a [`Plan`] or [`Problems`]: no panic, no overflow of the stack, and no more memory than [`Limits`] allow.
//!
//! # Why it holds
//! The text goes through stages, each over the result of the one before: bytes, a tree of values with their places
//! (`src/tree.rs`, `src/json.rs`), drafts checked field by field (`src/read.rs`), instances (`src/foreach.rs`, `src/expand.rs`), needs
//! (`src/needs.rs`). Only trees nest, and their depth is limited; everything that multiplies is counted first.
//!
//! ```
//! let plan = surface_jobfile::parse("render.toml", r#"
//!     [resources]
//!     vram = "16 GB"
//!
//!     [job.storyboard]
//!     run = "python storyboard.py --out board.json"
//!
//!     [job.image]
//!     foreach = { scene = "1..8" }
//!     needs = ["storyboard"]
//!     run = "render --scene {scene} board.json -o scene-{scene}.png"
//!     vram = "6 GB"
//! "#)?;
//! assert_eq!(plan.jobs.len(), 9);
//! assert_eq!(plan.jobs[8].vram_mb, Some(6_000));
//! println!("{}", surface_jobfile::graph::text(&plan));
//! # Ok::<(), surface_jobfile::Problems>(())
//! ```
#![forbid(unsafe_code)]

mod cycle;
mod expand;
mod fields;
mod foreach;
mod fresh;
pub mod graph;
mod json;
mod limits;
mod needs;
mod plan;
mod problem;
mod read;
mod suggest;
mod template;
mod tree;
mod units;

use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use fresh::Freshness;
pub use limits::Limits;
pub use plan::{Action, Job, OnCrash, OverRam, Plan, Resources};
pub use problem::{Place, Problem, Problems};
pub use units::{megabytes, millis};

use fields::Values;
use problem::Report;

/// Reads a job file. Commands and globs are relative to its folder, which becomes [`Plan::base`], absolute.
///
/// ```
/// let problems = surface_jobfile::load("no-such.toml".as_ref()).unwrap_err();
/// assert!(problems.to_string().starts_with("no-such.toml: cannot be read: "));
/// ```
///
/// # Errors
/// Everything that is wrong with it, or why it cannot be read.
pub fn load(path: &Path) -> Result<Plan, Problems> {
    let name = path.display().to_string();
    let limits = Limits::default();
    let unreadable = |error: std::io::Error| {
        Problems::of_file(
            &name,
            format!("cannot be read: {error}"),
            "name a job file, such as examples/quickstart.toml",
        )
    };
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too long, also if it has no length, as a pipe.
    file.take(limits.file_bytes as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    let absolute = std::path::absolute(path).map_err(unreadable)?;
    let base = absolute.parent().unwrap_or(Path::new("/"));
    plan(&name, base, &bytes, &limits)
}

/// Reads the text of a job file. `name` is used in messages; its ending chooses the syntax (`.json`, else TOML), and
/// its folder becomes [`Plan::base`].
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(name: &str, text: &str) -> Result<Plan, Problems> {
    parse_with(name, text.as_bytes(), &Limits::default())
}

/// As [`parse`], for bytes of any origin and with limits of one's own.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_with(name: &str, bytes: &[u8], limits: &Limits) -> Result<Plan, Problems> {
    let base = Path::new(name).parent().unwrap_or(Path::new(""));
    plan(name, base, bytes, limits)
}

fn plan(file: &str, base: &Path, bytes: &[u8], limits: &Limits) -> Result<Plan, Problems> {
    if bytes.len() > limits.file_bytes {
        let message = format!("has more than {} bytes, which is the most", limits.file_bytes);
        return Err(Problems::of_file(file, message, "split it, or let `foreach` write the jobs"));
    }
    let path = Path::new(file);
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
    if ending == "yaml" || ending == "yml" {
        return Err(Problems::of_file(file, "is YAML by its name, which is not read", "write it as TOML or JSON"));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            let mut report = Report::default();
            let message = format!("byte 0x{:02X} is not UTF-8", bytes[at]);
            report.add(&(at..at + 1), message, "save the file as UTF-8");
            return Err(report.finish(file, bytes));
        }
    };
    let mut report = Report::default();
    let tree = if ending == "json" { json::json(text, &mut report) } else { tree::toml(text, &mut report) };
    if !report.is_empty() {
        return Err(report.finish(file, bytes));
    }
    let mut values = Values { source: text, report };
    let drafts = read::read(&tree, &mut values, limits);
    let mut all = expand::expand(&drafts, base, limits, &mut values);
    needs::groups(&drafts, &mut values);
    // The rest would tell of jobs that are missing only because of another problem.
    if values.report.is_empty() {
        needs::resolve(&drafts, &mut all, limits, &mut values);
    }
    if values.report.is_empty() {
        needs::circle(&drafts, &all, &mut values);
        needs::writers(&drafts, &all, &mut values);
    }
    if !values.report.is_empty() {
        return Err(values.report.finish(file, bytes));
    }
    let stem = || path.file_stem().map_or_else(|| "jobs".to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok(Plan {
        name: drafts.name.unwrap_or_else(stem),
        base: base.to_owned(),
        resources: drafts.resources,
        jobs: all.jobs,
    })
}
