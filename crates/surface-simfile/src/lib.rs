//! A workload file: TOML to threads, contexts, leases and rings of a simulated machine, and their run.
//!
//! Room: surface. Knows TOML, JSON and the simulator; knows nothing of real CPUs.
//!
//! # Invariant
//! Any bytes give a [`Plan`] or [`Problems`]: no panic, no overflow of the stack, and no more memory than the limits allow. A plan runs, or says what is refused.
//!
//! # Why it holds
//! The text goes through stages, each over the result of the one before: bytes, a tree of values with their locations (`crates/surface-text/src/tree.rs`), sections
//! checked field by field (`src/read.rs`, by the table in `src/keys/table.rs`), names that are looked up (`src/resolve.rs`).
//!
//! ```
//! use surface_simfile::{Options, parse, simulate};
//!
//! let plan = parse("two.toml", r#"
//!     for = "500ms"
//!     [thread.hog]
//!     does = ["run 10ms"]
//!     [thread.sleeper]
//!     weight = 2048
//!     does = ["run 200us", "sleep 5ms"]
//! "#)?;
//! let report = simulate(&plan, &Options::of(&plan)).unwrap();
//! assert!(report.thread("sleeper").wait_max < 5_000_000, "{report}");
//! # Ok::<(), surface_simfile::Problems>(())
//! ```
#![forbid(unsafe_code)]

mod draft;
mod keys;
pub mod plan;
mod program;
mod read;
mod reference;
mod resolve;
mod simulate;

use std::path::Path;

pub use plan::Plan;
pub use policy_cpu::{Nanos, Policy};
pub use proof_sim::{Broken, Histogram, Report, Span};
pub use reference::{reference, schema};
pub use simulate::{Failed, Options, simulate};
pub use surface_text::units::nanos;
pub use surface_text::{Problem, Problems};

use surface_text::source;
use surface_text::tree::Dialect;

/// Bytes of a file.
const FILE_BYTES: usize = 1 << 20;

const DIALECT: Dialect = Dialect {
    brackets: 16,
    dots: 16,
    levels: 256,
    json_depth: 32,
    deep: "a workload file needs three levels; write it flat",
    line: "a line is `key = value`, a thread starts with `[thread.NAME]`, and text is in quotes",
    shape: "a workload file in JSON is { \"thread\": { \"hog\": { \"does\": [\"run 10ms\"] } } }",
};

/// Reads a workload file.
///
/// # Errors
/// Everything that is wrong with it, or why it cannot be read.
///
/// ```
/// let problems = surface_simfile::load("no-such.toml".as_ref()).unwrap_err();
/// assert!(problems.to_string().starts_with("no-such.toml: cannot be read: "));
/// ```
pub fn load(path: &Path) -> Result<Plan, Problems> {
    let (bytes, _) = source::read(path, FILE_BYTES, "name a workload file, such as examples/sim-hog.toml")?;
    parse_bytes(&path.display().to_string(), &bytes)
}

/// Reads the text of a workload file. `name` is used in messages; its ending chooses the syntax (`.json`, else TOML).
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(name: &str, text: &str) -> Result<Plan, Problems> {
    parse_bytes(name, text.as_bytes())
}

/// As [`parse`], for bytes of any origin.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_bytes(name: &str, bytes: &[u8]) -> Result<Plan, Problems> {
    let (tree, mut values) = source::tree(name, bytes, FILE_BYTES, "use `count` for threads that are alike", &DIALECT)?;
    let drafts = read::read(&tree, &mut values);
    if !values.report.is_empty() {
        return Err(values.report.finish(name, bytes)); // names would be missing only because of another problem
    }
    let stem = Path::new(name).file_stem().map_or_else(|| "sim".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let plan = resolve::resolve(&drafts, &stem, &mut values);
    if values.report.is_empty() { Ok(plan) } else { Err(values.report.finish(name, bytes)) }
}
