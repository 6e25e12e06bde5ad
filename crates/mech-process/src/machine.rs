//! What the machine has, and what is free of it now.
//!
//! Room: mechanism. Reads; never fails: a missing figure is `None`. A MB is 10^6 bytes, as in job files.
//!
//! # Invariant
//! No figure is larger than what we may really use: a control group around us counts as the machine, if it is smaller.

use std::fs;
use std::path::{Path, PathBuf};

pub use crate::gpu::{Gpu, gpu_memory_of_processes, gpus};
use crate::procfs;

/// Memory that can be had now without swapping, in MB. `None`: the system does not say.
pub fn memory_available_mb() -> Option<u64> {
    let machine = meminfo("MemAvailable")?;
    let group = group_memory().map(|(limit, used)| limit.saturating_sub(used));
    Some(group.map_or(machine, |group| group.min(machine)))
}

/// Memory there is, in MB. `None`: the system does not say.
pub fn memory_total_mb() -> Option<u64> {
    let machine = meminfo("MemTotal")?;
    Some(group_memory().map_or(machine, |(limit, _)| limit.min(machine)))
}

/// CPUs that we may use: at least one.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn meminfo(name: &str) -> Option<u64> {
    Some(procfs::kb(&fs::read_to_string("/proc/meminfo").ok()?, name)? / 1000)
}

/// Limit and use of the tightest control group around us, in MB.
fn group_memory() -> Option<(u64, u64)> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = |controller| procfs::group(&groups, controller).map(|path| path.trim_start_matches('/'));
    let v2 = own("").map(|path| (PathBuf::from("/sys/fs/cgroup"), path, ["memory.max", "memory.current"]));
    let v1 = own("memory")
        .map(|path| (PathBuf::from("/sys/fs/cgroup/memory"), path, ["memory.limit_in_bytes", "memory.usage_in_bytes"]));
    [v2, v1]
        .into_iter()
        .flatten()
        .flat_map(|(mount, path, names)| {
            let dir = mount.join(path);
            dir.ancestors()
                .take_while(|dir| dir.starts_with(&mount))
                .filter_map(|dir| limit(dir, names))
                .collect::<Vec<_>>()
        })
        .min_by_key(|(limit, used)| limit.saturating_sub(*used))
}

fn limit(dir: &Path, [limit, used]: [&str; 2]) -> Option<(u64, u64)> {
    let read = |name: &str| fs::read_to_string(dir.join(name)).ok()?.trim().parse::<u64>().ok();
    let (limit, used) = (read(limit)?, read(used)?);
    // Cached files count as used but are given up when memory is wanted.
    let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
    let cached = stat.lines().find_map(|line| {
        let rest = line.strip_prefix("total_inactive_file ").or_else(|| line.strip_prefix("inactive_file "))?;
        rest.parse::<u64>().ok()
    });
    Some((limit / 1_000_000, used.saturating_sub(cached.unwrap_or(0)) / 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_and_some_of_it_is_free() {
        let (free, total) = (memory_available_mb().unwrap(), memory_total_mb().unwrap());
        assert!(0 < free && free <= total, "{free} of {total}");
        assert!(cpus() > 0);
    }

    #[test]
    fn a_machine_without_graphics_says_so_without_fuss() {
        for gpu in gpus() {
            assert!(gpu.used_mb <= gpu.total_mb, "{gpu:?}");
        }
    }
}
