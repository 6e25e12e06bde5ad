//! The core of a nursery: its state, its members, and how a cancellation reaches them.
//!
//! Room: state. Knows members, limits and the runtime; how one is opened, spawned into and waited for is `nursery/mod.rs`.
//!
//! # Invariant
//! A cancellation reaches every child, and every child's children, once: those that have not started never start, those that run find out at their next checkpoint, those that
//! wait are woken.
//!
//! # Why it holds
//! `cancel` first sets the state, then takes the lock of `inner` and looks at the members; a child first enlists under that lock, then looks at the state: one of the two sees
//! the other. Nested nurseries enlist with the one around them when they open, and cancellation walks that tree with a list of its own, not by recursion, so no depth overflows a
//! stack.

use std::{
    mem::MaybeUninit,
    sync::{
        Arc, Weak,
        atomic::{
            AtomicBool, AtomicU8, AtomicU32, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
    task::Waker,
    time::{Duration, Instant},
};

use mech_sync::{Countdown, SpinLock, WaitToken, Waiter};
use policy_admission::Profile;
use slab::Slab;
use vocab::TaskId;

use super::{
    clock::{Alarm, AlarmKey},
    scope::{self, ScopeRef},
    shared::Shared,
    shares::Membership,
    task::FutureRef,
    wake,
};
use crate::{
    authority::Credentials,
    budget::Account,
    error::{Reason, TaskError},
    gate::Gate,
    options::OnFailure,
    state::{NurseryEvent, NurseryState},
    task_state::TaskState,
};

/// What a cancellation wakes. There may be a million: an entry of theirs is two words.
pub(crate) enum Member {
    /// A fiber, and the task it runs.
    Waiter(&'static Waiter, MemberId),
    Future(FutureRef),
    /// A task that a thread will begin.
    Queued(Box<Waker>),
}

const _: () = assert!(size_of::<Option<Member>>() == 16, "an entry of a member is two words");

/// The number of a member's task. A byte of it has one value: the others are free for the compiler.
pub(crate) struct MemberId {
    low: u32,
    middle: u16,
    high: u8,
    _spare: Spare,
}

#[repr(u8)]
enum Spare {
    Zero = 0,
}

impl MemberId {
    /// Of a waiter that waits for no task.
    const NONE: u64 = (1 << 56) - 1;

    pub(crate) fn of(task: Option<TaskId>) -> Self {
        let id = task.map_or(Self::NONE, |task| task.0); // a process that starts one each nanosecond comes to the last one in two years
        Self { low: id as u32, middle: (id >> 32) as u16, high: (id >> 48) as u8, _spare: Spare::Zero }
    }

    fn is(&self, task: TaskId) -> bool {
        let id = u64::from(self.high) << 48 | u64::from(self.middle) << 32 | u64::from(self.low);
        id == task.0
    }
}

/// Those that stand still in a nursery that is paused.
#[derive(Default)]
pub(crate) struct Standing {
    pub(crate) is_paused: bool,
    pub(crate) tokens: Vec<WaitToken>,
    pub(crate) wakers: Vec<Waker>,
}

/// What all parts of a nursery share.
pub(crate) struct NurseryCore {
    pub(crate) countdown: Countdown,
    pub(crate) owners: Owners,
    pub(crate) state: AtomicU8,
    /// Children are to stop at their next checkpoint: from the cancellation on, or after the grace.
    pub(crate) interrupts: AtomicBool,
    /// A task in it looks closer at its next checkpoint: the nursery is interrupted, was paused, or is in a seeded run.
    pub(crate) attention: AtomicBool,
    pub(crate) shared: &'static Shared,
    /// The waiter of its owner, if that is known before: not if it is owned by a handle.
    pub(crate) owner: Option<&'static Waiter>,
    /// What its options said that counts while it is open: its name, what a failure does, how long children may go on after a cancellation.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) on_failure: OnFailure,
    pub(crate) grace: Option<Duration>,
    /// A cancellation from around it does not come in.
    pub(crate) shielded: bool,
    /// The nursery around this one, and the place there. It ends later.
    pub(crate) outer: Option<ScopeRef>,
    pub(crate) place: AtomicU32,
    /// What its tasks may do, if that was said.
    pub(crate) credentials: Option<Arc<Credentials>>,
    /// What its tasks may spend, if that is limited. Nurseries that one task opens inside each other may share it.
    pub(crate) account: Option<Arc<Account>>,
    /// The account is that of the nursery around it. Known from the beginning, for those that ask after that one has ended.
    pub(crate) shares_account: bool,
    /// Whether and how many tasks may be spawned, if there is a limit.
    pub(crate) gate: Option<Box<Gate>>,
    /// The group whose share of CPU time its tasks have, if they are in one.
    pub(crate) group: Option<Membership>,
    pub(crate) has_alarms: AtomicBool,
    pub(crate) inner: SpinLock<Inner>,
}

/// What the owner writes for every task it starts: on a cache line that no task reads when it begins or ends (false sharing made a spawn half as expensive again).
///
/// Padded, not aligned: aligned allocations are slow, and nurseries are many.
#[repr(C)]
pub(crate) struct Owners {
    _before: MaybeUninit<[u8; 56]>,
    /// Tasks it started. Only the owner writes it.
    pub(crate) started: AtomicU64,
    /// How many more it may spawn without asking the gate. Others may take that back.
    pub(crate) paid: AtomicU64,
    _after: MaybeUninit<[u8; 56]>,
}

impl Owners {
    pub(crate) const fn new() -> Self {
        Self {
            _before: MaybeUninit::uninit(),
            started: AtomicU64::new(0),
            paid: AtomicU64::new(0),
            _after: MaybeUninit::uninit(),
        }
    }
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) members: Slab<Member>,
    pub(crate) nested: Slab<Arc<NurseryCore>>,
    rare: Option<Box<Rare>>,
}

/// What most nurseries never have: memory is taken for it when it is needed.
#[derive(Default)]
pub(crate) struct Rare {
    pub(crate) first: Option<TaskError>,
    pub(crate) others: Vec<TaskError>,
    /// Why it was cancelled, if not because a child failed.
    pub(crate) cancelled_for: Option<Reason>,
    /// The body has what it wants: a cancellation is not a failure.
    pub(crate) dismissed: bool,
    pub(crate) alarms: Vec<AlarmKey>,
    pub(crate) standing: Standing,
}

impl Inner {
    /// For who writes.
    pub(crate) fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// For who looks, or takes.
    pub(crate) fn known(&mut self) -> Option<&mut Rare> {
        self.rare.as_deref_mut()
    }

    /// Everything that was kept.
    pub(crate) fn take_rare(&mut self) -> Option<Box<Rare>> {
        self.rare.take()
    }
}

impl NurseryCore {
    pub(crate) fn shared(&self) -> &'static Shared {
        self.shared
    }

    pub(crate) fn state(&self) -> NurseryState {
        NurseryState::from_bits(self.state.load(Acquire))
    }

    /// Whether what runs in it is to stop at its next checkpoint.
    #[inline]
    pub(crate) fn is_cancelled(&self) -> bool {
        self.interrupts.load(Relaxed)
    }

    /// Whether a checkpoint has to look closer.
    #[inline]
    pub(crate) fn needs_attention(&self) -> bool {
        self.attention.load(Relaxed)
    }

    /// Moves the state; true if that changed it.
    pub(crate) fn step(&self, event: NurseryEvent) -> bool {
        let moved = self.state.fetch_update(AcqRel, Acquire, |bits| {
            let from = NurseryState::from_bits(bits);
            let to = from.after(event).unwrap_or_else(|illegal| panic!("a nursery cannot do that: {illegal:?}"));
            (to != from).then_some(to as u8)
        });
        moved.is_ok()
    }

    /// What its tasks may do, if that was said.
    pub(crate) fn credentials(&self) -> Option<&Arc<Credentials>> {
        self.credentials.as_ref()
    }

    /// The profile around it that has no actors, if one is.
    pub(crate) fn no_actors(&self) -> Option<Profile> {
        self.credentials.as_ref().and_then(|credentials| credentials.no_actors())
    }

    /// What its tasks may spend, if that is limited.
    #[inline(always)]
    pub(crate) fn account(&self) -> Option<&Account> {
        self.account.as_deref()
    }

    pub(crate) fn shared_account(&self) -> Option<&Arc<Account>> {
        self.account.as_ref()
    }

    /// Whether the account is that of the nursery around it.
    pub(crate) fn shares_account(&self) -> bool {
        self.shares_account
    }

    /// Whether the strand with `waiter` opened it.
    #[inline]
    pub(crate) fn is_owned_by(&self, waiter: &'static Waiter) -> bool {
        self.owner.is_some_and(|owner| std::ptr::eq(owner, waiter))
    }

    /// Whether a cancellation, or a pause, from around it does not come in.
    pub(crate) fn is_shielded(&self) -> bool {
        self.shielded
    }

    /// Every task in it looks closer at its next checkpoint.
    pub(crate) fn ask_attention(&self) {
        self.attention.store(true, Relaxed);
    }

    /// Those that stand still in it, under its lock.
    pub(crate) fn standing<R>(&self, f: impl FnOnce(&mut Standing) -> R) -> R {
        f(&mut self.inner.lock().rare().standing)
    }

    /// Whether its owner and every task of it waits for something, as of a moment ago. What is being polled counts as waiting.
    pub(crate) fn waits(&self) -> bool {
        if !self.owner.is_none_or(Waiter::is_parked) {
            return false;
        }
        let inner = self.inner.lock();
        let waiting = inner.members.iter().filter(|(_, member)| match member {
            Member::Waiter(waiter, _) => waiter.is_parked(),
            Member::Future(_) | Member::Queued(_) => true,
        });
        let waiting = waiting.count() as i64;
        waiting >= self.countdown.members(self.owners.started.load(Relaxed))
    }

    /// How many of its tasks have not ended; a worker may not have told of its last ones.
    pub(crate) fn tasks(&self) -> u64 {
        u64::try_from(self.countdown.members(self.owners.started.load(Relaxed))).unwrap_or(0)
    }

    /// Whether none is left, of one whose owner starts no more.
    pub(crate) fn has_no_tasks(&self) -> bool {
        self.tasks() == 0
    }

    /// Counts what keeps it open beside its tasks. Given back by [`NurseryCore::children_ended`].
    pub(crate) fn keep_open(&self) {
        self.countdown.add(1);
    }

    /// The nursery around it.
    pub(crate) fn outer(&self) -> Option<ScopeRef> {
        self.outer
    }

    /// The same for as long as this one is there: it ends later.
    pub(crate) fn outer_ref(&self) -> Option<&NurseryCore> {
        self.outer.as_deref()
    }

    /// How many more tasks its owner paid for.
    pub(crate) fn paid_ahead(&self) -> &AtomicU64 {
        &self.owners.paid
    }

    /// What lets tasks in, if there is a limit.
    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.gate.as_deref()
    }

    /// The group whose share of CPU time its tasks have, if they are in one.
    #[inline]
    pub(crate) fn group(&self) -> Option<&Membership> {
        self.group.as_ref()
    }

    /// The same if that may have to wait for time.
    pub(super) fn limited_group(&self) -> Option<&Membership> {
        self.group.as_ref().filter(|group| !group.servers.is_empty())
    }

    /// The nurseries directly inside.
    pub(crate) fn nested(&self) -> Vec<Arc<NurseryCore>> {
        self.inner.lock().nested.iter().map(|(_, nursery)| nursery.clone()).collect()
    }

    /// A task has run to its end, and that is not known yet: its permit is free before the task that joins it goes on. False if there are plenty, and it is given back with the
    /// next ones.
    #[inline]
    pub(crate) fn give_permit_back(&self) -> bool {
        self.gate.as_deref().is_none_or(Gate::task_ended)
    }

    /// Notes that children ended, of which so many have not given their permit back; the last one wakes the owner. The nursery must not be touched after.
    pub(crate) fn children_ended(&self, children: u32, permits: u32) {
        if let Some(gate) = self.gate.as_ref().filter(|_| permits > 0) {
            gate.give_back(permits);
        }
        if let Some(owner) = self.countdown.done(children) {
            wake::wake(owner, 0);
        }
    }

    /// Adds a member, to be woken by a cancellation. Returns its key, for [`NurseryCore::delist`].
    pub(crate) fn enlist(&self, member: Member) -> u32 {
        u32::try_from(self.inner.lock().members.insert(member)).expect("fewer than 2^32 tasks wait at a time")
    }

    /// Where a fiber, or a thread, of it stands that has not ended.
    pub(crate) fn state_of(&self, task: TaskId) -> TaskState {
        let waiter = self.inner.lock().members.iter().find_map(|(_, member)| match member {
            Member::Waiter(waiter, id) if id.is(task) => Some(*waiter),
            _ => None,
        });
        // A thread that has begun runs unless it is parked; a fiber may wait for its worker.
        let is_thread = |waiter: &Waiter| !self.shared.workers.iter().any(|worker| waiter.is_of(worker.inbox));
        let runs = || self.shared.workers.iter().any(|worker| worker.watch.shows(task));
        match waiter {
            Some(waiter) if waiter.is_parked() => TaskState::Blocked,
            Some(waiter) if is_thread(waiter) => TaskState::Running,
            _ if runs() => TaskState::Running,
            _ => TaskState::Ready,
        }
    }

    /// Removes a member.
    pub(crate) fn delist(&self, place: u32) {
        let member = self.inner.lock().members.remove(place as usize);
        drop(member); // a waker may free its task: not under the lock
    }

    /// Takes no more tasks.
    pub(crate) fn close(&self) {
        self.step(NurseryEvent::Close);
    }

    /// Cancels everything in it after this time.
    pub(crate) fn set_timeout(&self, after: Duration) {
        self.set_alarm(after, move |nursery| Alarm::Deadline { nursery, after });
    }

    /// Cancels everything in it at this time of its clock.
    pub(crate) fn set_deadline(&self, at: Instant) {
        self.set_timeout(at.saturating_duration_since(self.shared.clock.now()));
    }

    pub(super) fn set_alarm(&self, after: Duration, what: impl FnOnce(Weak<NurseryCore>) -> Alarm) {
        let key = self.shared.clock.set(after, what(scope::weak(self)));
        self.inner.lock().rare().alarms.push(key);
        self.has_alarms.store(true, Relaxed);
    }
}

impl Drop for NurseryCore {
    fn drop(&mut self) {
        if *self.interrupts.get_mut()
            && let Some(group) = self.limited_group()
        {
            group.forget_cancelled();
        }
    }
}
