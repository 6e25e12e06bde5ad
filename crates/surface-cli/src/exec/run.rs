//! One run of a program, within its limits.
//!
//! Room: driver.
//!
//! # Invariant
//! When this returns, no task of the program runs, and what it printed was written or the failure to do so is known.
//!
//! # Why it holds
//! The program is one nursery. A signal, the time limit and an output that cannot be written cancel that nursery, and nothing else; a cancelled program ends, whatever it defers.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bursar::budget::UNLIMITED;
use bursar::capability::{CapSpawn, Ledger};
use bursar::janus::{Host, Value};
use bursar::{Budget, NurseryOptions, Runtime, TaskError, now, nursery_with};

use super::Options;
use super::ending::{Ended, Outcome};
use super::output::Output;
use super::source::Source;
use super::stop::Stop;
use crate::exit::Failure;

/// Workers of a seeded run, unless the command line says otherwise: those of `bursar::explore`.
const SEEDED_WORKERS: u32 = 4;

/// Runs `main` once.
pub(super) fn run(options: &Options, source: &Source) -> Result<Ended, Failure> {
    let stop = Arc::new(Stop::default());
    let listener = stop.listen()?;
    let runtime = runtime(options, options.seed.unwrap_or(0))?;
    let written = Arc::new(Output::new(options.json));
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
    let mut builder = Runtime::builder().name("janus").no_watchdog();
    if let Some(workers) = options.workers.or(options.is_seeded().then_some(SEEDED_WORKERS)) {
        builder = builder.workers(workers as usize);
    }
    if options.is_seeded() {
        builder = builder.seeded(seed);
    }
    builder.build().map_err(|error| Failure::broken(format!("the program cannot run: {error}")))
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
        let [ops, spawns, channel_ops] = limits.map(|limit| limit.unwrap_or(UNLIMITED));
        Budget { ops, spawns, channel_ops, ..Budget::UNLIMITED }
    })
}
