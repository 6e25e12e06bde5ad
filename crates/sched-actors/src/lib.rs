//! Actors, which handle one message at a time, and supervisors, which start them again when they fail.
//!
//! Room: interface.
//!
//! | file | one idea |
//! |---|---|
//! | `actor` | what an actor is, and one incarnation of it |
//! | `mailbox`, `address` | a channel that outlives the actor that reads it, and the senders of it |
//! | `decide` | what to do when a child ended: pure |
//! | `state` | the states of a child, and the one function that moves it |
//! | `tree` | a supervisor has children, and a child may be a supervisor: what each is, and how it is reached |
//! | `supervise`, `run` | the loop of a supervisor, and what it holds of a child that runs |
//! | `budget` | what the children of a supervisor may spend |
//! | `supervisor` | the builder: what is described before anything starts |
//!
//! An [`Actor`] without a supervisor is [`spawn`]ed into a nursery, and its failure is the nursery's. Under a
//! [`Supervisor`] its failure ends only itself: it is made anew, and goes on with the messages that wait. Only the
//! message that it failed on is lost, and that is counted.
//!
//! There is no preemption: an actor that neither returns nor comes to a checkpoint cannot be stopped, and holds up its supervisor.

#![forbid(unsafe_code)]

mod actor;
mod address;
mod budget;
mod clock;
pub mod decide;
mod error;
mod mailbox;
mod run;
mod state;
mod supervise;
mod supervisor;
mod tree;

pub use actor::{Actor, Context, FnActor, StopReason, from_fn, spawn, spawn_bounded};
pub use address::Address;
pub use decide::{Restart, Strategy};
pub use error::{AskError, Refusal, RestartsExceeded, SupervisorError, Undelivered};
pub use mailbox::{DeadLetter, MailboxStats};
pub use state::{ChildEvent, ChildState, IllegalStep};
pub use supervisor::Supervisor;
pub use tree::{ActorChild, Child, ChildInfo, SupervisorHandle};
