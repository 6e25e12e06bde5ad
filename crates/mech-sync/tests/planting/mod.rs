//! Breaks the code of a crate on purpose, to see its models fail. Crates on floors above use this file by its path.
//!
//! A planted bug is an `or_planted!` in the source: a fence left out, an ordering weakened, a second look dropped. A deadlock
//! that loom finds aborts the process, so every model runs in one of its own.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Output},
};

/// Runs the models whose names are given (all, if none is), with the bug of that name planted.
fn run_models(planted: &str, models: &[&str]) -> Output {
    Command::new(env!("CARGO"))
        .args(["test", "--release", "--package", env!("CARGO_PKG_NAME"), "--test", "loom", "--", "--exact"])
        .args(models)
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("loom"))
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", "2")
        .env("RUST_BACKTRACE", "0")
        .env("PLANTED", planted)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs")
}

/// Checks that each bug of `planted`, a name and a model, fails that model, and that no model fails without.
pub(crate) fn check_that_each_fails(planted: &[(&str, &str)]) {
    let sound = run_models("nothing", &[]);
    let told = String::from_utf8_lossy(&sound.stdout);
    assert!(sound.status.success(), "the models fail with no bug planted:\n{told}");
    let mut unnoticed = Vec::new();
    for (bug, model) in planted {
        assert!(told.contains(&format!("test {model} ... ok")), "no such model: {model}");
        let caught = !run_models(bug, &[model]).status.success();
        println!("{bug:<26} {} {model}", if caught { "fails" } else { "does not fail" });
        if !caught {
            unnoticed.push(bug);
        }
    }
    assert!(
        unnoticed.is_empty(),
        "planted and not noticed: {unnoticed:?}; replay: `PLANTED=NAME` with the loom command"
    );
}

/// Checks that `planted` names every bug that the sources of the crate can be given, and no other.
pub(crate) fn check_that_all_are_listed(planted: &[(&str, &str)]) {
    let mut in_source = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for file in fs::read_dir(folder).expect("the crate has sources") {
            let path = file.expect("a file").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(path).expect("a source is text");
            for place in text.split("or_planted!(").skip(1) {
                let name = place.split('"').nth(1).expect("a planted bug has a name");
                if !name.contains('$') {
                    in_source.insert(name.to_owned());
                }
            }
        }
    }
    let listed: BTreeSet<_> = planted.iter().map(|(bug, _)| (*bug).to_owned()).collect();
    assert_eq!(in_source, listed);
}
