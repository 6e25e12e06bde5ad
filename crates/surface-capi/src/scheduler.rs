//! Runtimes: one for the whole program, and any number of others.
//!
//! Room: surface.
//!
//! # Invariant
//! When a runtime was shut down, none of its tasks runs any more; unless one of them did it, or another call on it goes on: then the last of them ends it.

use std::{
    ffi::{c_char, c_void},
    io::{self, Write as _},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sched_tasks::{BuildError, Builder, Runtime, sleep, yield_now};

use crate::{
    codes::{JANUS_FAILED, JANUS_INVALID_ARGUMENT, JANUS_NOT_ACTIVE, JANUS_OUT_OF_RESOURCES, Refusal},
    door::{NO_ROOM, coded, coded_for_all, door_for_all, number, with_last_error},
    forks::{self, Generation},
    handles::{self, Held},
    pointers,
    tasks::{JanusTaskFn, body, function},
    words,
};

/// A runtime: threads that run tasks.
pub struct JanusScheduler;

/// How a runtime is to be. All zeroes is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct JanusSchedulerConfig {
    /// How many threads run tasks, 1 to 256. 0: one for each CPU.
    pub worker_count: u32,
    /// How many threads may run tasks that have a thread to themselves, at a time. 0: 512.
    pub blocking_threads: u32,
    /// How much stack a task has: a multiple of the page size, 64 KiB to 1 GiB. 0: 256 KiB. Only what a task touches is taken from memory.
    pub stack_bytes: usize,
    /// If not 0, there are no threads: `janus_scheduler_run` plays all workers on the caller's, in virtual time, and this number decides every choice. The same number, the same run.
    pub deterministic_seed: u64,
}

pub(crate) struct Scheduler {
    runtime: Mutex<Option<Arc<Runtime>>>,
    made: Generation,
}

impl Held for Scheduler {
    type Opaque = JanusScheduler;
    const KIND: u8 = b'S';
    const NAME: &'static str = "scheduler";
    const MADE_BY: &'static str = "janus_scheduler_create";
}

impl Scheduler {
    /// The runtime, unless it was shut down.
    pub(crate) fn runtime(&self) -> Result<Arc<Runtime>, Refusal> {
        if self.made.is_past() {
            return Err(Refusal::new(
                JANUS_NOT_ACTIVE,
                "the scheduler was created before a fork, and its threads are in the parent process; shut it down with `janus_scheduler_shutdown`, and create another",
            ));
        }
        self.runtime.lock().unwrap_or_else(PoisonError::into_inner).clone().ok_or_else(|| {
            Refusal::new(JANUS_NOT_ACTIVE, "the scheduler was shut down; create another with `janus_scheduler_create`")
        })
    }
}

/// The runtime of the whole program, and how often it was asked for.
struct Common {
    users: u32,
    runtime: Arc<Runtime>,
    made: Generation,
}

static COMMON: Mutex<Option<Common>> = Mutex::new(None);

impl Common {
    fn check(&self) -> Result<(), Refusal> {
        if !self.made.is_past() {
            return Ok(());
        }
        let users = self.users;
        Err(Refusal::new(
            JANUS_NOT_ACTIVE,
            format!(
                "the runtime was started before a fork, and its threads are in the parent process; call `janus_rt_shutdown` as often as the parent called `janus_rt_init` ({users}), and then `janus_rt_init`"
            ),
        ))
    }
}

/// The runtime of the whole program.
pub(crate) fn common() -> Result<Arc<Runtime>, Refusal> {
    let common = COMMON.lock().unwrap_or_else(PoisonError::into_inner);
    match &*common {
        Some(common) => common.check().map(|()| common.runtime.clone()),
        None => Err(Refusal::new(
            JANUS_NOT_ACTIVE,
            "no runtime was started; call `janus_rt_init` first, or name a scheduler with `janus_nursery_create_on`",
        )),
    }
}

fn start(config: &JanusSchedulerConfig) -> Result<Arc<Runtime>, Refusal> {
    forks::watch()?;
    let mut builder: Builder = Runtime::builder().name("janus").on_stuck(|stuck| {
        let _ = writeln!(io::stderr(), "janus: {}", words::stuck(stuck)); // it may have no reader
    });
    if config.worker_count > 0 {
        builder = builder.workers(config.worker_count as usize);
    }
    if config.blocking_threads > 0 {
        builder = builder.blocking_threads(config.blocking_threads as usize);
    }
    if config.stack_bytes > 0 {
        builder = builder.stack_bytes(config.stack_bytes);
    }
    if config.deterministic_seed > 0 {
        builder = builder.seeded(config.deterministic_seed);
    }
    let runtime = builder.build().map_err(|error| {
        let code =
            if matches!(error, BuildError::Thread { .. }) { JANUS_OUT_OF_RESOURCES } else { JANUS_INVALID_ARGUMENT };
        Refusal::new(code, words::not_built(&error))
    })?;
    Ok(Arc::new(runtime))
}

/// Starts the runtime of the whole program, with so many workers (0: one for each CPU). Each call needs a `janus_rt_shutdown` of its own; the first one counts for the number of workers.
#[unsafe(no_mangle)]
pub extern "C" fn janus_rt_init(worker_count: u32) -> i32 {
    coded_for_all(|| {
        let mut common = COMMON.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *common {
            Some(common) => {
                common.check()?;
                common.users += 1;
            }
            None => {
                let config =
                    JanusSchedulerConfig { worker_count, blocking_threads: 0, stack_bytes: 0, deterministic_seed: 0 };
                *common = Some(Common { users: 1, runtime: start(&config)?, made: Generation::now() });
            }
        }
        Ok(())
    })
}

/// Takes back one `janus_rt_init`. The last one cancels everything that runs on the runtime, waits for it, and ends the threads. From one of its tasks it does not wait, and returns 0 at once: the task is cancelled as all others
/// are, and the rest is done when it has returned. In a fork it lets go of the parent's runtime, and waits for nothing.
#[unsafe(no_mangle)]
pub extern "C" fn janus_rt_shutdown() -> i32 {
    coded_for_all(|| {
        let last = {
            let mut common = COMMON.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *common {
                None => {
                    return Err(Refusal::new(
                        JANUS_NOT_ACTIVE,
                        "the runtime was shut down as often as it was started; call `janus_rt_init` once for each `janus_rt_shutdown`",
                    ));
                }
                Some(Common { users: 1, .. }) => common.take(),
                Some(common) => {
                    common.users -= 1;
                    None
                }
            }
        };
        drop(last); // not under the lock: tasks may ask for it while they end
        Ok(())
    })
}

/// Starts another runtime. NULL if that is not possible.
#[unsafe(no_mangle)]
pub extern "C" fn janus_scheduler_create(config: JanusSchedulerConfig) -> *mut JanusScheduler {
    door_for_all(
        |_| std::ptr::null_mut(),
        || {
            let runtime = start(&config)?;
            handles::insert(Arc::new(Scheduler { runtime: Mutex::new(Some(runtime)), made: Generation::now() }))
        },
    )
}

/// Cancels everything that runs on a runtime, waits for it, and ends the threads. The handle is not valid any more. From one of its tasks, and in a fork, it does not wait: see `janus_rt_shutdown`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_scheduler_shutdown(scheduler: *mut JanusScheduler) -> i32 {
    coded_for_all(|| {
        let scheduler = handles::remove::<Scheduler>(scheduler)?;
        let runtime = scheduler.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(runtime);
        Ok(())
    })
}

/// Runs a function as a task of a runtime, waits for it and for all that it opened, and returns its code.
///
/// # Safety
/// `task` may be called with `arg`, on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_scheduler_run(
    scheduler: *mut JanusScheduler,
    task: JanusTaskFn,
    arg: *mut c_void,
) -> i64 {
    number(|| {
        let runtime = handles::get::<Scheduler>(scheduler)?.runtime()?;
        let body = body(function(task)?, arg, None);
        match runtime.run(body) {
            Ok(Ok(())) => Ok(0),
            Ok(Err(failed)) => Err(failed.into()),
            Err(sched_tasks::RunError::Task(error)) => Err(error.into()),
            Err(error) => Err(Refusal::new(JANUS_FAILED, error.to_string())),
        }
    })
}

/// Lets other tasks run first. `JANUS_CANCELLED` if the caller is to stop.
#[unsafe(no_mangle)]
pub extern "C" fn janus_scheduler_yield() -> i32 {
    coded(|| {
        yield_now();
        Ok(())
    })
}

/// Stops the caller for a while; other tasks run meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn janus_scheduler_sleep(nanoseconds: u64) -> i32 {
    coded(|| {
        sleep(Duration::from_nanos(nanoseconds));
        Ok(())
    })
}

/// What the last call of this task, or of this thread outside of tasks, that failed had to say: what was wrong, the limit, and a way out. Copies at most `length` bytes to `buffer`, a NUL among them, and returns
/// how long the text is without it.
///
/// # Safety
/// `buffer` is NULL, or `length` bytes may be written there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_last_error(buffer: *mut c_char, length: usize) -> usize {
    door_for_all(
        |_| {
            // SAFETY: as the caller promised.
            unsafe { pointers::put_text(NO_ROOM, buffer, length) }; // too little stack is left to look
            NO_ROOM.len()
        },
        || {
            Ok(with_last_error(|text| {
                // SAFETY: as the caller promised.
                unsafe { pointers::put_text(text, buffer, length) };
                text.len()
            }))
        },
    )
}

/// The version of the library, as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn janus_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
