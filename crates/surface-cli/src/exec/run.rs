//! One run of a program: its limits, its output, and signals.
//!
//! Room: driver.
//!
//! # Invariant
//! When this returns, no task of the program runs, and what it printed was written or the failure to do so is known.
//!
//! # Why it holds
//! The program is one nursery. A signal, the time limit and an output that cannot be written cancel that nursery, and nothing else; a cancelled program ends, whatever it defers.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bursar::capability::{CapSpawn, Ledger};
use bursar::janus::{Host, Value};
use bursar::{Budget, Builder, Canceller, NurseryOptions, Runtime, TaskError, now, nursery_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::Options;
use super::ending::{Ended, Outcome};
use super::source::Source;
use crate::exit::{Failure, say};
use crate::signals::{self, FirstSignal};

/// Workers of a seeded run, unless the command line says otherwise: those of `bursar::explore`.
const SEEDED_WORKERS: u32 = 4;

/// Runs `main` once.
pub(super) fn run(options: &Options, source: &Source) -> Result<Ended, Failure> {
    let stop = Arc::new(Stop::default());
    let listener = stop.listen()?;
    let runtime = runtime(options, options.seed.unwrap_or(0))?;
    let written = Arc::new(Written::new(options.json));
    let (writes, cancels) = (Arc::clone(&written), Arc::clone(&stop));
    let output = move |text: &str| {
        if !writes.line(text) {
            cancels.cancel();
        }
    };
    let ended = once(options, source, &runtime, &stop, output);
    listener.close();
    Ok(ended.unless_unwritten(written.failed()))
}

/// The runtime of a run.
pub(super) fn runtime(options: &Options, seed: u64) -> Result<Runtime, Failure> {
    // A Janus task cannot keep a worker; what waits for a slow reader of its output needs no warning.
    let builder = Runtime::builder().name("janus").no_watchdog();
    let workers = options.workers.or(options.is_seeded().then_some(SEEDED_WORKERS));
    let builder = workers.into_iter().fold(builder, |builder, workers| builder.workers(workers as usize));
    let seeded: fn(Builder, u64) -> Builder = if options.is_seeded() { Builder::seeded } else { |builder, _| builder };
    seeded(builder, seed).build().map_err(|error| Failure::broken(format!("the program cannot run: {error}")))
}

/// Runs `main` once on this runtime. What it prints goes to `output`.
pub(super) fn once(
    options: &Options,
    source: &Source,
    runtime: &Runtime,
    stop: &Stop,
    output: impl Fn(&str) + Send + Sync + 'static,
) -> Ended {
    let ledger = Ledger::new();
    let capability = options.tasks.map(|tasks| ledger.grant(CapSpawn::new().max_tasks(tasks.into())));
    let mut host = Host::new().output(move |line| output(line.text));
    let mut nursery = NurseryOptions::new();
    if let Some(bytes) = options.memory {
        host = host.memory_bytes(bytes);
    }
    if let Some(bytes) = options.stack {
        host = host.stack_bytes(bytes);
    }
    if let Some(capability) = &capability {
        host = host.grant_spawn(capability);
        nursery = nursery.capability(capability);
    }
    if let Some(budget) = budget(options) {
        nursery = nursery.task_budget(budget); // `main` is the only task of this nursery, and shares it with its own
    }
    if let Some(millis) = options.timeout {
        nursery = nursery.timeout(Duration::from_millis(millis));
    }
    let took = OnceLock::new();
    let root = || {
        let began = now(); // of the virtual clock, if there is one
        let result = nursery_with(nursery, |n| {
            stop.is_for(n.canceller());
            source.program.spawn_on(&host, n, "main", &options.args)?.join()
        });
        let _ = took.set(now().saturating_duration_since(began));
        result
    };
    let result: Result<Value, TaskError> = match runtime.run(root) {
        Ok(result) => result,
        Err(error) => Err(error.task_error().cloned().unwrap_or_else(|| TaskError::msg(error.to_string()))),
    };
    let outcome = Outcome { result, noted: host.fault(), signal: stop.signal.get() };
    Ended::new(outcome, host.spent(), took.get().copied().unwrap_or_default())
}

/// What the program may spend; none if it may spend what it likes.
fn budget(options: &Options) -> Option<Budget> {
    let limits = [options.ops, options.spawns, options.channel_ops];
    limits.iter().any(Option::is_some).then(|| {
        let [ops, spawns, channel_ops] = limits.map(|limit| limit.unwrap_or(u64::MAX));
        Budget { ops, spawns, channel_ops, ..Budget::UNLIMITED }
    })
}

/// What ends a program from outside.
#[derive(Default)]
pub(super) struct Stop {
    pub(super) signal: FirstSignal,
    state: Mutex<StopState>,
}

#[derive(Default)]
struct StopState {
    is_cancelled: bool,
    canceller: Option<Canceller>,
}

impl Stop {
    /// Signals cancel the program; the second ends the process.
    pub(super) fn listen(self: &Arc<Self>) -> Result<signal_hook::iterator::Handle, Failure> {
        let stop = Arc::clone(self);
        let listening = signals::listen(&[SIGINT, SIGTERM, SIGHUP], move |signal| {
            if !stop.signal.note(signal) {
                std::process::exit(signals::code(signal).into());
            }
            say!("cancelling the program; Ctrl-C again kills it");
            stop.cancel();
            true
        });
        listening.map_err(|error| Failure::broken(format!("signals cannot be handled: {error}")))
    }

    /// The program that it is for. If it was stopped before it began, it is cancelled now.
    fn is_for(&self, canceller: Canceller) {
        let mut state = self.lock();
        let is_cancelled = state.is_cancelled;
        state.canceller = Some(canceller.clone());
        drop(state);
        if is_cancelled {
            canceller.cancel();
        }
    }

    pub(super) fn cancel(&self) {
        let mut state = self.lock();
        state.is_cancelled = true;
        let canceller = state.canceller.clone();
        drop(state); // a task that cancels may let others run
        if let Some(canceller) = canceller {
            canceller.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, StopState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The output of a program: a line is written whole, or not at all any more.
struct Written {
    to_stderr: bool,
    /// A program that is not trusted must not command the terminal.
    is_cleaned: bool,
    failure: Mutex<Option<std::io::Error>>,
}

impl Written {
    fn new(to_stderr: bool) -> Written {
        let is_terminal = if to_stderr { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
        Written { to_stderr, is_cleaned: is_terminal, failure: Mutex::default() }
    }

    /// False if it could not be written; nothing is written after that.
    fn line(&self, text: &str) -> bool {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        if failure.is_some() {
            return false;
        }
        let mut line = if self.is_cleaned { surface_text::clean_lines(text).into_owned() } else { text.to_owned() };
        line.push('\n');
        let written = match self.to_stderr {
            true => std::io::stderr().lock().write_all(line.as_bytes()),
            false => std::io::stdout().lock().write_all(line.as_bytes()),
        };
        *failure = written.err();
        failure.is_none()
    }

    fn failed(&self) -> Option<std::io::Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
