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
//! # Invariant
//! A block of CLIF is translated from one block of QTJIR, and does what that says: its instructions in their order, and then its end.
//!
//! # Why it holds
//! One block is translated after the other. What is put behind a jump from its target (`jump`) is done there as it would be here.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, FuncRef, InstBuilder, MemFlagsData, Value};
use cranelift_frontend::{FunctionBuilder, Variable};
use cranelift_jit::JITModule;
use cranelift_module::{FuncId, Module};

use super::compile::{Bug, Settings};
use super::constants::{Known, known};
use super::counted::{Counted, FastLoop, counted};
use super::helpers::{Help, LEFT_OFFSET, Site};
use super::nurseries::Points;
use super::raw::ABORTED;
use super::unit::{LEFT_ABORTED, LEFT_FAILED, Unit};
use crate::ir::{self, BlockId, End, Function, Op, Reg, reads, successors};

/// Where a register is.
#[derive(Clone, Copy)]
pub(super) enum RegisterSlot {
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
    pub(super) number: usize,
    pub(super) functions: HashMap<FuncId, FuncRef>,
    /// The task.
    pub(super) task: Value,
    /// What is left of the stack that the host allows.
    pub(super) stack: Value,
    /// The first handle of the frame, if it has any.
    pub(super) base: Option<Value>,
    pub(super) left: Variable,
    pub(super) slots: Vec<RegisterSlot>,
    /// The begin of each block that is reached.
    pub(super) blocks: Vec<Option<Block>>,
    pub(super) is_failing: Vec<bool>,
    /// What is known where each block begins.
    known: Vec<Known>,
    /// The block that a block is reached from, if there is one such alone.
    pub(super) only_from: Vec<Option<usize>>,
    /// The block that reads a register, if there is one such alone.
    pub(super) only_read_in: Vec<Option<usize>>,
    /// The loop that counts which a block is part of.
    pub(super) counted: Vec<Option<Counted>>,
    /// By the first block.
    pub(super) fast_loops: HashMap<usize, FastLoop>,
    pub(super) points: Option<Points>,
    /// Ends the function with its error.
    pub(super) raise: Block,
    /// Ends the function because of a panic.
    pub(super) abort: Block,
    // Of the block that is translated:
    pub(super) at: (usize, usize),
    /// Registers whose values are known.
    pub(super) constants: Known,
    /// A call that needs so much of the stack, or less, has enough.
    pub(super) stack_seen: i64,
    /// Where the decrement and the check are that were done with a call.
    pub(super) paid_at: Option<(usize, usize)>,
    /// Where a status goes that says that something failed.
    pub(super) failed: Option<Block>,
    /// Where errors of a kind and a line are told.
    pub(super) faults: Vec<(Fault, Block)>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) struct Fault {
    pub(super) kind: i64,
    pub(super) line: u32,
    pub(super) site: i64,
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

/// The only way to each block that has only one.
fn only_from(function: &Function) -> Vec<Option<usize>> {
    let mut from = vec![None; function.blocks.len()];
    let mut ways = vec![0; function.blocks.len()];
    ways[0] = 1; // from the caller
    for block in 0..function.blocks.len() {
        for to in successors(function, block) {
            ways[to.0 as usize] += 1;
            from[to.0 as usize] = Some(block);
        }
    }
    from.into_iter().zip(ways).map(|(from, ways)| from.filter(|_| ways == 1)).collect()
}

/// The only block that reads each register that has only one such.
fn only_read_in(function: &Function) -> Vec<Option<usize>> {
    let mut readers = vec![(None, false); function.registers.len()];
    for (number, block) in function.blocks.iter().enumerate() {
        let mut read = |reg: Reg| {
            let (reader, has_others) = &mut readers[reg.0 as usize];
            *has_others |= reader.is_some_and(|reader| reader != number);
            *reader = Some(number);
        };
        block.code.iter().for_each(|inst| reads(&inst.op, &mut read));
        if let End::Branch(reg, ..) | End::Return(Some(reg)) = block.end {
            read(reg);
        }
    }
    readers.into_iter().map(|(reader, has_others)| reader.filter(|_| !has_others)).collect()
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
        let slots = layout.handles.iter().map(|handle| match handle {
            Some(number) => RegisterSlot::Handle(*number),
            None => RegisterSlot::Variable(build.declare_var(I64)),
        });
        let slots = slots.collect();
        let known = known(function);
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
            slots,
            blocks,
            is_failing: failing.iter().map(|failing| *failing == Some(true)).collect(),
            points: None,
            raise,
            abort,
            at: (0, 0),
            counted: counted(function, &known),
            fast_loops: HashMap::new(),
            known,
            only_from: only_from(function),
            only_read_in: only_read_in(function),
            constants: Known::new(),
            stack_seen: 0,
            paid_at: None,
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
        self.constants = std::mem::take(&mut self.known[number]);
        (self.failed, self.faults, self.stack_seen) = (None, Vec::new(), 0);
        self.build.switch_to_block(begin);
        self.enter_loop(number);
        for (at, inst) in block.code.iter().enumerate() {
            self.at = (number, at);
            self.op(&inst.op);
        }
        self.at = (number, block.code.len());
        self.turn(number);
        match block.end {
            End::Jump(to) => self.jump(to),
            End::Branch(on, then, otherwise) => self.branch(on, then, otherwise),
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
            self.settle_fault(number);
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

    pub(super) fn begin(&self, block: BlockId) -> Block {
        self.blocks[block.0 as usize].expect("what a reached block leads to is reached")
    }

    pub(super) fn constant(&mut self, value: i64) -> Value {
        self.build.ins().iconst(I64, value)
    }

    /// What a register has: its value, or the number of its handle.
    pub(super) fn get(&mut self, reg: Reg) -> Value {
        if let Some(value) = self.constants.get(&reg) {
            return self.constant(*value);
        }
        match self.slots[reg.0 as usize] {
            RegisterSlot::Variable(variable) => self.build.use_var(variable),
            RegisterSlot::Handle(number) => {
                let base = self.base.expect("a frame with handles has a first one");
                self.build.ins().iadd_imm_s(base, number)
            }
        }
    }

    pub(super) fn set(&mut self, reg: Reg, value: Value) {
        self.constants.remove(&reg);
        match self.slots[reg.0 as usize] {
            RegisterSlot::Variable(variable) => self.build.def_var(variable, value),
            RegisterSlot::Handle(_) => unreachable!("a handle is written by helpers"),
        }
    }

    /// A field of the task.
    pub(super) fn load(&mut self, offset: i32) -> Value {
        self.build.ins().load(I64, MemFlagsData::trusted(), self.task, offset)
    }

    pub(super) fn store(&mut self, offset: i32, value: Value) {
        self.build.ins().store(MemFlagsData::trusted(), value, self.task, offset);
    }

    pub(super) fn is_failing_here(&self) -> bool {
        self.is_failing[self.at.0]
    }

    /// Whether a test wants this bug.
    pub(super) fn is_planted(&self, bug: Bug) -> bool {
        cfg!(test) && self.context.settings.planted == Some(bug)
    }
}
