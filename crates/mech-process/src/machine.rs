//! CPUs and memory of the machine, in total and free.
//!
//! Room: mechanism. Knows `/proc/meminfo` and control groups; knows nothing of jobs.
//!
//! It only reads, and never fails: a missing number is `None`. A MB is 10^6 bytes, as in job files.
//!
//! # Invariant
//! No number is larger than what this process may use: the limit of a control group around it counts, if it is smaller than the machine.

use std::fs;
use std::path::Path;

pub use crate::gpu::{Gpu, gpu_memory_of_processes, gpus};
use crate::procfs;

/// Memory that is available without swapping, in MB. `None`: the system does not say.
pub fn memory_available_mb() -> Option<u64> {
    let machine = meminfo("MemAvailable")?;
    let group = group_memory().map(|(limit, used)| limit.saturating_sub(used));
    Some(group.map_or(machine, |group| group.min(machine)))
}

/// Total memory, in MB. `None`: the system does not say.
pub fn memory_total_mb() -> Option<u64> {
    let machine = meminfo("MemTotal")?;
    Some(group_memory().map_or(machine, |(limit, _)| limit.min(machine)))
}

/// The number of CPUs that this process may use: at least one.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The numbers of the CPUs that are online.
pub fn online_cpus() -> Vec<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let numbers = cpu_numbers(&text);
    if numbers.is_empty() { (0..cpus()).collect() } else { numbers }
}

/// Numbers of CPUs as the kernel writes them.
///
/// ```
/// assert_eq!(mech_process::machine::cpu_list(&[8, 0, 1, 2]), "0-2,8");
/// ```
pub fn cpu_list(cpus: &[usize]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|one, next| one + 1 == *next);
    let runs = runs.map(|run| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// The numbers of a list as the kernel writes it: `0-3,8`. Empty if it is not such a list.
fn cpu_numbers(text: &str) -> Vec<usize> {
    let run = |run: &str| -> Option<(usize, usize)> {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        Some((first.trim().parse().ok()?, last.trim().parse().ok()?))
    };
    let runs: Option<Vec<_>> = text.trim().split(',').map(run).collect();
    runs.unwrap_or_default()
        .into_iter()
        .flat_map(|(first, last)| first..=last.min(first.saturating_add(CPUS_MAX)))
        .collect()
}

/// A longer run of CPUs is a mistake.
const CPUS_MAX: usize = 4_096;

fn meminfo(name: &str) -> Option<u64> {
    Some(procfs::kb(&fs::read_to_string("/proc/meminfo").ok()?, name)? / 1000)
}

/// Limit and usage of the tightest control group around this process, in MB.
fn group_memory() -> Option<(u64, u64)> {
    tightest(&fs::read_to_string("/proc/self/cgroup").ok()?, Path::new("/sys/fs/cgroup"))
}

/// As [`group_memory`], from the text of `/proc/self/cgroup`. In a container these paths may not exist; then the root of its own hierarchy counts.
fn tightest(groups: &str, root: &Path) -> Option<(u64, u64)> {
    let own = |controller| procfs::group(groups, controller).map(|path| path.trim_start_matches('/'));
    let v2 = own("").map(|path| (root.to_owned(), path, ["memory.max", "memory.current"]));
    let v1 = own("memory").map(|path| (root.join("memory"), path, ["memory.limit_in_bytes", "memory.usage_in_bytes"]));
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
    // Cached files count as used, but the kernel reclaims them when memory is needed.
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
    fn lists_of_cpus_are_read_and_written_as_the_kernel_does() {
        assert_eq!(cpu_numbers("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(cpu_list(&cpu_numbers("3,1-2")), "1-3");
        assert!(cpu_numbers("").is_empty() && cpu_numbers("all").is_empty());
        assert!(!online_cpus().is_empty());
    }

    #[test]
    fn in_a_container_the_limit_of_its_control_group_counts() {
        const GB: u64 = 1_000_000_000;
        let root = tempfile::tempdir().unwrap();
        let group = |path: &str, files: &[(&str, u64)]| {
            let dir = root.path().join(path);
            fs::create_dir_all(&dir).unwrap();
            files.iter().for_each(|(name, bytes)| fs::write(dir.join(name), format!("{bytes}\n")).unwrap());
        };
        assert_eq!(tightest("0::/\n", root.path()), None, "no group has a limit");
        // The newer hierarchy: the tightest above us, and files that are only cached are free.
        group("pod", &[("memory.max", 4 * GB), ("memory.current", 3 * GB)]);
        group("pod/we", &[("memory.max", 8 * GB), ("memory.current", GB)]);
        fs::write(root.path().join("pod/memory.stat"), format!("anon 1\ninactive_file {GB}\n")).unwrap();
        assert_eq!(tightest("0::/pod/we\n", root.path()), Some((4_000, 2_000)));
        // A container has the folder of its own group as its root, whatever the group is called outside.
        group("", &[("memory.max", 2 * GB), ("memory.current", GB)]);
        assert_eq!(tightest("0::/docker/7f3a\n", root.path()), Some((2_000, 1_000)));
        // The older hierarchy.
        group("memory", &[("memory.limit_in_bytes", GB), ("memory.usage_in_bytes", GB / 2)]);
        assert_eq!(tightest("4:memory:/docker/7f3a\n", root.path()), Some((1_000, 500)));
    }

    #[test]
    fn a_machine_without_graphics_says_so_without_fuss() {
        for gpu in gpus() {
            assert!(gpu.used_mb <= gpu.total_mb, "{gpu:?}");
        }
    }
}
