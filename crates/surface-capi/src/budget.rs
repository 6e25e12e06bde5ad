//! Budgets as C has them, and those who give more.
//!
//! Room: surface.
//!
//! # Invariant
//! What is unlimited is the largest number of its width here, and nothing else is: what is limited but larger shows as one less.

use std::time::Duration;

use sched_tasks::{Answer, Budget, Component, Exhausted, TaskId, UNLIMITED, budget_left, charge, recharge};

use crate::{
    codes::{JANUS_BUDGET_EXHAUSTED, JANUS_NOT_ACTIVE, Refusal},
    door::{coded, door, number},
    handles,
    nursery::{JanusNursery, Nursery},
    pointers::Out,
    tasks::JanusTask,
};

/// What a task may spend. The largest value of a component means: without limit.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JanusBudget {
    /// Operations.
    pub ops: u32,
    /// Bytes.
    pub memory: usize,
    /// Tasks that it may start.
    pub spawn_count: u16,
    /// Values that it may send and receive.
    pub channel_ops: u16,
    /// Calls of the operating system.
    pub syscalls: u16,
}

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

/// Of a component: from the width that C has, and back.
macro_rules! widths {
    ($($widen:ident, $narrow:ident: $type:ty;)+) => {$(
        fn $widen(value: $type) -> u64 {
            if value == <$type>::MAX { UNLIMITED } else { value as u64 }
        }

        fn $narrow(value: u64) -> $type {
            match value {
                UNLIMITED => <$type>::MAX,
                value => <$type>::try_from(value).unwrap_or(<$type>::MAX).min(<$type>::MAX - 1),
            }
        }
    )+};
}

widths! {
    from_u16, to_u16: u16;
    from_u32, to_u32: u32;
    from_usize, to_usize: usize;
}

impl From<JanusBudget> for Budget {
    fn from(budget: JanusBudget) -> Self {
        Budget::ops(from_u32(budget.ops))
            .memory(from_usize(budget.memory))
            .spawns(from_u16(budget.spawn_count))
            .channel_ops(from_u16(budget.channel_ops))
            .syscalls(from_u16(budget.syscalls))
    }
}

impl From<Budget> for JanusBudget {
    fn from(budget: Budget) -> Self {
        Self {
            ops: to_u32(budget.ops),
            memory: to_usize(budget.memory),
            spawn_count: to_u16(budget.spawns),
            channel_ops: to_u16(budget.channel_ops),
            syscalls: to_u16(budget.syscalls),
        }
    }
}

/// What the running task may still spend; without limit if it has no budget, and outside of tasks.
#[unsafe(no_mangle)]
pub extern "C" fn janus_budget_get_current() -> JanusBudget {
    door(|_| Budget::ZERO.into(), || Ok(budget_left().into()))
}

/// Gives the running task so much more, out of the `reserve` of its nursery: as much as that has left.
#[unsafe(no_mangle)]
pub extern "C" fn janus_budget_recharge(amount: JanusBudget) -> i32 {
    coded(|| {
        let wanted = Budget::from(amount);
        let drawn = recharge(wanted)?;
        if wanted != Budget::ZERO && drawn == Budget::ZERO {
            return Err(Refusal::new(
                JANUS_BUDGET_EXHAUSTED,
                "the reserve of the nursery is spent; give it a larger `reserve`",
            ));
        }
        Ok(())
    })
}

/// Pays for so many operations of the running task's own. If it has not so much left it waits for an answer, or the call returns `JANUS_BUDGET_EXHAUSTED`; then every further call does, and the task ends with
/// that code.
#[unsafe(no_mangle)]
pub extern "C" fn janus_budget_charge(ops: u32) -> i32 {
    coded(|| {
        charge(ops.into());
        Ok(())
    })
}

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
    let nursery = handles::get::<Nursery>(nursery)?;
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
    let nursery = handles::get::<Nursery>(nursery)?;
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
    coded(|| match answer(nursery, task, Answer::Recharge(amount.into()))? {
        Budget::ZERO => Err(Refusal::new(
            JANUS_BUDGET_EXHAUSTED,
            format!(
                "the nursery has nothing left of what task {task} needs; refuse it, or create the nursery with a larger `budget`"
            ),
        )),
        _ => Ok(()),
    })
}

/// Refuses a task that waits for an answer: its call returns `JANUS_BUDGET_EXHAUSTED`.
#[unsafe(no_mangle)]
pub extern "C" fn janus_supervisor_refuse(nursery: *mut JanusNursery, task: JanusTask) -> i32 {
    coded(|| answer(nursery, task, Answer::Cancel).map(drop))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_the_same_there_and_back_and_only_what_is_unlimited_shows_as_that() {
        let some = JanusBudget { ops: 7, memory: 1 << 40, spawn_count: 3, channel_ops: 65_534, syscalls: 0 };
        assert_eq!(JanusBudget::from(Budget::from(some)), some);
        let all = JanusBudget {
            ops: u32::MAX,
            memory: usize::MAX,
            spawn_count: u16::MAX,
            channel_ops: u16::MAX,
            syscalls: u16::MAX,
        };
        assert_eq!(Budget::from(all), Budget::UNLIMITED);
        assert_eq!(JanusBudget::from(Budget::UNLIMITED), all);
        let large = JanusBudget::from(Budget::ops(1 << 40).spawns(1 << 20).channel_ops(65_535).syscalls(65_536));
        assert_eq!(
            (large.ops, large.spawn_count, large.channel_ops, large.syscalls),
            (u32::MAX - 1, 65_534, 65_534, 65_534)
        );
    }
}
