//! Lines into a file.
//!
//! Room: interface.
//!
//! # Invariant
//! A message that was handled without an error is in the file, or in the buffer that goes there next. A message fails only if it is in neither.

use std::{collections::VecDeque, io::Write, path::PathBuf, time::Duration};

use sched_tasks::fs::{self, File};

use crate::{
    error::{NodeError, NodeResult},
    message::{Message, Time},
    node::{NodeSpec, Out, Stage},
};

/// Bytes that are written at a time.
const CHUNK: usize = 64 << 10;

/// Writes `String`s into a file, a line for each. The file is overwritten, unless it is set to [append](LinesOut::append).
///
/// Lines are buffered, and written when there are 64 KiB, at the latest after 100 ms, and at the end. A write error is an error of the node; the lines are kept and
/// tried again.
///
/// ```
/// use bursar::flow::{Harness, lines_out};
///
/// let path = std::env::temp_dir().join(format!("bursar-lines-out-{}", std::process::id()));
/// let mut node = Harness::new(lines_out(&path));
/// node.send("in", "one".to_string())?;
/// node.end();
/// assert_eq!(std::fs::read_to_string(&path)?, "one\n");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn lines_out(path: impl Into<PathBuf>) -> LinesOut {
    LinesOut { path: path.into(), append: false, flush_after: Duration::from_millis(100) }
}

/// Writes lines into a file; made by [`lines_out`].
#[derive(Debug, Clone)]
pub struct LinesOut {
    path: PathBuf,
    append: bool,
    flush_after: Duration,
}

impl LinesOut {
    /// Appends to the file.
    pub fn append(mut self) -> Self {
        self.append = true;
        self
    }

    /// The longest time until a line is written; 100 ms by default.
    pub fn flush_after(mut self, time: Duration) -> Self {
        self.flush_after = time;
        self
    }

    /// The node, to change the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        NodeSpec::stage(Writer {
            options: self,
            file: None,
            buffer: VecDeque::new(),
            lengths: VecDeque::new(),
            due: None,
        })
    }
}

impl From<LinesOut> for NodeSpec {
    fn from(lines: LinesOut) -> NodeSpec {
        lines.spec()
    }
}

struct Writer {
    options: LinesOut,
    file: Option<File>,
    buffer: VecDeque<u8>,
    /// The bytes of each line in the buffer.
    lengths: VecDeque<usize>,
    due: Option<Time>,
}

impl Writer {
    fn file(&mut self) -> Result<&mut File, NodeError> {
        if self.file.is_none() {
            let LinesOut { path, append, .. } = &self.options;
            let opened = fs::File::options().write(true).create(true).append(*append).truncate(!*append).open(path)?;
            self.file = Some(opened);
        }
        Ok(self.file.as_mut().expect("opened"))
    }

    /// Writes the buffer. What could not be written stays.
    fn flush(&mut self, out: &Out<'_, ()>) -> NodeResult {
        self.due = None;
        while !self.buffer.is_empty() {
            let mut buffer = std::mem::take(&mut self.buffer);
            let result = self.file().and_then(|file| Ok(file.write(buffer.make_contiguous())?));
            self.buffer = buffer;
            match result {
                Ok(0) => return Err(NodeError::msg(format!("{} takes no more bytes", self.options.path.display()))),
                Ok(written) => self.written(written, out),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn written(&mut self, mut bytes: usize, out: &Out<'_, ()>) {
        self.buffer.drain(..bytes);
        while let Some(length) = self.lengths.pop_front_if(|length| *length <= bytes) {
            bytes -= length;
        }
        if let Some(first) = self.lengths.front_mut() {
            *first -= bytes;
        }
        out.in_flight().set(self.lengths.len());
    }
}

impl Stage for Writer {
    type In = String;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_start(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.file().map(drop)
    }

    fn on_message(&mut self, message: Message<String>, out: &mut Out<'_, ()>) -> NodeResult {
        // The buffer first: if that fails, this line has not been taken, and may be tried again.
        if self.buffer.len() >= CHUNK {
            self.flush(out)?;
        }
        self.buffer.extend(message.payload.as_bytes());
        self.buffer.push_back(b'\n');
        self.lengths.push_back(message.payload.len() + 1);
        out.in_flight().set(self.lengths.len());
        if self.due.is_none() {
            let due = out.now() + self.options.flush_after;
            self.due = Some(due);
            out.tick_at(due);
        }
        Ok(())
    }

    fn on_tick(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        let result = self.flush(out);
        if result.is_err() {
            let due = out.now() + self.options.flush_after.max(Duration::from_millis(100));
            self.due = Some(due);
            out.tick_at(due);
        }
        result
    }

    fn on_end(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        self.flush(out)
    }

    fn on_stop(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        self.flush(out)
    }
}
