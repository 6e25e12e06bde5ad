//! Rules about any text: its length, and the machine it was written on.

use super::{File, Problem};

const LINES_MAX: usize = 600;

/// No file is longer than can be read in one go. A second invariant is a second file.
pub(super) fn length(files: &[File]) -> Vec<Problem> {
    // A history grows; that is its purpose.
    let counted = |path: &str| path.ends_with(".rs") || (path.ends_with(".md") && path != "CHANGELOG.md");
    files
        .iter()
        .filter(|file| counted(&file.path))
        .map(|file| (file, file.text.lines().count()))
        .filter(|(_, count)| *count > LINES_MAX)
        .map(|(file, count)| format!("{} has {count} lines, more than {LINES_MAX}; split it", file.path))
        .collect()
}

/// Folders of one machine. In pieces, or this file would break the rule.
const MACHINE_PATHS: &[&str] = &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tmp/", "wt")];

/// A path that exists on one machine is useless on another.
pub(super) fn machine_paths(files: &[File]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            for path in MACHINE_PATHS {
                if names(line, path) {
                    problems.push(format!("{}:{} names {path}", file.path, index + 1));
                }
            }
        }
    }
    problems
}

/// Whether an absolute path in `line` begins with `path`; `a/b` within a longer path does not.
fn names(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-})]>*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_be_as_long_as_the_limit_and_no_longer() {
        let fits = File::new("crates/vocab/src/lib.rs", &"\n".repeat(LINES_MAX));
        let long = File::new("crates/vocab/src/time.rs", &"\n".repeat(LINES_MAX + 1));
        let lock = File::new("Cargo.lock", &"\n".repeat(LINES_MAX + 1));
        assert_eq!(length(&[fits, long, lock]), ["crates/vocab/src/time.rs has 601 lines, more than 600; split it"]);
    }

    #[test]
    fn a_path_of_one_machine_is_found() {
        for path in MACHINE_PATHS {
            let bad = File::new("README.md", &format!("Fine.\nSee `{path}x`.\n"));
            assert_eq!(machine_paths(&[bad]), [format!("README.md:2 names {path}")]);
            let inside = File::new("README.md", &format!("See crates{path}x and ..{path}x.\n"));
            assert_eq!(machine_paths(&[inside]), [""; 0]);
        }
    }
}
