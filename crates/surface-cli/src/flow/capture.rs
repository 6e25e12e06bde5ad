//! What is written to stderr while a live area is drawn: by programs of `command` nodes, by panics.
//!
//! Room: driver.
//!
//! # Invariants
//! - While it exists, nothing is written to the terminal beside the live area.
//! - When it is dropped, also by a panic, stderr is restored, and what was written before has been reported.
//!
//! # Why they hold
//! Stderr becomes a pipe, also for programs that are started meanwhile. A thread reports what comes out of it. At the end stderr is restored first;
//! then the thread is woken, and reports what is still in the pipe.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::dup2_stderr;

/// A line without an end is reported in pieces of this many bytes.
const LINE_BYTES_MAX: usize = 8 * 1024;

/// Stderr, redirected.
#[must_use = "dropping it restores stderr"]
pub(crate) struct Capture {
    before: OwnedFd,
    /// Closed, it ends the thread.
    wake: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Capture {
    /// Reports each line that is written to stderr from now on. `None` if stderr is not the terminal.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn begin(report: impl Fn(&str) + Send + 'static) -> io::Result<Option<Capture>> {
        if !io::stderr().is_terminal() {
            return Ok(None);
        }
        let before = rustix::io::fcntl_dupfd_cloexec(io::stderr(), 3)?;
        let (reads, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        // Only our end is non-blocking; writers block.
        fcntl_setfl(&reads, fcntl_getfl(&reads)? | OFlags::NONBLOCK)?;
        let (woken, wake) = pipe_with(PipeFlags::CLOEXEC)?;
        let thread = std::thread::Builder::new()
            .name("flow-stderr".into())
            .spawn(move || Lines { report, line: Vec::new() }.pass_on(File::from(reads), &woken))?;
        let capture = Capture { before, wake: Some(wake), thread: Some(thread) };
        dup2_stderr(&writes)?;
        Ok(Some(capture))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = dup2_stderr(&self.before);
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Lines<F> {
    report: F,
    line: Vec<u8>,
}

impl<F: Fn(&str)> Lines<F> {
    fn pass_on(mut self, mut from: File, woken: &OwnedFd) {
        let mut bytes = [0; 4096];
        loop {
            let mut ready = [PollFd::new(&from, PollFlags::IN), PollFd::new(woken, PollFlags::IN)];
            let is_last = match poll(&mut ready, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => break,
                Ok(_) => !ready[1].revents().is_empty(),
            };
            let is_over = loop {
                match from.read(&mut bytes) {
                    Ok(0) => break true,
                    Ok(count) => bytes[..count].iter().for_each(|byte| self.take(*byte)),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => break error.kind() != ErrorKind::WouldBlock,
                }
            };
            if is_last || is_over {
                break;
            }
        }
        self.end_line();
    }

    fn take(&mut self, byte: u8) {
        if byte == b'\n' {
            (self.report)(&String::from_utf8_lossy(&self.line));
            self.line.clear();
            return;
        }
        self.line.push(byte);
        if self.line.len() >= LINE_BYTES_MAX {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        if !self.line.is_empty() {
            (self.report)(&String::from_utf8_lossy(&self.line));
            self.line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs::File;
    use std::io::Write;

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::{LINE_BYTES_MAX, Lines};

    #[test]
    fn lines_are_reported_whole_and_endless_ones_in_pieces() {
        let (reads, writes) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        let (woken, _wake) = pipe_with(PipeFlags::empty()).unwrap();
        let mut to = File::from(writes);
        write!(to, "one\ntwo\n{}", "x".repeat(LINE_BYTES_MAX + 1)).unwrap();
        drop(to);
        let reported = RefCell::new(Vec::new());
        Lines { report: |line: &str| reported.borrow_mut().push(line.to_owned()), line: Vec::new() }
            .pass_on(File::from(reads), &woken);
        let reported = reported.into_inner();
        assert_eq!(reported[..2], ["one", "two"]);
        assert_eq!(reported[2..].iter().map(String::len).collect::<Vec<_>>(), [LINE_BYTES_MAX, 1]);
    }
}
