//! What a policy service sends to each program, and what it answers.
//!
//! Room: driver.
//!
//! # Invariants
//! - A program gets the epoch in force when it subscribes, and every later one, or only the newest if it is slow.
//! - A heartbeat means that the loop which reads the file goes round: it makes them.
//! - A program that does not read delays itself alone: each has a thread of its own, with a limit of time for each write.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bursar::policy::{Epoch, epoch_line, heartbeat_line};

use super::log_file::LogFile;
use crate::control::{Answer, Controller, PolicyLine, PolicyRecord, ProgramLine, Refusal, Request, send_line};
use crate::exit::say;

/// Programs whose last report is kept.
const PROGRAMS_MAX: usize = 64;
/// Records of one report that are taken.
const REPORT_RECORDS_MAX: usize = 64;
/// The longest text of a report that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 600;

pub(super) struct Publisher {
    state: Mutex<State>,
    changed: Condvar,
    log: Mutex<Option<LogFile>>,
}

struct State {
    about: PolicyLine,
    epoch: Arc<Epoch>,
    line: Arc<str>,
    since: Instant,
    beats: u64,
    is_closing: bool,
    programs: VecDeque<ProgramLine>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The line of an epoch. Every word of ours is known to the protocol of the same version.
fn line_of(epoch: &Epoch) -> Arc<str> {
    epoch_line(epoch).unwrap_or_default().into()
}

impl Publisher {
    /// A publisher of a first epoch. `about` has what does not change.
    pub(super) fn new(about: PolicyLine, epoch: Arc<Epoch>, log: Option<LogFile>) -> Publisher {
        let state = State {
            about,
            line: line_of(&epoch),
            epoch,
            since: Instant::now(),
            beats: 0,
            is_closing: false,
            programs: VecDeque::new(),
        };
        Publisher { state: Mutex::new(state), changed: Condvar::new(), log: Mutex::new(log) }
    }

    /// Sends an epoch to all programs.
    pub(super) fn publish(&self, epoch: Arc<Epoch>) {
        let line = line_of(&epoch);
        let mut state = lock(&self.state);
        (state.epoch, state.line, state.since) = (epoch, line, Instant::now());
        drop(state);
        self.changed.notify_all();
    }

    /// Says what is wrong with the file as it is now; nothing, if it is in force.
    pub(super) fn problem(&self, problem: Option<String>) {
        lock(&self.state).about.problem = problem;
    }

    /// Sends a heartbeat to all programs.
    pub(super) fn beat(&self) {
        lock(&self.state).beats += 1;
        self.changed.notify_all();
    }

    /// Lets all programs go.
    pub(super) fn close(&self) {
        lock(&self.state).is_closing = true;
        self.changed.notify_all();
    }

    /// Adds to the log. If that fails, the service continues without a log, and says so once.
    pub(super) fn record(&self, record: &PolicyRecord) {
        let mut log = lock(&self.log);
        if let Some(Err(error)) = log.as_mut().map(|log| log.add(record)) {
            say!("policy: the log cannot be written: {error}; continuing without");
            *log = None;
        }
    }

    fn report(&self, who: &str, pid: u32, records: Vec<PolicyRecord>) {
        for mut record in records.into_iter().take(REPORT_RECORDS_MAX) {
            (record.who, record.pid) = (who.to_owned(), pid);
            for text in [&mut record.who, &mut record.heard, &mut record.verdict, &mut record.reason] {
                clip(text);
            }
            self.record(&record);
            let PolicyRecord { at_ms, who, pid, verdict, in_force, reason, .. } = record;
            let line = ProgramLine { who, pid, epoch: in_force, verdict, reason, at_ms };
            let programs = &mut lock(&self.state).programs;
            programs.retain(|program| (program.pid, &program.who) != (pid, &line.who));
            programs.push_front(line);
            programs.truncate(PROGRAMS_MAX);
        }
    }

    fn line(&self) -> PolicyLine {
        let state = lock(&self.state);
        let set = state.epoch.set();
        PolicyLine {
            epoch: state.epoch.number(),
            age_ms: state.since.elapsed().as_millis() as u64,
            default: set.default.to_string(),
            profiles: set.profiles.len(),
            rules: set.rules.len(),
            programs: state.programs.iter().cloned().collect(),
            ..state.about.clone()
        }
    }

    /// Sends everything to a program until it is gone, or we close.
    fn send_all(&self, client: &mut dyn Write, closing: &AtomicBool) -> io::Result<()> {
        let (mut sent, mut beats) = (None, None);
        loop {
            let mut state = lock(&self.state);
            while !state.is_closing && sent == Some(state.epoch.number()) && beats == Some(state.beats) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_closing || closing.load(SeqCst) {
                return Ok(());
            }
            let number = state.epoch.number();
            let line = state.line.clone();
            let is_new = sent.replace(number) != Some(number);
            beats = Some(state.beats);
            drop(state);
            if is_new {
                client.write_all(line.as_bytes())?;
            }
            client.write_all(heartbeat_line(number).as_bytes())?;
        }
    }
}

fn clip(text: &mut String) {
    let end = (0..=TEXT_BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    *text = surface_text::clean(text).into_owned();
}

impl Controller for Publisher {
    fn respond(&self, request: Request, _: &AtomicBool) -> Result<Answer, Refusal> {
        let mut answer = Answer::default();
        match request {
            Request::Ps { .. } => answer.policy = Some(self.line()),
            Request::Report { mut who, pid, records } => {
                clip(&mut who);
                self.report(&who, pid, records);
            }
            _ => return Err(Refusal::not_for("a policy service", "it takes `ps`, `subscribe` and `report`")),
        }
        Ok(answer)
    }

    fn subscribe(&self, client: &mut dyn Write, closing: &AtomicBool) -> io::Result<()> {
        send_line(client, &serde_json::json!({ "v": 1, "ok": {} }))?;
        lock(&self.state).about.listeners += 1;
        let sent = self.send_all(client, closing);
        lock(&self.state).about.listeners -= 1;
        sent
    }
}
