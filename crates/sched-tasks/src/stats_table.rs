//! Statistics for people: a table with a line for each worker.
//!
//! Room: surface. Knows columns; knows nothing of how they were counted.

use std::{fmt, time::Duration};

use crate::stats::{Stats, WorkerStats};

/// A title, and what stands below it.
type Column = (&'static str, fn(&WorkerStats) -> String);

const COUNTS: [Column; 6] = [
    ("begun", |worker| worker.executed.to_string()),
    ("resumed", |worker| worker.resumed.to_string()),
    ("stolen", |worker| worker.stolen.to_string()),
    ("nothing", |worker| worker.choices.nothing.to_string()),
    ("signals", |worker| worker.signals.to_string()),
    ("wakes", |worker| worker.wakes.to_string()),
];

const WITHOUT_DIAGNOSTICS: [Column; 1] =
    [("busy", |worker| part(worker.wall.saturating_sub(worker.idle), worker.wall))];

const WITH_DIAGNOSTICS: [Column; 4] = [
    ("candidates", |worker| worker.diagnostics.map_or(0, |own| own.candidates).to_string()),
    ("locks", |worker| worker.diagnostics.map_or(0, |own| own.contended_locks).to_string()),
    ("tasks", |worker| part(worker.diagnostics.unwrap_or_default().in_tasks, worker.wall)),
    ("scheduler", |worker| part(worker.diagnostics.unwrap_or_default().in_scheduler, worker.wall)),
];

const TIME: [Column; 2] = [
    ("idle", |worker| part(worker.idle, worker.wall)),
    ("of", |worker| match worker.wall {
        Duration::ZERO => "-".into(),
        wall => format!("{wall:.2?}"),
    }),
];

fn part(of: Duration, all: Duration) -> String {
    if all.is_zero() { "-".into() } else { format!("{:.1}%", 100.0 * of.as_secs_f64() / all.as_secs_f64()) }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let middle: &[Column] = if total.diagnostics.is_some() { &WITH_DIAGNOSTICS } else { &WITHOUT_DIAGNOSTICS };
        let columns = || COUNTS.iter().chain(middle).chain(&TIME);
        let cells = |name: String, worker| {
            let mut line = vec![name];
            line.extend(columns().map(|(_, cell)| cell(worker)));
            line
        };
        let mut lines = vec![vec!["worker".to_owned()]];
        lines[0].extend(columns().map(|(title, _)| (*title).to_owned()));
        lines.extend(self.workers.iter().enumerate().map(|(index, worker)| cells(index.to_string(), worker)));
        lines.push(cells("all".to_owned(), &total));
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0))
            .collect();
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                writeln!(f)?;
            }
            for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
                write!(f, "{}{cell:>width$}", if at == 0 { "" } else { "  " })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Choices, Diagnostics};

    fn worker(executed: u64, diagnostics: Option<Diagnostics>) -> WorkerStats {
        WorkerStats {
            executed,
            resumed: 3400,
            stolen: 12,
            choices: Choices { nothing: 5, ..Choices::default() },
            signals: 3,
            wakes: 4,
            wall: Duration::from_millis(1500),
            idle: Duration::from_millis(30),
            diagnostics,
            ..WorkerStats::default()
        }
    }

    #[test]
    fn it_shows_how_much_was_work() {
        let own = Diagnostics {
            candidates: 9000,
            contended_locks: 1,
            in_scheduler: Duration::from_millis(70),
            in_tasks: Duration::from_millis(1400),
        };
        let stats = Stats { workers: vec![worker(1204, Some(own)), worker(7, Some(own))] };
        assert_eq!(
            stats.to_string(),
            "\
worker  begun  resumed  stolen  nothing  signals  wakes  candidates  locks  tasks  scheduler  idle     of
     0   1204     3400      12        5        3      4        9000      1  93.3%       4.7%  2.0%  1.50s
     1      7     3400      12        5        3      4        9000      1  93.3%       4.7%  2.0%  1.50s
   all   1211     6800      24       10        6      8       18000      2  93.3%       4.7%  2.0%  3.00s"
        );
    }

    #[test]
    fn without_diagnostics_and_times_it_shows_what_there_is() {
        let stats = Stats { workers: vec![worker(1, None)] };
        let seeded = WorkerStats { wall: Duration::ZERO, idle: Duration::ZERO, ..worker(1, None) };
        assert_eq!(
            stats.to_string().lines().nth(1),
            Some("     0      1     3400      12        5        3      4  98.0%  2.0%  1.50s")
        );
        let text = Stats { workers: vec![seeded] }.to_string();
        assert!(text.lines().nth(1).is_some_and(|line| line.ends_with("4     -     -   -")), "{text}");
    }
}
