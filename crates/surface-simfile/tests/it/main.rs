//! What a workload file means, and what is said about one that means nothing.

mod hostile;
mod meaning;
mod mistakes;
mod reference;

use surface_simfile::{Plan, parse};

/// A plan of a text that has none but right lines.
fn plan(text: &str) -> Plan {
    parse("test.toml", text).unwrap_or_else(|problems| panic!("{problems}"))
}

/// What is wrong with a text.
fn problems(text: &str) -> String {
    match parse("test.toml", text) {
        Ok(plan) => panic!("nothing is wrong with\n{text}\n{plan:#?}"),
        Err(problems) => problems.to_string(),
    }
}
