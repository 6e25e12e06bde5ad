//! What happened, as a table for a person and as an object for a script.

use std::time::Instant;

use bursar::{Runtime, WorkerStats};
use console::style;
use serde::Serialize;

use super::{
    cancel::Cancelled,
    park::Parked,
    stage::{Show, grouped},
    throughput::{Rate, Throughput},
    tree::Tree,
};
use crate::stop;

/// An act that was not played, or not to its end, is `null`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    version: &'static str,
    interrupted: bool,
    seconds: f64,
    pub(crate) tree: Option<Tree>,
    pub(crate) parked: Option<Parked>,
    pub(crate) cancelled: Option<Cancelled>,
    pub(crate) throughput: Option<Throughput>,
    workers: Vec<Counted>,
    total: Counted,
    #[serde(skip)]
    begun: Instant,
}

/// A worker's counters, by the names the table has.
#[derive(Debug, Default, Serialize)]
struct Counted {
    tasks: u64,
    stolen: u64,
    failed_steals: u64,
    switches: u64,
    parks: u64,
    wakes: u64,
    overflowed: u64,
    restarts: u64,
}

impl From<WorkerStats> for Counted {
    fn from(stats: WorkerStats) -> Self {
        Self {
            tasks: stats.executed,
            stolen: stats.stolen,
            failed_steals: stats.failed_steals,
            switches: stats.switches,
            parks: stats.parks,
            wakes: stats.wakes,
            overflowed: stats.overflows,
            restarts: stats.restarts,
        }
    }
}

/// A line of the table, and how to read it off a worker.
type CountedLine = (&'static str, fn(&Counted) -> u64);

const COUNTED: [CountedLine; 6] = [
    ("tasks begun, futures polled", |worker| worker.tasks),
    ("  of them stolen", |worker| worker.stolen),
    ("  attempts that got nothing", |worker| worker.failed_steals),
    ("stack switches", |worker| worker.switches),
    ("times asleep", |worker| worker.parks),
    ("stacks lost to overflows", |worker| worker.overflowed),
];

/// Columns are for a few workers; more do not fit on a line.
const COLUMNS_MAX: usize = 4;

impl Report {
    pub(crate) fn new(runtime: &Runtime) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            interrupted: false,
            seconds: 0.0,
            tree: None,
            parked: None,
            cancelled: None,
            throughput: None,
            workers: Vec::with_capacity(runtime.workers()),
            total: Counted::default(),
            begun: Instant::now(),
        }
    }

    pub(crate) fn finish(&mut self, runtime: &Runtime) {
        let stats = runtime.stats();
        self.total = stats.total().into();
        self.workers = stats.workers.into_iter().map(Counted::from).collect();
        self.interrupted = stop::is_asked();
        self.seconds = self.begun.elapsed().as_secs_f64();
    }

    pub(crate) fn print(&self, show: &Show) {
        show.say("");
        if self.interrupted {
            show.say(format!("{}", style("Interrupted. So far:").yellow().bold()));
        }
        self.counted().into_iter().for_each(|line| show.say(line));
        show.say("");
        for (name, value, note) in self.measured() {
            show.say(format!("{name:<28} {value:>12} {note}").trim_end());
        }
        show.say(format!("{:<28} {:>12} s in all", "time", format!("{:.1}", self.seconds)));
    }

    fn counted(&self) -> Vec<String> {
        let shown = if self.workers.len() <= COLUMNS_MAX { &self.workers[..] } else { &[] };
        let mut head = format!("{:<28} {:>12}", "", "all workers");
        shown.iter().enumerate().for_each(|(index, _)| head += &format!(" {:>12}", format!("worker {index}")));
        let mut lines = vec![style(head).bold().to_string()];
        for (name, read) in COUNTED {
            let mut line = format!("{name:<28} {:>12}", grouped(read(&self.total)));
            shown.iter().for_each(|worker| line += &format!(" {:>12}", grouped(read(worker))));
            lines.push(line);
        }
        lines
    }

    fn measured(&self) -> Vec<(&'static str, String, &'static str)> {
        let mut lines = Vec::new();
        let ns = |rate: Rate| format!("{:.1}", rate.ns_each);
        if let Some(parked) = &self.parked {
            lines.push(("fibers parked at once", grouped(parked.fibers), ""));
            if let Some(bytes) = parked.bytes_each {
                lines.push(("memory of a parked fiber", format!("{:.1}", bytes as f64 / 1024.0), "KiB"));
            }
        }
        if let Some(cancelled) = &self.cancelled {
            lines.push(("tasks cancelled", grouped(cancelled.cancelled), ""));
            lines.push(("from overflow to tree ended", format!("{:.2}", cancelled.ended_after_ms), "ms"));
        }
        if let Some(throughput) = &self.throughput {
            lines.push(("fork and join", ns(throughput.join), "ns"));
            lines.push(("spawn and end a task", ns(throughput.spawn), "ns"));
            lines.push(("send and receive a message", ns(throughput.message), "ns"));
        }
        lines
    }
}
