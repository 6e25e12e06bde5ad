//! What tasks and runs cost in memory.
//!
//! # Invariant
//! Each side of parked tasks is measured in a process of its own, in which nothing else ever ran.
//!
//! # Why a process
//! Allocators and stack pools keep what they once had. In one process the second side
//! would reuse memory that the first one left, and look free.

use std::env;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::parked::Parked;
use crate::{Failure, watchdog};

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

/// Runs one side of a memory workload in a fresh process of `program`, which has nothing but that side in it: no watchdog either, whose thread would be
/// six of the mappings counted. So the parent watches.
pub fn in_child(program: &str, side: &str, count: usize) -> Result<Parked, Failure> {
    let program = env::current_exe()?.with_file_name(program);
    let mut child = Command::new(&program)
        .args([side, &count.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
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
