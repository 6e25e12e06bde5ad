//! Starting a command.
//!
//! Room: mechanism. Knows how a [`Launch`] becomes a process; knows nothing of sockets.
//!
//! # Invariant
//! CPUs, class, weight and reservation hold from the first instruction of the command, and never for the keeper. What is in force is read from the
//! system after it was set. (The niceness of an autogroup is set just after the start.)
//!
//! # Why it holds
//! They are attributes of a *thread* in Linux, and its children inherit them. A command that asks for them is started from a thread of its
//! own, which sets them for itself and then exits. Nothing has to be restored. What a child does not inherit it sets itself, before exec.
//!
//! # Cost
//! If nothing runs between fork and exec, std uses `posix_spawn`, which copies no page tables.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::schedule::{self, Schedule};
use crate::in_force::InForce;
use crate::launch::{Launch, Streams};
use crate::{MARK, STARTED_AS_KEEPER, autogroup, procfs};

/// A command that runs.
#[derive(Debug)]
pub(super) struct Spawned {
    pub(super) pid: i32,
    /// What is in force for it, if it asked for anything.
    pub(super) in_force: Option<Box<InForce>>,
    /// The niceness that its autogroup is still to get: the system said to try again.
    pub(super) autogroup: Option<i32>,
}

/// Starts the command with the given standard streams. No copy of a stream stays here.
pub(super) fn spawn(launch: &Launch, id: &str, streams: Streams) -> Result<Spawned, String> {
    let Some(program) = launch.argv.first() else {
        return Err("there is no program to start: the command is empty".to_owned());
    };
    let or_log = |given: Option<_>, log| given.map_or_else(|| open_log(log).map(Stdio::from), |fd| Ok(Stdio::from(fd)));
    let out = or_log(streams.stdout, &launch.log)?;
    let err = or_log(streams.stderr, launch.err_log.as_ref().unwrap_or(&launch.log))?;
    let mut command = Command::new(program);
    let stdin = streams.stdin.map_or_else(Stdio::null, Stdio::from);
    command.args(&launch.argv[1..]).stdin(stdin).stdout(out).stderr(err);
    command.env_remove(STARTED_AS_KEEPER);
    if launch.clear_env {
        command.env_clear().env(MARK, id);
    }
    command.envs(launch.env.iter().map(|(key, value)| (key, value)));
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    if !schedule::is_asked(&launch.limits) {
        let child = command.process_group(0).spawn().map_err(|error| explain(launch, &error))?;
        // Dropping a `Child` neither waits nor kills; the process is reaped with all others.
        return Ok(Spawned { pid: child.id().cast_signed(), in_force: None, autogroup: None });
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || scheduled(launch, id, command));
        let thread = thread.map_err(|error| format!("cannot start {program:?} from a thread of its own: {error}"))?;
        thread.join().unwrap_or_else(|_| Err(format!("starting {program:?} panicked")))
    })
    .inspect_err(|_| {
        if schedule::may_have_group(&launch.limits) {
            schedule::remove_groups(id); // the thread that was in them is gone
        }
    })
}

/// Starts the command from this thread, which gets what the command asks for.
fn scheduled(launch: &Launch, id: &str, mut command: Command) -> Result<Spawned, String> {
    let mut schedule = Schedule::enter(&launch.limits, id)?;
    let before_exec = std::mem::take(&mut schedule.before_exec);
    let chosen = Arc::clone(&before_exec.chosen);
    // The leader of a session leads a process group, too; and a group leader may not create a session.
    if !before_exec.leads_session {
        command.process_group(0);
    }
    if before_exec.is_needed() {
        before_exec.hook(&mut command);
    }
    let mut at = 0;
    let child = loop {
        chosen.store(at, Ordering::Relaxed);
        match command.spawn() {
            Ok(child) => break child,
            Err(error) if launch.limits.reservation.is_some() && schedule.next_best(at, &error) => at += 1,
            Err(error) => return Err(explain(launch, &error)),
        }
    };
    let pid = child.id().cast_signed();
    let autogroup = schedule.autogroup.filter(|nice| needs_again(autogroup::set_nice(pid, *nice)));
    let in_force = measure(pid).map(|in_force| Box::new(InForce { refused: schedule.refused, ..in_force }));
    Ok(Spawned { pid, in_force, autogroup })
}

/// Whether the system wants to be asked again.
pub(super) fn needs_again(set: io::Result<()>) -> bool {
    set.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// What is in force for a command that this thread has just started. One that has ended already has lost a part of it: that part it had inherited from
/// this thread, but for its autogroup, which is not known any more.
fn measure(pid: i32) -> Option<InForce> {
    let now = InForce::of(pid)?;
    if procfs::one(pid).is_some_and(|one| !one.is_dead()) {
        return Some(now);
    }
    let inherited = InForce::of(rustix::thread::gettid().as_raw_pid())?;
    Some(InForce { policy: now.policy, nice: now.nice, autogroup: None, ..inherited })
}

fn open_log(path: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| format!("cannot write the log {}: {error}", path.display()))
}

/// A message that says what is missing.
fn explain(launch: &Launch, error: &io::Error) -> String {
    let program = launch.argv[0].to_string_lossy();
    let not_found = error.kind() == io::ErrorKind::NotFound;
    if let Some(cwd) = launch.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return format!("cannot start {program:?}: its directory {} does not exist", cwd.display());
    }
    if not_found && !program.contains('/') {
        let set = launch.env.iter().rev().find(|(key, _)| key == "PATH").map(|(_, value)| value.clone());
        let path = set.or_else(|| std::env::var_os("PATH").filter(|_| !launch.clear_env));
        let path = path.map_or("not set".to_owned(), |path| path.to_string_lossy().into_owned());
        return format!(
            "cannot start {program:?}: no such program in PATH ({path}); install it, or write its full path"
        );
    }
    if not_found {
        return if std::path::Path::new(&launch.argv[0]).exists() {
            format!("cannot start {program:?}: the interpreter named in its first line does not exist")
        } else {
            format!("cannot start {program:?}: there is no such file")
        };
    }
    match error.raw_os_error() {
        Some(libc::E2BIG) => format!("cannot start {program:?}: arguments and environment are too long for the system"),
        Some(libc::EACCES) => {
            format!("cannot start {program:?}: it is not an executable file; try `chmod +x`, or start it with `sh`")
        }
        _ => format!("cannot start {program:?}: {error}"),
    }
}
