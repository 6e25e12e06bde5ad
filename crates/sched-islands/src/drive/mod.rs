//! The threads of an island: one for each of its CPUs, and one that guards them.
//!
//! Room: driver. Knows clocks and threads; which task runs is said by `decide.rs`.

mod cpu_thread;
pub(crate) mod cycle;
pub(crate) mod guard;
pub(crate) mod run;
