//! Groups of tasks with shares of CPU time: which there are, and where their tasks wait.
//!
//! Room: state. Knows groups and their queues; which group a worker runs next is `choosing/shares.rs`.
//!
//! A nursery with a weight is a group, and so are all nurseries inside it that have none of their own; all nurseries of a tenant are one group. What belongs to no group is in the root's, whose queues
//! are those of the workers themselves: a runtime without groups does not come here.
//!
//! # Invariants
//! - An unstarted task of a group is in one line of one worker, or in `injected`. Started fibers are in the line of their worker alone.
//! - `counts` says, for each worker, how many of them others may take: not those of groups that wait for time. `rosters` says of which groups they are. See `mech_sync::counts`, `mech_sync::roster`.
//! - `Shared::goes_long_way` is true while there is a group. A group is there as long as a nursery is in it, or a group inside it is there. See `mech_sync::directory`.
//! - No look of an idle worker, and no theft, takes longer because there are more groups.

use std::{
    fmt,
    ops::Deref,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use mech_sync::{Counts, Directory, Gates, Injector, Line, Listing, Members, Roster, SpinLock, directory};
use policy_admission::{
    TenantId,
    cpu::{AdmitError, Admitted, CpuAdmission, Island},
};
use policy_cpu::{ContextSpec, DEPTH_MAX, Latency, Nanos, ShareTree, Weight};
use vocab::Priority;

use super::{
    cpu_server::{Allowance, CpuServer, Held},
    shared::Shared,
    task::{Runnable, RunnableRef},
};

/// How long a group runs on a worker before others may: a compromise between how soon the others come and how often caches are filled anew.
pub(crate) const SLICE: Nanos = 200_000;

/// So many groups a thief looks at before it gives up. Each that has nothing is forgotten, so the next look finds others.
const LOOKS_MOST: usize = 64;

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
    /// Never used again.
    pub(crate) serial: u64,
    pub(crate) parent: Option<Arc<ShareGroup>>,
    /// Keeps the parent there.
    inside: SpinLock<Option<Membership>>,
    /// Nurseries in it, and groups inside it.
    members: Members,
    has_ended: AtomicBool,
    level: u32,
    pub(super) about: About,
    /// What its tasks had of all workers, in nanoseconds.
    pub(crate) served: AtomicU64,
    /// The same with the tasks of groups inside it, also of those that have ended.
    pub(crate) served_inside: AtomicU64,
    /// By worker.
    pub(crate) lines: Box<[Lines]>,
    /// Its context, and those of the groups around it: all of them have to have time.
    pub(crate) servers: Box<[Arc<CpuServer>]>,
    /// The first of them is its own.
    has_server: bool,
    /// Its tasks go before those of groups without a context.
    pub(crate) is_reserved: bool,
    /// Nurseries of it that were cancelled and are not over, if it has servers.
    cancelled: AtomicUsize,
    pub(super) shared: &'static Shared,
}

/// What a group is to be like.
#[derive(Debug, Clone)]
pub(crate) struct About {
    pub(crate) name: Option<Arc<str>>,
    /// In 1024ths of that of a task in no group.
    pub(crate) weight: u32,
    pub(crate) slice: Nanos,
    /// All nurseries of this tenant that are inside the same group are in it.
    pub(crate) tenant: Option<TenantId>,
}

/// What waits for one worker, and what others may take of it.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) high: Line<RunnableRef>,
    pub(crate) unstarted: Line<RunnableRef>,
    pub(crate) low: Line<RunnableRef>,
    listing: Listing,
    /// Futures that yielded: others take them if they have less to run, see `choosing/requeue.rs`.
    pub(crate) yielded: Line<RunnableRef>,
    /// The group has something to run on this worker. Only a hint for others.
    pub(crate) is_awake: AtomicBool,
}

impl Lines {
    /// Whether others could take something from here.
    pub(crate) fn has_unstarted(&self) -> bool {
        !self.unstarted.is_empty() || !self.high.is_empty() || !self.low.is_empty()
    }
}

/// What is to be done about a group on a worker where it waits for time.
pub(crate) enum Notice {
    /// A context that it waited for has time again.
    Released(Arc<ShareGroup>),
    /// Some of its tasks were cancelled.
    Cancelled(Arc<ShareGroup>),
}

/// A tenant inside a group, which has this number; 0 is the root.
type TenantKey = (u32, TenantId);

/// The groups of a runtime.
pub(crate) struct Shares {
    groups: Directory<TenantKey, GroupRef>,
    /// Tasks of groups that no worker has yet: from other threads.
    pub(crate) injected: Injector<(Priority, RunnableRef)>,
    /// By worker: how many tasks of groups others may take from it.
    pub(crate) counts: Counts,
    /// By worker: of which groups.
    rosters: Box<[Roster<ShareGroup>]>,
    /// By worker: what it has to look at.
    pub(crate) notices: Box<[Injector<Notice>]>,
    /// What was promised to contexts.
    admission: Mutex<CpuAdmission>,
    /// What tasks of no group had of all workers, in nanoseconds, since there were groups.
    pub(crate) root_served: AtomicU64,
}

impl Shares {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            groups: Directory::default(),
            injected: Injector::default(),
            counts: Counts::new(workers),
            rosters: (0..workers).map(|_| Roster::default()).collect(),
            notices: (0..workers).map(|_| Injector::default()).collect(),
            admission: Mutex::new(CpuAdmission::new(workers as u32)),
            root_served: AtomicU64::new(0),
        }
    }

    /// How often there was a first group: what workers knew of groups before is void.
    pub(crate) fn generation(&self) -> u64 {
        self.groups.generation()
    }

    /// All groups that have not ended.
    pub(crate) fn all(&self) -> Vec<Arc<ShareGroup>> {
        self.groups.all().into_iter().map(|group| group.0).collect()
    }

    /// Promises a context its time on the workers, if they have it.
    pub(crate) fn admit(&self, name: &str, spec: ContextSpec) -> Result<Admitted, Arc<AdmitError>> {
        self.admit_island(&Island::new(name).task("the context", spec))
    }

    /// The same for all that an island asks for, or nothing of it. A CPU there is a worker here.
    pub(crate) fn admit_island(&self, island: &Island) -> Result<Admitted, Arc<AdmitError>> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner).admit(island).map_err(Arc::new)
    }

    /// A context ended.
    pub(crate) fn release(&self, admitted: &Admitted) {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner).release(admitted);
    }

    /// Whether others than `thief` have tasks of groups that it could take.
    #[inline]
    pub(crate) fn has_stealable(&self, thief: usize) -> bool {
        self.counts.any(|worker| worker != thief)
    }

    /// The next group after `serial`, in turn, that has something unstarted on `victim` and need not wait for time. `looked` is called for each that it looks at.
    pub(crate) fn next_on(&self, victim: usize, serial: u64, looked: impl Fn()) -> Option<Arc<ShareGroup>> {
        for _ in 0..LOOKS_MOST {
            looked();
            let (number, group) = self.rosters[victim].after(serial)?;
            let lines = &group.lines[victim];
            if !lines.has_unstarted() {
                self.rosters[victim].take_off(&lines.listing, number, || !lines.has_unstarted());
            } else if group.is_throttled() {
                self.rosters[victim].hold(number);
                if !group.wait(|| Held::Listing(group.clone(), victim)) {
                    self.put_back(victim, group); // there is time by now
                }
            } else {
                return Some(group);
            }
        }
        None
    }

    /// A group that had no time may be taken from again.
    pub(super) fn put_back(&self, victim: usize, group: Arc<ShareGroup>) {
        if !group.has_ended() {
            self.rosters[victim].put_back(group.serial, group);
        }
    }
}

/// A group in the directory.
#[derive(Clone)]
struct GroupRef(Arc<ShareGroup>);

impl directory::Entry for GroupRef {
    fn members(&self) -> &Members {
        &self.0.members
    }
}

impl ShareGroup {
    /// A group inside `parent`; that of the tenant which is there already, if it is one.
    pub(crate) fn open(
        shared: &'static Shared,
        parent: Option<Membership>,
        about: About,
        server: Option<Arc<CpuServer>>,
    ) -> Membership {
        let groups = &shared.shares.groups;
        let parent_number = parent.as_ref().map_or(ShareTree::ROOT, |parent| parent.number);
        let key = about.tenant.map(|tenant| (parent_number, tenant));
        if let Some(known) = key.as_ref().and_then(|key| groups.join(key)) {
            return Membership(known.0);
        }
        let level = parent.as_ref().map_or(0, |parent| parent.level) + 1;
        assert!(level < DEPTH_MAX, "the caller checks the depth of groups");
        let around = parent.iter().flat_map(|parent| parent.servers.iter().cloned());
        let (has_server, is_reserved) = (server.is_some(), server.as_ref().is_some_and(|server| server.is_reserved()));
        let servers = server.into_iter().chain(around).collect();
        let lines = shared.workers.iter().map(|_| Lines::default()).collect();
        let make = |numbers: directory::Numbers| {
            let group = ShareGroup {
                number: numbers.number + 1, // 0 is the root
                serial: numbers.serial,
                parent: parent.as_deref().cloned(),
                inside: SpinLock::new(parent),
                members: Members::new(),
                has_ended: AtomicBool::new(false),
                level,
                about,
                served: AtomicU64::new(0),
                served_inside: AtomicU64::new(0),
                lines,
                servers,
                has_server,
                is_reserved,
                cancelled: AtomicUsize::new(0),
                shared,
            };
            GroupRef(Arc::new(group))
        };
        let first = || {
            shared.shares.root_served.store(0, Relaxed);
            shared.set_groups(true);
        };
        Membership(groups.join_or_enter(key, make, first).0)
    }

    /// Its last member is gone.
    fn end(&self) {
        self.has_ended.store(true, Relaxed);
        if let Some(server) = self.servers.first().filter(|_| self.has_server) {
            server.retire();
        }
        self.shared.shares.rosters.iter().for_each(|roster| roster.forget(self.serial));
        let key = self.about.tenant.map(|tenant| (self.parent_number(), tenant));
        let last = || self.shared.set_groups(false);
        self.shared.shares.groups.remove(self.number - 1, key.as_ref(), last);
        drop(self.inside.lock().take());
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

    /// Has what `held` makes told when there is time. False if there is.
    pub(crate) fn wait(&self, held: impl Fn() -> Held) -> bool {
        self.servers.iter().filter(|server| server.is_throttled()).any(|server| server.wait(held()))
    }

    /// Whether what is cancelled may unwind although there is no time.
    pub(crate) fn may_unwind(&self, now: Nanos) -> bool {
        self.servers.iter().all(|server| server.may_unwind(now))
    }

    /// Whether some of its tasks may have been cancelled.
    pub(crate) fn has_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed) > 0
    }

    /// A nursery of it was cancelled: where it waits for time, its tasks may unwind.
    pub(super) fn note_cancelled(self: &Arc<Self>) {
        self.cancelled.fetch_add(1, Relaxed);
        if self.servers.iter().any(|server| server.holds_back()) {
            for (worker, notices) in self.shared.workers.iter().zip(&self.shared.shares.notices) {
                notices.push(Notice::Cancelled(self.clone()));
                worker.inbox.notify();
            }
        }
    }

    /// A nursery of it that was cancelled is over.
    pub(super) fn forget_cancelled(&self) {
        self.cancelled.fetch_sub(1, Relaxed);
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

    /// How many groups it is inside of, itself included.
    pub(crate) fn level(&self) -> u32 {
        self.level
    }

    pub(crate) fn weight(&self) -> Weight {
        Weight::clamped(self.about.weight)
    }

    /// The tenant that all of its nurseries belong to, if it is that of one.
    pub(crate) fn tenant(&self) -> Option<TenantId> {
        self.about.tenant
    }

    pub(crate) fn slice(&self) -> Nanos {
        self.about.slice
    }

    /// The number of the group around it.
    pub(crate) fn parent_number(&self) -> u32 {
        self.parent.as_ref().map_or(ShareTree::ROOT, |parent| parent.number)
    }

    /// How many workers beside `worker` have nothing of it to run, and could take something.
    pub(crate) fn absent_workers(&self, worker: usize) -> usize {
        let others = self.lines.iter().zip(&self.shared.workers).enumerate().filter(|(other, _)| *other != worker);
        others.filter(|(_, (lines, slot))| !lines.is_awake.load(Relaxed) && slot.takes.steals()).count()
    }

    /// Itself, and the groups around it.
    pub(crate) fn outwards(&self) -> impl Iterator<Item = &ShareGroup> {
        std::iter::successors(Some(self), |group| group.parent.as_deref())
    }

    fn gates(&self) -> impl Iterator<Item = &Gates> + Clone {
        self.servers.iter().map(|server| server.gates())
    }

    /// Adds an unstarted task to the lines of a worker. The caller [publishes](Self::published) it, and keeps the group until then: the task's nursery may end.
    pub(crate) fn push(&self, worker: usize, priority: Priority, task: RunnableRef) {
        let lines = &self.lines[worker];
        let line = match priority {
            Priority::Normal => &lines.unstarted,
            Priority::High => &lines.high,
            Priority::Low => &lines.low,
        };
        self.shared.shares.counts.push(worker, self.gates(), line, task);
    }

    /// Others may take what was added to the lines of a worker.
    pub(crate) fn published(self: &Arc<Self>, worker: usize) {
        let roster = &self.shared.shares.rosters[worker];
        self.shared.idle.published_with(|| roster.note(&self.lines[worker].listing, self.serial, self));
    }

    /// Counts what was taken from a line of unstarted tasks of `worker`.
    pub(crate) fn taken(&self, worker: usize, task: Option<RunnableRef>) -> Option<RunnableRef> {
        task.inspect(|_| self.shared.shares.counts.taken(worker, self.gates(), 1))
    }

    /// Takes what waits longest of what a worker has not started.
    pub(crate) fn steal_from(&self, victim: usize) -> Option<RunnableRef> {
        let lines = &self.lines[victim];
        let task = lines.high.pop_oldest().or_else(|| lines.unstarted.pop_oldest()).or_else(|| lines.low.pop_oldest());
        self.taken(victim, task)
    }

    /// Takes what is cancelled of what a worker has not started.
    pub(crate) fn take_cancelled(&self, worker: usize) -> Vec<RunnableRef> {
        let Lines { high, unstarted, low, .. } = &self.lines[worker];
        let is_cancelled = |task: &RunnableRef| task.scope().is_cancelled();
        let mut taken = high.extract(is_cancelled);
        taken.extend(unstarted.extract(is_cancelled));
        taken.extend(low.extract(is_cancelled));
        self.shared.shares.counts.taken(worker, self.gates(), taken.len());
        taken
    }

    /// Takes `item` back if it is the newest of a worker.
    pub(crate) fn pop_if_newest(&self, worker: usize, item: *mut Runnable) -> bool {
        let newest = self.lines[worker].unstarted.pop_newest_if(|task| task.is_item(item));
        self.taken(worker, newest).is_some_and(|task| {
            let _same = task.into_item();
            true
        })
    }
}

/// What keeps a group: a nursery in it, or a group inside it.
pub(crate) struct Membership(Arc<ShareGroup>);

impl Clone for Membership {
    fn clone(&self) -> Self {
        self.0.members.join();
        Self(self.0.clone())
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.0.members.leave() {
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
        f.debug_struct("ShareGroup").field("number", &self.number).field("about", &self.about).finish_non_exhaustive()
    }
}
