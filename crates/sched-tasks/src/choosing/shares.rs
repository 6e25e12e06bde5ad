//! Which group of tasks has a worker next, and which task of it. Only while there are groups: a runtime without them does not come here.
//!
//! Room: driver. Knows queues and the time; who comes first among groups is said by `policy_cpu::ShareTree`, who inside a group by `decide.rs`.
//!
//! # Invariants
//! - Each moment of a worker is charged to one group: the one that had it. What a group had on other workers is charged to it here before it is picked here.
//! - A group that has the worker keeps it for a slice, or until it has nothing to run, or until one wakes that is owed more.

use std::{collections::VecDeque, sync::atomic::Ordering::Relaxed};

use mech_sync::ticks;
use policy_cpu::{Nanos, ShareTree};

use crate::{
    decide::{self, Choice, FirstReady, Oldest},
    kernel::{
        cpu_server::Allowance,
        local_shares::{GroupReady, LocalGroup, LocalShares, Measured, Phase},
        shares::{Lines, SLICE, ShareGroup},
        task::RunnableRef,
        worker::{Next, ReadyWhat, Worker},
    },
    stats,
};

/// So often what a group had elsewhere may change the pick before it counts.
const PICKS_MOST: u32 = 4;

/// An interval that is longer than this was perhaps not all ours.
const SUSPICIOUS: Nanos = 2 * SLICE;

/// Past so many that yielded a woken fiber is found, while they wait for tasks that have not started.
const AHEAD_MOST: usize = 64;

/// After so many choices a group looks at unstarted tasks of other workers, if the first in line yielded.
const LOOK_INTERVAL: u32 = 8;

impl Worker {
    // ---- choosing ----

    /// What to run next, of what is here or can be had.
    #[cold]
    #[inline(never)]
    pub(crate) fn next_shared<const LOG: bool>(&self) -> Option<Next> {
        let now = self.shared.charging_now();
        self.take_in_any();
        self.take_in_groups();
        let (goes_on, is_pull_due) = {
            let shares = self.local_shares();
            (shares.in_slice(now), now >= shares.next_pull)
        };
        // A worker that has nothing takes one task, below, and starts it: what it only put into its lines others could take back.
        if is_pull_due && (self.has_own_work() || self.has_group_work()) {
            self.pull(now); // that looks at every worker
        }
        if let Some(group) = goes_on
            && let Some(next) = self.next_of::<LOG>(group)
        {
            return Some(next);
        }
        let next = self.next_of_some_group::<LOG>(now);
        if next.is_some() {
            return next;
        }
        if let Some(stolen) = self.steal_of_groups() {
            return Some(Next::Start(stolen));
        }
        self.report(); // that may make an owner ready
        let next = self.next_of_some_group::<LOG>(now);
        if next.is_none() {
            self.local_shares().since = Nanos::MAX; // nothing runs: the time until something does is charged to none
        }
        next
    }

    fn next_of_some_group<const LOG: bool>(&self, now: Nanos) -> Option<Next> {
        loop {
            let group = self.group_at(now)?;
            let next = self.next_of::<LOG>(group);
            if next.is_some() {
                return next;
            }
            // It has nothing left here.
            self.settle(now);
            self.local_shares().put_to_sleep(group);
        }
    }

    /// What to run next of one group. None: it has nothing here.
    fn next_of<const LOG: bool>(&self, group: u32) -> Option<Next> {
        match group {
            ShareTree::ROOT => self.next_here::<LOG>().or_else(|| self.steal().map(Next::Start)),
            group => self.next_in_group::<LOG>(group),
        }
    }

    /// The group that has the worker: the one that had it, within its slice; else the one that is picked.
    pub(super) fn group_at(&self, now: Nanos) -> Option<u32> {
        let goes_on = self.local_shares().in_slice(now);
        if goes_on.is_some() {
            return goes_on;
        }
        self.settle(now);
        let root_has_work = self.has_own_work() || self.shared.has_stealable(self.index);
        if !self.shared.shares.notices[self.index].is_empty() {
            self.take_notices();
        }
        let mut shares = self.local_shares();
        if root_has_work {
            let all = self.shared.shares.root_served.load(Relaxed);
            if !shares.tree.is_awake(ShareTree::ROOT) {
                shares.root.news(all);
            }
            shares.tree.wake(ShareTree::ROOT);
        } else {
            shares.tree.sleep(ShareTree::ROOT);
        }
        shares.preempted = false;
        self.looked_at((shares.reserved.len() + shares.demoted.len()) as u64);
        if let Some(group) = self.pick_reserved(&mut shares, now) {
            return Some(group);
        }
        for pick in 1.. {
            shares.tree.put_back();
            let group = shares.tree.pick()?;
            self.looked_at(1);
            let news = match shares.get(group) {
                Some(local) => {
                    let all = local.group.served.load(Relaxed);
                    local.served.news(all)
                }
                None => {
                    let all = self.shared.shares.root_served.load(Relaxed);
                    shares.root.news(all)
                }
            };
            let allowance = match shares.get(group) {
                Some(local) if !local.group.servers.is_empty() => local.group.allowance(now),
                _ => Allowance::Run(Nanos::MAX),
            };
            let left = match allowance {
                Allowance::Run(left) => left,
                Allowance::Demoted => Nanos::MAX,
                Allowance::Throttled if self.unwinds(&mut shares, group, now) => Nanos::MAX,
                Allowance::Throttled => continue,
            };
            if news == 0 || pick >= PICKS_MOST {
                shares.since = now;
                shares.until = now.saturating_add(shares.tree.slice_left().max(1).min(left));
                return Some(group);
            }
            shares.tree.put_back();
            shares.tree.charge_elsewhere(group, news);
        }
        None
    }

    /// What is to unwind next.
    #[cold]
    fn unwinding_next<const LOG: bool>(&self, next: Next) -> Next {
        let choice = match next {
            Next::Resume(_) => {
                self.report();
                Choice::Ready
            }
            Next::Start(_) => Choice::Oldest,
        };
        if LOG {
            self.log_next(choice, &next);
        }
        next
    }

    /// A group that was picked has no time left: whether it has the worker all the same, for what of it is to unwind. Else it sleeps; or it is picked again, now that it is known what of
    /// it may run.
    #[cold]
    fn unwinds(&self, shares: &mut LocalShares, number: u32, now: Nanos) -> bool {
        let Some(local) = shares.get(number) else { return false };
        if local.phase == Phase::Free {
            self.begin_waiting(shares, number);
            return false;
        }
        let has_some = !local.unwinding.is_empty();
        let unwinds = has_some && local.phase == Phase::Unwinding && local.group.may_unwind(now);
        if !unwinds && has_some {
            shares.hold(number);
        } else if !unwinds {
            shares.put_to_sleep(number);
        }
        unwinds
    }

    /// Of the groups with time reserved for them that have something to run here, the one with the earliest deadline. One that has no time left sleeps, or goes on among the others.
    fn pick_reserved(&self, shares: &mut LocalShares, now: Nanos) -> Option<u32> {
        shares.reserved_current = None;
        for number in std::mem::take(&mut shares.demoted) {
            let Some(local) = shares.get(number) else { continue };
            match local.group.allowance(now) {
                Allowance::Run(_) if shares.tree.is_awake(number) => {
                    shares.tree.sleep(number);
                    shares.reserved.push(number);
                }
                Allowance::Run(_) => {} // it has nothing to run, and is itself again when it has
                Allowance::Demoted | Allowance::Throttled => shares.demoted.push(number),
            }
        }
        let mut at = 0;
        let mut first: Option<(Nanos, u32, Nanos)> = None;
        while let Some(&number) = shares.reserved.get(at) {
            let group = shares.get(number).map(|local| local.group.clone());
            match group.as_ref().map(|group| group.allowance(now)) {
                Some(Allowance::Run(left)) => {
                    let deadline = group.iter().flat_map(|group| &group.servers).map(|server| server.deadline()).min();
                    let deadline = deadline.unwrap_or(Nanos::MAX);
                    if first.is_none_or(|(earliest, ..)| deadline < earliest) {
                        first = Some((deadline, number, left));
                    }
                    at += 1;
                }
                Some(Allowance::Throttled) => self.begin_waiting(shares, number),
                Some(Allowance::Demoted) => {
                    shares.reserved.remove(at);
                    shares.demoted.push(number);
                    shares.tree.wake(number);
                }
                None => _ = shares.reserved.remove(at),
            }
        }
        let (_, number, left) = first?;
        shares.tree.put_back();
        shares.reserved_current = Some(number);
        shares.since = now;
        shares.until = now.saturating_add(left.min(SLICE));
        Some(number)
    }

    /// Charges what ran since the last time to the group that had the worker.
    pub(super) fn settle(&self, now: Nanos) {
        let mut shares = self.local_shares();
        if shares.since == Nanos::MAX {
            // Nothing ran, and the worker may have slept: what the system takes from it is counted from now on.
            if self.stepwise.is_none() {
                shares.measured = Some(Measured { at: now, usage: ticks::thread_usage() });
            }
            shares.since = now;
            return;
        }
        let mut ran = now.saturating_sub(shares.since);
        if ran > SUSPICIOUS && self.stepwise.is_none() {
            ran = on_cpu(&mut shares.measured, now, ran);
        }
        shares.since = now;
        let reserved = shares.reserved_current;
        let Some(group) = reserved.or(shares.tree.current()).filter(|_| ran > 0) else { return };
        if reserved.is_none() {
            shares.tree.charge(ran);
        }
        match shares.get(group) {
            Some(local) => {
                local.group.servers.iter().for_each(|server| server.charge(ran));
                local.served.here += ran;
                local.group.served.fetch_add(ran, Relaxed);
                local.group.outwards().for_each(|group| _ = group.served_inside.fetch_add(ran, Relaxed));
            }
            None => {
                shares.root.here += ran;
                self.shared.shares.root_served.fetch_add(ran, Relaxed);
            }
        }
    }

    /// Counts what came from the lines of a group here.
    fn chose_of_group(&self, next: &Next) {
        let counters = self.counters;
        let which = if matches!(next, Next::Resume(_)) { &counters.group_resumed } else { &counters.group_begun };
        stats::add(which, 1);
    }

    /// What to run next of a group. None: it has nothing here.
    fn next_in_group<const LOG: bool>(&self, number: u32) -> Option<Next> {
        loop {
            let mut shares = self.local_shares();
            let local = shares.get(number)?; // else it has ended, and was forgotten
            if let Some(next) = local.unwinding.pop_front() {
                shares.ready -= 1;
                drop(shares);
                self.chose_of_group(&next);
                return Some(self.unwinding_next::<LOG>(next));
            }
            if local.phase.is_throttled() {
                return None; // what is left waits for time
            }
            let keeps = local.keeps_unstarted(self);
            local.tick = local.tick.wrapping_add(1);
            if local.tick.is_multiple_of(LOOK_INTERVAL) {
                let moved = self.level_futures_of(local);
                shares.ready += moved;
            }
            let local = shares.get(number)?;
            let LocalGroup { group, ready, futures_lined, tick, .. } = local;
            let ready_before = ready.len();
            let lines = &group.lines[self.index];
            let choice = self.choose_and_count(*tick, &GroupView { worker: self, group, lines, ready, keeps });
            let found = match choice {
                Choice::Ready => pop_ready(ready, futures_lined, lines),
                Choice::Ahead => pop_ahead(ready, lines).or_else(|| started(group, self, lines.unstarted.pop_oldest())),
                Choice::Newest => started(group, self, lines.unstarted.pop_newest()),
                Choice::Oldest => started(group, self, lines.unstarted.pop_oldest()),
                Choice::High => started(group, self, lines.high.pop_oldest()),
                Choice::Low => started(group, self, lines.low.pop_oldest()),
                Choice::Elsewhere => self.steal_in_group(group).map(Next::Start),
                Choice::Injected | Choice::Search => {
                    let low = started(group, self, lines.low.pop_oldest());
                    if let Some(low) = &low {
                        self.chose_of_group(low);
                        if LOG {
                            self.log_next(Choice::Low, low);
                        }
                    }
                    return low.or_else(|| self.steal_in_group(group).map(Next::Start));
                }
            };
            let popped = ready_before - ready.len();
            shares.ready -= popped;
            let ready = self.ready.len() + shares.ready;
            drop(shares);
            self.watch.count_ready(ready);
            if let Some(found) = found {
                if matches!(found, Next::Resume(_)) {
                    self.report();
                }
                if choice != Choice::Elsewhere {
                    self.chose_of_group(&found);
                }
                if LOG && choice != Choice::Elsewhere {
                    self.log_next(choice, &found);
                }
                return Some(found);
            } // else another worker was quicker: look again
        }
    }
}

/// What of an interval that ended now is charged: not what the system gave to other threads meanwhile. But all of it if the task gave the CPU away by itself, by a call that blocks: it
/// kept the worker from others.
#[cold]
fn on_cpu(measured: &mut Option<Measured>, now: Nanos, ran: Nanos) -> Nanos {
    let after = Measured { at: now, usage: ticks::thread_usage() };
    let Some(before) = measured.replace(after).filter(|before| before.usage.blocked == after.usage.blocked) else {
        return ran;
    };
    let (passed, had) = (after.at.saturating_sub(before.at), after.usage.on_cpu.saturating_sub(before.usage.on_cpu));
    ran.saturating_sub(passed.saturating_sub(had))
}

fn started(group: &ShareGroup, worker: &Worker, task: Option<RunnableRef>) -> Option<Next> {
    group.taken(worker.index, task).map(Next::Start)
}

/// None if others took the future whose turn it is.
fn pop_ready(ready: &mut VecDeque<GroupReady>, futures_lined: &mut usize, lines: &Lines) -> Option<Next> {
    match ready.pop_front()?.what {
        ReadyWhat::Fiber(waiter) => Some(Next::Resume(waiter)),
        ReadyWhat::Future => {
            let is_there = *futures_lined <= lines.yielded.len();
            *futures_lined -= 1;
            if is_there { lines.yielded.pop_oldest().map(Next::Start) } else { None }
        }
    }
}

/// The first fiber in line that waits for no unstarted task, past those that do.
fn pop_ahead(ready: &mut VecDeque<GroupReady>, lines: &Lines) -> Option<Next> {
    let is_next =
        |ready: &GroupReady| matches!(ready.what, ReadyWhat::Fiber(_)) && lines.unstarted.has_passed(ready.mark);
    let place = ready.iter().take(AHEAD_MOST).position(is_next)?;
    match ready.remove(place)?.what {
        ReadyWhat::Fiber(waiter) => Some(Next::Resume(waiter)),
        ReadyWhat::Future => None,
    }
}

/// What a worker sees of one group.
struct GroupView<'a> {
    worker: &'a Worker,
    group: &'a ShareGroup,
    lines: &'a Lines,
    ready: &'a VecDeque<GroupReady>,
    /// Its unstarted tasks are for others.
    keeps: bool,
}

impl decide::View for GroupView<'_> {
    fn high(&self) -> bool {
        !self.lines.high.is_empty()
    }

    fn ready(&self) -> Option<FirstReady> {
        let first = self.ready.front()?;
        Some(FirstReady { is_next: self.keeps || self.lines.unstarted.has_passed(first.mark), yielded: first.yielded })
    }

    fn unstarted(&self) -> bool {
        !self.keeps && !self.lines.unstarted.is_empty()
    }

    fn injected(&self) -> bool {
        false // what came from other threads was taken in before
    }

    fn low(&self) -> bool {
        !self.lines.low.is_empty()
    }

    fn goes_behind_shared(&self, _: u32) -> bool {
        false // as above
    }

    fn goes_behind_others(&self, tick: u32) -> bool {
        let is_due = tick.is_multiple_of(LOOK_INTERVAL) && !self.unstarted();
        if is_due {
            self.worker.looked_at(self.worker.other_count());
        }
        is_due && self.elsewhere()
    }

    fn elsewhere(&self) -> bool {
        let others = || self.group.lines.iter().enumerate().filter(|(worker, _)| *worker != self.worker.index);
        self.worker.slot().takes.steals() && others().any(|(_, lines)| lines.has_unstarted())
    }

    fn is_due(&self, _: Oldest) -> bool {
        true // a choice within a group costs more than a branch that changes its worker
    }
}
