//! Whether a job's outputs are there and newer than what it reads.
//!
//! Room: driver.
//!
//! Beside `src/lib.rs`, `src/foreach.rs`, `src/files.rs` and `src/paths.rs` the only file that reads the disk, and it only reads.
//!
//! # Invariant
//! In doubt a job is stale: a missing input, a clock that cannot be read or a glob without a match never make it fresh.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::plan::Job;

/// Whether a job needs to run again. A changed command is not seen here: compare [`Job::fingerprint`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// Every output is there, and none is older than the newest input.
    Fresh,
    /// It has to run, and why.
    Stale(String),
    /// It declares no outputs: only its caller knows.
    Undeclared,
}

impl Job {
    /// Compares its outputs with its inputs on the disk; `base` is [`Plan::base`](crate::Plan::base).
    ///
    /// ```
    /// use surface_jobfile::{Action, Freshness, Job};
    /// let mut job = Job::new("film", Action::Argv(vec!["true".into()]));
    /// assert_eq!(job.up_to_date(".".as_ref()), Freshness::Undeclared);
    /// job.outputs = vec!["no-such-film.mp4".into()];
    /// assert_eq!(job.up_to_date(".".as_ref()), Freshness::Stale("output no-such-film.mp4 is missing".into()));
    /// ```
    pub fn up_to_date(&self, base: &Path) -> Freshness {
        if self.outputs.is_empty() {
            return Freshness::Undeclared;
        }
        match stale(self, &self.folder(base)) {
            None => Freshness::Fresh,
            Some(reason) => Freshness::Stale(reason),
        }
    }
}

fn stale(job: &Job, folder: &Path) -> Option<String> {
    let mut oldest: Option<(SystemTime, &str)> = None;
    for output in &job.outputs {
        let Some(time) = changed(&folder.join(output)) else { return Some(format!("output {output} is missing")) };
        if oldest.is_none_or(|(least, _)| time < least) {
            oldest = Some((time, output));
        }
    }
    let (written, output) = oldest?;
    for input in &job.inputs {
        let files = match matches(folder, input) {
            Ok(files) if files.is_empty() => return Some(format!("no file matches input {input}")),
            Ok(files) => files,
            Err(why) => return Some(format!("input {input}: {why}")),
        };
        for file in files {
            match changed(&file) {
                None => return Some(format!("input {input} is missing")),
                Some(time) if time > written => {
                    let file = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
                    return Some(format!("output {output} is older than input {file}"));
                }
                Some(_) => {}
            }
        }
    }
    None
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).ok()?.modified().ok()
}

/// A file whose name is not UTF-8 and that a pattern would match if it were, in a folder of the pattern.
pub(crate) fn unreadable_name(folder: &Path, pattern: &str) -> Option<PathBuf> {
    let parts: Vec<&str> = pattern.split('/').collect();
    let sign = |part: &&str| part.contains(['*', '?', '[']);
    for (at, part) in parts.iter().enumerate().filter(|(_, part)| sign(part)) {
        let Ok(fits) = glob::Pattern::new(part) else { continue };
        let above = parts[..at].join("/");
        // `a/**` means all folders in `a`, and `a` itself.
        let mut folders = match (above.as_str(), at) {
            ("", 0) => vec![folder.to_owned()],
            ("", _) => vec![PathBuf::from("/")],
            (above, _) => matches(folder, above).unwrap_or_default(),
        };
        if *part == "**" {
            folders.extend(matches(folder, &parts[..=at].join("/")).unwrap_or_default());
        }
        for entry in folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten() {
            let name = entry.file_name();
            let is_meant = || *part != "**" || entry.file_type().is_ok_and(|kind| kind.is_dir());
            if name.to_str().is_none() && fits.matches(&name.to_string_lossy()) && is_meant() {
                return Some(entry.path());
            }
        }
    }
    None
}

/// The files that a pattern matches, sorted; a path without `*`, `?` or `[`, or one that exists, matches itself.
pub(crate) fn matches(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let itself = folder.join(pattern);
    if !pattern.contains(['*', '?', '[']) || itself.exists() {
        return Ok(vec![itself]);
    }
    let Some(folder_text) = folder.to_str() else {
        return Err(format!("folder {} has a name that is not UTF-8", folder.display()));
    };
    let full = if Path::new(pattern).is_absolute() || folder_text.is_empty() {
        pattern.to_owned()
    } else {
        format!("{}/{pattern}", glob::Pattern::escape(folder_text))
    };
    let found = glob::glob(&full).map_err(|error| format!("the glob is not valid: {}", error.msg))?;
    // A folder that may not be read has no matches in it.
    let mut files: Vec<PathBuf> = found.filter_map(Result::ok).collect();
    files.sort();
    Ok(files)
}
