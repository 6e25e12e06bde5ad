//! Old words do not come back: one word for one thing, and it is the field's word.
//!
//! Each entry of `WORDS` names the old forms, where they count, and the word to use. A text is cut into words at spaces, punctuation, underscores and
//! capital letters, so `FlowDesk`, `flow_desk` and `desk.rs` all have the word *desk*, and *recommend* does not have the word *mend*.
//!
//! # Rejected
//! Regular expressions: one more dependency, and a pattern that is easy to write too wide. Ordinary English (*home*, *place*, *ring*, *stock*) is not listed,
//! or only as the name of a type.

use super::lexer::lines;
use super::{File, Problem};

/// Where an old form counts.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Anywhere: names, comments, messages, pages. Lower case; words of a phrase are separated by a space.
    Word,
    /// As a capitalised word of a name, in code or between backticks. Not at the start of a sentence.
    Type,
    /// As it is written, in code.
    Code,
}

/// Words that are not used any more.
struct Entry {
    kind: Kind,
    old: &'static [&'static str],
    /// Folders in which it counts; everywhere if empty.
    only_in: &'static [&'static str],
    /// What to write, and where that is not plain, why.
    new: &'static str,
}

const fn word(old: &'static [&'static str], new: &'static str) -> Entry {
    Entry { kind: Kind::Word, old, only_in: &[], new }
}

const fn type_name(old: &'static [&'static str], new: &'static str) -> Entry {
    Entry { kind: Kind::Type, old, only_in: &[], new }
}

const fn code(old: &'static [&'static str], new: &'static str) -> Entry {
    Entry { kind: Kind::Code, old, only_in: &[], new }
}

const WORDS: &[Entry] = &[
    // Metaphors that cost a lookup.
    word(&["seat", "seats", "seated"], "waiter"),
    word(&["ticket", "tickets"], "token, or a handle of a job"),
    word(&["kick", "kicks", "kicked", "kicking"], "interrupt"),
    word(&["dues"], "pending ends"),
    word(&["burial", "burials", "buried", "bury", "buries"], "overflow cleanup"),
    word(&["vigil", "vigils"], "arming"),
    word(&["agenda", "agendas"], "batch claim"),
    type_name(&["Stock"], "permit cache"),
    word(&["crew", "crews"], "worker set"),
    word(&["nameplate", "nameplates"], "name slot"),
    type_name(&["Sight"], "view"),
    word(&["trunk", "trunks"], "worker's own stack"),
    word(&["purse", "purses"], "worker cache"),
    word(&["hall", "halls"], "event loop"),
    word(&["desk", "desks"], "attempt; of a flow, flow controller"),
    word(&["berth", "berths"], "socket guard"),
    word(&["steward", "stewards"], "signal handler"),
    type_name(&["House"], "run resolver"),
    word(&["errand", "errands"], "request or task"),
    word(&["treasury", "treasurer", "treasurers"], "budget supervisor"),
    word(&["undertaker", "undertakers"], "cleanup"),
    word(&["custody"], "ownership"),
    type_name(&["Told"], "report, notice, outcome or event"),
    code(&["fn tell(", ".tell("], "report or emit"),
    code(
        &["struct Place", "enum Place", "type Place"],
        "Location, Position, Slot or Dir; eight types had this one name",
    ),
    type_name(&["Mind"], "core: the decisions and their state"),
    code(&["fn mind(", ".mind("], "check"),
    word(&["heed", "heeds", "heeded", "heeding"], "check"),
    code(&["fn attend(", ".attend("], "check"),
    Entry {
        kind: Kind::Type,
        old: &["Ledger", "Book", "Page"],
        only_in: &["crates/surface-neighbours/"],
        new: "shared budget: file, table, entry; a ledger is that of capabilities",
    },
    Entry {
        kind: Kind::Word,
        old: &["keeper", "keepers"],
        only_in: &["crates/sched-actors/", "crates/sched-flow/"],
        new: "supervisor loop, owner or registry; a keeper is the process above one command",
    },
    // Priorities, waking, work stealing.
    word(&["urgent", "patient"], "high, low"),
    word(&["patience"], "timeout, limit or interval"),
    word(&["bell", "bells"], "notifier; between processes, wakeup socket"),
    word(&["rung"], "notified or unparked"),
    code(&["fn ring(", ".ring("], "notify or unpark"),
    word(&["robs", "robbed", "robbing"], "steals"),
    // What users read.
    word(&["mend", "mends", "mended", "mending"], "fix"),
    word(&["going on"], "running; if it begins again, continuing"),
    word(&["which is the most"], "the limit"),
    word(&["felled", "felling"], "kill"),
    code(&["fn fell(", ".fell("], "kill"),
    word(&["whoever", "somebody", "anybody", "nobody"], "the subject: the caller, a worker, no task"),
    word(&["canceled", "canceling", "cancelation"], "cancelled, cancelling, cancellation: British spelling"),
];

/// Old forms that files of earlier versions have, and that are still read: a file, and the form.
const STILL_READ: &[(&str, &str)] =
    &[("crates/policy-jobs/src/state.rs", "canceled"), ("crates/surface-journal/src/rows.rs", "canceled")];

/// This list has to spell what it forbids.
const SELF: &str = "xtask/src/tidy/words.rs";

/// Finds old words in the path and the text of every `.rs` and `.md` file.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    files.iter().flat_map(problems_of).collect()
}

fn problems_of(file: &File) -> Vec<Problem> {
    let is_rust = file.path.ends_with(".rs");
    if file.path == SELF || !(is_rust || file.path.ends_with(".md")) {
        return Vec::new();
    }
    let all = format!("{}\n{}", file.path, file.text).to_lowercase();
    let may_be_there = |old: &str| old.split(' ').all(|word| all.contains(&word.to_lowercase()));
    // Most files have none of them: looking at words costs more than looking for letters.
    let entries: Vec<&Entry> = WORDS
        .iter()
        .filter(|entry| entry.only_in.is_empty() || entry.only_in.iter().any(|folder| file.path.starts_with(folder)))
        .filter(|entry| entry.old.iter().any(|old| may_be_there(old)))
        .collect();
    if entries.is_empty() {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (old, new) in found(&file.path, "", "", &entries) {
        problems.push(format!("{} is named `{old}`; the word is: {new}", file.path));
    }
    let taken_apart = if is_rust { lines(&file.text) } else { Vec::new() };
    for (index, text) in file.text.lines().enumerate() {
        let (code, prose) = match taken_apart.get(index) {
            Some(line) => (line.code.as_str(), line.comment.as_str()),
            None => ("", text),
        };
        for (old, new) in found(text, code, &quoted(prose), &entries) {
            if STILL_READ.contains(&(file.path.as_str(), old)) {
                continue;
            }
            problems.push(format!("{}:{} says `{old}`; the word is: {new}", file.path, index + 1));
        }
    }
    problems
}

/// The old forms in a line: `text` is all of it, `code` its code, `quoted` what stands between backticks.
fn found(text: &str, code: &str, quoted: &str, entries: &[&'static Entry]) -> Vec<(&'static str, &'static str)> {
    let words = words_of(text);
    let names: Vec<Word> = words_of(code).into_iter().chain(words_of(quoted)).collect();
    let mut found = Vec::new();
    for entry in entries {
        for old in entry.old {
            let is_there = match entry.kind {
                Kind::Word => has_phrase(&words, old),
                Kind::Type => names.iter().any(|word| word.text == *old),
                Kind::Code => has_code(code, old),
            };
            if is_there {
                found.push((*old, entry.new));
            }
        }
    }
    found
}

/// `.ring(` and `fn ring(` as they are written; `struct Place` not before a letter.
fn has_code(code: &str, old: &str) -> bool {
    code.match_indices(old).any(|(at, _)| {
        let after = code[at + old.len()..].chars().next();
        old.ends_with('(') || !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// What stands between backticks.
fn quoted(prose: &str) -> String {
    prose.split('`').skip(1).step_by(2).collect::<Vec<_>>().join(" ")
}

/// A word of a text or of a name, as it is written.
#[derive(Debug, PartialEq)]
struct Word<'a> {
    text: &'a str,
    /// It follows the word before after nothing, a space, a hyphen or an underscore.
    is_joined: bool,
}

/// Cuts at everything that is no letter or digit, and before capital letters.
fn words_of(text: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word> = Vec::new();
    let mut end_before = 0;
    let mut start = None;
    let mut push = |from: usize, to: usize| {
        let gap = &text[end_before..from];
        words.push(Word { text: &text[from..to], is_joined: matches!(gap, "" | " " | "-" | "_") });
        end_before = to;
    };
    let mut before = ' ';
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        let next = rest.peek().map_or(' ', |(_, next)| *next);
        if let Some(from) = start {
            // `fooBar` is cut before `B`, and so is `FOOBar`; `FOO` is not cut.
            let is_cut = c.is_uppercase() && (before.is_lowercase() || before.is_uppercase() && next.is_lowercase());
            if !c.is_alphanumeric() || is_cut {
                push(from, at);
                start = c.is_alphanumeric().then_some(at);
            }
        } else if c.is_alphanumeric() {
            start = Some(at);
        }
        before = c;
    }
    if let Some(from) = start {
        push(from, text.len());
    }
    words
}

fn has_phrase(words: &[Word], phrase: &str) -> bool {
    let wanted: Vec<&str> = phrase.split(' ').collect();
    words.windows(wanted.len()).any(|window| {
        window[1..].iter().all(|word| word.is_joined)
            && window.iter().zip(&wanted).all(|(word, wanted)| word.text.eq_ignore_ascii_case(wanted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<Problem> {
        check(&[File::new(path, text)])
    }

    #[test]
    fn every_old_word_is_found_where_it_is_planted_and_the_new_one_is_named() {
        for entry in WORDS {
            for old in entry.old {
                let folder = entry.only_in.first().copied().unwrap_or("crates/x/");
                let text = match entry.kind {
                    Kind::Word => format!("fn f() {{}} // Here is {old}, as it was.\n"),
                    Kind::Type => format!("use crate::{old};\n"),
                    Kind::Code => format!("{old} x;\n"),
                };
                let problems = problems(&format!("{folder}src/lib.rs"), &text);
                let expected = format!("{folder}src/lib.rs:1 says `{old}`; the word is: {}", entry.new);
                assert!(problems.contains(&expected), "{text}: {problems:?}");
            }
        }
    }

    #[test]
    fn a_word_is_found_inside_a_name_in_a_message_in_a_page_and_in_a_path() {
        for text in
            ["struct FlowDesk;", "fn at_the_desk() {}", "const DESK_MAX: u8 = 1;", "f(\"no desk\")", "/// A desk."]
        {
            assert_eq!(problems("crates/x/src/a.rs", text).len(), 1, "{text}");
        }
        assert_eq!(problems("README.md", "Runs are going on.\n").len(), 1);
        assert_eq!(
            problems("crates/x/src/desk.rs", ""),
            ["crates/x/src/desk.rs is named `desk`; the word is: attempt; of a flow, flow controller"]
        );
    }

    #[test]
    fn ordinary_english_and_the_words_of_the_glossary_pass() {
        for text in [
            "/// The user's home folder; a place in the queue; a ring buffer; stock nodes.\n",
            "/// It fell asleep. I recommend to keep that in mind. A hallmark, a doorbell.\n",
            "/// House of cards. Told twice. Mind the order. Place it there. Sight unseen.\n",
            "/// A keeper is the process above a command; it is ongoing. Going, on the other hand.\n",
            "struct Placement; fn telling() {} fn fell_asleep() {}\n",
        ] {
            assert_eq!(problems("crates/mech-process/src/a.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_type_is_found_in_code_and_between_backticks() {
        assert_eq!(problems("crates/x/src/a.rs", "let a = RunHouse::new();\n").len(), 1);
        assert_eq!(problems("ARCHITECTURE.md", "The `House` knows.\n").len(), 1);
        assert_eq!(problems("ARCHITECTURE.md", "House rules.\n"), [""; 0]);
    }

    #[test]
    fn a_word_may_be_old_in_one_crate_and_right_in_another() {
        assert_eq!(problems("crates/sched-actors/src/a.rs", "// the keeper\n").len(), 1);
        assert_eq!(problems("crates/mech-process/src/a.rs", "// the keeper\n"), [""; 0]);
        assert_eq!(problems("crates/surface-neighbours/src/a.rs", "struct Ledger;\n").len(), 1);
        assert_eq!(problems("crates/policy-admission/src/a.rs", "struct Ledger;\n"), [""; 0]);
    }

    #[test]
    fn other_files_are_not_read() {
        assert_eq!(problems("Cargo.lock", "name = \"desk\"\n"), [""; 0]);
        assert_eq!(problems(SELF, "// desk\n"), [""; 0]);
    }

    #[test]
    fn words_are_cut_at_underscores_and_capitals() {
        let texts: Vec<_> = words_of("FlowDesk at_HTTPServer, x2").into_iter().map(|word| word.text).collect();
        assert_eq!(texts, ["Flow", "Desk", "at", "HTTP", "Server", "x2"]);
    }
}
