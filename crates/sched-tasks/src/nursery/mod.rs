//! Nurseries: a scope that owns its tasks, waits for them, and tells them to stop. Its data, and how a cancellation reaches them, is `kernel/nursery.rs`.
//!
//! Room: driver. Knows strands, budgets and capabilities; knows nothing of how tasks are made and run.
//!
//! # Invariant
//! A nursery's block is left only after all its children ended.
//!
//! # Why it holds
//! Children are counted in a `Countdown`, whose last member wakes the owner.

mod admission;
pub(crate) mod groups;
mod open;
mod pause;
mod share;
mod verdict;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed},
};

use mech_sync::{Countdown, SpinLock, Waiter};
use vocab::Budget;

pub use self::pause::Pauser;
pub(crate) use self::share::group_of;
pub(crate) use self::verdict::Body;
pub(crate) use crate::kernel::nursery::NurseryCore;
use crate::{
    authority::Credentials,
    budget::{Account, CHILD_BUDGET, Recharge, Source, Terms},
    error::{Reason, TaskError},
    gate::Gate,
    kernel::{
        nursery::{Inner, Owners},
        scope::{self, ScopeRef},
        shared::Shared,
        shares::Membership,
    },
    options::{CpuOptions, NurseryOptions},
    raw::in_place::in_arc,
    spending,
    state::{NurseryEvent, NurseryState},
    strand::{Strand, Woken},
};

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
        let credentials =
            Credentials::inside(&options.authority, strand.credentials().as_ref(), limited, shared.demands());
        let account = account(options, strand, outer, credentials.as_deref(), shared);
        Self { credentials, account }
    }
}

/// The account of a nursery that `strand` opens with `options` inside `outer`. None: nothing is limited.
fn account(
    options: &NurseryOptions,
    strand: &Strand,
    outer: Option<ScopeRef>,
    credentials: Option<&Credentials>,
    shared: &'static Shared,
) -> Option<Arc<Account>> {
    // A request above what the capability allows is cut down to it.
    let allowed = credentials.and_then(Credentials::task_budget);
    let task_budget = match (options.task_budget, allowed) {
        (Some(wanted), Some(allowed)) => Some(wanted.min(&allowed)),
        (wanted, allowed) => wanted.or(allowed),
    };
    let says_something = options.budget.is_some()
        || task_budget.is_some()
        || options.recharge.is_some()
        || options.on_exhausted.is_some();
    let owned = outer.filter(|outer| strand.owns(outer)).and_then(|outer| outer.shared_account().cloned());
    // A profile counts for all that comes into its runtime.
    let profile = shared.profile.filter(|_| outer.is_none_or(|outer| !std::ptr::eq(outer.shared(), shared)));
    if !says_something {
        match owned {
            Some(account) => return Some(account), // the same task's nurseries: one account for both
            None if !strand.meter.is_metered() && profile.is_none() => return None,
            None => {}
        }
    }
    let usual = shared.profile.map_or(CHILD_BUDGET, |profile| profile.child());
    let terms = Terms {
        child: task_budget,
        usual_child: usual,
        recharge: options.recharge.unwrap_or(match task_budget {
            Some(_) => Recharge::Never,
            None => Recharge::FromPool,
        }),
        handler: options.on_exhausted.clone(),
        period: options.period,
        supervises: options.supervises,
    };
    let source = match owned {
        Some(account) => Source::Account(account),
        None if strand.meter.is_metered() => Source::Meter,
        None => Source::Root(profile.map_or(Budget::UNLIMITED, |profile| profile.pool())),
    };
    let wanted = options.budget.or(profile.filter(|_| matches!(source, Source::Meter)).map(|profile| profile.pool()));
    Some(spending::open_account(terms, wanted, source, strand))
}

impl NurseryCore {
    /// Opens a nursery of `strand`, inside the one it is in.
    #[inline(never)] // it needs a large frame, and only now is known to have room
    pub(crate) fn open(
        strand: &Strand,
        shared: &'static Shared,
        group: Option<Membership>,
        options: &NurseryOptions,
    ) -> Arc<Self> {
        let outer = strand.scope.get();
        let core = Self::make(
            strand,
            Some(strand.waiter),
            outer,
            shared,
            Limits::of(strand, outer, shared, options),
            group,
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
        core.start_deadline(options);
        core
    }

    /// Opens a nursery that no block waits for: it is inside no other, and what owns it ends it.
    #[inline(never)]
    pub(crate) fn open_apart(
        strand: &Strand,
        shared: &'static Shared,
        limits: Limits,
        group: Option<Membership>,
        options: &NurseryOptions,
    ) -> Arc<Self> {
        let core = Self::make(strand, None, None, shared, limits, group, options);
        core.start_deadline(options);
        core
    }

    #[inline]
    fn start_deadline(&self, options: &NurseryOptions) {
        if let Some(cpu) = &options.cpu {
            self.known_to_context(cpu);
        }
        if let Some(after) = options.timeout {
            self.set_timeout(after);
        }
        if let Some(at) = options.deadline {
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
        group: Option<Membership>,
        options: &NurseryOptions,
    ) -> Arc<Self> {
        // Destructors that run because of a cancellation are shielded from it.
        let shielded = strand.traces.shields().get() > 0 || strand.is_unwinding();
        let Limits { credentials, account } = limits;
        let shares_account = match (&account, outer.as_ref().and_then(|outer| outer.shared_account())) {
            (Some(own), Some(around)) => Arc::ptr_eq(own, around),
            _ => false,
        };
        let gate = Gate::new(options, credentials.as_deref(), account.is_some(), shared.ledger.as_ref());
        in_arc!(Self {
            countdown: Countdown::new(),
            owners: Owners::new(),
            state: AtomicU8::new(NurseryState::Open as u8),
            interrupts: AtomicBool::new(false),
            attention: AtomicBool::new(shared.seeded.is_some()),
            shared,
            owner,
            shielded,
            outer,
            place: AtomicU32::new(0),
            credentials,
            account,
            shares_account,
            gate: gate.map(Box::new),
            group,
            has_alarms: AtomicBool::new(false),
            inner: SpinLock::new(Inner::default()),
            name: options.name.clone(),
            on_failure: options.on_failure,
            grace: options.grace,
        })
    }

    /// Its context, if it has one of its own, may cancel it.
    #[cold]
    #[inline(never)]
    fn known_to_context(&self, cpu: &CpuOptions) {
        if cpu.context.is_some()
            && let Some(server) = self.group.as_ref().and_then(|group| group.servers.first())
        {
            server.set_nursery(scope::weak(self));
        }
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

    /// Waits until the last child has ended, whatever happens; then the nursery is over.
    pub(crate) fn wait(&self, strand: &Strand) {
        self.wait_with(strand, || {}); // the cancellation that interrupted reached our children, too
    }

    /// The same; `interrupted` is called whenever `strand` was interrupted.
    pub(crate) fn wait_with(&self, strand: &Strand, interrupted: impl Fn()) {
        if let Some(account) = self.account()
            && self.is_owned_by(strand.waiter)
            && !self.shares_account()
        {
            account.return_owners_share(&strand.meter).wake();
        }
        let token = strand.waiter.token();
        if !self.countdown.close(self.owners.started.load(Relaxed), token) {
            while strand.wait(token) == Woken::Interrupted {
                interrupted();
            }
        }
        self.end(strand);
    }

    /// The last child has ended. `strand` is the owner's, or that of a cleanup that waited in its place.
    fn end(&self, strand: &Strand) {
        self.step(NurseryEvent::LastChildEnded);
        if let Some(gate) = &self.gate {
            gate.close(self.owners.paid.swap(0, Relaxed), self.account());
        }
        if let Some(account) = &self.account
            && !self.shares_account()
        {
            account.close(&strand.meter, self.is_owned_by(strand.waiter)).wake();
        }
        let alarms = if self.has_alarms.load(Relaxed) {
            std::mem::take(&mut self.inner.lock().rare().alarms)
        } else {
            Vec::new()
        };
        alarms.into_iter().for_each(|key| self.shared.clock.clear(key));
        if let Some(outer) = self.outer {
            let this = outer.inner.lock().nested.remove(self.place.load(Relaxed) as usize);
            drop(this);
        }
    }
}
