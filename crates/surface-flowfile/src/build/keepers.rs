//! The keepers of a flow: the processes above its programs.
//!
//! Room: driver. Knows a pool of keepers; knows nothing of nodes and pipes.
//!
//! # Invariant
//! When this process is gone, however it ended, nothing of its programs runs: also what left its session, ignores SIGTERM, or neither reads nor prints.
//!
//! # Why it holds
//! Each program runs below a keeper of an ephemeral pool ([`Keepers::ephemeral`]). The keeper is a subreaper, so all that a program starts stays below it. It kills that tree when the
//! kernel closes the socket to this process.
//!
//! # What is not covered
//! A keeper that is killed together with this process.
//!
//! # Rejected
//! - `PR_SET_PDEATHSIG`: it is sent when the *thread* ends that started the program, which any worker may do, and it reaches the program alone.
//! - A shell that waits beside the program and kills its process group: a program that calls `setsid` is in no group of ours.

use std::sync::OnceLock;

use mech_process::{KeeperProgram, Keepers};

/// A pool of keepers that is made with the first program. Idle keepers are used again.
#[derive(Default)]
pub(crate) struct KeeperPool {
    program: Option<KeeperProgram>,
    pool: OnceLock<Result<Keepers, String>>,
}

impl KeeperPool {
    pub(crate) fn new(program: KeeperProgram) -> Self {
        Self { program: Some(program), pool: OnceLock::new() }
    }

    /// The pool, or why there is none.
    pub(crate) fn get(&self) -> Result<&Keepers, String> {
        let program = self.program.as_ref().ok_or("no keeper program is known; name one with `Hooks::keeper`")?;
        let make =
            || Keepers::ephemeral(program.clone()).map_err(|error| format!("keepers cannot be started: {error}"));
        self.pool.get_or_init(make).as_ref().map_err(String::clone)
    }
}
