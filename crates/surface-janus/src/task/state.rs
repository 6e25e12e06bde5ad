//! One task, whatever engine runs it.
//!
//! Room: state.
//!
//! # Invariant
//! `pending` has one error for each frame that is failing, the innermost last. While one of them is a cancellation, the task is shielded.
//!
//! # Why it holds
//! A frame begins to fail in `fail`, which adds an error unless the frame has one. Leaving it by `raise` hands its error to its caller: it stays where it is, or, if the caller
//! is failing already, is `discard`ed. Whether a frame is failing is known at every instruction, by `ir/verify/flow.rs`.

use std::sync::Arc;

use sched_tasks::{TaskError, yield_now};

use super::channels::{Channel, OpenSelect};
use super::fault::{Failure, Fault, FaultKind, Stopped};
use super::host::{Host, Printed, Spent};
use super::spending::Spending;
use crate::ir::{Function, Op, Piece, Type, Verified};
use crate::limits::PRINTED_BYTES;

/// A program, ready to run.
pub(crate) struct Code {
    pub(crate) program: Verified,
    pub(crate) file: Arc<str>,
    pub(crate) yield_interval: u32,
    /// The names of its functions, which tasks and errors share.
    pub(crate) names: Vec<Arc<str>>,
    /// Of each function, the registers with tasks whose results are read; empty if there is none.
    pub(crate) awaited: Vec<Box<[bool]>>,
}

impl Code {
    pub(crate) fn new(program: Verified, file: Arc<str>, yield_interval: u32) -> Self {
        let functions = &program.module().functions;
        let names = functions.iter().map(|function| function.name.as_str().into()).collect();
        let awaited = functions.iter().map(awaited).collect();
        Self { program, file, yield_interval, names, awaited }
    }

    pub(crate) fn function(&self, number: usize) -> &Function {
        &self.program.module().functions[number]
    }

    /// Whether anything waits for the task that is started into this register.
    pub(crate) fn is_awaited(&self, function: usize, register: u32) -> bool {
        self.awaited[function].get(register as usize).copied().unwrap_or(false)
    }
}

fn awaited(function: &Function) -> Box<[bool]> {
    let mut read = Vec::new();
    for inst in function.blocks.iter().flat_map(|block| &block.code) {
        let (Op::TaskJoin(_, from) | Op::Copy(_, from)) = &inst.op else { continue };
        if function.registers[from.0 as usize].awaited().is_some() {
            read.resize(function.registers.len(), false);
            read[from.0 as usize] = true;
        }
    }
    read.into()
}

/// An engine.
pub(crate) trait Execute: Send + Sync {
    /// Runs a function as the body of a task.
    fn run(&self, state: State<'_>, function: usize, arguments: Vec<Argument>) -> Ended;

    /// How much stack a task of the function needs; 0 if the usual is enough.
    fn stack_bytes(&self, function: usize) -> usize;
}

/// How a task ended, and what it spent. What it held is gone by then.
pub(crate) struct Ended {
    pub(crate) result: Result<i64, Stopped>,
    pub(crate) spent: Spent,
}

/// What all tasks of one run share.
pub(crate) struct Run {
    pub(crate) code: Arc<Code>,
    pub(crate) host: Host,
    pub(crate) engine: Arc<dyn Execute>,
}

/// What a task is called with.
#[derive(Clone)]
pub(crate) enum Argument {
    Int(i64),
    Channel(Arc<Channel>),
}

/// What engines share of one task. The run is borrowed: all tasks of a run share its counter of references, which would go from CPU to CPU.
pub(crate) struct State<'a> {
    pub(crate) run: &'a Arc<Run>,
    pub(crate) spending: Spending,
    pub(super) open_nurseries: usize,
    pub(super) select: OpenSelect,
    pub(super) pending: Vec<Stopped>,
}

/// Runs a function as the body of a task.
pub(crate) fn run_task(run: &Arc<Run>, function: usize, arguments: Vec<Argument>) -> Result<i64, TaskError> {
    let state = State {
        run,
        spending: Spending::new(run.host.interval(run.code.yield_interval)),
        open_nurseries: 0,
        select: OpenSelect::default(),
        pending: Vec::new(),
    };
    // What the task holds is gone when the engine returns, before others can know that it has ended.
    let Ended { result, spent } = run.engine.run(state, function, arguments);
    run.host.add(&spent);
    result.or_else(give_up)
}

/// Ends the task with its error.
pub(super) fn give_up<T>(stopped: Stopped) -> Result<T, TaskError> {
    match stopped {
        Stopped::Fault(fault) => Err(fault.into()),
        Stopped::Task(error) | Stopped::Awaited(error) => Err(error),
        Stopped::Cancelled => {
            yield_now(); // unwinds: a cancelled task does not come back from here
            Err(TaskError::msg("cancelled"))
        }
    }
}

/// What a call of a function takes of the stack that the host allows.
pub(crate) fn call_bytes(function: &Function) -> u64 {
    64 + 8 * function.registers.len() as u64
}

impl State<'_> {
    // ---- the task ----

    /// The task begins, if it has stack for its function. Returns what is left of the stack.
    pub(crate) fn begin(&mut self, function: usize) -> Result<u64, Stopped> {
        let bytes = call_bytes(self.run.code.function(function));
        let begun = self.spending.begin().map_err(Failure::from).and_then(|()| self.call(self.stack_limit(), bytes));
        begun.map_err(|failure| self.with_line(failure, function, 0))
    }

    /// The task ends. What was done before it failed is paid as far as it can be.
    pub(crate) fn end(&mut self, function: usize, ended: Result<i64, Stopped>) -> Result<i64, Stopped> {
        match (self.spending.settle(), ended) {
            (Err(stopped), Ok(_)) => Err(self.with_line(stopped.into(), function, 0)),
            (_, ended) => ended,
        }
    }

    fn stack_limit(&self) -> u64 {
        self.run.host.stack_limit()
    }

    /// What is left of the stack in a call that takes `bytes`.
    pub(crate) fn call(&self, left: u64, bytes: u64) -> Result<u64, Failure> {
        left.checked_sub(bytes).ok_or_else(|| FaultKind::Stack { limit: self.stack_limit() }.into())
    }

    // ---- failing ----

    fn with_line(&self, failure: Failure, function: usize, line: u32) -> Stopped {
        let fault = |kind| Fault {
            kind,
            file: self.run.code.file.clone(),
            function: self.run.code.names[function].clone(),
            line,
        };
        match failure {
            Failure::Kind(kind) => {
                let fault = fault(kind);
                self.run.host.note(&fault);
                Stopped::Fault(fault)
            }
            Failure::Stopped(Stopped::Task(error)) => {
                self.run.host.note(&fault(FaultKind::Refused(error.reason().to_string().into())));
                Stopped::Task(error)
            }
            Failure::Stopped(other) => other,
        }
    }

    /// An instruction of the innermost frame failed. If the frame was failing before, its error stays.
    pub(crate) fn fail(&mut self, failure: Failure, function: usize, line: u32, was_failing: bool) {
        let stopped = self.with_line(failure, function, line);
        if !was_failing {
            self.pending.push(stopped);
        }
        self.look_at_pending();
    }

    /// A call failed in a frame that was failing before: the frame's own error stays.
    pub(crate) fn discard(&mut self) {
        self.pending.pop();
        self.look_at_pending();
    }

    /// The error of the task, when the last frame was left.
    pub(crate) fn error(&mut self) -> Stopped {
        self.pending.pop().expect("the verifier knows that a function which raises is failing")
    }

    /// Whether anything is cleaned up because of a cancellation.
    pub(super) fn look_at_pending(&mut self) {
        self.spending.shielded = self.pending.iter().any(|stopped| matches!(stopped, Stopped::Cancelled));
    }

    // ---- instructions ----

    /// A line of output. `values` are those of the pieces that are values.
    pub(crate) fn print(
        &mut self,
        function: usize,
        pieces: &[Piece],
        values: &[i64],
        line: u32,
    ) -> Result<(), Failure> {
        self.spending.settle()?;
        let run = self.run;
        let mut values = values.iter();
        let mut text = String::new();
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                text.push(' ');
            }
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Value(register) => {
                    let value = values.next().copied().unwrap_or_default();
                    match run.code.function(function).registers[register.0 as usize] {
                        Type::Bool => text.push_str(if value != 0 { "true" } else { "false" }),
                        _ => text.push_str(&value.to_string()),
                    }
                }
            }
        }
        // The program has paid for the first of them.
        self.spending.owe(text.len().saturating_sub(1).try_into().unwrap_or(u32::MAX) / PRINTED_BYTES);
        self.spending.settle()?;
        let spent = self.spending.spent;
        Ok(self.spending.guarded(|| run.host.print(&Printed { text: &text, spent, line }))?)
    }

    /// Lets others run.
    pub(crate) fn yield_now(&mut self) -> Result<(), Failure> {
        self.spending.settle()?;
        Ok(self.spending.guarded(yield_now)?)
    }
}
