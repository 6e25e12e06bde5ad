//! Loops that count: `for i in a..b` round code that neither pays nor calls.
//!
//! Room: driver. Knows QTJIR and CLIF; knows nothing of tasks.
//!
//! A turn of such a loop adds one to its index and takes one from what is left, so the sum of both stays the same. It is enough to count one of them: the loop runs without a check up to the index at which it ends or a check is due, whichever comes first, and what is left is worked out where it is needed.
//!
//! # Invariant
//! 1. Where the loop is left, and where something in it fails, `left` has what it would have had turn by turn.
//! 2. A check is made by the turn by which it would have been made.
//!
//! # Why they hold
//! 1. There are two such places: `turn`, where the fast way ends, and the faults of blocks in the loop (`settle`). Nothing else in the loop can be seen from outside: it only works out numbers.
//! 2. In the turn with index `i` what is left is `left + i₀ - i`, if it was `left` when the index was `i₀`. The loop goes on without a check while that is at least 2.
//!
//! `Bug::TurnsUnpaid` breaks the first, and `differential` finds it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{Block, InstBuilder};
use cranelift_frontend::Variable;

use super::compile::Bug;
use super::constants::Known;
use super::translate::Translator;
use crate::ir::{Arithmetic, BlockId, Comparison, End, Function, Op, Reg, Type, successors, writes};

/// Loops of more blocks are run turn by turn.
const BLOCKS_MAX: usize = 32;

/// A loop that counts.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    index: Reg,
    limit: Reg,
    /// Whether there is another turn.
    more: Reg,
    /// The first block of the loop, and the one at whose end it goes on or not.
    first: usize,
    last: usize,
}

/// A loop that counts, in code.
#[derive(Clone, Copy)]
pub(super) struct FastLoop {
    /// Where a turn begins that needs no check.
    again: Block,
    /// The index before which no check is due, and the loop does not end.
    stop: Variable,
    /// The index and what is left, together.
    total: Variable,
}

/// The loops that count, for each of their blocks.
pub(super) fn counted(function: &Function, known: &[Known]) -> Vec<Option<Counted>> {
    let mut from = vec![Vec::new(); function.blocks.len()];
    for block in 0..function.blocks.len() {
        for to in successors(function, block) {
            from[to.0 as usize].push(block);
        }
    }
    let mut found = vec![None; function.blocks.len()];
    for last in 0..function.blocks.len() {
        let Some((counted, head)) = shape(function, known, last) else { continue };
        let Some(blocks) = body(function, &counted) else { continue };
        let is_closed = blocks.iter().all(|block| {
            let is_from_outside = |from: &usize| !blocks.contains(from) && (*block, *from) != (counted.first, head);
            !from[*block].iter().any(is_from_outside)
        });
        if is_closed {
            blocks.iter().for_each(|block| found[*block] = Some(counted));
        }
    }
    found
}

/// What a loop ends with that counts by one and pays one: as lowering writes a `for`. Also returns the block that goes into it.
fn shape(function: &Function, known: &[Known], last: usize) -> Option<(Counted, usize)> {
    let block = |BlockId(number): BlockId| &function.blocks[number as usize];
    let End::Branch(more, counting, paying) = function.blocks[last].end else { return None };
    let Op::Compare(Comparison::Lt, to, index, limit) = function.blocks[last].code.last()?.op else { return None };
    let [step] = &*block(counting).code else { return None };
    let Op::Arithmetic(Arithmetic::Add, sum, a, one) = step.op else { return None };
    let is_one = known[counting.0 as usize].get(&one) == Some(&1);
    let [decrement, check] = &*block(paying).code else { return None };
    let End::Jump(head) = block(paying).end else { return None };
    let End::Branch(again, BlockId(first), _) = block(head).end else { return None };
    let is_counting = to == more && again == more && (sum, a) == (index, index) && is_one && index != limit;
    let is_paying = decrement.op == Op::BudgetDecrement(1) && check.op == Op::BudgetCheck;
    let goes_round = block(counting).end == End::Jump(paying) && block(head).code.is_empty();
    let counted = Counted { index, limit, more, first: first as usize, last };
    (is_counting && is_paying && goes_round).then_some((counted, head.0 as usize))
}

/// The blocks of a loop, if all that they do is to work out other numbers, and all ways through them lead to the last one.
fn body(function: &Function, counted: &Counted) -> Option<Vec<usize>> {
    let mut blocks = vec![counted.first];
    let mut at = 0;
    while let Some(&number) = blocks.get(at) {
        at += 1;
        let block = &function.blocks[number];
        let is_last = number == counted.last;
        for (at, inst) in block.code.iter().enumerate() {
            let is_comparing = is_last && at + 1 == block.code.len();
            if !is_comparing && !only_works_out(function, &inst.op, counted) {
                return None;
            }
        }
        let next: &[BlockId] = match &block.end {
            _ if is_last => &[],
            End::Jump(to) => &[*to],
            End::Branch(_, then, otherwise) => &[*then, *otherwise],
            End::Return(_) | End::Raise => return None,
        };
        for BlockId(to) in next {
            if !blocks.contains(&(*to as usize)) {
                blocks.push(*to as usize);
            }
        }
        if blocks.len() > BLOCKS_MAX {
            return None;
        }
    }
    blocks.contains(&counted.last).then_some(blocks)
}

/// Whether an instruction only works out a number that the loop does not count with.
fn only_works_out(function: &Function, op: &Op, counted: &Counted) -> bool {
    let is_number = match op {
        Op::Const(..) | Op::ConstBool(..) | Op::Not(..) | Op::Compare(..) | Op::Neg(..) | Op::Arithmetic(..) => true,
        Op::Copy(to, _) => matches!(function.registers[to.0 as usize], Type::I64 | Type::Bool),
        _ => false,
    };
    let mut is_other = true;
    writes(op, |reg| is_other &= ![counted.index, counted.limit, counted.more].contains(&reg));
    is_number && is_other
}

impl Translator<'_, '_, '_> {
    /// A block begins. If it is the first of a loop that counts, it is seen how far that can go; then the fast way begins.
    pub(super) fn enter_loop(&mut self, number: usize) {
        let Some(counted) = self.counted[number].filter(|counted| counted.first == number) else { return };
        if self.context.settings.is_unchecked {
            return;
        }
        let fast = self.fast_loop(counted);
        let (index, limit) = (self.get(counted.index), self.get(counted.limit));
        let left = self.build.use_var(self.left);
        let total = self.build.ins().iadd(left, index);
        self.build.def_var(fast.total, total);
        let one = self.constant(1);
        let least = self.build.ins().smax(left, one);
        let turns = self.build.ins().iadd_imm_s(least, -1);
        let (due, overflows) = self.build.ins().sadd_overflow(index, turns);
        let sooner = self.build.ins().smin(due, limit);
        let stop = self.build.ins().select(overflows, limit, sooner);
        self.build.def_var(fast.stop, stop);
        self.build.ins().jump(fast.again, &[]);
        self.build.switch_to_block(fast.again);
    }

    /// The end of the last block of a loop that counts: goes on at once, or settles and does what the block says.
    pub(super) fn turn(&mut self, number: usize) {
        let Some(counted) = self.counted[number].filter(|counted| counted.last == number) else { return };
        if self.context.settings.is_unchecked {
            return;
        }
        let fast = self.fast_loop(counted);
        let (again_at_once, slow) = (self.build.create_block(), self.build.create_block());
        let (index, stop) = (self.get(counted.index), self.build.use_var(fast.stop));
        let is_over = self.build.ins().icmp(IntCC::SignedGreaterThanOrEqual, index, stop);
        self.build.ins().brif(is_over, slow, &[], again_at_once, &[]);
        self.build.seal_block(again_at_once);
        self.build.seal_block(slow);
        self.build.switch_to_block(again_at_once);
        let constants = self.constants.clone();
        let (next, more) = (self.build.ins().iadd_imm_s(index, 1), self.constant(1));
        self.set(counted.index, next);
        self.set(counted.more, more);
        self.build.ins().jump(fast.again, &[]);
        self.build.switch_to_block(slow);
        self.constants = constants;
        self.settle(number);
    }

    /// Says what is left, in a block of a loop that counts.
    pub(super) fn settle(&mut self, number: usize) {
        let Some(counted) = self.counted[number].filter(|_| !self.context.settings.is_unchecked) else { return };
        let fast = self.fast_loop(counted);
        let (total, index) = (self.build.use_var(fast.total), self.get(counted.index));
        let left = self.build.ins().isub(total, index);
        self.build.def_var(self.left, left);
    }

    /// A fault in a block of a loop that counts.
    pub(super) fn settle_fault(&mut self, number: usize) {
        if !self.is_planted(Bug::TurnsUnpaid) {
            self.settle(number);
        }
    }

    fn fast_loop(&mut self, counted: Counted) -> FastLoop {
        let build = &mut self.build;
        *self.fast_loops.entry(counted.first).or_insert_with(|| FastLoop {
            again: build.create_block(),
            stop: build.declare_var(I64),
            total: build.declare_var(I64),
        })
    }
}
