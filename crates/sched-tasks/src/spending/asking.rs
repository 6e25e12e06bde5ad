//! What happens when a budget is spent: each nursery is asked, from the inside out.
//!
//! Room: driver. Knows nurseries, handlers and budget supervisors; the numbers are `budget/account.rs`.
//!
//! ```text
//!   Running ── a charge finds too little ──► Exhausted ── drawn from a pool, or granted ──► Ready, at the back of the line
//!                                               ├── refused, or none can answer ──► ends with `BudgetExhausted`
//!                                               └── cancelled ──► unwinds
//! ```
//!
//! # Invariant
//! An exhausted task does not run until it has what it asked for. It waits only while an answer can come. A refusal is final.
//!
//! # Why it holds
//! `pay_slowly` returns only after the charge succeeded. One that was refused is asked no more: its meter pays nothing, see `meter.rs`, so a task that catches the unwinding
//! and goes on comes back here at its next operation, and at the end of its task. Each nursery from the task's own outwards is asked in turn: its pool, if it recharges by itself; its
//! handler, which answers at once; its budget supervisors, which may take their time. See `account.rs` for why the waiting ends.

use policy_admission::CapError;
use vocab::{Budget, Component, Shortage, UNLIMITED};

use crate::{
    budget::{Account, Answer, Draw, Exhausted, Notice, Settlement},
    kernel::{clock, nursery::NurseryCore, scope::ScopeRef},
    strand::{Strand, give_way},
    wait::{self, End},
};

/// What became of a question.
enum Reply {
    /// So much was drawn for the task.
    Given(Budget),
    /// Ask the next.
    NotMe,
    /// It is to end.
    Refused,
    /// It was cancelled meanwhile.
    Cancelled,
}

/// As whom a nursery is asked.
struct Asker {
    /// What it was granted there, as a task of that nursery.
    granted: Option<u64>,
    /// The budget of a nursery inside was set by its options: no pool gives to that by itself.
    walled: bool,
    /// What the limits of tasks leave it, in the nurseries it has passed.
    most: u64,
    /// It is a supervisor, for which the pool is there as for the owner.
    supervises: bool,
}

impl Asker {
    /// The owner of a nursery with `account` asks the one around it.
    fn owner_of(account: &Account, component: Component) -> Self {
        let (granted, walled) = (account.owner_granted(component), account.is_walled(component));
        Self { granted, walled, most: UNLIMITED, supervises: account.supervises() }
    }
}

impl Strand {
    /// Pays what it could not pay at once.
    #[cold]
    #[inline(never)]
    pub(crate) fn pay_slowly(&self, cost: &Budget) {
        debug_assert!(self.meter.is_metered(), "a task without a budget is not charged");
        if self.is_unwinding() {
            return self.pay_later(cost);
        }
        self.ensure_room();
        loop {
            if self.meter.is_refused() {
                self.fail_exhausted();
            }
            let Err(shortage) = self.meter.pay(cost) else { return };
            match self.ask(&shortage) {
                Reply::Given(amount) => self.meter.recharge(&amount),
                Reply::Cancelled => self.unwind(),
                Reply::NotMe | Reply::Refused => self.meter.refuse(&shortage),
            }
            if !self.meter.is_refused() {
                give_way::yield_now(self); // this is the tick: those that have not spent theirs go first
            }
        }
    }

    /// A task that unwinds must reach its end, so no handler is asked. What its nursery does not give at once it owes until it has caught its panic.
    fn pay_later(&self, cost: &Budget) {
        if !self.meter.is_refused() {
            self.draw_due(cost, false);
        }
        self.meter.owe(cost);
    }

    fn fail_exhausted(&self) -> ! {
        self.come_by();
        // A task that catches this and goes on comes back at once: others go first, every time.
        give_way::yield_now(self);
        self.unwind() // a cancelled one ends as that
    }

    /// Asks for more.
    fn ask(&self, shortage: &Shortage) -> Reply {
        let Some(task) = self.label() else { return Reply::Refused };
        let Shortage { component, wanted, left } = *shortage;
        let left = left + self.draw_rest(component, wanted - left);
        let granted = self.meter.granted()[component];
        let exhausted = Exhausted { task, component, granted, missing: wanted - left };
        self.ask_from(
            self.scope.get(),
            &exhausted,
            Asker { granted: Some(granted), walled: false, most: UNLIMITED, supervises: false },
        )
    }

    /// Asks for spawns, for the task itself. False if none is given.
    pub(crate) fn ask_for_spawn(&self) -> bool {
        match self.ask(&Shortage { component: Component::Spawns, wanted: 1, left: 0 }) {
            Reply::Given(amount) => {
                self.meter.recharge(&amount);
                true
            }
            Reply::Cancelled => self.unwind(),
            Reply::NotMe | Reply::Refused => false,
        }
    }

    /// Asks for one more of `component` for the pool of a nursery. False if it is not given.
    pub(crate) fn ask_further_out(&self, nursery: &NurseryCore, account: &Account, component: Component) -> bool {
        let Some(task) = self.label() else { return false };
        let exhausted = Exhausted { task, component, granted: account.pool().granted()[component], missing: 1 };
        let asker = Asker::owner_of(account, component);
        let outer = if nursery.shares_account() { nursery.outer().and_then(around) } else { nursery.outer() };
        match self.ask_from(outer, &exhausted, asker) {
            Reply::Given(amount) => {
                account.recharge(&amount).wake();
                true
            }
            Reply::Cancelled => self.unwind(),
            Reply::NotMe | Reply::Refused => false,
        }
    }

    /// Draws what is due to the task of what is `missing`, from `level` outwards, without asking a handler or a supervisor. It has passed through every nursery from the task's own on.
    ///
    /// At each level so much is due as to a task of that nursery that was `granted` so much; to its owner, everything. What a supervisor's children get comes out of
    /// the nursery it was started in, unless that limits each of its tasks.
    pub(crate) fn fetch(
        &self,
        mut missing: Budget,
        mut level: Option<ScopeRef>,
        mut granted: Option<Budget>,
        mut supervises: bool,
    ) -> Budget {
        let mut fetched = Budget::ZERO;
        while let Some(scope) = level.filter(|_| missing != Budget::ZERO)
            && let Some(account) = scope.account()
        {
            let owner = self.owns(&scope) || (supervises && account.recharges());
            for component in Component::ALL.into_iter().filter(|_| !owner) {
                let most = account.most_for(component, granted.map(|granted| granted[component]));
                missing.set(component, missing[component].min(most));
            }
            let due = match granted {
                _ if owner => missing,
                Some(granted) => account.undrawn(&granted).min(&missing),
                None => Budget::ZERO,
            };
            let drawn = account.draw(&due);
            pass_down(self.scope.get(), scope, &drawn);
            fetched.recharge(&drawn);
            missing = missing.saturating_sub(&drawn);
            let mut owner = Budget::ZERO;
            for component in Component::ALL {
                owner.set(component, account.owner_granted(component).unwrap_or(UNLIMITED));
                if account.is_walled(component) {
                    missing.set(component, 0);
                }
            }
            (granted, supervises) = (Some(owner), account.supervises());
            level = around(scope);
        }
        fetched
    }

    /// The same for the owner of the nurseries that have the account `inner`, which has given what it had.
    pub(crate) fn fetch_around(&self, mut missing: Budget, inner: &Account) -> Budget {
        let mut owner = Budget::ZERO;
        for component in Component::ALL {
            owner.set(component, inner.owner_granted(component).unwrap_or(UNLIMITED));
            if inner.is_walled(component) {
                missing.set(component, 0);
            }
        }
        self.fetch(missing, self.scope.get().and_then(around), Some(owner), inner.supervises())
    }

    /// Draws the rest of what is due to the task, if that is less than it needs: then it was granted all it may have.
    fn draw_rest(&self, component: Component, missing: u64) -> u64 {
        let Some(scope) = self.scope.get() else { return 0 };
        let Some(account) = scope.account().filter(|account| !account.recharges() && !self.owns(&scope)) else {
            return 0;
        };
        let due = account.undrawn(&self.meter.granted())[component];
        if due == 0 || due >= missing {
            return 0; // nothing, or enough: it is asked for
        }
        let mut rest = Budget::ZERO;
        rest.set(component, due);
        let drawn = account.draw(&rest);
        self.meter.recharge(&drawn);
        drawn[component]
    }

    /// Asks every nursery from `innermost` outwards, until one answers. What it gives has passed through those between.
    ///
    /// At each level it asks as a task of that nursery: as itself, which was `granted` so much, then as the owner of the one inside. Behind a wall, a nursery whose
    /// budget was set by its options, no pool gives by itself, but a handler or a budget supervisor may.
    fn ask_from(&self, innermost: Option<ScopeRef>, exhausted: &Exhausted, mut asker: Asker) -> Reply {
        if let Some(worker) = &self.worker {
            worker.report(); // what is missing may be in the cache of our own worker
        }
        let mut level = innermost;
        while let Some(scope) = level
            && let Some(account) = scope.account()
        {
            let owner = self.owns(&scope) || (asker.supervises && account.recharges());
            if !owner {
                asker.most = asker.most.min(account.most_for(exhausted.component, asker.granted));
            }
            let share =
                if asker.walled { 0 } else { account.share_of(exhausted, asker.granted, owner).min(asker.most) };
            if level == innermost
                && let Some(amount) = self.ask_capability(scope, exhausted, share)
            {
                return Reply::Given(amount);
            }
            match self.ask_one(scope, account, exhausted, share) {
                Reply::Given(amount) => {
                    pass_down(innermost, scope, &amount);
                    return Reply::Given(amount);
                }
                Reply::NotMe => {
                    let Asker { walled, most, .. } = asker;
                    asker = Asker::owner_of(account, exhausted.component);
                    asker.walled |= walled;
                    asker.most = most;
                    level = around(scope);
                }
                reply => return reply,
            }
        }
        Reply::Refused
    }

    fn ask_one(&self, scope: ScopeRef, account: &Account, exhausted: &Exhausted, share: u64) -> Reply {
        let waits = self.may_wait_for(scope);
        if share >= exhausted.missing {
            match self.ask_pool(account, exhausted, share, waits) {
                Reply::NotMe => {}
                reply => return reply,
            }
        }
        if let Some(handler) = account.handler().filter(|_| !self.answering.get()) {
            match self.while_answering(|| handler(exhausted)) {
                Answer::Cancel => return Reply::Refused,
                Answer::Ignore => {}
                Answer::Recharge(amount) => {
                    let drawn = account.draw(&amount);
                    if drawn[exhausted.component] > 0 {
                        return Reply::Given(drawn);
                    }
                    account.settle(&Settlement { left: drawn, ..Settlement::default() }).wake();
                }
            }
        }
        if self.owns(&scope) || !waits {
            return Reply::NotMe; // the budget supervisor of its own nursery is most likely itself, which cannot answer now
        }
        self.ask_supervisor(account, exhausted)
    }

    /// What a handler spends it spends as the exhausted task itself. No handler is asked about that: it would be asked for ever.
    fn while_answering<R>(&self, handler: impl FnOnce() -> R) -> R {
        struct Done<'a>(&'a Strand);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.answering.set(false);
            }
        }
        self.answering.set(true);
        let _done = Done(self);
        handler()
    }

    /// A task whose pool does not give it what it needs uses the capability to recharge itself, if it has one.
    fn ask_capability(&self, scope: ScopeRef, exhausted: &Exhausted, share: u64) -> Option<Budget> {
        let account = scope.account()?;
        if share >= exhausted.missing && account.pool().left()[exhausted.component] >= exhausted.missing {
            return None; // the pool comes first
        }
        scope.credentials().filter(|credentials| credentials.may_recharge())?;
        let mut wanted = Budget::ZERO;
        wanted.set(exhausted.component, account.child()[exhausted.component].max(exhausted.missing));
        self.draw_by_capability(scope, wanted).ok().filter(|drawn| drawn[exhausted.component] > 0)
    }

    /// Adds to the meter by the capability of the nursery around.
    pub(crate) fn recharge_by_capability(&self, wanted: Budget) -> Result<Budget, CapError> {
        self.look_at_meter(); // a task that was refused gets no more
        let scope = self.scope.get().filter(|_| self.meter.is_metered()).ok_or(CapError::NoBudgetCapability)?;
        let drawn = self.draw_by_capability(scope, wanted)?;
        self.meter.recharge(&drawn);
        Ok(drawn)
    }

    /// What is drawn by a capability comes from outside: every nursery around has so much more to account for.
    fn draw_by_capability(&self, scope: ScopeRef, wanted: Budget) -> Result<Budget, CapError> {
        let credentials = scope.credentials().ok_or(CapError::NoBudgetCapability)?;
        let drawn = credentials.to_recharge(scope.shared().ledger.as_ref())?.draw(wanted)?;
        let mut level = Some(scope);
        while let Some(scope) = level {
            if let Some(account) = scope.account().filter(|_| !scope.shares_account()) {
                account.pass_down(&drawn);
            }
            level = scope.outer();
        }
        Ok(drawn)
    }

    /// A seeded run does not wait for what another runtime's tasks give back: no seed decides when that is.
    fn may_wait_for(&self, scope: ScopeRef) -> bool {
        self.shared().is_none_or(|own| own.seeded.is_none() || std::ptr::eq(own, scope.shared()))
    }

    /// Draws another share from the pool, if need be when others have settled or a new period begins.
    fn ask_pool(&self, account: &Account, exhausted: &Exhausted, amount: u64, waits: bool) -> Reply {
        let mut share = Budget::ZERO;
        share.set(exhausted.component, amount);
        if !waits {
            return match account.draw_enough(exhausted, &share) {
                Some(amount) => Reply::Given(amount),
                None => Reply::NotMe,
            };
        }
        loop {
            let token = self.token();
            match account.draw_or_wait(exhausted, &share, token, clock::now) {
                Draw::Drawn(amount) => return Reply::Given(amount),
                Draw::Dry => return Reply::NotMe,
                Draw::Wait { place, until } => {
                    let ended = wait::wait(self, token, until);
                    account.stop_waiting(place);
                    if ended == End::Cancelled {
                        return Reply::Cancelled;
                    }
                }
            }
        }
    }

    fn ask_supervisor(&self, account: &Account, exhausted: &Exhausted) -> Reply {
        let token = self.token();
        let Some((place, to_wake)) = account.ask_supervisor(exhausted, token) else { return Reply::NotMe };
        to_wake.wake();
        account.notify_supervisor();
        let ended = wait::wait(self, token, None);
        match (account.stop_waiting(place), ended) {
            (Notice::Recharged(amount), _) => Reply::Given(amount),
            (_, End::Cancelled) => Reply::Cancelled,
            (Notice::Look, _) => Reply::NotMe, // the last budget supervisor is gone
            (Notice::Refused, _) => Reply::Refused,
        }
    }
}

/// The nursery around all those that share the account of `scope`.
fn around(mut scope: ScopeRef) -> Option<ScopeRef> {
    while scope.shares_account()
        && let Some(outer) = scope.outer()
    {
        scope = outer; // the same account: it was asked
    }
    scope.outer()
}

/// What was drawn at `giver` passes through every nursery inside it.
fn pass_down(innermost: Option<ScopeRef>, giver: ScopeRef, amount: &Budget) {
    let mut level = innermost;
    while let Some(scope) = level.filter(|scope| *scope != giver) {
        if let Some(account) = scope.account().filter(|_| !scope.shares_account()) {
            account.pass_down(amount);
        }
        level = scope.outer();
    }
}
