//! Actors, which handle one message at a time, and supervisors, which start them again when they fail.
//!
//! Room: interface.
//!
//! An [`Actor`] without a supervisor is [`spawn`]ed into a nursery, and its failure is the nursery's. Under a [`Supervisor`] its failure ends only itself: it is
//! made anew, and goes on with the messages that wait. What is lost is the message over which it failed, and that is counted.
//!
//! There is no preemption: an actor that neither returns nor comes to a checkpoint cannot be stopped, and holds up its supervisor.
#[doc(inline)]
pub use sched_actors::{
    Actor, ActorChild, Address, AskError, Child, ChildEvent, ChildInfo, ChildState, Context, DeadLetter, FnActor,
    IllegalStep, MailboxStats, Refusal, Restart, RestartsExceeded, StopReason, Strategy, Supervisor, SupervisorError,
    SupervisorHandle, Undelivered, from_fn, spawn, spawn_bounded,
};
