//! Where acts are played: work on the runtime's workers, words and bars on this thread.
//!
//! # Invariant
//! Only the thread that called [`Stage::play`] draws, and it draws no longer than the work lasts.

use std::{
    io::IsTerminal,
    thread,
    time::{Duration, Instant},
};

use bursar::{Nursery, Runtime, TaskError, WorkerStats};
use console::{Term, style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::stop;

/// How often the picture changes.
const FRAME: Duration = Duration::from_millis(50);

/// Who watches: a person at a terminal, a log file, or a script that wants JSON only.
pub(crate) struct Show {
    live: Option<MultiProgress>,
    silent: bool,
}

impl Show {
    pub(crate) fn new(json: bool) -> Self {
        let live = !json && std::io::stdout().is_terminal();
        let bars = || MultiProgress::with_draw_target(ProgressDrawTarget::stdout_with_hz(20));
        Self { live: live.then(bars), silent: json }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Columns and lines that a picture may take.
    pub(crate) fn size(&self) -> (usize, usize) {
        let (lines, columns) = Term::stdout().size();
        (columns.into(), lines.into())
    }

    pub(crate) fn has_colours(&self) -> bool {
        self.is_live() && console::colors_enabled()
    }

    /// A line that stays.
    pub(crate) fn say(&self, line: impl AsRef<str>) {
        match &self.live {
            _ if self.silent => {}
            // A terminal that is gone is no reason to stop.
            Some(bars) => bars.println(line.as_ref()).unwrap_or(()),
            None => println!("{}", line.as_ref()),
        }
    }

    /// A line at the bottom that changes, until it is dropped.
    pub(crate) fn bar(&self, template: &str, length: u64) -> Bar {
        let bar = self.live.as_ref().map(|bars| {
            let style = ProgressStyle::with_template(template).expect("our templates are well formed");
            let style = style.progress_chars("█▉▊▋▌▍▎▏ ").tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ");
            bars.add(ProgressBar::new(length).with_style(style))
        });
        Bar(bar)
    }
}

/// A line that changes; none where nobody watches.
pub(crate) struct Bar(Option<ProgressBar>);

impl Bar {
    pub(crate) fn set(&self, position: u64, message: impl FnOnce() -> String) {
        if let Some(bar) = &self.0 {
            bar.set_position(position);
            bar.set_message(message());
            bar.tick();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

pub(crate) struct Stage<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) show: &'a Show,
    /// How long the whole performance should take.
    pub(crate) length: Duration,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(runtime: &'a Runtime, show: &'a Show, length: Duration) -> Self {
        Self { runtime, show, length }
    }

    /// Announces an act. False if Ctrl-C came before it.
    pub(crate) fn announce(&self, number: u32, title: &str, about: &str) -> bool {
        if stop::is_asked() {
            return false;
        }
        self.show.say("");
        self.show.say(format!("{} {}", style(format!("{number}/4")).cyan().bold(), style(title).bold()));
        self.show.say(format!("    {}", style(about).dim()));
        true
    }

    /// What came of it.
    pub(crate) fn conclude(&self, line: impl AsRef<str>) {
        self.show.say(format!("    {} {}", style("→").green().bold(), line.as_ref()));
    }

    /// Runs `work` as a task, in a nursery that Ctrl-C cancels, and calls `draw` every now and then until it has ended.
    pub(crate) fn play<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, TaskError> + Send,
        mut draw: impl FnMut(),
    ) -> Result<T, TaskError> {
        let outcome = thread::scope(|threads| {
            let act = threads.spawn(|| {
                self.runtime.nursery(|n: &Nursery<'_, '_>| {
                    stop::watch(n.canceller());
                    n.try_spawn(work).join()
                })
            });
            while !act.is_finished() {
                draw();
                let next_frame = Instant::now() + FRAME;
                while !act.is_finished() && Instant::now() < next_frame {
                    thread::sleep(Duration::from_millis(2));
                }
            }
            act.join()
        });
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// An act that Ctrl-C cut short has no result, and that is no failure.
    pub(crate) fn unless_stopped<T>(&self, outcome: Result<T, TaskError>) -> Result<Option<T>, TaskError> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if stop::is_asked() && error.is_cancelled() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A bar for every worker, as long as its share of the work since the last look.
pub(crate) struct WorkerBars<'a> {
    runtime: &'a Runtime,
    bars: Vec<Bar>,
    start: Vec<WorkerStats>,
    last: Vec<WorkerStats>,
}

/// Bars are for a few workers; more do not fit on a screen.
const BARS_MAX: usize = 8;

impl<'a> WorkerBars<'a> {
    pub(crate) fn new(stage: &Stage<'a>) -> Self {
        let stats = stage.runtime.stats().workers;
        let bar = |index: usize| {
            let template = format!(
                "    worker {index:<3} {{bar:24.{}}} {{msg}}",
                ["cyan", "yellow", "green", "magenta"][index % 4]
            );
            stage.show.bar(&template, 1000)
        };
        let bars = (0..stats.len().min(BARS_MAX)).map(bar).collect();
        Self { runtime: stage.runtime, bars, start: stats.clone(), last: stats }
    }

    pub(crate) fn lines(workers: usize) -> usize {
        workers.min(BARS_MAX)
    }

    pub(crate) fn draw(&mut self) {
        let now = self.runtime.stats().workers;
        let done = |index: usize| now[index].executed - self.last[index].executed;
        let most = (0..now.len()).map(done).max().unwrap_or(0).max(1);
        for (index, bar) in self.bars.iter().enumerate() {
            let (start, now) = (&self.start[index], &now[index]);
            bar.set(done(index) * 1000 / most, || {
                format!(
                    "{:>11} tasks, {:>8} of them stolen",
                    grouped(now.executed - start.executed),
                    grouped(now.stolen - start.stolen)
                )
            });
        }
        self.last = now;
    }
}

/// 1234567 as 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// A time with three digits and a unit that fits it.
pub(crate) fn short(time: Duration) -> String {
    let nanos = time.as_nanos() as f64;
    let (value, unit) = match nanos {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "µs"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_three_digits_and_a_unit() {
        let shown = [7, 1_234, 56_700_000, 1_500_000_000].map(|nanos| short(Duration::from_nanos(nanos)));
        assert_eq!(shown, ["7.00 ns", "1.23 µs", "56.7 ms", "1.50 s"]);
    }
}
