//! Between the modules of a crate imports go one way: of any two, one is above the other, or they do not know each other.
//!
//! # Invariant
//! The modules below the root of a crate form no circle of imports. A circle that stands since before this rule is named in [`UNCUT`]; that list only shrinks.
//!
//! # What counts
//! Every path that begins at the root of the crate (`crate::`, or as many `super::` as lead there), in code that is not a test's. What the root exports again is an import of
//! the module that has it. Modules within modules are a matter of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer;
use super::{File, Problem};

/// Circles that are not cut yet: a crate, and modules of it that may import each other.
const UNCUT: &[(&str, &[&str])] =
    &[("sched-tasks", &["authority", "budget", "drive", "nursery", "options", "raw", "scope", "strand", "wait"])];

/// A module, and which others it imports, each with a file that does so.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

pub(super) fn check(files: &[File]) -> Vec<Problem> {
    check_but_for(files, UNCUT)
}

fn check_but_for(files: &[File], uncut: &[(&str, &[&str])]) -> Vec<Problem> {
    let mut crates: BTreeMap<&str, Vec<Source<'_>>> = BTreeMap::new();
    for file in files {
        if let Some((name, rest)) = file.in_crate()
            && let Some(source) = Source::of(file, rest)
        {
            crates.entry(name).or_default().push(source);
        }
    }
    let mut problems = Vec::new();
    for (name, sources) in crates {
        let allowed = uncut.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, modules)| modules);
        let imports = imports(&sources);
        let mut idle: BTreeSet<&str> = allowed.iter().copied().collect();
        for circle in circles(&imports) {
            idle.retain(|module| !circle.contains(*module));
            if !circle.iter().all(|module| allowed.contains(&module.as_str())) {
                problems.push(describe(name, &circle, &imports));
            }
        }
        for module in idle {
            problems.push(format!(
                "{name}: `{module}` is in no circle any more; take it out of UNCUT in xtask/src/tidy/rooms.rs"
            ));
        }
    }
    problems
}

fn describe(name: &str, circle: &BTreeSet<String>, imports: &Imports) -> Problem {
    let mut ways = Vec::new();
    for from in circle {
        for (to, file) in imports[from].iter().filter(|(to, _)| circle.contains(*to)) {
            ways.push(format!("  {from} uses {to} in {file}"));
        }
    }
    let modules: Vec<&str> = circle.iter().map(String::as_str).collect();
    format!("{name}: {} import each other in a circle:\n{}", modules.join(", "), ways.join("\n"))
}

/// A file of a crate.
struct Source<'a> {
    path: &'a str,
    /// The module below the root; none for the root itself.
    module: Option<&'a str>,
    /// How many `super::` lead to the root.
    depth: usize,
    /// Without comments, texts and tests.
    code: String,
}

impl<'a> Source<'a> {
    fn of(file: &'a File, rest: &'a str) -> Option<Source<'a>> {
        let inner = rest.strip_prefix("src/")?.strip_suffix(".rs")?;
        let parts: Vec<&str> = inner.split('/').collect();
        if parts[0] == "bin" || parts.contains(&"tests") {
            return None;
        }
        let is_root = matches!(inner, "lib" | "main");
        let depth = parts.len() - usize::from(parts.last() == Some(&"mod"));
        let mut code = String::new();
        let mut is_test = false;
        for line in lexer::lines(&file.text) {
            // Tests stand at the end of a file.
            if is_test && line.code.trim_start().starts_with("mod ") {
                break;
            }
            is_test = line.code.contains("#[cfg(test)]");
            code.push_str(&line.code);
            code.push('\n');
        }
        Some(Source { path: &file.path, module: (!is_root).then_some(parts[0]), depth, code })
    }

    /// The first names of all paths that begin at the root.
    fn names(&self) -> Vec<&str> {
        let to_root = "super::".repeat(self.depth);
        let from_root = self.code.match_indices("crate::").map(|(at, found)| at + found.len());
        let from_here = self.code.match_indices(&to_root).map(|(at, found)| at + found.len());
        let from_here = from_here.filter(|at| {
            let before = &self.code[..at - to_root.len()];
            self.depth > 0 && !before.ends_with("super::") && !self.code[*at..].starts_with("super::")
        });
        from_root.chain(from_here).flat_map(|at| heads(&self.code[at..])).collect()
    }
}

/// The first names of a tree of imports: `a::b` has one, `{a::b, c::{d, e}}` two.
fn heads(tree: &str) -> Vec<&str> {
    let Some(list) = tree.strip_prefix('{') else { return name(tree).into_iter().collect() };
    let (mut found, mut depth, mut is_first) = (Vec::new(), 0_usize, true);
    for (at, next) in list.char_indices() {
        match next {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_first = true,
            next if is_first && !next.is_whitespace() => {
                is_first = false;
                found.extend(name(&list[at..]));
            }
            _ => {}
        }
    }
    found
}

fn name(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    Some(&text[..end]).filter(|name| !name.is_empty())
}

/// What the root exports again: a name, and the module that has it.
fn exports(root: &str, modules: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (at, _) in root.match_indices("use ") {
        let tree = root[at + 4..].split(';').next().unwrap_or_default();
        let tree = tree.trim_start_matches("crate::").trim_start_matches("self::");
        let Some(module) = name(tree).filter(|module| modules.contains(module)) else { continue };
        // Every word of the tree but the module: names, paths to them, and what they are renamed to.
        for word in tree[module.len()..].split(|c: char| !c.is_alphanumeric() && c != '_') {
            if !matches!(word, "" | "as" | "self") {
                found.insert(word.to_owned(), module.to_owned());
            }
        }
    }
    found
}

fn imports(sources: &[Source<'_>]) -> Imports {
    let modules: BTreeSet<&str> = sources.iter().filter_map(|source| source.module).collect();
    let roots = sources.iter().filter(|source| source.module.is_none());
    let exported: BTreeMap<String, String> = roots.flat_map(|root| exports(&root.code, &modules)).collect();
    let mut imports = Imports::new();
    for source in sources {
        let Some(module) = source.module else { continue };
        let known = imports.entry(module.to_owned()).or_default();
        for name in source.names() {
            let other = if modules.contains(name) { Some(name) } else { exported.get(name).map(String::as_str) };
            if let Some(other) = other.filter(|other| *other != module) {
                known.entry(other.to_owned()).or_insert_with(|| source.path.to_owned());
            }
        }
    }
    imports
}

/// Modules that reach each other, in groups of two or more.
fn circles(imports: &Imports) -> Vec<BTreeSet<String>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|module| (module.as_str(), reach(module, imports))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (module, theirs) in &reached {
        if !theirs.contains(module) || found.iter().any(|circle| circle.contains(*module)) {
            continue;
        }
        let circle = theirs.iter().filter(|other| reached.get(**other).is_some_and(|back| back.contains(module)));
        found.push(circle.map(ToString::to_string).collect());
    }
    found
}

/// All that a module imports, and what that imports, and so on.
fn reach<'a>(module: &str, imports: &'a Imports) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![module];
    while let Some(next) = open.pop() {
        for other in imports.get(next).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(other.as_str()) {
                open.push(other);
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three rooms, one above the other.
    fn house() -> Vec<File> {
        vec![
            File::new(
                "crates/x/src/lib.rs",
                "mod top;\nmod middle;\nmod base;\npub use middle::{Middle, deep::Deep as Low};\n",
            ),
            File::new("crates/x/src/top.rs", "use crate::{base::Base, middle::{Middle, deep}};\n"),
            File::new("crates/x/src/middle/mod.rs", "mod deep;\nuse super::base::Base;\n"),
            File::new("crates/x/src/middle/deep.rs", "use super::Middle;\nfn f() -> crate::base::Base { todo!() }\n"),
            File::new("crates/x/src/base.rs", "pub struct Base;\n"),
        ]
    }

    fn with(path: &str, text: &str) -> Vec<Problem> {
        let mut files = house();
        files.retain(|file| file.path != path);
        files.push(File::new(path, text));
        check_but_for(&files, &[])
    }

    #[test]
    fn rooms_that_look_down_are_fine() {
        assert_eq!(check_but_for(&house(), &[]), [""; 0]);
    }

    #[test]
    fn an_import_from_above_is_found_however_it_is_written() {
        for upward in [
            "use crate::middle::Middle;",
            "use crate::{middle::Middle};",
            "use crate::{\n    top,\n};",
            "use super::middle::deep;",
            "fn f(x: &crate::middle::Middle) {}",
            "use crate::Middle;",
            "use crate::{Low};",
        ] {
            let problems = with("crates/x/src/base.rs", upward);
            assert_eq!(problems.len(), 1, "{upward}");
            assert!(problems[0].contains("import each other in a circle"), "{problems:?}");
            assert!(problems[0].contains("base uses "), "{problems:?}");
        }
        let from_within = with("crates/x/src/middle/deep.rs", "use super::super::top::Top;");
        assert!(from_within[0].starts_with("x: middle, top import each other"), "{from_within:?}");
    }

    #[test]
    fn tests_comments_and_texts_import_nothing() {
        for innocent in [
            "// use crate::middle::Middle;\n",
            "const TEXT: &str = \"crate::middle\";\n",
            "#[cfg(test)]\nmod tests {\n    use crate::middle::Middle;\n}\n",
        ] {
            assert_eq!(with("crates/x/src/base.rs", innocent), [""; 0], "{innocent}");
        }
        assert_eq!(with("crates/x/src/base/tests.rs", "use crate::middle::Middle;"), [""; 0]);
        assert_eq!(with("crates/x/tests/it/main.rs", "use crate::middle::Middle;"), [""; 0]);
    }

    #[test]
    fn a_circle_that_is_known_may_not_grow_and_must_go_when_it_is_cut() {
        let mut files = house();
        files[4] = File::new("crates/x/src/base.rs", "use crate::middle::Middle;");
        assert_eq!(check_but_for(&files, &[("x", &["base", "middle"])]), [""; 0]);
        files[4] = File::new("crates/x/src/base.rs", "use crate::top::Top;");
        assert_eq!(check_but_for(&files, &[("x", &["base", "middle"])]).len(), 1);
        let problems = check_but_for(&house(), &[("x", &["base", "middle"])]);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].contains("`base` is in no circle any more"), "{problems:?}");
    }
}
