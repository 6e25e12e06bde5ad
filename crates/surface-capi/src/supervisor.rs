//! Those that give more to tasks that have spent their budget.
//!
//! Room: surface.

use std::time::Duration;

use sched_tasks::{Answer, Budget, Component, Exhausted, TaskId};

use crate::{
    budget::JanusBudget,
    codes::{JANUS_BUDGET_EXHAUSTED, JANUS_INVALID_ARGUMENT, JANUS_NOT_ACTIVE, Refusal},
    door::{coded, number},
    nursery::{self, JanusNursery},
    pointers::Out,
    tasks::JanusTask,
};

/// A task that has spent its budget, and waits for an answer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct JanusExhausted {
    /// Which task.
    pub task: JanusTask,
    /// Of what: one of `JANUS_COMPONENT_…`.
    pub component: u32,
    /// How much it was given in all.
    pub granted: u64,
    /// How much more it needs at least.
    pub missing: u64,
}

/// Operations.
pub const JANUS_COMPONENT_OPS: u32 = 0;
/// Bytes.
pub const JANUS_COMPONENT_MEMORY: u32 = 1;
/// Tasks.
pub const JANUS_COMPONENT_SPAWN_COUNT: u32 = 2;
/// Operations of channels.
pub const JANUS_COMPONENT_CHANNEL_OPS: u32 = 3;
/// Calls of the operating system.
pub const JANUS_COMPONENT_SYSCALLS: u32 = 4;

fn component(component: Component) -> u32 {
    match component {
        Component::Ops => JANUS_COMPONENT_OPS,
        Component::Memory => JANUS_COMPONENT_MEMORY,
        Component::Spawns => JANUS_COMPONENT_SPAWN_COUNT,
        Component::ChannelOps => JANUS_COMPONENT_CHANNEL_OPS,
        Component::Syscalls => JANUS_COMPONENT_SYSCALLS,
    }
}

/// Waits up to `time` for a task that has spent its budget.
fn next_exhausted(nursery: *mut JanusNursery, time: Duration, out: Out<JanusExhausted>) -> Result<i32, Refusal> {
    let nursery = nursery::get(nursery)?;
    let Some(Exhausted { task, component: of, granted, missing, .. }) = nursery.supervisor()?.next_timeout(time) else {
        return Ok(0);
    };
    let task = nursery.tasks.number_of(task.id);
    out.put(JanusExhausted { task, component: component(of), granted, missing });
    Ok(1)
}

/// A task of the nursery that has spent its budget, waits for an answer, and was not told of before. 1 if there is one, 0 if not, or a code below 0. Tasks wait for an answer if the nursery `is_supervised`, or from
/// the first call of this function on.
///
/// # Safety
/// `exhausted` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_supervisor_poll_exhausted(
    nursery: *mut JanusNursery,
    exhausted: *mut JanusExhausted,
) -> i32 {
    number(|| {
        // SAFETY: as the caller promised.
        let out = unsafe { Out::new(exhausted, "exhausted") }?;
        next_exhausted(nursery, Duration::ZERO, out)
    })
}

/// The same, and waits so long for one.
///
/// # Safety
/// As for `janus_supervisor_poll_exhausted`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn janus_supervisor_wait_exhausted(
    nursery: *mut JanusNursery,
    timeout_nanoseconds: u64,
    exhausted: *mut JanusExhausted,
) -> i32 {
    number(|| {
        // SAFETY: as the caller promised.
        let out = unsafe { Out::new(exhausted, "exhausted") }?;
        next_exhausted(nursery, Duration::from_nanos(timeout_nanoseconds), out)
    })
}

fn answer(nursery: *mut JanusNursery, task: JanusTask, answer: Answer) -> Result<Budget, Refusal> {
    let nursery = nursery::get(nursery)?;
    let supervisor = nursery.supervisor()?;
    let asks = |exhausted: &Exhausted| nursery.tasks.number_of(exhausted.task.id) == task && task != 0;
    let id: Option<TaskId> = supervisor.exhausted().iter().find(|&exhausted| asks(exhausted)).map(|asks| asks.task.id);
    id.and_then(|id| supervisor.answer(id, answer)).ok_or_else(|| {
        Refusal::new(
            JANUS_NOT_ACTIVE,
            format!("task {task} waits for no answer; answer those that `janus_supervisor_poll_exhausted` tells of"),
        )
    })
}

/// Gives a task that waits for an answer so much more, out of the budget of the nursery: as much as that has left.
#[unsafe(no_mangle)]
pub extern "C" fn janus_budget_recharge_child(nursery: *mut JanusNursery, task: JanusTask, amount: JanusBudget) -> i32 {
    coded(|| {
        nursery::get(nursery)?; // the handle is looked at first
        let amount = Budget::from(amount);
        if amount == Budget::ZERO {
            return Err(Refusal::new(
                JANUS_INVALID_ARGUMENT,
                format!(
                    "nothing is offered to task {task}; give at least as much as `missing` says, or refuse it with `janus_supervisor_refuse`"
                ),
            ));
        }
        match answer(nursery, task, Answer::Recharge(amount))? {
            Budget::ZERO => Err(Refusal::new(
                JANUS_BUDGET_EXHAUSTED,
                format!(
                    "the nursery has nothing left of what task {task} needs; refuse it, or create the nursery with a larger `budget`"
                ),
            )),
            _ => Ok(()),
        }
    })
}

/// Refuses a task that waits for an answer: its call returns `JANUS_BUDGET_EXHAUSTED`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_supervisor_refuse(nursery: *mut JanusNursery, task: JanusTask) -> i32 {
    coded(|| answer(nursery, task, Answer::Cancel).map(drop))
}
