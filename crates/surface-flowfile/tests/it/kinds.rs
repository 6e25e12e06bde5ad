//! The table of kinds: it drives everything, so it has to be right.

use surface_flowfile::kinds::{KINDS, Role, Without, describe, help, kind};
use surface_flowfile::{Plan, Problems, build};

/// The folder of the files, with the program that an example names.
fn folder() -> &'static std::path::Path {
    static FOLDER: std::sync::OnceLock<tempfile::TempDir> = std::sync::OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// Reads a file of that folder.
fn parse(text: &str) -> Result<Plan, Problems> {
    surface_flowfile::parse(&folder().join("x.toml").display().to_string(), text)
}

/// A file with one node of a kind, joined as its ports want.
fn file(name: &str, fields: &str) -> String {
    let kind = kind(name).unwrap();
    let mut edges: Vec<String> = Vec::new();
    if kind.role != Role::Source {
        edges.extend(kind.inputs.iter().map(|port| format!("\"source -> x:{}\"", port.name)));
    }
    let output = match name {
        "router" => Some("else"),
        "splitter" => Some("0"),
        _ => kind.outputs.first().map(|port| port.name),
    };
    edges.extend(output.map(|port| format!("\"x:{port} -> sink\"")));
    if name == "janus" {
        // A problem of the program would be one of the file.
        let score = "async func score(a: i64, b: i64) -> i64 do return a + b end\nfunc main(n: i64) -> bool do return n > 0 end";
        std::fs::write(folder().join("score.jan"), score).unwrap();
    }
    let source = if edges.iter().any(|edge| edge.starts_with("\"source")) {
        "[node.source]\nkind = \"tcp-in\"\nlisten = \"127.0.0.1:1\"\nformat = \"json\"\n"
    } else {
        ""
    };
    let sink = if output.is_some() { "[node.sink]\nkind = \"discard\"\n" } else { "" };
    format!("edges = [{}]\n{source}{sink}[node.x]\nkind = \"{name}\"\n{fields}", edges.join(", "))
}

/// What a kind needs besides its required fields.
fn needed(name: &str, field: &str) -> &'static str {
    match (name, field) {
        (
            "filter" | "breaker",
            "exists" | "above" | "below" | "at_least" | "at_most" | "equals" | "not" | "matches",
        ) => "",
        ("filter" | "breaker", _) => "exists = true\n",
        ("command", "run" | "command") => "",
        ("command", _) => "run = \"true\"\n",
        ("map", "field" | "") => "scale = 2\n",
        ("janus", "args") => "function = \"score\"\n",
        ("janus", "function") => "args = [\"a\", \"b\"]\n",
        ("window", "size" | "span") => "",
        ("window", _) => "size = 10\n",
        _ => "",
    }
}

#[test]
fn every_example_of_the_table_is_taken() {
    for kind in KINDS {
        let required: Vec<_> = kind.fields.iter().filter(|field| field.without == Without::Required).collect();
        let given: String = required.iter().map(|field| format!("{} = {}\n", field.name, field.example)).collect();
        let least = format!("{given}{}", needed(kind.name, ""));
        let text = file(kind.name, &least);
        let plan = parse(&text).unwrap_or_else(|problems| panic!("{}\n{text}\n{problems}", kind.name));
        let built = build::flow(&plan, &build::Hooks::default()).unwrap().build();
        assert!(built.is_ok(), "{}: {}", kind.name, built.unwrap_err());
        for field in kind.fields.iter().filter(|field| field.without != Without::Required) {
            let text = file(
                kind.name,
                &format!("{given}{}{} = {}\n", needed(kind.name, field.name), field.name, field.example),
            );
            parse(&text).unwrap_or_else(|problems| panic!("{}.{}\n{text}\n{problems}", kind.name, field.name));
        }
    }
}

#[test]
fn the_example_in_the_help_of_each_kind_is_right() {
    for kind in KINDS {
        let help = describe(kind);
        let (_, example) = help.split_once("[node.NAME]\n").unwrap();
        let fields = example.replacen(&format!("  kind = \"{}\"\n", kind.name), "", 1);
        parse(&file(kind.name, &fields)).unwrap_or_else(|problems| panic!("{help}\n{problems}"));
    }
}

#[test]
fn every_required_field_is_missed() {
    for kind in KINDS {
        for field in kind.fields.iter().filter(|field| field.without == Without::Required) {
            let problems = parse(&file(kind.name, "")).unwrap_err().to_string();
            assert!(problems.contains(&format!("`{}` node `x` needs `{}`", kind.name, field.name)), "{problems}");
        }
    }
}

#[test]
fn names_are_there_once() {
    for (nth, kind) in KINDS.iter().enumerate() {
        assert!(!KINDS[..nth].iter().any(|other| other.name == kind.name), "{}", kind.name);
        for (nth, field) in kind.fields.iter().enumerate() {
            assert!(!kind.fields[..nth].iter().any(|other| other.name == field.name), "{}.{}", kind.name, field.name);
        }
    }
}

#[test]
fn help_tells_every_kind_port_and_field() {
    let all = help();
    for kind in KINDS {
        assert!(all.contains(&format!("\n  {} ", kind.name)), "{}\n{all}", kind.name);
        let one = describe(kind);
        for name in kind.fields.iter().map(|field| field.name).chain(kind.outputs.iter().map(|port| port.name)) {
            assert!(one.contains(&format!("\n  {name} ")), "{name}\n{one}");
        }
    }
}
