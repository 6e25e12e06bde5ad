//! Whether a function pays for what it does, and is asked often enough.
//!
//! Room: decisions.
//!
//! # Invariants
//! 1. Wherever it can be seen or can fail, exactly what was done is owed: no instruction is free, and none is paid twice.
//! 2. Every circle of blocks, every call and every operation of a channel passes a `budget_check`.
//!
//! # Why they hold
//! 1. Each block is balanced by itself: at each barrier, and at its end, the sum of its decrements is the sum of its costs so far.
//! 2. Every circle has an edge that goes back (`graph.rs`). Such an edge is a jump, which costs one operation, and no decrement is left unchecked at a jump back. An `on_error` does not go back.

use super::graph::Order;
use super::{Checked, wrong};
use crate::ir::{End, Function, Op};

pub(super) fn check(function: &Function, order: &Order) -> Checked {
    order.blocks.iter().try_for_each(|block| check_block(function, *block, order))
}

fn check_block(function: &Function, block: usize, order: &Order) -> Checked {
    let body = &function.blocks[block];
    let (mut owed, mut cost) = (0_u64, 0_u64);
    // Since the last barrier; since the last decrement.
    let (mut is_checked, mut is_covered) = (false, true);
    for (at, inst) in body.code.iter().enumerate() {
        match &inst.op {
            Op::BudgetDecrement(ops) => {
                owed += u64::from(*ops);
                is_covered = false;
            }
            Op::BudgetCheck => (is_checked, is_covered) = (true, true),
            op => {
                cost += u64::from(op.cost());
                if (op.is_barrier() || op.is_checked()) && owed != cost {
                    return wrong(
                        block,
                        at,
                        format!("{owed} operations are counted in this block so far, and {cost} were done"),
                    );
                }
                if !is_covered && op.is_barrier() {
                    return wrong(block, at, "a `budget_check` is missing behind the last decrement");
                }
                if op.is_checked() && !(is_checked && is_covered) {
                    return wrong(block, at, "a `budget_check` is missing before it");
                }
                cost += u64::from(op.cost_after());
                is_checked &= !op.is_barrier();
            }
        }
    }
    let at = body.code.len();
    let is_back = match body.end {
        End::Jump(to) => order.goes_back(block, to),
        End::Branch(_, then, otherwise) if order.goes_back(block, then) || order.goes_back(block, otherwise) => {
            return wrong(block, at, "a branch goes back: put a block with a jump between");
        }
        _ => false,
    };
    if body.on_error.is_some_and(|target| order.goes_back(block, target)) {
        return wrong(block, at, "`on_error` goes back: what fails would be tried for ever");
    }
    cost += u64::from(is_back);
    if owed != cost {
        return wrong(block, at, format!("{owed} operations are counted in this block, and {cost} were done"));
    }
    if is_back && !(is_checked && is_covered) {
        return wrong(block, at, "a `budget_check` is missing before it goes back");
    }
    if !is_covered {
        return wrong(block, at, "a `budget_check` is missing behind the last decrement of the block");
    }
    Ok(())
}
