//! How much stack a task of machine code needs at most.
//!
//! Room: decisions.
//!
//! # Invariant
//! A task that has so many bytes when it begins never has less than [`BELOW_BYTES`] where it calls a helper.
//!
//! # Why it holds
//! The size of every frame of code is known when it is compiled. A call takes so much of what the host allows, and so much of the real stack; the worst ratio of the two, times what the host allows, is enough for every chain of calls.
//! If a function calls nothing that could come back to it, the sum along its longest chain is enough, and mostly less. An open nursery puts an activation of its function and frames of the runtime on the stack, and a task has [`OPEN_NURSERIES_MAX`] at most.
//! Inlining takes away frames, and makes the one around it larger, whose size is known then.

use crate::ir::{Module, Op};
use crate::limits::OPEN_NURSERIES_MAX;
use crate::task::call_bytes;

/// What is kept for helpers, and what they call: the task runtime, and the output of the host.
pub(super) const BELOW_BYTES: usize = 64 << 10;

/// The largest stack that a task asks for. A program on a host that allows more is interpreted, which takes its frames from the heap.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// Frames of Rust between the begin of a nursery and the code inside it; `nurseries_take_less_than_is_kept_for_them` measures them.
pub(super) const NURSERY_BYTES: u64 = if cfg!(debug_assertions) { 12 << 10 } else { 4 << 10 };

/// What a function takes, in bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Frames {
    /// A call of it.
    pub(super) call: u64,
    /// An activation of it inside a nursery.
    pub(super) inside: u64,
}

/// What each function needs, with all that it calls.
pub(super) struct Needs {
    /// The longest chain of calls; none if there are circles among them.
    chains: Vec<Option<u64>>,
    /// The worst ratio of the real stack to what the host counts, in 1/1024.
    ratio: u64,
    /// Open nurseries.
    nurseries: u64,
}

impl Needs {
    pub(super) fn of(program: &Module, frames: &[Frames]) -> Self {
        let ratios = program.functions.iter().zip(frames);
        let ratio = ratios.map(|(function, frames)| (frames.call * 1024).div_ceil(call_bytes(function))).max();
        let inside = frames.iter().map(|frames| frames.inside).max().unwrap_or(0);
        let nurseries = if inside == 0 { 0 } else { OPEN_NURSERIES_MAX as u64 * (inside + NURSERY_BYTES) };
        Self { chains: chains(program, frames), ratio: ratio.unwrap_or(0), nurseries }
    }

    /// What a task of this function needs, on a host that allows `limit` for calls.
    pub(super) fn bytes(&self, function: usize, limit: u64) -> usize {
        let by_limit = (u128::from(limit) * u128::from(self.ratio) / 1024).min(u128::from(u64::MAX / 4)) as u64;
        let calls = self.chains[function].unwrap_or(by_limit).min(by_limit);
        usize::try_from(calls + self.nurseries).unwrap_or(usize::MAX).saturating_add(BELOW_BYTES)
    }
}

/// The longest chain of calls from each function.
fn chains(program: &Module, frames: &[Frames]) -> Vec<Option<u64>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        Open,
        Done,
    }
    let callees: Vec<Vec<usize>> = program
        .functions
        .iter()
        .map(|function| {
            let code = function.blocks.iter().flat_map(|block| &block.code);
            let calls = code.filter_map(|inst| match &inst.op {
                Op::Call(_, callee) => Some(callee.function.0 as usize),
                _ => None,
            });
            calls.collect()
        })
        .collect();
    let mut seen = vec![Seen::No; callees.len()];
    let mut chains: Vec<Option<u64>> = vec![None; callees.len()];
    for root in 0..callees.len() {
        // A walk in depth, with a stack of its own: chains may be long. Beside each function, which of its calls comes next.
        let mut open = if seen[root] == Seen::No { vec![(root, 0)] } else { Vec::new() };
        while let Some((function, next)) = open.pop() {
            seen[function] = Seen::Open;
            let Some(&callee) = callees[function].get(next) else {
                // A callee that is open still leads back here.
                let below = callees[function].iter().map(|callee| match seen[*callee] {
                    Seen::Done => chains[*callee],
                    Seen::Open | Seen::No => None,
                });
                let longest = below.collect::<Option<Vec<u64>>>().map(|below| below.into_iter().max().unwrap_or(0));
                chains[function] = longest.and_then(|below| below.checked_add(frames[function].call));
                seen[function] = Seen::Done;
                continue;
            };
            open.push((function, next + 1));
            if seen[callee] == Seen::No {
                open.push((callee, 0));
            }
        }
    }
    chains
}
