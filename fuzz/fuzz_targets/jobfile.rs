//! Any bytes give a plan or problems; a plan can be ordered, drawn and stored.
//!
//! The first byte chooses the syntax: a `{` is JSON, anything else TOML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use surface_jobfile::{Limits, Plan, graph, parse_with};

fuzz_target!(|bytes: &[u8]| {
    // Small, so that a hostile file is refused quickly and the next one has its turn; and the disk is left alone.
    let limits = Limits { jobs: 2_000, edges: 20_000, text_bytes: 1 << 20, globs: false, ..Limits::default() };
    let name = if bytes.first() == Some(&b'{') { "fuzz.json" } else { "fuzz.toml" };
    match parse_with(name, bytes, &limits) {
        Ok(plan) => {
            assert!(!plan.jobs.is_empty() && plan.jobs.len() <= limits.jobs);
            assert!(plan.jobs.iter().map(|job| job.needs.len()).sum::<usize>() <= limits.edges);
            assert!(plan.order().is_some(), "a plan has no circles");
            let mut names: Vec<&str> = plan.jobs.iter().map(|job| job.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), plan.jobs.len(), "names are unique");
            graph::text(&plan);
            graph::dot(&plan);
            graph::svg(&plan);
            let stored = serde_json::to_string(&plan).expect("a plan can be stored");
            assert_eq!(serde_json::from_str::<Plan>(&stored).expect("and read again"), plan);
        }
        Err(problems) => {
            assert!(problems.len() > 0);
            assert!(!problems.to_string().is_empty());
            problems.pretty(false);
        }
    }
});
