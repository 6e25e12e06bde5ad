//! What a flow file means, what is said about one that means nothing, how it is drawn, and how it runs.

mod command;
mod counts;
mod drawn;
mod hostile;
mod janus;
mod kinds;
mod meaning;
mod mistakes;
mod net;
mod outputs;
#[cfg(feature = "nats")]
mod parts;
mod properties;
mod reference;
mod run;
mod whole;
mod wiring;

use surface_flowfile::{Plan, Problems, parse};

/// A plan of a text that has none but right lines.
fn plan(text: &str) -> Plan {
    parse("test.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// What is wrong with a text.
fn problems(text: &str) -> Problems {
    match parse("test.toml", text) {
        Ok(plan) => panic!("nothing is wrong with\n{text}\n{plan:#?}"),
        Err(problems) => problems,
    }
}

/// Exactly these problems, in the order of the file.
#[track_caller]
fn says(text: &str, wanted: &[&str]) {
    let problems = problems(text.trim_start());
    let said: Vec<String> = problems.iter().map(|problem| problem.to_string().replace("test.toml:", "")).collect();
    assert_eq!(said, wanted, "\n{text}\n{problems}");
}

/// The edges by their ids.
fn edges(plan: &Plan) -> Vec<String> {
    plan.edges.iter().map(|edge| plan.edge_id(edge)).collect()
}
