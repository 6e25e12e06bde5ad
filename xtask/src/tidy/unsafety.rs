//! `unsafe` stands where a reviewer looks for it, and nowhere else.

use super::lexer::lines;
use super::{File, Problem};

/// Mechanism, the C interface, and machine code that Janus makes: they deal with raw memory and foreign calls.
const MAY_BE_UNSAFE: &[&str] =
    &["mech-cpu", "mech-fiber", "mech-sync", "mech-process", "surface-capi", "surface-janus", "sched-tasks"];

/// Crates that may be unsafe, but in one folder only, and in files called `raw.rs`: a file for each invariant, and no other file is read for it.
const IN_ONE_FOLDER: &[(&str, &str)] =
    &[("sched-tasks", "src/raw/"), ("mech-process", "src/raw/"), ("surface-janus", "src/native/raw.rs")];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// Looks at the first file of every crate, and at every file of the crates in between.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    files.iter().flat_map(|file| opens_forbidding(file).into_iter().chain(in_one_folder(file))).collect()
}

/// A crate's first file forbids it, so that the compiler watches over all the others.
fn opens_forbidding(file: &File) -> Option<Problem> {
    let (name, rest) = match file.path.strip_prefix("xtask/") {
        Some(rest) => ("xtask", rest),
        None => file.in_crate()?,
    };
    let is_root = matches!(rest, "src/lib.rs" | "src/main.rs")
        || rest.strip_prefix("src/bin/").is_some_and(|bin| !bin.contains('/'));
    if !is_root || MAY_BE_UNSAFE.contains(&name) {
        return None;
    }
    let forbids = lines(&file.text).iter().any(|line| line.code.trim() == FORBID);
    (!forbids).then(|| format!("{} does not open with `{FORBID}`", file.path))
}

/// One problem for each file, with the first line: the fix is to move the code, not to edit a line.
fn in_one_folder(file: &File) -> Option<Problem> {
    let (name, rest) = file.in_crate()?;
    let (_, only) = IN_ONE_FOLDER.iter().find(|(one, _)| *one == name)?;
    if !rest.starts_with("src/") || !rest.ends_with(".rs") || rest.starts_with(only) || rest.ends_with("/raw.rs") {
        return None;
    }
    let lines = lines(&file.text);
    let mut places = lines.iter().zip(1..).filter(|(line, _)| has_word(&line.code, "unsafe"));
    let (_, first) = places.next()?;
    let more = match places.count() {
        0 => String::new(),
        more => format!(", and {more} times more"),
    };
    Some(format!("{}:{first} says `unsafe`{more}; in {name} only {only} and files called `raw.rs` may", file.path))
}

fn has_word(code: &str, word: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_does_not_forbid_it_is_named() {
        let open = File::new("crates/vocab/src/lib.rs", "//! Nouns.\n// #![forbid(unsafe_code)]\n");
        assert_eq!(check(&[open]), ["crates/vocab/src/lib.rs does not open with `#![forbid(unsafe_code)]`"]);
        let closed = File::new("crates/vocab/src/lib.rs", "//! Nouns.\n#![forbid(unsafe_code)]\n");
        assert_eq!(check(&[closed]), [""; 0]);
        let main = File::new("crates/surface-cli/src/main.rs", "fn main() {}\n");
        assert_eq!(check(&[main]).len(), 1);
        let xtask = File::new("xtask/src/main.rs", "fn main() {}\n");
        assert_eq!(check(&[xtask]).len(), 1);
    }

    #[test]
    fn mechanism_may_be_unsafe_and_a_module_is_no_root() {
        let files = [
            File::new("crates/mech-fiber/src/lib.rs", "unsafe fn f() {}\n"),
            File::new("crates/vocab/src/time.rs", "fn f() {}\n"),
        ];
        assert_eq!(check(&files), [""; 0]);
    }

    #[test]
    fn the_task_scheduler_is_unsafe_in_one_folder() {
        let text = "// unsafe in a comment\n#![deny(unsafe_code)]\nfn f() { unsafe { g() } }\n";
        let files = [
            File::new("crates/sched-tasks/src/raw/task.rs", text),
            File::new("crates/sched-tasks/src/raw/mod.rs", text),
            File::new("crates/sched-tasks/src/nursery.rs", text),
        ];
        assert_eq!(
            check(&files),
            [
                "crates/sched-tasks/src/nursery.rs:3 says `unsafe`; in sched-tasks only src/raw/ and files called `raw.rs` may"
            ]
        );
        let twice = File::new("crates/sched-tasks/src/scope.rs", "unsafe fn f() {}\nunsafe fn g() {}\n");
        assert_eq!(
            check(&[twice]),
            [
                "crates/sched-tasks/src/scope.rs:1 says `unsafe`, and 1 times more; in sched-tasks only src/raw/ and files called `raw.rs` may"
            ]
        );
        let neighbour = File::new("crates/sched-tasks/src/raw_deal.rs", text);
        assert_eq!(check(&[neighbour]).len(), 1, "a name that only begins like the folder's is outside");
    }
}
