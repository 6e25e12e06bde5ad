//! Files and tests that the prose names exist.
//!
//! Prose is every comment of a `.rs` file, and the pages that PAGES lists. Two kinds of names count:
//!
//! - a file with a folder before it. It may be given from the root, from the crate, from the
//!   crate's `src`, or from the file that names it;
//! - a function in backticks, in a paragraph after the words *Checked by*.
//!
//! A file of another project is written with that project's name first, as FOREIGN lists
//! them, or as a link.

use std::collections::BTreeSet;

use super::lexer::lines;
use super::{File, Problem};

const FOREIGN: &[&str] = &[
    "async-executor",
    "async-task",
    "corosensei",
    "crossbeam",
    "embassy",
    "go",
    "hubris",
    "hyper",
    "linux",
    "may",
    "rayon",
    "seL4",
    "std",
    "tokio",
];

/// Pages about the code.
const PAGES: &[&str] = &["ARCHITECTURE.md", "docs/internals.md"];

const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".c", ".h", ".sh"];

/// A line of prose and its number.
struct Prose {
    line: usize,
    text: String,
}

/// Looks up every file and test that the prose names.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let functions: BTreeSet<String> =
        files.iter().filter(|file| file.path.ends_with(".rs")).flat_map(|file| functions(&file.text)).collect();
    let mut problems = Vec::new();
    for file in files {
        let prose = prose(file);
        for Prose { line, text } in &prose {
            for quoted in paths_in(text) {
                if !exists(quoted, &file.path, &paths) {
                    problems.push(format!("{}:{line} names `{quoted}`, no such file", file.path));
                }
            }
        }
        for (line, name) in checks_in(&prose) {
            if !functions.contains(&name) {
                problems.push(format!("{}:{line} names `{name}`, no such test", file.path));
            }
        }
    }
    problems
}

fn prose(file: &File) -> Vec<Prose> {
    let numbered = |(index, text)| Prose { line: index + 1, text };
    if PAGES.contains(&file.path.as_str()) {
        return file.text.lines().map(str::to_owned).enumerate().map(numbered).collect();
    }
    if !file.path.ends_with(".rs") {
        return Vec::new();
    }
    // `///` and `//!` leave one more character of the marker.
    let comment = |comment: String| comment.trim_start_matches(['/', '!']).to_owned();
    lines(&file.text).into_iter().map(|line| comment(line.comment)).enumerate().map(numbered).collect()
}

/// Words that are a file with a folder before it.
fn paths_in(text: &str) -> Vec<&str> {
    let part_of_path = |c: char| c.is_ascii_alphanumeric() || "_./-:".contains(c);
    text.split(|c: char| !part_of_path(c))
        .map(|word| word.trim_end_matches(['.', ':']))
        .filter(|word| !word.contains(':')) // a link, or a line number
        .filter(|word| word.contains('/') && !word.starts_with('/'))
        .filter(|word| !word.contains("./") && !word.starts_with('.'))
        .filter(|word| ENDINGS.iter().any(|ending| word.ends_with(ending)))
        .filter(|word| !FOREIGN.iter().any(|name| word.split('/').next() == Some(name)))
        .collect()
}

fn exists(quoted: &str, from: &str, paths: &BTreeSet<&str>) -> bool {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut bases = vec![String::new(), format!("{folder}/")];
    let package: Vec<_> = from.split('/').collect();
    let package = match package.as_slice() {
        ["crates", name, ..] => format!("crates/{name}/"),
        [name, _, ..] => format!("{name}/"),
        _ => String::new(),
    };
    bases.push(format!("{package}src/"));
    bases.push(package);
    bases.iter().any(|base| paths.contains(format!("{base}{quoted}").as_str()))
}

/// Names in backticks between *Checked by* and the end of the paragraph.
fn checks_in(prose: &[Prose]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for Prose { line, text } in prose {
        let mut text = text.as_str();
        if text.trim().is_empty() {
            inside = false;
        }
        if !inside {
            let Some(at) = text.find("Checked by") else {
                continue;
            };
            text = &text[at..];
            inside = true;
        }
        let quoted = text.split('`').skip(1).step_by(2);
        let last = quoted.map(|name| name.rsplit("::").next().unwrap_or(name));
        found.extend(last.filter(|name| is_test_name(name)).map(|name| (*line, name.to_owned())));
    }
    found
}

/// A sentence in snake case; a single word could be anything.
fn is_test_name(name: &str) -> bool {
    name.contains('_') && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The names of all functions that a file defines.
pub(super) fn functions(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in lines(text) {
        let mut words = line.code.split(|c: char| !c.is_alphanumeric() && c != '_');
        while let Some(word) = words.next() {
            if word == "fn" {
                found.extend(words.next().map(str::to_owned));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems_of(comment: &str) -> Vec<Problem> {
        check(&[
            File::new("crates/mech-sync/src/park.rs", comment),
            File::new("crates/mech-sync/src/idle/sleepers.rs", ""),
            File::new("crates/mech-sync/tests/loom.rs", "fn no_wakeup_is_lost() {}\n"),
        ])
    }

    #[test]
    fn a_file_that_is_there_may_be_named_from_near_or_far() {
        let near = "//! See `tests/loom.rs`, idle/sleepers.rs and `src/idle/sleepers.rs`.\n";
        assert_eq!(problems_of(near), [""; 0]);
        assert_eq!(problems_of("// crates/mech-sync/tests/loom.rs: all of it.\n"), [""; 0]);
    }

    #[test]
    fn a_file_that_is_gone_is_named_with_its_place() {
        assert_eq!(
            problems_of("\n/// As in `tests/shuttle.rs`.\n"),
            ["crates/mech-sync/src/park.rs:2 names `tests/shuttle.rs`, no such file"]
        );
    }

    #[test]
    fn what_is_no_file_of_ours_is_left_alone() {
        let comment = "\
// [tokio/src/task/state.rs], https://example.org/a/b.rs, /proc/self/x.rs, src/*.rs, and/or.
let path = \"src/gone.rs\";
";
        assert_eq!(problems_of(comment), [""; 0]);
    }

    #[test]
    fn a_test_that_is_gone_is_named_with_its_place() {
        let comment = "\
//! Checked by `tests/loom.rs`; removing either fence
//! fails `no_wakeup_is_lost` and `no_sleeper_wakes_twice`.
//!
//! Uses `wait_for_ever`, in another paragraph.
";
        assert_eq!(
            problems_of(comment),
            ["crates/mech-sync/src/park.rs:2 names `no_sleeper_wakes_twice`, no such test"]
        );
    }

    #[test]
    fn a_test_may_be_named_with_its_module() {
        assert_eq!(problems_of("// Checked by `loom::no_wakeup_is_lost`.\n"), [""; 0]);
        assert_eq!(problems_of("// Checked by `loom::no_such_test`.\n").len(), 1);
    }

    #[test]
    fn pages_about_the_code_are_prose_from_end_to_end() {
        let page = "The house.\n`crates/gone/src/lib.rs`\n\nChecked by `a_ghost`.\n";
        for path in PAGES {
            assert_eq!(
                check(&[File::new(path, page)]),
                [
                    format!("{path}:2 names `crates/gone/src/lib.rs`, no such file"),
                    format!("{path}:4 names `a_ghost`, no such test"),
                ]
            );
        }
    }
}
