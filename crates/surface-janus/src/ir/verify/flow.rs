//! What holds on every way through a function.
//!
//! Room: decisions.
//!
//! # Invariant
//! At each instruction of a block that is reached it is known, whatever way led there: whether the function is failing, which nurseries are open, and which registers were written at least.
//!
//! # Why it holds
//! What is known is carried along every edge until nothing changes. Two ways that disagree about nurseries or about failing are refused; of registers those count that both have written.
//! An instruction that fails has written nothing, and may be any of its block: what the block knew at its begin is what its `on_error` knows of registers.

use super::graph::Order;
use super::{Checked, wrong};
use crate::ir::{End, Function, Op, Piece, Reg};
use crate::limits::OPEN_NURSERIES_MAX;

/// A set of registers.
#[derive(Clone, PartialEq)]
struct Registers(Vec<u64>);

impl Registers {
    fn has(&self, reg: Reg) -> bool {
        self.0[reg.0 as usize / 64] & (1 << (reg.0 % 64)) != 0
    }

    fn add(&mut self, reg: Reg) {
        self.0[reg.0 as usize / 64] |= 1 << (reg.0 % 64);
    }

    /// Whether it has become smaller.
    fn keep_common(&mut self, other: &Registers) -> bool {
        let mut is_smaller = false;
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            is_smaller |= *own & !other != 0;
            *own &= other;
        }
        is_smaller
    }
}

/// What is known at an instruction.
#[derive(Clone)]
struct Known {
    written: Registers,
    nurseries: Vec<u32>,
    failing: bool,
}

pub(super) fn check(function: &Function, order: &Order) -> Checked {
    let mut at_begin: Vec<Option<Known>> = vec![None; function.blocks.len()];
    let mut written = Registers(vec![0; function.registers.len().div_ceil(64)]);
    (0..function.parameters as u32).for_each(|reg| written.add(Reg(reg)));
    at_begin[0] = Some(Known { written, nurseries: Vec::new(), failing: false });
    // In the order of the blocks most of it is known after one round.
    let mut is_waiting = vec![false; function.blocks.len()];
    is_waiting[0] = true;
    loop {
        let mut is_done = true;
        for &block in &order.blocks {
            if std::mem::take(&mut is_waiting[block]) {
                is_done = false;
                for (to, known) in walk(function, block, &at_begin)? {
                    let changed = join(&mut at_begin[to], known, block, to)?;
                    is_waiting[to] |= changed;
                }
            }
        }
        if is_done {
            return Ok(());
        }
    }
}

/// Two ways lead to one block. True if less is known there than before.
fn join(at: &mut Option<Known>, known: Known, from: usize, to: usize) -> Checked<bool> {
    let Some(before) = at else {
        *at = Some(known);
        return Ok(true);
    };
    if before.nurseries != known.nurseries {
        return wrong(from, 0, format!("bb{to} is reached with other nurseries open than on another way"));
    }
    if before.failing != known.failing {
        return wrong(from, 0, format!("bb{to} is reached failing on one way, and not on another"));
    }
    Ok(before.written.keep_common(&known.written))
}

/// Walks through a block. Returns what its successors know.
fn walk(function: &Function, block: usize, at_begin: &[Option<Known>]) -> Checked<Vec<(usize, Known)>> {
    let Some(mut known) = at_begin[block].clone() else { return Ok(Vec::new()) };
    let body = &function.blocks[block];
    let begin = known.written.clone();
    // What the handler knows: the same at every instruction that can fail. If there is none, it has to be right all the same.
    let mut handler: Option<Known> = None;
    let unused = Known { written: begin.clone(), nurseries: known.nurseries.clone(), failing: true };
    for (at, inst) in body.code.iter().enumerate() {
        try_reads(&inst.op, |reg| match known.written.has(reg) {
            true => Ok(()),
            false => wrong(block, at, format!("%{} may not be written yet", reg.0)),
        })?;
        let before = known.nurseries.clone();
        step(&inst.op, &mut known, block, at)?;
        if !inst.op.can_fail() {
            continue;
        }
        // A nursery that ends is over, also if that fails; one that could not begin is not there.
        let nurseries = if matches!(inst.op, Op::NurseryEnd(_)) { known.nurseries.clone() } else { before };
        let failed = Known { written: begin.clone(), nurseries, failing: true };
        match (&handler, body.on_error) {
            (_, None) if !failed.nurseries.is_empty() => {
                return wrong(
                    block,
                    at,
                    "it can fail while a nursery is open, and nothing would end that: `on_error` is missing",
                );
            }
            (_, None) => {}
            (None, Some(_)) => handler = Some(failed),
            (Some(known), Some(_)) if known.nurseries == failed.nurseries => {}
            (Some(_), Some(_)) => {
                return wrong(
                    block,
                    at,
                    "one `on_error` for several sets of open nurseries: begin a block behind a begin or an end",
                );
            }
        }
    }
    let at = body.code.len();
    let mut next = Vec::new();
    match body.end {
        End::Jump(to) => next.push((to.0 as usize, known)),
        End::Branch(on, then, otherwise) => {
            if !known.written.has(on) {
                return wrong(block, at, format!("%{} may not be written yet", on.0));
            }
            next.push((then.0 as usize, known.clone()));
            next.push((otherwise.0 as usize, known));
        }
        End::Return(value) => {
            if let Some(value) = value.filter(|value| !known.written.has(*value)) {
                return wrong(block, at, format!("%{} may not be written yet", value.0));
            }
            ends(&known, false, block, at)?;
        }
        End::Raise => ends(&known, true, block, at)?,
    }
    if let Some(target) = body.on_error {
        next.push((target.0 as usize, handler.unwrap_or(unused)));
    }
    Ok(next)
}

fn ends(known: &Known, raises: bool, block: usize, at: usize) -> Checked {
    if let Some(open) = known.nurseries.last() {
        return wrong(block, at, format!("the function ends while nursery {open} is open"));
    }
    match (raises, known.failing) {
        (true, false) => wrong(block, at, "`raise` without an error"),
        (false, true) => wrong(block, at, "`return` would lose the pending error: `raise` it"),
        _ => Ok(()),
    }
}

/// What an instruction changes.
fn step(op: &Op, known: &mut Known, block: usize, at: usize) -> Checked {
    match op {
        Op::NurseryBegin(_) | Op::TaskCreate(..) | Op::TaskJoin(..) if known.failing => {
            return wrong(
                block,
                at,
                "a function that is failing starts no tasks and waits for none but at the end of a nursery",
            );
        }
        Op::NurseryBegin(number) => {
            if known.nurseries.len() == OPEN_NURSERIES_MAX {
                return wrong(
                    block,
                    at,
                    format!("more than {OPEN_NURSERIES_MAX} nurseries inside each other, the limit"),
                );
            }
            known.nurseries.push(*number);
        }
        Op::NurseryEnd(number) => match known.nurseries.pop() {
            Some(open) if open == *number => {}
            Some(open) => return wrong(block, at, format!("nursery {open} ends first, not {number}")),
            None => return wrong(block, at, format!("nursery {number} is not open")),
        },
        Op::TaskCreate(..) if known.nurseries.is_empty() => {
            return wrong(block, at, "no nursery is open that would wait for the task");
        }
        _ => {}
    }
    writes(op, |reg| known.written.add(reg));
    Ok(())
}

/// The registers an instruction reads.
#[cfg(feature = "native")]
pub(crate) fn reads(op: &Op, mut read: impl FnMut(Reg)) {
    _ = try_reads(op, |reg| {
        read(reg);
        Ok(())
    });
}

/// The same, up to the first that is wrong.
fn try_reads(op: &Op, mut read: impl FnMut(Reg) -> Checked) -> Checked {
    match op {
        Op::Const(..)
        | Op::ConstBool(..)
        | Op::BudgetCheck
        | Op::BudgetDecrement(_)
        | Op::Yield
        | Op::NurseryBegin(_)
        | Op::NurseryEnd(_)
        | Op::SelectBegin
        | Op::SelectDefault
        | Op::SelectWait(..) => Ok(()),
        Op::Copy(_, a)
        | Op::Neg(_, a)
        | Op::Not(_, a)
        | Op::Await(_, a)
        | Op::TaskJoin(_, a)
        | Op::ChannelCreate(_, a)
        | Op::ChannelRecv(_, a)
        | Op::ChannelNext(_, _, a)
        | Op::ChannelClose(a)
        | Op::ChannelIsClosed(_, a)
        | Op::ChannelLen(_, a)
        | Op::SelectRecv(a)
        | Op::SelectTimeout(a) => read(*a),
        Op::Arithmetic(_, _, a, b)
        | Op::Compare(_, _, a, b)
        | Op::ChannelSend(a, b)
        | Op::ChannelTrySend(_, a, b)
        | Op::ChannelTryRecv(_, a, b)
        | Op::SelectSend(a, b) => {
            read(*a)?;
            read(*b)
        }
        Op::Call(_, callee) | Op::Spawn(_, callee) | Op::AsyncCall(_, callee) | Op::TaskCreate(_, callee) => {
            callee.arguments.iter().try_for_each(|argument| read(*argument))
        }
        Op::Print(pieces) => pieces.iter().try_for_each(|piece| match piece {
            Piece::Text(_) => Ok(()),
            Piece::Value(value) => read(*value),
        }),
    }
}

/// The registers an instruction writes.
pub(crate) fn writes(op: &Op, mut write: impl FnMut(Reg)) {
    match op {
        Op::Const(to, _)
        | Op::ConstBool(to, _)
        | Op::Copy(to, _)
        | Op::Neg(to, _)
        | Op::Not(to, _)
        | Op::Arithmetic(_, to, ..)
        | Op::Compare(_, to, ..)
        | Op::Spawn(to, _)
        | Op::AsyncCall(to, _)
        | Op::TaskCreate(to, _)
        | Op::ChannelCreate(to, _)
        | Op::ChannelRecv(to, _)
        | Op::ChannelTrySend(to, ..)
        | Op::ChannelTryRecv(to, ..)
        | Op::ChannelIsClosed(to, _)
        | Op::ChannelLen(to, _) => write(*to),
        Op::Call(to, _) | Op::Await(to, _) | Op::TaskJoin(to, _) => to.iter().for_each(|to| write(*to)),
        Op::ChannelNext(to, some, _) => {
            write(*to);
            write(*some);
        }
        Op::SelectWait(case, value) => {
            write(*case);
            write(*value);
        }
        Op::Print(_)
        | Op::BudgetCheck
        | Op::BudgetDecrement(_)
        | Op::Yield
        | Op::NurseryBegin(_)
        | Op::NurseryEnd(_)
        | Op::ChannelSend(..)
        | Op::ChannelClose(_)
        | Op::SelectBegin
        | Op::SelectRecv(_)
        | Op::SelectSend(..)
        | Op::SelectTimeout(_)
        | Op::SelectDefault => {}
    }
}
