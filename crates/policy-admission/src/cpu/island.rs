//! Realtime islands: a graph of tasks that is admitted as a whole.
//!
//! Room: values.

use policy_cpu::{ContextSpec, CpuSet, Nanos};

use super::{AdmitError, Reservation};

/// Names an island that was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IslandId(pub(super) u64);

/// A task of an island.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IslandTask {
    pub(super) name: String,
    pub(super) spec: ContextSpec,
    pub(super) after: Option<String>,
}

/// What an island asks for: contexts, memory, CPUs for itself, rings and endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Island {
    name: String,
    tasks: Vec<IslandTask>,
    pub(super) memory: u64,
    pub(super) leases: u32,
    pub(super) rings: u64,
    pub(super) endpoints: u64,
}

impl Island {
    /// An island that asks for nothing yet.
    pub fn new(name: impl Into<String>) -> Self {
        Island { name: name.into(), tasks: Vec::new(), memory: 0, leases: 0, rings: 0, endpoints: 0 }
    }

    /// A task with a context of its own.
    #[must_use]
    pub fn task(mut self, name: impl Into<String>, spec: ContextSpec) -> Self {
        self.tasks.push(IslandTask { name: name.into(), spec, after: None });
        self
    }

    /// A task that starts in every period when another one is done. Both run on one CPU.
    #[must_use]
    pub fn task_after(mut self, name: impl Into<String>, spec: ContextSpec, after: impl Into<String>) -> Self {
        self.tasks.push(IslandTask { name: name.into(), spec, after: Some(after.into()) });
        self
    }

    /// Memory that is set aside, in bytes.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// So many CPUs for itself.
    #[must_use]
    pub fn lease(mut self, cpus: u32) -> Self {
        self.leases = cpus;
        self
    }

    /// Rings and endpoints that it uses.
    #[must_use]
    pub fn connections(mut self, rings: u64, endpoints: u64) -> Self {
        (self.rings, self.endpoints) = (rings, endpoints);
        self
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn tasks(&self) -> &[IslandTask] {
        &self.tasks
    }

    /// What is wrong with it, whatever the machine.
    pub(super) fn check(&self) -> Result<(), AdmitError> {
        for (index, task) in self.tasks.iter().enumerate() {
            let (island, name) = (self.name.clone(), task.name.clone());
            if !task.spec.is_valid() {
                return Err(AdmitError::BadContext { island, task: name, asked: Reservation::of(&task.spec) });
            }
            // A task comes after one that stands before it, so there is no circle.
            let mut takes: Nanos = task.spec.budget;
            let (mut at, mut link) = (index, &task.after);
            while let Some(after) = link {
                let Some(before) = self.tasks[..at].iter().position(|other| other.name == *after) else {
                    return Err(AdmitError::BadOrder { island, task: name, after: after.clone() });
                };
                takes = takes.saturating_add(self.tasks[before].spec.budget);
                (at, link) = (before, &self.tasks[before].after);
            }
            if takes > task.spec.deadline {
                return Err(AdmitError::TooLong { island, task: name, takes, deadline: task.spec.deadline });
            }
        }
        Ok(())
    }
}

/// What an island got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    id: IslandId,
    leased: CpuSet,
    placed: Vec<(String, u32)>,
    pub(super) memory: u64,
    pub(super) rings: u64,
    pub(super) endpoints: u64,
}

impl Admitted {
    pub(super) fn new(id: IslandId, island: &Island, leased: CpuSet, placed: Vec<(String, u32)>) -> Self {
        let Island { memory, rings, endpoints, .. } = *island;
        Admitted { id, leased, placed, memory, rings, endpoints }
    }

    /// Its name among all that were admitted.
    pub const fn id(&self) -> IslandId {
        self.id
    }

    /// The CPUs it has for itself.
    pub const fn leased(&self) -> CpuSet {
        self.leased
    }

    /// On which CPU a task has its time.
    pub fn cpu_of(&self, task: &str) -> Option<u32> {
        self.placed.iter().find(|(name, _)| name == task).map(|(_, cpu)| *cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::super::CpuAdmission;
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn an_island_that_does_not_fit_leaves_nothing_behind() {
        let mut admission = CpuAdmission::new(2).limits(1000, 4, 4);
        let before = format!("{admission:?}");
        let fits = Island::new("fits").task("a", ContextSpec::new(5 * MS, 10 * MS)).memory(400).connections(1, 1);
        for (island, says) in [
            (fits.clone().memory(1001), "fits wants 1001 bytes of memory; 1000 are left"),
            (fits.clone().connections(5, 0), "fits wants 5 rings; 4 are left"),
            (fits.clone().connections(0, 5), "fits wants 5 endpoints; 4 are left"),
            (
                fits.clone().lease(2),
                "fits wants 2 CPUs for itself; 2 are not leased, and one of them must stay for the system",
            ),
            (
                fits.clone().task("b", ContextSpec::new(5 * MS, 10 * MS)).task("c", ContextSpec::new(5 * MS, 10 * MS)),
                "fits: c needs 5 ms in every 10 ms; CPU 0 has 4.5 ms left after a, and 500 µs in every 10 ms are kept for housekeeping",
            ),
            (
                fits.clone().task("b", ContextSpec::new(11 * MS, 10 * MS)),
                "fits: b asks for 11 ms with a deadline of 10 ms in every 10 ms; a context needs 0 < budget <= deadline <= period",
            ),
            (
                fits.clone().task_after("b", ContextSpec::new(MS, 10 * MS), "none"),
                "fits: b comes after none, which is not a task before it",
            ),
            (
                fits.clone().task_after("b", ContextSpec::new(6 * MS, 10 * MS), "a"),
                "fits: b and what it comes after take 11 ms, and its deadline is 10 ms",
            ),
        ] {
            assert_eq!(admission.admit(&island).unwrap_err().to_string(), says);
            assert_eq!(format!("{admission:?}"), before, "{says}");
        }
        assert!(admission.admit(&fits).is_ok());
    }

    #[test]
    fn what_is_released_can_be_had_again() {
        let mut admission = CpuAdmission::new(2).limits(100, 1, 1);
        let island = Island::new("audio")
            .task("capture", ContextSpec::new(MS, 5 * MS))
            .task_after("mix", ContextSpec::new(2 * MS, 5 * MS), "capture")
            .memory(100)
            .connections(1, 1)
            .lease(1);
        for _ in 0..3 {
            let admitted = admission.admit(&island).unwrap();
            assert_eq!(admitted.leased(), CpuSet::one(1));
            assert_eq!((admitted.cpu_of("capture"), admitted.cpu_of("mix")), (Some(1), Some(1)));
            assert_eq!(admission.used_permille(1), 600);
            let refused = admission.admit(&Island::new("second").lease(1)).unwrap_err();
            assert!(matches!(refused, AdmitError::NoHousekeepingCpu { .. }), "{refused}");
            assert!(admission.release(&admitted));
            assert!(!admission.release(&admitted), "once");
        }
    }

    #[test]
    fn a_cpu_with_reservations_is_not_leased() {
        let mut admission = CpuAdmission::new(3);
        let everywhere = Island::new("base")
            .task("a", ContextSpec { cpus: CpuSet::one(1), ..ContextSpec::new(MS, 10 * MS) })
            .task("b", ContextSpec { cpus: CpuSet::one(2), ..ContextSpec::new(MS, 10 * MS) });
        admission.admit(&everywhere).unwrap();
        let refused = admission.admit(&Island::new("audio").lease(2)).unwrap_err();
        assert_eq!(refused.to_string(), "audio wants 2 CPUs for itself; 1 are free of reservations and leases");
    }
}
