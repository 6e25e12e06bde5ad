//! Live control of a run: a unix socket in its folder, for its owner only.
//!
//! Room: surface.
//!
//! - `wire.rs`: what is said; the documentation of the protocol.
//! - `place.rs`: where the socket is, and who may use it.
//! - `server.rs`: who is served, by whomever; `desk.rs`: what a run answers; `client.rs`: the side of the other commands.
//!
//! ```text
//! let served = control::serve(lock.folder(), "r-7f3a", jobs.clone(), runner)?;   // until it is dropped
//! ```

mod client;
mod desk;
mod place;
mod server;
#[cfg(test)]
mod tests;
mod wire;

pub(crate) use self::client::{AskError, Client, is_stopped};
pub(crate) use self::desk::{Pace, Runner, refuse, serve};
pub(crate) use self::place::remove_stale;
pub(crate) use self::server::{Desk, Served, open, say};
pub(crate) use self::wire::{JobLine, Refusal, Reply, Request, RunLine, Target, parse};

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
