//! The last lines of a log, however long it is and whatever is in it.
//!
//! Room: surface.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::text::clean;

/// How much of the end of a log is read.
const BYTES: u64 = 16 * 1024;
/// A line longer than this is cut: a progress bar may be one line of megabytes.
const WIDTH: usize = 200;

/// The last `lines` lines that are not empty, without anything a terminal would act on. Empty if there is no log.
pub(crate) fn tail(path: &Path, lines: usize) -> Vec<String> {
    read(path).map(|bytes| last(&bytes, lines)).unwrap_or_default()
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let from = file.metadata()?.len().saturating_sub(BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn last(bytes: &[u8], lines: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    // What a line was overwritten with by `\r` is what a person saw last.
    let seen = text.lines().map(|line| line.trim_end().rsplit('\r').next().unwrap_or_default());
    let seen: Vec<&str> = seen.filter(|line| !line.trim().is_empty()).collect();
    let from = seen.len().saturating_sub(lines);
    seen[from..].iter().map(|line| cut(&clean(&console::strip_ansi_codes(line).replace('\t', "    ")))).collect()
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::last;

    #[test]
    fn the_end_of_a_log_is_what_a_person_saw_last() {
        let log = b"one\n\n10 %\r50 %\r100 %\r\n\x1b[31merror:\x1b[0m no\tsuch file\n   \n\xff\x07beep\n";
        assert_eq!(last(log, 3), ["100 %", "error: no    such file", "\u{fffd}\u{fffd}beep"]);
        assert_eq!(last(&b"x".repeat(5_000), 1)[0].chars().count(), 201);
        assert!(last(b"", 3).is_empty());
    }
}
