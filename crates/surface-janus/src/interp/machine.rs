//! One task: frames, registers, the next instruction.
//!
//! Room: driver.
//!
//! # Invariant
//! `frames` has the calls of the task, the innermost last; `registers` has theirs, one frame behind the other. A frame that is failing has its error in the state of the task, and runs only what cleans up.

use std::rc::Rc;
use std::sync::Arc;

use sched_tasks::Nursery;

use crate::ir::{Arithmetic, BlockId, Callee, Comparison, End, Inst, Op, Piece, Reg};
use crate::task::{
    Argument, Arrived, Channel, Ended, Execute, Failure, FaultKind, Handle, State, Stopped, call_bytes, nursery,
};

/// The engine.
pub(crate) struct Interpreter;

impl Execute for Interpreter {
    fn run(&self, state: State<'_>, function: usize, arguments: Vec<Argument>) -> Ended {
        let mut machine = Machine { state, frames: Vec::new(), registers: Vec::new(), stack_left: 0 };
        let result = machine.task(function, arguments);
        Ended { result, spent: machine.state.spending.spent }
    }

    fn stack_bytes(&self, _: usize) -> usize {
        0
    }
}

/// A register. A bool is 0 or 1.
#[derive(Clone)]
enum Slot {
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
    is_failing: bool,
}

struct Machine<'a> {
    state: State<'a>,
    frames: Vec<Frame>,
    registers: Vec<Slot>,
    stack_left: u64,
}

/// Why the machine stands still.
enum Exit {
    /// The task's function returned, or failed.
    Ended(Result<i64, Stopped>),
    /// The innermost nursery ends here.
    NurseryEnds(Arrived),
}

impl<'a> AsMut<State<'a>> for Machine<'a> {
    fn as_mut(&mut self) -> &mut State<'a> {
        &mut self.state
    }
}

impl Machine<'_> {
    fn task(&mut self, function: usize, arguments: Vec<Argument>) -> Result<i64, Stopped> {
        self.stack_left = self.state.begin(function)?;
        let arguments = arguments.into_iter().map(|argument| match argument {
            Argument::Int(value) => Slot::Int(value),
            Argument::Channel(channel) => Slot::Channel(channel),
        });
        self.push_frame(function, arguments.collect(), None);
        let Exit::Ended(ended) = self.run(None) else { unreachable!("a nursery ends in the function it begins in") };
        self.state.end(function, ended)
    }

    // ---- frames ----

    fn enter(&mut self, function: usize, arguments: Vec<Slot>, result: Option<Reg>) -> Result<(), Failure> {
        let bytes = call_bytes(self.state.run.code.function(function));
        self.stack_left = self.state.call(self.stack_left, bytes)?;
        self.push_frame(function, arguments, result);
        Ok(())
    }

    fn push_frame(&mut self, function: usize, arguments: Vec<Slot>, result: Option<Reg>) {
        let base = self.registers.len();
        self.registers.extend(arguments);
        self.registers.resize(base + self.state.run.code.function(function).registers.len(), Slot::Empty);
        self.frames.push(Frame { function, block: 0, at: 0, base, result, is_failing: false });
    }

    /// Leaves the innermost frame, and says whether it was the task's.
    fn leave(&mut self) -> (Frame, bool) {
        let frame = self.frames.pop().expect("a frame that is left was entered");
        self.registers.truncate(frame.base);
        self.stack_left += call_bytes(self.state.run.code.function(frame.function));
        let is_last = self.frames.is_empty();
        (frame, is_last)
    }

    fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a machine that runs has a frame")
    }

    fn get(&self, reg: Reg) -> &Slot {
        let base = self.frames.last().map_or(0, |frame| frame.base);
        &self.registers[base + reg.0 as usize]
    }

    fn set(&mut self, reg: Reg, value: Slot) {
        let base = self.frame().base;
        self.registers[base + reg.0 as usize] = value;
    }

    fn int(&self, reg: Reg) -> i64 {
        match self.get(reg) {
            Slot::Int(value) => *value,
            _ => unreachable!("the verifier knows the type of %{}, and that it was written", reg.0),
        }
    }

    fn set_int(&mut self, reg: Reg, value: i64) {
        self.set(reg, Slot::Int(value));
    }

    fn channel(&self, reg: Reg) -> Arc<Channel> {
        match self.get(reg) {
            Slot::Channel(channel) => channel.clone(),
            _ => unreachable!("the verifier knows that %{} is a channel, and was written", reg.0),
        }
    }

    fn arguments(&self, callee: &Callee) -> Vec<Slot> {
        callee.arguments.iter().map(|argument| self.get(*argument).clone()).collect()
    }

    // ---- failing ----

    /// The frame is failing from now on.
    fn fail(&mut self, failure: Failure, function: usize, line: u32, on_error: Option<BlockId>) -> Option<Exit> {
        let was_failing = std::mem::replace(&mut self.frame().is_failing, true);
        self.state.fail(failure, function, line, was_failing);
        match on_error {
            Some(BlockId(block)) => {
                self.go(block);
                None
            }
            None => self.raise(),
        }
    }

    /// Leaves a failing frame. Its error is that of the call, in the frame around it.
    fn raise(&mut self) -> Option<Exit> {
        loop {
            let (_, is_last) = self.leave();
            if is_last {
                return Some(Exit::Ended(Err(self.state.error())));
            }
            let caller = self.frame();
            if std::mem::replace(&mut caller.is_failing, true) {
                self.state.discard();
            }
            let caller = self.frames.last().expect("the last frame was left above");
            let block = &self.state.run.code.function(caller.function).blocks[caller.block];
            if let Some(BlockId(target)) = block.on_error {
                self.go(target);
                return None;
            }
        }
    }

    // ---- running ----

    /// Runs until the task ends, or the nursery that is passed does.
    fn run<'scope>(&mut self, nursery_around: Option<&'scope Nursery<'scope, '_>>) -> Exit {
        let code = self.state.run.code.clone();
        let functions = &code.program.module().functions;
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
                Op::NurseryBegin(_) => nursery(self, |machine, nursery| match machine.run(Some(nursery)) {
                    Exit::NurseryEnds(arrived) => arrived,
                    Exit::Ended(_) => unreachable!("the verifier knows that no function ends while a nursery is open"),
                }),
                Op::NurseryEnd(_) => {
                    let is_failing = frame.is_failing;
                    return Exit::NurseryEnds(Arrived { paid: self.state.spending.settle(), is_failing });
                }
                Op::TaskCreate(to, callee) => match nursery_around {
                    Some(nursery) => self.create_task(nursery, function, *to, callee),
                    None => unreachable!("the verifier knows that a nursery is open"),
                },
                op => self.step(op, function, *line),
            };
            if let Err(failure) = done {
                let frame = self.frame();
                // Behind a nursery that ended it is another block by now.
                let block = &functions[frame.function].blocks[frame.block];
                if let Some(exit) = self.fail(failure, function, *line, block.on_error) {
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

    fn create_task<'scope>(
        &mut self,
        nursery: &'scope Nursery<'scope, '_>,
        function: usize,
        to: Reg,
        callee: &Callee,
    ) -> Result<(), Failure> {
        let arguments = callee.arguments.iter().map(|argument| match self.get(*argument) {
            Slot::Int(value) => Argument::Int(*value),
            Slot::Channel(channel) => Argument::Channel(channel.clone()),
            Slot::Empty | Slot::Task(_) => unreachable!("the verifier lets no task be a parameter"),
        });
        let arguments = arguments.collect();
        let is_awaited = self.state.run.code.is_awaited(function, to.0);
        let handle = self.state.create_task(nursery, callee.function.0 as usize, arguments, is_awaited)?;
        self.set(to, handle.map_or(Slot::Empty, |handle| Slot::Task(Rc::new(handle))));
        Ok(())
    }

    fn step(&mut self, op: &Op, function: usize, line: u32) -> Result<(), Failure> {
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
                let values = pieces.iter().filter_map(|piece| match piece {
                    Piece::Text(_) => None,
                    Piece::Value(reg) => Some(self.int(*reg)),
                });
                let values: Vec<_> = values.collect();
                self.state.print(function, pieces, &values, line)?;
            }
            Op::BudgetCheck => self.state.spending.check()?,
            Op::BudgetDecrement(operations) => self.state.spending.owe(*operations),
            Op::Yield => self.state.yield_now()?,
            Op::TaskJoin(to, task) => {
                let Slot::Task(handle) = self.get(*task).clone() else {
                    unreachable!("the verifier knows that it is a task")
                };
                let value = self.state.join(&handle)?;
                if let Some(to) = to {
                    self.set_int(*to, value);
                }
            }
            Op::NurseryBegin(_) | Op::NurseryEnd(_) | Op::TaskCreate(..) => unreachable!("`run` does them"),
            Op::Spawn(..) | Op::AsyncCall(..) | Op::Await(..) => unreachable!("the verifier refuses them"),
            _ => self.channel_step(op)?,
        }
        Ok(())
    }

    fn channel_step(&mut self, op: &Op) -> Result<(), Failure> {
        match op {
            Op::ChannelCreate(to, capacity) => {
                let channel = self.state.create_channel(self.int(*capacity))?;
                self.set(*to, Slot::Channel(channel));
            }
            Op::ChannelSend(channel, value) => self.state.send(&self.channel(*channel), self.int(*value))?,
            Op::ChannelRecv(to, channel) => {
                let value = self.state.receive(&self.channel(*channel))?;
                self.set_int(*to, value);
            }
            Op::ChannelNext(to, some, channel) => {
                let value = self.state.next(&self.channel(*channel))?;
                self.set_int(*some, value.is_some().into());
                self.set_int(*to, value.unwrap_or(0));
            }
            Op::ChannelTrySend(to, channel, value) => {
                let is_sent = self.state.try_send(&self.channel(*channel), self.int(*value))?;
                self.set_int(*to, is_sent.into());
            }
            Op::ChannelTryRecv(to, channel, otherwise) => {
                let value = self.state.try_receive(&self.channel(*channel), self.int(*otherwise))?;
                self.set_int(*to, value);
            }
            Op::ChannelClose(channel) => self.state.close(&self.channel(*channel))?,
            Op::ChannelIsClosed(to, channel) => {
                let is_closed = self.state.is_closed(&self.channel(*channel))?;
                self.set_int(*to, is_closed.into());
            }
            Op::ChannelLen(to, channel) => {
                let length = self.state.length(&self.channel(*channel))?;
                self.set_int(*to, length);
            }
            Op::SelectBegin => self.state.select_begin(),
            Op::SelectRecv(channel) => self.state.select_case(self.channel(*channel), None),
            Op::SelectSend(channel, value) => {
                self.state.select_case(self.channel(*channel), Some(self.int(*value)));
            }
            Op::SelectTimeout(time) => self.state.select_timeout(self.int(*time))?,
            Op::SelectDefault => self.state.select_default(),
            Op::SelectWait(chosen, value) => {
                let (number, received) = self.state.select_wait()?;
                self.set_int(*chosen, number);
                self.set_int(*value, received);
            }
            _ => unreachable!("`step` does all others"),
        }
        Ok(())
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
        Arithmetic::Rem => Some(a.wrapping_rem(b)), // that of the smallest number by -1 is 0
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
