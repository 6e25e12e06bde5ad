//! Autogroups: the kernel's groups of sessions, each with a niceness of its own.
//!
//! Room: mechanism. Knows `/proc/PID/autogroup`; knows nothing of commands.
//!
//! Where autogroups are on, CPU time is divided among sessions first. The niceness of a process then counts only against others of its session, and a
//! keeper leads a session of its own: a nice command would take as much from the desktop as any other. So a command gets a session of its own, apart
//! from its keeper, and its autogroup gets the niceness, too.
//!
//! # What it does not do
//! Only root may change autogroups more often than ten times a second, on the whole machine; others are told to try again.

use std::fs;
use std::io;
use std::path::Path;

use crate::procfs;

/// Whether autogroups divide the CPU time of this process: they are on, and it is in no other group of the `cpu` controller.
pub(crate) fn is_on() -> bool {
    let enabled = fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    enabled.trim() == "1" && is_in_root(&groups, Path::new("/sys/fs/cgroup"))
}

/// From the text of `/proc/self/cgroup`: no group around the process has a weight. In version 2 those above count, too.
fn is_in_root(groups: &str, mount: &Path) -> bool {
    if let Some(path) = procfs::group(groups, "cpu") {
        return path == "/";
    }
    let Some(path) = procfs::group(groups, "") else { return true };
    let dir = mount.join(path.trim_start_matches('/'));
    dir.ancestors().take_while(|dir| dir.starts_with(mount)).all(|dir| !dir.join("cpu.weight").exists())
}

/// The niceness of the autogroup of a process; `None` if it has none.
pub(crate) fn nice(pid: i32) -> Option<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/autogroup")).ok()?;
    text.trim().rsplit(' ').next()?.parse().ok()
}

/// Sets the niceness of the autogroup of a process.
pub(crate) fn set_nice(pid: i32, nice: i32) -> io::Result<()> {
    fs::write(format!("/proc/{pid}/autogroup"), nice.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_in_a_group_with_a_weight_is_not_divided_by_autogroups() {
        let mount = tempfile::tempdir().unwrap();
        let here = |groups: &str| is_in_root(groups, mount.path());
        assert!(here("2:cpu,cpuacct:/\n0::/user.slice\n"));
        assert!(!here("2:cpu,cpuacct:/job\n0::/\n"));
        assert!(here("0::/user.slice/me.scope\n"));
        fs::create_dir_all(mount.path().join("user.slice/me.scope")).unwrap();
        fs::write(mount.path().join("user.slice/cpu.weight"), "100").unwrap();
        assert!(!here("0::/user.slice/me.scope\n"));
    }
}
