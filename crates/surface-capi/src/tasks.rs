//! Tasks of C functions: how one runs, what it returned, and how others wait for it.
//!
//! Room: surface. Knows functions and codes; knows nothing of handles.
//!
//! # Invariants
//! 1. A task function is called once, or not at all if its nursery was cancelled before.
//! 2. The number of a task says for ever how it ended. What is kept for that is one entry for each task that has not ended, and for each that ended with another code than 0.
//!
//! # Why they hold
//! 1. It is called by the closure of a task.
//! 2. Numbers of a nursery are given out in order, so one that was given out and has no entry belongs to a task that returned 0. Entries of ended tasks are settled when they are waited for, or when the entries
//!    have doubled since that was done last.

use std::{
    cell::RefCell,
    collections::HashMap,
    ffi::{c_char, c_void},
    hash::{BuildHasherDefault, Hasher},
    panic::resume_unwind,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use sched_tasks::{
    OpenNursery, OpenTask, TaskError, TaskId, current_task, fiber_local, is_cancelled, shield, yield_now,
};

use crate::{
    codes::{ExitCode, JANUS_CANCELLED, JANUS_INVALID_ARGUMENT, JANUS_NOT_ACTIVE, Refusal, code_of},
    door::{coded, number},
    pointers,
};

/// What a task runs. 0: it succeeded; else it failed with this code, which cancels its siblings.
pub type JanusTaskFn = Option<unsafe extern "C-unwind" fn(arg: *mut c_void) -> i64>;

/// The same without an argument.
pub type JanusTaskNoargFn = Option<unsafe extern "C-unwind" fn() -> i64>;

/// A task of a nursery: a number that the nursery knows it by. 0 is none.
pub type JanusTask = u64;

/// How a task is to be. All zeroes is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct JanusTaskConfig {
    /// A name for messages, or NULL.
    pub name: *const c_char,
    /// How much stack it has, if that is more than usual; up to 1 GiB, rounded up to a power of two.
    pub stack_bytes: usize,
    /// It has a thread to itself, and may block that: in a system call, in a library.
    pub on_thread: bool,
}

/// The same, read.
#[derive(Debug, Default)]
pub(crate) struct TaskOptions {
    pub(crate) name: Option<String>,
    pub(crate) stack_bytes: usize,
    pub(crate) on_thread: bool,
}

impl TaskOptions {
    /// # Safety
    /// If it is neither NULL nor unaligned, `config` points to a config, whose name is NULL or a text that ends with a NUL.
    pub(crate) unsafe fn read(config: *const JanusTaskConfig) -> Result<Self, Refusal> {
        // SAFETY: as the caller promised.
        let Some(config) = (unsafe { pointers::read(config, "config") })? else { return Ok(Self::default()) };
        // SAFETY: as the caller promised.
        let name = unsafe { pointers::text(config.name) };
        Ok(Self { name, stack_bytes: config.stack_bytes, on_thread: config.on_thread })
    }
}

/// A function to call, with or without its argument.
#[derive(Clone, Copy)]
pub(crate) enum Function {
    OfArg(unsafe extern "C-unwind" fn(*mut c_void) -> i64),
    OfNothing(unsafe extern "C-unwind" fn() -> i64),
}

pub(crate) fn function(task: JanusTaskFn) -> Result<Function, Refusal> {
    task.map(Function::OfArg).ok_or_else(no_function)
}

pub(crate) fn function_noarg(task: JanusTaskNoargFn) -> Result<Function, Refusal> {
    task.map(Function::OfNothing).ok_or_else(no_function)
}

#[cold]
fn no_function() -> Refusal {
    Refusal::new(JANUS_INVALID_ARGUMENT, "the task function is NULL; pass a function that returns `int64_t`")
}

/// What a task function is called with.
struct Arg(*mut c_void);

// SAFETY: whoever spawns promises that the function may be called with it on any thread.
unsafe impl Send for Arg {}

/// What runs as a task.
pub(crate) fn body(function: Function, arg: *mut c_void) -> impl FnOnce() -> Result<(), TaskError> + Send {
    let arg = Arg(arg);
    move || {
        let Arg(arg) = { arg };
        // SAFETY: as promised by whoever spawned it: see the functions that call `function` and `function_noarg`.
        let code = match function {
            Function::OfArg(function) => unsafe { function(arg) },
            Function::OfNothing(function) => unsafe { function() },
        };
        end(code)
    }
}

/// How many tasks have said that they panicked, and have not ended.
static PANICKED: AtomicUsize = AtomicUsize::new(0);

fiber_local! {
    /// Why this task panicked, if it said so.
    static PANIC: RefCell<Option<String>> = RefCell::new(None);
}

/// A task function has returned.
fn end(code: i64) -> Result<(), TaskError> {
    if PANICKED.load(Relaxed) > 0
        && let Some(message) = PANIC.with(RefCell::take)
    {
        PANICKED.fetch_sub(1, Relaxed);
        resume_unwind(Box::new(message)); // a panic that no hook prints
    }
    if code == 0 {
        return Ok(());
    }
    if code == i64::from(JANUS_CANCELLED) && is_cancelled() {
        yield_now(); // ends it as cancelled, which is no failure; with a time of grace it has just ended early
        return Ok(());
    }
    Err(ExitCode(code).into())
}

/// The tasks of a nursery.
#[derive(Default)]
pub(crate) struct Tasks(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// How many numbers were given out.
    issued: u64,
    entries: HashMap<u64, Entry, BuildHasherDefault<Spread>>,
    /// So many entries, and those of ended tasks are settled.
    settle_at: usize,
}

enum Entry {
    Started(OpenTask<()>),
    /// Others wait for it, or did. None: it has ended, and the entry is about to say how.
    Awaited(TaskId, Arc<sched_tasks::Mutex<Option<OpenTask<()>>>>),
    Failed(i64, String),
}

const SETTLE_AT_LEAST: usize = 128;

impl Tasks {
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(
        &self,
        nursery: &OpenNursery,
        function: Function,
        arg: *mut c_void,
        options: TaskOptions,
    ) -> Result<JanusTask, Refusal> {
        let body = body(function, arg);
        let TaskOptions { name, stack_bytes, on_thread } = options;
        let task = if name.is_none() && stack_bytes == 0 && !on_thread {
            nursery.try_spawn(body)?
        } else {
            let mut builder = nursery.task().stack_bytes(stack_bytes);
            if let Some(name) = name {
                builder = builder.name(name);
            }
            if on_thread {
                builder = builder.on_thread();
            }
            builder.try_spawn(body)?
        };
        let mut entries = self.lock();
        if entries.entries.len() >= entries.settle_at.max(SETTLE_AT_LEAST) {
            entries.settle();
        }
        entries.issued += 1;
        let number = entries.issued;
        entries.entries.insert(number, Entry::Started(task));
        Ok(number)
    }

    /// Waits for a task, and returns its code. Its owner waits also if it was cancelled, since the task was as well: what the task returns is known soon.
    pub(crate) fn wait(&self, number: JanusTask, is_owner: bool) -> Result<i64, Refusal> {
        let awaited = {
            let mut entries = self.lock();
            if number == 0 || number > entries.issued {
                let issued = entries.issued;
                return Err(Refusal::new(
                    JANUS_INVALID_ARGUMENT,
                    format!(
                        "{number} is no task of this nursery, which has started {issued}; pass what a spawn returned"
                    ),
                ));
            }
            match entries.entries.remove(&number) {
                None => return Ok(0),
                Some(Entry::Started(task)) if task.is_done() => return entries.ended(number, task),
                Some(Entry::Started(task)) => {
                    let (id, awaited) = (task.label().id, Arc::new(sched_tasks::Mutex::new(Some(task))));
                    entries.entries.insert(number, Entry::Awaited(id, awaited.clone()));
                    awaited
                }
                Some(Entry::Awaited(id, awaited)) => {
                    entries.entries.insert(number, Entry::Awaited(id, awaited.clone()));
                    awaited
                }
                Some(Entry::Failed(code, text)) => {
                    entries.entries.insert(number, Entry::Failed(code, text.clone()));
                    return Err(Refusal { code, text });
                }
            }
        };
        let wait = || {
            let mut task = awaited.lock();
            if let Some(task) = task.as_mut() {
                task.wait();
            }
            match task.take() {
                Some(task) => Some(self.lock().ended(number, task)),
                None => None, // another one waited, and the entry says how it ended
            }
        };
        let ended = if is_owner { shield(wait) } else { wait() };
        ended.unwrap_or_else(|| self.wait(number, is_owner))
    }

    /// By which number the nursery knows a task of the runtime; 0 if it does not.
    pub(crate) fn number_of(&self, id: TaskId) -> JanusTask {
        let entries = self.lock();
        let is_it = |entry: &Entry| match entry {
            Entry::Started(task) => task.label().id == id,
            Entry::Awaited(awaited, _) => *awaited == id,
            Entry::Failed(..) => false,
        };
        entries.entries.iter().find(|(_, entry)| is_it(entry)).map_or(0, |(number, _)| *number)
    }
}

impl Entries {
    /// Notes how a task ended that has no entry now.
    fn ended(&mut self, number: JanusTask, task: OpenTask<()>) -> Result<i64, Refusal> {
        match task.join() {
            Ok(()) => {
                self.entries.remove(&number);
                Ok(0)
            }
            Err(error) => {
                let (code, text) = (code_of(&error), error.to_string());
                self.entries.insert(number, Entry::Failed(code, text.clone()));
                Err(Refusal { code, text })
            }
        }
    }

    /// Lets go of those that have ended and were not waited for.
    #[cold]
    fn settle(&mut self) {
        let ended: Vec<u64> = self
            .entries
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::Started(task) if task.is_done()))
            .map(|(number, _)| *number)
            .collect();
        for number in ended {
            if let Some(Entry::Started(task)) = self.entries.remove(&number) {
                let _ = self.ended(number, task);
            }
        }
        self.settle_at = 2 * self.entries.len();
    }
}

/// Consecutive numbers, spread by one multiplication.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

/// Says that the running task panicked, and why: whatever it returns, it has failed with `JANUS_PANICKED`. Return from the task function after it.
///
/// # Safety
/// `message` is NULL, or a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_task_panic(message: *const c_char) -> i32 {
    coded(|| {
        // SAFETY: as the caller promised.
        let message = unsafe { pointers::text(message) }.unwrap_or_else(|| "no message".into());
        if current_task().is_none() {
            return Err(Refusal::new(
                JANUS_NOT_ACTIVE,
                "the caller is no task, and cannot fail as one; return an error instead",
            ));
        }
        if PANIC.with(|panic| panic.replace(Some(message))).is_none() {
            PANICKED.fetch_add(1, Relaxed);
        }
        Ok(())
    })
}

/// Whether the running task is to stop: 1 or 0. For computations that call nothing else; every call that waits says so as well.
#[unsafe(no_mangle)]
pub extern "C" fn janus_task_is_cancelled() -> i32 {
    number(|| Ok(i32::from(is_cancelled())))
}
