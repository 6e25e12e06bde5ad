//! Live control of runs and flows: a unix socket in the folder of each, for its owner only; and events for programs.
//!
//! Room: surface.
//!
//! - `wire.rs`: the protocol and its documentation. `lines.rs`: snapshots of a run or a flow; `policy.rs`: of a policy service; `event.rs`: events.
//! - `socket.rs`: the path of the socket, and who may use it; `flows.rs`: where active flows are found.
//! - `server.rs`: accepts clients; `controller.rs`: how a run answers; `client.rs`: the side of the other commands.
//!
//! ```text
//! let served = control::serve(lock.folder(), "r-7f3a", jobs.clone(), runner)?;   // until it is dropped
//! ```

mod client;
mod controller;
pub(crate) mod event;
pub(crate) mod flows;
mod lines;
mod links;
mod policy;
mod server;
mod socket;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use self::client::{AskError, Client, Unanswered, is_stopped};
pub(crate) use self::controller::{Pace, Runner, serve};
pub(crate) use self::lines::{EdgeLine, FlowLine, JobLine, NodeLine, RunLine, Totals, failed_at_all, losses};
pub(crate) use self::links::{LinkLine, missing};
pub(crate) use self::policy::{PolicyLine, PolicyRecord, ProgramLine};
pub(crate) use self::server::{Controller, ServerHandle, open, open_at, send_line};
pub(crate) use self::socket::{is_id, remove_stale};
pub(crate) use self::wire::{Answer, Refusal, Request, Target};

impl Target {
    /// As the scheduler understands it.
    pub(crate) fn into_target(self) -> sched_jobs::Target {
        match (self.job, self.subtree) {
            (None, _) => sched_jobs::Target::Run,
            (Some(job), false) => sched_jobs::Target::Job(job.into()),
            (Some(job), true) => sched_jobs::Target::Subtree(job.into()),
        }
    }
}
