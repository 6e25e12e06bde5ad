//! Sinks: standard output, files, nothing, and the end of it all.
//!
//! Room: surface. Writes files.
//!
//! # Invariant
//! A line is written whole, or the message fails. What was written to a file is flushed within a quarter of a second, and at the end.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bursar::flow::{Message, NodeError, NodeResult, NodeSpec, Out, Stage, sink};
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
            // Nobody looks any more, as after `| head`: there is nothing left to do it for.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                out.shutdown();
                Ok(())
            }
            other => Ok(other?),
        }
    }
}

const FLUSHED: Duration = Duration::from_millis(250);

struct Writer {
    path: PathBuf,
    append: bool,
    format: Format,
    file: Option<BufWriter<File>>,
    /// A tick is asked for.
    due: bool,
}

pub(crate) fn write(path: PathBuf, append: bool, format: Format) -> NodeSpec {
    NodeSpec::stage(Writer { path, append, format, file: None, due: false })
}

impl Writer {
    fn wrong(&self, error: &io::Error) -> NodeError {
        NodeError::msg(format!("{} cannot be written: {error}", self.path.display())).for_good()
    }

    fn flush(&mut self) -> NodeResult {
        self.due = false;
        match self.file.as_mut().map(Write::flush) {
            Some(Err(error)) => Err(self.wrong(&error)),
            _ => Ok(()),
        }
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
            options.write(true).truncate(true);
        }
        let file = options.open(&self.path).map_err(|error| self.wrong(&error))?;
        self.file = Some(BufWriter::new(file));
        Ok(())
    }

    fn on_message(&mut self, message: Message<Value>, out: &mut Out<'_, ()>) -> NodeResult {
        let line = written(&message.payload, self.format);
        let Some(file) = &mut self.file else {
            return Err(NodeError::msg(format!("{} is not open", self.path.display())));
        };
        if let Err(error) = file.write_all(line.as_bytes()) {
            return Err(self.wrong(&error));
        }
        if !self.due {
            self.due = true;
            out.tick_at(out.now() + FLUSHED);
        }
        Ok(())
    }

    fn on_tick(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.flush()
    }

    fn on_end(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.flush()
    }

    fn on_stop(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.flush()
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
