//! A program as a node: a source, a stage or a sink, by its edges.
//!
//! Room: surface.
//!
//! # Invariant
//! What the program prints is emitted in order; what comes is written in order; neither is held beyond a few hundred lines. The
//! node ends after its program, and a program that fails is an error of the node.
//!
//! # What is lost
//! A program that is started again gets what the one before had not read. If there is none after it, because it failed too often or the flow was stopped, those messages are lost, and counted so
//! ([`NodeStats::lost`](bursar::flow::NodeStats::lost)); the error says how many. A program that ended well did not want them, as `head`: they are
//! [`unwanted`](bursar::flow::NodeStats::unwanted).
//!
//! # What is not known
//! What a program had read when it failed counts as delivered: pipes do not tell what it did with that. A program that reads ahead, as most do whose input is a pipe (`awk`, `python`, anything with the buffers of C),
//! takes up to some ten thousand bytes of lines with it. A shell's `read` takes one line.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use bursar::flow::{Message, NodeError, NodeResult, NodeSpec, Out, Produced, Source, Stage};
use serde_json::Value;

use super::Stderr;
use super::line::written;
use super::process::{self, End, Ends, Program};
use super::wire::Next;
use crate::action::Command;

/// A program by its edges.
pub(crate) fn node(command: Command, base: PathBuf, ends: Ends, stderr: Option<Arc<Stderr>>) -> NodeSpec {
    let keeper =
        Keeper { command, base, ends, stderr, program: None, late: VecDeque::new(), restarts: 0, given_up: None };
    if ends.reads { NodeSpec::stage(Through { keeper, input_over: false }) } else { NodeSpec::source(From(keeper)) }
}

/// Starts the program, and again if it fails.
struct Keeper {
    command: Command,
    base: PathBuf,
    ends: Ends,
    stderr: Option<Arc<Stderr>>,
    program: Option<Program>,
    /// Lines that a program did not read before it ended, for the next one.
    late: VecDeque<String>,
    restarts: u32,
    /// Why there is no program and will be none: it ended well, or failed too often.
    given_up: Option<Result<(), String>>,
}

impl Keeper {
    fn start(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        let (waker, custody) = (out.waker(), out.in_flight().clone());
        let errors = self.stderr.clone().map(|told| (told, out.node().to_owned()));
        match process::start(&self.command, &self.base, self.ends, errors, &waker, &custody, |task| out.spawn(task)) {
            Ok(program) => {
                self.program = Some(program);
                Ok(())
            }
            Err(why) => {
                self.given_up = Some(Err(why.clone()));
                Err(NodeError::msg(why).for_good())
            }
        }
    }

    /// What it printed next; [`Next::Over`] also if nobody reads that.
    fn next(&mut self) -> Next {
        match self.program.as_mut().and_then(|program| program.prints.as_mut()) {
            Some(prints) => prints.next(),
            None => Next::Over,
        }
    }

    /// Asked when it prints no more: whether it has ended, and what becomes of that.
    ///
    /// # Errors
    /// It failed; it may have been started again.
    fn settle(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        let Some(End { result, mut unread }) = self.program.as_mut().and_then(Program::ended) else { return Ok(()) };
        self.program = None;
        unread.append(&mut self.late);
        let Err(why) = result else {
            self.given_up = Some(Ok(()));
            out.in_flight().remove(unread.len());
            out.decline(unread.len() as u64);
            out.finish(); // it wants no more, as `head`: neither do those that feed only it
            return Ok(());
        };
        if self.restarts == self.command.restart {
            self.given_up = Some(Err(why.clone()));
            out.in_flight().remove(unread.len());
            out.lose(unread.len() as u64);
            let lost = match unread.len() {
                0 => String::new(),
                1 => "; 1 message that it had not read is lost".to_owned(),
                count => format!("; {count} messages that it had not read are lost"),
            };
            return Err(NodeError::msg(format!("{why}{lost}")).for_good());
        }
        self.late = unread;
        self.restarts += 1;
        self.start(out)?;
        out.waker().wake();
        Err(NodeError::msg(format!("{why}; started again, {} of {} times", self.restarts, self.command.restart)))
    }
}

/// A program without input.
struct From(Keeper);

impl Source for From {
    type Out = Value;

    fn on_start(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        self.0.start(out)
    }

    fn produce(&mut self, out: &mut Out<'_, Value>) -> Result<Produced, NodeError> {
        match self.0.next() {
            Next::Item(item) => {
                out.emit(item?);
                Ok(Produced::More)
            }
            Next::Nothing => Ok(Produced::Idle),
            Next::Over => {
                self.0.settle(out)?;
                Ok(if self.0.given_up.is_some() { Produced::End } else { Produced::Idle })
            }
        }
    }
}

/// A program with input, and perhaps output.
struct Through {
    keeper: Keeper,
    input_over: bool,
}

impl Through {
    fn prints(&self) -> bool {
        self.keeper.ends.prints
    }
}

impl Stage for Through {
    type In = Value;
    type Out = Value;

    fn outputs(&self) -> Vec<String> {
        if self.prints() { vec!["out".to_owned()] } else { Vec::new() }
    }

    fn on_start(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        self.keeper.start(out)
    }

    fn on_message(&mut self, message: Message<Value>, out: &mut Out<'_, Value>) -> NodeResult {
        if let Some(Err(why)) = &self.keeper.given_up {
            return Err(NodeError::msg(format!("there is no program to take it: {why}")));
        }
        let Some(program) = &mut self.keeper.program else {
            out.decline(1); // it ended well and wanted no more, as `head` does
            return Ok(());
        };
        out.in_flight().add(1);
        let line = written(&message.payload, self.keeper.command.reading.format);
        let kept = match &mut program.reads {
            Some(reads) => reads.put(line),
            None => Err(line), // it has ended, and what it left unread is not known yet: this comes after that
        };
        self.keeper.late.extend(kept.err());
        Ok(())
    }

    fn on_wake(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        if let Some(reads) = self.keeper.program.as_mut().and_then(|program| program.reads.as_mut())
            && let Err(line) = reads.push()
        {
            self.keeper.late.push_front(line); // it was taken before those that wait for room behind it
        }
        self.give_late();
        if self.input_over {
            self.close_input();
        }
        let mut emitted = false;
        loop {
            match self.keeper.next() {
                // What was emitted in a call that fails is taken back, so a failure has a call of its own; and what follows it has the next.
                Next::Item(Err(error)) if !emitted => {
                    out.waker().wake();
                    return Err(error);
                }
                Next::Item(Ok(value)) if out.room() > 0 => {
                    out.emit(value);
                    emitted = true;
                }
                Next::Item(item) => {
                    if let Some(prints) = self.keeper.program.as_mut().and_then(|program| program.prints.as_mut()) {
                        prints.put_back(item);
                    }
                    out.waker().wake();
                    return Ok(());
                }
                Next::Nothing => return Ok(()),
                Next::Over if emitted => {
                    out.waker().wake();
                    return Ok(());
                }
                Next::Over => break,
            }
        }
        let settled = self.keeper.settle(out);
        self.give_late();
        if self.input_over {
            self.close_input();
        }
        settled
    }

    fn bad_record(&self, record: &[u8]) -> Option<Value> {
        Some(Value::String(String::from_utf8_lossy(record).into_owned()))
    }

    fn on_end(&mut self, _out: &mut Out<'_, Value>) -> NodeResult {
        self.input_over = true;
        self.close_input();
        Ok(())
    }

    fn accepts(&self) -> bool {
        // A program that has ended takes no more, but the node wants to know how it ended first.
        let has_room = |program: &Program| program.reads.as_ref().is_some_and(|reads| reads.has_room());
        self.keeper.late.is_empty() && self.keeper.program.as_ref().is_none_or(has_room)
    }

    /// After the last message: whether the program has ended, too.
    fn is_done(&self) -> bool {
        !self.input_over || self.keeper.given_up.is_some()
    }
}

impl Through {
    /// Gives the program what the one before had not read, as far as there is room; the node is woken when there is more.
    fn give_late(&mut self) {
        let Keeper { program, late, .. } = &mut self.keeper;
        let Some(reads) = program.as_mut().and_then(|program| program.reads.as_mut()) else { return };
        while reads.has_room()
            && let Some(line) = late.pop_front()
        {
            if let Err(line) = reads.put(line) {
                return late.push_front(line); // it reads no more
            }
        }
    }

    /// No more lines; those on their way are still written.
    fn close_input(&mut self) {
        if self.keeper.late.is_empty()
            && let Some(program) = &mut self.keeper.program
            && program.reads.as_ref().is_some_and(|reads| reads.has_room())
        {
            program.reads = None;
        }
    }
}
