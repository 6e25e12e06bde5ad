//! What a process has resident, and how many mappings.

use std::error::Error;
use std::fs;

use crate::parked::Parked;

type Failure = Box<dyn Error>;

impl Parked {
    /// Measures what was added since `resident_bytes_before`.
    pub fn since(resident_bytes_before: u64) -> Result<Self, Failure> {
        Ok(Self {
            resident_bytes: resident_bytes()?.saturating_sub(resident_bytes_before),
            mappings: fs::read_to_string("/proc/self/maps")?.lines().count() as u64,
        })
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

#[cfg(test)]
mod tests {
    use std::hint::black_box; // else release builds allocate nothing

    use super::*;

    #[test]
    fn touched_memory_becomes_resident() {
        let before = resident_bytes().expect("Linux");
        let pages = black_box(vec![1u8; 64 << 20]);
        let parked = Parked::since(before).expect("Linux");
        assert!(parked.resident_bytes > 60 << 20, "{parked:?}");
        drop(pages);
    }
}
