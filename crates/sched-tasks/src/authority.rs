//! What the tasks of a nursery may do, by capabilities.
//!
//! Room: values. Knows leases and ledgers; knows nothing of strands and nurseries.
//!
//! # Invariant
//! A nursery has the authority that it was given, and of what it was not given, that of the nursery around it, on whatever thread or runtime it is opened. What it was given
//! takes the place of what is around only if the same ledger granted both; a capability of another ledger is counted *beside* it, so a task that makes a ledger of its own
//! gains nothing. Where a profile wants everything by name, what was not given is refused; and what comes from another ledger than the runtime's is no authority at all.
//!
//! # Why it holds
//! [`Credentials::inside`] alone makes credentials, from those around, and takes nothing off the lists of leases but what comes from the ledger of the new one: only code that has
//! that ledger, or was given a capability of it, has one to give.
//!
//! # Rejected
//! To refuse a capability of another ledger at once: a library may bring limits of its own, and those only narrow. But one to recharge by adds, so it is refused.

use std::sync::Arc;

use policy_admission::{Cap, CapBudget, CapChannel, CapError, CapSpawn, Capabilities, Lease, Ledger, Profile, Terms};

/// Leases given to one nursery.
#[derive(Debug, Clone, Default)]
pub struct Authority {
    spawn: Option<Lease<CapSpawn>>,
    budget: Option<Lease<CapBudget>>,
    channel: Option<Lease<CapChannel>>,
}

impl Authority {
    pub(crate) const NONE: Self = Self { spawn: None, budget: None, channel: None };

    /// What lets tasks start, if it was given.
    pub(crate) fn to_spawn(&self) -> Option<&Lease<CapSpawn>> {
        self.spawn.as_ref()
    }

    /// Whether it makes them tasks of a tenant.
    #[inline]
    pub(crate) fn has_tenant(&self) -> bool {
        self.spawn.as_ref().is_some_and(|lease| lease.terms().get_weight().is_some())
    }
}

/// What can be given to a nursery with [`NurseryOptions::capability`](crate::NurseryOptions::capability).
pub trait Capability: sealed::Sealed {
    #[doc(hidden)]
    fn lend(&self, authority: &mut Authority);
}

mod sealed {
    pub trait Sealed {}
    impl<T: policy_admission::Terms> Sealed for policy_admission::Cap<T> {}
}

impl Capability for Cap<CapSpawn> {
    fn lend(&self, authority: &mut Authority) {
        authority.spawn = Some(self.lease());
    }
}

impl Capability for Cap<CapBudget> {
    fn lend(&self, authority: &mut Authority) {
        authority.budget = Some(self.lease());
    }
}

impl Capability for Cap<CapChannel> {
    fn lend(&self, authority: &mut Authority) {
        authority.channel = Some(self.lease());
    }
}

/// What a runtime asks of the authority of those that run in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demands<'a> {
    pub(crate) profile: Option<Profile>,
    /// Where authority comes from, if only from there.
    pub(crate) ledger: Option<&'a Ledger>,
}

impl Demands<'_> {
    /// Whether everything must be given by name.
    fn is_explicit(&self) -> bool {
        self.profile.is_some_and(|profile| profile.capabilities() == Capabilities::Explicit)
    }
}

/// What a nursery may do: no task inside may do more.
#[derive(Debug, Clone, Default)]
pub(crate) struct Credentials {
    /// Every one of these has to allow it.
    spawn: Vec<Lease<CapSpawn>>,
    channel: Vec<Lease<CapChannel>>,
    budget: Option<Reserve>,
    /// What was not given is refused.
    explicit: bool,
    /// Only its capabilities count, if a runtime on the way here has one.
    ledger: Option<Ledger>,
    /// The profile that has no actors, if there is one around.
    no_actors: Option<Profile>,
}

/// By what tasks may recharge themselves.
#[derive(Debug, Clone)]
struct Reserve {
    lease: Lease<CapBudget>,
    /// It was given inside a limited scope, and comes from elsewhere.
    foreign: bool,
}

impl Credentials {
    /// What a nursery has that was given `given` inside one that has `around`; `limited` says whether anything around it limits what it may spend, and `demands` what its runtime asks.
    pub(crate) fn inside(
        given: &Authority,
        around: Option<&Arc<Credentials>>,
        limited: bool,
        demands: Demands<'_>,
    ) -> Option<Arc<Credentials>> {
        let Authority { spawn, budget, channel } = given;
        let gives_nothing = spawn.is_none() && budget.is_none() && channel.is_none();
        let explicit = demands.is_explicit();
        let no_actors = demands.profile.filter(|profile| !profile.actors());
        let asks_nothing = demands.ledger.is_none() && no_actors.is_none();
        match around {
            None if gives_nothing && asks_nothing => return None,
            Some(around) if gives_nothing && (asks_nothing || around.asks_as(demands, explicit)) => {
                return Some(around.clone());
            }
            _ => {}
        }
        let mut all = around.map_or_else(Credentials::default, |around| (**around).clone());
        let foreign = budget.as_ref().is_some_and(|lease| {
            (limited || around.is_some())
                && !all.knows(lease)
                && !demands.ledger.is_some_and(|ledger| ledger.is_source_of(lease))
        });
        narrow(&mut all.spawn, spawn.as_ref());
        narrow(&mut all.channel, channel.as_ref());
        all.budget = budget.clone().map(|lease| Reserve { lease, foreign }).or(all.budget);
        all.explicit |= explicit;
        all.ledger = all.ledger.or_else(|| demands.ledger.cloned());
        all.no_actors = all.no_actors.or(no_actors);
        Some(Arc::new(all))
    }

    /// Whether `demands` adds nothing.
    fn asks_as(&self, demands: Demands<'_>, explicit: bool) -> bool {
        let same = match (&self.ledger, demands.ledger) {
            (_, None) => true,
            (Some(own), Some(other)) => own.is_same(other),
            (None, Some(_)) => false,
        };
        let actors = self.no_actors.is_some() || demands.profile.is_none_or(|profile| profile.actors());
        same && actors && (self.explicit || !explicit)
    }

    /// Whether a lease comes from where those come from that are here.
    fn knows(&self, lease: &Lease<CapBudget>) -> bool {
        self.ledger.as_ref().is_some_and(|ledger| ledger.is_source_of(lease))
            || self.spawn.iter().any(|own| Ledger::is_common(own, lease))
            || self.channel.iter().any(|own| Ledger::is_common(own, lease))
            || self.budget.as_ref().is_some_and(|own| !own.foreign && Ledger::is_common(&own.lease, lease))
    }

    /// The leases that make its tasks those of a tenant, the latest first.
    pub(crate) fn of_tenants(&self) -> impl DoubleEndedIterator<Item = &Lease<CapSpawn>> {
        self.spawn.iter().filter(|lease| lease.terms().get_weight().is_some())
    }

    /// Whether there are such.
    #[inline]
    pub(crate) fn has_tenant(&self) -> bool {
        self.of_tenants().next().is_some()
    }

    /// Whether everything has to be given by name.
    pub(crate) fn is_explicit(&self) -> bool {
        self.explicit
    }

    /// The one ledger that counts, if there is one.
    pub(crate) fn ledger(&self) -> Option<&Ledger> {
        self.ledger.as_ref()
    }

    /// The profile that has no actors, if one is around.
    pub(crate) fn no_actors(&self) -> Option<Profile> {
        self.no_actors
    }

    /// The largest budget of a task, if there is one.
    pub(crate) fn task_budget(&self) -> Option<vocab::Budget> {
        let budgets = self.spawn.iter().map(|lease| lease.terms().get_task_budget());
        let least = budgets.reduce(|least, next| least.min(&next));
        least.filter(|budget| *budget != vocab::Budget::UNLIMITED)
    }

    /// Leases by which a runtime with this `ledger` lets tasks start: all have to.
    pub(crate) fn to_spawn(&self, ledger: Option<&Ledger>) -> Result<&[Lease<CapSpawn>], CapError> {
        self.honour(&self.spawn, ledger, CapError::NoSpawnCapability)
    }

    /// Leases by which it lets channels open: all have to.
    pub(crate) fn to_open_channel(&self, ledger: Option<&Ledger>) -> Result<&[Lease<CapChannel>], CapError> {
        self.honour(&self.channel, ledger, CapError::NoChannelCapability)
    }

    /// Whether there is anything to recharge by.
    pub(crate) fn may_recharge(&self) -> bool {
        self.budget.is_some()
    }

    /// Whether what was given to recharge by adds nothing here.
    pub(crate) fn has_foreign_reserve(&self) -> bool {
        self.budget.as_ref().is_some_and(|reserve| reserve.foreign)
    }

    /// The lease to recharge by.
    pub(crate) fn to_recharge(&self, ledger: Option<&Ledger>) -> Result<&Lease<CapBudget>, CapError> {
        let none = CapError::NoBudgetCapability;
        let Some(Reserve { lease, foreign }) = &self.budget else {
            let told = self.ledger.as_ref().filter(|_| self.explicit);
            return Err(told.map_or(none, |ledger| ledger.refuse(none, None)));
        };
        if *foreign {
            return Err(self.refuse_foreign(lease));
        }
        self.honour(std::slice::from_ref(lease), ledger, none).map(|_| lease)
    }

    /// The ledger that counts here records the use of a capability from elsewhere.
    #[cold]
    fn refuse_foreign(&self, lease: &Lease<CapBudget>) -> CapError {
        let foreign = CapError::Foreign;
        match (&self.ledger, self.spawn.first(), self.channel.first()) {
            (Some(ledger), ..) => ledger.refuse(foreign, None),
            (None, Some(own), _) => own.refuse(foreign),
            (None, None, Some(own)) => own.refuse(foreign),
            (None, None, None) => lease.refuse(foreign),
        }
    }

    /// Leases that count here; `none` is what to say where one is needed and there is none.
    fn honour<'a, T: Terms>(
        &self,
        leases: &'a [Lease<T>],
        runtimes: Option<&Ledger>,
        none: CapError,
    ) -> Result<&'a [Lease<T>], CapError> {
        if leases.is_empty() {
            let refused = || self.ledger.as_ref().map_or(none, |ledger| ledger.refuse(none, None));
            return if self.explicit { Err(refused()) } else { Ok(leases) };
        }
        // One of the runtime's own has to be among them, and one of the first runtime's on the way here.
        for ledger in [self.ledger.as_ref(), runtimes].into_iter().flatten() {
            if !leases.iter().any(|lease| ledger.is_source_of(lease)) {
                return Err(ledger.refuse(CapError::Foreign, None));
            }
        }
        Ok(leases)
    }
}

/// Adds a lease to those that have to allow it. It takes the place of those from its own ledger: the holder of that ledger granted it.
fn narrow<T: Terms>(leases: &mut Vec<Lease<T>>, given: Option<&Lease<T>>) {
    if let Some(given) = given {
        leases.retain(|lease| !Ledger::is_common(given, lease));
        leases.insert(0, given.clone());
    }
}
