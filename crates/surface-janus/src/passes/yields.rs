//! Puts yield checks where something costs: calls, prints, operations of channels and tasks, memory, and jumps back.
//!
//! Room: decisions.
//!
//! # Invariant
//! The result passes `ir/verify/budget.rs`, if nothing was counted before.

use crate::ir::{Function, Inst, Module, Op, back_edges};

/// Adds decrements and checks to all functions of a module that has none.
pub fn yield_checks(module: &mut Module) {
    module.functions.iter_mut().for_each(function_checks);
}

fn function_checks(function: &mut Function) {
    let back = back_edges(function);
    for (number, block) in function.blocks.iter_mut().enumerate() {
        let mut code = Vec::with_capacity(block.code.len());
        for inst in std::mem::take(&mut block.code) {
            let line = inst.line;
            let (before, after) = (inst.op.cost(), inst.op.cost_after());
            if before > 0 {
                code.push(Inst { op: Op::BudgetDecrement(before), line });
            }
            if before > 0 || inst.op.is_checked() {
                code.push(Inst { op: Op::BudgetCheck, line });
            }
            code.push(inst);
            if after > 0 {
                code.push(Inst { op: Op::BudgetDecrement(after), line });
                code.push(Inst { op: Op::BudgetCheck, line });
            }
        }
        if back.binary_search(&number).is_ok() {
            let line = block.end_line;
            code.push(Inst { op: Op::BudgetDecrement(1), line });
            code.push(Inst { op: Op::BudgetCheck, line });
        }
        block.code = code;
    }
}
