//! Async lowering: what the source says about tasks becomes what the runtime does.
//!
//! Room: decisions.
//!
//! | source | here | runtime |
//! |---|---|---|
//! | `spawn f(x)` | `task_create` | a task in the innermost nursery |
//! | `f(x)`, with an async `f` | `task_create` | the same; the nursery is the block's own, if there is no other |
//! | `await t` | `task_join` | waits for the result, which comes through a channel of its own |

use crate::ir::{Module, Op};

/// Lowers all functions of a module.
pub fn asynchronous(module: &mut Module) {
    let blocks = module.functions.iter_mut().flat_map(|function| &mut function.blocks);
    for inst in blocks.flat_map(|block| &mut block.code) {
        let op = std::mem::replace(&mut inst.op, Op::Yield);
        inst.op = match op {
            Op::Spawn(to, callee) | Op::AsyncCall(to, callee) => Op::TaskCreate(to, callee),
            Op::Await(to, task) => Op::TaskJoin(to, task),
            other => other,
        };
    }
}
