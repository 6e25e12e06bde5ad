//! The policy service, as the side that is served sees it: profiles for CPU time, epochs, and a receiver that believes nothing.
//!
//! Room: interface.
//!
//! A service proposes a [`PolicySet`] under a growing number. A [`Receiver`] checks it, all of it and by itself, and puts it in force as an [`Epoch`]; or
//! refuses it and says why, and the epoch in force stays. Runtimes read a [`PolicyHandle`]. If the service dies, hangs or lies, they read the last good epoch.
//!
//! # Invariants
//! - No read waits for the service.
//! - No epoch is in force that did not pass all checks, and no number is in force after a larger one.

mod check;
mod cpu_profile;
mod epoch;
mod handle;
mod log;
mod rate;
mod receiver;
mod refusal;
mod set;

pub use check::{
    BUDGET_MIN, Machine, NAME_BYTES_MAX, PATTERN_BYTES_MAX, PERIOD_MAX, PERIOD_MIN, PROFILES_MAX, RESERVES_MAX,
    RULES_MAX, SLICE_MAX, SLICE_MIN,
};
pub use cpu_profile::{CpuDemand, CpuProfile, Hint, ParseHintError, Reserve};
pub use epoch::{Because, Epoch};
pub use handle::PolicyHandle;
pub use log::{Heard, Record, Verdict};
pub use receiver::{
    Decision, EPOCH_STEP_MAX, Event, FIRST_EPOCH_MAX, MESSAGE_BYTES_MAX, Receiver, ReceiverStatus, ServiceState,
    Silence,
};
pub use refusal::{Concern, Refusal};
pub use set::{PolicySet, Rule, Subject};
