//! Control groups that divide CPUs: a weight, and a set of CPUs.
//!
//! Room: mechanism. Knows the controllers `cpu` and `cpuset`, of both versions; knows nothing of commands.
//!
//! # Invariant
//! A keeper has at most one group in each hierarchy, and it is gone when its command has ended.
//!
//! # Why it holds
//! The name of the group is that of the keeper, which runs one command at a time. [`remove`] is called when the tree is empty, and by who finds that
//! the keeper is gone. In version 2 the group is the one that is frozen (`cgroup.rs`), so a pause does not move a process out of it.
//!
//! # Cost
//! To move into a group waits for every CPU, some milliseconds; so only commands that ask for a weight or for CPUs are in one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cgroup::{base_of, group_name, made_group_of, own_dir};
use crate::class::WEIGHT_DEFAULT;
use crate::machine::cpu_list;

/// `cpu.shares` of a new group.
const SHARES_DEFAULT: u64 = 1024;

/// A value that a file of a control group has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupValue {
    /// The file.
    pub file: PathBuf,
    /// What it says.
    pub value: String,
}

impl GroupValue {
    fn read(file: PathBuf) -> Option<GroupValue> {
        let value = fs::read_to_string(&file).ok()?.trim().to_owned();
        Some(GroupValue { file, value })
    }
}

impl std::fmt::Display for GroupValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        let dir = self.file.parent().unwrap_or(Path::new("")).display();
        write!(f, "{name} {} in {dir}", self.value)
    }
}

/// A group that was made, for a process to join.
#[derive(Debug)]
pub(crate) struct Made {
    dir: PathBuf,
    is_v2: bool,
}

impl Made {
    /// Moves the calling thread in, and with it what it forks. Version 2 moves only whole processes: then there is a file that the child writes to.
    pub(crate) fn enter(&self) -> io::Result<Option<fs::File>> {
        if self.is_v2 {
            return fs::OpenOptions::new().write(true).open(self.dir.join("cgroup.procs")).map(Some);
        }
        fs::write(self.dir.join("tasks"), "0").map(|()| None)
    }
}

/// Makes the group of keeper `id` in the hierarchy of `controller`.
fn make(id: &str, controller: &str) -> Result<Made, String> {
    let (base, is_v2) = base_of(controller)?;
    let dir = base.join(group_name(id));
    match fs::create_dir(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(format!("{}: {error}", dir.display())),
        _ => Ok(Made { dir, is_v2 }),
    }
}

fn write(dir: &Path, name: &str, value: &str) -> Result<(), String> {
    let file = dir.join(name);
    fs::write(&file, value).map_err(|error| format!("{} cannot be set to {value}: {error}", file.display()))
}

/// The group of keeper `id`, with this weight.
pub(crate) fn with_weight(id: &str, weight: u32) -> Result<Made, String> {
    let made = make(id, "cpu")?;
    let shares = SHARES_DEFAULT * u64::from(weight) / u64::from(WEIGHT_DEFAULT);
    match made.is_v2 {
        true => write(&made.dir, "cpu.weight", &weight.to_string())?,
        false => write(&made.dir, "cpu.shares", &shares.max(2).to_string())?,
    }
    Ok(made)
}

/// The group of keeper `id`, with these CPUs.
pub(crate) fn with_cpus(id: &str, cpus: &[usize]) -> Result<Made, String> {
    let made = make(id, "cpuset")?;
    if !made.is_v2 {
        // Without memory nodes no process may enter.
        let above = made.dir.parent().unwrap_or(Path::new("/")).join("cpuset.effective_mems");
        let mems = fs::read_to_string(&above).map_err(|error| format!("{}: {error}", above.display()))?;
        write(&made.dir, "cpuset.mems", mems.trim())?;
    }
    write(&made.dir, "cpuset.cpus", &cpu_list(cpus))?;
    Ok(made)
}

/// The weight of the group that a process is in, if that group was made here.
pub(crate) fn weight_of(pid: i32) -> Option<GroupValue> {
    let (dir, is_v2) = made_group_of(pid, "cpu")?;
    GroupValue::read(dir.join(if is_v2 { "cpu.weight" } else { "cpu.shares" }))
}

/// The CPUs of the group that a process is in, if that group was made here.
pub(crate) fn cpus_of(pid: i32) -> Option<GroupValue> {
    let (dir, is_v2) = made_group_of(pid, "cpuset")?;
    GroupValue::read(dir.join(if is_v2 { "cpuset.cpus.effective" } else { "cpuset.effective_cpus" }))
}

/// Removes the groups of keeper `id`. `false`: a process is still in one.
pub(crate) fn remove(id: &str) -> bool {
    let mut is_gone = true;
    for base in ["cpu", "cpuset"].into_iter().filter_map(own_dir) {
        if let Err(error) = fs::remove_dir(base.join(group_name(id))) {
            is_gone &= error.kind() == io::ErrorKind::NotFound;
        }
    }
    is_gone
}
