//! Runs QTJIR step by step: the reference that every other engine is compared with.
//!
//! Room: driver. Knows what tasks do; knows nothing of sources.
//!
//! # Invariants
//! 1. A program does to the process what the task runtime lets tasks do, and nothing else: no input overflows the stack, and nothing runs without being charged.
//! 2. Nothing is decided here that the IR does not say.
//!
//! # Why they hold
//! 1. Only [`Verified`](crate::ir::Verified) modules get here. Calls are frames on the heap, counted against a limit; only open nurseries stand on the stack of the fiber, and those are limited, too.
//! 2. Every call of the runtime belongs to one instruction, in the order that `ir` gives.

mod machine;

pub(crate) use machine::Interpreter;
