//! `bursar flow check`, `graph`, `kinds`: a flow file, checked and drawn.
//!
//! Room: surface.

use std::path::{Path, PathBuf};

use bursar::flow::{Flow, Stats};
use clap::Args;
use serde::Serialize;
use surface_flowfile::build::{self, Hooks};
use surface_flowfile::{Plan, graph, kinds};

use crate::exit::{Exit, Failure};
use crate::out::{json, print};
use crate::picture::Picture;
use crate::problems::{Check, ProblemJson, invalid};

/// Options of `bursar flow graph`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Graph {
    /// A flow file
    file: PathBuf,
    #[command(flatten)]
    picture: Picture,
}

/// Options of `bursar flow kinds`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Kinds {
    /// One kind, with its ports and fields [default: all kinds]
    kind: Option<String>,
    /// One JSON array; for one kind, an object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked<'a> {
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    nodes: Vec<CheckedNode<'a>>,
    edges: Vec<CheckedEdge>,
    problems: Vec<serde_json::Value>,
}

#[derive(Serialize)]
struct CheckedNode<'a> {
    id: &'a str,
    kind: &'a str,
}

#[derive(Serialize)]
struct CheckedEdge {
    id: String,
    capacity: usize,
    policy: &'static str,
    /// The effective value, also if the file does not set it.
    priority: i32,
    /// The broker it goes over.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<String>,
}

/// `stats`: of the flow before it runs.
fn checked<'a>(plan: &'a Plan, stats: &Stats) -> Checked<'a> {
    let edge = |edge: &surface_flowfile::plan::Edge| CheckedEdge {
        id: plan.edge_id(edge),
        capacity: edge.capacity,
        policy: edge.policy.name(),
        priority: stats.edge(&build::edge_id(plan, edge)).map_or(0, |edge| edge.priority),
        over: edge.over.as_ref().map(ToString::to_string),
    };
    Checked {
        ok: true,
        name: Some(&plan.name),
        nodes: plan.nodes.iter().map(|node| CheckedNode { id: &node.id, kind: node.kind.name }).collect(),
        edges: plan.edges.iter().map(edge).collect(),
        problems: Vec::new(),
    }
}

/// `bursar flow check`
pub(crate) fn check(options: &Check) -> Result<Exit, Failure> {
    let refused = |problems| Checked { ok: false, name: None, nodes: Vec::new(), edges: Vec::new(), problems };
    let plan = match surface_flowfile::load(&options.file) {
        Ok(plan) => plan,
        Err(problems) if options.json => {
            let problems = problems.iter().map(|problem| serde_json::json!(ProblemJson::of(problem))).collect();
            return json(&refused(problems)).map(|()| Exit::BadFile);
        }
        Err(problems) => return Err(invalid(&problems)),
    };
    // Nothing is started; but the scheduler has its own checks, and what `run` would refuse is refused here.
    match flow(&plan) {
        Ok(flow) if options.json => json(&checked(&plan, &flow.handle().stats())).map(|()| Exit::Success),
        Ok(_) => print(&graph::text(&plan)).map(|()| Exit::Success),
        Err(problem) if options.json => {
            let file = options.file.display().to_string();
            json(&refused(vec![serde_json::json!({ "file": file, "message": problem })])).map(|()| Exit::BadFile)
        }
        Err(problem) => Err(Failure::new(Exit::BadFile, problem)),
    }
}

/// Whether `bursar flow run` would accept the file.
pub(crate) fn valid(file: &Path) -> Result<(), Failure> {
    let plan = surface_flowfile::load(file).map_err(|problems| invalid(&problems))?;
    flow(&plan).map(drop).map_err(|problem| Failure::new(Exit::BadFile, problem))
}

fn flow(plan: &Plan) -> Result<Flow, String> {
    let builder = build::flow(plan, &Hooks::default()).map_err(|error| error.to_string())?;
    builder.build().map_err(|problems| problems.to_string())
}

/// `bursar flow graph`
pub(crate) fn draw(options: &Graph) -> Result<Exit, Failure> {
    let plan = surface_flowfile::load(&options.file).map_err(|problems| invalid(&problems))?;
    options.picture.draw(|| graph::dot(&plan), || graph::svg(&plan), || graph::text(&plan))
}

/// `bursar flow kinds`
pub(crate) fn kinds(options: &Kinds) -> Result<Exit, Failure> {
    let Some(name) = &options.kind else {
        if options.json {
            return json(&kinds::KINDS.iter().map(kinds::json).collect::<Vec<_>>()).map(|()| Exit::Success);
        }
        print(&format!("{}\n`bursar flow kinds KIND` shows the ports and fields of one.\n", kinds::help()))?;
        return Ok(Exit::Success);
    };
    let Some(kind) = kinds::kind(name) else {
        let near = surface_text::did_you_mean(name, kinds::KINDS.iter().map(|kind| kind.name));
        let way_out = near.unwrap_or_else(|| "`bursar flow kinds` lists them".to_owned());
        return Err(Failure::not_found(format!("there is no kind `{name}`; {way_out}")));
    };
    if options.json {
        return json(&kinds::json(kind)).map(|()| Exit::Success);
    }
    print(&kinds::describe(kind))?;
    Ok(Exit::Success)
}
