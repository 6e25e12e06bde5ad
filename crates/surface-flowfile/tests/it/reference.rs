//! The reference says what the reader takes.

use surface_flowfile::kinds::KINDS;
use surface_flowfile::{parse, reference, schema};

/// Two nodes and an edge, with `top` above them and `more` below.
fn file(top: &str, more: &str) -> String {
    format!("{top}\n[node.imu]\nkind = \"stdin\"\n[node.hot]\nkind = \"print\"\n{more}")
}

fn text(heading: &str, key: &str, example: &str) -> Option<String> {
    let edge = "edges = [\"imu -> hot\"]";
    Some(match (heading, key) {
        ("file", "name" | "flow") => file(&format!("{key} = {example}\n{edge}"), ""),
        ("file", "edges") => file("edges = [\"imu -> hot\"]", ""),
        ("[flow]", _) => file(edge, &format!("[flow]\n{key} = {example}")),
        ("[[edge]]", "from" | "to") => file("", "[[edge]]\nfrom = \"imu:out\"\nto = \"hot:in\""),
        ("[[edge]]", "coalesce") => file("", &format!("[[edge]]\nfrom = \"imu\"\nto = \"hot\"\n{key} = {example}")),
        ("[[edge]]", _) => file("", &format!("[[edge]]\nfrom = \"imu\"\nto = \"hot\"\n{key} = {example}")),
        ("retry", "then") => {
            file(edge, "").replace("kind = \"print\"", "kind = \"print\"\nretry = { then = \"stop\" }")
        }
        ("retry", _) => {
            file(edge, "").replace("kind = \"print\"", &format!("kind = \"print\"\nretry = {{ {key} = {example} }}"))
        }
        // Sections are shown by the examples of their own keys, kinds are tried one by one elsewhere.
        _ => return None,
    })
}

#[test]
fn every_key_outside_of_kinds_is_read_and_its_example_is_taken() {
    let mut count = 0;
    for part in reference().parts {
        for entry in &part.entries {
            let all = [entry.about, entry.without, entry.example, &entry.takes];
            assert!(all.iter().all(|text| !text.is_empty()), "{} of {} is described", entry.name, part.heading);
            let Some(text) = text(&part.heading, entry.name, entry.example) else { continue };
            parse("x.toml", &text)
                .unwrap_or_else(|problems| panic!("{} of {}: {problems}\n{text}", entry.name, part.heading));
            count += 1;
        }
    }
    assert!(count >= 16, "{count}");
    parse("x.toml", reference().example).unwrap();
}

#[test]
fn a_key_that_is_in_no_table_is_refused() {
    let edge = "edges = [\"imu -> hot\"]";
    for (text, reported) in [
        (file(&format!("speed = 1\n{edge}"), ""), "is not a part of a flow file"),
        (file(edge, "[flow]\nspeed = 1"), "is not a field of [flow]"),
        (file("", "[[edge]]\nfrom = \"imu\"\nto = \"hot\"\nspeed = 1"), "is not a field of an edge"),
        (file(edge, "retry = { speed = 1 }"), "is not a field of `retry`"),
        (file(edge, "speed = 1"), "speed"),
    ] {
        let problems = parse("x.toml", &text).unwrap_err().to_string();
        assert!(problems.contains(reported), "{problems}\n{text}");
    }
}

#[test]
fn the_schema_and_the_reference_have_every_kind_with_every_field() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let nodes = schema["$defs"]["node"]["oneOf"].as_array().unwrap();
    assert_eq!(nodes.len(), KINDS.len());
    let page = reference().markdown();
    for (kind, node) in KINDS.iter().zip(nodes) {
        assert_eq!(node["properties"]["kind"]["const"], kind.name);
        assert!(page.contains(&format!("kind = \"{}\"", kind.name)));
        for field in kind.fields {
            assert!(node["properties"][field.name].is_object(), "{} of {}", field.name, kind.name);
            assert!(page.contains(&format!("| `{}` |", field.name)), "{} of {}", field.name, kind.name);
        }
    }
}
