//! Nurseries: a scope that owns its tasks, waits for them, and tells them to stop.
//!
//! # Invariants
//! A nursery's block is left only after all its children ended. A cancellation reaches every child, and every child's children, once: those that have
//! not started never start, those that run find out at their next checkpoint, those that wait are woken.
//!
//! # Why they hold
//! Children are counted in a [`Countdown`], whose last member wakes the owner. `cancel` first sets the state, then takes the lock of `inner` and looks who is
//! enlisted; a child first enlists under that lock, then looks at the state: one of the two sees the other. Nested nurseries enlist with the one around them
//! when they open, and cancellation walks that tree with a list of its own, not by recursion, so no depth overflows a stack.

mod gate;
mod owned;
mod pause;
mod verdict;

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

use mech_sync::{Countdown, SpinLock, Waiter};
use policy_admission::Profile;
use slab::Slab;
use vocab::TaskId;

use crate::{
    authority::Credentials,
    budget::Account,
    drive::{
        clock::{Alarm, AlarmKey},
        shared::Shared,
    },
    error::{Reason, TaskError},
    options::NurseryOptions,
    raw::scope::ScopeRef,
    state::{NurseryEvent, NurseryState},
    strand::{self, Strand, Woken},
    task_state::TaskState,
};

use self::gate::Gate;
pub(crate) use self::owned::Groups;
pub use self::owned::{OwnedNursery, Spawner};
pub use self::pause::Pauser;
use self::pause::Standing;
pub(crate) use self::verdict::Body;

/// Somebody to be woken by a cancellation.
pub(crate) enum Member {
    /// A fiber, and the task it runs.
    Waiter(&'static Waiter, Option<TaskId>),
    Future(Waker),
}

/// What all parts of a nursery share.
pub(crate) struct NurseryCore {
    countdown: Countdown,
    owners: Owners,
    state: AtomicU8,
    /// Children heed the cancellation: at once, or after the grace.
    interrupts: AtomicBool,
    /// Whoever runs in it looks closer at its next checkpoint: it is interrupted, or in a seeded run.
    attention: AtomicBool,
    /// For a deadline, which may outlive the nursery.
    this: Weak<NurseryCore>,
    shared: &'static Shared,
    /// Who waits for its tasks, if that is known before: not if it is owned by a handle.
    owner: Option<&'static Waiter>,
    options: NurseryOptions,
    /// A cancellation from around it does not come in.
    shielded: bool,
    /// The nursery around this one, and the place there. It ends later.
    outer: Option<ScopeRef>,
    place: AtomicU32,
    /// What its tasks may do, if that was said.
    credentials: Option<Arc<Credentials>>,
    /// What its tasks may spend, if that is limited. Nurseries that one task opens inside each other may share it.
    account: Option<Arc<Account>>,
    /// Whether and how many tasks may be spawned, if not everybody may.
    gate: Option<Gate>,
    has_alarms: AtomicBool,
    inner: SpinLock<Inner>,
}

/// What the owner writes for every task it starts: on a cache line that no task reads when it begins or ends (false sharing made a spawn half as expensive again).
///
/// Padded, not aligned: aligned allocations are slow, and nurseries are many.
#[repr(C)]
struct Owners {
    _before: MaybeUninit<[u8; 56]>,
    /// Tasks it started. Only the owner writes it.
    started: AtomicU64,
    /// How many more it may spawn without asking the gate. Others may take that back.
    paid: AtomicU64,
    _after: MaybeUninit<[u8; 56]>,
}

impl Owners {
    const fn new() -> Self {
        Self {
            _before: MaybeUninit::uninit(),
            started: AtomicU64::new(0),
            paid: AtomicU64::new(0),
            _after: MaybeUninit::uninit(),
        }
    }
}

#[derive(Default)]
struct Inner {
    members: Slab<Member>,
    nested: Slab<Arc<NurseryCore>>,
    first: Option<TaskError>,
    others: Vec<TaskError>,
    /// Why it was cancelled, if not because a child failed.
    cancelled_for: Option<Reason>,
    /// The body has what it wants: a cancellation is not a failure.
    dismissed: bool,
    alarms: Vec<AlarmKey>,
    standing: Standing,
}

/// What the tasks of a nursery may do and spend.
#[derive(Default)]
pub(crate) struct Limits {
    credentials: Option<Arc<Credentials>>,
    account: Option<Arc<Account>>,
}

impl Limits {
    /// Those of a nursery that `strand` opens inside `outer`.
    #[inline(always)]
    pub(crate) fn of(
        strand: &Strand,
        outer: Option<ScopeRef>,
        shared: &'static Shared,
        options: &NurseryOptions,
    ) -> Self {
        let limited = strand.meter.is_metered() || outer.is_some_and(|outer| outer.account().is_some());
        let credentials = Credentials::inside(&options.authority, strand.credentials().as_ref(), limited, shared);
        let account = options.account(strand, outer, credentials.as_deref(), shared);
        Self { credentials, account }
    }
}

impl NurseryCore {
    /// Opens a nursery of `strand`, inside the one it is in.
    #[inline(never)] // it needs a large frame, and only now is known to have room
    pub(crate) fn open(strand: &Strand, shared: &'static Shared, options: NurseryOptions) -> Arc<Self> {
        let outer = strand.scope.get();
        let core = Self::make(
            strand,
            Some(strand.waiter),
            outer,
            shared,
            Limits::of(strand, outer, shared, &options),
            options,
        );
        if let Some(outer) = core.outer {
            let place = outer.inner.lock().nested.insert(core.clone());
            core.place.store(u32::try_from(place).expect("fewer than 2^32 nurseries at a time"), Relaxed);
            // A cancellation or a pause that came before did not see us.
            if !core.shielded && outer.needs_attention() {
                core.ask_attention();
            }
            if !core.shielded && outer.state().is_cancelled() {
                core.cancel_tree(outer.is_cancelled());
            }
        }
        core.start_deadline();
        core
    }

    /// Opens a nursery that nobody's block waits for: it is inside no other, and what owns it ends it.
    #[inline(never)]
    pub(crate) fn open_apart(
        strand: &Strand,
        shared: &'static Shared,
        limits: Limits,
        options: NurseryOptions,
    ) -> Arc<Self> {
        let core = Self::make(strand, None, None, shared, limits, options);
        core.start_deadline();
        core
    }

    fn start_deadline(&self) {
        if let Some(after) = self.options.timeout {
            self.set_timeout(after);
        }
        if let Some(at) = self.options.deadline {
            self.set_deadline(at);
        }
    }

    #[inline(always)]
    fn make(
        strand: &Strand,
        owner: Option<&'static Waiter>,
        outer: Option<ScopeRef>,
        shared: &'static Shared,
        limits: Limits,
        options: NurseryOptions,
    ) -> Arc<Self> {
        let shielded = strand.shields.get() > 0;
        let Limits { credentials, account } = limits;
        let gate = Gate::new(&options, credentials.as_deref(), account.is_some(), shared);
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            countdown: Countdown::new(),
            owners: Owners::new(),
            state: AtomicU8::new(NurseryState::Open as u8),
            interrupts: AtomicBool::new(false),
            attention: AtomicBool::new(shared.seeded.is_some()),
            this: this.clone(),
            shared,
            owner,
            shielded,
            outer,
            place: AtomicU32::new(0),
            credentials,
            account,
            gate,
            has_alarms: AtomicBool::new(false),
            inner: SpinLock::new(Inner::default()),
            options,
        })
    }

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
    fn step(&self, event: NurseryEvent) -> bool {
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
        let outer = self.outer.and_then(|outer| outer.account().map(std::ptr::from_ref));
        outer.is_some_and(|outer| self.account().is_some_and(|own| std::ptr::eq(own, outer)))
    }

    /// Whether whoever sits on `waiter` opened it.
    #[inline]
    pub(crate) fn is_owned_by(&self, waiter: &'static Waiter) -> bool {
        self.owner.is_some_and(|owner| std::ptr::eq(owner, waiter))
    }

    /// Whether a cancellation, or a pause, from around it does not come in.
    pub(crate) fn is_shielded(&self) -> bool {
        self.shielded
    }

    /// Whoever runs in it looks closer at its next checkpoint.
    pub(crate) fn ask_attention(&self) {
        self.attention.store(true, Relaxed);
    }

    /// Those who stand still in it, under its lock.
    pub(crate) fn standing<R>(&self, f: impl FnOnce(&mut Standing) -> R) -> R {
        f(&mut self.inner.lock().standing)
    }

    /// Whether its owner and every task of it waits for something, as of a moment ago. What is being polled counts as waiting.
    pub(crate) fn waits(&self) -> bool {
        if !self.owner.is_none_or(Waiter::is_parked) {
            return false;
        }
        let inner = self.inner.lock();
        let waiting = inner.members.iter().filter(|(_, member)| match member {
            Member::Waiter(waiter, _) => waiter.is_parked(),
            Member::Future(_) => true,
        });
        let waiting = waiting.count() as i64;
        waiting >= self.countdown.members(self.owners.started.load(Relaxed))
    }

    /// Whether none is left of those that others than its owner started.
    pub(crate) fn has_no_tasks(&self) -> bool {
        self.countdown.has_no_members()
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

    /// Counts a task that is about to be spawned, or says why it may not be.
    #[inline]
    pub(crate) fn admit(&self, strand: &Strand) -> Result<(), TaskError> {
        let state = NurseryState::from_bits(self.state.load(Relaxed));
        if !state.takes_tasks() || self.gate.is_some() || strand.meter.is_metered() {
            self.admit_through_gate(strand, state)?;
        }
        if self.is_owned_by(strand.waiter) {
            let started = &self.owners.started;
            started.store(started.load(Relaxed) + 1, Relaxed); // the owner alone writes it
        } else {
            self.countdown.add(1);
        }
        Ok(())
    }

    #[inline(never)]
    fn admit_through_gate(&self, strand: &Strand, state: NurseryState) -> Result<(), TaskError> {
        let refusal = match state {
            NurseryState::Cancelling | NurseryState::Cancelled => Some(Reason::Cancelled),
            state if !state.takes_tasks() => Some(Reason::NurseryNotActive { state }),
            _ => {
                strand.charge_ops(1);
                match &self.gate {
                    Some(gate) => gate.admit(self, &self.owners.paid, strand).err(),
                    // A nursery without limits, lent to a task that has some: the task pays.
                    None => strand.charge_spawn().err(),
                }
            }
        };
        refusal.map_or(Ok(()), |reason| Err(self.refuse(reason)))
    }

    /// How many more tasks its owner paid for.
    pub(crate) fn paid_ahead(&self) -> &AtomicU64 {
        &self.owners.paid
    }

    /// Who may spawn into it, if not everybody.
    pub(crate) fn gate(&self) -> Option<&Gate> {
        self.gate.as_ref()
    }

    /// The nurseries directly inside.
    pub(crate) fn nested(&self) -> Vec<Arc<NurseryCore>> {
        self.inner.lock().nested.iter().map(|(_, nursery)| nursery.clone()).collect()
    }

    /// A task has run to its end, and nobody has heard of it yet: its permit is free before whoever joins it goes on. False if there are plenty, and it is given back with the
    /// next ones.
    #[inline]
    pub(crate) fn give_permit_back(&self) -> bool {
        self.gate.as_ref().is_none_or(Gate::task_ended)
    }

    /// Tells that children ended, of which so many have not given their permit back; the last one wakes the owner. The nursery must not be touched after.
    pub(crate) fn children_ended(&self, children: u32, permits: u32) {
        if let Some(gate) = self.gate.as_ref().filter(|_| permits > 0) {
            gate.give_back(permits);
        }
        if let Some(owner) = self.countdown.done(children) {
            strand::wake(owner, 0);
        }
    }

    /// Notes somebody to be woken by a cancellation. Returns the place to be given back.
    pub(crate) fn enlist(&self, member: Member) -> u32 {
        u32::try_from(self.inner.lock().members.insert(member)).expect("fewer than 2^32 tasks wait at a time")
    }

    /// Where a fiber, or a thread, of it stands that has not ended.
    pub(crate) fn state_of(&self, task: TaskId) -> TaskState {
        let waiter = self.inner.lock().members.iter().find_map(|(_, member)| match member {
            Member::Waiter(waiter, Some(id)) if *id == task => Some(*waiter),
            _ => None,
        });
        // A thread that has begun runs unless it is parked; a fiber may wait for its worker.
        let is_thread =
            |waiter: &Waiter| !self.shared.workers.iter().any(|worker| std::ptr::eq(worker.inbox, waiter.inbox()));
        let runs = || self.shared.workers.iter().any(|worker| worker.watch.shows(task));
        match waiter {
            Some(waiter) if waiter.is_parked() => TaskState::Blocked,
            Some(waiter) if is_thread(waiter) => TaskState::Running,
            _ if runs() => TaskState::Running,
            _ => TaskState::Ready,
        }
    }

    /// Strikes a member off.
    pub(crate) fn delist(&self, place: u32) {
        let member = self.inner.lock().members.remove(place as usize);
        drop(member); // a waker may free its task: not under the lock
    }

    /// Takes no more tasks.
    pub(crate) fn close(&self) {
        self.step(NurseryEvent::Close);
    }

    /// Tells everything in it to stop.
    pub(crate) fn cancel(&self) {
        match self.options.grace {
            None => self.cancel_tree(true),
            Some(grace) => {
                if self.state().is_cancelled() {
                    return;
                }
                self.cancel_tree(false);
                self.set_alarm(grace, Alarm::Interrupt);
            }
        }
    }

    /// The same, because of something other than a failed child.
    pub(crate) fn cancel_for(&self, reason: Reason) {
        {
            let mut inner = self.inner.lock();
            if inner.cancelled_for.is_none() && !self.state().is_cancelled() {
                inner.cancelled_for = Some(reason);
            }
        }
        self.cancel();
    }

    /// Stops what is left: the body has what it wanted.
    pub(crate) fn dismiss(&self) {
        self.inner.lock().dismissed = true;
        self.cancel();
    }

    /// The time of grace is over.
    pub(crate) fn interrupt(&self) {
        self.cancel_tree(true);
    }

    /// Wakes all who wait in it and in what is inside it, shields or not: to wait on would be in vain.
    #[cold]
    pub(crate) fn break_shields(&self) {
        self.cancel_one(true);
        let mut inside = self.interrupt_all();
        while let Some(nursery) = inside.pop() {
            nursery.cancel_one(true);
            inside.extend(nursery.interrupt_all());
        }
    }

    /// Wakes its owner and who waits in it; returns the nurseries directly inside.
    fn interrupt_all(&self) -> Vec<Arc<NurseryCore>> {
        let (mut waiters, mut wakers) = (Vec::from_iter(self.owner), Vec::new());
        let inside = {
            let inner = self.inner.lock();
            for (_, member) in &inner.members {
                match member {
                    Member::Waiter(waiter, _) => waiters.push(waiter),
                    Member::Future(waker) => wakers.push(waker.clone()),
                }
            }
            inner.nested.iter().map(|(_, nursery)| nursery.clone()).collect()
        };
        waiters.into_iter().filter_map(Waiter::interrupt).for_each(strand::deliver);
        wakers.into_iter().for_each(Waker::wake);
        inside
    }

    /// Cancels this nursery and all inside it, and wakes those who wait if they are to be interrupted.
    fn cancel_tree(&self, interrupt: bool) {
        let mut inside = self.cancel_one(interrupt);
        while let Some(nursery) = inside.pop() {
            if !nursery.shielded {
                inside.extend(nursery.cancel_one(interrupt));
            }
        }
    }

    /// Cancels this nursery alone; returns those directly inside it.
    fn cancel_one(&self, interrupt: bool) -> Vec<Arc<NurseryCore>> {
        let cancelled = self.step(NurseryEvent::Cancel);
        let interrupted = interrupt && !self.interrupts.swap(true, AcqRel);
        if interrupted {
            self.attention.store(true, Relaxed); // as weak as the look at it; whoever waits is interrupted
        }
        if !cancelled && !interrupted {
            return Vec::new();
        }
        if interrupted {
            return self.interrupt_all();
        }
        self.nested()
    }

    /// Cancels everything in it after this time.
    pub(crate) fn set_timeout(&self, after: Duration) {
        self.set_alarm(after, move |nursery| Alarm::Deadline { nursery, after });
    }

    /// Cancels everything in it at this time of its clock.
    pub(crate) fn set_deadline(&self, at: Instant) {
        self.set_timeout(at.saturating_duration_since(self.shared.clock.now()));
    }

    fn set_alarm(&self, after: Duration, what: impl FnOnce(Weak<NurseryCore>) -> Alarm) {
        let key = self.shared.clock.set(after, what(self.this.clone()));
        self.inner.lock().alarms.push(key);
        self.has_alarms.store(true, Relaxed);
    }

    /// Waits until the last child has ended, whatever happens; then the nursery is over.
    pub(crate) fn wait(&self, strand: &Strand) {
        self.wait_heeding(strand, || {}); // whoever interrupted also told our children
    }

    /// The same; `interrupted` is called whenever `strand` was told to look around.
    pub(crate) fn wait_heeding(&self, strand: &Strand, interrupted: impl Fn()) {
        if let Some(account) = self.account()
            && self.is_owned_by(strand.waiter)
            && !self.shares_account()
        {
            account.return_owners_share(strand);
        }
        let token = strand.waiter.token();
        if !self.countdown.close(self.owners.started.load(Relaxed), token) {
            while strand.wait(token) == Woken::Interrupted {
                interrupted();
            }
        }
        self.end(strand);
    }

    /// The last child has ended. `strand` is the owner's, or an cleaner's who waited in its place.
    fn end(&self, strand: &Strand) {
        self.step(NurseryEvent::LastChildEnded);
        if let Some(gate) = &self.gate {
            gate.close(self.owners.paid.swap(0, Relaxed), self.account());
        }
        if let Some(account) = &self.account
            && !self.shares_account()
        {
            account.close(strand, self.is_owned_by(strand.waiter));
        }
        let alarms =
            if self.has_alarms.load(Relaxed) { std::mem::take(&mut self.inner.lock().alarms) } else { Vec::new() };
        alarms.into_iter().for_each(|key| self.shared.clock.clear(key));
        if let Some(outer) = self.outer {
            let this = outer.inner.lock().nested.remove(self.place.load(Relaxed) as usize);
            drop(this);
        }
    }
}
