//! Functions that open nurseries, and the ways from Rust into code.
//!
//! Room: decisions.
//!
//! What stands between the begin and the end of a nursery has to run inside a closure of Rust, which waits for the tasks. So the function is entered again there: its body can go on at any *point*, which is the begin of the function, the instruction behind a begin of
//! a nursery, the one behind an end, and where an end goes that failed. A begin calls the helper `Nursery` with the point inside; the helper enters the body there; an end returns from that with the point behind it; the helper closes the nursery, and
//! returns that point to where the nursery began, which goes on there.
//!
//! # Invariant
//! At a point all registers are in the frame in memory, which belongs to the outermost activation of the function.
//!
//! # Why it holds
//! They are written before the helper is called and before an end returns, and read at every point. The outermost activation returns last: no function ends while a nursery is open.

use std::collections::HashMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{self as clif};
use cranelift_codegen::ir::{
    Block, BlockCall, InstBuilder, JumpTableData, MemFlagsData, StackSlotData, StackSlotKind, UserFuncName, Value,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_module::{FuncId, Module};

use super::helpers::{Help, LEFT_OFFSET, OUT_OFFSETS, STATUS_OFFSET};
use super::raw::{ABORTED, FAILED};
use super::translate::{Context, Layout, RegisterSlot, Translator};
use super::unit::LEFT_ABORTED;
use crate::ir::{Function, Op, Reg};

/// Where the frame has what is left of the stack, the first handle, and the registers.
const STACK_OFFSET: i32 = 0;
const BASE_OFFSET: i32 = 8;
const REGISTERS_OFFSET: i32 = 16;

/// Where a function can go on.
pub(super) struct Points {
    frame: Value,
    /// Goes on at the point that it is passed.
    dispatch: Block,
    blocks: Vec<Block>,
    /// The point of an instruction, by its block and its place there.
    numbers: HashMap<(usize, usize), usize>,
}

/// How many points a function has, and where: one behind a begin, two behind an end.
pub(super) fn points(function: &Function) -> (usize, HashMap<(usize, usize), usize>) {
    let mut count = 1;
    let mut numbers = HashMap::new();
    for (block, body) in function.blocks.iter().enumerate() {
        for (at, inst) in body.code.iter().enumerate() {
            let more = match inst.op {
                Op::NurseryBegin(_) => 1,
                Op::NurseryEnd(_) => 2,
                _ => continue,
            };
            numbers.insert((block, at), count);
            count += more;
        }
    }
    (count, numbers)
}

/// A function of CLIF, before its blocks.
fn start(context: &Context<'_>, id: FuncId) -> clif::Function {
    let signature = context.module.declarations().get_function_decl(id).signature.clone();
    clif::Function::with_name_signature(UserFuncName::user(0, id.as_u32()), signature)
}

/// Makes the first block, and returns its parameters.
fn first_block(build: &mut FunctionBuilder<'_>) -> Vec<Value> {
    let entry = build.create_block();
    build.append_block_params_for_function_params(entry);
    build.switch_to_block(entry);
    build.seal_block(entry);
    build.block_params(entry).to_vec()
}

fn at(offset: i32, reg: usize) -> i32 {
    offset + 8 * reg as i32
}

/// The call of a function; of one that opens nurseries, what makes its frame and calls its body.
pub(super) fn call(context: &mut Context<'_>, reused: &mut FunctionBuilderContext, number: usize) -> clif::Function {
    let parts = &context.unit.parts[number];
    let mut made = start(context, parts.call);
    let mut build = FunctionBuilder::new(&mut made, reused);
    let values = first_block(&mut build);
    let body = parts.body;
    let mut translator = Translator::new(build, context, number, (values[0], values[1], values[2]));
    translator.enter(&values[3..]);
    match body {
        None => {
            let begin = translator.blocks[0].expect("the first block is reached");
            translator.build.ins().jump(begin, &[]);
            translator.finish();
        }
        Some(body) => translator.call_body(body, values[1], &values[3..]),
    }
    made
}

/// The body of a function that opens nurseries.
pub(super) fn body(
    context: &mut Context<'_>,
    reused: &mut FunctionBuilderContext,
    number: usize,
    id: FuncId,
) -> clif::Function {
    let mut made = start(context, id);
    let mut build = FunctionBuilder::new(&mut made, reused);
    let values = first_block(&mut build);
    let [task, left, frame, point] = values[..] else { unreachable!("a body takes four values") };
    let stack = build.ins().load(I64, MemFlagsData::trusted(), frame, STACK_OFFSET);
    let mut translator = Translator::new(build, context, number, (task, left, stack));
    translator.resume(frame, point);
    translator.finish();
    made
}

/// What Rust calls to begin a task.
pub(super) fn entry(
    context: &mut Context<'_>,
    reused: &mut FunctionBuilderContext,
    number: usize,
    id: FuncId,
) -> clif::Function {
    let mut made = start(context, id);
    let mut build = FunctionBuilder::new(&mut made, reused);
    let values = first_block(&mut build);
    let [task, arguments, stack] = values[..] else { unreachable!("an entry takes three values") };
    let flags = MemFlagsData::trusted();
    let left = build.ins().load(I64, flags, task, LEFT_OFFSET);
    let mut passed = vec![task, left, stack];
    for parameter in 0..context.program.functions[number].parameters {
        passed.push(build.ins().load(I64, flags, arguments, at(0, parameter)));
    }
    let called = context.module.declare_func_in_func(context.unit.parts[number].call, build.func);
    let call = build.ins().call(called, &passed);
    let (value, left) = (build.inst_results(call)[0], build.inst_results(call)[1]);
    let (failed, done) = (build.create_block(), build.create_block());
    build.set_cold_block(failed);
    let is_failed = build.ins().icmp_imm_s(IntCC::SignedLessThan, left, 1);
    build.ins().brif(is_failed, failed, &[], done, &[]);
    build.seal_block(failed);
    build.seal_block(done);
    build.switch_to_block(done);
    build.ins().store(flags, left, task, LEFT_OFFSET);
    build.ins().store(flags, value, task, OUT_OFFSETS[0]);
    let status = build.ins().iconst(I64, 0);
    build.ins().return_(&[status]);
    build.switch_to_block(failed);
    // It has written what is left.
    let is_aborted = build.ins().icmp_imm_s(IntCC::Equal, left, LEFT_ABORTED);
    let (aborted, failed) = (build.ins().iconst(I64, ABORTED), build.ins().iconst(I64, FAILED));
    let status = build.ins().select(is_aborted, aborted, failed);
    build.ins().return_(&[status]);
    build.finalize(context.module.isa().frontend_config());
    made
}

/// What Rust calls to go on inside a nursery.
pub(super) fn inside(
    context: &mut Context<'_>,
    reused: &mut FunctionBuilderContext,
    body: FuncId,
    id: FuncId,
) -> clif::Function {
    let mut made = start(context, id);
    let mut build = FunctionBuilder::new(&mut made, reused);
    let values = first_block(&mut build);
    let [task, frame, point] = values[..] else { unreachable!("an inside takes three values") };
    let left = build.ins().load(I64, MemFlagsData::trusted(), task, LEFT_OFFSET);
    let called = context.module.declare_func_in_func(body, build.func);
    let call = build.ins().call(called, &[task, left, frame, point]);
    // The end of a nursery has written what is left.
    let exit = build.inst_results(call)[0];
    build.ins().return_(&[exit]);
    build.finalize(context.module.isa().frontend_config());
    made
}

/// Calls a helper, and keeps all registers but those of its own.
pub(super) fn cold(
    context: &mut Context<'_>,
    reused: &mut FunctionBuilderContext,
    help: Help,
    id: FuncId,
) -> clif::Function {
    let mut made = start(context, id);
    let mut build = FunctionBuilder::new(&mut made, reused);
    let values = first_block(&mut build);
    let [task, site, value] = values[..] else { unreachable!("a cold helper takes three values") };
    let called = context.module.declare_func_in_func(context.unit.helpers[help as usize], build.func);
    let call = build.ins().call(called, &[task, site, value, value]);
    let status = build.inst_results(call)[0];
    build.ins().store(MemFlagsData::trusted(), status, task, STATUS_OFFSET);
    build.ins().return_(&[]);
    build.finalize(context.module.isa().frontend_config());
    made
}

impl Translator<'_, '_, '_> {
    /// Takes the handles of the frame, and puts the parameters into their registers.
    fn enter(&mut self, parameters: &[Value]) {
        let count = Layout::of(self.function).count;
        if count > 0 {
            let count = self.constant(count);
            self.base = Some(self.help_surely(Help::Enter, count, count));
        }
        for (number, value) in parameters.iter().enumerate() {
            let reg = Reg(number as u32);
            match self.slots[number] {
                RegisterSlot::Variable(_) => self.set(reg, *value),
                RegisterSlot::Handle(_) => {
                    let to = self.get(reg);
                    self.help_surely(Help::Copy, to, *value);
                }
            }
        }
    }

    /// Makes the frame, and calls the body from its begin.
    fn call_body(mut self, body: FuncId, left: Value, parameters: &[Value]) {
        let bytes = at(REGISTERS_OFFSET, self.function.registers.len()) as u32;
        let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 3);
        let slot = self.build.create_sized_stack_slot(slot);
        let frame = self.build.ins().stack_addr(I64, slot, 0);
        let flags = MemFlagsData::trusted();
        self.build.ins().store(flags, self.stack, frame, STACK_OFFSET);
        if let Some(base) = self.base {
            self.build.ins().store(flags, base, frame, BASE_OFFSET);
        }
        for (number, value) in parameters.iter().enumerate() {
            self.build.ins().store(flags, *value, frame, at(REGISTERS_OFFSET, number));
        }
        let begin = self.constant(0);
        let called = self.context.module.declare_func_in_func(body, self.build.func);
        let call = self.build.ins().call(called, &[self.task, left, frame, begin]);
        let results = self.build.inst_results(call).to_vec();
        self.build.ins().return_(&results);
        self.build.seal_all_blocks();
        let config = self.context.module.isa().frontend_config();
        self.build.finalize(config);
    }

    /// Goes on at a point: all registers are read from the frame.
    fn resume(&mut self, frame: Value, point: Value) {
        let flags = MemFlagsData::trusted();
        if Layout::of(self.function).count > 0 {
            self.base = Some(self.build.ins().load(I64, flags, frame, BASE_OFFSET));
        }
        let (count, numbers) = points(self.function);
        let begin = self.blocks[0].expect("the first block is reached");
        let mut blocks = vec![begin];
        blocks.extend((1..count).map(|_| self.build.create_block()));
        let dispatch = self.build.create_block();
        self.build.append_block_param(dispatch, I64);
        self.build.ins().jump(dispatch, &[point.into()]);
        self.build.switch_to_block(dispatch);
        for number in 0..self.slots.len() {
            if let RegisterSlot::Variable(variable) = self.slots[number] {
                let value = self.build.ins().load(I64, flags, frame, at(REGISTERS_OFFSET, number));
                self.build.def_var(variable, value);
            }
        }
        let point = self.build.block_params(dispatch)[0];
        let point = self.build.ins().ireduce(I32, point);
        let pool = &mut self.build.func.dfg.value_lists;
        let targets: Vec<_> = blocks.iter().map(|block| BlockCall::new(*block, [], pool)).collect();
        let otherwise = BlockCall::new(begin, [], pool);
        let table = self.build.create_jump_table(JumpTableData::new(otherwise, &targets));
        self.build.ins().br_table(point, table);
        self.points = Some(Points { frame, dispatch, blocks, numbers });
    }

    /// All registers go to the frame.
    fn spill(&mut self) {
        let Some(Points { frame, .. }) = self.points else { unreachable!("a body has points") };
        for number in 0..self.slots.len() {
            if let RegisterSlot::Variable(variable) = self.slots[number] {
                let value = self.build.use_var(variable);
                self.build.ins().store(MemFlagsData::trusted(), value, frame, at(REGISTERS_OFFSET, number));
            }
        }
    }

    /// The point of the instruction that is translated, and the block of the point so many behind it.
    fn point(&self, further: usize) -> (i64, Block) {
        let points = self.points.as_ref().expect("a body has points");
        let number = points.numbers[&self.at];
        (number as i64, points.blocks[number + further])
    }

    pub(super) fn nursery_begin(&mut self) {
        self.spill();
        let Some(Points { frame, dispatch, .. }) = self.points else { unreachable!("a body has points") };
        let (point, inside) = self.point(0);
        let point = self.constant(point);
        let behind = self.try_help(Help::Nursery, frame, point);
        self.build.ins().jump(dispatch, &[behind.into()]);
        self.build.switch_to_block(inside);
    }

    pub(super) fn nursery_end(&mut self) {
        self.spill();
        let (point, behind) = self.point(0);
        let (_, failed) = self.point(1);
        let left = self.build.use_var(self.left);
        self.build.ins().store(MemFlagsData::trusted(), left, self.task, LEFT_OFFSET);
        let exit = self.constant(point << 1 | i64::from(self.is_failing_here()));
        self.build.ins().return_(&[exit, left]);
        self.build.switch_to_block(failed);
        self.build.set_cold_block(failed);
        let handler = self.handler();
        self.build.ins().jump(handler, &[]);
        self.build.switch_to_block(behind);
    }
}
