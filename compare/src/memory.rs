//! What a parked task costs in memory.
//!
//! # Invariant
//! Each side is measured in a process of its own, in which nothing else ever ran.
//!
//! # Why a process
//! Allocators and stack pools keep what they once had. In one process the second side
//! would reuse memory that the first one left, and look free.

use std::env;
use std::fmt;
use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Failure, watchdog};

/// What the parked tasks of one side took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parked {
    /// Resident memory with the tasks parked, less what was resident before them.
    pub resident_bytes: u64,
    /// Memory mappings of the whole process while they were parked.
    pub mappings: u64,
}

impl Parked {
    /// Measures what was added since `resident_bytes_before`.
    pub fn since(resident_bytes_before: u64) -> Result<Self, Failure> {
        Ok(Self {
            resident_bytes: resident_bytes()?.saturating_sub(resident_bytes_before),
            mappings: fs::read_to_string("/proc/self/maps")?.lines().count() as u64,
        })
    }
}

impl fmt::Display for Parked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resident_bytes, self.mappings)
    }
}

impl FromStr for Parked {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let (resident, mappings) =
            text.trim().split_once(' ').ok_or_else(|| format!("expected `<bytes> <mappings>`, got {text:?}"))?;
        Ok(Self { resident_bytes: resident.parse()?, mappings: mappings.parse()? })
    }
}

/// The resident memory of this process.
pub fn resident_bytes() -> Result<u64, Failure> {
    // `VmRSS` and not `statm`: it names its unit, so the page size need not be guessed.
    let status = fs::read_to_string("/proc/self/status")?;
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
        .ok_or("no VmRSS in /proc/self/status; this workload needs Linux")?;
    Ok(kib.parse::<u64>()? * 1024)
}

/// What this process has allocated and not freed.
///
/// Unlike resident memory it leaves out what the allocator keeps for later, so sides may be measured one after the other.
pub fn heap_bytes() -> Result<u64, Failure> {
    use malloc_info::info::{SystemType, TotalType};

    let info = malloc_info::malloc_info()?;
    let arenas = info.system.iter().filter(|system| system.r#type == SystemType::Current).map(|system| system.size);
    let total = |wanted: TotalType| info.total.iter().filter(move |total| total.r#type == wanted).map(|t| t.size);
    let had: usize = arenas.chain(total(TotalType::Mmap)).sum();
    let free: usize = total(TotalType::Fast).chain(total(TotalType::Rest)).sum();
    Ok(had.saturating_sub(free) as u64)
}

/// Runs one side of a memory workload in a fresh copy of this program, which has nothing but that side in it: no watchdog either, whose thread would be
/// six of the mappings counted. So the parent watches.
pub fn in_child(workload: &str, side: &str, count: usize) -> Result<Parked, Failure> {
    let mut child = Command::new(env::current_exe()?)
        .args(["--child", workload, side, &count.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    let deadline = Instant::now() + watchdog::CHILD;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            let limit = watchdog::CHILD.as_secs();
            return Err(format!("{side} with {count} tasks: not finished after {limit} s; given up").into());
        }
        thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        return Err(format!("{side} with {count} tasks ended with {status}").into());
    }
    let mut told = String::new();
    child.stdout.take().expect("it was piped").read_to_string(&mut told)?;
    told.parse()
}

#[cfg(test)]
mod tests {
    use std::hint::black_box; // else release builds allocate nothing

    use super::*;

    #[test]
    fn what_the_child_prints_the_parent_reads() {
        let parked = Parked { resident_bytes: 4_600_000_000, mappings: 25 };
        assert_eq!(parked.to_string().parse::<Parked>().expect("it parses"), parked);
        assert!("".parse::<Parked>().is_err());
    }

    #[test]
    fn touched_memory_becomes_resident() {
        let before = resident_bytes().expect("Linux");
        let pages = black_box(vec![1u8; 64 << 20]);
        let parked = Parked::since(before).expect("Linux");
        assert!(parked.resident_bytes > 60 << 20, "{parked:?}");
        drop(pages);
    }

    #[test]
    fn live_blocks_count_and_freed_ones_do_not() {
        let before = heap_bytes().expect("glibc");
        // Never touched, so it is cheap; and so large that what other tests do meanwhile does not matter.
        let block = black_box(vec![0u8; 1 << 30]);
        let with = heap_bytes().expect("glibc").saturating_sub(before);
        assert!(with > 900 << 20, "{with}");
        drop(block);
        let after = heap_bytes().expect("glibc").saturating_sub(before);
        assert!(after < 500 << 20, "{after}");
    }
}
