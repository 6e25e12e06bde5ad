//! The thread that looks at a flow and prints.
//!
//! Room: surface. Reads the clock and the counts; what it prints is made by the pure files beside it.
//!
//! # Invariant
//! It looks ten times a second, or less often: at most a fifth of the time, however large the flow.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bursar::flow::Handle;

use super::frame::{Around, frame};
use super::rates::Rates;
use super::tell::{Ended, Flow, Told, last_line, plain, plain_error};
use super::words::counted;
use super::{Mode, Voice};
use crate::flow::wire::FlowLine;
use crate::view::paint::{Paint, Screen};

/// Frames are drawn so often.
const FRAME: Duration = Duration::from_millis(100);
/// Lines are written so often.
const LINE: Duration = Duration::from_secs(1);
/// Errors are looked for so often where nothing is drawn.
const GLANCE: Duration = Duration::from_millis(250);
/// Lines of the last frame.
const LAST_LINES: usize = 200;

pub(super) struct Watcher {
    id: String,
    handle: Handle,
    voice: Voice,
    ended: Arc<Mutex<Option<Ended>>>,
    rates: Rates,
    paint: Paint,
    screen: Screen<std::io::Stdout>,
    /// Errors of each node that were told of.
    errors: HashMap<String, u64>,
    told_at: Instant,
    /// What was delivered and lost when that was last told.
    told: Option<crate::flow::wire::Totals>,
}

/// When the thread is gone, also by a panic, nobody waits for it.
struct Gone(Voice);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.change(|desktop| desktop.is_gone = true);
    }
}

impl Watcher {
    pub(super) fn new(id: String, handle: Handle, voice: Voice, ended: Arc<Mutex<Option<Ended>>>) -> Watcher {
        Watcher {
            id,
            handle,
            voice,
            ended,
            rates: Rates::default(),
            paint: Paint(console::colors_enabled()),
            screen: Screen::new(std::io::stdout()),
            errors: HashMap::new(),
            told_at: Instant::now(),
            told: None,
        }
    }

    /// Watches until the display is closed.
    pub(super) fn watch(mut self) {
        let _gone = Gone(self.voice.clone());
        let mut pause = Duration::ZERO;
        while !self.rest(pause) {
            let began = Instant::now();
            let flow = self.look();
            self.rates.take(&flow);
            match self.voice.mode {
                Mode::Live => self.draw(&flow),
                Mode::Plain | Mode::Json => self.tell(&flow),
            }
            let usual = if self.voice.mode == Mode::Live { FRAME } else { GLANCE };
            pause = usual.max(began.elapsed() * 4);
        }
        self.close();
    }

    /// Waits until something is to be done. True: the end.
    fn rest(&self, pause: Duration) -> bool {
        let shared = &self.voice.shared;
        let is_calm = |desktop: &mut super::Desktop| !desktop.is_closing && !desktop.is_urgent;
        let rested = shared.rings.wait_timeout_while(shared.lock(), pause, is_calm);
        let mut desktop = rested.unwrap_or_else(PoisonError::into_inner).0;
        desktop.is_urgent = false;
        desktop.is_closing
    }

    fn look(&self) -> FlowLine {
        FlowLine::of(&self.id, self.handle.stats())
    }

    /// Tells that there is a flow.
    pub(super) fn open(&self) {
        match self.voice.mode {
            Mode::Live => {}
            Mode::Plain => {
                let (nodes, edges) = (self.handle.nodes().count(), self.handle.edges().count());
                let name = crate::view::text::clean(&self.handle.stats().name);
                let (nodes, edges) = (counted(nodes, "node"), counted(edges, "edge"));
                self.complain(&format!("flow {}: {name}, {nodes}, {edges}", self.id));
            }
            Mode::Json => {
                let mut told = Told::new(Duration::ZERO, "flow_started");
                let stats = self.handle.stats();
                (told.flow, told.name) = (Some(Flow::Name(&self.id)), Some(stats.name.as_str()));
                (told.nodes, told.edges) = (Some(stats.nodes.len()), Some(stats.edges.len()));
                told.pid = Some(std::process::id());
                self.print(&told);
            }
        }
    }

    fn draw(&mut self, flow: &FlowLine) {
        let (height, width) = console::Term::stdout().size();
        let (above, mut around) = {
            let mut desktop = self.voice.shared.lock();
            let around = Around {
                selected: desktop.selected,
                shows_keys: desktop.shows_keys,
                note: desktop.note.clone(),
                width: usize::from(width).saturating_sub(1).max(20),
                height: usize::from(height).saturating_sub(1).clamp(2, 100),
                paint: self.paint,
            };
            if std::mem::take(&mut desktop.is_moved) {
                self.screen = Screen::new(std::io::stdout());
            }
            (std::mem::take(&mut desktop.above), around)
        };
        self.voice.shared.rings.notify_all(); // somebody may wait for room
        around.selected = around.selected.map(|at| at.min(flow.edges.len().saturating_sub(1)));
        self.screen.draw(&above, frame(flow, &self.rates, &around), usize::from(width));
    }

    /// A line when a node fails, and one a second if anything moved.
    fn tell(&mut self, flow: &FlowLine) {
        for node in flow.nodes.iter().filter(|node| node.errors > 0) {
            let known = self.errors.insert(node.id.clone(), node.errors).unwrap_or(0);
            if known == node.errors {
                continue;
            }
            let error = node.last_error.as_deref().unwrap_or("no reason given");
            if self.voice.mode == Mode::Json {
                let mut told = Told::new(flow.elapsed(), "failed");
                (told.node, told.error, told.errors) = (Some(node.id.as_str()), Some(error), Some(node.errors));
                self.print(&told);
            } else {
                self.complain(&plain_error(flow.elapsed(), &node.id, error, node.errors));
            }
        }
        let totals = flow.totals();
        if self.told_at.elapsed() < LINE || self.told == Some(totals) {
            return;
        }
        (self.told_at, self.told) = (Instant::now(), Some(totals));
        if self.voice.mode == Mode::Json {
            let mut told = Told::new(flow.elapsed(), "stats");
            told.flow = Some(Flow::Whole(flow));
            self.print(&told);
        } else {
            self.complain(&plain(flow, &self.rates));
        }
    }

    fn close(&mut self) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        let flow = self.look();
        let rates = Rates::of_all(&flow);
        let line = ended.as_ref().map(|ended| {
            let line = last_line(ended, &flow);
            match ended {
                Ended::Done | Ended::Stopped(_) => self.paint.green(&line),
                Ended::Failed(_) | Ended::Lost(_) | Ended::Late => self.paint.red(&line),
                Ended::Interrupted | Ended::Killed => self.paint.yellow(&line),
            }
        });
        let paint = self.paint;
        let around = |width: u16| Around {
            selected: None,
            shows_keys: false,
            note: None,
            width: usize::from(width).saturating_sub(1).max(20),
            height: LAST_LINES,
            paint,
        };
        match self.voice.mode {
            Mode::Live => {
                let (_, width) = console::Term::stdout().size();
                let above = std::mem::take(&mut self.voice.shared.lock().above);
                let mut lines = frame(&flow, &rates, &around(width));
                lines.pop(); // the last line says it all
                lines.extend(line);
                self.screen.draw(&above, lines, usize::from(width));
            }
            Mode::Plain => {
                self.tell(&flow);
                let mut lines = frame(&flow, &rates, &Around { paint: Paint(false), ..around(121) });
                lines.pop();
                lines.extend(ended.as_ref().map(|ended| last_line(ended, &flow)));
                lines.iter().for_each(|line| self.complain(line));
            }
            Mode::Json => {
                self.tell(&flow);
                let mut told = Told::new(flow.elapsed(), "flow_ended");
                told.outcome = ended.as_ref().map(Ended::name);
                told.error = match &ended {
                    Some(Ended::Failed(error) | Ended::Lost(error)) => Some(error),
                    _ => None,
                };
                (told.totals, told.flow) = (Some(flow.totals()), Some(Flow::Whole(&flow)));
                self.print(&told);
            }
        }
    }

    fn print(&self, told: &Told<'_>) {
        let _ = self.voice.write(told); // told at the end
    }

    fn complain(&self, line: &str) {
        let _ = writeln!(std::io::stderr(), "{line}");
    }
}
