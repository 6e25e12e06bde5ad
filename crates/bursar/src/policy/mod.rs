//! CPU policy: profiles that an operator writes, and a service publishes to running programs.
//!
//! Room: interface.
//!
//! A [`PolicyHandle`] answers which [`CpuProfile`] a name or a [`Hint`] gets: its weight, its slice, time that is reserved for it, its CPUs. It comes from
//!
//! - a [`PolicyClient`], which listens to `bursar policy serve FILE` on a thread of its own, or
//! - [`PolicyHandle::fixed`], for a program without a service.
//!
//! ```
//! use bursar::policy::{CpuProfile, Hint, PolicyHandle, PolicySet};
//!
//! let mut background = CpuProfile::new("background");
//! background.weight = 256; // a normal task has 1024
//! let mut set = PolicySet::new(CpuProfile::new("normal"));
//! set.profiles.push(background);
//! set.hints.push((Hint::Batch, "background".into()));
//!
//! let policy = PolicyHandle::fixed(set)?;
//! assert_eq!(policy.hint(Hint::Batch).weight, 256);
//! assert_eq!(policy.profile("anything else").weight, 1024);
//! # Ok::<(), bursar::policy::Refusal>(())
//! ```
//!
//! # If the service dies, hangs or lies
//!
//! The last good epoch stays in force. The client checks all that it is sent, by itself; what fails a check is refused, changes nothing, and is in
//! [`PolicyClient::log`]. A read never waits for the service. Before the first epoch all work is normal, or what
//! [`PolicyOptions::starting_with`] says.
//!
//! Linux.

mod client;
mod intake;
mod wire;

pub use client::{PolicyClient, PolicyOptions, PolicyStatus};
pub use wire::{epoch_line, heartbeat_line};

#[doc(inline)]
pub use policy_admission::cpu::{AdmitError, Reservation};
#[doc(inline)]
pub use policy_admission::service::{
    Because, Concern, CpuDemand, CpuProfile, Epoch, Heard, Hint, Machine, ParseHintError, PolicyHandle, PolicySet,
    Record, Refusal, Reserve, Rule, ServiceState, Subject, Verdict,
};
#[doc(inline)]
pub use policy_cpu::{ContextSpec, CpuSet, Endpoint, Latency, Overrun};
