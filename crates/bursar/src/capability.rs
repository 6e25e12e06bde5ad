//! Capabilities: what tasks may do, who granted it, and who may take it back.
//!
//! Room: interface.
//!
//! A [`Ledger`] grants capabilities; a nursery is given one by [`NurseryOptions::capability`](crate::NurseryOptions::capability), a runtime a [`Profile`] by
//! [`Builder::profile`](crate::Builder::profile). See the [guide](crate#capabilities-and-profiles) for an example.
#[doc(inline)]
pub use sched_tasks::{
    AuditEvent, AuditRecord, AuditTotals, BudgetRule, Cap, CapBudget, CapChannel, CapError, CapErrorKind, CapExecutor,
    CapId, CapSpawn, CapUse, Capabilities, Capability, ChannelLimit, Confinement, Delegation, ExecutorLimit, Grant,
    Ledger, ParseProfileError, Profile, Sovereign, Terms,
};
