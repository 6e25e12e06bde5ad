//! May it have CPU time: admission of scheduling contexts and of realtime islands.
//!
//! Room: decisions. Knows budgets, deadlines and CPUs as numbers; knows nothing of threads or clocks.
//!
//! ```
//! use policy_admission::cpu::{CpuAdmission, Island};
//! use policy_cpu::ContextSpec;
//!
//! let mut admission = CpuAdmission::new(2);
//! let audio = Island::new("audio")
//!     .task("capture", ContextSpec::new(300_000, 5_000_000))
//!     .task("mix", ContextSpec::new(900_000, 5_000_000))
//!     .memory(1 << 20)
//!     .lease(1);
//! let admitted = admission.admit(&audio)?;
//! assert_eq!(admitted.leased().len(), 1);
//!
//! let greedy = Island::new("greedy").task("all", ContextSpec::new(9_900_000, 10_000_000));
//! let refused = admission.admit(&greedy).unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     "greedy: all needs 9.9 ms in every 10 ms; CPU 0 has 9.5 ms left, and 500 µs in every 10 ms are kept for housekeeping"
//! );
//! # Ok::<(), policy_admission::cpu::AdmitError>(())
//! ```

mod demand;
mod island;

use std::fmt;

use policy_cpu::{CpuSet, Nanos};

pub use demand::{Reservation, is_schedulable, largest_budget};
pub use island::{Admitted, Island, IslandId};

/// What is kept of every CPU for the work of the system, in thousandths, unless said otherwise.
pub const HOUSEKEEPING_PERMILLE: u32 = 50;

/// Why an island or a context is not admitted. Nothing has changed then.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmitError {
    /// A budget is zero, larger than its deadline, or its deadline larger than its period.
    BadContext {
        /// The island.
        island: String,
        /// The task.
        task: String,
        /// What it asks for.
        asked: Reservation,
    },
    /// No CPU has so much time left.
    NoTime {
        /// The island.
        island: String,
        /// The task.
        task: String,
        /// What it asks for.
        asked: Reservation,
        /// The CPU that has most left, and how much a task with that period and deadline could have there; none if it may use no CPU.
        best: Option<(u32, Nanos)>,
        /// What is already there of the same island.
        after: Vec<String>,
        /// In thousandths: what is kept for housekeeping.
        reserve: u32,
    },
    /// Too few CPUs can be had for itself.
    NoCpus {
        /// The island.
        island: String,
        /// How many it wants.
        wanted: u32,
        /// How many are free of reservations and leases.
        free: u32,
    },
    /// A CPU has to stay for the system.
    NoHousekeepingCpu {
        /// The island.
        island: String,
        /// How many it wants.
        wanted: u32,
        /// How many there are that are not leased.
        free: u32,
    },
    /// Something that is counted is used up.
    NotEnough {
        /// The island.
        island: String,
        /// Of what.
        what: &'static str,
        /// How much it wants.
        wanted: u64,
        /// How much is left.
        left: u64,
    },
    /// A task comes after one that the island does not have, or after itself.
    BadOrder {
        /// The island.
        island: String,
        /// The task.
        task: String,
        /// What it comes after.
        after: String,
    },
    /// Tasks that come one after the other take longer than the last one's deadline.
    TooLong {
        /// The island.
        island: String,
        /// The last task of the chain.
        task: String,
        /// How long all of them take.
        takes: Nanos,
        /// Its deadline.
        deadline: Nanos,
    },
}

/// A length of time, as people write it.
pub(crate) struct Length(pub(crate) Nanos);

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "µs"),
            1_000_000..1_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let (whole, rest) = (self.0 / unit, self.0 % unit * 1000 / unit);
        let rest = format!("{rest:03}");
        match rest.trim_end_matches('0') {
            "" => write!(f, "{whole} {name}"),
            digits => write!(f, "{whole}.{digits} {name}"),
        }
    }
}

impl fmt::Display for AdmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdmitError::BadContext { island, task, asked } => write!(
                f,
                "{island}: {task} asks for {} with a deadline of {} in every {}; a context needs 0 < budget <= deadline <= period",
                Length(asked.budget),
                Length(asked.deadline),
                Length(asked.period)
            ),
            AdmitError::NoTime { island, task, asked, best, after, reserve } => {
                let (budget, period) = (Length(asked.budget), Length(asked.period));
                write!(f, "{island}: {task} needs {budget} in every {period}")?;
                let Some((cpu, left)) = best else {
                    return write!(f, "; it may use none of the CPUs that are not leased");
                };
                write!(f, "; CPU {cpu} has {} left", Length(*left))?;
                if !after.is_empty() {
                    write!(f, " after {}", after.join(" and "))?;
                }
                if *reserve == 0 {
                    return Ok(());
                }
                let kept = Length((u128::from(asked.period) * u128::from(*reserve) / 1000) as Nanos);
                write!(f, ", and {kept} in every {period} are kept for housekeeping")
            }
            AdmitError::NoCpus { island, wanted, free } => {
                write!(f, "{island} wants {wanted} CPUs for itself; {free} are free of reservations and leases")
            }
            AdmitError::NoHousekeepingCpu { island, wanted, free } => {
                write!(
                    f,
                    "{island} wants {wanted} CPUs for itself; {free} are not leased, and one of them must stay for the system"
                )
            }
            AdmitError::NotEnough { island, what, wanted, left } => {
                write!(f, "{island} wants {wanted} {what}; {left} are left")
            }
            AdmitError::BadOrder { island, task, after } => {
                write!(f, "{island}: {task} comes after {after}, which is not a task before it")
            }
            AdmitError::TooLong { island, task, takes, deadline } => write!(
                f,
                "{island}: {task} and what it comes after take {}, and its deadline is {}",
                Length(*takes),
                Length(*deadline)
            ),
        }
    }
}

impl std::error::Error for AdmitError {}

#[derive(Debug, Clone)]
struct Held {
    island: IslandId,
    task: String,
    reservation: Reservation,
}

#[derive(Debug, Clone, Default)]
struct Cpu {
    held: Vec<Held>,
    lease: Option<IslandId>,
}

/// What was admitted on a machine, and what is left.
#[derive(Debug, Clone)]
pub struct CpuAdmission {
    cpus: Vec<Cpu>,
    reserve: u32,
    memory: u64,
    rings: u64,
    endpoints: u64,
    next: u64,
}

impl CpuAdmission {
    /// A machine of so many CPUs on which nothing is admitted, with memory, rings and endpoints without limit.
    pub fn new(cpus: u32) -> Self {
        CpuAdmission {
            cpus: vec![Cpu::default(); cpus as usize],
            reserve: HOUSEKEEPING_PERMILLE,
            memory: u64::MAX,
            rings: u64::MAX,
            endpoints: u64::MAX,
            next: 0,
        }
    }

    /// What is kept of every CPU that is not leased, in thousandths.
    #[must_use]
    pub fn housekeeping_permille(mut self, reserve: u32) -> Self {
        self.reserve = reserve.min(1000);
        self
    }

    /// How much memory, how many rings and how many endpoints can be reserved in all.
    #[must_use]
    pub fn limits(mut self, memory: u64, rings: u64, endpoints: u64) -> Self {
        (self.memory, self.rings, self.endpoints) = (memory, rings, endpoints);
        self
    }

    /// Admits an island with all its parts, or nothing of it.
    pub fn admit(&mut self, island: &Island) -> Result<Admitted, AdmitError> {
        let mut after = self.clone();
        let admitted = after.take(island)?;
        *self = after;
        Ok(admitted)
    }

    /// Gives back what an island had. Whether it had anything.
    pub fn release(&mut self, admitted: &Admitted) -> bool {
        let id = admitted.id();
        let mut had = false;
        for cpu in &mut self.cpus {
            let before = cpu.held.len();
            cpu.held.retain(|held| held.island != id);
            had |= cpu.held.len() != before || cpu.lease == Some(id);
            cpu.lease = cpu.lease.filter(|lease| *lease != id);
        }
        if had {
            self.memory = self.memory.saturating_add(admitted.memory);
            self.rings = self.rings.saturating_add(admitted.rings);
            self.endpoints = self.endpoints.saturating_add(admitted.endpoints);
        }
        had
    }

    /// How much of a CPU's time is reserved, in thousandths, rounded up.
    pub fn used_permille(&self, cpu: u32) -> u32 {
        let share =
            |held: &Held| (u128::from(held.reservation.budget) * 1_000_000).div_ceil(held.reservation.period.into());
        let parts: u128 = self.cpus[cpu as usize].held.iter().map(share).sum();
        parts.div_ceil(1000) as u32
    }

    fn take(&mut self, island: &Island) -> Result<Admitted, AdmitError> {
        island.check()?;
        let name = || island.name().to_owned();
        let counted = [
            ("bytes of memory", island.memory, &mut self.memory),
            ("rings", island.rings, &mut self.rings),
            ("endpoints", island.endpoints, &mut self.endpoints),
        ];
        for (what, wanted, left) in counted {
            if wanted > *left {
                return Err(AdmitError::NotEnough { island: name(), what, wanted, left: *left });
            }
            if *left != u64::MAX {
                *left -= wanted;
            }
        }
        let id = IslandId(self.next);
        self.next += 1;
        let leased = self.lease(island, id)?;
        let mut placed: Vec<(String, u32)> = Vec::new();
        for task in island.tasks() {
            let reservation = Reservation::of(&task.spec);
            let allowed = if leased.is_empty() { self.common() } else { leased }.and(task.spec.cpus);
            let reserve = if leased.is_empty() { self.reserve } else { 0 };
            // What comes one after the other runs on one CPU: there its order costs nothing.
            let same = task.after.as_ref().and_then(|after| placed.iter().find(|(name, _)| name == after));
            let allowed = same.map_or(allowed, |(_, cpu)| allowed.and(CpuSet::one(*cpu)));
            let left = |cpu: u32| largest_budget(&self.on(cpu), reservation, reserve);
            // The CPU with most left: so large tasks still find room later.
            let best = allowed.iter().map(|cpu| (left(cpu), cpu)).max_by_key(|(left, cpu)| (*left, u32::MAX - cpu));
            match best {
                Some((left, cpu)) if left >= reservation.budget => {
                    let held = Held { island: id, task: task.name.clone(), reservation };
                    self.cpus[cpu as usize].held.push(held);
                    placed.push((task.name.clone(), cpu));
                }
                best => {
                    let on_best = |held: &&Held| held.island == id;
                    let after = best.map(|(_, cpu)| self.cpus[cpu as usize].held.iter().filter(on_best));
                    return Err(AdmitError::NoTime {
                        island: name(),
                        task: task.name.clone(),
                        asked: reservation,
                        best: best.map(|(left, cpu)| (cpu, left)),
                        after: after.into_iter().flatten().map(|held| held.task.clone()).collect(),
                        reserve,
                    });
                }
            }
        }
        Ok(Admitted::new(id, island, leased, placed))
    }

    fn lease(&mut self, island: &Island, id: IslandId) -> Result<CpuSet, AdmitError> {
        let wanted = island.leases;
        if wanted == 0 {
            return Ok(CpuSet::NONE);
        }
        let name = || island.name().to_owned();
        let common = self.common();
        if wanted >= common.len() {
            return Err(AdmitError::NoHousekeepingCpu { island: name(), wanted, free: common.len() });
        }
        // The last ones first: systems like to keep CPU 0 for themselves.
        let is_empty = |cpu: &u32| self.cpus[*cpu as usize].held.is_empty();
        let mut free: Vec<u32> = common.iter().filter(is_empty).collect();
        let count = free.len() as u32;
        if count < wanted {
            return Err(AdmitError::NoCpus { island: name(), wanted, free: count });
        }
        let leased: CpuSet = free.split_off((count - wanted) as usize).into_iter().collect();
        for cpu in leased.iter() {
            self.cpus[cpu as usize].lease = Some(id);
        }
        Ok(leased)
    }

    /// CPUs that no island has for itself.
    fn common(&self) -> CpuSet {
        (0..self.cpus.len() as u32).filter(|cpu| self.cpus[*cpu as usize].lease.is_none()).collect()
    }

    fn on(&self, cpu: u32) -> Vec<Reservation> {
        self.cpus[cpu as usize].held.iter().map(|held| held.reservation).collect()
    }
}
