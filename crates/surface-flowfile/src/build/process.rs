//! A program as three tasks: one reads what it prints, one writes what it reads, one waits for its end.
//!
//! Room: driver. Knows pipes and keepers; knows nothing of edges and bands.
//!
//! # Invariant
//! When its tasks have ended, the program has, with all that it started.
//!
//! # Why it holds
//! The program runs below a keeper, which reports an end when no process of the tree is left (`keepers.rs`). The task that waits owns the [`Tree`]. If it is cancelled, dropping the
//! `Tree` cancels the program and waits for that report.
//!
//! # The keeper is not in the way of lines
//! The pipes are made here. Their other ends are sent to the keeper, which gives them to the program and keeps no copy. Lines then go directly from the node to the program.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::Waker;
use std::time::Duration;

use async_io::Async;
use bursar::flow::InFlight;
use bursar::{Receiver, Sender, channel, shield};
use mech_process::{Handle, How, Launch, Report, Streams};

use super::Stderr;
use super::keepers::KeeperPool;
use super::pump::{self, LAST_OUTPUT_TIMEOUT, Pipe, StdinWriter};
use super::wire::{self, Intake, Outlet};
use crate::action;

/// A keeper says within this time whether the program runs; usually within milliseconds.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// A killed process that is still there after this time is stuck in the kernel.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A program, as its node sees it.
pub(crate) struct Program {
    /// Its output; `None` if no edge takes it.
    pub(crate) prints: Option<Intake>,
    /// Its input; `None` if it has none, or if it is closed.
    pub(crate) reads: Option<Outlet>,
    end: Arc<Mutex<Option<Result<(), String>>>>,
    /// Lines it had not read at its end; `None` if it has no input.
    unread: Option<Arc<Mutex<Option<VecDeque<String>>>>>,
    /// Lines that its task did not take.
    pending: VecDeque<String>,
}

/// How a program ended.
pub(crate) struct End {
    /// Why it failed, if it did.
    pub(crate) result: Result<(), String>,
    /// Lines that it was given and has not read.
    pub(crate) unread: VecDeque<String>,
}

impl Program {
    /// How it ended, if it has. The node is woken when that is known, and when it is known what was not read.
    pub(crate) fn ended(&mut self) -> Option<End> {
        let result = self.end.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        // No more is written; the task that writes reports the unread lines.
        let pending = self.reads.take().and_then(Outlet::take);
        self.pending.extend(pending);
        let mut unread = match &self.unread {
            Some(unread) => unread.lock().unwrap_or_else(PoisonError::into_inner).take()?,
            None => VecDeque::new(),
        };
        unread.append(&mut self.pending);
        Some(End { result, unread })
    }
}

/// Whether the program succeeded.
fn judge(how: &How) -> Result<(), String> {
    match how {
        How::Exit(0) => Ok(()),
        How::Exit(code) => Err(format!("the program ended with exit code {code}")),
        How::Signal(signal) => Err(format!("the program was ended by signal {signal}")),
        How::KeeperLost => Err("the keeper process of the program was killed, so its exit status is not known; \
             the program was killed, too"
            .to_owned()),
        other => Err(format!("the program: {other}")),
    }
}

/// Which streams of a program are connected to edges.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) reads: bool,
    pub(crate) prints: bool,
}

/// Our ends of the pipes to a program.
struct Pipes {
    stdin: Option<Async<File>>,
    stdout: Option<Async<File>>,
    stderr: Option<Async<File>>,
}

/// Makes the pipes of a program. Output streams without a pipe are those of this process; standard input without a pipe is empty.
fn pipes(ends: Ends, is_stderr_read: bool) -> io::Result<(Pipes, Streams)> {
    fn ours(end: impl Into<OwnedFd>) -> io::Result<Option<Async<File>>> {
        Async::new(File::from(end.into())).map(Some)
    }
    let mut pipes = Pipes { stdin: None, stdout: None, stderr: None };
    let mut streams = Streams::default();
    if ends.reads {
        let (reads, writes) = io::pipe()?;
        (pipes.stdin, streams.stdin) = (ours(writes)?, Some(reads.into()));
    }
    streams.stdout = Some(if ends.prints {
        let (reads, writes) = io::pipe()?;
        pipes.stdout = ours(reads)?;
        writes.into()
    } else {
        io::stdout().as_fd().try_clone_to_owned()?
    });
    streams.stderr = Some(if is_stderr_read {
        let (reads, writes) = io::pipe()?;
        pipes.stderr = ours(reads)?;
        writes.into()
    } else {
        io::stderr().as_fd().try_clone_to_owned()?
    });
    Ok((pipes, streams))
}

/// What the keeper is told to start. What the program leaves behind is killed at its end, without grace.
fn launch(command: &action::Command, base: &Path) -> Launch {
    let mut launch = Launch::new("program", &command.argv, "/dev/null");
    launch.env = command.env.iter().map(|(name, value)| (name.into(), value.into())).collect();
    let folder = command.cwd.as_ref().map_or_else(|| base.to_owned(), |cwd| base.join(cwd));
    launch.cwd = Some(folder).filter(|folder| !folder.as_os_str().is_empty());
    launch.grace = Duration::ZERO;
    launch
}

/// Has a keeper start a program, and waits until it runs. The thread waits, as for any other start of a process: no other thread of the flow is needed for it.
fn start_tree(
    command: &action::Command,
    base: &Path,
    ends: Ends,
    pool: &KeeperPool,
    streams: Streams,
) -> Result<Tree, String> {
    let (begun, has_begun) = mpsc::channel();
    let (ended, end) = channel(1);
    let listen = Box::new(move |report| match report {
        Report::Started { .. } => _ = begun.send(Ok(())),
        Report::Ended(end) => {
            let _ = begun.send(Err(end.how.clone())); // read only if it is the first
            let _ = ended.try_send(end.how);
        }
        Report::InForce(_) | Report::Paused | Report::Resumed | Report::Warning(_) | Report::Usage { .. } => {}
    });
    let handle = pool.get()?.start_with(launch(command, base), streams, listen).map_err(|error| error.to_string())?;
    match has_begun.recv_timeout(START_TIMEOUT) {
        Ok(Ok(())) => {
            let grace = Duration::from_millis(command.grace_ms);
            Ok(Tree { handle, end, is_over: false, reads: ends.reads, grace, alive: Vec::new() })
        }
        Ok(Err(How::CouldNotStart(why))) => Err(why),
        Ok(Err(how)) => Err(how.to_string()),
        Err(_) => {
            handle.cancel(Duration::ZERO);
            Err(format!("its keeper process does not answer within {START_TIMEOUT:?}"))
        }
    }
}

/// Starts a program; `spawn` starts its tasks in the nursery of the node.
#[allow(clippy::too_many_arguments, reason = "what a node has, once each")]
pub(crate) fn start(
    command: &action::Command,
    base: &Path,
    ends: Ends,
    keepers: &KeeperPool,
    errors: Option<(Arc<Stderr>, String)>,
    waker: &Waker,
    in_flight: &InFlight,
    mut spawn: impl FnMut(Box<dyn FnOnce() + Send>),
) -> Result<Program, String> {
    let program = command.argv.first().ok_or("the command names no program")?;
    let cannot = |why: String| {
        let why = why.strip_prefix(&format!("cannot start {program:?}: ")).unwrap_or(&why);
        format!("`{program}` cannot be started: {why}")
    };
    let (pipes, streams) = pipes(ends, errors.is_some()).map_err(|error| cannot(error.to_string()))?;
    let mut tree = start_tree(command, base, ends, keepers, streams).map_err(cannot)?;
    let end = Arc::new(Mutex::new(None));
    // Whether it succeeded: decides about a last line without a line end.
    let (verdict, ended_well) = channel(1);
    let prints = pipes.stdout.map(|stdout| {
        let (feed, intake) = wire::intake(waker.clone());
        let (alive, gone) = channel(1);
        tree.alive.push(alive);
        let pipe = Pipe::Until(stdout, gone);
        let reading = command.reading;
        spawn(Box::new(move || pump::read_all(&pipe, reading, &feed, || ended_well.recv() == Ok(true))));
        intake
    });
    let mut last_errors = None;
    if let (Some(stderr), Some((report, node))) = (pipes.stderr, errors) {
        let pipe = Pipe::Polled(stderr);
        let (reporting, all_reported) = channel::<()>(1);
        last_errors = Some(all_reported);
        spawn(Box::new(move || {
            pump::report_lines(&pipe, |line| report(&node, line));
            drop(reporting);
        }));
    }
    let mut unread = None;
    let reads = pipes.stdin.map(|pipe| {
        let (outlet, drain) = wire::outlet(waker.clone());
        let (alive, gone) = channel(1);
        tree.alive.push(alive);
        let left = Arc::new(Mutex::new(None));
        unread = Some(Arc::clone(&left));
        // Its end wakes the node, after the unread lines were stored.
        let writer = StdinWriter::new(pipe, drain, gone, in_flight.clone(), left);
        spawn(Box::new(move || writer.write_all()));
        outlet
    });
    let (shared, waker) = (Arc::clone(&end), waker.clone());
    spawn(Box::new(move || {
        let result = judge(&tree.wait());
        drop(tree);
        let _ = verdict.try_send(result.is_ok());
        // The node may end its tasks as soon as it knows the end; the last lines of standard error come first.
        if let Some(all_reported) = last_errors {
            let _ = all_reported.recv_timeout(LAST_OUTPUT_TIMEOUT);
        }
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        waker.wake();
    }));
    Ok(Program { prints, reads, end, unread, pending: VecDeque::new() })
}

/// A program and all that it started, below its keeper.
struct Tree {
    handle: Handle,
    /// How it ended, when nothing of it is left.
    end: Receiver<How>,
    is_over: bool,
    /// It has an input, whose end tells it to end. A program without input gets SIGTERM.
    reads: bool,
    grace: Duration,
    /// Dropped at its end: then the tasks at its pipes no longer wait for other processes that hold the pipes.
    alive: Vec<Sender<()>>,
}

impl Tree {
    /// Waits for its end.
    fn wait(&mut self) -> How {
        let how = self.end.recv().unwrap_or(How::KeeperLost);
        self.is_over = true;
        self.alive.clear();
        how
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // The task that is cancelled here is on its way out; the program is given its time all the same.
        shield(|| {
            if !self.reads {
                self.handle.cancel(self.grace);
            }
            if self.end.recv_timeout(self.grace).is_err() {
                self.handle.cancel(Duration::ZERO);
                let _ = self.end.recv_timeout(KILL_TIMEOUT);
            }
        });
    }
}
