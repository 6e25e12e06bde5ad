//! Tasks that move bytes: from a pipe or socket into a node's intake, and from its outlet into one.
//!
//! Room: surface. Blocks only the task; a cancellation interrupts every wait.
//!
//! # Invariant
//! No more is read than the node takes: when its intake is full nothing is read, the pipe fills, and the program at its other end waits.

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

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// After the end of a program its last output is waited for so long: something it started may hold the pipe.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);
/// Bytes that are gathered before they are written.
const GATHERED: usize = 32 << 10;

/// Something to read from, whatever it is.
pub(crate) enum Pipe {
    /// The task waits until there is something.
    Polled(Async<File>),
    /// The same; but when the channel is closed its writer is gone, and nothing that does not come soon is waited for.
    Until(Async<File>, Receiver<()>),
    /// A plain file, which is always ready: it is read on another thread.
    Plain(File),
}

impl Pipe {
    /// Not made non-blocking: that would change it for all who share it, such as the shell whose standard input is ours.
    pub(crate) fn shared(file: File) -> io::Result<Self> {
        let plain = file.try_clone()?;
        Ok(match Async::new_nonblocking(file) {
            Ok(polled) => Self::Polled(polled),
            Err(_) => Self::Plain(plain),
        })
    }
}

impl Pipe {
    /// Waits for bytes; none at the end.
    fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                Pipe::Polled(pipe) => block_on(pipe.readable()).and_then(|()| pipe.get_ref().read(bytes)),
                Pipe::Until(pipe, gone) => match last_words(pipe, gone) {
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

/// Reads until the end, or until nobody takes it. What goes wrong is the last message. A last line without its end is a message only if it was meant so, which is asked only then.
pub(crate) fn read_all(pipe: &Pipe, reading: Reading, feed: &Feed, is_meant: impl FnOnce() -> bool) {
    let (mut lines, mut bytes) = (Messages::new(reading), vec![0; CHUNK]);
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

/// Errors of a program are for people: what is no text is shown as far as it is.
fn what_is_said() -> Reading {
    Reading { not_utf8: NotUtf8::Replace, ..Reading::default() }
}

/// Reads until the end, and tells each line.
pub(crate) fn tell_all(pipe: &Pipe, tell: impl Fn(&str)) {
    let (mut lines, mut bytes) = (Messages::new(what_is_said()), vec![0; CHUNK]);
    loop {
        let mut items = Vec::new();
        let count = pipe.read(&mut bytes).unwrap_or(0);
        lines.feed(&bytes[..count], &mut items);
        if count == 0 {
            lines.end(&mut items);
        }
        for item in items {
            match item {
                Ok(value) => tell(value.as_str().unwrap_or_default()),
                Err(error) => tell(&error.to_string()),
            }
        }
        if count == 0 {
            return;
        }
    }
}

/// Waits until there is something to read. False if there is nothing, and its writer is gone: something it started holds the pipe.
fn last_words(pipe: &Async<File>, gone: &Receiver<()>) -> io::Result<bool> {
    match ready_or_gone(pipe.readable(), gone) {
        Some(result) => result.map(|()| true),
        None => block_on(timeout(LAST_WORDS, pipe.readable())).map_or(Ok(false), |result| result.map(|()| true)),
    }
}

/// Waits for the pipe, or for the end of the program: then it is none.
fn ready_or_gone(ready: impl Future<Output = io::Result<()>>, gone: &Receiver<()>) -> Option<io::Result<()>> {
    block_on(async {
        let (mut ready, mut gone) = (pin!(ready), pin!(gone.recv_async()));
        poll_fn(|cx| match ready.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => gone.as_mut().poll(cx).map(|_| None),
        })
        .await
    })
}

/// What a program is given, by the task that writes it. Dropped at the end of the task, also if it is cancelled: then it waits for the end of the program, when
/// `gone` is closed, and leaves the lines that were not read in `left`.
pub(crate) struct Giving {
    pipe: Option<Async<File>>,
    drain: Drain,
    gone: Receiver<()>,
    unread: Unread,
    custody: InFlight,
    left: Arc<Mutex<Option<VecDeque<String>>>>,
    /// Something may have been written.
    has_begun: bool,
}

impl Giving {
    pub(crate) fn new(
        pipe: Async<File>,
        drain: Drain,
        gone: Receiver<()>,
        custody: InFlight,
        left: Arc<Mutex<Option<VecDeque<String>>>>,
    ) -> Self {
        let unread = Unread::of(&pipe);
        Self { pipe: Some(pipe), drain, gone, unread, custody, left, has_begun: false }
    }

    /// Writes what comes until no more will, or the program reads no more.
    pub(crate) fn write_all(mut self) {
        self.has_begun = true;
        let Self { pipe, drain, gone, unread, custody, .. } = &mut self;
        let Some(pipe) = pipe else { return };
        if !write_lines(pipe, drain, gone, unread, custody) {
            let _ = self.gone.recv(); // the program may live on without its input, which stays open until then
        }
    }
}

impl Drop for Giving {
    fn drop(&mut self) {
        let Some(pipe) = self.pipe.take() else { return };
        let looks = unread::reading_end(&pipe);
        drop(pipe); // the program sees the end of its input
        if self.has_begun {
            shield(|| _ = self.gone.recv());
        }
        // Without `/proc` nothing can be asked about a pipe that is closed.
        let in_pipe = looks.as_ref().map_or(0, unread::in_pipe);
        let mut left = self.unread.left(in_pipe);
        self.custody.add(left.len()); // they were let go of when they were written
        left.extend(self.drain.close());
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
    }
}

/// Whether all that came was written.
fn write_lines(
    pipe: &Async<File>,
    drain: &Drain,
    gone: &Receiver<()>,
    unread: &mut Unread,
    custody: &InFlight,
) -> bool {
    let mut gathered = String::new();
    while let Some(line) = drain.next() {
        gathered.push_str(&line);
        unread.will_write(line);
        custody.remove(1);
        while gathered.len() < GATHERED
            && let Some(line) = drain.more()
        {
            gathered.push_str(&line);
            unread.will_write(line);
            custody.remove(1);
        }
        let mut bytes = gathered.as_bytes();
        while !bytes.is_empty() {
            let mut io = pipe.get_ref();
            match io.write(bytes) {
                Ok(count) => {
                    unread.wrote(count);
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !matches!(ready_or_gone(pipe.writable(), gone), Some(Ok(()))) {
                        return false;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The program reads no more; its end tells more than that.
                Err(_) => return false,
            }
        }
        gathered.clear();
    }
    true
}
