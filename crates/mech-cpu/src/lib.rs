//! How a thread gets a CPU to itself. Linux.
//!
//! Room: mechanism. Knows threads, CPUs and pages; knows nothing of tasks, budgets or who may have what.
//!
//! | file | one idea |
//! |---|---|
//! | [`mask`] | a set of CPUs, as the system has it |
//! | [`thread`] | the threads of this process: their CPUs and their policies |
//! | [`partition`] | CPUs that some threads of this process have, and all others leave |
//! | [`locked`] | memory that is there before it is used, and stays |

pub mod locked;
pub mod mask;
pub mod partition;
pub mod thread;

pub use locked::{Arena, Locked, NoRoom};
pub use mask::CpuMask;
pub use partition::{Member, Partition, TakeError};
pub use thread::{Policy, Tid};
