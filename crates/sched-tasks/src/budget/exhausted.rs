//! What happens when a budget is spent: somebody is asked, from the inside out.
//!
//! ```text
//!   Running ── a charge finds too little ──► Exhausted ── drawn from a pool, or granted ──► Ready, at the back of the line
//!                                               ├── refused, or nobody can answer ──► ends with `BudgetExhausted`
//!                                               └── cancelled ──► unwinds
//! ```
//!
//! # Invariant
//! An exhausted task does not run until it has what it asked for. It waits only while somebody is there who can answer.
//!
//! # Why it holds
//! `pay_slowly` returns only after the charge succeeded. Each nursery from the task's own outwards is asked in turn: its pool, if it recharges by itself; its
//! handler, who answers at once; its treasurers, who may take their time. See `account.rs` for why the waiting ends.

use policy_admission::CapError;
use vocab::{Budget, Component, Shortage};

use super::{
    Answer, Exhausted, Settlement,
    account::{Account, Draw, Told},
};
use crate::{
    drive::worker,
    error::{Reason, TaskError},
    nursery::NurseryCore,
    raw::scope::ScopeRef,
    strand::Strand,
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

impl Strand {
    /// Pays what it could not pay at once.
    #[cold]
    #[inline(never)]
    pub(crate) fn pay_slowly(&self, cost: &Budget) {
        debug_assert!(self.meter.is_metered(), "nobody charges a task without a budget");
        if self.is_unwinding() {
            return self.meter.pay_what_there_is(cost); // what unwinds must come to its end
        }
        self.ensure_room();
        loop {
            let shortage = match self.overdrawn() {
                Some(overdraft) => overdraft,
                None => match self.meter.pay(cost) {
                    Ok(()) => return,
                    Err(shortage) => shortage,
                },
            };
            match self.ask(&shortage) {
                Reply::Given(amount) => self.meter.recharge(&amount),
                Reply::Cancelled => self.unwind(),
                Reply::NotMe | Reply::Refused => self.fail_exhausted(&shortage),
            }
            worker::yield_now(self); // this is the tick: those that have not spent theirs go first
        }
    }

    /// What was allocated beyond the budget.
    fn overdrawn(&self) -> Option<Shortage> {
        match self.meter.overdraft() {
            0 => None,
            over => Some(Shortage { component: Component::Memory, wanted: over, left: 0 }),
        }
    }

    fn fail_exhausted(&self, shortage: &Shortage) -> ! {
        let Shortage { component, wanted, .. } = *shortage;
        let granted = self.meter.granted()[component];
        self.checkpoint(); // a cancelled one ends as that
        // A task that catches this and goes on comes back at once: others go first, every time.
        worker::yield_now(self);
        let error = TaskError::new(Reason::BudgetExhausted { component, granted, wanted }, self.label());
        self.fail(error)
    }

    /// Asks for more.
    fn ask(&self, shortage: &Shortage) -> Reply {
        let Some(task) = self.label() else { return Reply::Refused };
        let Shortage { component, wanted, left } = *shortage;
        let granted = self.meter.granted()[component];
        let exhausted = Exhausted { task, component, granted, missing: wanted - left };
        self.ask_from(self.scope.get(), &exhausted, Some(granted), false)
    }

    /// Asks for spawns, for the task itself. False if nobody gives any.
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

    /// Asks for one more of `component` for the pool of a nursery. False if nobody gives it.
    pub(crate) fn ask_further_out(&self, nursery: &NurseryCore, account: &Account, component: Component) -> bool {
        let Some(task) = self.label() else { return false };
        let exhausted = Exhausted { task, component, granted: account.pool().granted()[component], missing: 1 };
        let (granted, walled) = (account.owner_granted(component), account.is_walled(component));
        match self.ask_from(nursery.outer(), &exhausted, granted, walled) {
            Reply::Given(amount) => {
                account.recharge(&amount);
                true
            }
            Reply::Cancelled => self.unwind(),
            Reply::NotMe | Reply::Refused => false,
        }
    }

    /// Asks every nursery from `innermost` outwards, until one answers. What it gives has passed through those between.
    ///
    /// At each level it asks as a task of that nursery: as itself, which was `granted` so much, then as the owner of the one inside. Behind a wall, a nursery whose
    /// budget somebody set, no pool gives by itself, but a handler or a treasurer may.
    fn ask_from(
        &self,
        innermost: Option<ScopeRef>,
        exhausted: &Exhausted,
        mut granted: Option<u64>,
        mut walled: bool,
    ) -> Reply {
        if let Some(worker) = &self.worker {
            worker.report(); // what is missing may be in our own purse
        }
        let mut level = innermost;
        while let Some(scope) = level
            && let Some(account) = scope.account()
        {
            let owner = scope.is_owned_by(self.seat);
            let share = if walled { 0 } else { account.share_of(exhausted, granted, owner) };
            if level == innermost
                && let Some(amount) = self.ask_capability(scope, exhausted, share)
            {
                return Reply::Given(amount);
            }
            match self.ask_one(account, exhausted, share, owner) {
                Reply::Given(amount) => {
                    pass_down(innermost, scope, &amount);
                    return Reply::Given(amount);
                }
                Reply::NotMe => {
                    let mut inner = scope;
                    while inner.shares_account()
                        && let Some(outer) = inner.outer()
                    {
                        inner = outer; // the same account: it was asked
                    }
                    granted = account.owner_granted(exhausted.component);
                    walled |= account.is_walled(exhausted.component);
                    level = inner.outer();
                }
                reply => return reply,
            }
        }
        Reply::Refused
    }

    fn ask_one(&self, account: &Account, exhausted: &Exhausted, share: u64, owner: bool) -> Reply {
        if share >= exhausted.missing {
            match self.ask_pool(account, exhausted, share) {
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
                    account.settle(&Settlement { left: drawn, ..Settlement::default() });
                }
            }
        }
        if owner {
            return Reply::NotMe; // the treasurer of its own nursery is most likely itself, who cannot answer now
        }
        self.ask_treasurer(account, exhausted)
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
        scope.authority()?.budget.as_ref()?;
        let mut wanted = Budget::ZERO;
        wanted.set(exhausted.component, account.child()[exhausted.component].max(exhausted.missing));
        self.draw_by_capability(scope, wanted).ok().filter(|drawn| drawn[exhausted.component] > 0)
    }

    /// Adds to the meter by the capability of the nursery around.
    pub(super) fn recharge_by_capability(&self, wanted: Budget) -> Result<Budget, CapError> {
        let scope = self.scope.get().filter(|_| self.meter.is_metered()).ok_or(CapError::NoBudgetCapability)?;
        let drawn = self.draw_by_capability(scope, wanted)?;
        self.meter.recharge(&drawn);
        Ok(drawn)
    }

    /// What is drawn by a capability comes from outside: every nursery around has so much more to account for.
    fn draw_by_capability(&self, scope: ScopeRef, wanted: Budget) -> Result<Budget, CapError> {
        let lease = scope.authority().and_then(|authority| authority.budget.as_ref());
        let lease = scope.shared().honour(lease, CapError::NoBudgetCapability)?;
        let drawn = lease.ok_or(CapError::NoBudgetCapability)?.draw(wanted)?;
        let mut level = Some(scope);
        while let Some(scope) = level {
            if let Some(account) = scope.account().filter(|_| !scope.shares_account()) {
                account.pass_down(&drawn);
            }
            level = scope.outer();
        }
        Ok(drawn)
    }

    /// Draws another share from the pool, if need be when others have settled or a new period begins.
    fn ask_pool(&self, account: &Account, exhausted: &Exhausted, amount: u64) -> Reply {
        let mut share = Budget::ZERO;
        share.set(exhausted.component, amount);
        loop {
            let ticket = self.ticket();
            match account.draw_or_wait(exhausted, &share, ticket) {
                Draw::Drawn(amount) => return Reply::Given(amount),
                Draw::Dry => return Reply::NotMe,
                Draw::Wait { place, until } => {
                    let ended = wait::wait(self, ticket, until);
                    account.stop_waiting(place);
                    if ended == End::Cancelled {
                        return Reply::Cancelled;
                    }
                }
            }
        }
    }

    fn ask_treasurer(&self, account: &Account, exhausted: &Exhausted) -> Reply {
        let ticket = self.ticket();
        let Some(place) = account.ask_treasurer(exhausted, ticket) else { return Reply::NotMe };
        let ended = wait::wait(self, ticket, None);
        match (account.stop_waiting(place), ended) {
            (Told::Recharged(amount), _) => Reply::Given(amount),
            (_, End::Cancelled) => Reply::Cancelled,
            (Told::Look, _) => Reply::NotMe, // the last treasurer went
            (Told::Refused, _) => Reply::Refused,
        }
    }
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
