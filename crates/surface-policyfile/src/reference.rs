//! The reference of policy files, for people and for editors: written from the tables that files are read by.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.

use serde_json::{Value, json};
use surface_text::reference::{Entry, Part, Reference, described, object, schema_text};

use crate::keys::{HINTS, Key, PROFILE, RULE, TOP};

const EXAMPLE: &str = "\
[profile.audio]
weight = 4096
latency = \"sensitive\"
budget = \"300us\"
period = \"5ms\"

[profile.encoder]
weight = 256
latency = \"batch\"

[hints]
batch = \"encoder\"

[[rule]]
service = \"mixer-*\"
profile = \"audio\"";

fn entries(keys: &[Key]) -> Vec<Entry> {
    keys.iter().map(Key::entry).collect()
}

fn part(heading: &str, about: &str, keys: &[Key], example: &str) -> Part {
    let (heading, about, example) = (heading.to_owned(), about.to_owned(), example.to_owned());
    Part { heading, about, entries: entries(keys), example }
}

/// Everything about policy files.
///
/// ```
/// assert!(surface_policyfile::reference().text().contains("criticality"));
/// ```
pub fn reference() -> Reference {
    Reference {
        title: "Policy file",
        intro: "profiles for CPU time, and who gets which, in TOML or (if its name ends in .json) JSON. `bursar policy serve FILE` publishes it, `bursar policy check FILE` checks it. Durations may also be in us and ns",
        example: EXAMPLE,
        command: "bursar help policyfile",
        parts: vec![
            part("file", "keys at the top", TOP, ""),
            part(
                "[profile.NAME]",
                "how one kind of work gets CPU time. A name has letters, digits and any of `_-.`, at most 64; there are at most 64 profiles, 16 of them with a `budget`. `normal` is there without being written",
                PROFILE,
                "[profile.robot]\nbudget = \"1ms\"\nperiod = \"10ms\"\ndeadline = \"4ms\"\noverrun = \"stop\"\ncriticality = 9",
            ),
            part("[hints]", "what a program says about its work, and the profile that this leads to", HINTS, ""),
            part(
                "[[rule]]",
                "names that match a pattern get a profile, before anything that a program asks for. One of `service`, `account`, `session` and `name` is required; at most 256 rules",
                RULE,
                "[[rule]]\naccount = \"nightly\"\nprofile = \"encoder\"",
            ),
        ],
    }
}

/// The same for editors: JSON Schema.
///
/// ```
/// assert!(surface_policyfile::schema().contains("\"criticality\""));
/// ```
pub fn schema() -> String {
    let mut file = object(&entries(TOP), None);
    let mut rule = object(&entries(RULE), None);
    rule["required"] = json!(["profile"]);
    for (name, section) in [
        ("profile", json!({ "type": "object", "additionalProperties": object(&entries(PROFILE), None) })),
        ("hints", object(&entries(HINTS), None)),
        ("rule", json!({ "type": "array", "items": rule })),
    ] {
        let about = TOP.iter().find(|part| part.field.name == name).map(Key::entry);
        file["properties"][name] = about.map_or(Value::Null, |about| described(&about, section));
    }
    schema_text("Bursar policy file", file)
}
