//! A control group for a tree, where the system permits it: the frozen processes do not notice the freeze.
//!
//! Room: mechanism. Knows control groups; knows nothing of commands.
//!
//! # Invariant
//! Groups are made only below a group that is ours: our user owns it, it was delegated to us, or it is the root group and we are root.
//!
//! # Why it holds
//! [`base`] checks the group of this process and refuses all others. A service manager that put this process into a group of its own counts the
//! processes of that group and kills them; a group of ours inside would hide processes from it and outlive its cleanup.
//!
//! # A group is made when a tree is first paused
//! A keeper cannot be in the group that it freezes, and moving a process from one group to another waits for every CPU
//! (milliseconds), so commands are not started in a group. When a tree is to be frozen, all its processes are moved into a group, until a scan
//! finds none outside; later children are born inside.
//!
//! # Rejected
//! Memory groups as a hard limit: they need the memory controller delegated, which neither a systemd session nor the usual
//! container does. The keeper samples instead, and counts shared pages before it kills anything.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::procfs;

/// How a tree is frozen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Confinement {
    /// Control groups, version 2: the frozen processes do not notice.
    CgroupV2,
    /// The freezer of version 1.
    CgroupV1,
    /// Signals: every process is stopped. A shell that does job control sees its children stop.
    None {
        /// Why there are no groups.
        reason: String,
    },
}

impl fmt::Display for Confinement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Confinement::CgroupV2 => f.write_str("control groups (v2)"),
            Confinement::CgroupV1 => f.write_str("control groups (v1 freezer)"),
            Confinement::None { reason } => write!(f, "signals; no control groups: {reason}"),
        }
    }
}

/// The value `v2` disables groups of version 2; any other value disables all groups.
const DISABLE_VARIABLE: &str = "BURSAR_NO_CGROUPS";

/// A directory in which we may make groups.
#[derive(Debug, Clone)]
struct Base {
    dir: PathBuf,
    kind: Confinement,
}

/// How trees are frozen on this system. Found out once, by making a group and removing it.
pub(crate) fn confinement() -> Confinement {
    match base() {
        Ok(base) => base.kind.clone(),
        Err(reason) => Confinement::None { reason: reason.clone() },
    }
}

fn base() -> Result<&'static Base, &'static String> {
    static BASE: OnceLock<Result<Base, String>> = OnceLock::new();
    BASE.get_or_init(|| {
        let (mounts, groups) = texts()?;
        let without = std::env::var(DISABLE_VARIABLE).unwrap_or_default();
        let mut reasons = Vec::new();
        for (kind, group) in own_groups(&mounts, &groups) {
            if without == "v2" && kind == Confinement::CgroupV2 {
                continue;
            }
            match check_delegated(&group).and_then(|()| probe(&group, &kind)) {
                Ok(()) => return Ok(Base { dir: group.dir, kind }),
                Err(reason) => reasons.push(reason),
            }
        }
        Err(if reasons.is_empty() { "none are mounted".to_owned() } else { reasons.join("; ") })
    })
    .as_ref()
}

/// The group of this process, in one hierarchy.
#[derive(Debug, PartialEq)]
struct OwnGroup {
    dir: PathBuf,
    is_top: bool,
}

/// The group of this process in the hierarchy of a controller of version 1; without a name, in that of version 2.
fn own_group(mounts: &str, groups: &str, controller: &str) -> Option<OwnGroup> {
    let has = |list: &str| list.split(',').any(|item| item == controller);
    let is_it = |kind: &str, options: &str| match controller {
        "" => kind == "cgroup2",
        _ => kind == "cgroup" && has(options),
    };
    let mount = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (dir, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        is_it(kind, options).then(|| PathBuf::from(dir))
    })?;
    let below = procfs::group(groups, controller)?.trim_start_matches('/');
    let dir = if below.is_empty() { mount } else { mount.join(below) };
    Some(OwnGroup { dir, is_top: below.is_empty() })
}

/// The groups of this process in the hierarchies that can freeze; version 2 first.
fn own_groups(mounts: &str, groups: &str) -> Vec<(Confinement, OwnGroup)> {
    let of = |kind, controller| own_group(mounts, groups, controller).map(|group| (kind, group));
    [of(Confinement::CgroupV2, ""), of(Confinement::CgroupV1, "freezer")].into_iter().flatten().collect()
}

/// What `/proc` says about groups, unless [`DISABLE_VARIABLE`] forbids them: mounts, and the groups of this process.
fn texts() -> Result<(String, String), String> {
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    match std::env::var(DISABLE_VARIABLE).as_deref() {
        Ok("" | "v2") | Err(_) => Ok((read("/proc/self/mounts")?, read("/proc/self/cgroup")?)),
        Ok(_) => Err(format!("{DISABLE_VARIABLE} is set")),
    }
}

/// Where groups with this controller may be made: the directory, and whether it is of version 2.
pub(crate) fn base_of(controller: &str) -> Result<(PathBuf, bool), String> {
    let (mounts, groups) = texts()?;
    if let Some(group) = own_group(&mounts, &groups, controller) {
        return check_delegated(&group).map(|()| (group.dir, false));
    }
    let group = own_group(&mounts, &groups, "").ok_or_else(|| format!("no controller `{controller}` is mounted"))?;
    check_delegated(&group)?;
    enable(&group.dir, controller).map(|()| (group.dir, true))
}

/// Where groups with this controller are, if any were made.
pub(crate) fn own_dir(controller: &str) -> Option<PathBuf> {
    let (mounts, groups) = texts().ok()?;
    own_group(&mounts, &groups, controller).or_else(|| own_group(&mounts, &groups, "")).map(|group| group.dir)
}

/// Has children of a group of version 2 have this controller.
fn enable(dir: &Path, controller: &str) -> Result<(), String> {
    let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap_or_default();
    let has = |name: &str| read(name).split_whitespace().any(|one| one == controller);
    if has("cgroup.subtree_control") {
        return Ok(());
    }
    if !has("cgroup.controllers") {
        return Err(format!("{} has no controller `{controller}`", dir.display()));
    }
    // The kernel refuses this while the group itself has processes, unless it is the root.
    fs::write(dir.join("cgroup.subtree_control"), format!("+{controller}"))
        .map_err(|error| format!("{} cannot pass the controller `{controller}` on: {error}", dir.display()))
}

/// The group of any process in the hierarchy of a controller, if it is one that was made here: its directory, and whether it is of version 2.
pub(crate) fn made_group_of(pid: i32, controller: &str) -> Option<(PathBuf, bool)> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok().filter(|groups| groups.contains(PREFIX))?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let of = |controller, is_v2| Some((own_group(&mounts, &groups, controller)?.dir, is_v2));
    let (dir, is_v2) = of(controller, false).or_else(|| of("", true))?;
    dir.file_name()?.to_str()?.starts_with(PREFIX).then_some((dir, is_v2))
}

/// The name of the groups of a keeper.
pub(crate) fn group_name(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// With this begin the names of all groups that are made here.
const PREFIX: &str = "bursar-";

/// Checks that we may make groups below this one.
fn check_delegated(group: &OwnGroup) -> Result<(), String> {
    let dir = &group.dir;
    let owner = fs::metadata(dir).map_err(|error| format!("{}: {error}", dir.display()))?.uid();
    let me = rustix::process::geteuid().as_raw();
    let delegated = || {
        ["user.delegate", "trusted.delegate"].iter().any(|name| {
            let mut value = [0_u8; 8];
            matches!(rustix::fs::getxattr(dir, *name, &mut value[..]), Ok(1) if value[0] == b'1')
        })
    };
    let is_root = me == 0;
    if (owner == me && (!is_root || group.is_top)) || delegated() {
        return Ok(());
    }
    Err(format!("{} was not delegated to user {me}", dir.display()))
}

fn probe(group: &OwnGroup, kind: &Confinement) -> Result<(), String> {
    let dir = group.dir.join(format!("bursar-probe-{}", std::process::id()));
    let say = |error: io::Error| format!("{}: {error}", dir.display());
    fs::create_dir(&dir).map_err(say)?;
    let knob = if *kind == Confinement::CgroupV2 { "cgroup.freeze" } else { "freezer.state" };
    let has_knob = dir.join(knob).exists();
    fs::remove_dir(&dir).map_err(say)?;
    if has_knob { Ok(()) } else { Err(format!("{} has no {knob}", dir.display())) }
}

/// The group of one tree. [`Group::remove`] removes it when its processes are gone.
#[derive(Debug)]
pub(crate) struct Group {
    dir: PathBuf,
    is_v2: bool,
}

impl Group {
    /// Makes the group of keeper `id`. `None`: the system does not permit it.
    pub(crate) fn make(id: &str) -> Option<Group> {
        let base = base().ok()?;
        let group = Group::named(base, id);
        match fs::create_dir(&group.dir) {
            Ok(()) => Some(group),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Some(group),
            Err(_) => None,
        }
    }

    /// The group that keeper `id` has left behind, if any.
    pub(crate) fn of(id: &str) -> Option<Group> {
        let group = Group::named(base().ok()?, id);
        group.dir.exists().then_some(group)
    }

    fn named(base: &Base, id: &str) -> Group {
        Group { dir: base.dir.join(group_name(id)), is_v2: base.kind == Confinement::CgroupV2 }
    }

    /// Moves a process in. A process that is gone is no error.
    pub(crate) fn add(&self, pid: i32) -> io::Result<()> {
        match fs::write(self.dir.join("cgroup.procs"), pid.to_string()) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }

    pub(crate) fn pids(&self) -> Vec<i32> {
        let text = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    pub(crate) fn freeze(&self, frozen: bool) -> io::Result<()> {
        match (self.is_v2, frozen) {
            (true, frozen) => fs::write(self.dir.join("cgroup.freeze"), if frozen { "1" } else { "0" }),
            (false, frozen) => fs::write(self.dir.join("freezer.state"), if frozen { "FROZEN" } else { "THAWED" }),
        }
    }

    pub(crate) fn is_frozen(&self) -> bool {
        let read = |name: &str| fs::read_to_string(self.dir.join(name)).unwrap_or_default();
        if self.is_v2 {
            read("cgroup.events").lines().any(|line| line == "frozen 1")
        } else {
            read("freezer.state").trim() == "FROZEN"
        }
    }

    /// Removes the group. The kernel may need a moment to release the last process, so the caller retries after an error.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
        cgroup /sys/fs/cgroup/freezer cgroup rw,relatime,freezer 0 0\n\
        cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";

    #[test]
    fn version_2_is_tried_first() {
        let found = own_groups(HYBRID, "6:freezer:/\n0::/user.slice/me.scope\n");
        let dirs: Vec<_> = found.iter().map(|(_, group)| (group.dir.to_str().unwrap(), group.is_top)).collect();
        assert_eq!(dirs, [("/sys/fs/cgroup/unified/user.slice/me.scope", false), ("/sys/fs/cgroup/freezer", true)]);
    }

    #[test]
    fn without_a_mount_there_is_no_group() {
        assert!(own_groups("proc /proc proc rw 0 0\n", "0::/\n").is_empty());
    }

    #[test]
    fn no_group_is_made_below_a_group_of_another_owner() {
        let group = OwnGroup { dir: PathBuf::from("/proc/self"), is_top: false };
        if rustix::process::geteuid().is_root() {
            let reason = check_delegated(&group).unwrap_err();
            assert!(reason.contains("not delegated to user 0"), "{reason}");
        }
    }

    #[test]
    fn a_group_is_made_and_removed_where_the_system_permits_it() {
        let Some(group) = Group::make(&format!("unit-{}", std::process::id())) else {
            assert!(matches!(confinement(), Confinement::None { .. }));
            return;
        };
        assert!(group.dir.exists());
        assert!(!group.is_frozen());
        group.remove().unwrap();
        assert!(!group.dir.exists());
    }
}
