//! Which registers have known values where a block begins.
//!
//! Room: decisions.
//!
//! The step of a loop is a constant that is written before the loop, and a branch says what its condition was: with both, a loop needs fewer comparisons.
//!
//! # Invariant
//! What is said of a block holds on every way to it.
//!
//! # Why it holds
//! What is known is carried along every edge until nothing changes, and two ways that disagree know nothing. An instruction that fails may be any of its block: what the block writes is not known at its `on_error`.

use std::collections::{BTreeMap, BTreeSet};

use crate::ir::{BlockId, End, Function, Op, Reg, reads, writes};

/// Registers with their values.
pub(super) type Known = BTreeMap<Reg, i64>;

/// Above this many blocks times registers nothing is said: it would take too long.
const WORK_MAX: usize = 1 << 18;

/// What is known at the begin of each block.
pub(super) fn known(function: &Function) -> Vec<Known> {
    let candidates = candidates(function);
    let blocks = function.blocks.len();
    if candidates.is_empty() || candidates.len() * blocks > WORK_MAX {
        return vec![Known::new(); blocks];
    }
    let mut at_begin: Vec<Option<Known>> = vec![None; blocks];
    at_begin[0] = Some(Known::new());
    let mut open = vec![0];
    while let Some(block) = open.pop() {
        let begin = at_begin[block].clone().unwrap_or_default();
        for (BlockId(to), mut known) in walk(function, block, begin) {
            known.retain(|reg, _| candidates.contains(reg));
            let is_changed = match &mut at_begin[to as usize] {
                Some(before) => {
                    let count = before.len();
                    before.retain(|reg, value| known.get(reg) == Some(value));
                    before.len() < count
                }
                unknown => {
                    *unknown = Some(known);
                    true
                }
            };
            if is_changed {
                open.push(to as usize);
            }
        }
    }
    at_begin.into_iter().map(Option::unwrap_or_default).collect()
}

/// Registers that may be known and are read in a block that has not written them.
fn candidates(function: &Function) -> BTreeSet<Reg> {
    let (mut known, mut read_later) = (BTreeSet::new(), BTreeSet::new());
    for block in &function.blocks {
        let mut written = BTreeSet::new();
        for inst in &block.code {
            reads(&inst.op, |reg| {
                if !written.contains(&reg) {
                    read_later.insert(reg);
                }
            });
            writes(&inst.op, |reg| _ = written.insert(reg));
            if let Op::Const(to, _) = inst.op {
                known.insert(to);
            }
        }
        if let End::Branch(on, ..) = block.end {
            known.insert(on);
            if !written.contains(&on) {
                read_later.insert(on);
            }
        }
    }
    known.intersection(&read_later).copied().collect()
}

/// What the successors of a block know.
fn walk(function: &Function, block: usize, begin: Known) -> Vec<(BlockId, Known)> {
    let block = &function.blocks[block];
    let mut known = begin.clone();
    let mut at_error = begin;
    for inst in &block.code {
        let value = match &inst.op {
            Op::Const(_, value) => Some(*value),
            Op::Copy(_, from) => known.get(from).copied(),
            _ => None,
        };
        writes(&inst.op, |reg| {
            at_error.remove(&reg);
            match value {
                Some(value) => _ = known.insert(reg, value),
                None => _ = known.remove(&reg),
            }
        });
    }
    let mut next = Vec::new();
    match block.end {
        End::Jump(to) => next.push((to, known)),
        End::Branch(on, then, otherwise) => {
            for (to, value) in [(then, 1), (otherwise, 0)] {
                let mut known = known.clone();
                if then != otherwise {
                    known.insert(on, value);
                }
                next.push((to, known));
            }
        }
        End::Return(_) | End::Raise => {}
    }
    next.extend(block.on_error.map(|target| (target, at_error)));
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;

    #[test]
    fn the_step_of_a_loop_and_the_way_a_branch_went_are_known() {
        let program = Program::compile("func main() do\n    for i in 1..9 do print(i) end\nend\n").unwrap();
        let function = &program.ir().functions[0];
        let known = known(function);
        let mut steps = 0;
        for (block, body) in function.blocks.iter().enumerate() {
            for inst in &body.code {
                if let Op::Arithmetic(_, _, _, step) = inst.op {
                    assert_eq!(known[block].get(&step), Some(&1));
                    steps += 1;
                }
            }
        }
        assert_eq!(steps, 1);
        assert!(known.iter().any(|known| known.values().any(|value| *value == 0)));
    }
}
