//! The example `commands` does what it says, from the facade alone.

use std::{path::PathBuf, process::Command};

/// An example, which is built beside the tests.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is not there; `cargo build -p bursar --example {name}` makes it", path.display());
    path
}

#[test]
fn commands_run_as_a_graph_below_keepers() {
    let output = Command::new(example("commands")).output().unwrap();
    let (said, failed) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{failed}");
    assert_eq!(failed, "");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("report waits for "), "{said}");
    let ended = |name: &str| {
        let is_its = |line: &&str| line.starts_with(name) && line.contains("exited with code 0");
        lines.iter().position(is_its).unwrap_or_else(|| panic!("no end of {name}: {said}"))
    };
    assert!(ended("fetch") < ended("sort") && ended("fetch") < ended("count"), "{said}");
    assert!(ended("sort").max(ended("count")) < ended("report"), "{said}");
    assert_eq!(lines.last(), Some(&"4 jobs: 4 fruits: apple fig pear"));
}
