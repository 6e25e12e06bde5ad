//! Links of the pages lead to files, and the book has every page.

use std::collections::BTreeSet;

use super::{File, Problem};

/// The contents of the book, with links from `docs/`.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Looks up what the pages link to; pages are the `.md` files of the root and of `docs/`.
pub(super) fn check(files: &[File]) -> Vec<Problem> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let is_there =
        |path: &str| paths.contains(path) || paths.iter().any(|known| known.starts_with(&format!("{path}/")));
    let is_page = |path: &str| path.ends_with(".md") && path.strip_prefix("docs/").unwrap_or(path).find('/').is_none();
    let mut problems = Vec::new();
    for page in files.iter().filter(|file| is_page(&file.path)) {
        for link in local_links(&page.path, &page.text) {
            if !is_there(&link) {
                problems.push(format!("{} links to `{link}`, which is not there", page.path));
            }
        }
    }
    if let Some(summary) = files.iter().find(|file| file.path == SUMMARY) {
        let listed = local_links(SUMMARY, &summary.text);
        for path in paths.iter().filter(|path| path.starts_with("docs/") && is_page(path) && **path != SUMMARY) {
            if !listed.iter().any(|link| link == path) {
                problems.push(format!("{SUMMARY} does not list {path}"));
            }
        }
    }
    problems
}

/// What a page links to inside the repository, from its root. Code is not looked at.
pub(crate) fn local_links(page: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            let targets = prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
            found.extend(targets.filter_map(|target| from_root(page, target)));
        }
    }
    found
}

/// `../README.md#start`, in a page of `docs/`, as `README.md`; `None` of an address, or of a place in the page itself.
fn from_root(page: &str, target: &str) -> Option<String> {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() || path.contains("://") {
        return None;
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_in_prose_and_not_in_code() {
        let text = "See [a](a.md), [`b`](../b.md#x), ![c](c.svg), [d](https://x.y/d.md), [e](#e) and `f[1](f.md)`.\n\
                    ```\n[g](g.md)\n```\n";
        assert_eq!(local_links("docs/p.md", text), ["docs/a.md", "b.md", "docs/c.svg"]);
    }

    #[test]
    fn a_link_to_nothing_is_named() {
        let files = |target: &str| {
            [
                File::new("README.md", &format!("[x]({target})\n")),
                File::new("docs/a.md", ""),
                File::new("crates/x/a.rs", ""),
            ]
        };
        assert_eq!(check(&files("docs/a.md")), [""; 0]);
        assert_eq!(check(&files("crates/x")), [""; 0], "a folder");
        assert_eq!(check(&files("docs/b.md")), ["README.md links to `docs/b.md`, which is not there"]);
    }

    #[test]
    fn a_page_that_the_book_forgets_is_named() {
        let files = [File::new(SUMMARY, "- [A](a.md)\n"), File::new("docs/a.md", ""), File::new("docs/b.md", "")];
        assert_eq!(check(&files), ["docs/SUMMARY.md does not list docs/b.md"]);
    }
}
