//! Tasks that copy bytes: from a pipe into the intake of a node, and from its outlet into a pipe.
//!
//! Room: driver. Knows pipes and tasks; knows nothing of edges and bands.
//!
//! Only the task blocks; a cancellation interrupts every wait.
//!
//! # Invariant
//! Backpressure: when the intake is full, nothing is read, the pipe fills, and the program at its other end waits.

use std::collections::VecDeque;
use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_io::Async;
use bursar::flow::{InFlight, NodeError, NotUtf8};
use bursar::{Receiver, block_on, shield, timeout, unblock};

use super::line::Messages;
use super::unread::{self, Unread};
use super::wire::{Drain, Feed};
use crate::action::Reading;

/// Limit of bytes in one read.
const READ_BYTES: usize = 64 << 10;
/// Limit of the wait for the last output after the end of a program: another process may hold the pipe.
pub(crate) const LAST_OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes that are collected for one write.
const WRITE_BYTES: usize = 32 << 10;

/// Something to read from.
pub(crate) enum Pipe {
    /// The task waits until there is something.
    Polled(Async<File>),
    /// The same, but the channel is closed when the program has ended: then the wait has a limit.
    Until(Async<File>, Receiver<()>),
    /// A regular file, which `epoll` does not know: it is read on another thread.
    Plain(File),
}

impl Pipe {
    /// The file is not made non-blocking: that would change it for all processes that share it, such as a shell with the same standard input.
    pub(crate) fn shared(file: File) -> io::Result<Self> {
        let plain = file.try_clone()?;
        Ok(match Async::new_nonblocking(file) {
            Ok(polled) => Self::Polled(polled),
            Err(_) => Self::Plain(plain),
        })
    }
}

impl Pipe {
    /// Waits for bytes; 0 at the end.
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Pipe::Polled(pipe) => block_on(pipe.readable()).and_then(|()| pipe.get_ref().read(bytes)),
                Pipe::Until(pipe, gone) => match readable_or_ended(pipe, gone) {
                    Ok(true) => pipe.get_ref().read(bytes),
                    Ok(false) => Ok(0),
                    Err(error) => Err(error),
                },
                Pipe::Plain(file) => unblock(|| {
                    let mut file = file;
                    file.read(bytes)
                }),
            };
            match read {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                read => return read,
            }
        }
    }
}

/// Reads until the end, or until the node takes no more. An error of the pipe is the last message. `is_meant` is called for a last line without a line end: whether it is a message.
pub(crate) fn read_all(pipe: &Pipe, reading: Reading, feed: &Feed, is_meant: impl FnOnce() -> bool) {
    let (mut lines, mut bytes) = (Messages::new(reading), vec![0; READ_BYTES]);
    loop {
        let mut items = Vec::new();
        let over = match pipe.read(&mut bytes) {
            Ok(count) => {
                lines.feed(&bytes[..count], &mut items);
                count == 0
            }
            Err(error) => {
                items.push(Err(NodeError::msg(format!("cannot be read: {error}")).for_good()));
                true
            }
        };
        if !feed.put(items) {
            return;
        }
        if over {
            let mut last = Vec::new();
            if !lines.has_rest() || is_meant() {
                lines.end(&mut last);
            } else {
                last.push(Err(lines.cut_off()));
            }
            feed.put(last);
            return;
        }
    }
}

/// How standard error is read: bytes that are not UTF-8 are replaced.
fn stderr_reading() -> Reading {
    Reading { not_utf8: NotUtf8::Replace, ..Reading::default() }
}

/// Reads until the end, and reports each line.
pub(crate) fn report_lines(pipe: &Pipe, report: impl Fn(&str)) {
    let (mut lines, mut bytes) = (Messages::new(stderr_reading()), vec![0; READ_BYTES]);
    loop {
        let mut items = Vec::new();
        let count = pipe.read(&mut bytes).unwrap_or(0);
        lines.feed(&bytes[..count], &mut items);
        if count == 0 {
            lines.end(&mut items);
        }
        for item in items {
            match item {
                Ok(value) => report(value.as_str().unwrap_or_default()),
                Err(error) => report(&error.to_string()),
            }
        }
        if count == 0 {
            return;
        }
    }
}

/// Waits until the pipe is readable. False if the program has ended and nothing came within the limit: another process holds the pipe.
fn readable_or_ended(pipe: &Async<File>, gone: &Receiver<()>) -> io::Result<bool> {
    match ready_or_ended(pipe.readable(), gone) {
        Some(result) => result.map(|()| true),
        None => {
            block_on(timeout(LAST_OUTPUT_TIMEOUT, pipe.readable())).map_or(Ok(false), |result| result.map(|()| true))
        }
    }
}

/// Waits for the pipe, or for the end of the program: then `None`.
fn ready_or_ended(ready: impl Future<Output = io::Result<()>>, gone: &Receiver<()>) -> Option<io::Result<()>> {
    block_on(async {
        let (mut ready, mut gone) = (pin!(ready), pin!(gone.recv_async()));
        poll_fn(|cx| match ready.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => gone.as_mut().poll(cx).map(|_| None),
        })
        .await
    })
}

/// Writes the standard input of a program. Dropped at the end of its task, also if that is cancelled: then it waits for the end of the program, when
/// `gone` is closed, and stores the lines that were not read in `left`.
pub(crate) struct StdinWriter {
    pipe: Option<Async<File>>,
    drain: Drain,
    gone: Receiver<()>,
    unread: Unread,
    in_flight: InFlight,
    left: Arc<Mutex<Option<VecDeque<String>>>>,
    /// Something may have been written.
    has_begun: bool,
}

impl StdinWriter {
    pub(crate) fn new(
        pipe: Async<File>,
        drain: Drain,
        gone: Receiver<()>,
        in_flight: InFlight,
        left: Arc<Mutex<Option<VecDeque<String>>>>,
    ) -> Self {
        let unread = Unread::of(&pipe);
        Self { pipe: Some(pipe), drain, gone, unread, in_flight, left, has_begun: false }
    }

    /// Writes all lines until the node closes the channel, or the program reads no more.
    pub(crate) fn write_all(mut self) {
        self.has_begun = true;
        let Self { pipe, drain, gone, unread, in_flight, .. } = &mut self;
        let Some(pipe) = pipe else { return };
        if !write_lines(pipe, drain, gone, unread, in_flight) {
            let _ = self.gone.recv(); // the program may run on without reading; its input stays open until it ends
        }
    }
}

impl Drop for StdinWriter {
    fn drop(&mut self) {
        let Some(pipe) = self.pipe.take() else { return };
        let looks = unread::reading_end(&pipe);
        drop(pipe); // the program sees the end of its input
        if self.has_begun {
            shield(|| _ = self.gone.recv());
        }
        // Without `/proc` a closed pipe cannot be examined.
        let in_pipe = looks.as_ref().map_or(0, unread::in_pipe);
        let mut left = self.unread.left(in_pipe);
        self.in_flight.add(left.len()); // they were counted as gone when they were written
        left.extend(self.drain.close());
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
    }
}

/// Whether all lines were written.
fn write_lines(
    pipe: &Async<File>,
    drain: &Drain,
    gone: &Receiver<()>,
    unread: &mut Unread,
    in_flight: &InFlight,
) -> bool {
    let mut buffer = String::new();
    while let Some(line) = drain.next() {
        buffer.push_str(&line);
        unread.will_write(line);
        in_flight.remove(1);
        while buffer.len() < WRITE_BYTES
            && let Some(line) = drain.more()
        {
            buffer.push_str(&line);
            unread.will_write(line);
            in_flight.remove(1);
        }
        let mut bytes = buffer.as_bytes();
        while !bytes.is_empty() {
            let mut io = pipe.get_ref();
            match io.write(bytes) {
                Ok(count) => {
                    unread.wrote(count);
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !matches!(ready_or_ended(pipe.writable(), gone), Some(Ok(()))) {
                        return false;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The program reads no more; its exit status says more than this error.
                Err(_) => return false,
            }
        }
        buffer.clear();
    }
    true
}
