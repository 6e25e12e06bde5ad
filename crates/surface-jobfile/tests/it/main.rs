//! What a job file means, and what is said about one that means nothing.

mod examples;
mod files;
mod fresh;
mod graph;
mod hostile;
mod meaning;
mod mistakes;
mod properties;
mod reference;

use surface_jobfile::{Plan, Problems, parse};

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

fn names(plan: &Plan) -> Vec<&str> {
    plan.jobs.iter().map(|job| job.name.as_str()).collect()
}
