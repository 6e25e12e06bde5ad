//! Canonical names of files: two spellings of one path are one name.
//!
//! Room: driver.
//!
//! Reads links of folders on the disk, if it may.
//!
//! # Invariant
//! Two paths whose folders exist have one name exactly if they lead to the same entry of the same folder. Where a folder does not exist yet, paths
//! are compared as they are written, without `.`, `..` and doubled `/`.
//!
//! # Cost
//! One system call for each folder that files are in.

use std::collections::HashMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Names files of one job file.
pub(crate) struct Paths<'a> {
    base: &'a Path,
    /// The same, absolute: as it is written, and without links.
    written: PathBuf,
    real: PathBuf,
    may_look: bool,
    /// Folders as they are written, and where they lead.
    folders: HashMap<PathBuf, Option<PathBuf>>,
}

impl<'a> Paths<'a> {
    /// For a file in the folder `base`.
    pub(crate) fn new(base: &'a Path, may_look: bool) -> Self {
        let written = if base.as_os_str().is_empty() { std::env::current_dir() } else { std::path::absolute(base) };
        // Where the current directory is not known, relative paths are compared with each other.
        let written = plain(&written.unwrap_or_else(|_| Path::new("/").join(base)));
        let real = if may_look { fs::canonicalize(&written).ok() } else { None };
        Self { base, real: real.unwrap_or_else(|| written.clone()), written, may_look, folders: HashMap::new() }
    }

    /// The folder of the job file, as it was given.
    pub(crate) fn base(&self) -> &'a Path {
        self.base
    }

    /// The name of a file, or of what a glob means: from the folder of the job file if it is below that, else absolute.
    pub(crate) fn name(&mut self, cwd: Option<&Path>, file: &str) -> String {
        let file = Path::new(file);
        // A glob has no folder beyond its first sign.
        let literal: PathBuf = file.components().take_while(|part| !is_glob(part)).collect();
        let has_glob = literal.components().count() < file.components().count();
        let (folder, rest) = match (has_glob, literal.parent(), literal.file_name()) {
            (false, Some(folder), Some(_)) => {
                (folder, file.components().next_back().map(|part| Path::new(part.as_os_str()).to_owned()))
            }
            _ => (literal.as_path(), Some(file.components().skip(literal.components().count()).collect())),
        };
        let rest = rest.unwrap_or_default();
        let folder = self.written.join(cwd.unwrap_or(Path::new(""))).join(folder);
        let path = match self.real_folder(&folder) {
            Some(real) => real.join(rest),
            None => plain(&folder.join(rest)),
        };
        let inside = path.strip_prefix(&self.real).or_else(|_| path.strip_prefix(&self.written)).unwrap_or(&path);
        inside.to_string_lossy().into_owned()
    }

    fn real_folder(&mut self, folder: &Path) -> Option<PathBuf> {
        if !self.may_look {
            return None;
        }
        if let Some(known) = self.folders.get(folder) {
            return known.clone();
        }
        let real = fs::canonicalize(folder).ok();
        self.folders.insert(folder.to_owned(), real.clone());
        real
    }
}

fn is_glob(part: &Component<'_>) -> bool {
    part.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
}

/// A path without `.`, and without the `..` that lead nowhere.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            Component::ParentDir if plain.has_root() => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_mean_the_same_have_one_name() {
        for may_look in [false, true] {
            let mut paths = Paths::new(Path::new("/no/such"), may_look);
            let mut name = |cwd: Option<&str>, file: &str| paths.name(cwd.map(Path::new), file);
            assert_eq!(name(None, "./a//b/../c"), "a/c");
            assert_eq!(name(None, "a"), "a");
            assert_eq!(name(None, "/no/such/a"), "a");
            assert_eq!(name(None, "/no/./such/x/../a"), "a");
            assert_eq!(name(Some("sub"), "../a"), "a");
            assert_eq!(name(Some("sub"), "../../a"), "/no/a");
            assert_eq!(name(Some("sub"), "/x/./y"), "/x/y");
            assert_eq!(name(None, "../../../../a"), "/a");
            assert_eq!(name(None, "sub/../img/*.png"), "img/*.png");
            assert_eq!(name(Some("img"), "*.png"), "img/*.png");
            assert_eq!(name(None, "/no/such/img/*/x?.png"), "img/*/x?.png");
            assert_eq!(name(None, "sub/.."), "");
        }
    }
}
