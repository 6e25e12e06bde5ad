//! Runs a program as machine code, which Cranelift makes of its QTJIR.
//!
//! Room: driver. Knows what tasks do; knows nothing of sources.
//!
//! | file | one idea |
//! |---|---|
//! | `unit` | which functions machine code has for each function of the program, and how they are called |
//! | `translate` | QTJIR to CLIF: blocks and registers |
//! | `branches` | where blocks go on, and what a branch says about numbers |
//! | `instructions` | what each instruction becomes |
//! | `failing` | helpers, checks and calls, and what happens when they fail |
//! | `constants` | which registers have known values where a block begins |
//! | `counted` | loops that count, and need no check in each turn |
//! | `arithmetic` | operators that fail instead of wrapping |
//! | `nurseries` | functions that open nurseries: their registers in memory, and a way to enter in between |
//! | `compile` | CLIF to machine code, within limits; what is inlined |
//! | `making` | who waits for machine code, and who makes it |
//! | `stack` | how much stack a task needs at most |
//! | `helpers` | what code calls for everything that others can see |
//! | `raw` | where Rust calls code, and code calls Rust |
//!
//! # Invariants
//! 1. It prints, spends, fails and calls the task runtime as the interpreter does.
//! 2. Code does not overflow a stack, leaves nothing to unwind through its frames, and is there as long as a task runs it.
//!
//! # Why they hold
//! 1. Everything observable is a helper, which calls the same method of [`State`](crate::task::State) as the interpreter. What is owed is counted in a register, and written to the state before a helper that pays.
//!    `differential` compares the engines, program by program.
//! 2. `stack` proves it before a task begins; what does not fit is interpreted. Helpers catch what unwinds. A task borrows its program, and with it the code.
//!
//! # What code rests on
//! Nothing is checked in code that `ir::verify` has shown:
//!
//! | unchecked | because |
//! |---|---|
//! | a register that is read was written, as its type | `ir/verify/flow.rs`, `ir/verify/shape.rs` |
//! | a function is called with what it takes | `ir/verify/shape.rs` |
//! | whether a block is failing is known when it is translated, and so is which nursery ends where | `ir/verify/flow.rs` |
//! | more than nothing is left wherever a function returns, so that 0 and -1 can mean *failed* and *aborted* | `ir/verify/budget.rs`: a check follows every decrement of a block |
//! | no loop and no recursion goes on without a check | `ir/verify/budget.rs` |
//!
//! # Rejected
//! Compiling each function when it is called first: calls would go through a table, and a task could meet a compilation in the middle of its budget. A program is compiled as a whole when it runs first, so programs that are only checked or printed cost nothing.
//! A guard page and a signal for overflows: the library cannot unwind from there, and the engines would stop at different calls.

mod arithmetic;
mod branches;
mod compile;
mod constants;
mod counted;
#[cfg(test)]
mod differential;
mod failing;
mod helpers;
mod instructions;
mod making;
mod nurseries;
#[allow(unsafe_code)]
mod raw;
mod stack;
mod translate;
mod unit;

use std::sync::Arc;

#[cfg(test)]
pub(crate) use compile::Bug;
pub(crate) use compile::{Native, Settings, clif};
pub(crate) use making::Making;

use self::helpers::Task;
use crate::interp::Interpreter;
use crate::task::{Argument, Ended, Execute, State};

/// The engine.
pub(crate) struct NativeEngine {
    native: Arc<Native>,
    /// What the host allows for calls.
    stack_limit: u64,
}

/// A stack of the usual size has so much room at least. What needs more asks for it.
const USUAL_BYTES: usize = 192 << 10;

impl NativeEngine {
    pub(crate) fn new(native: Arc<Native>, stack_limit: u64) -> Self {
        Self { native, stack_limit }
    }

    /// How much stack a task of the function needs.
    fn needs(&self, function: usize) -> usize {
        self.native.stack.bytes(function, self.stack_limit)
    }
}

impl Execute for NativeEngine {
    fn run(&self, state: State<'_>, function: usize, arguments: Vec<Argument>) -> Ended {
        let has_room = mech_fiber::remaining_bytes().is_some_and(|bytes| bytes >= self.needs(function));
        match self.native.entries[function] {
            Some(entry) if has_room => Task::run(&self.native, entry, state, function, arguments),
            _ => Interpreter.run(state, function, arguments),
        }
    }

    fn stack_bytes(&self, function: usize) -> usize {
        match self.needs(function) {
            needed if needed <= USUAL_BYTES => 0,
            // It is interpreted.
            needed if needed > stack::BYTES_MAX => 0,
            needed => needed + stack::BELOW_BYTES,
        }
    }
}
