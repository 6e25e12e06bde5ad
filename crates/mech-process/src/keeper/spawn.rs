//! Starting a command.
//!
//! Room: mechanism. Knows how a [`Launch`] becomes a process; knows nothing of sockets.
//!
//! # Invariant
//! CPUs and niceness hold from the first instruction of the command, and never for the keeper.
//!
//! # Why it holds
//! Both are attributes of a *thread* in Linux, and its children inherit them. A command that asks for them is started from a thread of its
//! own, which sets them for itself and then exits. Nothing has to be restored.
//!
//! # Cost
//! No code runs between fork and exec, so std uses `posix_spawn`, which copies no page tables.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::launch::{Launch, Streams};
use crate::{MARK, STARTED_AS_KEEPER};

/// Starts the command with the given standard streams, and returns its pid. No copy of a stream stays here.
pub(super) fn spawn(launch: &Launch, id: &str, streams: Streams) -> Result<i32, String> {
    let Some(program) = launch.argv.first() else {
        return Err("there is no program to start: the command is empty".to_owned());
    };
    let or_log = |given: Option<_>, log| given.map_or_else(|| open_log(log).map(Stdio::from), |fd| Ok(Stdio::from(fd)));
    let out = or_log(streams.stdout, &launch.log)?;
    let err = or_log(streams.stderr, launch.err_log.as_ref().unwrap_or(&launch.log))?;
    let mut command = Command::new(program);
    let stdin = streams.stdin.map_or_else(Stdio::null, Stdio::from);
    command.args(&launch.argv[1..]).process_group(0).stdin(stdin).stdout(out).stderr(err);
    command.env_remove(STARTED_AS_KEEPER);
    if launch.clear_env {
        command.env_clear().env(MARK, id);
    }
    command.envs(launch.env.iter().map(|(key, value)| (key, value)));
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    let child = if launch.limits.cpus.is_none() && launch.limits.nice.is_none() {
        command.spawn().map_err(|error| explain(launch, &error))
    } else {
        std::thread::scope(|scope| {
            let start = || {
                restrict(launch)?;
                command.spawn().map_err(|error| explain(launch, &error))
            };
            let thread = std::thread::Builder::new().spawn_scoped(scope, start);
            let thread =
                thread.map_err(|error| format!("cannot start {program:?} from a thread of its own: {error}"))?;
            thread.join().unwrap_or_else(|_| Err(format!("starting {program:?} panicked")))
        })
    };
    // Dropping a `Child` neither waits nor kills; the process is reaped with all others.
    child.map(|child| child.id().cast_signed())
}

fn open_log(path: &Path) -> Result<File, String> {
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map_err(|error| format!("cannot write the log {}: {error}", path.display()))
}

/// Sets CPUs and niceness of this thread, for the command to inherit.
fn restrict(launch: &Launch) -> Result<(), String> {
    if let Some(cpus) = &launch.limits.cpus {
        let mut set = CpuSet::new();
        for &cpu in cpus {
            if cpu >= CpuSet::MAX_CPU {
                return Err(format!("CPU {cpu} cannot be asked for: the highest number is {}", CpuSet::MAX_CPU - 1));
            }
            set.set(cpu);
        }
        sched_setaffinity(None, &set).map_err(|error| {
            format!("cannot run on CPUs {cpus:?}: {error}; this machine lets us use {}", crate::machine::cpus())
        })?;
    }
    if let Some(nice) = launch.limits.nice {
        rustix::process::setpriority_process(None, nice).map_err(|error| {
            format!("cannot set niceness {nice}: {error}; only root may go below {}", current_nice())
        })?;
    }
    Ok(())
}

fn current_nice() -> i32 {
    rustix::process::getpriority_process(None).unwrap_or(0)
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
