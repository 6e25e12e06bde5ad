//! The walks of `docs/internals.md` name what is there, and count it.
//!
//! A walk is a chapter (`## `) with rows `| step | file | what happens |`. The cell of the file names it from the root, with the functions that are read
//! there: `crates/x/src/a.rs::first`, `second`. Steps are numbered from 1; two in a row in one file are one step. A file is entered as often as it has steps.
//! Below its last row a walk says what [`Count`] says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::quotes::functions;
use super::{File, Problem};

const PAGE: &str = "docs/internals.md";

/// A row of a walk.
struct Step<'a> {
    line: usize,
    number: &'a str,
    file: &'a str,
    /// But for the first, which is written with the file.
    functions: Vec<&'a str>,
}

/// How often the files of a walk are entered.
struct Count(BTreeMap<String, usize>);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entered = |wanted: fn(usize) -> bool, shown: fn(&str, usize) -> String| {
            let files: Vec<_> =
                self.0.iter().filter(|(_, times)| wanted(**times)).map(|(file, times)| shown(file, *times)).collect();
            if files.is_empty() { "none".to_owned() } else { files.join(", ") }
        };
        writeln!(f, "- Count: {} steps in {} files.", self.0.values().sum::<usize>(), self.0.len())?;
        writeln!(f, "- Entered twice: {}.", entered(|times| times == 2, |file, _| format!("`{file}`")))?;
        write!(
            f,
            "- Entered more often: {}.",
            entered(|times| times > 2, |file, times| format!("`{file}` ({times} times)"))
        )
    }
}

/// Looks up every file and function of every walk, and counts them.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return Vec::new() };
    let known: BTreeMap<&str, &File> = files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut problems = Vec::new();
    for (line, file, function) in named(&page.text) {
        problems.extend(missing(file, &[function], line, &known));
    }
    for (line, chapter) in chapters(&page.text) {
        let steps = steps(&chapter, line);
        if steps.is_empty() {
            continue;
        }
        for (index, step) in steps.iter().enumerate() {
            if known.contains_key(step.file) {
                problems.extend(missing(step.file, &step.functions, step.line, &known)); // else it was told above
            }
            if step.number != (index + 1).to_string() {
                problems.push(format!("{PAGE}:{} is step {}, not {}", step.line, index + 1, step.number));
            }
            if index > 0 && steps[index - 1].file == step.file {
                problems.push(format!("{PAGE}:{} stays in {}: join it with the step before", step.line, step.file));
            }
        }
        let mut entered = BTreeMap::new();
        for step in &steps {
            *entered.entry(step.file.to_owned()).or_default() += 1;
        }
        let count = Count(entered).to_string();
        if !chapter.join("\n").contains(&count) {
            problems.push(format!("{PAGE}:{line} counts otherwise; below its last row should be:\n{count}"));
        }
    }
    problems
}

/// What is wrong with a file, or with functions that should be in it.
fn missing(file: &str, wanted: &[&str], line: usize, known: &BTreeMap<&str, &File>) -> Vec<Problem> {
    let Some(found) = known.get(file) else {
        return vec![format!("{PAGE}:{line} names `{file}`, no such file")];
    };
    let there: BTreeSet<String> = functions(&found.text).into_iter().collect();
    let gone = wanted.iter().filter(|function| !there.contains(**function));
    gone.map(|function| format!("{PAGE}:{line} names `{function}`, no such function in {file}")).collect()
}

/// Everything that is written `file.rs::function`, in rows and between them.
fn named(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        let quoted = line.split('`').skip(1).step_by(2);
        quoted.filter_map(move |name| located(name).map(|(file, function)| (index + 1, file, function)))
    })
}

fn located(name: &str) -> Option<(&str, &str)> {
    name.split_once("::").filter(|(file, _)| file.ends_with(".rs"))
}

/// The lines of each chapter, and the number of its first.
fn chapters(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut found: Vec<(usize, Vec<&str>)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("## ") || found.is_empty() {
            found.push((index + 1, Vec::new()));
        }
        found.last_mut().expect("one was just pushed").1.push(line);
    }
    found
}

fn steps<'a>(chapter: &[&'a str], first: usize) -> Vec<Step<'a>> {
    let step = |(index, row): (usize, &&'a str)| {
        let mut cells = row.strip_prefix('|')?.split('|').map(str::trim);
        let (number, file) = (cells.next()?, cells.next()?);
        let mut names = file.split('`').skip(1).step_by(2);
        let (file, _) = located(names.next()?)?;
        Some(Step { line: first + index, number, file, functions: names.collect() })
    };
    chapter.iter().enumerate().filter_map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: &str =
        "- Count: 3 steps in 2 files.\n- Entered twice: `crates/a/src/lib.rs`.\n- Entered more often: none.\n";

    fn problems_of(rows: &str, count: &str) -> Vec<Problem> {
        let page = format!("# How\n\n## A task\n\n| step | file | what |\n|---|---|---|\n{rows}\n{count}");
        check(&[
            File::new(PAGE, &page),
            File::new("crates/a/src/lib.rs", "fn spawn() {}\nfn join() {}\n"),
            File::new("crates/a/src/queue.rs", "impl Queue { fn push(&self) {} }\n"),
        ])
    }

    const ROWS: &str = "\
| 1 | `crates/a/src/lib.rs::spawn` | |
| 2 | `crates/a/src/queue.rs::push` | |
| 3 | `crates/a/src/lib.rs::join`, `spawn` | |
";

    #[test]
    fn a_walk_that_names_what_is_there_and_counts_it_is_right() {
        assert_eq!(problems_of(ROWS, COUNT), [""; 0]);
    }

    #[test]
    fn a_function_that_is_gone_is_named_with_its_place_in_rows_and_between_them() {
        let rows = ROWS.replace("`spawn` |", "`gone` |");
        assert_eq!(
            problems_of(&rows, COUNT),
            ["docs/internals.md:9 names `gone`, no such function in crates/a/src/lib.rs"]
        );
        let aside = format!("{COUNT}\nSee `crates/a/src/queue.rs::pop`.\n");
        assert_eq!(
            problems_of(ROWS, &aside),
            ["docs/internals.md:15 names `pop`, no such function in crates/a/src/queue.rs"]
        );
    }

    #[test]
    fn a_file_that_is_gone_is_named_with_its_place() {
        let aside = format!("{COUNT}\nSee `crates/a/src/gone.rs::pop`.\n");
        assert_eq!(problems_of(ROWS, &aside), ["docs/internals.md:15 names `crates/a/src/gone.rs`, no such file"]);
    }

    #[test]
    fn a_walk_that_counts_otherwise_is_told_what_to_say() {
        let problems = problems_of(ROWS, "- Count: 3 steps in 3 files.\n");
        assert_eq!(problems.len(), 1);
        assert!(problems[0].ends_with(COUNT.trim_end()), "{problems:?}");
    }

    #[test]
    fn a_file_with_three_steps_is_entered_more_often_than_twice() {
        let rows = format!("{ROWS}| 4 | `crates/a/src/queue.rs::push` | |\n| 5 | `crates/a/src/lib.rs::join` | |\n");
        let count = "- Count: 5 steps in 2 files.\n- Entered twice: `crates/a/src/queue.rs`.\n\
                     - Entered more often: `crates/a/src/lib.rs` (3 times).\n";
        assert_eq!(problems_of(&rows, count), [""; 0]);
    }

    #[test]
    fn steps_are_numbered_and_leave_their_file() {
        let rows = ROWS.replace("| 3 |", "| 4 |");
        assert_eq!(problems_of(&rows, COUNT), ["docs/internals.md:9 is step 3, not 4"]);
        let rows = "| 1 | `crates/a/src/lib.rs::spawn` | |\n| 2 | `crates/a/src/lib.rs::join` | |\n";
        let count =
            "- Count: 2 steps in 1 files.\n- Entered twice: `crates/a/src/lib.rs`.\n- Entered more often: none.\n";
        assert_eq!(
            problems_of(rows, count),
            ["docs/internals.md:8 stays in crates/a/src/lib.rs: join it with the step before"]
        );
    }
}
