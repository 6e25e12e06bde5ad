//! The keeper: a small supervising process above one command at a time.
//!
//! Room: mechanism. Knows one command and one client; knows nothing of other keepers.
//!
//! It is a process of its own, with one thread.
//!
//! # Invariant
//! No process of a command outlives the report of its end, and no end is lost with the client.
//!
//! # Why it holds
//! The keeper is a *subreaper*: a process below it that loses its parent, by a double fork or a `setsid`, becomes the keeper's own child.
//! So the tree is exactly what is below the keeper, and `ECHILD` proves that it is empty; only then is the end recorded, and only then reported.
//! When a client is killed, its socket closes. The keeper keeps its command running, accepts a new client if one connects, and otherwise
//! leaves the end in its file. A keeper of an ephemeral pool has no file and no second client: it kills its tree when its client is gone.
//!
//! # What it cannot do
//! A keeper that is itself killed loses its tree. The client then kills what it finds by session, group and mark (`pool/sweep.rs`).

mod applied;
mod freeze;
mod kill;
mod schedule;
mod serve;
mod spawn;
mod tree;

pub(crate) use kill::{kill_these, signal};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use crate::raw::keep_ended_children;
use crate::record::{Record, socket_name};
use crate::wire::Link;

/// Runs this process as a keeper; never returns.
///
/// A program that is its own keeper calls this before anything else, when its arguments are those of its
/// [`KeeperProgram`](crate::KeeperProgram). The pool adds two more: the keepers' directory (empty if the pool is ephemeral) and the keeper's id. Standard input is the socket to the client, standard output the keeper's record.
///
/// ```no_run
/// if std::env::args().nth(1).as_deref() == Some("keep") {
///     mech_process::keeper::main();
/// }
/// ```
pub fn main() -> ! {
    let mut args = std::env::args_os().rev();
    let (id, home) = (args.next(), args.next());
    let (Some(id), Some(home)) = (id.and_then(|id| id.into_string().ok()), home.map(PathBuf::from)) else {
        eprintln!("a keeper needs its directory and its id as its last arguments; it is started by a pool of keepers");
        std::process::exit(2);
    };
    match set_up(Some(home.as_path()).filter(|home| !home.as_os_str().is_empty()), &id) {
        Ok(mut server) => {
            server.serve();
            std::process::exit(0)
        }
        Err(error) => {
            eprintln!("keeper {id} in {}: {error}", home.display());
            std::process::exit(1)
        }
    }
}

fn set_up(home: Option<&Path>, id: &str) -> io::Result<serve::Server> {
    leave_terminal();
    keep_ended_children();
    // Both move to other descriptors, so that the command does not inherit them.
    let link = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)?);
    let record = File::from(rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?);
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let record = home.map_or_else(Record::none, |home| Record::new(record, home, id));
    let listener = home.map(|home| listen(home, id)).transpose()?;
    Ok(serve::Server::new(id.to_owned(), Link::new(link), listener, record))
}

/// Leaves the terminal's session: only the client handles Ctrl-C and a closing terminal.
///
/// The client starts a keeper in a process group of its own, so that no Ctrl-C reaches it before it is here. But a group leader may not
/// create a session, so the keeper joins the client's group for a moment. If the client is gone, the keeper stays in its own group, where no
/// terminal signals it.
fn leave_terminal() {
    use rustix::process::{getpgid, getppid, setpgid, setsid};
    let group = getpgid(getppid()).ok();
    let _ = setpgid(None, group);
    let _ = setsid();
}

/// A socket for a later client, for this user only.
fn listen(home: &Path, id: &str) -> io::Result<UnixListener> {
    let dir = rustix::fs::open(home, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mask = rustix::process::umask(Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(short_path(&dir, id));
    rustix::process::umask(mask);
    listener
}

/// A path to the socket that is short however deep the directory is: the path of a Unix socket has at most 108 bytes.
pub(crate) fn short_path(dir: impl AsFd, id: &str) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}/{}", dir.as_fd().as_raw_fd(), socket_name(id)))
}
