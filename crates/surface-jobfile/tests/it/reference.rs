//! The reference says what the reader takes, and the reader takes what the reference says.

use surface_jobfile::{parse, reference, schema};

/// A file in which one key stands where it belongs, with the example of the table.
fn file_with(heading: &str, key: &str, example: &str) -> Vec<String> {
    // `exclude` and `include` change a `foreach`; a job has one thing to do; a need is a job.
    let also = match key {
        "exclude" | "include" => "foreach = { scene = \"1..8\" }\n",
        "budget" => "period = \"10ms\"\n",
        "period" | "deadline" => "budget = \"2ms\"\n",
        _ => "",
    };
    let run = match key {
        "command" | "run" | "flow" | "exec" => "",
        "args" | "ops" | "spawns" | "channel_ops" | "tasks" => "exec = \"step.jan\"\n",
        _ => "run = \"true\"\n",
    };
    let job = format!("[job.it]\n{run}{also}{key} = {example}\n[job.other]\nrun = \"true\"\n");
    match heading {
        "file" => vec![format!("{key} = {example}\n{}", if key == "job" { "" } else { "[job.a]\nrun = \"true\"" })],
        "[resources]" => vec![format!("[resources]\n{key} = {example}\n[job.a]\nrun = \"true\"")],
        "[run]" | "[slurm]" => vec![format!("{heading}\n{key} = {example}\n[job.a]\nrun = \"true\"")],
        "[job.NAME]" => vec![job],
        "[job.NAME] and [defaults]" => {
            vec![job, format!("[defaults]\n{key} = {example}\n[job.a]\nrun = \"true\"")]
        }
        other => panic!("what stands under {other}?"),
    }
}

#[test]
fn every_key_of_the_table_is_read_and_its_example_is_taken() {
    let mut count = 0;
    for part in reference().parts {
        for entry in &part.entries {
            for text in file_with(&part.heading, entry.name, entry.example) {
                if let Err(problems) = parse("x.toml", &text) {
                    panic!("`{}` of {}: {problems}\n{text}", entry.name, part.heading);
                }
                count += 1;
            }
            let all = [entry.about, entry.without, entry.example, &entry.takes];
            assert!(all.iter().all(|text| !text.is_empty()), "{} is described", entry.name);
        }
        if !part.example.is_empty() && part.heading.starts_with("[res") {
            parse("x.toml", &format!("{}\n[job.a]\nrun = 'x'", part.example)).unwrap();
        }
    }
    assert!(count > 40, "{count}");
    parse("x.toml", reference().example).unwrap();
}

#[test]
fn a_key_that_is_not_in_the_table_is_refused() {
    let names: Vec<&str> = reference().parts.iter().flat_map(|part| &part.entries).map(|entry| entry.name).collect();
    for key in ["workdir", "gpu", "memory", "depends"] {
        assert!(!names.contains(&key));
        let text = format!("[job.a]\nrun = 'x'\n{key} = 'y'");
        assert!(parse("x.toml", &text).unwrap_err().to_string().contains("is not a field of a job"), "{key}");
    }
}

#[test]
fn limits_of_the_table_are_those_of_the_reader() {
    use surface_text::reference::Shape;
    for part in reference().parts.iter().filter(|part| part.heading != "file") {
        for entry in &part.entries {
            let Shape::Whole(least, most) = entry.shape else { continue };
            for (number, is_good) in [(least, true), (most, true), (least - 1, false), (most + 1, false)] {
                for text in file_with(&part.heading, entry.name, &number.to_string()) {
                    assert_eq!(parse("x.toml", &text).is_ok(), is_good, "{} = {number} in\n{text}", entry.name);
                }
            }
        }
    }
}

#[test]
fn the_schema_has_every_key_where_it_may_stand_and_no_other() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let keys = |place: &serde_json::Value| -> Vec<String> {
        let mut keys: Vec<String> = place["properties"].as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    let named = |headings: &[&str]| -> Vec<String> {
        let parts = reference().parts;
        let entries =
            parts.iter().filter(|part| headings.contains(&part.heading.as_str())).flat_map(|part| &part.entries);
        let mut names: Vec<String> = entries.map(|entry| entry.name.to_owned()).collect();
        names.sort();
        names
    };
    let sections = &schema["properties"];
    assert_eq!(keys(&schema), named(&["file"]));
    assert_eq!(keys(&sections["resources"]), named(&["[resources]"]));
    assert_eq!(keys(&sections["defaults"]), named(&["[job.NAME] and [defaults]"]));
    let job = &sections["job"]["additionalProperties"];
    assert_eq!(keys(job), named(&["[job.NAME]", "[job.NAME] and [defaults]"]));
    for key in ["on_crash", "over_ram", "cpus", "class", "budget", "cwd", "shell"] {
        assert!(job["properties"][key]["description"].is_string(), "{key}");
    }
}
