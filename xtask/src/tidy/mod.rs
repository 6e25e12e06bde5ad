//! The rules no compiler knows.
//!
//! # Invariant
//! A rule is a pure function from files to problems. Only this file reads the disk, so a
//! rule is tested by handing it a file that breaks it.

mod floors;
mod lexer;
mod links;
mod plain;
mod quotes;
mod room;
mod rooms;
mod unsafety;
mod walks;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(crate) use links::local_links;

/// A file of the project.
#[derive(Clone, Debug)]
pub(crate) struct File {
    /// From the root of the workspace, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    #[cfg(test)]
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// `crates/NAME/REST` as `(NAME, REST)`.
    pub(crate) fn in_crate(&self) -> Option<(&str, &str)> {
        self.path.strip_prefix("crates/")?.split_once('/')
    }
}

/// What is wrong, one sentence for a person.
pub(crate) type Problem = String;

type Rule = fn(&[File]) -> Vec<Problem>;

const RULES: &[(&str, Rule)] = &[
    ("floors", floors::check),
    ("rooms", rooms::check),
    ("unsafe", unsafety::check),
    ("quoted names", quotes::check),
    ("walks", walks::check),
    ("links", links::check),
    ("file length", plain::length),
    ("machine paths", plain::machine_paths),
];

/// The rules about words.
const STYLE_RULES: &[(&str, Rule)] = &[("words", words::check), ("room", room::check)];

/// The rules that hold.
fn rules() -> impl Iterator<Item = &'static (&'static str, Rule)> {
    RULES.iter().chain(STYLE_RULES)
}

/// Applies every rule to the project; `Err` lists the problems.
pub(crate) fn check(root: &Path) -> Result<String, String> {
    let files = read(root).map_err(|error| format!("tidy: cannot read the project: {error}"))?;
    if !files.iter().any(|file| file.path == "Cargo.toml") {
        return Err(format!("tidy: there is no project in {}", root.display()));
    }
    let mut problems = Vec::new();
    for (name, rule) in rules() {
        problems.extend(rule(&files).into_iter().map(|problem| format!("{name}: {problem}")));
    }
    match problems.len() {
        0 => Ok(format!("tidy: {} files keep {} rules", files.len(), rules().count())),
        count => Err(format!("{}\ntidy: {count} problems", problems.join("\n"))),
    }
}

/// What `STYLE_RULES` find, counted by crate; or, below `folder`, one by one.
pub(crate) fn style(root: &Path, folder: Option<&str>) -> Result<String, String> {
    let files = read(root).map_err(|error| format!("tidy: cannot read the project: {error}"))?;
    Ok(match folder {
        Some(folder) => style_problems(&files, folder),
        None => style_counts(&files),
    })
}

fn style_problems(files: &[File], folder: &str) -> String {
    let below: Vec<File> = files.iter().filter(|file| file.path.starts_with(folder)).cloned().collect();
    let found: Vec<_> = STYLE_RULES.iter().flat_map(|(_, rule)| rule(&below)).collect();
    format!("{}\n{} problems in {} files of {folder}", found.join("\n"), found.len(), below.len())
}

fn style_counts(files: &[File]) -> String {
    let mut counts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, (_, rule)) in STYLE_RULES.iter().enumerate() {
        for file in files {
            let owner = match file.in_crate() {
                Some((name, _)) => name,
                None => file.path.split_once('/').map_or(file.path.as_str(), |(folder, _)| folder),
            };
            let count = rule(std::slice::from_ref(file)).len();
            counts.entry(owner).or_insert_with(|| vec![0; STYLE_RULES.len()])[index] += count;
        }
    }
    counts.retain(|_, found| found.iter().any(|count| *count > 0));
    let row = |name: &str, cells: Vec<String>| {
        format!("{name:<20}{}\n", cells.iter().map(|cell| format!("{cell:>8}")).collect::<String>())
    };
    let mut text = row("", STYLE_RULES.iter().map(|(name, _)| (*name).to_owned()).collect());
    let mut sums = vec![0; STYLE_RULES.len()];
    for (name, found) in &counts {
        text += &row(name, found.iter().map(usize::to_string).collect());
        sums.iter_mut().zip(found).for_each(|(sum, count)| *sum += count);
    }
    text + row("all", sums.iter().map(usize::to_string).collect()).trim_end()
}

/// The text files of the project; what git ignores is not part of it.
fn read(root: &Path) -> std::io::Result<Vec<File>> {
    let mut paths = match git_files(root) {
        Some(paths) => paths,
        None => walk(root)?,
    };
    paths.sort();
    let read = |path: String| {
        // A file that is deleted but still in the index, or is no text, breaks no rule.
        let text = fs::read_to_string(root.join(&path)).ok()?;
        Some(File { path, text })
    };
    Ok(paths.into_iter().filter_map(read).collect())
}

/// What git tracks or would track; `None` where there is no git, as in an unpacked archive.
fn git_files(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let paths = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<_> = paths.split_terminator('\0').map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walk(root: &Path) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if entry.file_type()?.is_dir() {
                if name != "target" && name != ".git" {
                    folders.push(entry.path());
                }
            } else if let Ok(path) = entry.path().strip_prefix(root) {
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_is_tidy() {
        if let Err(problems) = check(&crate::root()) {
            panic!("\n{problems}");
        }
    }

    #[test]
    fn an_empty_folder_is_not_tidy_but_missing() {
        let nowhere = crate::root().join("xtask/src");
        let error = check(&nowhere).expect_err("there is no manifest");
        assert!(error.contains("there is no project"), "{error}");
    }

    #[test]
    fn problems_of_style_are_counted_by_crate_and_listed_by_folder() {
        let files = [
            File::new("crates/a/src/lib.rs", concat!("//! A de", "sk, a se", "at.\n")),
            File::new("crates/b/src/lib.rs", "//! B.\n//!\n//! Room: values.\n"),
            File::new("README.md", concat!("A de", "sk.\n")),
        ];
        let lines: Vec<Vec<String>> =
            style_counts(&files).lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
        assert_eq!(
            lines,
            [vec!["words", "room"], vec!["README.md", "1", "0"], vec!["a", "2", "1"], vec!["all", "3", "1"]]
        );
        let listed = style_problems(&files, "crates/a");
        assert!(listed.ends_with("3 problems in 1 files of crates/a"), "{listed}");
    }

    #[test]
    fn without_git_the_folders_are_walked() {
        let found = walk(&crate::root().join("xtask")).expect("it is there");
        assert!(found.contains(&"src/tidy/mod.rs".to_owned()), "{found:?}");
    }
}
