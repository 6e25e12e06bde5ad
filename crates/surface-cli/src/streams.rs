//! Standard output and standard error.
//!
//! Room: driver.
//!
//! # Invariant
//! What is written is written to the end, or the caller knows that it is not.
//!
//! # Why it holds
//! A full pipe that does not block is waited for. A stream that was closed when the process began is `/dev/null` by now, and is not written to.

use std::io::{self, ErrorKind, Stderr, Stdout, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use mech_process::stream_was_closed;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

/// A standard stream that is written to until all is written: if it is a pipe that does not block and is full, it waits for the reader. One that was closed when the process began fails.
#[derive(Debug)]
pub(crate) struct Blocking<W>(W);

/// Standard output.
pub(crate) fn stdout() -> Blocking<Stdout> {
    Blocking(io::stdout())
}

/// Standard error.
pub(crate) fn stderr() -> Blocking<Stderr> {
    Blocking(io::stderr())
}

impl<W: AsFd> Blocking<W> {
    /// Tries again when there is room, as often as there is none.
    fn until_done<T>(&mut self, mut attempt: impl FnMut(&mut W) -> io::Result<T>) -> io::Result<T> {
        if stream_was_closed(self.0.as_fd().as_raw_fd()) {
            return Err(Errno::BADF.into());
        }
        loop {
            match attempt(&mut self.0) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => wait_for_room(self.0.as_fd())?,
                done => return done,
            }
        }
    }
}

fn wait_for_room(stream: BorrowedFd<'_>) -> io::Result<()> {
    match poll(&mut [PollFd::from_borrowed_fd(stream, PollFlags::OUT)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl<W: Write + AsFd> Write for Blocking<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.until_done(|to| to.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.until_done(W::flush)
    }
}

impl Blocking<Stdout> {
    /// No other thread writes in between.
    pub(crate) fn lock(self) -> Blocking<io::StdoutLock<'static>> {
        Blocking(self.0.lock())
    }
}

impl Blocking<Stderr> {
    /// No other thread writes in between.
    pub(crate) fn lock(self) -> Blocking<io::StderrLock<'static>> {
        Blocking(self.0.lock())
    }
}
