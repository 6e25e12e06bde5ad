//! The thread that watches a flow and prints.
//!
//! Room: driver.
//!
//! It reads the clock and the counters; the pure files beside it format what it prints.
//!
//! # Invariant
//! It reads the counters ten times a second, or less often: at most a fifth of the time, however large the flow.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bursar::flow::Handle;

use super::frame::{FrameContext, frame};
use super::lines::{Ended, last_line, plain, plain_error, plain_link};
use super::rates::Rates;
use crate::control::event::{Counts, Event};
use crate::control::{FlowLine, LinkLine, Totals};
use crate::exit::say;
use crate::view::Mode;
use crate::view::paint::{Paint, Screen};
use crate::view::printer::{Printer, Shown};
use crate::view::text::{clean, counted};

/// How often frames are drawn.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// How often lines are written.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// How often errors are checked where nothing is drawn.
const ERROR_INTERVAL: Duration = Duration::from_millis(250);
/// Reasons that are said while a broker is away.
const REASONS_MAX: usize = 8;
/// Lines of a frame.
const LINES_MAX: usize = 100;
/// Lines of the last frame.
const LAST_LINES: usize = 200;
/// Its width, without a terminal.
const LAST_WIDTH: usize = 120;

pub(super) struct Watcher {
    handle: Handle,
    printer: Printer,
    rates: Rates,
    paint: Paint,
    screen: Screen<crate::streams::Blocking<std::io::Stdout>>,
    /// Errors of each node that were reported.
    errors: HashMap<String, u64>,
    /// Why brokers are away, of each node: all that was said since it was there last.
    away: HashMap<String, Vec<String>>,
    reported_at: Instant,
    /// The totals of the last line.
    reported: Option<Totals>,
}

impl Watcher {
    pub(super) fn new(handle: Handle, printer: Printer) -> Watcher {
        Watcher {
            handle,
            printer,
            rates: Rates::default(),
            paint: Paint(console::colors_enabled()),
            screen: Screen::new(crate::streams::stdout()),
            errors: HashMap::new(),
            away: HashMap::new(),
            reported_at: Instant::now(),
            reported: None,
        }
    }

    /// Watches until the display is closed.
    pub(super) fn watch(mut self, ended: &dyn Fn() -> Option<Ended>) {
        let mut pause = Duration::ZERO;
        while !self.printer.wait(pause) {
            self.printer.emit_messages();
            let began = Instant::now();
            let flow = self.look();
            self.rates.take(&flow);
            match self.printer.mode {
                Mode::Live => self.draw(&flow),
                Mode::Plain | Mode::Quiet | Mode::Json => self.report(&flow),
            }
            let usual = if self.printer.mode == Mode::Live { FRAME_INTERVAL } else { ERROR_INTERVAL };
            pause = usual.max(began.elapsed() * 4);
        }
        self.close(ended());
    }

    fn look(&self) -> FlowLine {
        FlowLine::of(self.printer.id(), self.handle.stats())
    }

    /// Reports the start of the flow.
    pub(super) fn open(&self) {
        let (nodes, edges) = (self.handle.nodes().count(), self.handle.edges().count());
        match self.printer.mode {
            Mode::Live => {}
            Mode::Plain | Mode::Quiet => {
                let (id, name) = (self.printer.id(), clean(&self.handle.stats().name));
                say!("flow {id}: {name}, {}, {}", counted(nodes, "node"), counted(edges, "edge"));
            }
            Mode::Json => {
                let (stats, mut event) = (self.handle.stats(), Event::new(Duration::ZERO, "flow_started"));
                (event.name, event.pid) = (Some(stats.name.as_str()), Some(std::process::id()));
                (event.nodes, event.edges) = (Some(nodes), Some(edges));
                self.print(event);
            }
        }
    }

    fn draw(&mut self, flow: &FlowLine) {
        self.printer.draw(&mut self.screen, |shown, width, height| {
            let selected = shown.selected.map(|at| at.min(flow.edges.len().saturating_sub(1)));
            let shown = Shown { selected, ..shown };
            frame(flow, &self.rates, &FrameContext { shown, width, height: height.min(LINES_MAX), paint: self.paint })
        });
    }

    /// A line when a node fails, and one a second if anything moved.
    fn report(&mut self, flow: &FlowLine) {
        for node in flow.nodes.iter().filter(|node| node.errors > 0) {
            let known = self.errors.insert(node.id.clone(), node.errors).unwrap_or(0);
            if known == node.errors {
                continue;
            }
            let error = node.last_error.as_deref().unwrap_or("no reason given");
            if self.printer.mode == Mode::Json {
                let mut event = Event::new(flow.elapsed(), "failed");
                (event.node, event.error, event.errors) =
                    (Some(node.id.as_str()), Some(error.into()), Some(node.errors));
                self.print(event);
            } else {
                say!("{}", plain_error(flow.elapsed(), &node.id, error, node.errors));
            }
        }
        if self.printer.mode != Mode::Json {
            flow.links.iter().for_each(|link| self.report_link(flow.elapsed(), link));
        }
        let totals = flow.totals();
        if self.reported_at.elapsed() < LINE_INTERVAL || self.reported == Some(totals) {
            return;
        }
        (self.reported_at, self.reported) = (Instant::now(), Some(totals));
        if self.printer.mode == Mode::Json {
            self.print(Event { stats: Some(flow), ..Event::new(flow.elapsed(), "stats") });
        } else {
            say!("{}", plain(flow, &self.rates));
        }
    }

    /// A line when the broker of an edge is away, one for each further reason, and one when it is back.
    fn report_link(&mut self, at: Duration, link: &LinkLine) {
        match &link.away {
            Some(why) => {
                let said = self.away.entry(link.node.clone()).or_default();
                if !said.contains(why) && said.len() < REASONS_MAX {
                    said.push(why.clone());
                    say!("{}", plain_link(at, link, Some(why)));
                }
            }
            None if self.away.remove(&link.node).is_some() => say!("{}", plain_link(at, link, None)),
            None => {}
        }
    }

    fn close(&mut self, ended: Option<Ended>) {
        let flow = self.look();
        let rates = Rates::of_all(&flow);
        // The last line of a frame is about the moment; the result replaces it.
        let frame_of = |width: usize, paint: Paint| {
            let context = FrameContext { shown: Shown::default(), width, height: LAST_LINES, paint };
            let mut lines = frame(&flow, &rates, &context);
            lines.pop();
            lines.extend(ended.as_ref().map(|ended| {
                let line = last_line(ended, &flow);
                match ended {
                    Ended::Done | Ended::Stopped(_) => paint.green(&line),
                    Ended::Failed(_) | Ended::Lost(_) | Ended::Late => paint.red(&line),
                    Ended::Interrupted | Ended::Killed => paint.yellow(&line),
                }
            }));
            lines
        };
        match self.printer.mode {
            Mode::Live => self.printer.draw(&mut self.screen, |_, width, _| frame_of(width, self.paint)),
            Mode::Plain | Mode::Quiet => {
                self.report(&flow);
                frame_of(LAST_WIDTH, Paint(false)).iter().for_each(|line| say!("{line}"));
            }
            Mode::Json => {
                self.printer.emit_messages();
                self.report(&flow);
                let mut event = Event::new(flow.elapsed(), "flow_ended");
                event.outcome = ended.as_ref().map(Ended::name);
                if let Some(Ended::Failed(error) | Ended::Lost(error)) = &ended {
                    event.error = Some(error.into());
                }
                (event.counts, event.stats) = (Some(Counts::Messages(flow.totals())), Some(&flow));
                event.ran_ms = Some(flow.elapsed_ms);
                self.print(event);
            }
        }
    }

    fn print(&self, event: Event<'_>) {
        let _ = self.printer.emit(event); // reported at the end
    }
}
