//! The reference says what the reader takes, and the reader takes what the reference says.

use surface_policyfile::{parse, reference, schema};

/// A file in which one key stands where it belongs, with the example of the table.
fn file_with(heading: &str, key: &str, example: &str) -> String {
    let also = match key {
        "period" | "deadline" | "criticality" | "overrun" => "budget = '300us'\n",
        _ => "",
    };
    let period = if matches!(key, "budget" | "deadline" | "criticality" | "overrun") { "period = '5ms'\n" } else { "" };
    match heading {
        "file" => format!("{key} = {example}\n"),
        "[profile.NAME]" => format!("[profile.a]\n{also}{period}{key} = {example}\n"),
        "[hints]" => format!("[hints]\n{key} = {example}\n"),
        "[[rule]]" if key == "profile" => format!("[[rule]]\nname = 'x'\n{key} = {example}\n"),
        "[[rule]]" => format!("[[rule]]\nprofile = 'normal'\n{key} = {example}\n"),
        other => panic!("what stands under {other}?"),
    }
}

#[test]
fn every_key_of_the_tables_is_read_and_its_example_is_taken() {
    let mut count = 0;
    for part in reference().parts {
        for entry in &part.entries {
            let text = file_with(&part.heading, entry.name, entry.example);
            let file = parse("x.toml", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
            let without = parse("x.toml", &text.replace(&format!("{} = {}\n", entry.name, entry.example), ""));
            let is_default = matches!(entry.name, "default" | "profile") || part.heading == "[hints]";
            if let Ok(without) = without
                && !is_default
            {
                assert_ne!(file.set(), without.set(), "`{}` changes nothing", entry.name);
            }
            let all = [entry.about, entry.without, entry.example, &entry.takes];
            assert!(all.iter().all(|text| !text.is_empty()), "{} is described", entry.name);
            count += 1;
        }
    }
    assert_eq!(count, 23);
    parse("x.toml", reference().example).unwrap();
}

#[test]
fn the_schema_has_the_keys_of_the_tables_and_no_others() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let keys = |object: &serde_json::Value| object["properties"].as_object().unwrap().len();
    assert_eq!(keys(&schema), 4);
    assert_eq!(keys(&schema["properties"]["profile"]["additionalProperties"]), 9);
    assert_eq!(keys(&schema["properties"]["hints"]), 5);
    assert_eq!(keys(&schema["properties"]["rule"]["items"]), 5);
}
