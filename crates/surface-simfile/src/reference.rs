//! The reference of workload files, for people and for editors: written from the table that files are read by.
//!
//! Room: surface.
//!
//! Pure: no clock, no file, no thread.

use serde_json::json;
use surface_text::reference::{Part, Reference, object, schema_text};

use crate::keys::{CONTEXT, FILE, Key, LEASE, PROCESS, RING, SESSION, THREAD};

const EXAMPLE: &str = "\
cpus = 2
for = \"2s\"

[thread.hog]
count = 4
does = [\"run 10ms\"]

[thread.sleeper]
weight = 2048
latency = \"sensitive\"
does = [\"run 200us\", \"sleep 1ms..20ms\"]";

fn part<T>(heading: &str, about: &str, keys: &[Key<T>], example: &str) -> Part {
    let (heading, about, example) = (heading.to_owned(), about.to_owned(), example.to_owned());
    Part { heading, about, entries: keys.iter().map(Key::entry).collect(), example }
}

/// Everything about workload files.
///
/// ```
/// assert!(surface_simfile::reference().text().contains("wait_limit"));
/// ```
pub fn reference() -> Reference {
    Reference {
        title: "Workload file",
        intro: "threads, scheduling contexts, leases and rings of a simulated machine, in TOML or (if its name ends in .json) JSON. `bursar sim FILE` runs it. Times may also be in \"us\" and \"ns\"",
        example: EXAMPLE,
        command: "bursar help simfile",
        parts: vec![
            part("file", "keys at the top", FILE, ""),
            part(
                "[thread.NAME]",
                "a thread, or several that are alike",
                THREAD,
                "[thread.server]\ndoes = [\"receive\", \"run 300us\", \"reply\"]\n\n[thread.client]\ndoes = [\"run 100us\", \"call server\", \"sleep 5ms\"]",
            ),
            part("[process.NAME]", "what threads have in common", PROCESS, "[process.batch]\nends = \"500ms\""),
            part(
                "[context.NAME]",
                "a scheduling context: the right to so much CPU time in each period, whatever else runs",
                CONTEXT,
                "[context.audio]\nbudget = \"300us\"\nperiod = \"5ms\"",
            ),
            part(
                "[lease.NAME]",
                "an isolation lease: CPUs for one process alone. It grants a place, not time",
                LEASE,
                "",
            ),
            part(
                "[ring.NAME]",
                "a submission ring: requests that one thread takes with `poll`. Without a lease that thread sleeps until a request comes; with one it polls, and pays for that by its context",
                RING,
                "[ring.requests]\nevery = \"500us..2ms\"\ncost = \"50us\"\ndeadline = \"1ms\"",
            ),
            part("[session.NAME]", "what processes and contexts end with", SESSION, ""),
        ],
    }
}

/// The same for editors: JSON Schema.
///
/// ```
/// assert!(surface_simfile::schema().contains("\"wait_limit\""));
/// ```
pub fn schema() -> String {
    fn entries<T>(keys: &[Key<T>], required: &[&str]) -> serde_json::Value {
        let mut one = object(&keys.iter().map(Key::entry).collect::<Vec<_>>(), None);
        one["required"] = json!(required);
        json!({ "type": "object", "additionalProperties": one })
    }
    let mut file = object(&FILE.iter().map(Key::entry).collect::<Vec<_>>(), None);
    for (name, section) in [
        ("session", entries(SESSION, &[])),
        ("process", entries(PROCESS, &[])),
        ("context", entries(CONTEXT, &["budget", "period"])),
        ("ring", entries(RING, &["every", "cost"])),
        ("thread", entries(THREAD, &["does"])),
        ("lease", entries(LEASE, &["process", "cpus", "context"])),
    ] {
        file["properties"][name] = section;
    }
    file["required"] = json!(["thread"]);
    schema_text("Bursar workload file", file)
}
