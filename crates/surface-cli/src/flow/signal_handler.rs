//! Signals, keys and the time limit of a flow.
//!
//! Room: driver.
//!
//! # Invariant
//! The first signal drains, the second stops at once, and so does `k` at any time.
//!
//! # Why it holds
//! Signals and keys become notices, which one thread handles in their order; stopping a flow at once does not wait for anything.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bursar::flow::{Band, Handle, NodeState};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};

use super::keys::{Key, Raw};
use super::stop_state::StopState;
use crate::view::printer::Printer;
use crate::view::text::time;

/// A notice for the handler.
#[derive(Debug)]
pub(crate) enum Notice {
    Signal(i32),
    Key(Key),
    /// The flow is over.
    Over,
}

/// Handles signals and keys of a flow.
pub(crate) struct SignalHandler {
    pub(crate) handle: Handle,
    pub(crate) stop_state: Arc<StopState>,
    pub(crate) printer: Printer,
    /// Nodes that no edge feeds.
    pub(crate) sources: Vec<String>,
    /// How long a drain may take.
    pub(crate) drain: Duration,
    /// When the flow is to end.
    pub(crate) until: Option<Instant>,
    pub(crate) raw: Option<Weak<Raw>>,
    pub(crate) is_paused: bool,
    pub(crate) is_draining: bool,
}

/// Handles notices until the flow has ended.
pub(crate) fn start(handler: SignalHandler, notices: Receiver<Notice>) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("flow-signals".to_owned()).spawn(move || handler.serve(&notices))
}

/// Listens for signals and makes notices of them.
pub(crate) fn listen_for_signals(notices: Sender<Notice>) -> std::io::Result<signal_hook::iterator::Handle> {
    let wanted = [SIGINT, SIGTERM, SIGHUP, SIGCONT];
    crate::signals::listen(&wanted, move |signal| notices.send(Notice::Signal(signal)).is_ok())
}

impl SignalHandler {
    fn serve(mut self, notices: &Receiver<Notice>) {
        loop {
            let notice = match self.until {
                Some(until) => notices.recv_timeout(until.saturating_duration_since(Instant::now())),
                None => notices.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match notice {
                Ok(Notice::Signal(SIGCONT)) => self.go_on(),
                Ok(Notice::Signal(signal)) => self.signalled(signal),
                Ok(Notice::Key(key)) => self.pressed(key),
                Ok(Notice::Over) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    self.until = None;
                    self.drain("its time limit is reached");
                }
            }
        }
    }

    /// The process was stopped (Ctrl-Z) and continued, and the shell has changed the terminal.
    fn go_on(&self) {
        if let Some(raw) = self.raw.as_ref().and_then(Weak::upgrade) {
            let _ = raw.again(); // without it keys need a line end
        }
        self.printer.change(|shown| shown.is_moved = true);
    }

    fn signalled(&mut self, signal: i32) {
        if self.stop_state.signal.note(signal) {
            self.drain("stopping; Ctrl-C again stops at once");
        } else {
            self.kill();
        }
    }

    fn drain(&mut self, why: &str) {
        if !self.is_draining {
            self.is_draining = true;
            let at_most = time(self.drain);
            self.printer.say(&format!("{why}: delivering messages on their way, for at most {at_most}"));
            self.printer.change(|shown| shown.note = Some(format!("draining (at most {at_most})")));
            // Paused sources cannot end.
            self.let_go_on();
        }
        self.stop_state.drain(&self.handle);
    }

    fn kill(&self) {
        self.printer.say("stopping at once; messages on their way are left behind");
        self.stop_state.kill(&self.handle);
    }

    fn pressed(&mut self, key: Key) {
        match key {
            Key::Kill => self.kill(),
            Key::Drain => self.drain("stopping"),
            Key::Pause => self.pause(),
            Key::Help => self.printer.change(|shown| shown.shows_keys = !shown.shows_keys),
            Key::Up => self.choose(|at, _| at.saturating_sub(1)),
            Key::Down => self.choose(|at, count| (at + 1).min(count.saturating_sub(1))),
            Key::Larger => self.resize(|capacity| capacity.saturating_mul(2)),
            Key::Smaller => self.resize(|capacity| (capacity / 2).max(1)),
            Key::Band => self.next_band(),
        }
    }

    fn pause(&mut self) {
        if self.is_draining {
            return;
        }
        if self.is_paused {
            self.let_go_on();
            self.printer.change(|shown| shown.note = None);
        } else {
            self.is_paused = true;
            for source in &self.sources {
                let _ = self.handle.pause(source); // it is one of the flow's
            }
            self.printer.change(|shown| shown.note = Some("sources paused (space: resume)".to_owned()));
        }
    }

    fn let_go_on(&mut self) {
        if std::mem::take(&mut self.is_paused) {
            let stats = self.handle.stats();
            let is_paused = |source: &&String| stats.node(source).is_some_and(|node| node.state == NodeState::Paused);
            for source in self.sources.iter().filter(is_paused) {
                let _ = self.handle.resume(source);
            }
        }
    }

    fn choose(&self, next: impl FnOnce(usize, usize) -> usize) {
        let count = self.handle.edges().count();
        self.printer.change(|shown| shown.selected = shown.selected.map(|at| next(at, count)));
    }

    /// The chosen edge, with its capacity and priority.
    fn chosen(&self) -> Option<(String, usize, Band)> {
        let at = self.printer.change(|shown| shown.selected)?;
        let edge = self.handle.stats().edges.into_iter().nth(at)?;
        Some((edge.id, edge.capacity, edge.band))
    }

    fn resize(&self, size: impl FnOnce(usize) -> usize) {
        let Some((edge, capacity, _)) = self.chosen() else { return };
        match self.handle.set_capacity(&edge, size(capacity)) {
            Ok(()) => self.printer.change(|_| ()),
            Err(error) => self.printer.say(&error.to_string()),
        }
    }

    fn next_band(&self) {
        let Some((edge, _, band)) = self.chosen() else { return };
        let next = match band {
            Band::Normal => Band::High,
            Band::High => Band::Control,
            Band::Control => Band::Normal,
        };
        match self.handle.set_priority(&edge, next.priority()) {
            Ok(()) => self.printer.change(|_| ()),
            Err(error) => self.printer.say(&error.to_string()),
        }
    }
}
