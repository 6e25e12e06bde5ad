//! The output of a command, copied as it is written to its log.
//!
//! Room: driver.
//!
//! # Invariant
//! When [`LogFollower::finish`] returns `Ok`, everything in the log has been copied. The log takes no more disk space than its limit, but never loses what was not copied.
//!
//! # Why it holds
//! The thread reads to the end of the file after it was told that nothing more comes. Until then it waits in the kernel, for a
//! change of the file or for that message: no polling.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::thread::JoinHandle;

use mech_process::LimitedLog;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// A log that is being copied.
pub(crate) struct LogFollower {
    done: OwnedFd,
    thread: JoinHandle<io::Result<()>>,
}

/// Copies to `to` what is written to `log`, from its beginning; the log is created if it is missing. `closed` is called if the reader of `to` is gone.
pub(crate) fn follow(
    log: &Path,
    bytes_max: u64,
    to: impl Write + Send + 'static,
    closed: impl FnOnce() + Send + 'static,
) -> io::Result<LogFollower> {
    let file = File::options().create(true).append(true).read(true).open(log)?;
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, log, WatchFlags::MODIFY)?;
    let limited = LimitedLog::open(log, bytes_max)?;
    let (is_done, done) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let pass = move || {
        let passed = pass_on(file, limited, to, &watch, &is_done);
        if passed.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            closed();
        }
        passed
    };
    let thread = std::thread::Builder::new().name("bursar-follow".to_owned()).spawn(pass)?;
    Ok(LogFollower { done, thread })
}

impl LogFollower {
    /// Nothing more comes: copies the rest.
    ///
    /// # Errors
    /// If not everything could be copied. The log has it.
    pub(crate) fn finish(self) -> io::Result<()> {
        drop(self.done); // the other end of the pipe sees it
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that copies it panicked")))
    }
}

fn pass_on(
    mut file: File,
    limited: LimitedLog,
    mut out: impl Write,
    watch: &OwnedFd,
    is_done: &OwnedFd,
) -> io::Result<()> {
    let (mut limited, mut passed) = (Some(limited), 0_u64);
    let mut buffer = vec![0; 64 << 10];
    let mut over = false;
    loop {
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    out.write_all(&buffer[..count]).and_then(|()| out.flush())?;
                    passed += count as u64;
                    // If the file system cannot punch holes, the log grows.
                    if limited.as_mut().is_some_and(|log| log.trim_before(passed).is_err()) {
                        limited = None;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if over {
            return Ok(());
        }
        let mut ready = [PollFd::new(watch, PollFlags::IN), PollFd::new(is_done, PollFlags::IN)];
        if poll(&mut ready, None).is_err() {
            continue; // a signal
        }
        over = !ready[1].revents().is_empty();
        while rustix::io::read(watch.as_fd(), &mut buffer).is_ok_and(|count| count > 0) {}
    }
}
