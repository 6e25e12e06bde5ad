//! How much memory this process has, as the system counts it.

use std::fs;

/// Resident memory in bytes. None where there is no `/proc`.
pub(crate) fn resident_bytes() -> Option<u64> {
    kib_of(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS:")
}

/// Memory that could be had without swapping.
pub(crate) fn available_bytes() -> Option<u64> {
    kib_of(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")
}

fn kib_of(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read_with_its_unit() {
        let text = "VmHWM:\t  900 kB\nVmRSS:\t     512 kB\n";
        assert_eq!(kib_of(text, "VmRSS:"), Some(512 * 1024));
        assert_eq!(kib_of(text, "VmSwap:"), None);
    }
}
