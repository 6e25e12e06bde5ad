//! The path of a socket, and who may use it.
//!
//! Room: driver.
//!
//! Linux.
//!
//! # Invariant
//! Only the owner can connect: the folder of a run is the owner's and 0700 before the socket exists in it, every socket is 0600, and the kernel
//! reports the user of each client. A folder that the user names for a socket is left as it is.
//!
//! # A path that is too long
//! The address of a unix socket has 108 bytes, and a state directory may be deeper. Then the socket is named through an open folder,
//! `/proc/self/fd/7/control.sock`, which is the same file with a short name: no link in a public folder that another user could create first.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The name of the socket in the folder of its run.
const NAME: &str = "control.sock";
/// The size of an address, less its terminating NUL.
const PATH_BYTES_MAX: usize = 107;

/// The letters of ids of runs and flows: no two of them look alike.
pub(super) const LETTERS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Whether a word is an id with this prefix and at most `most` letters, or the beginning of one.
pub(crate) fn is_id(prefix: &str, most: usize, word: &str) -> bool {
    let is_letter = |byte: u8| LETTERS.contains(&byte);
    word.strip_prefix(prefix).is_some_and(|id| (1..=most).contains(&id.len()) && id.bytes().all(is_letter))
}

/// The path of the socket of the run in `folder`.
pub(crate) fn socket_path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// Calls `act` with a path of the socket that fits into an address.
fn with_short<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return act(path) };
    if path.as_os_str().len() <= PATH_BYTES_MAX {
        return act(path);
    }
    let folder: OwnedFd = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    act(&PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name))
}

/// Adds to an error what was being done to which path.
fn at<T>(result: io::Result<T>, doing: &str, path: &Path) -> io::Result<T> {
    result.map_err(|error| io::Error::new(error.kind(), format!("cannot {doing} {}: {error}", path.display())))
}

/// Opens the socket of a run. A socket of a dead process is removed first.
///
/// # Errors
/// If the folder is another user's, if a living process has the socket, or if the system refuses.
pub(crate) fn listen(folder: &Path) -> io::Result<UnixListener> {
    let about = at(fs::metadata(folder), "read", folder)?;
    let me = rustix::process::geteuid().as_raw();
    if about.uid() != me {
        let message = format!("{} belongs to user {}, not to user {me}", folder.display(), about.uid());
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            format!("{message}; set BURSAR_STATE_DIR to a folder of your own"),
        ));
    }
    if about.mode() & 0o077 != 0 {
        at(fs::set_permissions(folder, fs::Permissions::from_mode(0o700)), "close to others", folder)?;
    }
    listen_at(&socket_path(folder))
}

/// Opens a socket at a path. A socket of a dead process is removed first.
///
/// # Errors
/// If a living process has the socket, or if the system refuses.
pub(crate) fn listen_at(path: &Path) -> io::Result<UnixListener> {
    if !remove_stale_at(path)? {
        let message = format!("{} is in use by another process; is it active already?", path.display());
        return Err(io::Error::new(ErrorKind::AddrInUse, message));
    }
    let listener = at(with_short(path, |path| UnixListener::bind(path)), "open", path)?;
    at(fs::set_permissions(path, fs::Permissions::from_mode(0o600)), "close to others", path)?;
    Ok(listener)
}

/// Removes a socket without a listener. `false` if there is one.
///
/// # Errors
/// If there is something else of that name, or the system refuses.
pub(crate) fn remove_stale(folder: &Path) -> io::Result<bool> {
    remove_stale_at(&socket_path(folder))
}

fn remove_stale_at(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return at(Err(error), "read", path),
        Ok(about) if !about.file_type().is_socket() => {
            let message = format!("{} is not a socket; move it away", path.display());
            return Err(io::Error::new(ErrorKind::AlreadyExists, message));
        }
        Ok(_) => {}
    }
    match with_short(path, |path| UnixStream::connect(path)) {
        Ok(_) => Ok(false),
        // The process died without cleaning up.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            at(fs::remove_file(path), "remove", path).map(|()| true)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => at(Err(error), "connect to", path),
    }
}

/// Connects to a socket. `None` if no process listens.
///
/// # Errors
/// If the system refuses, or the socket is another user's.
pub(crate) fn connect(path: &Path) -> io::Result<Option<UnixStream>> {
    match with_short(path, |path| UnixStream::connect(path)) {
        Ok(stream) if is_ours(&stream)? => Ok(Some(stream)),
        Ok(_) => {
            let message = format!("{} is served by another user", path.display());
            Err(io::Error::new(ErrorKind::PermissionDenied, message))
        }
        // Also a socket that may not be written, in a read-only folder.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::PermissionDenied
            ) =>
        {
            Ok(None)
        }
        Err(error) => at(Err(error), "connect to", path),
    }
}

/// Whether the other side is a process of our user, as the kernel knows it.
pub(crate) fn is_ours(stream: &UnixStream) -> io::Result<bool> {
    let peer = rustix::net::sockopt::socket_peercred(stream.as_fd())?;
    Ok(peer.uid == rustix::process::geteuid())
}
