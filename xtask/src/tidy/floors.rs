//! A crate depends only on floors below its own.
//!
//! Development dependencies may look up: a test may drive a mechanism from above.

use toml::{Table, Value};

use super::{File, Problem};
use crate::packages::folder_of;

/// Floors (layers), lowest first. A crate depends only on floors below its own.
const FLOORS: &[&[&str]] = &[
    &["vocab", "bursar-macros"],
    &["mech-cpu", "mech-fiber", "mech-sync", "mech-process", "policy-cpu", "policy-jobs", "policy-flow"],
    &["policy-admission"],
    &["sched-tasks"],
    &["sched-actors", "sched-islands", "sched-jobs", "sched-flow"],
    &["proof-sim", "sched-nats", "sched-slurm", "surface-text"],
    &["surface-janus"],
    &["bursar"],
    &[
        "surface-capi",
        "surface-flowfile",
        "surface-jobfile",
        "surface-journal",
        "surface-neighbours",
        "surface-policyfile",
        "surface-simfile",
    ],
    &["surface-cli"],
    // Above all, so that no crate can use it but in its tests.
    &["test-support"],
];

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|crates| crates.contains(&name))
}

/// Reads the manifest of every crate.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let shared = files
        .iter()
        .find(|file| file.path == "Cargo.toml")
        .and_then(|file| file.text.parse::<Table>().ok())
        .and_then(|manifest| manifest.get("workspace")?.get("dependencies")?.as_table().cloned())
        .unwrap_or_default();
    let manifests = files.iter().filter(|file| matches!(file.in_crate(), Some((_, "Cargo.toml"))));
    manifests.flat_map(|file| check_manifest(file, &shared)).collect()
}

fn check_manifest(file: &File, shared: &Table) -> Vec<Problem> {
    let manifest: Table = match file.text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![format!("{}: {error}", file.path)],
    };
    let Some(name) = manifest.get("package").and_then(|package| package.get("name")?.as_str()) else {
        return vec![format!("{} names no package", file.path)];
    };
    let name = folder_of(name);
    let Some(own) = floor(name) else {
        return vec![format!("{name} is on no floor; give it one in FLOORS of xtask/src/tidy/floors.rs")];
    };
    let problem = |used: String| {
        let other = floor(&used)?;
        (other >= own).then(|| format!("{name} (floor {own}) uses {used} (floor {other})"))
    };
    dependencies(&manifest, shared).into_iter().filter_map(problem).collect()
}

/// The crates used outside tests, on any platform: ours by their folders, others by their real names.
fn dependencies(manifest: &Table, shared: &Table) -> Vec<String> {
    let platforms = manifest.get("target").and_then(Value::as_table);
    let tables = platforms.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    let mut found = Vec::new();
    for table in tables.chain([manifest]) {
        for kind in ["dependencies", "build-dependencies"] {
            let entries = table.get(kind).and_then(Value::as_table);
            for (key, entry) in entries.into_iter().flatten() {
                let renamed = |entry: &Value| Some(entry.get("package")?.as_str()?.to_owned());
                let name = renamed(entry).or_else(|| renamed(shared.get(key)?));
                found.push(folder_of(name.as_deref().unwrap_or(key)).to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(name: &str, rest: &str) -> Vec<Problem> {
        let text = format!("[package]\nname = \"{name}\"\n{rest}");
        check(&[File::new(&format!("crates/{name}/Cargo.toml"), &text)])
    }

    #[test]
    fn a_crate_may_look_down() {
        let rest = "[dependencies]\nvocab.workspace = true\nserde = \"1\"\n";
        assert_eq!(problems_of("mech-sync", rest), [""; 0]);
    }

    #[test]
    fn a_crate_may_not_use_its_neighbour() {
        assert_eq!(
            problems_of("policy-cpu", "[dependencies]\nmech-sync.workspace = true\n"),
            ["policy-cpu (floor 1) uses mech-sync (floor 1)"]
        );
    }

    #[test]
    fn a_crate_may_not_look_up() {
        assert_eq!(
            problems_of("vocab", "[build-dependencies]\nbursar = { path = \"../bursar\" }\n"),
            ["vocab (floor 0) uses bursar (floor 7)"]
        );
    }

    #[test]
    fn a_platform_or_another_name_hides_nothing() {
        let rest = "[target.'cfg(unix)'.dependencies]\nfiber = { package = \"mech-fiber\" }\n";
        assert_eq!(problems_of("mech-sync", rest), ["mech-sync (floor 1) uses mech-fiber (floor 1)"]);
        let root = "[workspace.dependencies]\nfiber = { package = \"mech-fiber\", path = \"x\" }\n";
        let manifest = "[package]\nname = \"vocab\"\n[dependencies]\nfiber.workspace = true\n";
        let files = [File::new("Cargo.toml", root), File::new("crates/vocab/Cargo.toml", manifest)];
        assert_eq!(check(&files), ["vocab (floor 0) uses mech-fiber (floor 1)"]);
    }

    #[test]
    fn a_test_may_look_up() {
        assert_eq!(problems_of("vocab", "[dev-dependencies]\nbursar.workspace = true\n"), [""; 0]);
    }

    #[test]
    fn what_tests_share_is_used_by_tests_alone() {
        assert_eq!(problems_of("vocab", "[dev-dependencies]\ntest-support.workspace = true\n"), [""; 0]);
        assert_eq!(
            problems_of("surface-cli", "[dependencies]\ntest-support.workspace = true\n"),
            ["surface-cli (floor 9) uses test-support (floor 10)"]
        );
    }

    #[test]
    fn a_crate_without_a_floor_is_an_error() {
        let problems = problems_of("mech-magic", "");
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("mech-magic is on no floor"), "{problems:?}");
    }

    #[test]
    fn a_manifest_that_does_not_parse_is_an_error() {
        assert_eq!(check(&[File::new("crates/vocab/Cargo.toml", "[package")]).len(), 1);
        assert_eq!(check(&[File::new("crates/vocab/Cargo.toml", "")]).len(), 1);
    }
}
