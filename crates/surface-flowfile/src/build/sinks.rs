//! Sinks: standard output, files, discard, and stop.
//!
//! Room: driver.
//!
//! # Invariant
//! A line is written whole, or the message fails. What goes to a file is written within a quarter of a second, and at the end. A message is in the file, or held by the node,
//! or it failed: it never counts as delivered too early.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bursar::flow::{Message, NodeError, NodeResult, NodeSpec, Out, Stage, sink};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde_json::Value;

use super::line::written;
use crate::action::Format;

pub(crate) type Print = Arc<dyn Fn(&str) -> io::Result<()> + Send + Sync>;

struct Printer {
    print: Print,
    format: Format,
}

pub(crate) fn print(print: Print, format: Format) -> NodeSpec {
    NodeSpec::stage(Printer { print, format })
}

impl Stage for Printer {
    type In = Value;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_message(&mut self, message: Message<Value>, out: &mut Out<'_, ()>) -> NodeResult {
        match (self.print)(&written(&message.payload, self.format)) {
            // The reader is gone, as after `| head`: the flow ends.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                out.shutdown();
                Ok(())
            }
            Err(error) => Err(NodeError::msg(format!("cannot be printed: {error}")).for_good()),
            Ok(()) => Ok(()),
        }
    }
}

const FLUSH_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes that are collected before a write.
const BUFFER_BYTES: usize = 8 << 10;

struct Writer {
    path: PathBuf,
    append: bool,
    format: Format,
    file: Option<File>,
    /// Lines that are not in the file yet, and the end of each. The node holds them.
    buffer: Vec<u8>,
    ends: VecDeque<usize>,
    /// Each line is written at once, so that each line that fails is its own dead letter.
    one_by_one: bool,
    /// A tick is asked for.
    due: bool,
}

/// `has_dead_letters`: messages that fail become dead letters.
pub(crate) fn write(path: PathBuf, append: bool, format: Format, has_dead_letters: bool) -> NodeSpec {
    let (buffer, ends) = (Vec::new(), VecDeque::new());
    NodeSpec::stage(Writer { path, append, format, file: None, buffer, ends, one_by_one: has_dead_letters, due: false })
}

impl Writer {
    fn cannot_write(&self, error: &io::Error) -> NodeError {
        NodeError::msg(format!("{} cannot be written: {error}", self.path.display())).for_good()
    }

    /// Locks a regular file until it is closed: two writers would mix or truncate each other's lines. On file systems without locks, as some network disks, the file is not locked.
    fn lock(&self, file: &File) -> NodeResult {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let path = self.path.display();
                let by = lock_holder(file).map_or_else(String::new, |by| format!(" ({by})"));
                let why = format!("{path} is locked by another program{by}, which writes it; use another file");
                Err(NodeError::msg(why).for_good())
            }
            _ => Ok(()),
        }
    }

    /// Writes the buffer. Lines that could not be written whole stay in it.
    fn flush(&mut self, out: &Out<'_, ()>) -> NodeResult {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut written = 0;
        let result = loop {
            match file.write(&self.buffer[written..]) {
                _ if written == self.buffer.len() => break Ok(()),
                Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        let mut whole = 0;
        while let Some(end) = self.ends.pop_front_if(|end| *end <= written) {
            whole = end;
        }
        if written > whole {
            remove_partial_line(file, (written - whole) as u64);
        }
        self.buffer.drain(..whole);
        self.ends.iter_mut().for_each(|end| *end -= whole);
        out.in_flight().set(self.ends.len());
        result.map_err(|error| self.cannot_write(&error))
    }
}

/// The process that holds the lock of a file, and its command, if the kernel tells.
fn lock_holder(file: &File) -> Option<String> {
    let inode = format!(":{}", file.metadata().ok()?.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 4711 fe:00:262146 0 EOF
    let process = locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "FLOCK").skip(3);
        let (process, file) = (words.next()?, words.next()?);
        file.ends_with(&inode).then_some(process)
    })?;
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let mut words: Vec<_> = command.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    if let Some(program) = words.first_mut() {
        *program = program.rsplit('/').next().unwrap_or_default().to_owned().into();
    }
    let command = surface_text::units::clip(words.join(" ").trim_end());
    Some(if command.is_empty() { format!("process {process}") } else { format!("process {process}, `{command}`") })
}

/// Removes the beginning of a line from the file again. In a pipe it cannot be removed.
fn remove_partial_line(file: &mut File, bytes: u64) {
    if let Ok(end) = file.stream_position()
        && let Some(before) = end.checked_sub(bytes)
        && file.set_len(before).is_ok()
    {
        let _ = file.seek(SeekFrom::Start(before));
    }
}

impl Stage for Writer {
    type In = Value;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_start(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        let mut options = OpenOptions::new();
        options.create(true).append(self.append);
        if !self.append {
            options.write(true).truncate(false); // only after it is locked
        }
        let wrong = |error: io::Error| self.cannot_write(&error);
        let file = options.open(&self.path).map_err(wrong)?;
        if file.metadata().map_err(wrong)?.is_file() {
            self.lock(&file)?;
            if !self.append {
                file.set_len(0).map_err(wrong)?;
            }
        }
        self.file = Some(file);
        Ok(())
    }

    fn on_message(&mut self, message: Message<Value>, out: &mut Out<'_, ()>) -> NodeResult {
        if self.file.is_none() {
            return Err(NodeError::msg(format!("{} is not open", self.path.display())));
        }
        self.buffer.extend_from_slice(written(&message.payload, self.format).as_bytes());
        self.ends.push_back(self.buffer.len());
        if self.one_by_one || self.buffer.len() >= BUFFER_BYTES {
            let result = self.flush(out);
            if result.is_err() && self.ends.pop_back().is_some() {
                // The message fails, and the policy of the node applies to it; the lines before it stay.
                self.buffer.truncate(self.ends.back().copied().unwrap_or(0));
                out.in_flight().set(self.ends.len());
            }
            return result;
        }
        out.in_flight().set(self.ends.len());
        if !self.due {
            self.due = true;
            out.tick_at(out.now() + FLUSH_INTERVAL);
        }
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        self.due = false;
        self.flush(out)
    }

    fn on_end(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        self.flush(out)
    }

    fn on_stop(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        self.flush(out)
    }
}

pub(crate) fn discard() -> NodeSpec {
    sink(|_: Value| ())
}

struct Stop;

pub(crate) fn stop() -> NodeSpec {
    NodeSpec::stage(Stop)
}

impl Stage for Stop {
    type In = Value;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_message(&mut self, _message: Message<Value>, out: &mut Out<'_, ()>) -> NodeResult {
        out.shutdown();
        Ok(())
    }
}
