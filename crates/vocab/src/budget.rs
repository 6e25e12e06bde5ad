//! What a task may spend: five kinds of things, counted.
//!
//! Room: values.
//!
//! # Invariant
//! A charge takes all of a cost or nothing. No sum wraps: additions stop at the largest number, which means *unlimited* and stays so.

use core::{fmt, ops::Index};

/// In a [`Budget`]: no limit. Charging it leaves it as it is.
pub const UNLIMITED: u64 = u64::MAX;

/// An amount of each of five things. A grant, what is left of one, and what something costs are all budgets.
///
/// ```
/// use vocab::{Budget, Component};
///
/// let mut left = Budget::ops(100).memory(4096);
/// left.charge(&Budget::ops(1).memory(64)).unwrap();
/// let shortage = left.charge(&Budget::ops(1).spawns(1)).unwrap_err();
/// assert_eq!(shortage.component, Component::Spawns);
/// assert_eq!(left, Budget::ops(99).memory(4032)); // all or nothing
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Loop iterations, calls and other operations.
    pub ops: u64,
    /// Bytes allocated and not freed.
    pub memory: u64,
    /// Tasks started.
    pub spawns: u64,
    /// Sends and receives.
    pub channel_ops: u64,
    /// Calls of the operating system: files, sockets, everything that blocks a thread.
    pub syscalls: u64,
}

/// One of the five components.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// See [`Budget::ops`].
    Ops,
    /// See [`Budget::memory`].
    Memory,
    /// See [`Budget::spawns`].
    Spawns,
    /// See [`Budget::channel_ops`].
    ChannelOps,
    /// See [`Budget::syscalls`].
    Syscalls,
}

/// Why a charge was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortage {
    /// What there was too little of; the first, if several.
    pub component: Component,
    /// How much was wanted.
    pub wanted: u64,
    /// How much was there.
    pub left: u64,
}

impl Component {
    /// All five, in the order in which a shortage is looked for.
    pub const ALL: [Component; 5] =
        [Component::Ops, Component::Memory, Component::Spawns, Component::ChannelOps, Component::Syscalls];

    /// Whether a task stops as soon as the last of it is spent. For the other components it stops at the operation that
    /// needs one more.
    pub const fn stops_when_spent(self) -> bool {
        matches!(self, Component::Ops | Component::Memory)
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Component::Ops => "ops",
            Component::Memory => "memory",
            Component::Spawns => "spawns",
            Component::ChannelOps => "channel ops",
            Component::Syscalls => "syscalls",
        })
    }
}

/// What is left of `left` after `cost`; the caller has checked that there is enough.
const fn less(left: u64, cost: u64) -> u64 {
    if left == UNLIMITED { UNLIMITED } else { left - cost }
}

impl Budget {
    /// Nothing of anything.
    pub const ZERO: Budget = Budget { ops: 0, memory: 0, spawns: 0, channel_ops: 0, syscalls: 0 };
    /// No limit on anything.
    pub const UNLIMITED: Budget =
        Budget { ops: UNLIMITED, memory: UNLIMITED, spawns: UNLIMITED, channel_ops: UNLIMITED, syscalls: UNLIMITED };

    /// This many operations, and nothing else: what is not named is not granted.
    pub const fn ops(ops: u64) -> Budget {
        Budget { ops, ..Budget::ZERO }
    }

    /// The same with this many operations.
    pub const fn with_ops(mut self, ops: u64) -> Budget {
        self.ops = ops;
        self
    }

    /// The same with this many bytes.
    pub const fn memory(mut self, bytes: u64) -> Budget {
        self.memory = bytes;
        self
    }

    /// The same with this many tasks.
    pub const fn spawns(mut self, tasks: u64) -> Budget {
        self.spawns = tasks;
        self
    }

    /// The same with this many sends and receives.
    pub const fn channel_ops(mut self, operations: u64) -> Budget {
        self.channel_ops = operations;
        self
    }

    /// The same with this many calls of the operating system.
    pub const fn syscalls(mut self, calls: u64) -> Budget {
        self.syscalls = calls;
        self
    }

    /// One of the five.
    pub const fn get(&self, component: Component) -> u64 {
        match component {
            Component::Ops => self.ops,
            Component::Memory => self.memory,
            Component::Spawns => self.spawns,
            Component::ChannelOps => self.channel_ops,
            Component::Syscalls => self.syscalls,
        }
    }

    /// Sets one of the five.
    pub const fn set(&mut self, component: Component, amount: u64) {
        match component {
            Component::Ops => self.ops = amount,
            Component::Memory => self.memory = amount,
            Component::Spawns => self.spawns = amount,
            Component::ChannelOps => self.channel_ops = amount,
            Component::Syscalls => self.syscalls = amount,
        }
    }

    /// The first shortage for `cost`, if there is one.
    pub const fn shortage(&self, cost: &Budget) -> Option<Shortage> {
        let mut at = 0;
        while at < Component::ALL.len() {
            let component = Component::ALL[at];
            let (left, wanted) = (self.get(component), cost.get(component));
            if left < wanted {
                return Some(Shortage { component, wanted, left });
            }
            at += 1;
        }
        None
    }

    /// Whether it could pay `cost`.
    #[inline]
    pub const fn covers(&self, cost: &Budget) -> bool {
        // All five are compared at once: this is asked for every task, and the answer is mostly yes.
        (self.ops >= cost.ops)
            & (self.memory >= cost.memory)
            & (self.spawns >= cost.spawns)
            & (self.channel_ops >= cost.channel_ops)
            & (self.syscalls >= cost.syscalls)
    }

    /// Pays `cost`: all of it or nothing.
    pub const fn charge(&mut self, cost: &Budget) -> Result<(), Shortage> {
        match self.covers(cost) {
            false => match self.shortage(cost) {
                Some(shortage) => Err(shortage),
                None => unreachable!(), // if the cost is not covered, something is short
            },
            true => {
                self.ops = less(self.ops, cost.ops);
                self.memory = less(self.memory, cost.memory);
                self.spawns = less(self.spawns, cost.spawns);
                self.channel_ops = less(self.channel_ops, cost.channel_ops);
                self.syscalls = less(self.syscalls, cost.syscalls);
                Ok(())
            }
        }
    }

    /// Adds `amount`. A sum above the largest number is unlimited.
    pub const fn recharge(&mut self, amount: &Budget) {
        self.ops = self.ops.saturating_add(amount.ops);
        self.memory = self.memory.saturating_add(amount.memory);
        self.spawns = self.spawns.saturating_add(amount.spawns);
        self.channel_ops = self.channel_ops.saturating_add(amount.channel_ops);
        self.syscalls = self.syscalls.saturating_add(amount.syscalls);
    }

    /// The smaller amount of each component.
    #[must_use]
    pub fn min(&self, other: &Budget) -> Budget {
        Budget {
            ops: self.ops.min(other.ops),
            memory: self.memory.min(other.memory),
            spawns: self.spawns.min(other.spawns),
            channel_ops: self.channel_ops.min(other.channel_ops),
            syscalls: self.syscalls.min(other.syscalls),
        }
    }

    /// The difference of each component, at least zero.
    #[must_use]
    pub const fn saturating_sub(&self, other: &Budget) -> Budget {
        Budget {
            ops: self.ops.saturating_sub(other.ops),
            memory: self.memory.saturating_sub(other.memory),
            spawns: self.spawns.saturating_sub(other.spawns),
            channel_ops: self.channel_ops.saturating_sub(other.channel_ops),
            syscalls: self.syscalls.saturating_sub(other.syscalls),
        }
    }
}

impl Index<Component> for Budget {
    type Output = u64;
    fn index(&self, component: Component) -> &u64 {
        match component {
            Component::Ops => &self.ops,
            Component::Memory => &self.memory,
            Component::Spawns => &self.spawns,
            Component::ChannelOps => &self.channel_ops,
            Component::Syscalls => &self.syscalls,
        }
    }
}

impl fmt::Display for Budget {
    /// Names what there is: `ops 100, memory 4096`. Unlimited is `∞`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for component in Component::ALL {
            let amount = self[component];
            if amount == 0 {
                continue;
            }
            if !first {
                f.write_str(", ")?;
            }
            first = false;
            if amount == UNLIMITED {
                write!(f, "{component} ∞")?;
            } else {
                write!(f, "{component} {amount}")?;
            }
        }
        if first { f.write_str("nothing") } else { Ok(()) }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({self})")
    }
}

/// An operation that is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// One iteration of a loop.
    LoopIteration,
    /// A call of a function.
    FunctionCall,
    /// Memory allocated.
    Allocation {
        /// How much.
        bytes: u64,
    },
    /// A task started.
    Spawn,
    /// A message sent.
    ChannelSend,
    /// A message received.
    ChannelReceive,
    /// A file read, written, opened.
    FileIo,
    /// A socket read, written, opened.
    NetworkIo,
}

impl Operation {
    /// What it costs.
    pub const fn cost(self) -> Budget {
        match self {
            Operation::LoopIteration | Operation::FunctionCall => Budget::ops(1),
            Operation::Allocation { bytes } => Budget::ops(1).memory(bytes),
            Operation::Spawn => Budget::ops(1).spawns(1),
            Operation::ChannelSend | Operation::ChannelReceive => Budget::ops(1).channel_ops(1),
            Operation::FileIo | Operation::NetworkIo => Budget::ops(1).syscalls(1),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_charge_takes_all_or_nothing() {
        let mut left = Budget::ops(5).channel_ops(1);
        assert_eq!(
            left.charge(&Budget::ops(2).channel_ops(2)),
            Err(Shortage { component: Component::ChannelOps, wanted: 2, left: 1 })
        );
        assert_eq!(left, Budget::ops(5).channel_ops(1));
        assert_eq!(left.charge(&Budget::ops(5).channel_ops(1)), Ok(()));
        assert_eq!(left, Budget::ZERO);
    }

    #[test]
    fn a_recharge_stops_at_the_largest_number() {
        let mut left = Budget::ops(UNLIMITED - 1).memory(7);
        left.recharge(&Budget::ops(10).memory(1));
        assert_eq!(left, Budget::ops(UNLIMITED).memory(8));
    }

    #[test]
    fn what_is_unlimited_stays_so() {
        let mut left = Budget::UNLIMITED;
        assert_eq!(left.charge(&Budget::ops(u64::MAX - 1).spawns(3)), Ok(()));
        assert_eq!(left.charge(&Budget::UNLIMITED), Ok(()));
        assert_eq!(left, Budget::UNLIMITED);
    }

    #[test]
    fn nothing_can_pay_for_nothing() {
        assert!(Budget::ZERO.covers(&Budget::ZERO));
        assert!(!Budget::ZERO.covers(&Budget::ZERO.memory(1)));
    }

    #[test]
    fn a_budget_reads_as_what_there_is() {
        assert_eq!(Budget::ops(3).syscalls(UNLIMITED).to_string(), "ops 3, syscalls ∞");
        assert_eq!(Budget::ZERO.to_string(), "nothing");
    }

    #[test]
    fn every_operation_costs_what_the_table_says() {
        let table = [
            (Operation::LoopIteration, [1, 0, 0, 0, 0]),
            (Operation::FunctionCall, [1, 0, 0, 0, 0]),
            (Operation::Allocation { bytes: 48 }, [1, 48, 0, 0, 0]),
            (Operation::Spawn, [1, 0, 1, 0, 0]),
            (Operation::ChannelSend, [1, 0, 0, 1, 0]),
            (Operation::ChannelReceive, [1, 0, 0, 1, 0]),
            (Operation::FileIo, [1, 0, 0, 0, 1]),
            (Operation::NetworkIo, [1, 0, 0, 0, 1]),
        ];
        for (operation, costs) in table {
            assert_eq!(Component::ALL.map(|component| operation.cost()[component]), costs, "{operation:?}");
        }
    }
}
