//! The marks folder.
//!
//! Room: driver. Knows files; knows nothing of Slurm.
//!
//! # Invariant
//! The permit of a key is made once, before its first submission, and never again.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::key::Key;
use crate::marks::{self, END, ENDED, OURSELVES, PERMIT, PROLOGUE, START, TAKEN};
use crate::script;

/// The folder, and the keys that were in it when it was opened.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// The greatest edition of each attempt that an earlier process of the run left.
    editions: HashMap<(u32, u32), u32>,
}

/// What an earlier process of the run left of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remains {
    /// It waits in the queue, or is not submitted yet.
    Waits,
    /// Its command has begun, and its end is not marked.
    Began,
    /// Its command has ended.
    Ended,
    /// It was given up before it began.
    Revoked,
}

/// An attempt that an earlier process of the run left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Which.
    pub key: Key,
    /// What of it.
    pub what: Remains,
    /// That process had asked it to end, and it did not end by itself first.
    pub was_cancelled: bool,
}

/// The mark of a request to end.
const CANCEL: &str = "cancel";

/// The mark of what Slurm was told to freeze.
const FROZEN: &str = "frozen";

/// What earlier processes of the run with this marks folder left: of each attempt the last edition, in the order of their keys.
///
/// # Errors
/// If the folder cannot be read. A folder that is not there has nothing in it.
pub fn left(folder: &Path) -> io::Result<Vec<Left>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found: HashMap<Key, (Option<Remains>, bool)> = HashMap::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some((key, rest)) = name.to_str().and_then(split) else { continue };
        let (what, was_cancelled) = found.entry(key).or_default();
        let new = match rest {
            END => Remains::Ended,
            rest if rest.starts_with(ENDED) => Remains::Ended,
            PERMIT => Remains::Waits,
            START => Remains::Began,
            CANCEL => {
                *was_cancelled = true;
                continue;
            }
            rest if rest.strip_prefix(TAKEN) == Some(OURSELVES) => Remains::Revoked,
            rest if rest.starts_with(TAKEN) => Remains::Began,
            _ => continue,
        };
        // The end is written while the marks before it are still there.
        if *what != Some(Remains::Ended) {
            *what = Some(new);
        }
    }
    let mut all: Vec<Left> = found
        .into_iter()
        .filter_map(|(key, (what, was_cancelled))| {
            let ended_itself = || read_end(folder, key).is_some_and(|end| end.code == 0 || !end.was_asked());
            let was_cancelled = was_cancelled && !(what == Some(Remains::Ended) && ended_itself());
            Some(Left { key, what: what?, was_cancelled })
        })
        .collect();
    all.sort_by_key(|left| left.key);
    all.dedup_by(|later, first| {
        let is_same = (later.key.job, later.key.attempt) == (first.key.job, first.key.attempt);
        if is_same {
            *first = *later;
        }
        is_same
    });
    Ok(all)
}

/// The mark of the end of an attempt, if there is one in this marks folder.
pub fn read_end(folder: &Path, key: Key) -> Option<marks::End> {
    let whole = fs::read_to_string(folder.join(format!("{key}.{END}"))).ok();
    whole.and_then(|text| marks::End::read(&text)).or_else(|| named_end(folder, key))
}

/// The mark of the end that is a name alone.
fn named_end(folder: &Path, key: Key) -> Option<marks::End> {
    fs::read_dir(folder).ok()?.filter_map(Result::ok).find_map(|entry| match split(entry.file_name().to_str()?) {
        Some((found, rest)) if found == key => marks::End::of_name(rest),
        _ => None,
    })
}

/// The key of a file's name, and the rest.
fn split(name: &str) -> Option<(Key, &str)> {
    let at = name.match_indices('.').nth(2)?.0;
    Some((name[..at].parse().ok()?, &name[at + 1..]))
}

impl Folder {
    /// Opens it, and makes it if it is missing. Its path becomes absolute.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        let path = fs::canonicalize(path)?;
        let mut editions = HashMap::new();
        for left in left(&path)? {
            editions.insert((left.key.job, left.key.attempt), left.key.edition);
        }
        let folder = Self { path, editions };
        // The same for all processes of the run. It is replaced as a whole: Slurm may read it now.
        let new = folder.path.join("array.sh.new");
        fs::write(&new, script::of_array(&folder.path))?;
        fs::rename(new, folder.array_script())?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The key of an attempt that this process begins.
    pub(crate) fn key(&self, job: u32, attempt: u32) -> Key {
        let edition = self.editions.get(&(job, attempt)).map_or(0, |last| last + 1);
        Key { job, attempt, edition }
    }

    fn file(&self, key: Key, ending: &str) -> PathBuf {
        self.path.join(format!("{key}.{ending}"))
    }

    pub(crate) fn script(&self, key: Key) -> PathBuf {
        self.file(key, "sh")
    }

    pub(crate) fn array_script(&self) -> PathBuf {
        self.path.join("array.sh")
    }

    /// Writes the permit and the script of an attempt. In this order: a script without a permit would look like one that has begun.
    pub(crate) fn prepare(&self, key: Key, script: &str) -> io::Result<()> {
        fs::File::create_new(self.file(key, PERMIT))?;
        let written = self.write_script(key, script);
        if written.is_err() {
            let _ = self.revoke(key); // without a script nothing takes the permit
        }
        written
    }

    /// Writes the script, or nothing.
    pub(crate) fn write_script(&self, key: Key, script: &str) -> io::Result<()> {
        let new = self.file(key, "sh.new");
        fs::write(&new, script)?;
        fs::rename(new, self.script(key))
    }

    /// Whether its command has not begun, and may.
    pub(crate) fn has_permit(&self, key: Key) -> bool {
        self.file(key, PERMIT).exists()
    }

    /// Takes the permit. `false`: a script has it.
    ///
    /// # Errors
    /// If it is not known who has it.
    pub(crate) fn revoke(&self, key: Key) -> io::Result<bool> {
        let taken = self.file(key, &format!("{TAKEN}{OURSELVES}"));
        let renamed = fs::rename(self.file(key, PERMIT), &taken);
        match (taken.try_exists()?, renamed) {
            (true, _) => Ok(true),
            (false, Err(error)) if error.kind() != io::ErrorKind::NotFound => Err(error),
            (false, _) => Ok(false),
        }
    }

    /// Marks that this attempt was asked to end: a resumed run does not take that for an end of its own.
    pub(crate) fn mark_cancelled(&self, key: Key) {
        let _ = fs::write(self.file(key, CANCEL), ""); // without it, a resumed run may call it failed
    }

    /// Marks the end of an attempt that was asked to end, and is gone, unless its script has marked that.
    pub(crate) fn mark_killed(&self, key: Key) -> io::Result<()> {
        if self.end(key, true).is_some() {
            return Ok(());
        }
        let new = self.file(key, &format!("{END}.{OURSELVES}"));
        fs::write(&new, marks::End::killed())?;
        fs::rename(new, self.file(key, END))
    }

    /// Marks that Slurm is told to freeze this attempt: a resumed run thaws it.
    pub(crate) fn mark_frozen(&self, key: Key) {
        let _ = fs::write(self.file(key, FROZEN), ""); // without it, a resumed run may wait for it
    }

    pub(crate) fn unmark_frozen(&self, key: Key) {
        let _ = fs::remove_file(self.file(key, FROZEN)); // to thaw it once more does no harm
    }

    /// Whether an earlier process left it frozen.
    pub(crate) fn is_frozen(&self, key: Key) -> bool {
        self.file(key, FROZEN).exists()
    }

    /// What is left of an attempt of an earlier process. It looks at few files: a resumed run asks for each of its jobs.
    pub(crate) fn remains(&self, key: Key) -> Option<Remains> {
        let has = |ending: &str| self.file(key, ending).exists();
        if has(END) {
            Some(Remains::Ended)
        } else if has(PERMIT) {
            Some(Remains::Waits)
        } else if has(&format!("{TAKEN}{OURSELVES}")) {
            Some(Remains::Revoked)
        } else {
            // Its permit is gone, and not with us.
            let ended = || if named_end(&self.path, key).is_some() { Remains::Ended } else { Remains::Began };
            has("sh").then(ended)
        }
    }

    /// Keys with a new mark, and whether it is one of an end.
    pub(crate) fn marked(&self, mut each: impl FnMut(Key, bool)) {
        let Ok(entries) = fs::read_dir(&self.path) else { return };
        for entry in entries.filter_map(Result::ok) {
            match entry.file_name().to_str().and_then(split) {
                Some((key, START)) => each(key, false),
                Some((key, END)) => each(key, true),
                Some((key, rest)) if rest.starts_with(ENDED) => each(key, true),
                _ => {}
            }
        }
    }

    pub(crate) fn start(&self, key: Key) -> Option<marks::Start> {
        marks::Start::read(&fs::read_to_string(self.file(key, START)).ok()?)
    }

    /// The mark of the end, if there is one. With `fresh` a network file system may not answer from what it remembers.
    pub(crate) fn end(&self, key: Key, fresh: bool) -> Option<marks::End> {
        if fresh {
            let look = self.file(key, "look");
            let _ = fs::write(&look, "").and_then(|()| fs::remove_file(&look)); // a change by us empties what is remembered of the folder
        }
        read_end(&self.path, key)
    }

    /// Whether its prologue has begun, and has not come to its last line.
    pub(crate) fn is_in_prologue(&self, key: Key) -> bool {
        // Read, not only looked at: a network file system may remember the length of a file.
        fs::read(self.file(key, PROLOGUE)).is_ok_and(|text| !text.is_empty())
    }

    /// What is left of its prologue does not go on to the command.
    pub(crate) fn end_prologue(&self, key: Key) {
        let _ = fs::remove_file(self.file(key, PROLOGUE)); // Slurm ends what is left on the node
    }

    /// Removes everything of an attempt. Its permit is gone, so a script that starts now does nothing.
    pub(crate) fn forget(&self, key: Key) {
        // The mark of the start is last: it has the name of another file.
        let taken = self.start(key).map(|start| self.path.join(start.taken));
        let files = [CANCEL, FROZEN, END, PROLOGUE, "sh", START].map(|ending| self.file(key, ending));
        for file in taken.into_iter().chain(files) {
            let _ = fs::remove_file(file); // what stays does no harm
        }
    }
}
