//! `cargo xtask book`: the first page and the guides as a book.
//!
//! The pages are copied into a folder that is laid out as the repository, with all files they link to, so a link works in the book as it works there. Only
//! the contents, `docs/SUMMARY.md`, are rewritten: mdbook wants them in the upper folder.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use crate::dist::copy;
use crate::tidy::local_links;
use crate::tools::{Tool, at, output};
use crate::{USAGE, root, target_dir};

/// Without what serves and watches.
const MDBOOK: Tool = Tool { name: "mdbook", options: &["--no-default-features", "--features", "search"] };

const SUMMARY: &str = "docs/SUMMARY.md";

/// `cargo xtask book`
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    if let Some(arg) = args.first() {
        eprintln!("xtask: `book` takes no arguments, got {arg:?}\n{USAGE}");
        return ExitCode::from(2);
    }
    match make() {
        Ok(pages) => {
            println!("{pages} pages; open {}", target_dir().join("book/index.html").display());
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Builds it; how many pages it has.
fn make() -> Result<usize, String> {
    let mdbook = MDBOOK.path()?;
    let (stage, book) = (target_dir().join("book-src"), target_dir().join("book"));
    let _ = fs::remove_dir_all(&stage);
    let path = root().join(SUMMARY);
    let summary = fs::read_to_string(&path).map_err(at(&path))?;
    let pages: BTreeSet<String> = local_links(SUMMARY, &summary).into_iter().collect();
    for page in &pages {
        let path = root().join(page);
        copy(&path, &stage.join(page))?;
        for linked in local_links(page, &fs::read_to_string(&path).map_err(at(&path))?) {
            // A page that is no chapter, or a folder, has no place in the book.
            if !linked.ends_with(".md") && root().join(&linked).is_file() {
                copy(&root().join(&linked), &stage.join(&linked))?;
            }
        }
    }
    fs::write(stage.join("SUMMARY.md"), upper(&summary)).map_err(at(&stage))?;
    copy(&root().join("docs/book.toml"), &stage.join("book.toml"))?;
    let said = output(Command::new(mdbook).arg("build").arg(&stage).arg("--dest-dir").arg(&book))?;
    print!("{said}");
    let missing: Vec<_> = pages.iter().filter(|page| !is_built(&book, page)).map(String::as_str).collect();
    match missing.is_empty() {
        true => Ok(pages.len()),
        false => Err(format!("mdbook left out {}", missing.join(", "))),
    }
}

/// Whether there is HTML of this page. That of a `README.md` is an `index.html`.
fn is_built(book: &Path, page: &str) -> bool {
    let name = page.strip_suffix(".md").unwrap_or(page);
    book.join(format!("{name}.html")).exists() || name.ends_with("README") && book.join("index.html").exists()
}

/// The contents as they are read from the root.
fn upper(summary: &str) -> String {
    let line = |line: &str| match line.split_once("](") {
        Some((title, target)) => match target.strip_prefix("../") {
            Some(target) => format!("{title}]({target}\n"),
            None => format!("{title}](docs/{target}\n"),
        },
        None => format!("{line}\n"),
    };
    summary.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_are_rewritten_for_the_upper_folder() {
        let summary = "# Book\n\n[First](../README.md)\n\n- [Jobs](jobs.md)\n---\n";
        assert_eq!(upper(summary), "# Book\n\n[First](README.md)\n\n- [Jobs](docs/jobs.md)\n---\n");
    }

    #[test]
    fn the_book_has_guides_internals_and_references() {
        let summary = fs::read_to_string(root().join(SUMMARY)).expect("it is there");
        let pages = local_links(SUMMARY, &summary);
        for page in ["jobs", "flow", "tasks", "tenants", "determinism", "internals", "jobfile", "flowfile", "events"] {
            assert!(pages.contains(&format!("docs/{page}.md")), "{page}: {pages:?}");
        }
        assert_eq!(pages[0], "README.md", "it begins with the first page");
    }
}
