//! A program as three tasks: one reads what it prints, one writes what it reads, one waits for its end.
//!
//! Room: surface. Starts processes.
//!
//! # Invariant
//! When its tasks have ended, the program has, with all it started in its group, and it is no zombie.
//!
//! # Why it holds
//! The task that waits owns the child. Whether it comes to its end or is cancelled, [`Tree`] is dropped: that ends the group, before
//! the child and the watcher are reaped, while its number can be nobody else's; and reaps them. A program that leaves its group and closes its pipes
//! is no longer ours. If this process is killed, `watcher.rs` ends the group.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use async_io::Async;
use bursar::flow::InFlight;
use bursar::{Sender, block_on, channel, shield, timeout};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::Stderr;
use super::pump::{self, Giving, LAST_WORDS, Pipe};
use super::watcher::Watcher;
use super::wire::{self, Intake, Outlet};
use crate::action;

/// If not even a kill ends it, it is stuck in the kernel.
const KILLED: Duration = Duration::from_secs(5);

/// What a node has of its program.
pub(crate) struct Program {
    /// What it prints; `None` if nobody reads that.
    pub(crate) prints: Option<Intake>,
    /// What it is to read; `None` if nothing, or no more.
    pub(crate) reads: Option<Outlet>,
    end: Arc<Mutex<Option<io::Result<ExitStatus>>>>,
    /// What it had not read at its end; `None` if it reads nothing.
    unread: Option<Arc<Mutex<Option<VecDeque<String>>>>>,
    /// What its task did not take.
    late: VecDeque<String>,
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
        let result = match self.end.lock().unwrap_or_else(PoisonError::into_inner).as_ref()? {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(told(*status)),
            Err(error) => Err(format!("its end cannot be seen: {error}")),
        };
        // No more is written; the task that writes says what is left.
        let late = self.reads.take().and_then(Outlet::take);
        self.late.extend(late);
        let mut unread = match &self.unread {
            Some(unread) => unread.lock().unwrap_or_else(PoisonError::into_inner).take()?,
            None => VecDeque::new(),
        };
        unread.append(&mut self.late);
        Some(End { result, unread })
    }
}

fn told(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the program ended with exit code {code}"),
        (None, Some(signal)) => format!("the program was ended by signal {signal}"),
        (None, None) => format!("the program ended: {status}"),
    }
}

/// What a program is connected with.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) reads: bool,
    pub(crate) prints: bool,
}

/// Starts a program; `spawn` starts its tasks in the nursery of the node.
pub(crate) fn start(
    command: &action::Command,
    base: &Path,
    ends: Ends,
    errors: Option<(Arc<Stderr>, String)>,
    waker: &Waker,
    custody: &InFlight,
    mut spawn: impl FnMut(Box<dyn FnOnce() + Send>),
) -> Result<Program, String> {
    let (program, arguments) = command.argv.split_first().ok_or("the command names no program")?;
    let mut line = Command::new(program);
    line.args(arguments).envs(command.env.iter().map(|(name, value)| (name, value)));
    let watcher = Watcher::start();
    let group = watcher.as_ref().and_then(Watcher::group);
    line.process_group(group.map_or(0, |group| group.as_raw_nonzero().get()));
    let folder = command.cwd.as_ref().map_or_else(|| base.to_owned(), |cwd| base.join(cwd));
    if !folder.as_os_str().is_empty() {
        line.current_dir(folder);
    }
    line.stdin(if ends.reads { Stdio::piped() } else { Stdio::null() });
    line.stdout(if ends.prints { Stdio::piped() } else { Stdio::inherit() });
    line.stderr(if errors.is_some() { Stdio::piped() } else { Stdio::inherit() });
    let cannot = |error: io::Error| format!("`{program}` cannot be started: {error}; check its name and its folder");
    let child = line.spawn().map_err(cannot)?;
    let grace = Duration::from_millis(command.grace_ms);
    let mut tree = Tree::new(child, watcher, ends.reads, grace).map_err(cannot)?;
    let end = Arc::new(Mutex::new(None));
    // Whether it ended well, for a last line without its end.
    let (verdict, ended_well) = channel(1);
    let prints = match tree.child.stdout.take() {
        Some(stdout) => {
            let (feed, intake) = wire::intake(waker.clone());
            let (alive, gone) = channel(1);
            tree.alive.push(alive);
            let pipe = Pipe::Until(Async::new(File::from(OwnedFd::from(stdout))).map_err(cannot)?, gone);
            let reading = command.reading;
            spawn(Box::new(move || pump::read_all(&pipe, reading, &feed, || ended_well.recv() == Ok(true))));
            Some(intake)
        }
        None => None,
    };
    let mut last_errors = None;
    if let (Some(stderr), Some((told, node))) = (tree.child.stderr.take(), errors) {
        let pipe = Pipe::Polled(Async::new(File::from(OwnedFd::from(stderr))).map_err(cannot)?);
        let (telling, all_told) = channel::<()>(1);
        last_errors = Some(all_told);
        spawn(Box::new(move || {
            pump::tell_all(&pipe, |line| told(&node, line));
            drop(telling);
        }));
    }
    let mut unread = None;
    let reads = match tree.child.stdin.take() {
        Some(stdin) => {
            let (outlet, drain) = wire::outlet(waker.clone());
            let (alive, gone) = channel(1);
            tree.alive.push(alive);
            let pipe = Async::new(File::from(OwnedFd::from(stdin))).map_err(cannot)?;
            let left = Arc::new(Mutex::new(None));
            unread = Some(Arc::clone(&left));
            // Its end wakes the node, after the lines were left here.
            let giving = Giving::new(pipe, drain, gone, custody.clone(), left);
            spawn(Box::new(move || giving.write_all()));
            Some(outlet)
        }
        None => None,
    };
    let (shared, waker) = (Arc::clone(&end), waker.clone());
    spawn(Box::new(move || {
        let status = tree.wait();
        drop(tree);
        let _ = verdict.try_send(status.as_ref().is_ok_and(ExitStatus::success));
        // The node may end its tasks as soon as it knows; what was said last is not to be lost to that.
        if let Some(all_told) = last_errors {
            let _ = all_told.recv_timeout(LAST_WORDS);
        }
        *shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        waker.wake();
    }));
    Ok(Program { prints, reads, end, unread, late: VecDeque::new() })
}

/// A child and its group.
struct Tree {
    child: Child,
    group: Pid,
    /// Readable when the child has ended.
    handle: Async<OwnedFd>,
    /// It ends by itself when its input does; else it is asked to.
    reads: bool,
    grace: Duration,
    /// Ends the group if this process is killed.
    watcher: Option<Watcher>,
    /// Dropped at its end: the tasks at its pipes need not wait for others that hold them.
    alive: Vec<Sender<()>>,
}

impl Tree {
    fn new(child: Child, watcher: Option<Watcher>, reads: bool, grace: Duration) -> io::Result<Self> {
        let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let number = number.ok_or_else(|| io::Error::other("its process number is none"))?;
        let group = watcher.as_ref().and_then(Watcher::group).unwrap_or(number);
        // Until it is reaped the number is its own.
        let handle = pidfd_open(number, PidfdFlags::empty())?;
        Ok(Self { child, group, handle: Async::new_nonblocking(handle)?, reads, grace, watcher, alive: Vec::new() })
    }

    /// Waits for the end of the child, and ends what it left behind.
    fn wait(&mut self) -> io::Result<ExitStatus> {
        block_on(self.handle.readable())?;
        self.kill();
        self.alive.clear();
        // Before it is reaped: until then its number is its own.
        self.watcher = None;
        self.child.wait()
    }

    fn kill(&self) {
        // It may have ended by itself: then there is nobody to kill.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
            return; // reaped before
        }
        // Who is cancelled here is on its way out; the program is given its time all the same.
        shield(|| {
            if !self.reads {
                let _ = kill_process_group(self.group, Signal::TERM);
            }
            let _ = block_on(timeout(self.grace, self.handle.readable()));
            self.kill();
            let _ = block_on(timeout(KILLED, self.handle.readable()));
            self.watcher = None;
            self.child.try_wait()
        })
        .ok();
    }
}
