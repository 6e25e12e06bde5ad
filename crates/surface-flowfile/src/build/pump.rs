//! Tasks that move bytes: from a pipe or socket into a node's intake, and from its outlet into one.
//!
//! Room: surface. Blocks only the task; a cancellation interrupts every wait.
//!
//! # Invariant
//! No more is read than the node takes: when its intake is full nothing is read, the pipe fills, and the program at its other end waits.

use std::fs::File;
use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use async_io::Async;
use bursar::flow::{NodeError, NotUtf8};
use bursar::{Receiver, block_on, timeout, unblock};

use super::line::Messages;
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

/// Reads until the end, or until nobody takes it. What goes wrong is the last message.
pub(crate) fn read_all(pipe: &Pipe, reading: Reading, feed: &Feed) {
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
        if over {
            lines.end(&mut items);
        }
        if !feed.put(items) || over {
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
    let first = block_on(async {
        let (mut readable, mut gone) = (pin!(pipe.readable()), pin!(gone.recv_async()));
        poll_fn(|cx| match readable.as_mut().poll(cx) {
            Poll::Ready(result) => Poll::Ready(Some(result)),
            Poll::Pending => gone.as_mut().poll(cx).map(|_| None),
        })
        .await
    });
    match first {
        Some(result) => result.map(|()| true),
        None => block_on(timeout(LAST_WORDS, pipe.readable())).map_or(Ok(false), |result| result.map(|()| true)),
    }
}

/// Writes what comes until no more will.
pub(crate) fn write_all(pipe: &Async<File>, drain: &Drain) -> io::Result<()> {
    let mut gathered = String::new();
    while let Some(line) = drain.next() {
        gathered.push_str(&line);
        while gathered.len() < GATHERED
            && let Some(line) = drain.more()
        {
            gathered.push_str(&line);
        }
        let mut bytes = gathered.as_bytes();
        while !bytes.is_empty() {
            let mut io = pipe.get_ref();
            match io.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => block_on(pipe.writable())?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        gathered.clear();
    }
    Ok(())
}
