//! The reference says what the reader takes, and the reader takes what the reference says.

use surface_simfile::{parse, reference, schema};

/// A file in which one key stands where it belongs, with the example of the table.
fn file_with(heading: &str, key: &str, example: &str) -> String {
    let line = format!("{key} = {example}\n");
    let of = |section: &str| if heading == format!("[{section}.NAME]") { line.as_str() } else { "" };
    let unless = |name: &str, given: &str| if name == key { String::new() } else { format!("{name} = {given}\n") };
    format!(
        "{}{}[session.login]\n{}[process.batch]\n{}[context.shared]\n{}{}{}[ring.requests]\n{}{}{}[thread.hog]\n{}{}[lease.l]\n{}{}{}{}",
        if heading == "file" { line.as_str() } else { "" },
        if heading == "file" && key == "cpus" { "" } else { "cpus = 4\n" },
        of("session"),
        of("process"),
        if heading == "[context.NAME]" { unless("budget", "'200us'") } else { "budget = '200us'\n".into() },
        if heading == "[context.NAME]" { unless("period", "'5ms'") } else { "period = '5ms'\n".into() },
        of("context"),
        if heading == "[ring.NAME]" { unless("every", "'1ms'") } else { "every = '1ms'\n".into() },
        if heading == "[ring.NAME]" { unless("cost", "'1us'") } else { "cost = '1us'\n".into() },
        of("ring"),
        if heading == "[thread.NAME]" { unless("does", "['run 1ms']") } else { "does = ['run 1ms']\n".into() },
        of("thread"),
        if heading == "[lease.NAME]" { unless("process", "'batch'") } else { "process = 'batch'\n".into() },
        if heading == "[lease.NAME]" { unless("context", "'shared'") } else { "context = 'shared'\n".into() },
        if heading == "[lease.NAME]" { unless("cpus", "[2]") } else { "cpus = [2]\n".into() },
        of("lease"),
    )
}

#[test]
fn every_key_of_the_table_is_read_and_its_example_is_taken() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let mut count = 0;
    for part in reference().parts {
        for entry in &part.entries {
            let text = file_with(&part.heading, entry.name, entry.example);
            if let Err(problems) = parse("x.toml", &text) {
                panic!("`{}` of {}: {problems}\n{text}", entry.name, part.heading);
            }
            let all = [entry.about, entry.without, entry.example, &entry.takes];
            assert!(all.iter().all(|text| !text.is_empty()), "{} is described", entry.name);
            let section = part.heading.trim_matches(['[', ']']).split('.').next().unwrap_or_default();
            let keys = match section {
                "file" => &schema["properties"],
                section => &schema["properties"][section]["additionalProperties"]["properties"],
            };
            assert!(keys[entry.name].is_object(), "{} of {section} is in the schema", entry.name);
            count += 1;
        }
    }
    assert!(count > 40, "{count}");
    parse("x.toml", reference().example).unwrap();
}

#[test]
fn the_examples_people_start_from_are_right() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for (name, threads, leases) in [("sim-hog.toml", 3, 0), ("sim-audio.toml", 4, 1)] {
        let plan = surface_simfile::load(&folder.join(name)).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!((plan.threads.len(), plan.leases.len()), (threads, leases), "{name}");
    }
}
