//! One task: frames, registers, the next instruction.
//!
//! Room: driver.
//!
//! # Invariant
//! `frames` has the calls of the task, the innermost last; `registers` has theirs, one frame behind the other. A frame that is failing has its error in `pending`, and runs only what cleans up.

use std::rc::Rc;
use std::sync::Arc;

use sched_tasks::{Nursery, TaskError, yield_now};

use super::channels::{Channel, OpenSelect};
use super::fault::{Failure, Fault, FaultKind, Stopped};
use super::host::{Host, Printed};
use super::spending::Spending;
use super::tasks::Handle;
use crate::ir::{Arithmetic, BlockId, Callee, Comparison, End, Inst, Op, Piece, Reg, Type, Verified};

/// What runs: a program, and where.
pub(crate) struct Engine {
    pub(crate) program: Verified,
    pub(crate) file: Arc<str>,
    pub(crate) yield_interval: u32,
}

/// What a task is called with.
#[derive(Clone)]
pub(crate) enum Argument {
    Int(i64),
    Channel(Arc<Channel>),
}

/// A register. A bool is 0 or 1.
#[derive(Clone)]
pub(super) enum Slot {
    Empty,
    Int(i64),
    Channel(Arc<Channel>),
    Task(Rc<Handle>),
}

struct Frame {
    function: usize,
    block: usize,
    /// The next instruction of the block.
    at: usize,
    /// Where its registers begin.
    base: usize,
    /// Where the caller wants the result.
    result: Option<Reg>,
    bytes: u64,
    pending: Option<Stopped>,
}

pub(super) struct Machine {
    pub(super) engine: Arc<Engine>,
    pub(super) host: Host,
    pub(super) spending: Spending,
    pub(super) open_nurseries: usize,
    pub(super) select: OpenSelect,
    frames: Vec<Frame>,
    registers: Vec<Slot>,
    stack: u64,
}

/// Why the machine stands still.
enum Exit {
    /// The task's function returned, or failed.
    Ended(Result<i64, Stopped>),
    /// The innermost nursery ends here; an error if what is owed cannot be paid.
    NurseryEnds(Result<(), Stopped>),
}

/// Runs a function as the body of a task.
pub(crate) fn run_task(
    engine: &Arc<Engine>,
    host: &Host,
    function: usize,
    arguments: Vec<Argument>,
) -> Result<i64, TaskError> {
    let spending = Spending::new(host.interval(engine.yield_interval));
    let mut machine = Machine {
        engine: engine.clone(),
        host: host.clone(),
        spending,
        open_nurseries: 0,
        select: OpenSelect::default(),
        frames: Vec::new(),
        registers: Vec::new(),
        stack: 0,
    };
    let ended = machine.task(function, arguments);
    let (host, spent) = (machine.host.clone(), machine.spending.spent);
    drop(machine); // what it holds is gone before others can know that it has ended
    host.add(&spent);
    ended.or_else(give_up)
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

impl Machine {
    fn task(&mut self, function: usize, arguments: Vec<Argument>) -> Result<i64, Stopped> {
        let arguments = arguments.into_iter().map(|argument| match argument {
            Argument::Int(value) => Slot::Int(value),
            Argument::Channel(channel) => Slot::Channel(channel),
        });
        let begun =
            self.spending.begin().map_err(Failure::from).and_then(|()| self.enter(function, arguments.collect(), None));
        if let Err(failure) = begun {
            return Err(self.with_line(failure, function, 0));
        }
        let Exit::Ended(ended) = self.run(None) else { unreachable!("a nursery ends in the function it begins in") };
        // What was done before it failed is paid as far as it can be.
        match (self.spending.settle(), ended) {
            (Err(stopped), Ok(_)) => Err(self.with_line(stopped.into(), function, 0)),
            (_, ended) => ended,
        }
    }

    // ---- frames ----

    fn enter(&mut self, function: usize, arguments: Vec<Slot>, result: Option<Reg>) -> Result<(), Failure> {
        let count = self.engine.program.module().functions[function].registers.len();
        let bytes = 64 + 8 * count as u64;
        let limit = self.host.stack_limit();
        if self.stack + bytes > limit {
            return Err(FaultKind::Stack { limit }.into());
        }
        self.stack += bytes;
        let base = self.registers.len();
        self.registers.extend(arguments);
        self.registers.resize(base + count, Slot::Empty);
        self.frames.push(Frame { function, block: 0, at: 0, base, result, bytes, pending: None });
        Ok(())
    }

    /// Leaves the innermost frame. None if it was the task's.
    fn leave(&mut self) -> (Frame, bool) {
        let frame = self.frames.pop().expect("a frame that is left was entered");
        self.registers.truncate(frame.base);
        self.stack -= frame.bytes;
        let is_last = self.frames.is_empty();
        (frame, is_last)
    }

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a machine that runs has a frame")
    }

    pub(super) fn get(&self, reg: Reg) -> &Slot {
        let base = self.frames.last().map_or(0, |frame| frame.base);
        &self.registers[base + reg.0 as usize]
    }

    pub(super) fn set(&mut self, reg: Reg, value: Slot) {
        let base = self.frame().base;
        self.registers[base + reg.0 as usize] = value;
    }

    pub(super) fn int(&self, reg: Reg) -> i64 {
        match self.get(reg) {
            Slot::Int(value) => *value,
            _ => unreachable!("the verifier knows the type of %{}, and that it was written", reg.0),
        }
    }

    pub(super) fn set_int(&mut self, reg: Reg, value: i64) {
        self.set(reg, Slot::Int(value));
    }

    pub(super) fn arguments(&self, callee: &Callee) -> Vec<Slot> {
        callee.arguments.iter().map(|argument| self.get(*argument).clone()).collect()
    }

    // ---- failing ----

    fn with_line(&self, failure: Failure, function: usize, line: u32) -> Stopped {
        let fault = |kind| Fault {
            kind,
            file: self.engine.file.clone(),
            function: self.engine.program.module().functions[function].name.as_str().into(),
            line,
        };
        match failure {
            Failure::Kind(kind) => {
                let fault = fault(kind);
                self.host.note(&fault);
                Stopped::Fault(fault)
            }
            Failure::Stopped(Stopped::Task(error)) => {
                self.host.note(&fault(FaultKind::Refused(error.reason().to_string().into())));
                Stopped::Task(error)
            }
            Failure::Stopped(other) => other,
        }
    }

    /// The frame is failing from now on; an error that was pending stays.
    fn fail(&mut self, stopped: Stopped, on_error: Option<BlockId>) -> Option<Exit> {
        let frame = self.frame();
        frame.pending.get_or_insert(stopped);
        self.look_at_pending();
        match on_error {
            Some(BlockId(block)) => {
                let frame = self.frame();
                (frame.block, frame.at) = (block as usize, 0);
                None
            }
            None => self.raise(),
        }
    }

    /// Whether anything is cleaned up because of a cancellation.
    fn look_at_pending(&mut self) {
        self.spending.shielded = self.frames.iter().any(|frame| matches!(frame.pending, Some(Stopped::Cancelled)));
    }

    /// Leaves a failing frame. Its error is that of the call, in the frame around it.
    fn raise(&mut self) -> Option<Exit> {
        loop {
            let (frame, is_last) = self.leave();
            let stopped = frame.pending.expect("the verifier knows that a function which raises is failing");
            if is_last {
                return Some(Exit::Ended(Err(stopped)));
            }
            let engine = self.engine.clone();
            let caller = self.frame();
            let block = &engine.program.module().functions[caller.function].blocks[caller.block];
            caller.pending.get_or_insert(stopped);
            self.look_at_pending();
            if let Some(BlockId(target)) = block.on_error {
                let caller = self.frame();
                (caller.block, caller.at) = (target as usize, 0);
                return None;
            }
        }
    }

    /// What the innermost frame is failing with.
    pub(super) fn pending(&self) -> Option<&Stopped> {
        self.frames.last().and_then(|frame| frame.pending.as_ref())
    }

    /// The end of a nursery said more than what led to it.
    pub(super) fn replace_pending(&mut self, stopped: Stopped) {
        self.frame().pending = Some(stopped);
        self.look_at_pending();
    }

    // ---- running ----

    /// Runs until the task ends, or the nursery that is passed does.
    fn run<'scope>(&mut self, nursery: Option<&'scope Nursery<'scope, '_>>) -> Exit {
        let engine = self.engine.clone();
        let functions = &engine.program.module().functions;
        loop {
            let frame = self.frame();
            let function = frame.function;
            let block = &functions[function].blocks[frame.block];
            let Some(Inst { op, line }) = block.code.get(frame.at) else {
                if let Some(exit) = self.end(&block.end) {
                    return exit;
                }
                continue;
            };
            frame.at += 1;
            let done = match op {
                Op::NurseryBegin(_) => self.nursery(|machine, nursery| match machine.run(Some(nursery)) {
                    Exit::NurseryEnds(paid) => paid,
                    Exit::Ended(_) => unreachable!("the verifier knows that no function ends while a nursery is open"),
                }),
                Op::NurseryEnd(_) => return Exit::NurseryEnds(self.spending.settle()),
                Op::TaskCreate(to, callee) => match nursery {
                    Some(nursery) => self.create_task(nursery, *to, callee),
                    None => unreachable!("the verifier knows that a nursery is open"),
                },
                op => self.step(op, *line),
            };
            if let Err(failure) = done {
                let frame = self.frame();
                // A call that failed in its callee is in another block by now.
                let block = &functions[frame.function].blocks[frame.block];
                let stopped = self.with_line(failure, function, *line);
                if let Some(exit) = self.fail(stopped, block.on_error) {
                    return exit;
                }
            }
        }
    }

    fn end(&mut self, end: &End) -> Option<Exit> {
        match end {
            End::Jump(BlockId(to)) => self.go(*to),
            End::Branch(on, BlockId(then), BlockId(otherwise)) => {
                let to = if self.int(*on) != 0 { *then } else { *otherwise };
                self.go(to);
            }
            End::Return(value) => {
                let value = value.map_or(0, |value| self.int(value));
                let (frame, is_last) = self.leave();
                if is_last {
                    return Some(Exit::Ended(Ok(value)));
                }
                if let Some(to) = frame.result {
                    self.set_int(to, value);
                }
            }
            End::Raise => return self.raise(),
        }
        None
    }

    fn go(&mut self, block: u32) {
        let frame = self.frame();
        (frame.block, frame.at) = (block as usize, 0);
    }

    fn step(&mut self, op: &Op, line: u32) -> Result<(), Failure> {
        match op {
            Op::Const(to, value) => self.set_int(*to, *value),
            Op::ConstBool(to, value) => self.set_int(*to, (*value).into()),
            Op::Copy(to, from) => {
                let value = self.get(*from).clone();
                self.set(*to, value);
            }
            Op::Neg(to, from) => {
                let value = self.int(*from).checked_neg().ok_or(FaultKind::Overflow)?;
                self.set_int(*to, value);
            }
            Op::Not(to, from) => {
                let value = self.int(*from) ^ 1;
                self.set_int(*to, value);
            }
            Op::Arithmetic(operator, to, a, b) => {
                let value = calculate(*operator, self.int(*a), self.int(*b))?;
                self.set_int(*to, value);
            }
            Op::Compare(operator, to, a, b) => {
                let value = compare(*operator, self.int(*a), self.int(*b));
                self.set_int(*to, value.into());
            }
            Op::Call(to, callee) => {
                let arguments = self.arguments(callee);
                self.enter(callee.function.0 as usize, arguments, *to)?;
            }
            Op::Print(pieces) => {
                self.spending.settle()?;
                self.print(pieces, line)?;
            }
            Op::BudgetCheck => self.spending.check()?,
            Op::BudgetDecrement(operations) => self.spending.owe(*operations),
            Op::Yield => {
                self.spending.settle()?;
                self.spending.guarded(yield_now)?;
            }
            Op::TaskJoin(to, task) => {
                self.spending.settle()?;
                self.join(*to, *task)?;
            }
            Op::NurseryBegin(_) | Op::NurseryEnd(_) | Op::TaskCreate(..) => unreachable!("`run` does them"),
            Op::Spawn(..) | Op::AsyncCall(..) | Op::Await(..) => unreachable!("the verifier refuses them"),
            _ => self.channel_step(op)?,
        }
        Ok(())
    }

    fn print(&mut self, pieces: &[Piece], line: u32) -> Result<(), Stopped> {
        let mut text = String::new();
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                text.push(' ');
            }
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Value(reg) => match (self.type_of(*reg), self.int(*reg)) {
                    (Type::Bool, value) => text.push_str(if value != 0 { "true" } else { "false" }),
                    (_, value) => text.push_str(&value.to_string()),
                },
            }
        }
        let (host, spent) = (self.host.clone(), self.spending.spent);
        self.spending.guarded(|| host.print(&Printed { text: &text, spent, line }))
    }

    fn type_of(&self, reg: Reg) -> Type {
        let function = self.frames.last().map_or(0, |frame| frame.function);
        self.engine.program.module().functions[function].registers[reg.0 as usize]
    }
}

fn calculate(operator: Arithmetic, a: i64, b: i64) -> Result<i64, FaultKind> {
    let is_division = matches!(operator, Arithmetic::Div | Arithmetic::Rem);
    if is_division && b == 0 {
        return Err(FaultKind::DivisionByZero);
    }
    let value = match operator {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Sub => a.checked_sub(b),
        Arithmetic::Mul => a.checked_mul(b),
        Arithmetic::Div => a.checked_div(b),
        Arithmetic::Rem => a.checked_rem(b),
    };
    value.ok_or(FaultKind::Overflow)
}

fn compare(operator: Comparison, a: i64, b: i64) -> bool {
    match operator {
        Comparison::Eq => a == b,
        Comparison::Ne => a != b,
        Comparison::Lt => a < b,
        Comparison::Le => a <= b,
        Comparison::Gt => a > b,
        Comparison::Ge => a >= b,
    }
}
