//! Where active flows are found: `flows/f-7f3a/control.sock` in the state directory.
//!
//! Room: driver.
//!
//! # Invariant
//! Under the lock of the folder, an active flow has a socket that answers; a folder without one was left by a process that is gone.
//!
//! # Why it holds
//! A flow creates its folder and opens its socket under the lock, and cleaning up holds it, too. The kernel releases the lock of a
//! process that dies.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use surface_journal::Journal;

use super::socket::{self, LETTERS};
use super::{Client, ServerHandle, remove_stale};
use crate::exit::Failure;

/// A random id for a flow: `f-7f3a`.
pub(crate) fn new_id() -> String {
    // The keys of a `RandomState` come from the system and differ each time.
    let mut bits = RandomState::new().build_hasher().finish();
    let mut id = String::from("f-");
    for _ in 0..4 {
        id.push(char::from(LETTERS[(bits % 32) as usize]));
        bits /= 32;
    }
    id
}

/// Whether a word is the name of a flow, or the beginning of one.
pub(crate) fn is_id(word: &str) -> bool {
    socket::is_id("f-", 4, word)
}

/// The folder and the socket of an active flow. Dropping it removes both.
#[must_use = "a socket that is dropped is closed"]
pub(crate) struct FlowSocket {
    folder: PathBuf,
    served: Option<ServerHandle>,
}

impl FlowSocket {
    /// Makes a folder for the flow `id`; `serve` opens its socket there.
    ///
    /// # Errors
    /// If the state directory cannot be used.
    pub(crate) fn open(id: &str, serve: impl FnOnce(&Path) -> io::Result<ServerHandle>) -> io::Result<FlowSocket> {
        let flows = flows().map_err(|failure| io::Error::other(failure.message))?;
        DirBuilder::new().recursive(true).mode(0o700).create(&flows)?;
        let _lock = lock(&flows)?;
        let folder = flows.join(id);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let mut socket = FlowSocket { folder, served: None };
        socket.served = Some(serve(&socket.folder)?);
        Ok(socket)
    }
}

impl Drop for FlowSocket {
    fn drop(&mut self) {
        self.served = None;
        let _ = fs::remove_dir(&self.folder); // another process may have cleaned it up
    }
}

/// An active flow, and a connection to it.
pub(crate) struct Live {
    pub(crate) id: String,
    pub(crate) client: Client,
}

/// The active flows. What dead ones left is removed.
///
/// # Errors
/// If the system refuses.
pub(crate) fn live() -> Result<Vec<Live>, Failure> {
    let flows = flows()?;
    let at = |error: io::Error| Failure::broken(format!("cannot read {}: {error}", flows.display()));
    let entries = match fs::read_dir(&flows) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(at)?,
    };
    let _lock = lock(&flows).map_err(at)?;
    let mut live = Vec::new();
    for entry in entries {
        let folder = entry.map_err(at)?.path();
        let Some(id) = folder.file_name().and_then(|name| name.to_str()).filter(|name| is_id(name)) else { continue };
        match Client::connect(&folder, format!("flow {id}")).map_err(at)? {
            Some(client) => live.push(Live { id: id.to_owned(), client }),
            None => {
                // It is just ending, or it died without cleaning up.
                let _ = remove_stale(&folder);
                let _ = fs::remove_dir(&folder);
            }
        }
    }
    live.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(live)
}

fn flows() -> Result<PathBuf, Failure> {
    Ok(Journal::default_dir()?.join("flows"))
}

fn lock(flows: &Path) -> io::Result<File> {
    let file = File::options().create(true).truncate(false).write(true).open(flows.join("lock"))?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::{is_id, new_id};

    #[test]
    fn flows_look_like_flows() {
        for word in ["f-7f3a", "f-7", &new_id()] {
            assert!(is_id(word), "{word}");
        }
        for word in ["f-", "filter", "f-filter", "r-7f3a", "f-7f3a1", "imu:out->filter:in"] {
            assert!(!is_id(word), "{word}");
        }
    }
}
