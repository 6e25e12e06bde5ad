//! Actors, which handle one message at a time, and supervisors, which start them again when they fail.
//!
//! | file | one idea |
//! |---|---|
//! | `life` | what an actor is, and one incarnation of it |
//! | `mailbox`, `address` | a channel that outlives who reads it, and who may write to it |
//! | `decide` | what to do when a child ended: pure |
//! | `state` | where a child stands, and the one function that moves it |
//! | `child`, `supervisor` | what is written down before anything starts |
//! | `keeper`, `run` | the loop of a supervisor, and what it holds of a child that runs |
//! | `table`, `inbox` | its children as all see them, and what reaches it |
//! | `handle` | what users hold of it |
//!
//! An [`Actor`] without a supervisor is [`spawn`]ed into a nursery, and its failure is the nursery's. Under a [`Supervisor`] its failure ends only itself: it is
//! made anew, and goes on with the messages that wait. What is lost is the message over which it failed, and that is counted.
//!
//! There is no preemption: an actor that neither returns nor comes to a checkpoint cannot be stopped, and holds up its supervisor.

mod address;
mod child;
pub mod decide;
mod error;
mod handle;
mod inbox;
mod keeper;
mod life;
mod mailbox;
mod means;
mod run;
mod state;
mod supervisor;
mod table;

use std::time::{Duration, Instant};

pub use address::Address;
pub use child::{ActorChild, Child};
pub use decide::{Restart, Strategy};
pub use error::{AskError, Refusal, RestartsExceeded, SupervisorError, Undelivered};
pub use handle::{ChildInfo, SupervisorHandle};
pub use life::{Actor, Context, FnActor, StopReason, from_fn, spawn, spawn_bounded};
pub use mailbox::{DeadLetter, MailboxStats};
pub use state::{ChildState, Happening, IllegalStep};
pub use supervisor::Supervisor;

/// Longer than anybody waits: a time that can be added to any moment.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What time it is for supervisors.
fn now() -> Instant {
    crate::drive::clock::now()
}
