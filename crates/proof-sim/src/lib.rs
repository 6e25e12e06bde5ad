//! A simulated machine: CPUs, timers, interrupts that take time, threads that run, sleep and call each other, rings of requests. It is driven by the real decisions of
//! `policy-cpu`, in virtual time, and the laws that must hold are checked at every step.
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

mod builder;
mod event;
mod histogram;
mod laws;
mod machine;
mod polling;
mod program;
mod report;
mod ring;
mod steps;
mod thread;
mod timeline;

pub use builder::ThreadBuilder;
pub use histogram::Histogram;
pub use laws::Broken;
pub use machine::Machine;
pub use program::{Program, Step};
pub use report::{ContextReport, CpuReport, Report, ThreadReport};
pub use ring::{Late, RingError, RingReport, RingSpec};
pub use timeline::Span;
