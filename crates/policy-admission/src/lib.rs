//! May it run: capabilities, profiles, and a log of grants and refusals.
//!
//! Room: decisions. Knows budgets and names; knows nothing of tasks, workers or clocks.
//!
//! *Terms* ([`CapSpawn`], [`CapBudget`], [`CapChannel`], [`CapExecutor`]) say what is allowed and allow nothing. A [`Ledger`] turns terms
//! into a [`Cap`], which cannot be forged or copied; from a `Cap` others are derived, never wider. It is used through a [`Lease`], which gives
//! permits that are counted as long as they live; limits bind the sum of everything derived. Revoking reaches
//! everything derived, at once.
//!
//! ```
//! use policy_admission::{CapError, CapSpawn, Delegation, Grant, Ledger};
//! use vocab::Budget;
//!
//! let ledger = Ledger::new(); // the runtime's
//! let root = ledger.grant(CapSpawn::new().max_tasks(1000));
//!
//! // A tenant that cannot hurt the others, and may have tenants of its own.
//! let terms = CapSpawn::new().max_tasks(100).task_budget(Budget::ops(1_000_000).memory(64 << 20));
//! let tenant = root.attenuate(Grant::new(terms).label("plugin-7").delegation(Delegation::Allowed))?;
//! let guest = tenant.attenuate(CapSpawn::new().max_tasks(5_000))?; // the request is larger than the limit
//! assert_eq!(guest.terms().get_max_tasks(), 100);
//!
//! // The runtime starts tasks: the guest's are the tenant's too.
//! let lease = guest.lease();
//! let guests = lease.take_tasks(60)?;
//! let tenants = tenant.lease().take_tasks(60)?;
//! assert_eq!((guests.count(), tenants.count()), (60, 40));
//! assert_eq!(lease.take_tasks(1).unwrap_err(), CapError::TaskLimitExceeded { limit: 100, in_use: 100 });
//!
//! // Enough.
//! assert_eq!(tenant.revoke(), 2);
//! assert_eq!(lease.check(), Err(CapError::Revoked { id: guest.id() }));
//! drop(guests); // what runs, ends, and is counted until then
//! assert_eq!(root.tasks_in_use(), 40);
//! # Ok::<(), CapError>(())
//! ```
#![forbid(unsafe_code)]

mod arena;
mod audit;
mod cap;
pub mod cpu;
mod error;
mod grant;
mod id;
mod lease;
mod ledger;
mod node;
mod permits;
mod profile;
mod registry;
pub mod service;
mod sync;
mod tenant;
mod terms;
mod uses;

pub use audit::{AuditEvent, AuditRecord, AuditTotals, CapUse};
pub use cap::Cap;
pub use error::{CapError, CapErrorKind, ChannelLimit, ExecutorLimit};
pub use grant::{Delegation, Grant};
pub use id::CapId;
pub use lease::Lease;
pub use ledger::Ledger;
pub use permits::{ChannelPermit, ExecutorPermit, TaskPermits};
pub use profile::{BudgetRule, Capabilities, ParseProfileError, Profile, Recharge, Scheduler, Sovereign};
pub use tenant::{Tenant, TenantId};
pub use terms::{CapBudget, CapChannel, CapExecutor, CapSpawn, Kind, Terms};
