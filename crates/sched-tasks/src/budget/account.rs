//! A nursery's account: its pool, what its children get of it, and the tasks that wait for more.
//!
//! Room: state. Knows pools and tokens; wakes no task itself.
//!
//! # Invariants
//! A task that waits here is woken: by a recharge, a refusal, a settlement that may have brought what it needs, a new period; or nothing is left that could wake it, and
//! then it does not wait.
//! A new period makes no budget, except at a root: what it brings comes from where the pool came from.
//! Two accounts are never locked at the same time.
//!
//! # Why they hold
//! A waiter puts itself on the list under the lock under which it saw that the pool is dry and that an answer can still come: a worker cache is out, a budget supervisor
//! is there, a period will end. Each of these, when it answers or goes away, takes the same lock and wakes the list.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use mech_sync::{SpinLock, WaitToken};
use slab::Slab;
use vocab::{Budget, Component, UNLIMITED};

use super::{
    CHILD_BUDGET, Exhausted, Handler, Recharge,
    meter::{Meter, Reading},
    pool::{Pool, Settlement},
};
use crate::deadline;

/// Limit of the children's budgets that a worker draws at a time.
const CACHE_CHILDREN: u64 = 16;

/// What tasks spend themselves. Spawns are paid by pools.
const SPENT: [Component; 4] = [Component::Ops, Component::Memory, Component::ChannelOps, Component::Syscalls];

/// For how many children at least, and at most, a pool's first shares are made.
const CHILDREN_MIN: u64 = 8;
const CHILDREN_MAX: u64 = 1024;

/// The owner of a nursery, which spawns the others, begins with such a part.
const OWNERS_PART: u64 = 10;

/// Another share is as large as all that the task had before, but at most so small a part of what is left.
const SHARE_PART: u64 = 64;

/// What a task draws at a time. Small, so that those that wait do not keep what others need.
const SHARE: Budget = CHILD_BUDGET.memory(64 << 10).spawns(16);

/// What a nursery has to spend.
pub(crate) struct Account {
    /// Unlike its address, never another's.
    serial: u64,
    /// What a child may spend without being recharged, and what it gets at first.
    limit: Budget,
    child: Budget,
    recharge: Recharge,
    handler: Option<Handler>,
    period: Option<Duration>,
    /// Its owner acts for the nursery around it.
    supervises: bool,
    /// What it began with, and what its options said it should have.
    given: Budget,
    walls: Budget,
    source: Source,
    /// The owner has a meter, which is aside until the nursery ends.
    has_aside: bool,
    /// A task waits for what is in worker caches: they are to be returned.
    wanted: AtomicBool,
    /// A holder lost its stack and cannot settle.
    lost: AtomicBool,
    /// Called when a task asks the budget supervisor.
    pub(crate) notifier: OnceLock<Box<dyn Fn() + Send + Sync>>,
    pub(crate) state: SpinLock<State>,
    /// Held while what owners paid for ahead is taken back, until it is in the pool: the second to come finds it there.
    pub(crate) advances: SpinLock<()>,
}

pub(crate) struct State {
    pub(crate) pool: Pool,
    /// The owner's meter, or what is left of it.
    aside: Option<Reading>,
    /// What later periods took from the source, beside what was given at first.
    fetched: Budget,
    /// How many workers have a cache.
    worker_caches: u32,
    pub(crate) supervisors: u32,
    /// Budget supervisors that wait for a task to ask.
    pub(crate) watchers: Vec<WaitToken>,
    pub(crate) waiting: Slab<Waiting>,
    /// When the present period ends.
    period_end: Option<Instant>,
}

/// A task that is exhausted and waits.
pub(crate) struct Waiting {
    pub(crate) token: WaitToken,
    pub(crate) exhausted: Exhausted,
    /// It waits for a budget supervisor, which is to see it; not only for a settlement.
    pub(crate) asks: bool,
    /// A budget supervisor knows of it.
    pub(crate) seen: bool,
    pub(crate) answer: Option<Notice>,
}

/// What a task that waits gets to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Something came back: look again.
    Look,
    /// So much was drawn for it here.
    Recharged(Budget),
    /// It is to end.
    Refused,
}

/// What became of a draw.
pub(crate) enum Draw {
    Drawn(Budget),
    /// There is not enough, but some may come back: the token is on the list, at this place.
    Wait {
        place: u32,
        /// Then a new period begins.
        until: Option<Instant>,
    },
    Dry,
}

/// Tokens of those that wait here and are to look again. An account wakes no task itself: it knows no worker.
#[derive(Debug, Default)]
#[must_use = "a task that is not woken waits for ever"]
pub(crate) struct ToWake(pub(crate) Vec<WaitToken>);

/// How a nursery's account is to be.
pub(crate) struct Terms {
    /// What a child may spend, if the options say so; else what it usually gets.
    pub(crate) child: Option<Budget>,
    pub(crate) usual_child: Budget,
    pub(crate) recharge: Recharge,
    pub(crate) handler: Option<Handler>,
    pub(crate) period: Option<Duration>,
    pub(crate) supervises: bool,
}

/// Where a pool comes from, and goes back to.
pub(crate) enum Source {
    /// From outside, so much unless the options say otherwise: no other budget becomes less.
    Root(Budget),
    /// The meter of the task that opens the nursery.
    Meter,
    /// The account of another nursery that the same task opened around it.
    Account(Arc<Account>),
}

impl Account {
    /// An account to which its source gave `given`, of `wanted` or of all it has. A task that has a meter gets a new one, with a share of this pool, until the nursery ends. The
    /// first period, if there are periods, ends at `period_end`.
    pub(crate) fn new(
        terms: Terms,
        wanted: Option<Budget>,
        source: Source,
        given: Budget,
        meter: &Meter,
        period_end: Option<Instant>,
    ) -> Arc<Self> {
        let Terms { child, usual_child, recharge, handler, period, supervises } = terms;
        let all = wanted.unwrap_or(Budget::UNLIMITED);
        // No task takes all there is at once: a child draws share after share, up to its limit, and gives way each time. Spawns it gets when it needs them. Shares are so small
        // that all children that may be spawned, should they wait at the same time, keep no more than half from those that work.
        let children = given.spawns.clamp(CHILDREN_MIN, CHILDREN_MAX);
        let share = |component: Component, part: u64| match given[component] {
            UNLIMITED => SHARE[component],
            given => (given / part).clamp(1, SHARE[component]),
        };
        let limit = child.unwrap_or(usual_child);
        let mut first = Budget::ZERO;
        for component in SPENT {
            first.set(component, limit[component].min(share(component, 2 * children)));
        }
        static ACCOUNTS: AtomicU64 = AtomicU64::new(1);
        let aside = meter.is_metered().then(|| meter.take());
        let account = Self {
            serial: ACCOUNTS.fetch_add(1, Relaxed),
            limit,
            child: first,
            recharge,
            handler,
            period,
            supervises,
            given,
            walls: all,
            has_aside: aside.is_some(),
            source,
            wanted: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            notifier: OnceLock::new(),
            advances: SpinLock::new(()),
            state: SpinLock::new(State {
                pool: Pool::new(given),
                aside,
                fetched: Budget::ZERO,
                worker_caches: 0,
                supervisors: 0,
                watchers: Vec::new(),
                waiting: Slab::new(),
                period_end,
            }),
        };
        if account.has_aside {
            let mut own = Budget::ZERO;
            for component in SPENT {
                own.set(component, share(component, OWNERS_PART));
            }
            meter.begin(&account.draw(&own));
        }
        Arc::new(account)
    }

    /// Its number, from 1.
    #[inline(always)]
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// What a child gets.
    #[inline(always)]
    pub(crate) fn child(&self) -> &Budget {
        &self.child
    }

    /// How much more its pool gives to a task that has spent what it had: to its `owner`, or to a task of it that was granted so much, which may not have had all its due.
    pub(crate) fn share_of(&self, exhausted: &Exhausted, granted: Option<u64>, owner: bool) -> u64 {
        let Exhausted { component, missing, .. } = *exhausted;
        let most = match (self.limit[component], granted) {
            _ if owner => UNLIMITED, // what is in the pool was its own
            (0, _) => 0,             // a task that was granted nothing of it gets no more
            (UNLIMITED, _) => UNLIMITED,
            _ if self.recharges() => UNLIMITED,
            (limit, Some(granted)) => limit.saturating_sub(granted),
            (_, None) => 0,
        };
        let usual = match component {
            // Few when they run out, so that none lie idle where they are not needed.
            Component::Spawns => (self.pool().left().spawns / 256).min(SHARE.spawns),
            _ => {
                let had = granted.unwrap_or(0).min(self.pool().left()[component] / SHARE_PART).min(SHARE[component]);
                self.child[component].max(had)
            }
        };
        usual.max(missing).min(most)
    }

    /// How much more a task of this nursery that was granted so much may have, wherever it comes from.
    pub(crate) fn most_for(&self, component: Component, granted: Option<u64>) -> u64 {
        match self.limit[component] {
            UNLIMITED => UNLIMITED,
            _ if self.recharges() => UNLIMITED,
            limit => limit.saturating_sub(granted.unwrap_or(limit)),
        }
    }

    /// What its owner was granted of a component by the nursery around, as a task of that.
    pub(crate) fn owner_granted(&self, component: Component) -> Option<u64> {
        let state = self.state.lock();
        let came_in = state.pool.granted().saturating_sub(&self.given).saturating_sub(&state.fetched)[component];
        match self.source {
            Source::Meter => state.aside.map(|meter| meter.granted[component].saturating_add(came_in)),
            Source::Root(_) | Source::Account(_) => None,
        }
    }

    /// Whether the options say how much of a component there is to be: then no other pool gives to it by itself.
    pub(crate) fn is_walled(&self, component: Component) -> bool {
        self.walls[component] != UNLIMITED
    }

    /// Whether its owner asks further out as the nursery around it would, not as a task of that.
    pub(crate) fn supervises(&self) -> bool {
        self.supervises
    }

    /// Whether its pool gives to a task that has spent its share.
    pub(crate) fn recharges(&self) -> bool {
        self.recharge == Recharge::FromPool || self.period.is_some()
    }

    /// Whether a task that spends as two could spend more than as one: each task has a limit of its own.
    pub(crate) fn limits_each(&self) -> bool {
        let is_limit = |component: &Component| !matches!(self.limit[*component], 0 | UNLIMITED);
        !self.recharges() && Component::ALL.iter().any(is_limit)
    }

    /// What a task of this nursery that was granted so much may yet draw.
    pub(crate) fn undrawn(&self, granted: &Budget) -> Budget {
        self.limit.saturating_sub(granted)
    }

    pub(crate) fn handler(&self) -> Option<&Handler> {
        self.handler.as_ref()
    }

    #[inline(always)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// Where the pool stands.
    pub(crate) fn pool(&self) -> Pool {
        self.state.lock().pool
    }

    /// Draws for as many children as leaves enough for the other workers.
    pub(crate) fn draw_worker_cache(&self, workers: usize) -> Budget {
        let mut state = self.state.lock();
        let left = state.pool.left();
        let share = |component: Component| match (self.child[component], left[component]) {
            (0 | UNLIMITED, _) | (_, UNLIMITED) => CACHE_CHILDREN,
            (child, left) => left / child / (4 * workers as u64),
        };
        let children = Component::ALL.into_iter().map(share).min().unwrap_or(1).clamp(1, CACHE_CHILDREN);
        let mut wanted = Budget::ZERO;
        for component in Component::ALL {
            wanted.set(component, self.child[component].saturating_mul(children));
        }
        state.worker_caches += 1;
        state.pool.draw(&wanted)
    }

    /// Takes the cache of a worker back.
    pub(crate) fn return_worker_cache(&self, worker_cache: &Settlement) -> ToWake {
        let mut state = self.state.lock();
        state.worker_caches -= 1;
        state.pool.settle(worker_cache);
        state.notify_to_look(&self.wanted)
    }

    /// Takes back what a task drew.
    pub(crate) fn settle(&self, settlement: &Settlement) -> ToWake {
        let mut state = self.state.lock();
        state.pool.settle(settlement);
        state.notify_to_look(&self.wanted)
    }

    /// Pays for one to `most` spawns; 0 if there is none left.
    pub(crate) fn charge_spawns(&self, most: u64) -> u64 {
        let mut state = self.state.lock();
        let bought = state.pool.left().spawns.min(most);
        state.pool.charge(&Budget::ZERO.spawns(bought)).expect("no more than there is");
        bought
    }

    /// How many spawns an owner may pay for at once. Few when they run out, so that none lie idle when others need them.
    pub(crate) fn spawns_in_advance(&self, most: u64) -> u64 {
        (self.state.lock().pool.left().spawns / most).clamp(1, most)
    }

    /// Takes back a charge that was not needed.
    pub(crate) fn refund(&self, cost: &Budget) {
        self.state.lock().pool.refund(cost);
    }

    /// Draws without waiting: as much of `wanted` as there is.
    pub(crate) fn draw(&self, wanted: &Budget) -> Budget {
        self.state.lock().pool.draw(wanted)
    }

    /// Draws `wanted`, or at least what is missing; nothing if there is less.
    pub(crate) fn draw_enough(&self, exhausted: &Exhausted, wanted: &Budget) -> Option<Budget> {
        let mut state = self.state.lock();
        (state.pool.left()[exhausted.component] >= exhausted.missing).then(|| state.pool.draw(wanted))
    }

    /// Draws `wanted`, or at least `needed` of the component; else says whether it is worth to wait, and then `token` is on the list. `now` is asked if there are periods.
    pub(crate) fn draw_or_wait(
        &self,
        exhausted: &Exhausted,
        wanted: &Budget,
        token: WaitToken,
        now: impl FnOnce() -> Instant,
    ) -> Draw {
        if let Some(length) = self.period {
            self.begin_period(length, now());
        }
        let around_has = match &self.source {
            Source::Account(around) if self.period.is_some() => around.pool().left()[exhausted.component] > 0,
            _ => true,
        };
        let mut state = self.state.lock();
        if state.pool.left()[exhausted.component] >= exhausted.missing {
            return Draw::Drawn(state.pool.draw(wanted));
        }
        // Memory does not come back by itself, and more than a whole period's worth never comes; nor what the source does not have.
        let has_more = match self.source {
            Source::Meter => state.aside.is_some_and(|meter| meter.left[exhausted.component] > 0),
            Source::Root(_) | Source::Account(_) => around_has,
        };
        let refills = exhausted.component != Component::Memory
            && self.given[exhausted.component] >= exhausted.missing
            && has_more;
        let until = state.period_end.filter(|_| refills);
        if state.worker_caches == 0 && until.is_none() {
            return Draw::Dry;
        }
        self.wanted.store(true, Release);
        Draw::Wait { place: state.enlist(token, exhausted, false), until }
    }

    /// Begins a new period if the last one is over: what was spent is there again, as far as the source has it.
    fn begin_period(&self, length: Duration, now: Instant) {
        let around = {
            let mut state = self.state.lock();
            if !state.is_period_over(length, now) {
                return;
            }
            let mut missing = self.given.saturating_sub(&state.pool.left());
            missing.memory = 0;
            match &self.source {
                Source::Root(_) => return state.pool.replenish(&self.given),
                Source::Meter => {
                    let fetched = state.aside.as_mut().map_or(Budget::ZERO, |meter| meter.draw(&missing));
                    return state.fetch(&fetched);
                }
                Source::Account(around) => (around, missing),
            }
        };
        let (around, missing) = around;
        let fetched = around.draw(&missing); // not under our own lock
        self.state.lock().fetch(&fetched);
    }

    /// What the waiter at `place` got to know, which leaves.
    pub(crate) fn stop_waiting(&self, place: u32) -> Notice {
        let notice = self.state.lock().waiting.remove(place as usize).answer;
        notice.unwrap_or(Notice::Look)
    }

    /// An amount from further out goes through here to the task that asked.
    pub(crate) fn pass_down(&self, amount: &Budget) {
        self.state.lock().pool.pass_down(amount);
    }

    /// Adds to the pool, and returns those to wake.
    pub(crate) fn recharge(&self, amount: &Budget) -> ToWake {
        let mut state = self.state.lock();
        state.pool.recharge(amount);
        state.notify_to_look(&self.wanted)
    }

    // ---- the end ----

    /// A holder lost its stack.
    pub(crate) fn holder_lost(&self) {
        self.lost.store(true, Release);
    }

    /// The owner has nothing to do any more but wait for its children: they may have what it does not spend.
    pub(crate) fn return_owners_share(&self, meter: &Meter) -> ToWake {
        if self.has_aside { self.settle(&meter.end_and_wait()) } else { ToWake::default() }
    }

    /// The nursery is over: what is left goes back to where it came from. Without its owner, whose stack was lost, what the owner had is spent.
    pub(crate) fn close(&self, meter: &Meter, by_owner: bool) -> ToWake {
        let mut owed = Budget::ZERO;
        let mut to_wake = ToWake::default();
        if self.has_aside {
            if by_owner {
                owed = meter.owed();
                to_wake = self.settle(&meter.end());
            } else {
                self.holder_lost();
            }
        }
        let (pool, aside, fetched) = {
            let state = self.state.lock();
            (state.pool, state.aside, state.fetched)
        };
        let settlement = pool.close(self.lost.load(Acquire));
        if let Source::Account(around) = &self.source {
            to_wake.0.extend(around.settle(&settlement).0);
        }
        if let (Some(mut own), true) = (aside, by_owner) {
            own.owe(&owed); // found at the owner's next check
            if let Source::Meter = self.source {
                // Whatever more than it gave came in through this nursery is accounted for where the owner drew its own.
                own.granted.recharge(&pool.granted().saturating_sub(&self.given).saturating_sub(&fetched));
                own.left.recharge(&settlement.left);
            }
            meter.put(&own);
        }
        to_wake
    }
}

impl State {
    pub(crate) fn enlist(&mut self, token: WaitToken, exhausted: &Exhausted, asks: bool) -> u32 {
        let waiting = Waiting { token, exhausted: exhausted.clone(), asks, seen: false, answer: None };
        u32::try_from(self.waiting.insert(waiting)).expect("fewer than 2^32 tasks wait at a time")
    }

    /// Gives notices to those that have none, and returns whom to wake.
    pub(crate) fn notify(&mut self, answer: impl Fn(&Waiting) -> Option<Notice>) -> ToWake {
        let mut woken = Vec::new();
        for (_, waiting) in &mut self.waiting {
            if waiting.answer.is_none()
                && let Some(notice) = answer(waiting)
            {
                waiting.answer = Some(notice);
                woken.push(waiting.token);
            }
        }
        ToWake(woken)
    }

    fn notify_to_look(&mut self, wanted: &AtomicBool) -> ToWake {
        if !wanted.load(Relaxed) {
            return ToWake::default();
        }
        wanted.store(false, Relaxed);
        self.notify(|waiting| (!waiting.asks).then_some(Notice::Look))
    }

    /// Whether the last period is over; then another has begun. Periods that passed unnoticed are left out.
    fn is_period_over(&mut self, length: Duration, now: Instant) -> bool {
        let Some(end) = self.period_end.filter(|end| *end <= now) else { return false };
        let late = now.duration_since(end).as_nanos() / length.as_nanos().max(1);
        let late = u32::try_from(late).unwrap_or(u32::MAX);
        self.period_end = Some(deadline::later(end, length.saturating_mul(late.saturating_add(1))));
        true
    }

    /// A new period took so much from the source.
    fn fetch(&mut self, amount: &Budget) {
        self.pool.recharge(amount);
        self.fetched.recharge(amount);
    }
}
