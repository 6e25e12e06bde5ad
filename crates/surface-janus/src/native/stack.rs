//! How much stack a task of machine code needs at most.
//!
//! Room: decisions.
//!
//! # Invariant
//! A task that has so many bytes when it begins never has less than [`BELOW_BYTES`] where it calls a helper.
//!
//! # Why it holds
//! The size of every frame of code is known when it is compiled. A call takes so much of what the host allows, and so much of the real stack; the worst ratio of the two, times what the host allows, is enough for every chain of calls.
//! If a function calls nothing that could come back to it, the sum along its longest chain is enough, and mostly less, and so is the number of nurseries along one. An open nursery puts an activation of its function and frames of the runtime on the stack, and a task has [`OPEN_NURSERIES_MAX`] at most.
//! Inlining takes away frames, and makes the one around it larger, whose size is known then.

use crate::ir::{Module, Op};
use crate::limits::OPEN_NURSERIES_MAX;
use crate::task::call_bytes;

/// What is kept for helpers, and what they call: the task runtime, and the output of the host.
pub(super) const BELOW_BYTES: usize = 64 << 10;

/// The largest stack that a task asks for; 8,192 such tasks can be there at a time. A program on a host that allows more is interpreted, which takes its frames from the heap.
pub(super) const BYTES_MAX: usize = 8 << 20;

/// Frames of Rust between the begin of a nursery and the code inside it; `nurseries_take_less_than_is_kept_for_them` measures them.
pub(super) const NURSERY_BYTES: u64 = if cfg!(debug_assertions) { 16 << 10 } else { 8 << 10 };

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
    chains: Vec<Option<Chain>>,
    /// Whether a function opens nurseries, or leads to one that does.
    opens: Vec<bool>,
    /// The worst ratio of the real stack to what the host counts, in 1/1024.
    ratio: u64,
    /// What an open nursery takes at most.
    nursery: u64,
}

/// The most along any chain of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Chain {
    bytes: u64,
    nurseries: u64,
}

impl Needs {
    pub(super) fn of(program: &Module, frames: &[Frames]) -> Self {
        let ratios = program.functions.iter().zip(frames);
        let ratio = ratios.map(|(function, frames)| (frames.call * 1024).div_ceil(call_bytes(function))).max();
        let inside = frames.iter().map(|frames| frames.inside).max().unwrap_or(0);
        let calls = Calls::of(program);
        let (chains, opens) = (chains(&calls, frames), opens(&calls));
        Self { chains, opens, ratio: ratio.unwrap_or(0), nursery: inside + NURSERY_BYTES }
    }

    /// What a task of this function needs, on a host that allows `limit` for calls.
    pub(super) fn bytes(&self, function: usize, limit: u64) -> usize {
        let by_limit = (u128::from(limit) * u128::from(self.ratio) / 1024).min(u128::from(u64::MAX / 4)) as u64;
        let most = if self.opens[function] { OPEN_NURSERIES_MAX as u64 } else { 0 };
        let chain = self.chains[function].unwrap_or(Chain { bytes: by_limit, nurseries: most });
        let calls = chain.bytes.min(by_limit) + chain.nurseries.min(most) * self.nursery;
        usize::try_from(calls).unwrap_or(usize::MAX).saturating_add(BELOW_BYTES)
    }
}

/// Which function calls which, and how many nurseries it begins.
struct Calls {
    callees: Vec<Vec<usize>>,
    nurseries: Vec<u64>,
}

impl Calls {
    fn of(program: &Module) -> Self {
        let mut calls = Self { callees: Vec::new(), nurseries: Vec::new() };
        for function in &program.functions {
            let (mut callees, mut nurseries) = (Vec::new(), 0);
            for inst in function.blocks.iter().flat_map(|block| &block.code) {
                match &inst.op {
                    Op::Call(_, callee) => callees.push(callee.function.0 as usize),
                    Op::NurseryBegin(_) => nurseries += 1,
                    _ => {}
                }
            }
            callees.sort_unstable();
            callees.dedup();
            calls.callees.push(callees);
            calls.nurseries.push(nurseries);
        }
        calls
    }
}

/// The longest chain of calls from each function.
fn chains(Calls { callees, nurseries }: &Calls, frames: &[Frames]) -> Vec<Option<Chain>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        Open,
        Done,
    }
    let mut seen = vec![Seen::No; callees.len()];
    let mut chains: Vec<Option<Chain>> = vec![None; callees.len()];
    for root in 0..callees.len() {
        // A walk in depth, with a stack of its own: chains may be long. Beside each function, which of its calls comes next.
        let mut open = if seen[root] == Seen::No { vec![(root, 0)] } else { Vec::new() };
        while let Some((function, next)) = open.pop() {
            seen[function] = Seen::Open;
            if let Some(&callee) = callees[function].get(next) {
                open.push((function, next + 1));
                if seen[callee] == Seen::No {
                    open.push((callee, 0));
                }
                continue;
            }
            let own = Chain { bytes: frames[function].call, nurseries: nurseries[function] };
            let below = callees[function].iter().try_fold(Chain { bytes: 0, nurseries: 0 }, |most, callee| {
                // One that is open still leads back here.
                let chain = chains[*callee].filter(|_| seen[*callee] == Seen::Done)?;
                Some(Chain { bytes: most.bytes.max(chain.bytes), nurseries: most.nurseries.max(chain.nurseries) })
            });
            chains[function] =
                below.map(|below| Chain { bytes: own.bytes + below.bytes, nurseries: own.nurseries + below.nurseries });
            seen[function] = Seen::Done;
        }
    }
    chains
}

/// Whether each function opens nurseries, or leads to one that does.
fn opens(Calls { callees, nurseries }: &Calls) -> Vec<bool> {
    let mut callers = vec![Vec::new(); callees.len()];
    for (caller, callees) in callees.iter().enumerate() {
        callees.iter().for_each(|callee| callers[*callee].push(caller));
    }
    let mut opens: Vec<bool> = nurseries.iter().map(|count| *count > 0).collect();
    let mut open: Vec<usize> = (0..opens.len()).filter(|function| opens[*function]).collect();
    while let Some(function) = open.pop() {
        for caller in &callers[function] {
            if !std::mem::replace(&mut opens[*caller], true) {
                open.push(*caller);
            }
        }
    }
    opens
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use sched_tasks::NurseryOptions;

    use super::*;
    use crate::{Engine, Host, Program};

    /// How much stack is left at each line that a program prints.
    fn left_at_lines(program: &Program) -> Vec<usize> {
        let left = Arc::new(Mutex::new(Vec::new()));
        let seen = left.clone();
        let host = Host::new().output(move |_| seen.lock().unwrap().extend(mech_fiber::remaining_bytes()));
        program.run_main(&[], &host, NurseryOptions::new()).result.unwrap();
        left.lock().unwrap().clone()
    }

    #[test]
    fn nurseries_take_less_than_is_kept_for_them() {
        let program = Program::compile(
            "
            func leaf() do end
            func down(n: i64) do
                if n == 0 do return end
                nursery do
                    spawn leaf()
                    print(n)
                    down(n - 1)
                end
            end
            func main() do
                down(32)
            end
        ",
        )
        .unwrap();
        assert_eq!(program.prepare(), Engine::Native);
        let left = left_at_lines(&program);
        assert_eq!(left.len(), OPEN_NURSERIES_MAX);
        let native = program.native().unwrap();
        let needs = &native.stack;
        let most = left.windows(2).map(|pair| pair[0] - pair[1]).max().unwrap();
        let kept = needs.nursery + needs.ratio * call_bytes(&program.ir().functions[1]) / 1024;
        assert!(most as u64 <= kept, "a nursery takes {most} bytes, and {kept} are kept");
        assert!(*left.last().unwrap() >= BELOW_BYTES / 2, "{left:?}");
    }

    #[test]
    fn a_chain_of_calls_needs_the_sum_of_its_frames_and_a_circle_what_the_host_allows() {
        let program = Program::compile(
            "
            func leaf(n: i64) -> i64 do return n end
            func middle(n: i64) -> i64 do return leaf(n) + leaf(n) end
            func first(n: i64) -> i64 do return second(n) end
            func second(n: i64) -> i64 do
                if n == 0 do return middle(n) end
                return first(n - 1)
            end
            func main() -> i64 do return first(3) + middle(1) end
        ",
        )
        .unwrap();
        let frames = [10, 20, 30, 40, 50].map(|call| Frames { call, inside: 0 });
        let chain = |bytes| Some(Chain { bytes, nurseries: 0 });
        assert_eq!(chains(&Calls::of(program.ir()), &frames), [chain(10), chain(30), None, None, None]);
        let needs = Needs::of(program.ir(), &frames);
        assert_eq!(needs.bytes(1, 1 << 20), 30 + BELOW_BYTES);
        assert!(needs.bytes(2, 1 << 20) > (1 << 18) + BELOW_BYTES);
        assert!(needs.bytes(2, u64::MAX) > BYTES_MAX);
    }

    #[test]
    fn nurseries_count_for_functions_that_lead_to_them() {
        let program = Program::compile(
            "
            func leaf() do end
            func opens() do nursery do spawn leaf() end end
            func leads(n: i64) do
                if n > 0 do leads(n - 1) end
                opens()
            end
            func main() do
                opens()
                nursery do opens() end
            end
        ",
        )
        .unwrap();
        let needs = Needs::of(program.ir(), &[Frames { call: 10, inside: 5 }; 4]);
        let nursery = 5 + NURSERY_BYTES as usize;
        assert_eq!(needs.bytes(0, 1 << 20), 10 + BELOW_BYTES);
        assert_eq!(needs.bytes(1, 1 << 20), 10 + nursery + BELOW_BYTES);
        assert!(needs.bytes(2, 1 << 20) > OPEN_NURSERIES_MAX * nursery + BELOW_BYTES);
        assert_eq!(needs.bytes(3, 1 << 20), 20 + 2 * nursery + BELOW_BYTES);
    }
}
