//! Any bytes give a plan or problems; a plan can be drawn, and built into a graph the scheduler takes.
//!
//! The first byte chooses the syntax: a `{` is JSON, anything else TOML.
#![no_main]

use libfuzzer_sys::fuzz_target;
use surface_flowfile::{Limits, build, graph, parse_with};

fuzz_target!(|bytes: &[u8]| {
    // Small, so that a hostile file is refused quickly and the next one has its turn.
    let limits = Limits { nodes: 200, edges: 2_000, ..Limits::default() };
    let name = if bytes.first() == Some(&b'{') { "fuzz.json" } else { "fuzz.toml" };
    match parse_with(name, bytes, &limits) {
        Ok(plan) => {
            assert!(!plan.nodes.is_empty() && plan.nodes.len() <= limits.nodes);
            assert!(plan.edges.len() <= limits.edges);
            graph::text(&plan);
            graph::dot(&plan);
            graph::svg(&plan);
            // Nothing is opened or started before it runs, which it does not.
            let flow = build::flow(&plan, &build::Hooks::default()).expect("edges join nodes").build();
            assert!(flow.is_ok(), "the scheduler finds something wrong: {}", flow.unwrap_err());
        }
        Err(problems) => {
            assert!(problems.len() > 0);
            assert!(!problems.to_string().is_empty());
            problems.pretty(false);
        }
    }
});
