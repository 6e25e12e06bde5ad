//! Whether the process that began a run still lives.
//!
//! # Invariant
//! A number that was given to another process, or to one after a reboot, is not taken for the old one.
//!
//! # Why it holds
//! A process is its number, the tick it started at, and the boot it started in. The kernel gives no number twice in one tick.

use std::fs;

/// A process, told from every other one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// Ticks from boot to its start; `None` where there is no `/proc`.
    pub(crate) start: Option<u64>,
    /// Which boot.
    pub(crate) boot: Option<String>,
}

impl Process {
    /// The one that has this number now.
    pub(crate) fn of(pid: u32) -> Process {
        Process { pid, start: start_of(pid), boot: boot() }
    }

    /// Whether it still runs. Without its start time nobody can say, and it counts as gone.
    pub(crate) fn is_alive(&self) -> bool {
        self.start.is_some() && start_of(self.pid) == self.start && boot() == self.boot
    }
}

fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

fn start_of(pid: u32) -> Option<u64> {
    start_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of a `stat` line, unless the process is a zombie. Field 2, the name, may hold spaces and brackets, so fields are
/// counted from its last bracket.
fn start_in(stat: &str) -> Option<u64> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None; // dead, and only its parent has not looked yet
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Process, start_in};

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let tail = "1 1 1 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4242 1000 10";
        assert_eq!(start_in(&format!("7 (a) b) R {tail}")), Some(4242));
        assert_eq!(start_in(&format!("7 (gone) Z {tail}")), None, "a zombie does not run");
    }

    #[test]
    fn this_process_lives_and_one_with_its_number_but_another_start_does_not() {
        let me = Process::of(std::process::id());
        assert!(me.is_alive());
        assert!(!Process { start: me.start.map(|start| start + 1), ..me.clone() }.is_alive());
        assert!(!Process { boot: Some("another".into()), ..me }.is_alive());
    }
}
