//! A program as a node: a source, a stage or a sink, depending on its edges.
//!
//! Room: driver.
//!
//! # Invariant
//! Lines that the program prints are emitted in order, and messages are written to it in order; at most a few hundred lines are buffered each way. The
//! node ends after its program, and a program that fails is an error of the node.
//!
//! # What is lost
//! A restarted program gets the messages that the one before had not read. If it is not restarted, because it failed too often or the flow was stopped, those messages are lost, and counted as such
//! ([`NodeStats::lost`](bursar::flow::NodeStats::lost)); the error says how many. A program that ended well did not want them, as `head`: they are
//! [`unwanted`](bursar::flow::NodeStats::unwanted).
//!
//! # What is not known
//! What a program had read when it failed counts as delivered: a pipe does not tell what the program did with it. A program that reads ahead, as most do whose input is a pipe (`awk`, `python`, anything with the buffers of C),
//! loses up to some ten thousand bytes of lines. `read` of a shell loses one line.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use bursar::flow::{Message, NodeError, NodeResult, NodeSpec, Out, Produced, Source, Stage};
use serde_json::Value;

use super::Stderr;
use super::keepers::KeeperPool;
use super::line::written;
use super::process::{self, End, Ends, Program};
use super::wire::Next;
use crate::action::Command;

/// The node of a program.
pub(crate) fn node(
    command: Command,
    base: PathBuf,
    ends: Ends,
    keepers: Arc<KeeperPool>,
    stderr: Option<Arc<Stderr>>,
) -> NodeSpec {
    let (program, pending, restarts, given_up) = (None, VecDeque::new(), 0, None);
    let supervisor = Supervisor { command, base, ends, keepers, stderr, program, pending, restarts, given_up };
    if ends.reads {
        NodeSpec::stage(ProgramStage { supervisor, input_over: false })
    } else {
        NodeSpec::source(ProgramSource(supervisor))
    }
}

/// Starts the program, and restarts it after a failure.
struct Supervisor {
    command: Command,
    base: PathBuf,
    ends: Ends,
    keepers: Arc<KeeperPool>,
    stderr: Option<Arc<Stderr>>,
    program: Option<Program>,
    /// Lines that a program did not read before it ended, for the restarted one.
    pending: VecDeque<String>,
    restarts: u32,
    /// Set when there will be no further program: it ended with code 0, or failed too often.
    given_up: Option<Result<(), String>>,
}

impl Supervisor {
    fn start(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        let (waker, in_flight) = (out.waker(), out.in_flight().clone());
        let errors = self.stderr.clone().map(|report| (report, out.node().to_owned()));
        let spawn = |task| out.spawn(task);
        let Self { command, base, ends, keepers, .. } = self;
        match process::start(command, base, *ends, keepers, errors, &waker, &in_flight, spawn) {
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

    /// The next line it printed; [`Next::Over`] also if no edge takes its output.
    fn next(&mut self) -> Next {
        match self.program.as_mut().and_then(|program| program.prints.as_mut()) {
            Some(prints) => prints.next(),
            None => Next::Over,
        }
    }

    /// Called when its output has ended: checks whether the program has, and restarts it or gives up.
    ///
    /// # Errors
    /// It failed; it may have been restarted.
    fn settle(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        let Some(End { result, mut unread }) = self.program.as_mut().and_then(Program::ended) else { return Ok(()) };
        self.program = None;
        unread.append(&mut self.pending);
        let Err(why) = result else {
            self.given_up = Some(Ok(()));
            out.in_flight().remove(unread.len());
            out.decline(unread.len() as u64);
            out.finish(); // it takes no more, as `head`: the nodes that feed only this one end, too
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
        self.pending = unread;
        self.restarts += 1;
        self.start(out)?;
        out.waker().wake();
        Err(NodeError::msg(format!("{why}; restart {} of {}", self.restarts, self.command.restart)))
    }
}

/// A program without input.
struct ProgramSource(Supervisor);

impl Source for ProgramSource {
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
struct ProgramStage {
    supervisor: Supervisor,
    input_over: bool,
}

impl ProgramStage {
    fn prints(&self) -> bool {
        self.supervisor.ends.prints
    }
}

impl Stage for ProgramStage {
    type In = Value;
    type Out = Value;

    fn outputs(&self) -> Vec<String> {
        if self.prints() { vec!["out".to_owned()] } else { Vec::new() }
    }

    fn on_start(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        self.supervisor.start(out)
    }

    fn on_message(&mut self, message: Message<Value>, out: &mut Out<'_, Value>) -> NodeResult {
        if let Some(Err(why)) = &self.supervisor.given_up {
            return Err(NodeError::msg(format!("no program runs that could read it: {why}")));
        }
        let Some(program) = &mut self.supervisor.program else {
            out.decline(1); // it ended with code 0 and takes no more, as `head` does
            return Ok(());
        };
        out.in_flight().add(1);
        let line = written(&message.payload, self.supervisor.command.reading.format);
        let kept = match &mut program.reads {
            Some(reads) => reads.put(line),
            None => Err(line), // it has ended, and its unread lines are not known yet: this line comes after them
        };
        self.supervisor.pending.extend(kept.err());
        Ok(())
    }

    fn on_wake(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        if let Some(reads) = self.supervisor.program.as_mut().and_then(|program| program.reads.as_mut())
            && let Err(line) = reads.push()
        {
            self.supervisor.pending.push_front(line); // it came before the lines that wait
        }
        self.send_pending();
        if self.input_over {
            self.close_input();
        }
        let mut emitted = false;
        loop {
            match self.supervisor.next() {
                // Messages emitted in a call that fails are discarded, so an error gets a call of its own, and the lines after it the next call.
                Next::Item(Err(error)) if !emitted => {
                    out.waker().wake();
                    return Err(error);
                }
                Next::Item(Ok(value)) if out.room() > 0 => {
                    out.emit(value);
                    emitted = true;
                }
                Next::Item(item) => {
                    if let Some(prints) = self.supervisor.program.as_mut().and_then(|program| program.prints.as_mut()) {
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
        let settled = self.supervisor.settle(out);
        self.send_pending();
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
        // A program that has ended takes no more, but the node must first learn how it ended.
        let has_room = |program: &Program| program.reads.as_ref().is_some_and(|reads| reads.has_room());
        self.supervisor.pending.is_empty() && self.supervisor.program.as_ref().is_none_or(has_room)
    }

    /// After the last message: whether the program has ended.
    fn is_done(&self) -> bool {
        !self.input_over || self.supervisor.given_up.is_some()
    }
}

impl ProgramStage {
    /// Writes the lines that the program before had not read, as far as there is room; the node is woken when there is more.
    fn send_pending(&mut self) {
        let Supervisor { program, pending, .. } = &mut self.supervisor;
        let Some(reads) = program.as_mut().and_then(|program| program.reads.as_mut()) else { return };
        while reads.has_room()
            && let Some(line) = pending.pop_front()
        {
            if let Err(line) = reads.put(line) {
                return pending.push_front(line); // it reads no more
            }
        }
    }

    /// No more lines will come; those in transit are still written.
    fn close_input(&mut self) {
        if self.supervisor.pending.is_empty()
            && let Some(program) = &mut self.supervisor.program
            && program.reads.as_ref().is_some_and(|reads| reads.has_room())
        {
            program.reads = None;
        }
    }
}
