//! Every file of a crate says in its opening comment which room it belongs to.
//!
//! The line is `//! Room: R.`, with R one of `ROOMS`, and it is the first line of the second paragraph. It may go on with what the file knows, and what it
//! knows nothing of.

use super::{File, Problem};

/// The rooms, and what is in them.
const ROOMS: &[(&str, &str)] = &[
    ("values", "plain data, errors, ids"),
    ("state", "an enum and the function that moves it"),
    ("decisions", "pure functions, no clock, no thread"),
    ("mechanism", "registers, raw pointers, orderings, system calls"),
    ("driver", "effects: threads, clocks, processes, files, sockets"),
    ("interface", "what users call"),
    ("surface", "parses, prints, serialises"),
    ("tests", "test-only modules"),
];

/// Looks at every `.rs` file below `crates/*/src`.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    files
        .iter()
        .filter(|file| file.path.ends_with(".rs"))
        .filter(|file| file.in_crate().is_some_and(|(_, rest)| rest.starts_with("src/")))
        .filter_map(|file| Some(format!("{} {}", file.path, wrong(&file.text)?)))
        .collect()
}

/// What is wrong with the opening comment.
fn wrong(text: &str) -> Option<String> {
    let opening: Vec<&str> =
        text.lines().map_while(|line| line.strip_prefix("//!")).map(|line| line.trim_start_matches(' ')).collect();
    if opening.is_empty() {
        return Some("does not open with a `//!` comment; say in a sentence what it is".to_owned());
    }
    let Some(at) = opening.iter().position(|line| line.starts_with("Room:")) else {
        return Some("names no room; write `//! Room: R.` as the second paragraph of its opening comment".to_owned());
    };
    let second = opening.iter().position(|line| line.is_empty()).map(|blank| blank + 1);
    if second != Some(at) {
        return Some("names its room somewhere else than in the first line of the second paragraph".to_owned());
    }
    let line = opening[at].strip_prefix("Room: ").unwrap_or_default();
    let (room, rest) = line.split_once('.').unwrap_or((line, "?"));
    if !ROOMS.iter().any(|(name, _)| *name == room) {
        let rooms: Vec<_> = ROOMS.iter().map(|(name, about)| format!("{name} ({about})")).collect();
        return Some(format!("names a room `{room}`; there are: {}", rooms.join(", ")));
    }
    let is_right = rest.is_empty() || rest.starts_with(" Knows ");
    (!is_right).then(|| format!("says `Room: {line}`; after the room comes nothing, or `Knows …; knows nothing of ….`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<Problem> {
        check(&[File::new("crates/x/src/a.rs", text)])
    }

    #[test]
    fn each_room_is_allowed_alone_and_with_what_it_knows() {
        for (room, _) in ROOMS {
            assert_eq!(problems(&format!("//! A file.\n//!\n//! Room: {room}.\n\nuse std;\n")), [""; 0]);
            let more = "Knows threads; knows nothing of tasks.";
            assert_eq!(problems(&format!("//! A file.\n//! It is long.\n//!\n//! Room: {room}. {more}\n")), [""; 0]);
        }
    }

    #[test]
    fn a_file_without_a_room_is_named_with_what_it_lacks() {
        assert!(problems("use std;\n")[0].starts_with("crates/x/src/a.rs does not open with a `//!` comment"));
        assert!(problems("//! A file.\n\n//! Room: values.\n")[0].contains("names no room"));
        assert!(problems("//! Room: values.\n//!\n//! A file.\n")[0].contains("somewhere else"));
        assert!(
            problems("//! A file.\n//!\n//! It does this.\n//!\n//! Room: values.\n")[0].contains("somewhere else")
        );
    }

    #[test]
    fn a_room_that_is_not_there_or_is_written_otherwise_is_refused() {
        assert!(
            problems("//! A file.\n//!\n//! Room: kitchen.\n")[0].contains("names a room `kitchen`; there are: values")
        );
        assert_eq!(problems("//! A file.\n//!\n//! Room: values\n").len(), 1);
        assert_eq!(problems("//! A file.\n//!\n//! Room: values, and more.\n").len(), 1);
        assert!(
            problems("//! A file.\n//!\n//! Room: values. And more.\n")[0].contains("after the room comes nothing")
        );
    }

    #[test]
    fn tests_benches_and_the_tools_have_no_rooms() {
        for path in ["crates/x/tests/it/main.rs", "crates/x/benches/a.rs", "xtask/src/main.rs", "crates/x/src/costs.md"]
        {
            assert_eq!(check(&[File::new(path, "fn f() {}\n")]), [""; 0]);
        }
    }
}
