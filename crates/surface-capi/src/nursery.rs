//! Nurseries as C holds them.
//!
//! Room: surface. Knows open nurseries; how one ends is said by [`OpenNursery`].
//!
//! # Invariant
//! A handle of a nursery is valid until it is destroyed, or until what created it has ended: a task, or a thread.
//!
//! # Why it holds
//! What creates a nursery notes the handle among its own values, which are dropped when it ends. By then the nursery has ended.

use std::{
    cell::RefCell,
    ffi::{c_char, c_void},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use sched_tasks::{
    BudgetSupervisor, CapBudget, Delegation, Grant, Ledger, NurseryOptions, OnFailure, OpenNursery, Recharge,
    current_task, fiber_local, internals::has_foreign_reserve,
};

use crate::{
    budget::JanusBudget,
    codes::{JANUS_FAILED, JANUS_NOT_ACTIVE, JANUS_NOT_ALLOWED, JANUS_NOT_OWNER, JANUS_PENDING, Refusal},
    door::{coded, coded_for_all, door, number},
    forks::Generation,
    handles::{self, Held},
    pointers,
    scheduler::{JanusScheduler, Scheduler, common},
    task_table::Tasks,
    tasks::{
        Function, JanusTask, JanusTaskConfig, JanusTaskFn, JanusTaskNoargFn, Reserve, TaskOptions, function,
        function_noarg, reserve_of_task,
    },
    words::FOREIGN_RESERVE,
};

/// A nursery: tasks that end before what created it. It belongs to the task that created it, or to the thread.
pub struct JanusNursery;

/// How a nursery is to be. All zeroes is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct JanusNurseryConfig {
    /// A name for messages, or NULL.
    pub name: *const c_char,
    /// What its tasks may spend in all, or NULL. It comes out of the budget of the task that creates it. Its `spawn_count` is for tasks of this nursery; for nurseries that its tasks create give them a `task_budget` with
    /// one.
    pub budget: *const JanusBudget,
    /// What each of its tasks may spend, or NULL: up to 10000 operations, 1 MiB, 100 channel operations, 10 calls of the operating system and no spawns at a time, and more of what it had while `budget` has some.
    pub task_budget: *const JanusBudget,
    /// How much its tasks may give themselves by `janus_budget_recharge`, in all; or NULL. It comes out of the `reserve` of what is around; where that has a budget and no `reserve`, it is refused.
    pub reserve: *const JanusBudget,
    /// Everything in it is cancelled after this time. 0: never.
    pub timeout_nanoseconds: u64,
    /// How long tasks may go on after a cancellation before calls that wait say `JANUS_CANCELLED`. 0: not at all.
    pub grace_nanoseconds: u64,
    /// How many tasks may be started in it in all. 0: any number.
    pub spawn_limit: u64,
    /// When a task fails, the others go on.
    pub others_go_on: bool,
    /// Tasks that have spent their `task_budget` get more while the nursery has some.
    pub recharges: bool,
    /// Tasks that have spent their budget wait for an answer: see `janus_supervisor_poll_exhausted`.
    pub is_supervised: bool,
}

/// What a handle stands for.
pub(crate) struct Nursery {
    pub(crate) open: OpenNursery,
    pub(crate) tasks: Tasks,
    supervisor: OnceLock<BudgetSupervisor>,
    /// Out of what its tasks may give themselves more: its own, or that of what is around.
    reserve: Option<Reserve>,
    pub(crate) made: Generation,
}

impl Held for Nursery {
    type Opaque = JanusNursery;
    const KIND: u8 = b'N';
    const NAME: &'static str = "nursery";
    const MADE_BY: &'static str = "janus_nursery_create";
}

/// The handles of the nurseries that a task, or a thread, created: they are not valid after its end.
#[derive(Default)]
struct Created(RefCell<Vec<usize>>);

impl Drop for Created {
    fn drop(&mut self) {
        for handle in self.0.take() {
            let removed = handles::remove::<Nursery>(std::ptr::without_provenance(handle));
            removed.map(let_go).ok(); // or it was destroyed
        }
    }
}

/// Lets go of what a handle stood for. In a fork it is not touched: to end it would wait for tasks that are in the parent process.
fn let_go(nursery: Arc<Nursery>) {
    if nursery.made.is_past() {
        std::mem::forget(nursery);
    }
}

/// What a handle stands for, unless that is in the parent process.
pub(crate) fn get(handle: *const JanusNursery) -> Result<Arc<Nursery>, Refusal> {
    let nursery = handles::get::<Nursery>(handle)?;
    if nursery.made.is_past() {
        return Err(of_parent());
    }
    Ok(nursery)
}

#[cold]
fn of_parent() -> Refusal {
    Refusal::new(
        JANUS_NOT_ACTIVE,
        "the nursery was created before a fork, and its tasks are in the parent process; create another, after `janus_rt_shutdown` and `janus_rt_init` for a runtime of the child's own",
    )
}

fiber_local! {
    static CREATED: Created = Created::default();
}

/// The nursery that the caller created last, of those that have not ended.
pub(crate) fn innermost() -> Result<Arc<Nursery>, Refusal> {
    let created = CREATED.with(|created| created.0.borrow().clone());
    let open = |handle: &usize| {
        let nursery = get(std::ptr::without_provenance(*handle)).ok()?;
        (!nursery.open.has_ended()).then_some(nursery)
    };
    created.iter().rev().find_map(open).ok_or_else(|| {
        Refusal::new(
            JANUS_NOT_ACTIVE,
            "NurseryNotActive: the caller has no nursery open; create one with `janus_nursery_create` before it spawns",
        )
    })
}

impl Nursery {
    pub(crate) fn spawn(
        &self,
        function: Function,
        arg: *mut c_void,
        options: TaskOptions,
    ) -> Result<JanusTask, Refusal> {
        self.tasks.start(&self.open, function, arg, options, self.reserve.clone())
    }

    /// Answers for its tasks that have spent their budget. From the first call on they wait.
    pub(crate) fn supervisor(&self) -> Result<&BudgetSupervisor, Refusal> {
        if let Some(supervisor) = self.supervisor.get() {
            return Ok(supervisor);
        }
        let supervisor = self.open.budget_supervisor().ok_or_else(|| {
            Refusal::new(
                JANUS_NOT_ACTIVE,
                "nothing in the nursery is limited, or it has ended; create it with a `budget` or a `task_budget`",
            )
        })?;
        Ok(self.supervisor.get_or_init(|| supervisor))
    }

    fn await_all(&self) -> Result<i64, Refusal> {
        if !self.open.has_ended() && !self.open.is_owned_here() {
            return Err(Refusal::new(
                JANUS_PENDING,
                "the nursery has not ended, and only what created it waits for it; wait for its tasks one by one, or ask again later",
            ));
        }
        match self.open.verdict() {
            None if self.open.has_ended() && !self.open.is_owned_here() => Err(Refusal::new(
                JANUS_FAILED,
                "the nursery was ended by its runtime, and its owner has not asked for its code",
            )),
            _ => self.open.wait_all().map(|()| 0).map_err(Refusal::from),
        }
    }
}

/// There is a nursery with a reserve, or was.
static HAS_RESERVES: AtomicBool = AtomicBool::new(false);

/// The reserve that the caller's tasks may draw on: of the nursery it created last, or of the one it is a task of.
fn reserve_around() -> Option<Reserve> {
    if !HAS_RESERVES.load(Relaxed) {
        return None;
    }
    match innermost() {
        Ok(nursery) => nursery.reserve.clone(),
        Err(_) => reserve_of_task(),
    }
}

/// So much of the reserve around, or of nothing if there is none: then there must be no budget either.
fn reserve_out_of(around: Option<Reserve>, granted: JanusBudget) -> Result<Reserve, Refusal> {
    HAS_RESERVES.store(true, Relaxed);
    let grant = Grant::new(CapBudget::new().limit(granted.into())).delegation(Delegation::Allowed);
    let cap = match around {
        Some(around) => around.attenuate(grant).map_err(|error| Refusal::new(JANUS_NOT_ALLOWED, error.to_string()))?,
        None => Ledger::new().grant(grant),
    };
    Ok(Arc::new(cap))
}

/// # Safety
/// `config` is NULL, or points to a config whose pointers are NULL or point to what their types say.
unsafe fn create(
    scheduler: Option<*mut JanusScheduler>,
    config: *const JanusNurseryConfig,
) -> Result<*mut JanusNursery, Refusal> {
    let mut options = NurseryOptions::new();
    let mut reserve = reserve_around();
    let mut has_own_reserve = false;
    // SAFETY: as the caller promised.
    let config = unsafe { pointers::read(config, "config") }?;
    if let Some(config) = &config {
        // SAFETY: as the caller promised.
        let (name, budget, task_budget, granted) = unsafe {
            (
                pointers::text(config.name),
                pointers::read(config.budget, "budget")?,
                pointers::read(config.task_budget, "task_budget")?,
                pointers::read(config.reserve, "reserve")?,
            )
        };
        if let Some(name) = name {
            options = options.name(name);
        }
        if let Some(budget) = budget {
            options = options.budget(budget.into());
        }
        if let Some(budget) = task_budget {
            options = options.task_budget(budget.into());
        }
        if let Some(granted) = granted {
            let own = reserve_out_of(reserve.take(), granted)?;
            options = options.capability(&*own);
            has_own_reserve = true;
            reserve = Some(own);
        }
        if config.timeout_nanoseconds > 0 {
            options = options.timeout(Duration::from_nanos(config.timeout_nanoseconds));
        }
        if config.grace_nanoseconds > 0 {
            options = options.grace(Duration::from_nanos(config.grace_nanoseconds));
        }
        if config.spawn_limit > 0 {
            options = options.spawn_limit(config.spawn_limit);
        }
        if config.others_go_on {
            options = options.on_failure(OnFailure::WaitAll);
        }
        if config.recharges {
            options = options.recharge(Recharge::FromPool);
        }
    }
    let open = match scheduler {
        Some(scheduler) => handles::get::<Scheduler>(scheduler)?.runtime()?.open_nursery(options)?,
        None if current_task().is_some() || innermost().is_ok() => OpenNursery::with(options)?,
        None => common()?.open_nursery(options)?,
    };
    if has_own_reserve && has_foreign_reserve(&open) {
        return Err(Refusal::new(JANUS_NOT_ALLOWED, FOREIGN_RESERVE));
    }
    let nursery =
        Nursery { open, tasks: Tasks::default(), supervisor: OnceLock::new(), reserve, made: Generation::now() };
    if config.is_some_and(|config| config.is_supervised) {
        nursery.supervisor()?;
    }
    let handle = handles::insert(Arc::new(nursery))?;
    CREATED.with(|created| created.0.borrow_mut().push(handle.addr()));
    Ok(handle)
}

/// Creates a nursery inside that of the caller: in a task on its runtime, else on that of `janus_rt_init`. NULL if that is not possible. What the caller does until it is destroyed is inside it: when it is
/// cancelled, because a task of it failed, calls that wait return `JANUS_CANCELLED`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_nursery_create() -> *mut JanusNursery {
    // SAFETY: NULL needs nothing.
    door(|_| std::ptr::null_mut(), || unsafe { create(None, std::ptr::null()) })
}

/// The same on the runtime `scheduler`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_nursery_create_on(scheduler: *mut JanusScheduler) -> *mut JanusNursery {
    // SAFETY: NULL needs nothing.
    door(|_| std::ptr::null_mut(), || unsafe { create(Some(scheduler), std::ptr::null()) })
}

/// The same as `config` says, on the runtime `scheduler` if that is not NULL.
///
/// # Safety
/// `config` is NULL, or points to a config whose pointers are NULL or point to what their types say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_nursery_create_with(
    scheduler: *mut JanusScheduler,
    config: *const JanusNurseryConfig,
) -> *mut JanusNursery {
    let scheduler = (!scheduler.is_null()).then_some(scheduler);
    // SAFETY: as the caller promised.
    door(|_| std::ptr::null_mut(), || unsafe { create(scheduler, config) })
}

/// Starts a task. 0 if the nursery does not take it. Any task or thread may start one.
///
/// # Safety
/// `task` may be called with `arg`, on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_nursery_spawn(
    nursery: *mut JanusNursery,
    task: JanusTaskFn,
    arg: *mut c_void,
) -> JanusTask {
    door(|_| 0, || get(nursery)?.spawn(function(task)?, arg, TaskOptions::default()))
}

/// The same for a function without an argument.
///
/// # Safety
/// `task` may be called, on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_nursery_spawn_noarg(nursery: *mut JanusNursery, task: JanusTaskNoargFn) -> JanusTask {
    door(
        |_| 0,
        || {
            let task = function_noarg(task)?;
            get(nursery)?.spawn(task, std::ptr::null_mut(), TaskOptions::default())
        },
    )
}

/// The same as `janus_nursery_spawn`, as `config` says: with a name, more stack, or a thread of its own.
///
/// # Safety
/// `task` may be called with `arg`, on any thread. `config` is NULL, or points to a config whose name is NULL or a text that ends with a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_nursery_spawn_with(
    nursery: *mut JanusNursery,
    task: JanusTaskFn,
    arg: *mut c_void,
    config: *const JanusTaskConfig,
) -> JanusTask {
    door(
        |_| 0,
        || {
            // SAFETY: as the caller promised.
            let options = unsafe { TaskOptions::read(config) }?;
            get(nursery)?.spawn(function(task)?, arg, options)
        },
    )
}

/// Starts a task in the nursery that the caller created last and has not destroyed.
///
/// # Safety
/// `task` may be called with `arg`, on any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_scheduler_spawn(task: JanusTaskFn, arg: *mut c_void) -> i32 {
    coded(|| innermost()?.spawn(function(task)?, arg, TaskOptions::default()).map(drop))
}

/// Waits for one task, and returns its code: 0, what its function returned, or a code below 0. Asked again it says the same. Any task or thread may wait.
#[unsafe(no_mangle)]
pub extern "C" fn janus_nursery_await(nursery: *mut JanusNursery, task: JanusTask) -> i64 {
    number(|| {
        let nursery = get(nursery)?;
        nursery.tasks.wait(task, nursery.open.is_owned_here())
    })
}

/// Waits for all tasks, and ends the nursery: it takes no more. Returns 0 if all succeeded; `JANUS_CANCELLED`; the code of the first task that failed; `JANUS_PANICKED`; `JANUS_BUDGET_EXHAUSTED`; `JANUS_OUT_OF_RESOURCES` if there was no
/// stack or thread for a task. Asked again it says the same. Only what created the nursery waits: any other gets the code if it has ended, else `JANUS_PENDING`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_nursery_await_all(nursery: *mut JanusNursery) -> i64 {
    number(|| get(nursery)?.await_all())
}

/// The same without waiting: `JANUS_PENDING` while a task has not ended.
#[unsafe(no_mangle)]
pub extern "C" fn janus_nursery_poll(nursery: *mut JanusNursery) -> i64 {
    number(|| {
        let nursery = get(nursery)?;
        match nursery.open.tasks() {
            0 => nursery.await_all(),
            left => {
                Err(Refusal::new(JANUS_PENDING, format!("{left} tasks of the nursery have not ended; ask again later")))
            }
        }
    })
}

/// Tells all tasks of the nursery to stop, and what its owner does meanwhile. Does not wait. Any task or thread may do that.
#[unsafe(no_mangle)]
pub extern "C" fn janus_nursery_cancel(nursery: *mut JanusNursery) -> i32 {
    coded(|| {
        get(nursery)?.open.cancel();
        Ok(())
    })
}

/// Cancels what still runs in the nursery, waits for it, and lets go of the handle. Nurseries that were created inside it end first. Only what created it may do that, or any once it has ended. In a fork it waits for nothing.
#[unsafe(no_mangle)]
pub extern "C" fn janus_nursery_destroy(nursery: *mut JanusNursery) -> i32 {
    coded_for_all(|| {
        let held = handles::get::<Nursery>(nursery)?;
        if held.made.is_past() {
            let_go(handles::remove::<Nursery>(nursery)?);
            CREATED.with(|created| created.0.borrow_mut().retain(|handle| *handle != nursery.addr()));
            return Ok(());
        }
        if !held.open.has_ended() && !held.open.is_owned_here() {
            return Err(Refusal::new(
                JANUS_NOT_OWNER,
                "only what created a nursery destroys it; cancel it from here with `janus_nursery_cancel`",
            ));
        }
        held.open.close();
        handles::remove::<Nursery>(nursery)?;
        CREATED.with(|created| created.0.borrow_mut().retain(|handle| *handle != nursery.addr()));
        Ok(())
    })
}

/// How many tasks of the nursery have not ended, or a code below 0. A task that has just ended may still be counted.
#[unsafe(no_mangle)]
pub extern "C" fn janus_nursery_task_count(nursery: *mut JanusNursery) -> i64 {
    number(|| Ok(i64::try_from(get(nursery)?.open.tasks()).unwrap_or(i64::MAX)))
}

/// Whether the nursery was cancelled: 1, 0, or a code below 0.
#[unsafe(no_mangle)]
pub extern "C" fn janus_nursery_is_cancelled(nursery: *mut JanusNursery) -> i32 {
    number(|| Ok(i32::from(get(nursery)?.open.state().is_cancelled())))
}
