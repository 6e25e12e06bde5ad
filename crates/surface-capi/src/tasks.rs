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
//!    have doubled since that was done last; between that, those are kept whose tasks ended meanwhile.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    ffi::{c_char, c_void},
    hash::{BuildHasherDefault, Hasher},
    panic::resume_unwind,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use sched_tasks::{
    OpenNursery, OpenTask, Receiver, Sender, TaskError, TaskId, current_task, fiber_local, is_cancelled, shield,
    try_channel, yield_now,
};

use crate::{
    codes::{ExitCode, JANUS_CANCELLED, JANUS_INVALID_ARGUMENT, JANUS_NOT_ACTIVE, Refusal, code_of, text_of},
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

// SAFETY: the caller of a spawn promises that the function may be called with it on any thread.
unsafe impl Send for Arg {}

/// What runs as a task.
pub(crate) fn body(function: Function, arg: *mut c_void) -> impl FnOnce() -> Result<(), TaskError> + Send {
    let arg = Arg(arg);
    move || {
        let Arg(arg) = { arg };
        let code = match function {
            // SAFETY: as the caller of the spawn promised: see the functions that call `function`.
            Function::OfArg(function) => unsafe { function(arg) },
            // SAFETY: as the caller of the spawn promised: see the functions that call `function_noarg`.
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
    /// How many numbers were given out. The last of `recent` has this one.
    issued: u64,
    recent: VecDeque<Entry>,
    /// Those before, as far as they did not return 0.
    older: HashMap<JanusTask, Entry, BuildHasherDefault<Spread>>,
    /// So many recent ones, and those that have ended are settled.
    settle_at: usize,
}

enum Entry {
    Started(OpenTask<()>),
    /// One waits for it and has it meanwhile. Others that wait share a channel, which is closed when that one is done.
    Awaited(TaskId, Option<Done>),
    Succeeded,
    Failed(i64, String),
}

type Done = (Sender<()>, Receiver<()>);

/// Where a task stands, for one that waits for it.
enum Look {
    /// It returned 0.
    Ended,
    Mine(OpenTask<()>),
    Others(Receiver<()>),
    NeedsChannel,
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
        if entries.recent.len() >= entries.settle_at.max(SETTLE_AT_LEAST) {
            entries.settle();
        }
        entries.issued += 1;
        entries.recent.push_back(Entry::Started(task));
        Ok(entries.issued)
    }

    /// Waits for a task, and returns its code. Its owner waits also if it was cancelled, since the task was as well: what the task returns is known soon.
    pub(crate) fn wait(&self, number: JanusTask, is_owner: bool) -> Result<i64, Refusal> {
        let mut spare = None;
        loop {
            match self.look(number, &mut spare)? {
                Look::Ended => return Ok(0),
                Look::Mine(task) => {
                    let mut waits = Waits { tasks: self, number, task: Some(task) };
                    let task = waits.task.as_mut().expect("it is put back last");
                    if is_owner { shield(|| task.wait()) } else { task.wait() }
                }
                Look::Others(done) => _ = if is_owner { shield(|| done.recv()) } else { done.recv() },
                Look::NeedsChannel => spare = Some(try_channel(1)?), // not made under the lock
            }
        }
    }

    /// Looks where a task stands. If it runs and no other waits for it, the caller gets its handle.
    fn look(&self, number: JanusTask, spare: &mut Option<Done>) -> Result<Look, Refusal> {
        let mut entries = self.lock();
        let issued = entries.issued;
        if number == 0 || number > issued {
            return Err(Refusal::new(
                JANUS_INVALID_ARGUMENT,
                format!("{number} is no task of this nursery, which has started {issued}; pass what a spawn returned"),
            ));
        }
        entries.settle_one(number);
        let Some(entry) = entries.of(number) else { return Ok(Look::Ended) };
        let id = entry.id();
        match entry {
            Entry::Succeeded => Ok(Look::Ended),
            Entry::Failed(code, text) => Err(Refusal { code: *code, text: text.clone() }),
            Entry::Awaited(_, Some((_, done))) => Ok(Look::Others(done.clone())),
            Entry::Awaited(_, others) => {
                *others = spare.take();
                Ok(others.as_ref().map_or(Look::NeedsChannel, |(_, done)| Look::Others(done.clone())))
            }
            Entry::Started(_) => {
                let awaited = Entry::Awaited(id.expect("it has not ended"), None);
                match std::mem::replace(entry, awaited) {
                    Entry::Started(task) => Ok(Look::Mine(task)),
                    _ => unreachable!("it was just seen"),
                }
            }
        }
    }

    /// By which number the nursery knows a task of the runtime; 0 if it does not.
    pub(crate) fn number_of(&self, id: TaskId) -> JanusTask {
        let entries = self.lock();
        let first = entries.first_recent();
        let recent = entries.recent.iter().zip(first..).map(|(entry, number)| (number, entry));
        let mut all = recent.chain(entries.older.iter().map(|(number, entry)| (*number, entry)));
        all.find(|(_, entry)| entry.id() == Some(id)).map_or(0, |(number, _)| number)
    }
}

/// Has the handle of a task while it waits, and puts it back, also if it is cancelled.
struct Waits<'a> {
    tasks: &'a Tasks,
    number: JanusTask,
    task: Option<OpenTask<()>>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut entries = self.tasks.lock();
        let before = match (entries.of(self.number), self.task.take()) {
            (Some(entry), Some(task)) => std::mem::replace(entry, Entry::Started(task)),
            _ => unreachable!("one that waits has the entry and the task"),
        };
        drop(entries);
        drop(before); // wakes the others: not under the lock
    }
}

impl Entry {
    /// Which task of the runtime it is, if it may not have ended.
    fn id(&self) -> Option<TaskId> {
        match self {
            Entry::Started(task) => Some(task.label().id),
            Entry::Awaited(id, _) => Some(*id),
            Entry::Succeeded | Entry::Failed(..) => None,
        }
    }

    /// What is left to be known of it.
    fn settled(self) -> Self {
        match self {
            Entry::Started(task) => match task.try_join() {
                Ok(Ok(())) => Entry::Succeeded,
                Ok(Err(error)) => Entry::Failed(code_of(&error), text_of(&error)),
                Err(running) => Entry::Started(running),
            },
            entry => entry,
        }
    }
}

impl Entries {
    /// The number of the first recent one.
    fn first_recent(&self) -> JanusTask {
        self.issued + 1 - self.recent.len() as u64
    }

    /// None: it returned 0.
    fn of(&mut self, number: JanusTask) -> Option<&mut Entry> {
        match number.checked_sub(self.first_recent()) {
            Some(place) => self.recent.get_mut(usize::try_from(place).ok()?),
            None => self.older.get_mut(&number),
        }
    }

    /// Notes how a task ended, if it has.
    fn settle_one(&mut self, number: JanusTask) {
        if let Some(entry) = self.of(number) {
            let settled = std::mem::replace(entry, Entry::Succeeded).settled();
            *entry = settled;
        }
        while matches!(self.recent.front(), Some(Entry::Succeeded)) {
            self.recent.pop_front();
        }
    }

    /// Lets go of those that have ended.
    #[cold]
    fn settle(&mut self) {
        let mut left = 0;
        for entry in &mut self.recent {
            let settled = std::mem::replace(entry, Entry::Succeeded).settled();
            left += usize::from(!matches!(settled, Entry::Succeeded));
            *entry = settled;
        }
        self.older.retain(|_, entry| {
            let settled = std::mem::replace(entry, Entry::Succeeded).settled();
            *entry = settled;
            !matches!(entry, Entry::Succeeded)
        });
        if left <= self.recent.len() / 2 {
            let first = self.first_recent();
            let kept = self.recent.drain(..).zip(first..).filter(|(entry, _)| !matches!(entry, Entry::Succeeded));
            self.older.extend(kept.map(|(entry, number)| (number, entry)));
        } // else most of them run: to move them would cost more than to look again later
        self.settle_at = 2 * (self.recent.len() + self.older.len());
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
