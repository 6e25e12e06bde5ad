//! Whether the process that began a run is still alive.
//!
//! Room: driver.
//!
//! # Invariant
//! A process id that was reused, or that is from before a reboot, is not taken for the old process.
//!
//! # Why it holds
//! A process is its number, the tick it started at, and the boot it started in. The kernel gives no number twice in one tick.

use std::fs;

use mech_process::procfs;

/// A process, distinguished from every other one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Ticks from boot to its start; `None` without `/proc`.
    pub(crate) start: Option<u64>,
    /// Which boot.
    pub(crate) boot: Option<String>,
}

impl Process {
    /// The one that has this number now.
    pub(crate) fn of(pid: u32) -> Process {
        Process { pid, start: start_of(pid), boot: boot() }
    }

    /// Whether it still runs. Without its start time this cannot be known, and it counts as gone.
    pub(crate) fn is_alive(&self) -> bool {
        self.start.is_some() && start_of(self.pid) == self.start && boot() == self.boot
    }
}

fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

/// When the process that has this number started, unless it is dead.
fn start_of(pid: u32) -> Option<u64> {
    let process = procfs::one(i32::try_from(pid).ok()?)?;
    (!process.is_dead()).then_some(process.start)
}

#[cfg(test)]
mod tests {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    use super::Process;

    #[test]
    fn a_process_that_ended_but_was_not_waited_for_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep");
        let process = Process::of(child.id());
        assert!(process.is_alive());
        child.kill().expect("it is ours");
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(Pid::from_child(&child)), ended).expect("it ends");
        assert!(!process.is_alive(), "a zombie");
        assert_eq!(Process::of(child.id()).start, None);
        child.wait().expect("it ended");
    }

    #[test]
    fn this_process_lives_and_one_with_its_number_but_another_start_does_not() {
        let me = Process::of(std::process::id());
        assert!(me.is_alive());
        assert!(!Process { start: me.start.map(|start| start + 1), ..me.clone() }.is_alive());
        assert!(!Process { boot: Some("another".into()), ..me }.is_alive());
    }
}
