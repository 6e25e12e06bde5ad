//! What is written about the crate outside of it is what is in it.

#[cfg(all(feature = "flow", feature = "jobs"))]
mod bridge;
#[cfg(feature = "macros")]
mod budgeted;
#[cfg(feature = "process")]
mod commands;
#[cfg(all(feature = "actors", feature = "flow", feature = "jobs"))]
mod errors;
#[cfg(feature = "jobs")]
mod tenants;

use std::{fs, path::Path};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_example_of_the_readme_is_the_one_that_runs() {
    let (readme, example) = (read("../../README.md"), read("examples/hello.rs"));
    let at = example.find("use bursar").expect("it uses us");
    assert!(
        readme.contains(&format!("```rust\n{}```", &example[at..])),
        "README.md and crates/bursar/examples/hello.rs differ; copy the example there"
    );
}

#[test]
fn the_readme_and_the_guide_tell_the_same_costs() {
    assert!(
        read("../../README.md").contains(read("src/costs.md").trim()),
        "README.md and crates/bursar/src/costs.md differ; copy the table there"
    );
}
