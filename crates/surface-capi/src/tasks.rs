//! Tasks of C functions: how one runs, and what its return is.
//!
//! Room: surface. Knows functions and codes; how others wait for one is `task_table.rs`.
//!
//! # Invariant
//! A task function is called once, or not at all if its nursery was cancelled before; and never after its nursery has ended.
//!
//! # Why it holds
//! It is called by the closure of a task.

use std::{
    cell::RefCell,
    ffi::{c_char, c_void},
    panic::resume_unwind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use sched_tasks::{Cap, CapBudget, TaskError, current_task, fiber_local, is_cancelled, yield_now};

use crate::{
    codes::{ExitCode, JANUS_CANCELLED, JANUS_INVALID_ARGUMENT, JANUS_NOT_ACTIVE, Refusal},
    door::{coded, number},
    forks::{self, Generation},
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

/// No stack of a fiber is larger.
const STACK_BYTES_MAX: usize = 1 << 30;

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
        let JanusTaskConfig { stack_bytes, on_thread, .. } = config;
        if stack_bytes > STACK_BYTES_MAX {
            return Err(Refusal::new(
                JANUS_INVALID_ARGUMENT,
                format!(
                    "a stack of {stack_bytes} bytes is above the limit of {STACK_BYTES_MAX}; lower `stack_bytes`, or allocate what is large"
                ),
            ));
        }
        Ok(Self { name, stack_bytes, on_thread })
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

/// Out of what tasks give themselves more: that of the innermost nursery around that has one.
pub(crate) type Reserve = Arc<Cap<CapBudget>>;

fiber_local! {
    /// That of the nursery this task is in.
    static RESERVE: RefCell<Option<Reserve>> = RefCell::new(None);
}

/// That of the nursery the running task is in.
pub(crate) fn reserve_of_task() -> Option<Reserve> {
    RESERVE.with(|around| around.borrow().clone())
}

/// What a task function is called with.
struct Arg(*mut c_void);

// SAFETY: the caller of a spawn promises that the function may be called with it on any thread.
unsafe impl Send for Arg {}

/// What runs as a task.
pub(crate) fn body(
    function: Function,
    arg: *mut c_void,
    reserve: Option<Reserve>,
) -> impl FnOnce() -> Result<(), TaskError> + Send {
    let arg = Arg(arg);
    move || {
        if reserve.is_some() {
            RESERVE.with(|around| around.replace(reserve));
        }
        let Arg(arg) = { arg };
        let begun = Generation::now();
        let code = match function {
            // SAFETY: as the caller of the spawn promised: see the functions that call `function`.
            Function::OfArg(function) => unsafe { function(arg) },
            // SAFETY: as the caller of the spawn promised: see the functions that call `function_noarg`.
            Function::OfNothing(function) => unsafe { function() },
        };
        if begun.is_past() {
            forks::end_child();
        }
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
