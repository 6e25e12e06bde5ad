//! A hash of what a job reads: it changes when any of it does.
//!
//! Room: driver.
//!
//! It reads the disk, and writes nothing.
//!
//! # Invariant
//! Two hashes of the same job are equal only if, as far as names, sizes and times show, it reads the same: its inputs, the files that a pattern matches now, everything in folders
//! among them, and what the jobs made that it needs.
//!
//! # Why not times alone
//! A file that was changed while the job read it is older than the output. So is one that was moved here with its old time. One that was removed has none.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fresh::matches;
use crate::plan::{Plan, texts};
use vocab::Fnv1a;

/// Limit for entries of folders.
const ENTRIES_MAX: usize = 100_000;

impl Plan {
    /// A hash of what the job at this index of `jobs` reads, as it is on the disk now. Its own outputs do not count.
    ///
    /// ```
    /// let text = "[job.a]\nrun = 'true'\ninputs = ['no such file']";
    /// let plan = surface_jobfile::parse("x.toml", text)?;
    /// assert_eq!(plan.sources_hash(0), plan.sources_hash(0));
    /// # Ok::<(), surface_jobfile::Problems>(())
    /// ```
    pub fn sources_hash(&self, job: usize) -> u64 {
        let job = &self.jobs[job];
        let own: HashSet<PathBuf> = job.output_paths(&self.base).into_iter().collect();
        let mut hash = SourceHash { hash: Fnv1a::new(), own: &own, left: ENTRIES_MAX };
        let folder = job.folder(&self.base);
        for input in &job.inputs {
            let files = matches(&folder, input).unwrap_or_default();
            hash.hash.write(&files.len().to_le_bytes());
            files.iter().for_each(|file| hash.at(file));
        }
        for need in &job.needs {
            self.jobs[*need].output_paths(&self.base).iter().for_each(|file| hash.at(file));
        }
        hash.hash.finish()
    }
}

struct SourceHash<'a> {
    hash: Fnv1a,
    own: &'a HashSet<PathBuf>,
    left: usize,
}

impl SourceHash<'_> {
    fn at(&mut self, path: &Path) {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        if self.own.contains(&absolute) {
            return;
        }
        texts(&mut self.hash, "path", [&*absolute.to_string_lossy()]);
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => self.folder(&absolute),
            Ok(found) => self.file(&found),
            Err(_) => self.hash.write(b"missing"),
        }
    }

    fn file(&mut self, found: &Metadata) {
        for part in [found.size() as i64, found.mtime(), found.mtime_nsec()] {
            self.hash.write(&part.to_le_bytes());
        }
    }

    /// Links in it are not followed: one may lead back here.
    fn folder(&mut self, folder: &Path) {
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.pop() {
            let mut entries: Vec<_> = fs::read_dir(&folder).into_iter().flatten().flatten().collect();
            entries.sort_by_key(fs::DirEntry::file_name);
            for entry in entries {
                let path = entry.path();
                if self.left == 0 || self.own.contains(&path) {
                    continue;
                }
                self.left -= 1;
                self.hash.write(path.as_os_str().as_bytes());
                match entry.metadata() {
                    Ok(found) if found.is_dir() => open.push(path),
                    Ok(found) => self.file(&found),
                    Err(_) => self.hash.write(b"missing"),
                }
            }
        }
    }
}
