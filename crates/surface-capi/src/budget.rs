//! Budgets as C has them, and what the running task may do about its own.
//!
//! Room: surface.
//!
//! # Invariant
//! What is unlimited is the largest number of its width here, and nothing else is: what is limited but larger shows as one less.

use sched_tasks::{Budget, UNLIMITED, budget_left, charge, recharge};

use crate::{
    codes::{JANUS_BUDGET_EXHAUSTED, Refusal},
    door::{coded, door},
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
