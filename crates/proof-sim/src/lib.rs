//! A simulated machine: CPUs, timers, interrupts that take time, threads that run, sleep and call each other. It is driven by the real decisions of `policy-cpu`, in virtual
//! time, and the laws that must hold are checked at every step.
//!
//! Room: interface.
//!
//! ```
//! use proof_sim::{Machine, Program, Step};
//!
//! let mut machine = Machine::new(2, 7);
//! let process = machine.process("all");
//! machine.thread("hog", process).runs(Program::forever(vec![Step::Run(10_000_000)]));
//! machine.thread("sleeper", process).runs(Program::forever(vec![Step::Run(100_000), Step::Sleep(5_000_000)]));
//! let report = machine.run_for(1_000_000_000);
//! assert!(report.thread("sleeper").wait_max < 4_000_000, "{report}");
//! ```
#![forbid(unsafe_code)]

mod event;
mod laws;
mod machine;
mod program;
mod report;

pub use machine::{Machine, ThreadBuilder};
pub use program::{Program, Step};
pub use report::{CpuReport, Report, ThreadReport};
