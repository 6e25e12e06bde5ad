//! Groups of tasks with shares of CPU time: what workers share of them.
//!
//! Room: state. Knows groups and their queues; which group a worker runs next is `choosing/shares.rs`.
//!
//! A nursery with a weight is a group, and so are all nurseries inside it that have none of their own. What belongs to no group is in the root's, whose queues are those of
//! the workers themselves: a runtime without groups does not come here.
//!
//! # Invariants
//! - An unstarted task of a group is in one line of one worker, or in `injected`. Started fibers are in the line of their worker alone.
//! - `unstarted` counts, for each worker, what others may take from its lines: it is counted up before the task can be taken, and a worker is told of it after.
//! - `Shared::goes_long_way` is true while there is a group. A group is there as long as a nursery is in it, or a group inside it is there.
//!
//! # Rejected
//! A lock-free deque for each group and worker: a spawn would cost a third less, and each group 4 KiB more for each worker.

use std::{
    collections::VecDeque,
    fmt,
    ops::Deref,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{AcqRel, Relaxed},
        },
    },
    time::Duration,
};

use mech_sync::{Injector, SpinLock};
use policy_admission::cpu::{AdmitError, Admitted, CpuAdmission, Island};
use policy_cpu::{ContextSpec, DEPTH_MAX, Latency, Nanos, ShareTree, Weight};
use slab::Slab;
use vocab::Priority;

use super::{
    cpu_server::{Allowance, CpuServer},
    shared::Shared,
    task::{Runnable, RunnableRef},
};
use crate::context::Context;

/// How long a group runs on a worker before others may: a compromise between how soon the others come and how often caches are filled anew.
pub(crate) const SLICE: Nanos = 200_000;

/// The slice of a group, for which a CPU's scheduler would use `wanted`: as many times ours, within limits.
pub(crate) fn slice_for(wanted: Nanos) -> Nanos {
    let usual = Latency::Normal.slice().max(1);
    let scaled = u128::from(SLICE) * u128::from(wanted) / u128::from(usual);
    (scaled.min(u128::from(5 * SLICE)) as Nanos).max(SLICE / 4)
}

/// A group of tasks.
pub(crate) struct ShareGroup {
    /// In the trees of the workers; used again when the group is gone.
    pub(crate) number: u32,
    pub(crate) parent: Option<Arc<ShareGroup>>,
    /// Keeps the parent there.
    inside: SpinLock<Option<Membership>>,
    /// Nurseries in it, and groups inside it.
    members: AtomicUsize,
    has_ended: AtomicBool,
    level: u32,
    name: Option<Arc<str>>,
    /// In 1024ths of that of a task in no group.
    weight: u32,
    pub(crate) slice: Nanos,
    /// What its tasks had of all workers, in nanoseconds.
    pub(crate) served: AtomicU64,
    /// By worker.
    pub(crate) lines: Box<[Lines]>,
    /// Its context, and those of the groups around it: all of them have to have time.
    pub(crate) servers: Box<[Arc<CpuServer>]>,
    /// Its tasks go before those of groups without a context.
    pub(crate) is_reserved: bool,
    shared: &'static Shared,
}

/// What waits for one worker, and what others may take of it.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) high: Line,
    pub(crate) unstarted: Line,
    pub(crate) low: Line,
    /// Futures that yielded: only the watchdog takes them away.
    pub(crate) yielded: Line,
}

/// Tasks in the order they came, each with a number that only grows.
#[derive(Default)]
pub(crate) struct Line {
    len: AtomicUsize,
    inner: SpinLock<Numbered>,
}

#[derive(Default)]
struct Numbered {
    tasks: VecDeque<(u64, RunnableRef)>,
    next: u64,
}

impl Line {
    pub(crate) fn push(&self, task: RunnableRef) {
        let mut inner = self.inner.lock();
        let number = inner.next;
        inner.next += 1;
        inner.tasks.push_back((number, task));
        self.len.store(inner.tasks.len(), Relaxed);
    }

    fn take(
        &self,
        take: impl FnOnce(&mut VecDeque<(u64, RunnableRef)>) -> Option<(u64, RunnableRef)>,
    ) -> Option<RunnableRef> {
        if self.is_empty() {
            return None;
        }
        let mut inner = self.inner.lock();
        let taken = take(&mut inner.tasks);
        self.len.store(inner.tasks.len(), Relaxed);
        taken.map(|(_, task)| task)
    }

    pub(crate) fn pop_oldest(&self) -> Option<RunnableRef> {
        self.take(VecDeque::pop_front)
    }

    pub(crate) fn pop_newest(&self) -> Option<RunnableRef> {
        self.take(VecDeque::pop_back)
    }

    /// Takes `item` if it is the newest.
    fn pop_if_newest(&self, item: *mut Runnable) -> Option<RunnableRef> {
        self.take(|tasks| if tasks.back()?.1.is_item(item) { tasks.pop_back() } else { None })
    }

    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number that the next task gets.
    pub(crate) fn mark(&self) -> u64 {
        self.inner.lock().next
    }

    /// Whether all tasks that came before `mark` are gone.
    pub(crate) fn has_passed(&self, mark: u64) -> bool {
        self.is_empty() || self.inner.lock().tasks.front().is_none_or(|(number, _)| *number >= mark)
    }
}

impl Lines {
    /// Whether others could take something from here.
    pub(crate) fn has_unstarted(&self) -> bool {
        !self.unstarted.is_empty() || !self.high.is_empty() || !self.low.is_empty()
    }
}

/// The groups of a runtime.
pub(crate) struct Shares {
    table: SpinLock<Slab<Arc<ShareGroup>>>,
    /// How often there was a first group: what workers knew of groups before is void.
    pub(crate) generation: AtomicU64,
    /// Tasks of groups that no worker has yet: from other threads.
    pub(crate) injected: Injector<(Priority, RunnableRef)>,
    /// By worker: how many tasks of groups others may take from it.
    unstarted: Box<[AtomicUsize]>,
    /// How many contexts have no time left.
    pub(crate) throttled: AtomicUsize,
    /// What was promised to contexts.
    admission: Mutex<CpuAdmission>,
    /// What tasks of no group had of all workers, in nanoseconds, since there were groups.
    pub(crate) root_served: AtomicU64,
}

impl Shares {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            table: SpinLock::default(),
            generation: AtomicU64::new(0),
            injected: Injector::default(),
            unstarted: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            throttled: AtomicUsize::new(0),
            admission: Mutex::new(CpuAdmission::new(workers as u32)),
            root_served: AtomicU64::new(0),
        }
    }

    /// Promises a context its time on the workers, if they have it.
    pub(crate) fn admit(&self, name: &str, spec: ContextSpec) -> Result<Admitted, Arc<AdmitError>> {
        let mut admission = self.admission.lock().unwrap_or_else(PoisonError::into_inner);
        admission.admit(&Island::new(name).task("its tasks", spec)).map_err(Arc::new)
    }

    /// A context ended.
    pub(crate) fn release(&self, admitted: &Admitted) {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner).release(admitted);
    }

    /// Whether others than `thief` have tasks of groups that it could take.
    pub(crate) fn has_stealable(&self, thief: usize) -> bool {
        self.has_unstarted(|worker| worker != thief)
    }

    /// Whether one of these workers has tasks of groups that have not started, and may.
    pub(crate) fn has_unstarted(&self, of: impl Fn(usize) -> bool) -> bool {
        let has_some = self.unstarted.iter().enumerate().any(|(worker, count)| of(worker) && count.load(Relaxed) > 0);
        if !has_some || self.throttled.load(Relaxed) == 0 {
            return has_some;
        }
        // Some of them may be of groups that have no time left.
        let has_some_in = |group: &ShareGroup| {
            let mut lines = group.lines.iter().enumerate().filter(|(worker, _)| of(*worker));
            !group.is_throttled() && lines.any(|(_, lines)| lines.has_unstarted())
        };
        self.table.lock().iter().any(|(_, group)| has_some_in(group))
    }

    pub(crate) fn count_in(&self, worker: usize) {
        self.unstarted[worker].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_out(&self, worker: usize) {
        self.unstarted[worker].fetch_sub(1, Relaxed);
    }

    /// One of the groups, in turn. `turn` counts.
    pub(crate) fn one_of(&self, turn: u32) -> Option<Arc<ShareGroup>> {
        let table = self.table.lock();
        let place = (turn as usize).checked_rem(table.capacity().min(table_end(&table)))?;
        table.get(place).cloned()
    }

    /// All groups that have not ended.
    pub(crate) fn all(&self) -> Vec<Arc<ShareGroup>> {
        self.table.lock().iter().map(|(_, group)| group.clone()).collect()
    }
}

/// One more than the largest place that was ever used.
fn table_end<T>(table: &Slab<T>) -> usize {
    table.iter().next_back().map_or(0, |(place, _)| place + 1)
}

impl ShareGroup {
    /// A group inside `parent`, with so many 1024ths of the share of a task that is in no group.
    pub(crate) fn open(
        shared: &'static Shared,
        parent: Option<Membership>,
        weight: u32,
        slice: Nanos,
        name: Option<Arc<str>>,
        server: Option<Arc<CpuServer>>,
    ) -> Membership {
        let level = parent.as_ref().map_or(0, |parent| parent.level) + 1;
        assert!(level < DEPTH_MAX, "the caller checks the depth of groups");
        let around = parent.iter().flat_map(|parent| parent.servers.iter().cloned());
        let is_reserved = server.as_ref().is_some_and(|server| server.is_reserved());
        let servers = server.into_iter().chain(around).collect();
        let lines = shared.workers.iter().map(|_| Lines::default()).collect();
        let mut table = shared.shares.table.lock();
        let entry = table.vacant_entry();
        let group = Arc::new(ShareGroup {
            number: entry.key() as u32 + 1, // 0 is the root
            parent: parent.as_deref().cloned(),
            inside: SpinLock::new(parent),
            members: AtomicUsize::new(1),
            has_ended: AtomicBool::new(false),
            level,
            name,
            weight,
            slice,
            served: AtomicU64::new(0),
            lines,
            servers,
            is_reserved,
            shared,
        });
        entry.insert(group.clone());
        if table.len() == 1 {
            shared.shares.root_served.store(0, Relaxed);
            shared.shares.generation.fetch_add(1, Relaxed);
            shared.set_groups(true); // under the lock, as below
        }
        Membership(group)
    }

    /// Its last member is gone.
    fn end(&self) {
        self.has_ended.store(true, Relaxed);
        let mut table = self.shared.shares.table.lock();
        let this = table.remove(self.number as usize - 1);
        if table.is_empty() {
            table.clear(); // numbers begin anew: a seeded run depends on no other
            self.shared.set_groups(false);
        }
        drop(table);
        drop(self.inside.lock().take());
        drop(this); // not under the lock
    }

    /// Whether its tasks have to wait until a context has time again.
    pub(crate) fn is_throttled(&self) -> bool {
        self.servers.iter().any(|server| server.is_throttled())
    }

    /// Whether its tasks may run now, and for how long: as long as every context around them allows.
    pub(crate) fn allowance(&self, now: Nanos) -> Allowance {
        let mut all = Allowance::Run(Nanos::MAX);
        for server in &self.servers {
            all = match (all, server.allowance(now)) {
                (_, Allowance::Throttled) => return Allowance::Throttled,
                (Allowance::Run(left), Allowance::Run(more)) => Allowance::Run(left.min(more)),
                _ => Allowance::Demoted,
            };
        }
        all
    }

    /// The time, for charging.
    pub(crate) fn now(&self) -> Nanos {
        self.shared.charging_now()
    }

    /// Whether nothing of it can come any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }

    /// Whether no group can be inside it.
    pub(crate) fn is_deepest(&self) -> bool {
        self.level + 1 >= DEPTH_MAX
    }

    pub(crate) fn weight(&self) -> Weight {
        Weight::clamped(self.weight)
    }

    /// The number of the group around it.
    pub(crate) fn parent_number(&self) -> u32 {
        self.parent.as_ref().map_or(ShareTree::ROOT, |parent| parent.number)
    }

    /// Adds an unstarted task to the lines of a worker. The caller tells the others.
    pub(crate) fn push(&self, worker: usize, priority: Priority, task: RunnableRef) {
        self.shared.shares.count_in(worker);
        let lines = &self.lines[worker];
        match priority {
            Priority::Normal => lines.unstarted.push(task),
            Priority::High => lines.high.push(task),
            Priority::Low => lines.low.push(task),
        }
    }

    /// Counts what was taken from a line of unstarted tasks of `worker`.
    pub(crate) fn taken(&self, worker: usize, task: Option<RunnableRef>) -> Option<RunnableRef> {
        task.inspect(|_| self.shared.shares.count_out(worker))
    }

    /// Takes what waits longest of what a worker has not started.
    pub(crate) fn steal_from(&self, victim: usize) -> Option<RunnableRef> {
        let lines = &self.lines[victim];
        let task = lines.high.pop_oldest().or_else(|| lines.unstarted.pop_oldest()).or_else(|| lines.low.pop_oldest());
        self.taken(victim, task)
    }

    /// Takes `item` back if it is the newest of a worker.
    pub(crate) fn pop_if_newest(&self, worker: usize, item: *mut Runnable) -> bool {
        self.taken(worker, self.lines[worker].unstarted.pop_if_newest(item)).is_some_and(|task| {
            let _same = task.into_item();
            true
        })
    }

    pub(crate) fn share(&self) -> Share {
        Share {
            name: self.name.as_deref().map(str::to_owned),
            weight: self.weight,
            depth: self.level,
            cpu_time: Duration::from_nanos(self.served.load(Relaxed)),
            context: self.servers.first().map(|server| server.context()),
            depletions: self.servers.first().map_or(0, |server| server.depletions()),
            is_throttled: self.is_throttled(),
            unstarted: self.lines.iter().map(|lines| lines.unstarted.len()).sum(),
        }
    }
}

/// What keeps a group: a nursery in it, or a group inside it.
pub(crate) struct Membership(Arc<ShareGroup>);

impl Clone for Membership {
    fn clone(&self) -> Self {
        self.0.members.fetch_add(1, Relaxed);
        Self(self.0.clone())
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.0.members.fetch_sub(1, AcqRel) == 1 {
            self.0.end();
        }
    }
}

impl Deref for Membership {
    type Target = Arc<ShareGroup>;
    fn deref(&self) -> &Arc<ShareGroup> {
        &self.0
    }
}

impl fmt::Debug for ShareGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareGroup").field("number", &self.number).field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a group of tasks has had of the workers' time; see [`NurseryOptions::weight`](crate::NurseryOptions::weight) and [`Runtime::shares`](crate::Runtime::shares).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Share {
    /// The name of its nursery.
    pub name: Option<String>,
    /// Its weight beside the groups that are inside the same one, in 1024ths of that of a task in no group.
    pub weight: u32,
    /// How many groups it is inside of, itself included; 0 for the tasks that are in none.
    pub depth: u32,
    /// How long its tasks had a worker, in all.
    pub cpu_time: Duration,
    /// The context that limits it: its own, or that of a group around it.
    pub context: Option<Context>,
    /// How often that had no time left.
    pub depletions: u64,
    /// Whether its tasks wait for time to come back.
    pub is_throttled: bool,
    /// How many of its tasks have not started.
    pub unstarted: usize,
}

impl Shared {
    /// What each group has had, that of the tasks in no group first. Empty while there is no group: then nothing is measured.
    pub(crate) fn shares_now(&self) -> Vec<Share> {
        let groups = self.shares.all();
        if groups.is_empty() {
            return Vec::new();
        }
        let root = Share {
            name: None,
            weight: Weight::NORMAL.get(),
            depth: 0,
            cpu_time: Duration::from_nanos(self.shares.root_served.load(Relaxed)),
            context: None,
            depletions: 0,
            is_throttled: false,
            unstarted: self.injected.len() + self.workers.iter().map(|worker| worker.stealer.len()).sum::<usize>(),
        };
        std::iter::once(root).chain(groups.iter().map(|group| group.share())).collect()
    }
}
