//! Where code goes on: jumps, branches, and what a branch says about the numbers it looked at.
//!
//! Room: driver. Knows QTJIR and CLIF; knows nothing of tasks.
//!
//! # Invariant
//! Whatever way is taken here costs what the blocks on it cost, and fails where they fail: code is moved and copied only whole, with the counting in it.

use std::ops::RangeInclusive;

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::condcodes::IntCC;

use super::translate::{RegisterSlot, Translator};
use crate::ir::{BlockId, Comparison, End, Inst, Op, Reg, reads, writes};

/// So many instructions are done although their result may not be needed.
const CHOSEN_MAX: usize = 4;

impl Translator<'_, '_, '_> {
    /// Goes to a block. What only counts, and then branches, is done here: at the end of a loop it is known then which way that goes, or a comparison and the branch are one.
    pub(super) fn jump(&mut self, to: BlockId) {
        let block = &self.function.blocks[to.0 as usize];
        match block.end {
            End::Branch(on, then, otherwise) if block.code.is_empty() => return self.branch(on, then, otherwise),
            End::Jump(BlockId(next)) if self.only_counts(to) && self.only_branches(next) => {
                let from = self.at;
                for (at, inst) in block.code.iter().enumerate() {
                    self.at = (to.0 as usize, at);
                    self.op(&inst.op);
                }
                self.at = from;
                return self.jump(BlockId(next));
            }
            _ => {}
        }
        let to = self.begin(to);
        self.build.ins().jump(to, &[]);
    }

    pub(super) fn branch(&mut self, on: Reg, then: BlockId, otherwise: BlockId) {
        let (to_then, to_otherwise) = (self.begin(then), self.begin(otherwise));
        match self.constants.get(&on).copied() {
            Some(0) => _ = self.build.ins().jump(to_otherwise, &[]),
            Some(_) => _ = self.build.ins().jump(to_then, &[]),
            None if self.is_chosen(on, then, otherwise) => {}
            None => {
                let on = self.get(on);
                if !self.goes_back(then) {
                    self.build.ins().brif(on, to_then, &[], to_otherwise, &[]);
                    return;
                }
                // The one named last follows in the code: here the next turn of a loop.
                let is_false = self.build.ins().icmp_imm_s(IntCC::Equal, on, 0);
                self.build.ins().brif(is_false, to_otherwise, &[], to_then, &[]);
            }
        }
    }

    /// Whether a block jumps back, at once or over one that only counts.
    fn goes_back(&self, BlockId(block): BlockId) -> bool {
        let mut block = block as usize;
        for _ in 0..2 {
            let End::Jump(BlockId(next)) = self.function.blocks[block].end else { return false };
            if next as usize <= self.at.0 {
                return true;
            }
            block = next as usize;
        }
        false
    }

    /// Does what stands between a branch and the block where its ways meet, if that is little and cannot fail: both ways are worked out, and one is chosen without a branch. How well a branch is guessed depends on the data.
    fn is_chosen(&mut self, on: Reg, then: BlockId, otherwise: BlockId) -> bool {
        let function = self.function;
        let body = &function.blocks[then.0 as usize];
        let rest = &function.blocks[otherwise.0 as usize];
        let End::Jump(meeting) = body.end else { return false };
        let is_met = otherwise == meeting || (rest.code.is_empty() && rest.end == body.end);
        if !is_met || body.code.len() > CHOSEN_MAX || self.goes_back(then) || self.depends_on(on, then) {
            return false;
        }
        let (from, constants) = (self.at, self.constants.clone());
        let on = self.get(on);
        let before = self.outlasting(then).into_iter().map(|reg| (reg, self.get(reg))).collect::<Vec<_>>();
        let is_possible = body.code.iter().enumerate().all(|(at, inst)| {
            self.at = (then.0 as usize, at);
            let is_possible = self.cannot_fail(&inst.op);
            if is_possible {
                self.op(&inst.op);
            }
            is_possible
        });
        self.at = from;
        for (reg, value) in before {
            let new = self.get(reg);
            let chosen = if is_possible { self.build.ins().select(on, new, value) } else { value };
            self.set(reg, chosen);
        }
        if is_possible {
            self.jump(meeting);
        } else {
            self.constants = constants;
        }
        is_possible
    }

    /// Whether a condition was worked out in this block from something that `then` writes. To choose would make that wait for the comparison, turn by turn; a branch is guessed, and does not wait.
    fn depends_on(&self, on: Reg, BlockId(then): BlockId) -> bool {
        let function = self.function;
        let (mut is_found, mut depends) = (false, false);
        for inst in function.blocks[self.at.0].code.iter().rev() {
            writes(&inst.op, |reg| is_found |= reg == on);
            if is_found {
                let written = &function.blocks[then as usize].code;
                reads(&inst.op, |read| {
                    written.iter().for_each(|inst| writes(&inst.op, |reg| depends |= reg == read));
                });
                break;
            }
        }
        depends
    }

    /// The registers with numbers that a block writes and that others may read: all but those that it alone reads, after it has written them.
    fn outlasting(&self, BlockId(block): BlockId) -> Vec<Reg> {
        let (mut found, mut read_first) = (Vec::new(), Vec::new());
        for inst in &self.function.blocks[block as usize].code {
            reads(&inst.op, |reg| read_first.push(reg));
            writes(&inst.op, |reg| {
                let is_own = self.only_read_in[reg.0 as usize] == Some(block as usize) && !read_first.contains(&reg);
                let is_number = matches!(self.slots[reg.0 as usize], RegisterSlot::Variable(_));
                if is_number && !is_own && !found.contains(&reg) {
                    found.push(reg);
                }
            });
        }
        found
    }

    /// Whether an instruction only works out a value, and always has one.
    pub(super) fn cannot_fail(&self, op: &Op) -> bool {
        let known = |reg: Reg| (reg, self.constants.get(&reg).copied());
        match op {
            Op::Const(..) | Op::ConstBool(..) | Op::Not(..) | Op::Compare(..) => true,
            Op::Copy(to, _) => matches!(self.slots[to.0 as usize], RegisterSlot::Variable(_)),
            Op::Arithmetic(operator, _, a, b) => self.fits(*operator, known(*a), known(*b)),
            _ => false,
        }
    }

    /// Whether a block does nothing but pay, and fails like the current one.
    fn only_counts(&self, BlockId(block): BlockId) -> bool {
        let (block, here) = (block as usize, self.at.0);
        let (body, current) = (&self.function.blocks[block], &self.function.blocks[here]);
        let counts = body.code.iter().all(|inst| matches!(inst.op, Op::BudgetDecrement(_) | Op::BudgetCheck));
        counts
            && body.code.len() <= 2
            && body.on_error == current.on_error
            && self.is_failing[block] == self.is_failing[here]
    }

    fn only_branches(&self, block: u32) -> bool {
        let block = &self.function.blocks[block as usize];
        block.code.is_empty() && matches!(block.end, End::Branch(..))
    }

    /// The comparison that led here, as it holds here, if a branch on one was the only way to this block and nothing has written `reg` since. The comparison stands at the end of the block before.
    fn compared(&self, reg: Reg) -> Option<(Comparison, Reg, Reg, &[Inst])> {
        let (block, at) = self.at;
        let before = &self.function.blocks[self.only_from[block]?];
        let End::Branch(on, BlockId(then), _) = before.end else { return None };
        let is_counting = |inst: &Inst| matches!(inst.op, Op::BudgetDecrement(_) | Op::BudgetCheck);
        let last = before.code.iter().rposition(|inst| !is_counting(inst))?;
        let Op::Compare(operator, to, a, b) = before.code[last].op else { return None };
        let mut is_written = to == reg;
        for inst in &self.function.blocks[block].code[..at] {
            writes(&inst.op, |written| is_written |= written == reg);
        }
        let operator = if then as usize == block { operator } else { opposite(operator) };
        (to == on && !is_written).then_some((operator, a, b, &before.code[..last]))
    }

    /// Whether a register is below another here, so that it can be one more.
    pub(super) fn is_below_another(&self, reg: Reg) -> bool {
        matches!(self.compared(reg), Some((Comparison::Lt, a, _, _)) if a == reg)
    }

    /// What a register has at least and at most here, by the comparison with a constant that led here.
    pub(super) fn bounds(&self, reg: Reg) -> RangeInclusive<i64> {
        let all = i64::MIN..=i64::MAX;
        let Some((operator, a, b, code)) = self.compared(reg) else { return all };
        let (operator, other) = if a == reg { (operator, b) } else { (mirrored(operator), a) };
        if other == reg || (a != reg && b != reg) {
            return all;
        }
        let written = code.iter().rev().find(|inst| {
            let mut is_written = false;
            writes(&inst.op, |reg| is_written |= reg == other);
            is_written
        });
        let Some(Op::Const(_, limit)) = written.map(|inst| &inst.op) else { return all };
        match operator {
            Comparison::Eq => *limit..=*limit,
            Comparison::Ne => all,
            Comparison::Lt => i64::MIN..=limit.saturating_sub(1),
            Comparison::Le => i64::MIN..=*limit,
            Comparison::Gt => limit.saturating_add(1)..=i64::MAX,
            Comparison::Ge => *limit..=i64::MAX,
        }
    }
}

/// What holds if a comparison does not.
fn opposite(operator: Comparison) -> Comparison {
    match operator {
        Comparison::Eq => Comparison::Ne,
        Comparison::Ne => Comparison::Eq,
        Comparison::Lt => Comparison::Ge,
        Comparison::Le => Comparison::Gt,
        Comparison::Gt => Comparison::Le,
        Comparison::Ge => Comparison::Lt,
    }
}

/// The same with its sides exchanged.
fn mirrored(operator: Comparison) -> Comparison {
    match operator {
        Comparison::Lt => Comparison::Gt,
        Comparison::Le => Comparison::Ge,
        Comparison::Gt => Comparison::Lt,
        Comparison::Ge => Comparison::Le,
        same @ (Comparison::Eq | Comparison::Ne) => same,
    }
}
