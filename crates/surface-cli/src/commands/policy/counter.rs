//! Numbers of epochs that grow over restarts.
//!
//! Room: driver.
//!
//! # Invariant
//! A number is on the disk before it is used, so no later process uses it again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
                io::Error::new(io::ErrorKind::InvalidData, format!("{} {message}", path.display()))
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        Ok(Counter { path, last: last.max(after) })
    }

    /// The next number, kept before it is returned.
    ///
    /// # Errors
    /// If it cannot be kept, or there is none.
    pub(super) fn next(&mut self) -> io::Result<u64> {
        let next =
            self.last.checked_add(1).ok_or_else(|| io::Error::other("there is no epoch after the last number"))?;
        replace(&self.path, &format!("{next}\n"))?;
        self.last = next;
        Ok(next)
    }
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
        assert!(open_at_the_end(&folder).next().is_err());
    }

    fn open_at_the_end(folder: &tempfile::TempDir) -> Counter {
        Counter::open(folder.path().join("other"), u64::MAX).unwrap()
    }
}
