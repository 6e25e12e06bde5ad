//! Numbers of epochs that grow over restarts.
//!
//! Room: driver.
//!
//! # Invariant
//! A number is on the disk before it is used, so no later process uses it again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use policy_admission::service::FIRST_EPOCH_MAX;

/// The last number that was used.
pub(super) struct Counter {
    path: PathBuf,
    last: u64,
}

impl Counter {
    /// Continues behind the number in the file, and behind `after`.
    ///
    /// # Errors
    /// If the file is there and is not a number.
    pub(super) fn open(path: PathBuf, after: u64) -> io::Result<Counter> {
        let last = match fs::read_to_string(&path) {
            Ok(text) => text.trim().parse::<u64>().map_err(|_| {
                let message = "is not a number; remove it, and start with `--after` the largest epoch in force";
                about(&path, message)
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(about(&path, &error.to_string())),
        };
        // Else a number would be kept that no program takes, and no later service could go below it.
        if after >= FIRST_EPOCH_MAX {
            let message =
                format!("`--after {after}` is too large: programs take {FIRST_EPOCH_MAX} as a first epoch at most");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        if last >= FIRST_EPOCH_MAX {
            let message = format!(
                "has {last}, and programs take {FIRST_EPOCH_MAX} as a first epoch at most; remove it, and start with `--after` the largest epoch in force"
            );
            return Err(about(&path, &message));
        }
        Ok(Counter { path, last: last.max(after) })
    }

    /// The next number, kept before it is returned.
    ///
    /// # Errors
    /// If it cannot be kept, or there is none.
    pub(super) fn next(&mut self) -> io::Result<u64> {
        let next =
            self.last.checked_add(1).ok_or_else(|| io::Error::other("there is no epoch after the last number"))?;
        replace(&self.path, &format!("{next}\n"))
            .map_err(|error| about(&self.path, &format!("cannot be written: {error}")))?;
        self.last = next;
        Ok(next)
    }
}

/// What is wrong with the file of the counter.
fn about(path: &Path, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{}: {what}", path.display()))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = super::beside(path, ".new");
    let mut file = File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_grow_over_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let open = |after| Counter::open(folder.path().join("epoch"), after);
        let mut counter = open(0).unwrap();
        assert_eq!((counter.next().unwrap(), counter.next().unwrap()), (1, 2));
        assert_eq!(open(0).unwrap().next().unwrap(), 3);
        assert_eq!(open(41).unwrap().next().unwrap(), 42);
        assert_eq!(open(7).unwrap().next().unwrap(), 43, "never back");
        fs::write(folder.path().join("epoch"), "x").unwrap();
        assert!(open(0).is_err());
    }

    #[test]
    fn a_number_that_no_program_takes_is_refused_and_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("epoch");
        for after in [FIRST_EPOCH_MAX, u64::MAX - 1, u64::MAX] {
            let refused = Counter::open(path.clone(), after).err().unwrap().to_string();
            assert!(refused.contains(&format!("`--after {after}` is too large")), "{refused}");
            assert!(!path.exists());
        }
        assert_eq!(Counter::open(path.clone(), FIRST_EPOCH_MAX - 1).unwrap().next().unwrap(), FIRST_EPOCH_MAX);
        let refused = Counter::open(path.clone(), 0).err().unwrap().to_string();
        assert!(refused.contains("epoch: has") && refused.contains("remove it"), "{refused}");
        let nowhere = Counter::open(folder.path().join("no/epoch"), 0).unwrap().next().unwrap_err().to_string();
        assert!(nowhere.contains("no/epoch: cannot be written"), "{nowhere}");
    }
}
