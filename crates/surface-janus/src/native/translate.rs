//! QTJIR to CLIF: blocks, budgets, failing, calls.
//!
//! Room: decisions.
//!
//! | QTJIR | CLIF |
//! |---|---|
//! | a register with a number | a variable, which Cranelift keeps in registers |
//! | a register with a channel or a task | the number of a handle, which a helper looks up |
//! | `budget_decrement` | a subtraction |
//! | `budget_check` | a comparison, and a call of a helper in a cold block |
//! | what can be seen | a call of a helper |
//! | what fails | a branch to a cold block, which goes on at the `on_error` of the block, or returns |
//!
//! # Invariants
//! 1. The variable `left` has what may be owed more before a check is due, as [`Spending::left`](crate::task::Spending) would say it.
//! 2. At the `on_error` of a block the error of the function is pending.
//!
//! # Why they hold
//! 1. It is passed to functions and returned by them; written for helpers that pay, and read after them.
//! 2. Helpers add an error before they return `FAILED`, and what code finds itself it tells a helper. A call that failed has left its error. If the function was failing before, that is
//!    known here, and the helper keeps the first error.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, FuncRef, InstBuilder, MemFlagsData, Value};
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};

use super::compile::{Bug, Settings};
use super::helpers::{Help, LEFT_OFFSET, OUT_OFFSETS, STACK, Site};
use super::nurseries::Points;
use super::raw::ABORTED;
use super::unit::{LEFT_ABORTED, LEFT_FAILED, Unit};
use crate::ir::{self, BlockId, Callee, Comparison, End, Function, Op, Piece, Reg, successors};
use crate::task::call_bytes;

/// Where a register is.
#[derive(Clone, Copy)]
pub(super) enum Place {
    /// In a variable: a number, or a handle that the function was passed and does not write.
    Variable(Variable),
    /// The handle of this number in the frame.
    Handle(i64),
}

/// What is the same for all functions.
pub(super) struct Context<'a> {
    pub(super) module: &'a mut JITModule,
    pub(super) unit: &'a Unit,
    pub(super) program: &'a ir::Module,
    pub(super) settings: Settings,
    pub(super) sites: &'a mut Vec<Site>,
}

/// A function that is being translated.
pub(super) struct Translator<'a, 'b, 'c> {
    pub(super) build: FunctionBuilder<'b>,
    pub(super) context: &'c mut Context<'a>,
    pub(super) function: &'c Function,
    number: usize,
    functions: HashMap<FuncId, FuncRef>,
    /// The task.
    pub(super) task: Value,
    /// What is left of the stack that the host allows.
    pub(super) stack: Value,
    /// The first handle of the frame, if it has any.
    pub(super) base: Option<Value>,
    pub(super) left: Variable,
    pub(super) places: Vec<Place>,
    /// The begin of each block that is reached.
    pub(super) blocks: Vec<Option<Block>>,
    is_failing: Vec<bool>,
    pub(super) points: Option<Points>,
    /// Ends the function with its error.
    raise: Block,
    /// Ends the function because of a panic.
    abort: Block,
    // Of the block that is translated:
    pub(super) at: (usize, usize),
    /// Registers whose values are known.
    pub(super) constants: HashMap<Reg, i64>,
    /// Where a status goes that says that something failed.
    failed: Option<Block>,
    /// Where errors of a kind and a line are told.
    faults: Vec<(Fault, Block)>,
}

#[derive(Clone, Copy, PartialEq)]
struct Fault {
    kind: i64,
    line: u32,
    site: i64,
}

/// What a function needs of handles, and where its registers are.
pub(super) struct Layout {
    /// The number in the frame of each register that has a handle of its own.
    pub(super) handles: Vec<Option<i64>>,
    pub(super) count: i64,
}

impl Layout {
    /// Registers with channels and tasks have handles of their own if they are written.
    pub(super) fn of(function: &Function) -> Self {
        let mut handles = vec![None; function.registers.len()];
        let mut count = 0;
        for inst in function.blocks.iter().flat_map(|block| &block.code) {
            let (Op::ChannelCreate(to, _) | Op::TaskCreate(to, _) | Op::Copy(to, _)) = &inst.op else { continue };
            let has_handle = !matches!(function.registers[to.0 as usize], ir::Type::I64 | ir::Type::Bool);
            if has_handle && handles[to.0 as usize].is_none() {
                handles[to.0 as usize] = Some(count);
                count += 1;
            }
        }
        Self { handles, count }
    }
}

/// Which blocks are reached, and whether they are failing.
fn failing(function: &Function) -> Vec<Option<bool>> {
    let mut failing = vec![None; function.blocks.len()];
    failing[0] = Some(false);
    let mut open = vec![0];
    while let Some(block) = open.pop() {
        let on_error = function.blocks[block].on_error;
        for to in successors(function, block) {
            // A block that an error leads to is reached failing on every way.
            let is_failing = failing[block] == Some(true) || on_error == Some(to);
            if failing[to.0 as usize].is_none() {
                failing[to.0 as usize] = Some(is_failing);
                open.push(to.0 as usize);
            }
        }
    }
    failing
}

impl<'a, 'b, 'c> Translator<'a, 'b, 'c> {
    /// Of a function whose `entry` has these parameters; it is the current block.
    pub(super) fn new(
        mut build: FunctionBuilder<'b>,
        context: &'c mut Context<'a>,
        number: usize,
        (task, left, stack): (Value, Value, Value),
    ) -> Self {
        let function = &context.program.functions[number];
        let layout = Layout::of(function);
        let places = layout.handles.iter().map(|handle| match handle {
            Some(number) => Place::Handle(*number),
            None => Place::Variable(build.declare_var(I64)),
        });
        let places = places.collect();
        let failing = failing(function);
        let blocks = failing.iter().map(|reached| reached.map(|_| build.create_block())).collect();
        let variable = build.declare_var(I64);
        build.def_var(variable, left);
        let (raise, abort) = (build.create_block(), build.create_block());
        Self {
            build,
            context,
            function,
            number,
            functions: HashMap::new(),
            task,
            stack,
            base: None,
            left: variable,
            places,
            blocks,
            is_failing: failing.iter().map(|failing| *failing == Some(true)).collect(),
            points: None,
            raise,
            abort,
            at: (0, 0),
            constants: HashMap::new(),
            failed: None,
            faults: Vec::new(),
        }
    }

    /// The parameters have their values: translates all blocks, and the ends.
    pub(super) fn finish(mut self) {
        for block in 0..self.function.blocks.len() {
            if let Some(begin) = self.blocks[block] {
                self.block(block, begin);
            }
        }
        self.build.switch_to_block(self.raise);
        self.build.set_cold_block(self.raise);
        self.leave();
        let left = self.build.use_var(self.left);
        self.store(LEFT_OFFSET, left);
        let failed = [0, LEFT_FAILED].map(|value| self.constant(value));
        self.build.ins().return_(&failed);
        self.build.switch_to_block(self.abort);
        self.build.set_cold_block(self.abort);
        let aborted = [ABORTED, LEFT_ABORTED].map(|value| self.constant(value));
        self.build.ins().return_(&aborted);
        self.build.seal_all_blocks();
        let config = self.context.module.isa().frontend_config();
        self.build.finalize(config);
    }

    fn block(&mut self, number: usize, begin: Block) {
        let block = &self.function.blocks[number];
        self.constants.clear();
        (self.failed, self.faults) = (None, Vec::new());
        self.build.switch_to_block(begin);
        for (at, inst) in block.code.iter().enumerate() {
            self.at = (number, at);
            self.op(&inst.op);
        }
        self.at = (number, block.code.len());
        match block.end {
            End::Jump(to) => {
                let to = self.begin(to);
                self.build.ins().jump(to, &[]);
            }
            End::Branch(on, then, otherwise) => {
                let on = self.get(on);
                let (then, otherwise) = (self.begin(then), self.begin(otherwise));
                self.build.ins().brif(on, then, &[], otherwise, &[]);
            }
            End::Return(value) => {
                let value = match value {
                    Some(value) => self.get(value),
                    None => self.constant(0),
                };
                self.leave();
                let left = self.build.use_var(self.left);
                self.build.ins().return_(&[value, left]);
            }
            End::Raise => {
                self.build.ins().jump(self.raise, &[]);
            }
        }
        for (fault, block) in std::mem::take(&mut self.faults) {
            self.build.seal_block(block);
            self.build.switch_to_block(block);
            let kind = self.constant(fault.kind);
            let status = self.help(Help::Fault, fault.site, kind, kind);
            let failed = self.failed();
            self.build.ins().jump(failed, &[status.into()]);
        }
        if let Some(failed) = self.failed.take() {
            self.build.seal_block(failed);
            self.build.switch_to_block(failed);
            let status = self.build.block_params(failed)[0];
            let is_aborted = self.build.ins().icmp_imm_s(IntCC::Equal, status, ABORTED);
            let handler = self.handler();
            self.build.ins().brif(is_aborted, self.abort, &[], handler, &[]);
        }
    }

    // ---- values ----

    fn begin(&self, block: BlockId) -> Block {
        self.blocks[block.0 as usize].expect("what a reached block leads to is reached")
    }

    pub(super) fn constant(&mut self, value: i64) -> Value {
        self.build.ins().iconst(I64, value)
    }

    /// What a register has: its value, or the number of its handle.
    pub(super) fn get(&mut self, reg: Reg) -> Value {
        match self.places[reg.0 as usize] {
            Place::Variable(variable) => self.build.use_var(variable),
            Place::Handle(number) => {
                let base = self.base.expect("a frame with handles has a first one");
                self.build.ins().iadd_imm_s(base, number)
            }
        }
    }

    pub(super) fn set(&mut self, reg: Reg, value: Value) {
        self.constants.remove(&reg);
        match self.places[reg.0 as usize] {
            Place::Variable(variable) => self.build.def_var(variable, value),
            Place::Handle(_) => unreachable!("a handle is written by helpers"),
        }
    }

    /// A field of the task.
    fn load(&mut self, offset: i32) -> Value {
        self.build.ins().load(I64, MemFlagsData::trusted(), self.task, offset)
    }

    fn store(&mut self, offset: i32, value: Value) {
        self.build.ins().store(MemFlagsData::trusted(), value, self.task, offset);
    }

    // ---- helpers ----

    /// Where the instruction stands that is translated.
    fn site(&mut self) -> i64 {
        let (block, at) = self.at;
        let is_failing = self.is_failing[block];
        let site = Site { function: self.number as u32, block: block as u32, at: at as u32, is_failing };
        self.context.sites.push(site);
        (self.context.sites.len() - 1) as i64
    }

    fn function(&mut self, id: FuncId) -> FuncRef {
        let (module, build) = (&mut self.context.module, &mut self.build);
        *self.functions.entry(id).or_insert_with(|| module.declare_func_in_func(id, build.func))
    }

    /// Calls a helper that does not pay. Returns its status.
    pub(super) fn help(&mut self, help: Help, site: i64, a: Value, b: Value) -> Value {
        let helper = self.function(self.context.unit.helpers[help as usize]);
        let site = self.constant(site);
        let call = self.build.ins().call(helper, &[self.task, site, a, b]);
        self.build.inst_results(call)[0]
    }

    /// The same, where it cannot fail.
    pub(super) fn help_surely(&mut self, help: Help, a: Value, b: Value) -> Value {
        self.help(help, 0, a, b)
    }

    /// Calls a helper that can fail, and goes on if it does not. Returns its status.
    pub(super) fn try_help(&mut self, help: Help, a: Value, b: Value) -> Value {
        let site = self.site();
        if help.pays() {
            let left = self.build.use_var(self.left);
            if !self.is_planted(Bug::OwesUnsaid) || help != Help::Print {
                self.store(LEFT_OFFSET, left);
            }
        }
        let status = self.help(help, site, a, b);
        if help.pays() {
            let left = self.load(LEFT_OFFSET);
            self.build.def_var(self.left, left);
        }
        let next = self.build.create_block();
        let failed = self.failed();
        let is_failed = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, status, 0);
        self.build.ins().brif(is_failed, failed, &[status.into()], next, &[]);
        self.build.seal_block(next);
        self.build.switch_to_block(next);
        status
    }

    /// The same with the value that it returns.
    fn try_value(&mut self, help: Help, a: Value, b: Value) -> Value {
        self.try_help(help, a, b);
        self.load(OUT_OFFSETS[0])
    }

    // ---- failing ----

    /// Where a failure of the block goes.
    pub(super) fn handler(&self) -> Block {
        self.function.blocks[self.at.0].on_error.map_or(self.raise, |target| self.begin(target))
    }

    /// Where a status goes that says that something failed.
    fn failed(&mut self) -> Block {
        if let Some(failed) = self.failed {
            return failed;
        }
        let failed = self.build.create_block();
        self.build.append_block_param(failed, I64);
        self.build.set_cold_block(failed);
        self.failed = Some(failed);
        failed
    }

    /// Where an error of this kind goes that code finds at this instruction.
    pub(super) fn fault(&mut self, kind: i64) -> Block {
        let (block, at) = self.at;
        let line = self.function.blocks[block].code[at].line;
        let known = self.faults.iter().find(|(fault, _)| (fault.kind, fault.line) == (kind, line));
        if let Some((_, block)) = known {
            return *block;
        }
        let site = self.site();
        let target = self.build.create_block();
        self.build.set_cold_block(target);
        self.faults.push((Fault { kind, line, site }, target));
        target
    }

    /// Fails if `condition`, else goes on.
    pub(super) fn fail_if(&mut self, condition: Value, kind: i64) {
        let target = self.fault(kind);
        let next = self.build.create_block();
        self.build.ins().brif(condition, target, &[], next, &[]);
        self.build.seal_block(next);
        self.build.switch_to_block(next);
    }

    /// Gives back the handles of the frame.
    fn leave(&mut self) {
        if let Some(base) = self.base {
            self.help_surely(Help::Leave, base, base);
        }
    }

    // ---- instructions ----

    fn op(&mut self, op: &Op) {
        match op {
            Op::Const(to, value) => {
                let known = self.constant(*value);
                self.set(*to, known);
                self.constants.insert(*to, *value);
            }
            Op::ConstBool(to, value) => {
                let value = self.constant((*value).into());
                self.set(*to, value);
            }
            Op::Copy(to, from) => {
                let value = self.get(*from);
                if let Place::Handle(_) = self.places[to.0 as usize] {
                    let to = self.get(*to);
                    self.help_surely(Help::Copy, to, value);
                    return;
                }
                let known = self.constants.get(from).copied();
                self.set(*to, value);
                self.constants.extend(known.map(|value| (*to, value)));
            }
            Op::Not(to, from) => {
                let value = self.get(*from);
                let value = self.build.ins().icmp_imm_s(IntCC::Equal, value, 0);
                let value = self.build.ins().uextend(I64, value);
                self.set(*to, value);
            }
            Op::Compare(operator, to, a, b) => {
                let (a, b) = (self.get(*a), self.get(*b));
                let value = self.build.ins().icmp(condition(*operator), a, b);
                let value = self.build.ins().uextend(I64, value);
                self.set(*to, value);
            }
            Op::Neg(to, from) => self.negate(*to, *from),
            Op::Arithmetic(operator, to, a, b) => self.arithmetic(*operator, *to, *a, *b),
            Op::Call(to, callee) => self.call(*to, callee),
            Op::BudgetDecrement(operations) if !self.context.settings.is_unchecked => {
                let left = self.build.use_var(self.left);
                let left = self.build.ins().iadd_imm_s(left, -i64::from(*operations));
                self.build.def_var(self.left, left);
            }
            Op::BudgetCheck if !self.context.settings.is_unchecked => self.check(),
            Op::BudgetDecrement(_) | Op::BudgetCheck => {}
            Op::Print(pieces) => {
                for piece in pieces {
                    if let Piece::Value(value) = piece {
                        let value = self.get(*value);
                        self.help_surely(Help::Push, value, value);
                    }
                }
                self.observe(Help::Print, None, None);
            }
            Op::Yield => self.observe(Help::Yield, None, None),
            Op::NurseryBegin(_) => self.nursery_begin(),
            Op::NurseryEnd(_) => self.nursery_end(),
            Op::TaskCreate(to, callee) => {
                for argument in &callee.arguments {
                    let value = self.get(*argument);
                    self.help_surely(Help::Push, value, value);
                }
                self.observe(Help::Create, Some(*to), None);
            }
            Op::TaskJoin(to, task) => {
                let task = self.get(*task);
                let value = self.try_value(Help::Join, task, task);
                if let Some(to) = to {
                    self.set(*to, value);
                }
            }
            Op::ChannelCreate(to, capacity) => self.observe(Help::ChannelCreate, Some(*to), Some(*capacity)),
            Op::ChannelSend(channel, value) => self.observe(Help::Send, Some(*channel), Some(*value)),
            Op::ChannelRecv(to, channel) => self.ask(*to, Help::Receive, *channel, None),
            Op::ChannelNext(to, some, channel) => {
                let channel = self.get(*channel);
                let value = self.try_value(Help::Next, channel, channel);
                let is_some = self.load(OUT_OFFSETS[1]);
                self.set(*to, value);
                self.set(*some, is_some);
            }
            Op::ChannelTrySend(to, channel, value) => self.ask(*to, Help::TrySend, *channel, Some(*value)),
            Op::ChannelTryRecv(to, channel, otherwise) => self.ask(*to, Help::TryReceive, *channel, Some(*otherwise)),
            Op::ChannelClose(channel) => self.observe(Help::Close, Some(*channel), None),
            Op::ChannelIsClosed(to, channel) => self.ask(*to, Help::IsClosed, *channel, None),
            Op::ChannelLen(to, channel) => self.ask(*to, Help::Length, *channel, None),
            Op::SelectBegin => {
                let none = self.constant(0);
                self.help_surely(Help::SelectBegin, none, none);
            }
            Op::SelectRecv(channel) => {
                let channel = self.get(*channel);
                self.help_surely(Help::SelectReceive, channel, channel);
            }
            Op::SelectSend(channel, value) => {
                let (channel, value) = (self.get(*channel), self.get(*value));
                self.help_surely(Help::SelectSend, channel, value);
            }
            Op::SelectTimeout(time) => self.observe(Help::SelectTimeout, Some(*time), None),
            Op::SelectDefault => {
                let none = self.constant(0);
                self.help_surely(Help::SelectDefault, none, none);
            }
            Op::SelectWait(case, value) => {
                let none = self.constant(0);
                let number = self.try_value(Help::SelectWait, none, none);
                let received = self.load(OUT_OFFSETS[1]);
                self.set(*case, number);
                self.set(*value, received);
            }
            Op::Spawn(..) | Op::AsyncCall(..) | Op::Await(..) => unreachable!("the verifier refuses them"),
        }
    }

    /// A helper that can fail, with the values of registers.
    fn observe(&mut self, help: Help, a: Option<Reg>, b: Option<Reg>) {
        let a = a.map(|a| self.get(a));
        let b = b.map(|b| self.get(b));
        let none = match (a, b) {
            (Some(_), Some(_)) => None,
            _ => Some(self.constant(0)),
        };
        if let (Some(a), Some(b)) = (a.or(none), b.or(none)) {
            self.try_help(help, a, b);
        }
    }

    /// The same, with a result.
    fn ask(&mut self, to: Reg, help: Help, channel: Reg, value: Option<Reg>) {
        let channel = self.get(channel);
        let value = value.map_or(channel, |value| self.get(value));
        let result = self.try_value(help, channel, value);
        self.set(to, result);
    }

    fn check(&mut self) {
        let left = self.build.use_var(self.left);
        let least = if self.is_planted(Bug::ChecksLate) { 0 } else { 1 };
        let is_due = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, left, least);
        let (due, next) = (self.build.create_block(), self.build.create_block());
        self.build.set_cold_block(due);
        self.build.ins().brif(is_due, due, &[], next, &[]);
        self.build.seal_block(due);
        self.build.switch_to_block(due);
        let none = self.constant(0);
        self.try_help(Help::Check, none, none);
        if let Some(paid) = self.build.current_block() {
            self.build.set_cold_block(paid);
        }
        self.build.ins().jump(next, &[]);
        self.build.seal_block(next);
        self.build.switch_to_block(next);
    }

    fn call(&mut self, to: Option<Reg>, callee: &Callee) {
        let number = callee.function.0 as usize;
        let mut bytes = call_bytes(&self.context.program.functions[number]) as i64;
        if self.is_planted(Bug::CallsTakeLess) {
            bytes -= 8;
        }
        let stack = self.build.ins().iadd_imm_s(self.stack, -bytes);
        let overflows = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, stack, 0);
        self.fail_if(overflows, STACK);
        let left = self.build.use_var(self.left);
        let mut arguments = vec![self.task, left, stack];
        for argument in &callee.arguments {
            let value = self.get(*argument);
            arguments.push(value);
        }
        let called = self.function(self.context.unit.parts[number].call);
        let call = self.build.ins().call(called, &arguments);
        let (value, left) = match self.build.inst_results(call) {
            [value, left] => (*value, *left),
            _ => unreachable!("a call returns two values"),
        };
        self.build.def_var(self.left, left);
        let is_failed = self.build.ins().icmp_imm_s(IntCC::SignedLessThan, left, 1);
        let (failed, next) = (self.build.create_block(), self.build.create_block());
        self.build.set_cold_block(failed);
        self.build.ins().brif(is_failed, failed, &[], next, &[]);
        self.build.seal_block(failed);
        self.build.seal_block(next);
        self.build.switch_to_block(failed);
        self.call_failed(left);
        self.build.switch_to_block(next);
        if let Some(to) = to {
            self.set(to, value);
        }
    }

    /// The function that was called failed, or a panic ended it.
    fn call_failed(&mut self, said: Value) {
        let handled = self.build.create_block();
        self.build.set_cold_block(handled);
        let is_aborted = self.build.ins().icmp_imm_s(IntCC::Equal, said, LEFT_ABORTED);
        self.build.ins().brif(is_aborted, self.abort, &[], handled, &[]);
        self.build.seal_block(handled);
        self.build.switch_to_block(handled);
        let left = self.load(LEFT_OFFSET);
        self.build.def_var(self.left, left);
        if self.is_failing[self.at.0] && !self.is_planted(Bug::KeepsLastError) {
            let none = self.constant(0);
            self.help_surely(Help::Discard, none, none);
        }
        let handler = self.handler();
        self.build.ins().jump(handler, &[]);
    }

    pub(super) fn is_failing_here(&self) -> bool {
        self.is_failing[self.at.0]
    }

    /// Whether a test wants this bug.
    pub(super) fn is_planted(&self, bug: Bug) -> bool {
        cfg!(test) && self.context.settings.planted == Some(bug)
    }
}

fn condition(operator: Comparison) -> IntCC {
    match operator {
        Comparison::Eq => IntCC::Equal,
        Comparison::Ne => IntCC::NotEqual,
        Comparison::Lt => IntCC::SignedLessThan,
        Comparison::Le => IntCC::SignedLessThanOrEqual,
        Comparison::Gt => IntCC::SignedGreaterThan,
        Comparison::Ge => IntCC::SignedGreaterThanOrEqual,
    }
}
