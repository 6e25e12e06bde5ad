//! Rows that tell work from what is around it, and the sheet that takes only right ones.
//!
//! # Invariant
//! A row on the sheet has the checksum that was expected: [`Sheet::add`] is the only way to get there. What it refuses makes the run fail.
//!
//! # What the columns mean
//! `total` is the time of all workers together, the wall time times their number; `work` is the part of it that was spent in the work itself, measured inside of it. The rest is `cost`: starting, choosing, stealing,
//! waking, switching, and waiting for the last one. With more workers than CPUs the system takes some of them off their CPU in the middle of the work, and that counts as work: then `cost` says less.

use std::env;
use std::fmt::Write;
use std::time::Duration;

use crate::primes::{Checksum, Found};

/// What our workers counted meanwhile; see `bursar::runtime::Stats`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub candidates: u64,
    pub steals: u64,
    pub wakes: u64,
}

/// One way to do the work.
#[derive(Clone, Debug)]
pub struct Split {
    pub workload: &'static str,
    pub side: &'static str,
    pub workers: usize,
    /// From the first moment to the end.
    pub wall: Duration,
    pub found: Found,
    /// Only ours have some.
    pub counts: Option<Counts>,
}

impl Split {
    /// What it is called beside others of its workload.
    pub fn way(&self) -> String {
        let s = if self.workers == 1 { "" } else { "s" };
        format!("{}, {} worker{s}", self.side, self.workers)
    }

    /// What it is called in messages.
    fn name(&self) -> String {
        format!("{}: {}", self.workload, self.way())
    }

    fn total(&self) -> Duration {
        self.wall * self.workers as u32
    }

    fn cost(&self) -> Duration {
        self.total().saturating_sub(self.found.work)
    }

    fn cells(&self) -> [String; COLUMNS] {
        let count = |of: fn(Counts) -> u64| self.counts.map_or_else(|| "-".to_owned(), |counts| of(counts).to_string());
        [
            self.workload.to_owned(),
            self.side.to_owned(),
            self.workers.to_string(),
            millis(self.wall),
            millis(self.total()),
            millis(self.found.work),
            millis(self.cost()),
            format!("{:.2} %", 100.0 * self.cost().as_secs_f64() / self.total().as_secs_f64().max(f64::MIN_POSITIVE)),
            count(|counts| counts.candidates),
            count(|counts| counts.steals),
            count(|counts| counts.wakes),
        ]
    }

    /// The row as one line of JSON; times are in milliseconds.
    pub fn json(&self) -> String {
        let count = |of: fn(Counts) -> u64| self.counts.map_or_else(|| "null".to_owned(), |own| of(own).to_string());
        format!(
            r#"{{"workload":"{}","side":"{}","workers":{},"wall":{},"total":{},"work":{},"candidates":{},"steals":{},"wakes":{}}}"#,
            self.workload,
            self.side,
            self.workers,
            millis(self.wall),
            millis(self.total()),
            millis(self.found.work),
            count(|counts| counts.candidates),
            count(|counts| counts.steals),
            count(|counts| counts.wakes),
        )
    }
}

fn millis(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e3)
}

/// The rows that count, and why others do not.
#[derive(Debug, Default)]
pub struct Sheet {
    rows: Vec<Split>,
    refused: Vec<String>,
}

impl Sheet {
    /// Takes a row with the right checksum, and refuses any other. Says whether it was taken.
    pub fn add(&mut self, mut row: Split, expected: Checksum) -> bool {
        if env::var("COMPARE_PLANT").is_ok_and(|planted| planted == row.name()) {
            row.found.checksum.sum += 1; // a wrong result, to see that it is refused
        }
        let found = row.found.checksum;
        if found == expected {
            self.rows.push(row);
            return true;
        }
        self.refused.push(format!(
            "{}: {} primes that add up to {}; there are {} that add up to {}",
            row.name(),
            found.count,
            found.sum,
            expected.count,
            expected.sum
        ));
        false
    }

    pub fn rows(&self) -> &[Split] {
        &self.rows
    }

    /// The rows that were refused, and why.
    pub fn refused(&self) -> &[String] {
        &self.refused
    }

    /// The table; nothing if there are no rows.
    pub fn render(&self) -> String {
        let mut text = String::new();
        if self.rows.is_empty() {
            return text;
        }
        let mut lines = vec![TITLES.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Split::cells));
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; COLUMNS] = std::array::from_fn(width);
        for line in &lines {
            let mut out = String::new();
            for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
                let padded = if column < 2 { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
                write!(out, "{padded}  ").expect("a String takes everything");
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
        text
    }
}

const COLUMNS: usize = 11;
const TITLES: [&str; COLUMNS] = [
    "workload",
    "side",
    "workers",
    "wall ms",
    "total ms",
    "work ms",
    "cost ms",
    "cost",
    "candidates",
    "steals",
    "wakes",
];

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: Checksum = Checksum { count: 4, sum: 17 };

    fn row(side: &'static str, checksum: Checksum, counts: Option<Counts>) -> Split {
        let found = Found { checksum, work: Duration::from_millis(19) };
        Split { workload: "thread-scale", side, workers: 2, wall: Duration::from_millis(10), found, counts }
    }

    #[test]
    fn a_wrong_checksum_refuses_its_row_and_no_other() {
        let mut sheet = Sheet::default();
        assert!(sheet.add(row("ours", RIGHT, None), RIGHT));
        for wrong in [Checksum { count: 3, ..RIGHT }, Checksum { sum: 18, ..RIGHT }, Checksum::default()] {
            assert!(!sheet.add(row("rayon", wrong, None), RIGHT), "{wrong:?}");
        }
        assert!(sheet.render().contains("ours") && !sheet.render().contains("rayon"), "{}", sheet.render());
        assert_eq!(sheet.rows().len(), 1);
        assert_eq!(
            sheet.refused()[1],
            "thread-scale: rayon, 2 workers: 4 primes that add up to 18; there are 4 that add up to 17"
        );
    }

    #[test]
    fn work_and_what_is_around_it_are_apart() {
        let mut sheet = Sheet::default();
        let counts = Counts { candidates: 900, steals: 12, wakes: 3 };
        sheet.add(row("ours", RIGHT, Some(counts)), RIGHT);
        sheet.add(row("std threads", RIGHT, None), RIGHT);
        assert_eq!(
            sheet.render(),
            "\
workload      side         workers  wall ms  total ms  work ms  cost ms    cost  candidates  steals  wakes
thread-scale  ours               2    10.00     20.00    19.00     1.00  5.00 %         900      12      3
thread-scale  std threads        2    10.00     20.00    19.00     1.00  5.00 %           -       -      -
"
        );
        assert_eq!(
            sheet.rows()[0].json(),
            r#"{"workload":"thread-scale","side":"ours","workers":2,"wall":10.00,"total":20.00,"work":19.00,"candidates":900,"steals":12,"wakes":3}"#
        );
        assert!(sheet.rows()[1].json().ends_with(r#""candidates":null,"steals":null,"wakes":null}"#));
    }

    #[test]
    fn a_sheet_without_rows_prints_nothing() {
        assert_eq!(Sheet::default().render(), "");
    }
}
