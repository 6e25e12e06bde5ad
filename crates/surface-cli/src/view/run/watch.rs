//! The thread that watches a run and prints.
//!
//! Room: driver.
//!
//! It reads clocks, logs and the scheduler; the pure files beside it format what it prints.
//!
//! # Invariant
//! It sends the scheduler only a few requests a second, however much happens; only the reason of a failure is requested at once.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sched_jobs::{Event as Heard, Events, JobStatus, Jobs, Resource, State, Waits, What};

use super::board::Board;
use super::forecast::Forecast;
use super::frame::{FrameContext, frame};
use super::lines::{job_event, plain};
use super::{Ended, RunInfo};
use crate::control::event::{Counts, Event};
use crate::exit::say;
use crate::view::paint::{Paint, Screen};
use crate::view::printer::Printer;
use crate::view::text::{self, counted, listed, time};
use crate::view::{Mode, log_path, tail};

/// Lines of a frame.
const LINES_MAX: usize = 60;
/// The shortest time between two frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// A job that waits for room longer than this is reported, once for its group.
const WAIT_REPORT_AFTER: Duration = Duration::from_secs(1);
/// Lines of a log that are shown when its job fails.
const LOG_LINES: usize = 10;
/// Failures whose logs are shown; of further ones only the line is printed.
const LOGS_SHOWN: u32 = 20;

/// Jobs that are named when many were cancelled before they started.
const UNSTARTED_NAMED: usize = 3;

/// The thread that watches a run.
pub(super) struct Watcher {
    jobs: Jobs,
    info: RunInfo,
    printer: Printer,
    board: Board,
    forecast: Forecast,
    paint: Paint,
    screen: Screen<crate::streams::Blocking<std::io::Stdout>>,
    changed: bool,
    drawn: Option<Instant>,
    lacks: HashMap<usize, String>,
    lacks_at: Duration,
    waiting_reported: Vec<bool>,
    logs_shown: u32,
    /// Jobs that were cancelled before they started, by the reason, and not yet reported.
    unstarted: Vec<(Duration, String, Vec<usize>)>,
    has_vram: bool,
}

impl Watcher {
    pub(super) fn new(jobs: Jobs, info: RunInfo, printer: Printer) -> Watcher {
        let mut board = Board::new(&info.plan);
        info.ran_before.iter().for_each(|(job, time)| board.ran_before(*job, *time));
        Watcher {
            forecast: Forecast::new(info.plan.clone(), info.expected.clone(), &info.limits),
            waiting_reported: vec![false; board.groups().len()],
            paint: Paint(console::colors_enabled()),
            screen: Screen::new(crate::streams::stdout()),
            changed: true,
            drawn: None,
            lacks: HashMap::new(),
            lacks_at: Duration::ZERO,
            logs_shown: 0,
            unstarted: Vec::new(),
            has_vram: info.plan.jobs.iter().any(|job| job.vram_mb.unwrap_or(0) > 0 || job.gpus.unwrap_or(0) > 0),
            jobs,
            info,
            printer,
            board,
        }
    }

    /// What happened before it began to watch.
    pub(super) fn know(&mut self, status: &JobStatus) {
        self.board.know(status.id.index(), status.state, status.attempts);
    }

    /// Watches until the display is closed.
    pub(super) fn watch(mut self, mut events: Events, ended: &dyn Fn() -> Option<Ended>) {
        self.open();
        loop {
            let closing = self.printer.is_closing();
            let pause = match (closing, self.board.open(), self.info.mode) {
                (true, ..) => Duration::ZERO,
                (_, 0, _) => Duration::from_millis(10), // the end is near
                (_, _, Mode::Live) => FRAME_INTERVAL,
                _ => WAIT_REPORT_AFTER / 2,
            };
            let mut next = events.recv_timeout(pause);
            while let Some(event) = next {
                self.take(&event);
                next = events.try_recv();
            }
            self.report_unstarted();
            self.report_waiting();
            self.printer.emit_messages();
            if closing {
                break;
            }
            if self.info.mode == Mode::Live {
                self.draw(false);
            }
        }
        self.close(ended());
    }

    fn open(&self) {
        let RunInfo { run, plan, .. } = &self.info;
        let jobs = plan.jobs.len();
        match self.info.mode {
            Mode::Json => {
                let mut report = Event::new(self.jobs.now(), "run_started");
                (report.name, report.pid, report.jobs) =
                    (Some(plan.name.as_str()), Some(std::process::id()), Some(jobs));
                self.emit(report);
            }
            Mode::Plain => self.print(&format!("run {run}: {}, {}", text::clean(&plan.name), counted(jobs, "job"))),
            Mode::Live | Mode::Quiet => {}
        }
    }

    fn take(&mut self, event: &Heard) {
        if event.what != What::Cancelled {
            self.report_unstarted();
        }
        let (at, job) = (event.at(), event.job.index());
        let change = self.board.take(at, job, event.what);
        if let Some(change) = change {
            self.forecast.moved(job, change.from, change.to);
        }
        self.changed = true;
        let is_bad = matches!(event.what, What::Failed | What::Retrying { .. });
        let speaks = match self.info.mode {
            Mode::Plain | Mode::Json => true,
            Mode::Live => is_bad,
            Mode::Quiet => event.what == What::Failed,
        };
        if !speaks {
            return;
        }
        // Programs get the name as it is; people get one without control characters.
        let real = self.info.plan.jobs.get(job).map(|job| job.name.as_str()).filter(|_| self.info.mode == Mode::Json);
        let name = real.unwrap_or(self.board.name(job));
        let Some(mut report) = job_event(at, name, event.what, change) else { return };
        if is_bad || event.what == What::Cancelled {
            let cause = self.jobs.status(event.job).ok().and_then(|status| status.cause);
            report.error = cause.map(|cause| cause.to_string().into());
            let log = self.info.logs.as_ref().map(|logs| log_path(logs, job, report.attempt.max(1)));
            report.log = log.filter(|log| log.exists());
        }
        match self.info.mode {
            Mode::Json => self.emit(report),
            Mode::Plain if event.what == What::Cancelled && change.is_some_and(|change| !change.has_run()) => {
                let why = report.error.unwrap_or_default().into_owned();
                match self.unstarted.iter_mut().find(|(_, known, _)| *known == why) {
                    Some((.., jobs)) => jobs.push(job),
                    None => self.unstarted.push((at, why, vec![job])),
                }
            }
            Mode::Plain => {
                if let Some(line) = plain(&report) {
                    self.print(&line);
                }
                if event.what == What::Failed {
                    self.log_lines(&report).iter().for_each(|line| self.print(line));
                }
            }
            Mode::Live | Mode::Quiet => self.report_failure(&report),
        }
    }

    /// One line for all that were cancelled for one reason and had not started.
    fn report_unstarted(&mut self) {
        for (at, why, mut jobs) in std::mem::take(&mut self.unstarted) {
            jobs.sort_unstable(); // as in the file
            let mut report = Event::new(at, State::Cancelled.name());
            let names = listed(&jobs, UNSTARTED_NAMED, |job| self.board.name(*job));
            report.job = Some(match jobs.len() {
                1 => names.into(),
                count => format!("{} that had not started ({names})", counted(count, "job")).into(),
            });
            report.error = Some(why.into());
            plain(&report).iter().for_each(|line| self.print(line));
        }
    }

    /// A failure, above the frame.
    fn report_failure(&mut self, report: &Event<'_>) {
        let (job, error) =
            (report.job.as_deref().unwrap_or_default(), report.error.as_deref().unwrap_or("no reason given"));
        let ran = report.ran_ms.map(|ran| format!(" after {}", time(Duration::from_millis(ran)))).unwrap_or_default();
        let mut lines = vec![match report.after_ms {
            Some(after) => {
                let after = time(Duration::from_millis(after.into()));
                let mark = self.paint.yellow("↻");
                format!("{mark} {job} failed{ran}: {error}; attempt {} in {after}", report.attempt + 1)
            }
            None => format!("{} {job} failed{ran}: {error}", self.paint.red("✗")),
        }];
        if report.after_ms.is_none() {
            lines.extend(self.log_lines(report));
        }
        if self.info.mode == Mode::Quiet {
            lines.iter().for_each(|line| say!("{line}"));
        } else {
            self.printer.show(lines);
        }
    }

    fn log_lines(&mut self, report: &Event<'_>) -> Vec<String> {
        let Some(log) = &report.log else { return Vec::new() };
        self.logs_shown += 1;
        if self.logs_shown > LOGS_SHOWN {
            return Vec::new();
        }
        let tail = tail::tail(log, LOG_LINES);
        let mut lines: Vec<String> = tail.iter().map(|line| self.paint.dim(&format!("  │ {line}"))).collect();
        if self.info.mode != Mode::Plain {
            lines.push(self.paint.dim(&format!("  └ {}", log.display())));
        }
        lines
    }

    /// Reports, once for each group, why a ready job does not start.
    fn report_waiting(&mut self) {
        if !matches!(self.info.mode, Mode::Plain | Mode::Json) {
            return;
        }
        let now = self.jobs.now();
        let groups = self.board.groups().iter().enumerate();
        let open: Vec<(usize, u32)> = groups
            .filter(|(index, group)| !self.waiting_reported[*index] && !group.ready.is_empty())
            .filter_map(|(index, group)| {
                let waiting = group.ready.iter().take(8).find(|job| self.board.since(**job, now) >= WAIT_REPORT_AFTER);
                waiting.map(|job| (index, *job))
            })
            .take(8)
            .collect();
        for (group, job) in open {
            self.waiting_reported[group] = true;
            let Ok(why) = self.jobs.why(self.id(job)) else { continue };
            let mut report = Event::new(now, "waiting");
            let mut text = text::clean(&why.to_string());
            let others = self.board.groups()[group].ready.len().saturating_sub(1);
            if others > 0 {
                let (label, verb) = (&self.board.groups()[group].label, if others == 1 { "waits" } else { "wait" });
                text.push_str(&format!(". {others} more of {label} {verb}, too"));
            }
            let name = self.board.name(job as usize).to_owned();
            // The answer begins with the name, which a plain line has already.
            let rest = text.strip_prefix(&format!("{name} ")).map(str::to_owned).unwrap_or(text);
            (report.job, report.why) = (Some(name.into()), Some(rest));
            match self.info.mode {
                Mode::Json => self.emit(report),
                _ => plain(&report).iter().for_each(|line| self.print(line)),
            }
        }
    }

    fn id(&self, job: u32) -> sched_jobs::Needed {
        self.info.plan.jobs[job as usize].name.as_str().into()
    }

    fn draw(&mut self, last: bool) {
        let due = |age: Duration| self.drawn.is_none_or(|drawn| drawn.elapsed() >= age);
        // Times on the frame move by themselves, but not faster than a person reads.
        let is_due = (self.changed || self.printer.has_lines()) && due(FRAME_INTERVAL) || due(Duration::from_secs(1));
        if !is_due && !last {
            return;
        }
        let now = self.jobs.now();
        self.ask_lacks(now);
        let usage = self.jobs.usage();
        self.printer.draw(&mut self.screen, |_, width, height| {
            let context = FrameContext {
                run: &self.info.run,
                limits: &self.info.limits,
                usage: &usage,
                lacks: &self.lacks,
                has_vram: self.has_vram,
                now,
                width,
                height: height.min(LINES_MAX),
                paint: self.paint,
            };
            frame(&self.board, &mut self.forecast, &context)
        });
        self.changed = false;
        self.drawn = Some(Instant::now());
    }

    /// Asks the scheduler what ready groups lack: once a second and for a few, since the answer looks at every ready job.
    fn ask_lacks(&mut self, now: Duration) {
        if now < self.lacks_at + Duration::from_secs(1) && !self.lacks.is_empty() {
            return;
        }
        self.lacks_at = now;
        self.lacks.clear();
        let groups = self.board.groups().iter().enumerate();
        let ready = groups.filter_map(|(index, group)| group.ready.first().map(|job| (index, *job))).take(6);
        for (group, job) in ready.collect::<Vec<(usize, u32)>>() {
            if let Some(lack) = self.jobs.why(self.id(job)).ok().and_then(|why| lack(&why.waits)) {
                self.lacks.insert(group, text::clean(&lack));
            }
        }
    }

    fn close(&mut self, ended: Option<Ended>) {
        if self.info.mode == Mode::Live {
            self.draw(true);
        }
        let Some(ended) = ended else { return };
        let ran = self.jobs.now();
        let [succeeded, failed, cancelled] =
            [State::Succeeded, State::Failed, State::Cancelled].map(|state| self.board.count(state));
        if self.info.mode == Mode::Json {
            let mut report = Event::new(ran, "run_ended");
            report.outcome = Some(match ended {
                Ended::Succeeded => "succeeded",
                Ended::Failed => "failed",
                Ended::Interrupted { .. } => "interrupted",
            });
            let late = if let Ended::Interrupted { late } = ended { late } else { 0 };
            let (succeeded, cancelled) = (succeeded + late, cancelled.saturating_sub(late));
            report.counts = Some(Counts::Jobs { succeeded, failed, cancelled });
            report.ran_ms = Some(ran.as_millis() as u64);
            self.emit(report);
        } else if self.info.mode != Mode::Quiet {
            let line = last_line(
                ended,
                &self.info.run,
                self.info.keeps,
                self.board.total(),
                [succeeded, failed, cancelled],
                ran,
            );
            let line = match ended {
                Ended::Succeeded => self.paint.green(&line),
                Ended::Failed => self.paint.red(&line),
                Ended::Interrupted { .. } => self.paint.yellow(&line),
            };
            self.print(&line);
        }
    }

    /// What cannot be written is reported at the end; the run continues.
    fn print(&self, line: &str) {
        let _ = self.printer.line(line);
    }

    fn emit(&self, event: Event<'_>) {
        let _ = self.printer.emit(event);
    }
}

/// The resource that a ready job lacks.
fn lack(waits: &Waits) -> Option<String> {
    let Waits::Room { short, reserved_for, .. } = waits else { return None };
    let first = short.first()?;
    let word = match &first.resource {
        Resource::Cpu => "cpu".to_owned(),
        Resource::Ram => "ram".to_owned(),
        Resource::Vram => "vram".to_owned(),
        Resource::Gpu => "gpus".to_owned(),
        Resource::Worker => "a worker".to_owned(),
        Resource::Named(name) => name.to_string(),
    };
    Some(match reserved_for {
        _ if first.machine => format!("{word} of the machine"),
        Some(other) if first.kept > 0 => format!("{word}, kept for {other}"),
        _ => word,
    })
}

/// The last line of a run, which says what to do next.
pub(super) fn last_line(ended: Ended, run: &str, keeps: bool, total: usize, counts: [u32; 3], ran: Duration) -> String {
    let [succeeded, failed, cancelled] = counts;
    let ran = time(ran);
    match ended {
        // A successful run without a journal leaves nothing to show.
        Ended::Succeeded if !keeps => format!("{} done in {ran}", counted(total, "job")),
        Ended::Succeeded => {
            format!("{} done in {ran} · run {run} · details: bursar report {run}", counted(total, "job"))
        }
        Ended::Failed => {
            let cancelled = if cancelled > 0 { format!(", {cancelled} cancelled") } else { String::new() };
            format!(
                "{failed} failed{cancelled}, {succeeded} done in {ran} · run {run} · retry: bursar run --resume {run} --retry-failed"
            )
        }
        Ended::Interrupted { late } => {
            let after = if late > 0 { format!(", {late} after being asked to end") } else { String::new() };
            format!(
                "interrupted after {ran}: {} of {} done{after} · run {run} · resume: bursar run --resume {run}",
                succeeded + late,
                counted(total, "job")
            )
        }
    }
}
