//! Checks of the whole graph: every input is fed, every node has an edge, circles are broken, types fit, no two nodes write the same file.
//!
//! Room: surface.
//!
//! It reads the file system for one question: whether two paths lead to one file.
//!
//! # Invariant
//! Every plan that passes can run: no node waits for messages that no other sends, and no circle of full edges can deadlock.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use surface_text::cycle;
use surface_text::fields::Values;

use crate::action::Action;
use crate::flatten::Flat;
use crate::plan::{CONTROL, Edge, Node};
use crate::types::{Type, gives, takes};

/// Limit of names of a circle in a message; of a longer circle only both ends are named.
const CIRCLE: usize = 12;

/// Inputs without an edge, and nodes without any.
pub(crate) fn fed(flat: &Flat, values: &mut Values<'_>) {
    let mut ends: Vec<Vec<&str>> = vec![Vec::new(); flat.nodes.len()];
    let mut leaves = vec![false; flat.nodes.len()];
    for edge in &flat.edges {
        leaves[edge.from] = true;
        if !ends[edge.to].contains(&edge.input.as_str()) {
            ends[edge.to].push(&edge.input);
        }
    }
    for (node, port) in &flat.excused {
        leaves[*node] = true;
        ends[*node].push(port);
    }
    if flat.incomplete {
        return; // the missing edge may be one that could not be read
    }
    for (at, node) in flat.nodes.iter().enumerate() {
        let id = &node.id;
        let optional = matches!(node.action, Action::Command(_));
        let unfed = node.kind.inputs.iter().find(|port| !ends[at].contains(&port.name));
        let (message, help) = if let Some(port) = unfed.filter(|_| !optional) {
            let port = port.name;
            (
                format!("no edge leads to `{id}:{port}`"),
                format!("write an edge to it, `edges = [\"… -> {id}:{port}\"]`, or remove the node"),
            )
        } else if !leaves[at] && !ends[at].iter().any(|input| *input != CONTROL) {
            (
                format!("node `{id}` has no edge"),
                format!("write an edge from it, `edges = [\"{id} -> …\"]`, or remove the node"),
            )
        } else {
            continue;
        };
        values.report.add(&flat.node_spans[at], message, help);
    }
}

/// A circle of edges that all block their producers.
pub(crate) fn circle(flat: &Flat, values: &mut Values<'_>) {
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); flat.nodes.len()];
    for edge in flat.edges.iter().filter(|edge| !edge.breaks_circles()) {
        needs[edge.to].push(edge.from);
    }
    let needs: Vec<&[usize]> = needs.iter().map(Vec::as_slice).collect();
    let Some(mut circle) = cycle::cycle(&needs) else { return };
    circle.reverse(); // each gives to the next
    // It starts at its first node in the file, so the message is always the same.
    let first = circle.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(at, _)| at);
    circle.rotate_left(first);
    let (last, start) = (circle[circle.len() - 1], circle[0]);
    let closing = flat.edges.iter().position(|edge| edge.from == last && edge.to == start && !edge.breaks_circles());
    let count = circle.len();
    let mut names: Vec<&str> = circle.iter().map(|&node| flat.nodes[node].id.as_str()).collect();
    names.push(names[0]);
    if names.len() > CIRCLE {
        names.splice(CIRCLE / 2..names.len() - CIRCLE / 2, ["…"]);
    }
    let nodes = if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") };
    let message =
        format!("messages go in a circle that can deadlock when its edges are full: {} ({nodes})", names.join(" -> "));
    let help = "make one of its edges non-blocking: `policy = \"latest\"` or \"drop\"";
    let span = closing.map_or_else(|| flat.node_spans[start].clone(), |edge| flat.edge_spans[edge].clone());
    values.report.add(&span, message, help);
}

/// Files that one node writes and another reads or writes: lines would be mixed or lost. The same holds for the flow file itself, `own`. Devices may be shared.
pub(crate) fn files(flat: &Flat, own: &Path, base: &Path, values: &mut Values<'_>) {
    let own = FileId::of(resolved(own));
    let mut used: HashMap<FileId, (usize, bool)> = HashMap::new();
    for (at, node) in flat.nodes.iter().enumerate() {
        let (path, writes) = match &node.action {
            Action::Write { path, .. } => (path, true),
            Action::Lines { path, .. } => (path, false),
            _ => continue,
        };
        let whole = resolved(&base.join(path));
        if whole.starts_with("/dev") {
            continue;
        }
        let known = FileId::of(whole);
        if writes && known == own {
            let message = format!("node `{}` writes {}, which is the flow file itself", node.id, path.display());
            values.report.add(&flat.node_spans[at], message, "give it a file of its own");
            continue;
        }
        match used.entry(known) {
            Entry::Vacant(entry) => _ = entry.insert((at, writes)),
            Entry::Occupied(mut entry) => {
                let (first, first_writes) = *entry.get();
                if writes && !first_writes {
                    entry.insert((at, writes)); // further problems name the node that writes
                }
                if !writes && !first_writes {
                    continue;
                }
                let does = |writes: bool| if writes { "writes" } else { "reads" };
                let (id, other) = (&node.id, &flat.nodes[first].id);
                let message = format!(
                    "node `{id}` {} {}, which node `{other}` {}",
                    does(writes),
                    path.display(),
                    does(first_writes)
                );
                let help = if writes && first_writes {
                    "give it a file of its own, or connect both edges to one node"
                } else {
                    "give it a file of its own"
                };
                values.report.add(&flat.node_spans[at], message, help);
            }
        }
    }
}

/// The identity of a file, independent of its path and of links.
#[derive(PartialEq, Eq, Hash)]
enum FileId {
    File { device: u64, inode: u64 },
    Missing(PathBuf),
}

impl FileId {
    fn of(whole: PathBuf) -> FileId {
        if let Ok(file) = fs::metadata(&whole) {
            return FileId::File { device: file.dev(), inode: file.ino() };
        }
        let mut made = in_its_folder(whole);
        // A link may lead to a file that does not exist yet: that file will be created.
        for _ in 0..LINKS {
            let Ok(target) = fs::read_link(&made) else { break };
            made = in_its_folder(made.parent().unwrap_or(Path::new("")).join(target));
        }
        FileId::Missing(made)
    }
}

/// Linux follows at most this many links.
const LINKS: usize = 40;

/// A file that does not exist yet, with the canonical path of its folder.
fn in_its_folder(file: PathBuf) -> PathBuf {
    let folder = file.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    let known = folder.and_then(|folder| Some(fs::canonicalize(folder).ok()?.join(file.file_name()?)));
    known.unwrap_or(file)
}

/// A path without `.` and `..`, resolved as text.
fn resolved(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(whole.components().next_back(), Some(Component::Normal(_))) => {
                whole.pop();
            }
            part => whole.push(part),
        }
    }
    whole
}

/// Edges whose ends have different types.
pub(crate) fn types(flat: &Flat, values: &mut Values<'_>) {
    let ties: Vec<cycle::Edge> = flat
        .edges
        .iter()
        .map(|edge| cycle::Edge { need: edge.from, user: edge.to, loose: edge.breaks_circles() })
        .collect();
    let order = cycle::order_of_edges(flat.nodes.len(), &ties);
    let mut into: Vec<Vec<usize>> = vec![Vec::new(); flat.nodes.len()];
    for (at, edge) in flat.edges.iter().enumerate().filter(|(_, edge)| edge.input != CONTROL) {
        into[edge.to].push(at);
    }
    // The type of the input of a node; `Any` if its edges differ.
    let mut comes: Vec<Option<Type>> = vec![None; flat.nodes.len()];
    for node in order {
        let mut agreed: Option<Type> = None;
        for &at in &into[node] {
            let edge = &flat.edges[at];
            let given = given(&flat.nodes[edge.from], edge, comes[edge.from]);
            mismatch(flat, at, given, values);
            agreed = Some(agreed.map_or(given, |agreed| if agreed == given { agreed } else { Type::Any }));
        }
        comes[node] = agreed;
    }
}

fn given(node: &Node, edge: &Edge, comes: Option<Type>) -> Type {
    gives(node, &edge.output, comes.unwrap_or(Type::Any))
}

fn mismatch(flat: &Flat, at: usize, given: Type, values: &mut Values<'_>) {
    let edge = &flat.edges[at];
    let (from, to) = (&flat.nodes[edge.from], &flat.nodes[edge.to]);
    let Some((wanted, why, way)) = takes(&to.action).filter(|(wanted, ..)| !wanted.fits(given)) else { return };
    let message =
        format!("`{}:{}` gives {given}, and `{}:{}` takes {wanted}: {why}", from.id, edge.output, to.id, edge.input);
    let way = match (wanted, given) {
        (Type::Object, Type::Number | Type::List) => "name no field, which means the message itself",
        _ => way,
    };
    values.report.add(&flat.edge_spans[at], message, way);
}
