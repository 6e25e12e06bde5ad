//! The table of kinds as text for people.
//!
//! Room: surface.
//!
//! # Invariant
//! Every kind, port and field of the table is in the help, and nothing else is.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{EVERY_NODE, Field, KINDS, Kind, Port, Role, Takes, Without};

/// All kinds, a line each, by where they stand in a graph.
///
/// ```
/// assert!(surface_flowfile::kinds::help().contains("\n  filter "));
/// ```
pub fn help() -> String {
    let mut out = String::new();
    let width = KINDS.iter().map(|kind| kind.name.len()).max().unwrap_or(0);
    for (role, title) in [
        (Role::Any, "source, stage or sink, by its edges"),
        (Role::Source, "sources: emit messages"),
        (Role::Stage, "stages: take and emit messages"),
        (Role::Sink, "sinks: take messages"),
    ] {
        let gap = if out.is_empty() { "" } else { "\n" };
        let _ = writeln!(out, "{gap}{title}");
        for kind in KINDS.iter().filter(|kind| kind.role == role) {
            let _ = writeln!(out, "  {:width$}  {}", kind.name, kind.about);
        }
    }
    out
}

/// What the `control` input of every node takes.
const CONTROL_INPUT: &str = "\ninput of every node\n  control       \"stop\", \"pause\" or \"resume\"; any value that is not a text means stop\n";

/// One kind: its ports, its fields with what they take and mean, and an example.
pub fn describe(kind: &Kind) -> String {
    let mut out = format!("{}: {}\n", kind.name, kind.about);
    for (title, ports) in [("inputs", kind.inputs), ("outputs", kind.outputs)] {
        if !ports.is_empty() {
            let _ = writeln!(out, "\n{title}");
            for port in ports {
                let _ = writeln!(out, "  {:12}  {}", port.name, port.about);
            }
        }
    }
    for (title, fields) in [("fields", kind.fields), ("fields of every node", EVERY_NODE)] {
        if !fields.is_empty() {
            let _ = writeln!(out, "\n{title}");
            for field in fields {
                describe_field(&mut out, field);
            }
        }
    }
    out.push_str(CONTROL_INPUT);
    let _ = write!(out, "\nexample\n  [node.NAME]\n  kind = \"{}\"\n", kind.name);
    for field in shown(kind) {
        let _ = writeln!(out, "  {} = {}", field.name, field.example);
    }
    out
}

/// The same as JSON: `name`, `role` (`source`, `stage`, `sink`, or `any`: its edges decide), `about`, `inputs`, `outputs` and `fields`. The entry `without` of a field is its default.
pub fn json(kind: &Kind) -> Value {
    let ports = |ports: &[Port]| -> Vec<Value> {
        ports.iter().map(|port| json!({ "name": port.name, "about": port.about })).collect()
    };
    let field = |field: &Field| {
        let Field { name, takes, without, about, example } = *field;
        let mut about_field =
            json!({ "name": name, "takes": takes.to_string(), "required": without == Without::Required });
        if let Without::Means(what) = without {
            about_field["without"] = what.into();
        }
        (about_field["about"], about_field["example"]) = (about.into(), example.into());
        about_field
    };
    json!({
        "name": kind.name,
        "role": format!("{:?}", kind.role).to_lowercase(),
        "about": kind.about,
        "inputs": ports(kind.inputs),
        "outputs": ports(kind.outputs),
        "fields": kind.fields.iter().map(field).collect::<Vec<_>>(),
    })
}

/// Fields of the example: the required ones; else the first, and after `field` its first condition.
fn shown(kind: &Kind) -> Vec<&Field> {
    let required: Vec<&Field> = kind.fields.iter().filter(|field| field.without == Without::Required).collect();
    let first = if kind.fields.first().is_some_and(|field| field.name == "field") { 2 } else { 1 };
    if required.is_empty() { kind.fields.iter().take(first).collect() } else { required }
}

fn describe_field(out: &mut String, field: &Field) {
    let without = match field.without {
        Without::Required => "required".to_owned(),
        Without::Means(what) => format!("without it: {what}"),
    };
    let range = match field.takes {
        Takes::Whole(least, most) if most < i64::from(u32::MAX) => format!(" from {least} to {most}"),
        _ => String::new(),
    };
    let _ = writeln!(out, "  {:12}  {}; {}{range}; {without}", field.name, field.about, field.takes);
}
