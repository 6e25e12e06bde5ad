//! Merges checks within a block.
//!
//! Room: decisions.
//!
//! # Invariant
//! At everything that can be seen, and wherever something can fail, exactly as much has been spent as before.
//!
//! # Why it holds
//! A decrement and its check move down to the next check of the block, past instructions that are no barrier: others do not see them, and they cannot fail. A check that finds the budget spent spends what
//! is left of it first, so it makes no difference whether two operations are refused together or one after the other.

use crate::ir::{Inst, Module, Op};

/// Merges the checks of all functions.
pub fn merge_checks(module: &mut Module) {
    let blocks = module.functions.iter_mut().flat_map(|function| &mut function.blocks);
    blocks.for_each(|block| merge(&mut block.code));
}

fn merge(code: &mut Vec<Inst>) {
    let mut merged: Vec<Inst> = Vec::with_capacity(code.len());
    // Where in `merged` the decrement and the check are that the next ones can take along; no barrier came since.
    let (mut owed, mut check): (Option<usize>, Option<usize>) = (None, None);
    let mut is_gone = Vec::with_capacity(code.len());
    for inst in code.drain(..) {
        match &inst.op {
            Op::BudgetDecrement(more) => {
                let mut inst = Inst { op: Op::BudgetDecrement(*more), line: inst.line };
                if let Some(earlier) = owed.take()
                    && let Op::BudgetDecrement(before) = merged[earlier].op
                    && let Some(sum) = before.checked_add(*more)
                {
                    is_gone[earlier] = true;
                    inst.op = Op::BudgetDecrement(sum);
                }
                owed = Some(merged.len());
                merged.push(inst);
                is_gone.push(false);
                continue;
            }
            Op::BudgetCheck => {
                if let Some(earlier) = check.replace(merged.len()) {
                    is_gone[earlier] = true;
                }
            }
            op if op.is_barrier() || op.is_checked() => (owed, check) = (None, None),
            _ => {}
        }
        merged.push(inst);
        is_gone.push(false);
    }
    let mut gone = is_gone.into_iter();
    merged.retain(|_| !gone.next().unwrap_or(false));
    *code = merged;
}
