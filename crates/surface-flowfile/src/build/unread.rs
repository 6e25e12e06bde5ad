//! Which lines were written to a program, and not read by it.
//!
//! Room: driver. Knows one pipe; knows nothing of processes.
//!
//! # Invariant
//! A line is unread if any of its bytes is still in the pipe, or was not written, when the program has ended. At most a pipe of lines is remembered, and one line.
//!
//! # Why it holds
//! Bytes leave a pipe in the order in which they were written. So the unread ones are the last that were written. The kernel says how many there are, also for a pipe without
//! a reader. All bytes before them were read.
//!
//! # What is not known
//! Lines that a program had read into its own buffer and not processed when it failed count as read.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

/// The capacity of a pipe, if the kernel does not say.
const PIPE_BYTES: usize = 64 << 10;

/// The last lines of a pipe.
pub(crate) struct Unread {
    lines: VecDeque<String>,
    /// Of all of them.
    bytes: usize,
    /// How many of those were not written yet.
    unwritten: usize,
    capacity: usize,
}

impl Unread {
    pub(crate) fn of(pipe: &impl AsFd) -> Self {
        Self::with_capacity(rustix::pipe::fcntl_getpipe_size(pipe).unwrap_or(PIPE_BYTES))
    }

    fn with_capacity(capacity: usize) -> Self {
        Self { lines: VecDeque::new(), bytes: 0, unwritten: 0, capacity }
    }

    /// A line is about to be written.
    pub(crate) fn will_write(&mut self, line: String) {
        self.bytes += line.len();
        self.unwritten += line.len();
        self.lines.push_back(line);
    }

    /// This many bytes were written. Older lines that no longer fit into the pipe were read.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.unwritten -= bytes;
        let held = |this: &Self| this.capacity + this.unwritten;
        while let Some(first) = self.lines.front()
            && self.bytes - first.len() >= held(self)
        {
            self.bytes -= first.len();
            self.lines.pop_front();
        }
    }

    /// After the end of the program, with `in_pipe` bytes in the pipe: the lines that it has not read.
    pub(crate) fn left(&mut self, in_pipe: usize) -> VecDeque<String> {
        let mut unread = in_pipe.saturating_add(self.unwritten);
        let mut left = VecDeque::new();
        while unread > 0
            && let Some(line) = self.lines.pop_back()
        {
            unread = unread.saturating_sub(line.len());
            left.push_front(line);
        }
        left
    }
}

/// How many bytes are in the pipe; 0 if the kernel does not say.
pub(crate) fn in_pipe(pipe: &impl AsFd) -> usize {
    let bytes = rustix::io::ioctl_fionread(pipe).unwrap_or(0);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The reading end of a pipe, to examine it after the writing end was closed. `None` without `/proc`.
pub(crate) fn reading_end(writes: &impl AsFd) -> Option<File> {
    use rustix::fs::{Mode, OFlags};
    let path = format!("/proc/self/fd/{}", writes.as_fd().as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).ok().map(File::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread(capacity: usize, lines: &[&str], written: usize, in_pipe: usize) -> Vec<String> {
        let mut unread = Unread::with_capacity(capacity);
        lines.iter().for_each(|line| unread.will_write((*line).to_owned()));
        unread.wrote(written);
        unread.left(in_pipe).into()
    }

    #[test]
    fn the_last_bytes_are_the_unread_ones() {
        let lines = ["ab\n", "cd\n", "ef\n"];
        assert_eq!(unread(100, &lines, 9, 0), [""; 0]);
        assert_eq!(unread(100, &lines, 9, 3), ["ef\n"]);
        assert_eq!(unread(100, &lines, 9, 4), ["cd\n", "ef\n"], "a line that is half read is unread");
        assert_eq!(unread(100, &lines, 9, 9), lines);
        assert_eq!(unread(100, &lines, 4, 0), ["cd\n", "ef\n"], "a line that is half written is unread");
        assert_eq!(unread(100, &lines, 4, 2), lines);
    }

    #[test]
    fn no_more_is_remembered_than_a_pipe_holds() {
        let mut unread = Unread::with_capacity(10);
        for _ in 0..1_000 {
            unread.will_write("12345\n".to_owned());
            unread.wrote(6);
            assert!(unread.bytes >= 10.min(unread.lines.len() * 6) && unread.bytes < 10 + 6, "{}", unread.bytes);
        }
        assert_eq!(unread.left(10).len(), 2);
    }

    #[test]
    fn the_kernel_knows_what_is_in_a_pipe_without_a_reader_and_without_a_writer() {
        use std::io::{Read, Write};
        let (mut reads, mut writes) = std::io::pipe().unwrap();
        writes.write_all(b"0123456789").unwrap();
        reads.read_exact(&mut [0; 4]).unwrap();
        drop(reads);
        assert_eq!(in_pipe(&writes), 6);
        let again = reading_end(&writes).unwrap();
        drop(writes);
        assert_eq!(in_pipe(&again), 6);
    }
}
