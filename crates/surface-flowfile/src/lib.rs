//! A flow file: TOML to a checked plan, its picture, and a graph that runs.
//!
//! Room: surface.
//!
//! # Invariant
//! Any bytes give a [`Plan`] or [`Problems`]: no panic, no overflow of the stack, and no more memory than [`Limits`] allow.
//!
//! # Why it holds
//! The text goes through stages, each over the result of the one before: bytes, a tree of values with their positions (`surface-text`),
//! drafts checked field by field (`src/read/mod.rs`) against one table (`src/kinds/table.rs`), a flat graph (`src/flatten.rs`), the programs that it names (`src/programs.rs`), checks
//! of the whole graph (`src/check.rs`). The graph that runs is built from the flat graph (`src/build/mod.rs`). Only trees and graphs nest, and the depth of both is limited; no construct multiplies nodes.
//!
//! ```
//! let plan = surface_flowfile::parse("sensors.toml", r#"
//!     edges = ["imu -> hot -> show"]
//!
//!     [node.imu]
//!     kind = "command"
//!     run = "python3 imu.py"
//!     format = "json"
//!
//!     [node.hot]
//!     kind = "filter"
//!     field = "celsius"
//!     above = 80
//!
//!     [node.show]
//!     kind = "print"
//! "#)?;
//! assert_eq!(plan.nodes.len(), 3);
//! println!("{}", surface_flowfile::graph::text(&plan));
//! # Ok::<(), surface_flowfile::Problems>(())
//! ```
//!
//! # The file
//! - `name`, else the name of the file.
//! - `[flow]`: `tick`, `batch`, `drain`, `workers`, and `shares = [4, 2, 1]`, the turns of the bands control, high and normal.
//! - `[node.NAME]`: a `kind` and its fields ([`kinds::help`], [`kinds::describe`]). Every node may have `on_error` (`skip`, `retry`,
//!   `stop-node`, `stop`, `dead-letter`), `retry = { times, first, then }`, `tick`, `batch` and `band`. Messages are JSON values; a line of text is a text. JSON passes
//!   through unchanged: the order of fields, the digits of numbers.
//! - `edges = ["a -> b -> c:left"]`, chains; a port may be left out if it is `in` or `out`, or the only one. `edges` must be above the first section.
//! - `[[edge]]`: `from`, `to`, `capacity` (1024), `policy` (`block`, `drop`, `latest`, `coalesce`), `coalesce` (`last`, `sum`, `list`, `merge`),
//!   `priority` (`control`, `high`, `normal`, or a number), `over` (`nats://host:4222/subject`). The default of an edge into `control`, or into a node that feeds only control, is
//!   `control`.
//! - `[graph.NAME]`: the same parts again, and `expose = { in = "node:in", out = "node:out" }`; from outside it is a node, and its nodes have the ids
//!   `NAME/node`.
//! - `[part.NAME]`: `nodes = ["imu"]`, what one process runs. With parts, every node is in one, and an edge between two parts is `over` a broker.
//! - Every node has an input `control` that takes `"stop"`, `"pause"` and `"resume"`.
//!
//! Every circle needs an edge that does not block: one with the policy `drop` or `latest`, or into `control`.
#![forbid(unsafe_code)]

pub mod action;
pub mod build;
mod check;
mod flatten;
pub mod graph;
pub mod kinds;
mod limits;
pub mod over;
mod parts;
pub mod plan;
mod programs;
mod read;
mod reference;
mod split;
mod types;
pub mod value;

use std::path::Path;

pub use limits::Limits;
pub use plan::Plan;
pub use reference::{reference, schema};
pub use split::NoPart;
pub use surface_text::{Location, Problem, Problems};

use surface_text::source;
use surface_text::tree::Dialect;

/// Reads a flow file. Paths and commands are relative to its folder, which becomes [`Plan::base`], absolute.
///
/// ```
/// let problems = surface_flowfile::load("no-such.toml".as_ref()).unwrap_err();
/// assert!(problems.to_string().starts_with("no-such.toml: cannot be read: "));
/// ```
///
/// # Errors
/// Everything that is wrong with it, or why it cannot be read.
pub fn load(path: &Path) -> Result<Plan, Problems> {
    let limits = Limits::default();
    let (bytes, base) = source::read(path, limits.file_bytes, "name a flow file, such as graph.toml")?;
    plan(&path.display().to_string(), path, &base, &bytes, &limits)
}

/// Reads the text of a flow file. `name` is used in messages; its ending chooses the syntax (`.json`, else TOML), and its
/// folder becomes [`Plan::base`].
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(name: &str, text: &str) -> Result<Plan, Problems> {
    parse_with(name, text.as_bytes(), &Limits::default())
}

/// As [`parse`], for untrusted bytes and with your own limits.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_with(name: &str, bytes: &[u8], limits: &Limits) -> Result<Plan, Problems> {
    let path = Path::new(name);
    plan(name, path, path.parent().unwrap_or(Path::new("")), bytes, limits)
}

const DIALECT: Dialect = Dialect {
    brackets: 16,
    // Two names for each nested graph, and some for the fields of the innermost.
    dots: 38,
    levels: 64,
    json_depth: 48,
    deep: "write it flat, or move a nested graph one level up",
    line: "a line is `key = value`, a node starts with `[node.NAME]`, and text is in quotes",
    shape: "a flow file in JSON is { \"edges\": [\"a -> b\"], \"node\": { \"a\": { \"kind\": \"stdin\" }, \"b\": { \"kind\": \"print\" } } }",
};

fn plan(file: &str, path: &Path, base: &Path, bytes: &[u8], limits: &Limits) -> Result<Plan, Problems> {
    let (tree, mut values) = source::tree(file, bytes, limits.file_bytes, "split it into several graphs", &DIALECT)?;
    let read::File { name, settings, graph, parts } = read::read(&tree, &mut values, limits);
    let mut flat = flatten::flatten(graph, &mut values);
    programs::compile(&mut flat, path, base, &mut values);
    check::fed(&flat, &mut values);
    check::circle(&flat, &mut values);
    check::types(&flat, &mut values);
    check::files(&flat, path, base, &mut values);
    let parts = split::parts(&flat, parts, &mut values);
    if !values.report.is_empty() {
        return Err(values.report.finish(file, bytes));
    }
    let stem =
        || Path::new(file).file_stem().map_or_else(|| "flow".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let flatten::Flat { nodes, edges, .. } = flat;
    Ok(Plan { name: name.unwrap_or_else(stem), base: base.to_owned(), settings, nodes, edges, parts })
}
