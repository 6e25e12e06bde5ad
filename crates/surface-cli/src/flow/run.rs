//! `bursar flow run`: from a file to the exit code.
//!
//! Room: driver.
//!
//! # Invariant
//! When this returns, nothing of the flow runs, its socket is gone, and the terminal is as it was.
//!
//! # Why it holds
//! All of them are values of this function, dropped in this order, also by a panic: what controls the flow, keys and stderr, the display.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bursar::flow::{Ended as FlowEnded, FlowError};
use clap::Args;
use mech_process::KeeperProgram;
use surface_flowfile::build::{self, Hooks};
use surface_flowfile::plan::CONTROL;
use surface_flowfile::{NoPart, Plan};

use super::brokers;
use super::capture::Capture;
use super::controller::{EndNotifier, FlowController};
use super::keys::Keys;
use super::signal_handler::{self, Notice, SignalHandler};
use super::stop_state::StopState;
use crate::control::event::Subject;
use crate::control::flows::{FlowSocket, new_id};
use crate::control::{self, Pace};
use crate::exit::{Exit, Failure};
use crate::problems::invalid;
use crate::signals;
use crate::view::flow::Ended;
use crate::view::printer::Printer;
use crate::view::{self, Mode};

/// How long a flow may take to deliver messages on their way, if its file does not set `drain`.
const DRAIN: Duration = Duration::from_secs(5);

/// Options of `bursar flow run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// The flow file, TOML or JSON
    file: PathBuf,
    /// How many nodes may run at the same time; 1 means one thread [default: that of the file, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    workers: Option<u32>,
    /// Run the nodes of one part of the file, `[part.NAME]`; others run the other parts [default: all nodes]
    #[arg(long, value_name = "NAME")]
    part: Option<String>,
    /// Drain and end after this time, as `90s` or `10m`
    #[arg(long = "for", value_name = "TIME", value_parser = super::time_ms)]
    span: Option<u64>,
    /// One JSON object for each event, one a line
    #[arg(long)]
    json: bool,
    /// Lines instead of a live area, also on a terminal
    #[arg(long, conflicts_with = "json")]
    plain: bool,
}

/// `bursar flow run`
pub(crate) fn run(options: &Options) -> Result<u8, Failure> {
    let plan = surface_flowfile::load(&options.file).map_err(|problems| invalid(&problems))?;
    let no_part = |error: NoPart| Failure::not_found(format!("{}: {error}", options.file.display()));
    let plan = plan.part(options.part.as_deref()).map_err(no_part)?;
    // Typed text would appear in the middle of a live area.
    let is_typed = reads_stdin(&plan) && std::io::stdin().is_terminal();
    let plain = (options.plain || is_typed).then_some(Mode::Plain);
    let mode = Mode::choose(options.json.then_some(Mode::Json).or(plain));
    let id = new_id();
    let printer = Printer::new(mode, Subject::Flow(id.clone()));
    let prints = printer.clone();
    let hooks = Hooks::default().keeper(KeeperProgram::this_one(["keep"])).print(move |text| prints.print(text));
    let hooks = brokers::ready(&plan, hooks)?;
    let broken = |error: &dyn std::fmt::Display| Failure::broken(format!("{}: {error}", options.file.display()));
    let mut builder = build::flow(&plan, &hooks).map_err(|error| broken(&error))?;
    if let Some(workers) = options.workers {
        builder = builder.workers(workers as usize);
    }
    // The scheduler may refuse what the checks of the file accept.
    let flow = builder.build().map_err(|problems| Failure::new(Exit::BadFile, problems.to_string()))?;
    let handle = flow.handle();
    let no_thread = |error: std::io::Error| Failure::broken(format!("the flow could not be watched: {error}"));

    let (stop_state, end) = (Arc::<StopState>::default(), Arc::<EndNotifier>::default());
    let (notices, noticed) = mpsc::channel();
    // Before the terminal is changed: a signal must not end the process without restoring it.
    let signals = signal_handler::listen_for_signals(notices.clone()).map_err(no_thread)?;
    let display = view::flow::start(handle.clone(), &printer).map_err(no_thread)?;
    let (stderr, keys) = match mode {
        Mode::Live => (capture(&printer), listen_to_keys(&printer, notices.clone())),
        Mode::Plain | Mode::Quiet | Mode::Json => (None, None),
    };
    let handler = SignalHandler {
        handle: handle.clone(),
        stop_state: Arc::clone(&stop_state),
        printer: printer.clone(),
        sources: sources(&plan),
        drain: plan.settings.drain_ms.map_or(DRAIN, Duration::from_millis),
        until: options.span.map(|ms| Instant::now() + Duration::from_millis(ms)),
        raw: keys.as_ref().and_then(Keys::raw),
        is_paused: false,
        is_draining: false,
    };
    let handler_thread = signal_handler::start(handler, noticed).map_err(no_thread)?;
    let says = printer.clone();
    let controller = FlowController {
        id: id.clone(),
        handle: handle.clone(),
        stop_state: Arc::clone(&stop_state),
        end: Arc::clone(&end),
        pace: Pace::default(),
        say: Box::new(move |text| says.say(text)),
    };
    let socket = FlowSocket::open(&id, |folder| control::open(folder, Arc::new(controller)));
    if let Err(error) = &socket {
        printer.say(&format!("other commands cannot reach this flow: {error}"));
    }

    let result = flow.run();

    end.notify();
    drop(socket);
    let _ = notices.send(Notice::Over);
    let _ = handler_thread.join();
    signals.close();
    drop(keys);
    drop(stderr);
    let (ended, code) = how_it_ended(&stop_state, result, stopper(&plan, &handle));
    let failure = match &ended {
        Ended::Failed(error) | Ended::Lost(error) if mode != Mode::Json => Some(error.clone()),
        _ => None,
    };
    let unwritten = display.finish(ended).filter(|_| code == 0);
    let unwritten = unwritten.map(|error| format!("not all events could be written to standard output: {error}"));
    match failure.or(unwritten) {
        Some(error) => Err(Failure::broken(error)),
        None => Ok(code),
    }
}

/// How it ended, for people, and the exit code. `stopper`: the node that ended it.
fn how_it_ended(stop_state: &StopState, result: Result<FlowEnded, FlowError>, stopper: Option<String>) -> (Ended, u8) {
    let by_signal = stop_state.signal.get().map(signals::code);
    match result {
        Err(error) => (Ended::Failed(error.to_string()), Exit::Failed as u8),
        Ok(_) if stop_state.is_killed() => (Ended::Killed, by_signal.unwrap_or(Exit::Interrupted as u8)),
        Ok(ref ended) if let Some((node, why)) = ended.stats.failures().next() => {
            (Ended::Failed(format!("node `{node}` failed: {why}")), Exit::Failed as u8)
        }
        Ok(ended) if !ended.drained => (Ended::Late, by_signal.unwrap_or(Exit::Failed as u8)),
        Ok(ended) => match by_signal {
            Some(code) => (Ended::Interrupted, code),
            None if let Some(losses) = control::losses(&ended.stats.nodes) => (Ended::Lost(losses), Exit::Failed as u8),
            None if let Some(node) = control::failed_at_all(&ended.stats.nodes) => {
                (Ended::Lost(node), Exit::Failed as u8)
            }
            None if stopper.is_some() || stop_state.is_drained() => (Ended::Stopped(stopper), Exit::Success as u8),
            None => (Ended::Done, Exit::Success as u8),
        },
    }
}

/// The node of kind `stop` that got a message.
fn stopper(plan: &Plan, handle: &bursar::flow::Handle) -> Option<String> {
    let stats = handle.stats();
    let stops = |node: &&surface_flowfile::plan::Node| {
        node.kind.name == "stop" && stats.node(&node.id).is_some_and(|node| node.messages > 0)
    };
    plan.nodes.iter().find(stops).map(|node| node.id.clone())
}

fn capture(printer: &Printer) -> Option<Capture> {
    let prints = printer.clone();
    // Without it the live area may be garbled, but the flow can run.
    Capture::begin(move |line| drop(prints.print(line))).ok().flatten()
}

fn listen_to_keys(printer: &Printer, notices: mpsc::Sender<Notice>) -> Option<Keys> {
    let keys = Keys::listen(move |key| drop(notices.send(Notice::Key(key))));
    let keys = keys.unwrap_or_else(|error| {
        printer.say(&format!("keys cannot be read: {error}"));
        None
    });
    if keys.is_some() {
        printer.change(|shown| shown.selected = Some(0));
    }
    keys
}

fn reads_stdin(plan: &Plan) -> bool {
    plan.nodes.iter().any(|node| node.kind.name == "stdin")
}

/// Nodes that no edge feeds.
fn sources(plan: &Plan) -> Vec<String> {
    let mut is_fed = vec![false; plan.nodes.len()];
    for edge in plan.edges.iter().filter(|edge| edge.input != CONTROL) {
        is_fed[edge.to] = true;
    }
    plan.nodes.iter().zip(is_fed).filter(|(_, is_fed)| !is_fed).map(|(node, _)| node.id.clone()).collect()
}
