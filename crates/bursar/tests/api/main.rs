//! The public interface of the crate is `docs/api.txt`: a change of it is seen where changes are read, and none is an accident.
//!
//! The listing is made from the sources: the `pub use` lists of the facade, and the items that they name. It has all features, whichever are chosen.

mod listing;
mod sources;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use listing::Names;
use sources::Sources;

const HEAD: &str = "\
The public interface of the crate `bursar`, with all its features.
Made from the sources by `UPDATE_API=1 cargo test -p bursar --test api`; a change of it belongs into CHANGELOG.md.
";

/// So many names at the root are enough for a first day.
const ROOT_NAMES_MAX: usize = 40;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn public(sources: &Sources) -> Names {
    let mut names = Names::new();
    listing::names(sources, &vec!["bursar".to_owned()], "bursar", &mut names);
    names.remove("bursar::prelude"); // names of the root once more
    names
}

#[test]
fn the_public_interface_is_the_one_that_is_written_down() {
    let sources = Sources::read(&crates());
    let found = HEAD.to_owned() + &listing::listing(&sources, &public(&sources));
    let file = crates().join("../docs/api.txt");
    if std::env::var_os("UPDATE_API").is_some() {
        fs::write(&file, found).unwrap();
        return;
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    let difference = difference(&written, &found);
    assert!(
        difference.is_empty(),
        "the public interface is not what docs/api.txt says:\n{difference}\n\
         If that is meant, say so in CHANGELOG.md and run `UPDATE_API=1 cargo test -p bursar --test api`.\n"
    );
}

/// Lines that only one of the two has, in order; each with the name that it stands below.
fn difference(written: &str, found: &str) -> String {
    let lines = |text: &str| -> Vec<String> {
        let (mut module, mut name) = ("", "");
        let mut lines = Vec::new();
        for line in text.lines() {
            match line.len() - line.trim_start().len() {
                0 => (module, name) = (line, ""),
                2 => name = line.trim(),
                _ => {}
            }
            lines.push(format!("{module} / {name} / {}", line.trim()));
        }
        lines
    };
    let (written, found) = (lines(written), lines(found));
    let only = |these: &[String], those: &[String], sign: &str| -> String {
        let those: std::collections::HashSet<_> = those.iter().collect();
        these.iter().filter(|line| !those.contains(line)).map(|line| format!("{sign} {line}\n")).collect()
    };
    only(&written, &found, "-") + &only(&found, &written, "+")
}

#[test]
fn a_difference_is_shown_line_by_line() {
    let (old, new) = ("bursar\n  fn a()\n  fn b()\n", "bursar\n  fn a()\n  fn b(x: u8)\n");
    assert_eq!(difference(old, old), "");
    assert_eq!(difference(old, new), "- bursar / fn b() / fn b()\n+ bursar / fn b(x: u8) / fn b(x: u8)\n");
}

#[test]
fn a_name_of_the_root_means_nothing_else_in_a_module() {
    let sources = Sources::read(&crates());
    let names = public(&sources);
    let mut twice = Vec::new();
    // These channels have ends like any other, and are called by their modules.
    let channels = ["bursar::sync::broadcast", "bursar::sync::oneshot", "bursar::sync::watch"];
    for (module, others) in
        names.iter().filter(|(module, _)| *module != "bursar" && !channels.contains(&module.as_str()))
    {
        twice.extend(
            others.keys().filter(|name| names["bursar"].contains_key(*name)).map(|name| format!("{module}::{name}")),
        );
    }
    assert!(twice.is_empty(), "these are at the root, too: {twice:?}");
    // And whatever there is has one place.
    let mut places: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for (module, names) in &names {
        for (name, defs) in names {
            for def in defs.iter().filter(|def| !matches!(sources.item(def), Some(syn::Item::Macro(_)))) {
                places.entry((&def.module, def.item)).or_default().push(format!("{module}::{name}"));
            }
        }
    }
    let several: Vec<_> = places.values().filter(|places| places.len() > 1).collect();
    assert!(several.is_empty(), "these are the same: {several:?}");
}

#[test]
fn the_root_has_what_a_first_day_needs_and_no_more() {
    let names = public(&Sources::read(&crates()));
    let root: Vec<_> = names["bursar"].keys().collect();
    assert!(root.len() <= ROOT_NAMES_MAX, "{} names at the root: {root:?}", root.len());
    for name in ["nursery", "Task", "run", "channel", "select", "sleep", "explore", "budgeted", "fiber_local"] {
        assert!(names["bursar"].contains_key(name), "no `{name}` at the root");
    }
}
