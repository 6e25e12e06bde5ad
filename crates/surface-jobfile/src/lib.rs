//! A job file: TOML to a checked plan, and its picture.
//!
//! Room: surface. Knows TOML, JSON and drawings; knows nothing of schedulers.
//!
//! # Invariant
//! Any bytes give a [`Plan`] or [`Problems`]: no panic, no overflow of the stack, and no more memory than [`Limits`] allow.
//!
//! # Why it holds
//! The text goes through stages, each over the result of the one before: bytes, a tree of values with their locations
//! (`crates/surface-text/src/tree.rs`), drafts checked field by field (`src/read.rs`, by the table in `src/keys/table.rs`), instances (`src/foreach.rs`, `src/expand.rs`), needs
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

mod draft;
mod expand;
mod files;
mod foreach;
mod fresh;
pub mod graph;
mod keys;
mod limits;
mod needs;
mod paths;
mod plan;
mod read;
mod reference;
mod reservation;
mod sources;
mod template;

use std::path::Path;

pub use fresh::Freshness;
pub use limits::Limits;
pub use plan::{Action, Class, Incomplete, Job, On, OnCrash, OverRam, Plan, Reservation, Resources, Slurm};
pub use reference::{reference, schema};
pub use surface_text::units::{megabytes, millis};
pub use surface_text::{Location, Problem, Problems};

use surface_text::source;
use surface_text::tree::Dialect;

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
    let limits = Limits::default();
    let (bytes, base) = source::read(path, limits.file_bytes, "name a job file, such as examples/quickstart.toml")?;
    plan(&path.display().to_string(), &base, &bytes, &limits)
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

const DIALECT: Dialect = Dialect {
    brackets: 16,
    dots: 16,
    levels: 256,
    json_depth: 32,
    deep: "a job file needs four levels; write it flat",
    line: "a line is `key = value`, a job starts with `[job.NAME]`, and text is in quotes",
    shape: "a job file in JSON is { \"job\": { \"hello\": { \"run\": \"echo hello\" } } }",
};

fn plan(file: &str, base: &Path, bytes: &[u8], limits: &Limits) -> Result<Plan, Problems> {
    let too_long = "split it, or let `foreach` write the jobs";
    let (tree, mut values) = source::tree(file, bytes, limits.file_bytes, too_long, &DIALECT)?;
    let drafts = read::read(&tree, &mut values, limits);
    let mut all = expand::expand(&drafts, base, limits, &mut values);
    needs::groups(&drafts, &mut values);
    let mut paths = paths::Paths::new(base, limits.globs);
    // Later checks would report jobs that are missing only because of another problem.
    if values.report.is_empty() {
        needs::resolve(&drafts, &mut all, limits, &mut values);
        files::needs(&drafts, &mut all, &mut paths, limits, &mut values);
    }
    if values.report.is_empty() {
        needs::cycle(&drafts, &all, &mut values);
        needs::writers(&drafts, &all, &mut paths, &mut values);
    }
    if !values.report.is_empty() {
        return Err(values.report.finish(file, bytes));
    }
    let stem =
        || Path::new(file).file_stem().map_or_else(|| "jobs".to_owned(), |stem| stem.to_string_lossy().into_owned());
    Ok(Plan {
        name: drafts.name.unwrap_or_else(stem),
        base: base.to_owned(),
        resources: drafts.resources,
        jobs: all.jobs,
        on: drafts.on,
        slurm: drafts.slurm,
    })
}
