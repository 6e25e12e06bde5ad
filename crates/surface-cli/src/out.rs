//! Printing: tables, JSON, and closed pipes.
//!
//! Room: surface.

use std::io::{ErrorKind, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use console::{Alignment, measure_text_width, pad_str};
use serde::Serialize;

use crate::exit::Failure;
use crate::streams::stdout;

/// Milliseconds since 1970, as in journals.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

/// Prints to stdout. A closed pipe, as after `head`, is not an error.
///
/// # Errors
/// If it cannot be written for another reason, such as a full disk.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::StorageFull => {
            Err(Failure::broken(format!("cannot write the output: {error}; is the disk full?")))
        }
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::broken(format!("cannot write the output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints one JSON value and a line end.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(value).map_err(|error| Failure::broken(format!("cannot write JSON: {error}")))?;
    print(&format!("{text}\n"))
}

/// A table: columns are as wide as their widest cell, up to 60 characters.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest =
        |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| measure_text_width(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0).min(60)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&pad_str(cell, *width, Alignment::Left, None));
            line.push_str("  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["RUN".to_owned(), "NAME".to_owned()], vec!["r-7f3a".to_owned(), "ä😀".to_owned()]];
        assert_eq!(table(&rows), "RUN     NAME\nr-7f3a  ä😀\n");
    }
}
