//! Processes in `/proc`: their identity, their trees, their memory.
//!
//! Room: mechanism. Knows `/proc`; knows nothing of keepers.
//!
//! It only reads, and sends no signal. No other code parses `stat`, `status` or `meminfo`.
//!
//! # Invariant
//! Every process below `root` that exists during a whole `scan` is in its result.
//!
//! # Why it holds
//! A scan reads the parent of every process on the machine. A process whose parent dies meanwhile goes to the nearest subreaper,
//! which is the keeper that scans, or a process below it: it stays below. A process that is forked meanwhile may be missed. So a caller that
//! needs *all* processes stops those it found and scans again, until a scan finds nothing new.
//!
//! `walk` is for measuring: it follows the kernel's lists of children. Its cost is proportional to the tree, and it may miss some processes.

use std::collections::HashMap;
use std::fs;
use std::io::Read;

/// A process, as `/proc/<pid>/stat` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its pid.
    pub pid: i32,
    /// The pid of its parent.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// `R`, `S`, `D`, `T`, `t`, `Z`, …
    pub state: u8,
    /// Ticks from boot to its start. Together with the pid this identifies the process.
    pub start: u64,
}

impl Process {
    /// It is stopped or dead: it runs no instruction until it is continued, or never again.
    pub(crate) fn is_still(&self) -> bool {
        self.is_stopped() || self.is_dead()
    }

    /// It was stopped, and is alive.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, b'T' | b't')
    }

    /// It has ended; perhaps its parent has not reaped it yet.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// Reads a small file of `/proc` without asking for its size first.
fn read_small(path: &str, into: &mut Vec<u8>) -> Option<()> {
    into.clear();
    fs::File::open(path).ok()?.read_to_end(into).ok()?;
    Some(())
}

/// Parses `stat`. The name of a program may contain spaces and brackets; the last `)` ends it.
fn parse_stat(pid: i32, stat: &[u8]) -> Option<Process> {
    let after = stat.iter().rposition(|&byte| byte == b')')? + 2;
    let mut fields = stat.get(after..)?.split(|&byte| byte == b' ');
    let state = *fields.next()?.first()?;
    let mut number = || std::str::from_utf8(fields.next()?).ok()?.trim_end().parse::<i32>().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    let start = std::str::from_utf8(fields.nth(15)?).ok()?.trim_end().parse().ok()?;
    Some(Process { pid, parent, group, session, state, start })
}

/// The value in the line with this name, of a file like `status` or `meminfo`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The same for a size, in kB of 1,000 bytes.
pub(crate) fn kb(text: &str, name: &str) -> Option<u64> {
    value(text, name)?.strip_suffix(" kB")?.trim_end().parse().ok().map(kb_of_kib)
}

/// The same for a set of signals: the lowest bit is signal 1.
fn signals(text: &str, name: &str) -> Option<u64> {
    u64::from_str_radix(value(text, name)?, 16).ok()
}

/// The group of a process in the hierarchy of a controller, from its `cgroup`; without a name, in that of version 2.
pub(crate) fn group<'a>(cgroup: &'a str, controller: &str) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        controllers.split(',').any(|one| one == controller).then_some(path)
    })
}

/// A bit for each signal that this process ignores, the lowest for signal 1.
pub fn ignored_signals() -> u64 {
    fs::read_to_string("/proc/self/status").ok().and_then(|text| signals(&text, "SigIgn")).unwrap_or(0)
}

/// The process that has this pid now.
pub fn one(pid: i32) -> Option<Process> {
    let mut text = Vec::with_capacity(512);
    read_small(&format!("/proc/{pid}/stat"), &mut text)?;
    parse_stat(pid, &text)
}

/// Will this process stop before it runs another instruction of its own?
pub(crate) fn stop_is_pending(pid: i32) -> bool {
    let mut text = Vec::new();
    if read_small(&format!("/proc/{pid}/status"), &mut text).is_none() {
        return true; // gone
    }
    let text = String::from_utf8_lossy(&text);
    let mut sets = ["SigPnd", "ShdPnd"].into_iter().filter_map(|name| signals(&text, name));
    sets.any(|set| set & (1 << (libc::SIGSTOP - 1)) != 0)
}

/// A process and its ancestors, as far as they exist.
pub(crate) fn lineage(pid: i32) -> Vec<i32> {
    let (mut text, mut line) = (Vec::with_capacity(512), vec![pid]);
    let mut at = pid;
    // Pids may be reused meanwhile, so the chain could be a cycle; no real chain is that long.
    while at > 1 && line.len() < 256 {
        let parent = read_small(&format!("/proc/{at}/stat"), &mut text).and_then(|()| parse_stat(at, &text));
        let Some(Process { parent, .. }) = parent else { break };
        line.push(parent);
        at = parent;
    }
    line
}

/// The value of a variable that a process was started with; `None` if it is not set, or may not be read.
pub(crate) fn variable(pid: i32, name: &str) -> Option<String> {
    let mut text = Vec::new();
    read_small(&format!("/proc/{pid}/environ"), &mut text)?;
    let found = text.split(|byte| *byte == 0).find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    found.map(|value| String::from_utf8_lossy(value).into_owned())
}

/// Every process on the machine.
pub(crate) fn all() -> Vec<Process> {
    let mut text = Vec::with_capacity(512);
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
            read_small(&format!("/proc/{pid}/stat"), &mut text)?;
            parse_stat(pid, &text)
        })
        .collect()
}

/// All processes below `root`, parents before their children.
pub(crate) fn scan(root: i32) -> Vec<Process> {
    below(root, &all())
}

fn below(root: i32, all: &[Process]) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(*process);
    }
    let mut found = children.remove(&root).unwrap_or_default();
    let mut next = 0;
    while next < found.len() {
        // Removed, not only read: the list may have changed while it was read, and name a process as its own ancestor.
        found.extend(children.remove(&found[next].pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// The children of `pid`, from the kernel's list. `None`: this kernel has no such list.
fn children(pid: i32, text: &mut Vec<u8>, found: &mut Vec<i32>) -> Option<()> {
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let Ok(thread) = thread else { continue };
        let Some(thread) = thread.file_name().to_str().map(str::to_owned) else { continue };
        read_small(&format!("/proc/{pid}/task/{thread}/children"), text)?;
        found.extend(
            text.split(|&byte| byte == b' ').filter_map(|pid| std::str::from_utf8(pid).ok()?.parse::<i32>().ok()),
        );
    }
    Some(())
}

/// The processes below `root`, quickly, but perhaps not all.
pub(crate) fn walk(root: i32) -> Vec<i32> {
    let (mut text, mut found) = (Vec::new(), Vec::new());
    if children(root, &mut text, &mut found).is_none() {
        return scan(root).iter().map(|process| process.pid).collect();
    }
    let mut next = 0;
    // A process that got a new parent meanwhile can be listed twice. Bounded, so that a tree that forks all the time cannot keep us here.
    while next < found.len() && found.len() < 100_000 {
        let pid = found[next];
        let _ = children(pid, &mut text, &mut found); // gone meanwhile: it has no children any more
        next += 1;
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Converts the kernel's kB, which are KiB, to ours, which are 1,000 bytes as in job files.
pub(crate) const fn kb_of_kib(kib: u64) -> u64 {
    kib.saturating_mul(1_024) / 1_000
}

/// An estimate of the memory of processes, in kB: the private pages of each, and the largest amount that one of them shares.
///
/// For shared libraries it is never less than half of the real value. For a tree that forked with much memory it is too large: see [`exact_kb`].
pub(crate) fn resident_kb(pids: &[i32]) -> u64 {
    let page_kib = rustix::param::page_size() as u64 / 1024;
    let mut text = Vec::new();
    let (mut own, mut shared_most) = (0, 0);
    for pid in pids {
        if read_small(&format!("/proc/{pid}/statm"), &mut text).is_none() {
            continue;
        }
        let text = String::from_utf8_lossy(&text);
        let mut fields = text.split(' ').skip(1).map(|field| field.parse::<u64>().unwrap_or(0));
        let (resident, shared) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
        own += resident.saturating_sub(shared);
        shared_most = shared_most.max(shared);
    }
    kb_of_kib((own + shared_most) * page_kib)
}

/// The memory of processes, in kB, with every shared page split among the processes that share it. Walks page tables, so it is only called
/// before a tree is killed for its memory.
pub(crate) fn exact_kb(pids: &[i32]) -> u64 {
    let mut text = Vec::new();
    pids.iter()
        .map(|pid| {
            let read = read_small(&format!("/proc/{pid}/smaps_rollup"), &mut text);
            let exact = read.and_then(|()| kb(&String::from_utf8_lossy(&text), "Pss"));
            // The maps of another user's process cannot be read; the estimate is used.
            exact.unwrap_or_else(|| resident_kb(&[*pid]))
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_program_name_with_brackets_and_spaces_is_parsed() {
        let stat = b"42 (a) R 1 (b) S 7 8 9 0 -1 4194304 1 2 0 0 0 0 0 0 20 0 1 0 4242 7";
        assert_eq!(
            parse_stat(42, stat),
            Some(Process { pid: 42, parent: 7, group: 8, session: 9, state: b'S', start: 4242 })
        );
    }

    #[test]
    fn a_value_is_found_by_its_whole_name_and_has_its_unit() {
        let text =
            "MemTotal:       24682424 kB\nMemAvailableX: 5 kB\nMemAvailable:   20480 kB\nSigIgn:\t0000000000001000\n";
        assert_eq!(kb(text, "MemAvailable"), Some(20_971));
        assert_eq!((kb(text, "Mem"), kb(text, "SigIgn")), (None, None), "no such line; no size");
        assert_eq!(signals(text, "SigIgn"), Some(1 << 12));
    }

    #[test]
    fn a_group_is_found_by_its_controller() {
        let cgroup = "12:cpu,memory:/user/me\n3:freezer:/\n0::/system\n";
        assert_eq!(
            ["memory", "freezer", ""].map(|name| group(cgroup, name)),
            [Some("/user/me"), Some("/"), Some("/system")]
        );
        assert_eq!(group(cgroup, "mem"), None);
    }

    #[test]
    fn we_are_below_our_parent() {
        let me = std::process::id() as i32;
        let parent = std::os::unix::process::parent_id() as i32;
        assert!(scan(parent).iter().any(|process| process.pid == me));
        assert!(walk(parent).contains(&me));
        assert!(resident_kb(&[me]) > 100);
        assert!(exact_kb(&[me]) > 100);
    }

    proptest! {
        #[test]
        fn a_list_of_parents_with_cycles_is_followed_to_an_end(
            pairs in proptest::collection::vec((1_i32..20, 0_i32..20), 0..40),
        ) {
            let all: Vec<_> =
                pairs.iter().map(|&(pid, parent)| Process { pid, parent, group: 0, session: 0, state: b'R', start: 0 }).collect();
            let found = below(1, &all);
            prop_assert!(found.len() <= all.len());
            for process in all.iter().filter(|process| process.parent == 1) {
                prop_assert!(found.contains(process));
            }
        }

        #[test]
        fn noise_for_a_stat_line_is_refused(noise in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse_stat(1, &noise);
        }
    }
}
