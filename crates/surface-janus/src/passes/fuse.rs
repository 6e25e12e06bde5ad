//! Fuses blocks: the fewer there are, the more checks can be merged.
//!
//! Room: decisions.
//!
//! # Invariant
//! The instructions of every way through a function, and where they go when they fail, are as before.
//!
//! # Why it holds
//! A block is put behind another if that jumps to it, nothing else leads to it, and both have the same `on_error`.

use crate::ir::{BlockId, End, Function, Module, successors};

/// Fuses blocks, and leaves out those that control does not reach.
pub fn fuse(module: &mut Module) {
    module.functions.iter_mut().for_each(fuse_function);
}

fn fuse_function(function: &mut Function) {
    let ways_in = ways_in(function);
    let mut is_gone: Vec<bool> = ways_in.iter().map(|count| *count == 0).collect();
    for block in 0..function.blocks.len() {
        if is_gone[block] {
            continue;
        }
        while let End::Jump(BlockId(next)) = function.blocks[block].end {
            let next = next as usize;
            let same = function.blocks[next].on_error == function.blocks[block].on_error;
            if next == block || next == 0 || ways_in[next] != 1 || !same {
                break;
            }
            is_gone[next] = true;
            let code = std::mem::take(&mut function.blocks[next].code);
            let (end, end_line) = (function.blocks[next].end.clone(), function.blocks[next].end_line);
            let fused = &mut function.blocks[block];
            fused.code.extend(code);
            (fused.end, fused.end_line) = (end, end_line);
        }
    }
    renumber(function, &is_gone);
}

/// How many edges lead to each block that is reached; one to the first, from the caller.
fn ways_in(function: &Function) -> Vec<usize> {
    let mut ways = vec![0; function.blocks.len()];
    ways[0] = 1;
    let mut open = vec![0];
    while let Some(block) = open.pop() {
        for BlockId(to) in successors(function, block) {
            ways[to as usize] += 1;
            if ways[to as usize] == 1 {
                open.push(to as usize);
            }
        }
    }
    ways
}

fn renumber(function: &mut Function, is_gone: &[bool]) {
    let mut next = 0;
    let numbers: Vec<u32> = is_gone
        .iter()
        .map(|is_gone| {
            let number = next;
            next += u32::from(!is_gone);
            number
        })
        .collect();
    let mut kept = is_gone.iter().map(|is_gone| !is_gone);
    function.blocks.retain(|_| kept.next().unwrap_or(true));
    let renumber = |block: &mut BlockId| block.0 = numbers[block.0 as usize];
    for block in &mut function.blocks {
        block.on_error.iter_mut().for_each(renumber);
        match &mut block.end {
            End::Jump(to) => renumber(to),
            End::Branch(_, then, otherwise) => {
                renumber(then);
                renumber(otherwise);
            }
            End::Return(_) | End::Raise => {}
        }
    }
}
