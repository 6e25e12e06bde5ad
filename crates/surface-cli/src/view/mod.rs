//! What a person, a file or a program sees of a run while it goes on.
//!
//! Room: surface. Listens and prints; nothing here changes the run, and a terminal that hangs or goes away does not hold it up.
//!
//! ```text
//! let live = view::start(&jobs, Scene { plan, run, limits, expected, logs, mode });   // before the jobs are submitted
//! live.voice().say("one line, above what is drawn");
//! live.finish(Ended::Well);                                                             // after `jobs.wait()`
//! ```
//!
//! # Invariant
//! Everything that happened before `finish` is shown when `finish` returns.
//!
//! # Why it holds
//! The scheduler publishes an event before `wait` can see its effect. The thread reads `closing` first and empties its queue after, so what
//! was published before `closing` was set is read in that round at the latest.
//!
//! [`board`] is the state, [`forecast`] the ETA, [`frame`] the live area, [`tell`] the lines for everything else: all pure, all fed by this file.

mod board;
mod forecast;
mod frame;
pub(crate) mod paint;
pub(crate) mod tail;
mod tell;
#[cfg(test)]
mod tests;
pub(crate) mod text;

use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sched_jobs::{Event, Events, Jobs, Limits, Resource, State, Waits, What};
use surface_jobfile::Plan;

use self::board::Board;
use self::forecast::Forecast;
use self::frame::{Around, frame};
use self::paint::{Paint, Screen};
use self::tell::Told;
use self::text::{jobs as count_jobs, time};

/// Frames are drawn at most so often.
const FRAME: Duration = Duration::from_millis(100);
/// A job that waits for room longer than this is told of, once for its group.
const PATIENCE: Duration = Duration::from_secs(1);
/// Lines of a log that are shown when its job fails.
const LOG_LINES: usize = 10;
/// Failures whose logs are shown at once; of further ones only the line. Who lets a thousand jobs fail has seen enough.
const LOGS_SHOWN: u32 = 20;

/// How a run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A terminal, drawn again and again.
    Live,
    /// A line for each event that matters.
    Plain,
    /// An object for each event; see [`tell`].
    Json,
    /// Failures only.
    Quiet,
}

impl Mode {
    /// What `--json` and `--quiet` ask for, else what suits where the output goes.
    pub(crate) fn choose(json: bool, quiet: bool) -> Mode {
        let can_draw = std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        match (json, quiet) {
            (true, _) => Mode::Json,
            (_, true) => Mode::Quiet,
            _ if can_draw => Mode::Live,
            _ => Mode::Plain,
        }
    }
}

/// What is to be shown.
pub(crate) struct Scene {
    /// The jobs, in the order they are submitted in.
    pub(crate) plan: Arc<Plan>,
    /// The name of the run.
    pub(crate) run: String,
    /// What jobs may use together.
    pub(crate) limits: Limits,
    /// How long each job probably takes, as far as earlier runs tell; may be shorter than the plan.
    pub(crate) expected: Vec<Option<Duration>>,
    /// The folder of the logs; see [`log_path`].
    pub(crate) logs: Option<PathBuf>,
    /// How.
    pub(crate) mode: Mode,
}

/// How the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Every job succeeded.
    Well,
    /// Some did not.
    Badly,
    /// Somebody wanted it to end.
    Interrupted,
}

/// Where the output of an attempt goes: `logs/<job>.<attempt>.log`.
pub(crate) fn log_path(logs: &Path, job: usize, attempt: u32) -> PathBuf {
    logs.join(format!("{job}.{attempt}.log"))
}

/// A display that is on.
#[must_use = "a display that is dropped goes off"]
pub(crate) struct Live {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    mode: Mode,
}

#[derive(Default)]
struct Shared {
    closing: AtomicBool,
    ended: Mutex<Option<Ended>>,
    said: Mutex<Vec<String>>,
}

/// Begins to show a run. Call it before the jobs are submitted, or what happened until now is known but not told.
pub(crate) fn start(jobs: &Jobs, scene: Scene) -> Live {
    let events = jobs.events();
    let mode = scene.mode;
    let shared = Arc::<Shared>::default();
    let mut watcher = Watcher::new(jobs.clone(), scene, shared.clone());
    for status in jobs.statuses() {
        watcher.board.know(status.id.index(), status.state, status.attempts);
    }
    let thread = std::thread::Builder::new().name("view".into()).spawn(move || watcher.watch(events)).ok();
    Live { shared, thread, mode }
}

/// A way to say something to whoever watches, from any thread.
#[derive(Clone)]
pub(crate) struct Voice {
    shared: Arc<Shared>,
    mode: Mode,
}

impl Voice {
    /// Says one line: above what is drawn, or on stderr if nothing is.
    pub(crate) fn say(&self, line: &str) {
        match self.mode {
            Mode::Live if !self.shared.closing.load(SeqCst) => {
                self.shared.said.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
            }
            _ => {
                let _ = writeln!(std::io::stderr(), "bursar: {line}"); // nobody may be there to read it
            }
        }
    }
}

impl Live {
    /// For others who have something to say.
    pub(crate) fn voice(&self) -> Voice {
        Voice { shared: self.shared.clone(), mode: self.mode }
    }

    /// Shows the end, and returns when everything has been shown.
    pub(crate) fn finish(self, ended: Ended) {
        *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.closing.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic has been printed
        }
    }
}

struct Watcher {
    jobs: Jobs,
    scene: Scene,
    shared: Arc<Shared>,
    board: Board,
    forecast: Forecast,
    paint: Paint,
    screen: Screen<std::io::Stdout>,
    /// Lines that are to be printed above the frame.
    above: Vec<String>,
    changed: bool,
    drawn: Option<Instant>,
    lacks: HashMap<usize, String>,
    lacks_at: Duration,
    told_waiting: Vec<bool>,
    logs_shown: u32,
    has_vram: bool,
    is_gone: bool,
}

impl Watcher {
    fn new(jobs: Jobs, scene: Scene, shared: Arc<Shared>) -> Watcher {
        let board = Board::new(&scene.plan);
        Watcher {
            forecast: Forecast::new(scene.plan.clone(), scene.expected.clone(), &scene.limits),
            told_waiting: vec![false; board.groups().len()],
            paint: Paint(console::colors_enabled()),
            screen: Screen::new(std::io::stdout()),
            above: Vec::new(),
            changed: true,
            drawn: None,
            lacks: HashMap::new(),
            lacks_at: Duration::ZERO,
            logs_shown: 0,
            has_vram: scene.plan.jobs.iter().any(|job| job.vram_mb.unwrap_or(0) > 0),
            is_gone: false,
            jobs,
            scene,
            shared,
            board,
        }
    }

    fn watch(mut self, mut events: Events) {
        self.open();
        loop {
            let closing = self.shared.closing.load(SeqCst);
            let pause = match (closing, self.board.open(), self.scene.mode) {
                (true, ..) => Duration::ZERO,
                (_, 0, _) => Duration::from_millis(10), // the end is near
                (_, _, Mode::Live) => FRAME,
                _ => PATIENCE / 2,
            };
            let mut next = events.recv_timeout(pause);
            while let Some(event) = next {
                self.take(&event);
                next = events.try_recv();
            }
            self.tell_waiting();
            if closing {
                break;
            }
            if self.scene.mode == Mode::Live {
                self.draw(false);
            }
        }
        self.close();
    }

    fn open(&mut self) {
        let Scene { run, plan, .. } = &self.scene;
        let jobs = plan.jobs.len();
        match self.scene.mode {
            Mode::Json => {
                let mut told = Told::new(self.jobs.now(), "run_started");
                (told.run, told.name, told.jobs) = (Some(run.clone()), Some(plan.name.clone()), Some(jobs));
                self.print(&told.json());
            }
            Mode::Plain => self.print(&format!("run {run}: {}, {}", text::clean(&plan.name), count_jobs(jobs))),
            Mode::Live | Mode::Quiet => {}
        }
    }

    fn take(&mut self, event: &Event) {
        let (at, job) = (event.at(), event.job.index());
        let change = self.board.take(at, job, event.what);
        if let Some(change) = change {
            self.forecast.moved(job, change.from, change.to);
        }
        self.changed = true;
        let is_bad = matches!(event.what, What::Failed | What::Retrying { .. });
        let speaks = match self.scene.mode {
            Mode::Plain | Mode::Json => true,
            Mode::Live => is_bad,
            Mode::Quiet => event.what == What::Failed,
        };
        if !speaks {
            return;
        }
        // Programs get the name as it is; people get one that cannot command their terminal.
        let real = self.scene.plan.jobs.get(job).map(|job| job.name.as_str()).filter(|_| self.scene.mode == Mode::Json);
        let name = real.unwrap_or(self.board.name(job)).to_owned();
        let Some(mut told) = Told::of(at, &name, event.what, change) else { return };
        if is_bad || event.what == What::Canceled {
            let cause = self.jobs.status(event.job).ok().and_then(|status| status.cause);
            told.error = cause.map(|cause| cause.to_string());
            let log = self.scene.logs.as_ref().map(|logs| log_path(logs, job, told.attempt.max(1)));
            told.log = log.filter(|log| log.exists());
        }
        match self.scene.mode {
            Mode::Json => self.print(&told.json()),
            Mode::Plain => {
                if let Some(line) = told.plain() {
                    self.print(&line);
                }
                if event.what == What::Failed {
                    self.log_lines(&told).iter().for_each(|line| self.print(line));
                }
            }
            Mode::Live | Mode::Quiet => self.tell_failure(&told),
        }
    }

    /// A failure, above the frame.
    fn tell_failure(&mut self, told: &Told) {
        let (job, error) =
            (told.job.as_deref().unwrap_or_default(), told.error.as_deref().unwrap_or("no reason given"));
        let ran = told.ran_ms.map(|ran| format!(" after {}", time(Duration::from_millis(ran)))).unwrap_or_default();
        let mut lines = vec![match told.after_ms {
            Some(after) => {
                let after = time(Duration::from_millis(after.into()));
                let mark = self.paint.yellow("↻");
                format!("{mark} {job} failed{ran}: {error}; attempt {} in {after}", told.attempt + 1)
            }
            None => format!("{} {job} failed{ran}: {error}", self.paint.red("✗")),
        }];
        if told.after_ms.is_none() {
            lines.extend(self.log_lines(told));
        }
        if self.scene.mode == Mode::Quiet {
            lines.iter().for_each(|line| {
                let _ = writeln!(std::io::stderr(), "{line}"); // nobody may be there to read it
            });
        } else {
            self.above.extend(lines);
        }
    }

    fn log_lines(&mut self, told: &Told) -> Vec<String> {
        let Some(log) = &told.log else { return Vec::new() };
        self.logs_shown += 1;
        if self.logs_shown > LOGS_SHOWN {
            return Vec::new();
        }
        let tail = tail::tail(log, LOG_LINES);
        let mut lines: Vec<String> = tail.iter().map(|line| self.paint.dim(&format!("  │ {line}"))).collect();
        if self.scene.mode != Mode::Plain {
            lines.push(self.paint.dim(&format!("  └ {}", log.display())));
        }
        lines
    }

    /// Tells, once for each group, why a job that could run does not.
    fn tell_waiting(&mut self) {
        if !matches!(self.scene.mode, Mode::Plain | Mode::Json) {
            return;
        }
        let now = self.jobs.now();
        let groups = self.board.groups().iter().enumerate();
        let open: Vec<(usize, u32)> = groups
            .filter(|(index, group)| !self.told_waiting[*index] && !group.ready.is_empty())
            .filter_map(|(index, group)| {
                let patient = group.ready.iter().take(8).find(|job| self.board.since(**job, now) >= PATIENCE);
                patient.map(|job| (index, *job))
            })
            .take(8)
            .collect();
        for (group, job) in open {
            self.told_waiting[group] = true;
            let Ok(why) = self.jobs.why(self.id(job)) else { continue };
            let mut told = Told::new(now, "waiting");
            let mut text = text::clean(&why.to_string());
            let others = self.board.groups()[group].ready.len().saturating_sub(1);
            if others > 0 {
                let (label, verb) = (&self.board.groups()[group].label, if others == 1 { "waits" } else { "wait" });
                text.push_str(&format!(". {others} more of {label} {verb}, too"));
            }
            let name = self.board.name(job as usize).to_owned();
            // The answer begins with the name, which a plain line has already.
            let rest = text.strip_prefix(&format!("{name} ")).map(str::to_owned).unwrap_or(text);
            (told.job, told.why) = (Some(name), Some(rest));
            match self.scene.mode {
                Mode::Json => self.print(&told.json()),
                _ => told.plain().iter().for_each(|line| self.print(line)),
            }
        }
    }

    fn id(&self, job: u32) -> sched_jobs::Needed {
        self.scene.plan.jobs[job as usize].name.as_str().into()
    }

    fn draw(&mut self, last: bool) {
        let said = std::mem::take(&mut *self.shared.said.lock().unwrap_or_else(PoisonError::into_inner));
        self.above.extend(said);
        let due = |age: Duration| self.drawn.is_none_or(|drawn| drawn.elapsed() >= age);
        // Times on the frame move by themselves, but not faster than a person reads.
        let is_due = (self.changed || !self.above.is_empty()) && due(FRAME) || due(Duration::from_secs(1));
        if !is_due && !last {
            return;
        }
        let now = self.jobs.now();
        self.ask_lacks(now);
        let (height, width) = console::Term::stdout().size();
        let around = Around {
            run: &self.scene.run,
            limits: &self.scene.limits,
            usage: &self.jobs.usage(),
            lacks: &self.lacks,
            has_vram: self.has_vram,
            now,
            width: usize::from(width).saturating_sub(1).max(20),
            height: usize::from(height).saturating_sub(1).clamp(2, 60),
            paint: self.paint,
        };
        let lines = frame(&self.board, &mut self.forecast, &around);
        self.screen.draw(&self.above, lines, usize::from(width));
        self.above.clear();
        self.changed = false;
        self.drawn = Some(Instant::now());
    }

    /// Asks the scheduler what ready groups lack: once a second and of a few, since the answer looks at every ready job.
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

    fn close(&mut self) {
        let ended = *self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if self.scene.mode == Mode::Live {
            self.draw(true);
        }
        let Some(ended) = ended else { return };
        let ran = self.jobs.now();
        let [succeeded, failed, canceled] =
            [State::Succeeded, State::Failed, State::Canceled].map(|state| self.board.count(state));
        if self.scene.mode == Mode::Json {
            let mut told = Told::new(ran, "run_ended");
            told.run = Some(self.scene.run.clone());
            told.outcome = Some(match ended {
                Ended::Well => "succeeded",
                Ended::Badly => "failed",
                Ended::Interrupted => "interrupted",
            });
            (told.succeeded, told.failed, told.canceled) = (Some(succeeded), Some(failed), Some(canceled));
            told.ran_ms = Some(ran.as_millis() as u64);
            self.print(&told.json());
        } else if self.scene.mode != Mode::Quiet {
            let line = last_line(ended, &self.scene.run, self.board.total(), [succeeded, failed, canceled], ran);
            let line = match ended {
                Ended::Well => self.paint.green(&line),
                Ended::Badly => self.paint.red(&line),
                Ended::Interrupted => self.paint.yellow(&line),
            };
            self.print(&line);
        }
    }

    fn print(&mut self, line: &str) {
        if self.is_gone {
            return;
        }
        // Whoever read it may have had enough; the run goes on.
        self.is_gone = writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush()).is_err();
    }
}

/// What a ready job lacks, in a word.
fn lack(waits: &Waits) -> Option<String> {
    let Waits::Room { short, reserved_for, .. } = waits else { return None };
    let first = short.first()?;
    let word = match &first.resource {
        Resource::Cpu => "cpu".to_owned(),
        Resource::Ram => "ram".to_owned(),
        Resource::Vram => "vram".to_owned(),
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
fn last_line(ended: Ended, run: &str, total: usize, counts: [u32; 3], ran: Duration) -> String {
    let [succeeded, failed, canceled] = counts;
    let ran = time(ran);
    match ended {
        Ended::Well => format!("{} done in {ran} · run {run} · details: bursar report {run}", count_jobs(total)),
        Ended::Badly => {
            let canceled = if canceled > 0 { format!(", {canceled} canceled") } else { String::new() };
            format!(
                "{failed} failed{canceled}, {succeeded} done in {ran} · run {run} · try again: bursar run --resume {run} --retry-failed"
            )
        }
        Ended::Interrupted => format!(
            "interrupted after {ran}: {succeeded} of {} done · run {run} · go on: bursar run --resume {run}",
            count_jobs(total)
        ),
    }
}
