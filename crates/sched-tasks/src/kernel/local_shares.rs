//! Groups of tasks as one worker knows them: which have something to run here, and which of them has the worker.
//!
//! Room: state. Knows lines and the tree of shares; how a worker uses them is `choosing/shares.rs`.
//!
//! # Invariants
//! - A group is awake in `tree` if its lines here may have something that may run; it is put to sleep when they are found empty. The root's queues are the worker's own, and it is put to sleep
//!   or woken before every pick.
//! - A group that waits for time here is on the list of a context that has none, and is told when that has; see `unwinding.rs` for what of it may run meanwhile.
//! - From `since` on the time of this worker has not been charged; before, each moment was charged once, to the group that had the worker.

use std::{
    cell::RefMut,
    collections::VecDeque,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use mech_sync::{Waiter, ticks::Usage};
use policy_cpu::{Nanos, ShareTree};
use vocab::Priority;

use super::{
    cpu_server::Held,
    shares::{Membership, SLICE, ShareGroup},
    task::{Runnable, RunnableRef},
    worker::{Behind, Next, ReadyWhat, Worker},
};

/// After so many choices a future of a group that yields is left to a worker that has nothing of the group.
const OFFER_INTERVAL: u32 = 8;

/// What a worker knows of the groups.
pub(crate) struct LocalShares {
    /// The worker's number.
    worker: usize,
    pub(crate) tree: ShareTree,
    /// By number; the root has none.
    groups: Vec<Option<LocalGroup>>,
    /// Up to when all was charged.
    pub(crate) since: Nanos,
    /// When the slice of what runs is over.
    pub(crate) until: Nanos,
    /// Groups with time reserved for them that have something to run here, and which of them has the worker.
    pub(crate) reserved: Vec<u32>,
    pub(crate) reserved_current: Option<u32>,
    /// Those that have none left, and go on among the others.
    pub(crate) demoted: Vec<u32>,
    /// Something woke that goes before what runs.
    pub(crate) preempted: bool,
    /// What the clock of this worker's thread and the counter said at some moment since which the worker has not slept.
    pub(crate) measured: Option<Measured>,
    /// What is known is of this generation of groups.
    generation: u64,
    /// How many started tasks of groups could go on here, and tasks that are to unwind; those that wait for time not counted.
    pub(crate) ready: usize,
    /// Groups met since those that ended were forgotten.
    met: usize,
    /// Before this it does not look for unstarted tasks of others again.
    pub(crate) next_pull: Nanos,
    /// Which group was looked at last for tasks that could start here.
    pub(crate) turn: u64,
    /// What the root had here, and what it had elsewhere and was charged for.
    pub(crate) root: Served,
}

/// Two clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    pub(crate) at: Nanos,
    pub(crate) usage: Usage,
}

/// What of a group's time is known here.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Served {
    pub(crate) here: Nanos,
    pub(crate) elsewhere: Nanos,
}

impl Served {
    /// What it had elsewhere that is new, of `all`; known from now on.
    pub(crate) fn news(&mut self, all: Nanos) -> Nanos {
        let elsewhere = all.saturating_sub(self.here);
        let news = elsewhere.saturating_sub(self.elsewhere);
        self.elsewhere = elsewhere;
        news
    }
}

/// A group on one worker.
pub(crate) struct LocalGroup {
    pub(crate) group: Arc<ShareGroup>,
    /// Started tasks that can go on, in the order they became ready.
    pub(crate) ready: VecDeque<GroupReady>,
    /// How many of them stand for a future: more than wait here if others took some.
    pub(crate) futures_lined: usize,
    pub(crate) served: Served,
    /// Its choices.
    pub(crate) tick: u32,
    pub(crate) phase: Phase,
    /// What is cancelled of it and was found while it waited for time. Goes first.
    pub(crate) unwinding: VecDeque<Next>,
    /// The last unstarted tasks are for workers that have none of it, up to this time; none if no worker lacks any.
    pub(crate) kept_until: Option<Nanos>,
}

/// What of a group may run here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// All of it.
    Free,
    /// It waits for time, and what is cancelled may unwind.
    Unwinding,
    /// It waits for time, all of it.
    Held,
}

impl Phase {
    pub(crate) fn is_throttled(self) -> bool {
        self != Phase::Free
    }
}

#[derive(Clone, Copy)]
pub(crate) struct GroupReady {
    /// Unstarted tasks with a smaller number go first.
    pub(crate) mark: u64,
    pub(crate) yielded: bool,
    pub(crate) what: ReadyWhat,
}

impl LocalShares {
    pub(crate) fn new(worker: usize) -> Self {
        Self {
            worker,
            tree: ShareTree::with_capacity(8, SLICE),
            groups: Vec::new(),
            since: Nanos::MAX,
            until: 0,
            reserved: Vec::new(),
            reserved_current: None,
            demoted: Vec::new(),
            measured: None,
            generation: 0,
            ready: 0,
            met: 0,
            next_pull: 0,
            preempted: false,
            turn: 0,
            root: Served::default(),
        }
    }

    /// The group that has the worker, if its slice is not over and none goes before it.
    #[inline]
    pub(crate) fn in_slice(&self, now: Nanos) -> Option<u32> {
        let current = self.reserved_current.or(self.tree.current());
        current.filter(|_| now < self.until && !self.preempted)
    }

    /// The group of that number, if it is known here.
    pub(crate) fn get(&mut self, number: u32) -> Option<&mut LocalGroup> {
        self.groups.get_mut(number as usize)?.as_mut()
    }

    /// A group, known from now on if it was not. One that had its number before has ended.
    pub(crate) fn known(&mut self, group: &Arc<ShareGroup>) -> &mut LocalGroup {
        let place = group.number as usize;
        if self.groups.len() <= place {
            self.groups.resize_with(place + 1, || None);
        }
        if !self.groups[place].as_ref().is_some_and(|known| Arc::ptr_eq(&known.group, group)) {
            self.meet(group);
        }
        self.groups[place].as_mut().expect("just met")
    }

    /// The same for one that is known.
    fn known_by_number(&self, number: u32) -> &LocalGroup {
        self.groups[number as usize].as_ref().expect("it is known")
    }

    #[cold]
    fn meet(&mut self, group: &Arc<ShareGroup>) {
        self.met += 1;
        if self.met > self.groups.len() {
            self.met = 0;
            self.forget_ended();
        }
        if let Some(parent) = &group.parent {
            self.known(parent);
        }
        if group.number >= self.tree.capacity() {
            self.tree.grow((group.number + 1).next_power_of_two());
        }
        if self.tree.contains(group.number) {
            self.forget_with_inner(group.number);
        }
        let added = self.tree.add(group.number, group.parent_number(), group.weight(), group.slice());
        added.expect("groups are not deeper than trees, and there is room");
        self.put_to_sleep(group.number);
        self.demoted.retain(|&other| other != group.number);
        let local = LocalGroup {
            group: group.clone(),
            ready: VecDeque::new(),
            futures_lined: 0,
            served: Served::default(),
            tick: 0,
            phase: Phase::Free,
            unwinding: VecDeque::new(),
            kept_until: None,
        };
        self.groups[group.number as usize] = Some(local);
    }

    /// A group has ended, and its number belongs to another: it is forgotten, and those that were inside it, which have ended as well. What comes late for one of them, as that it has time again, finds none.
    fn forget_with_inner(&mut self, number: u32) {
        let Self { tree, groups, ready, .. } = self;
        tree.remove(number, &mut |gone| {
            let Some(old) = groups.get_mut(gone as usize).and_then(Option::take) else { return };
            debug_assert!(!old.has_tasks(), "a group ended with tasks in its line");
            *ready -= if old.phase.is_throttled() { 0 } else { old.ready.len() };
        });
    }

    /// A group has something to run here.
    pub(crate) fn wake(&mut self, number: u32) {
        if self.tree.is_awake(number) || self.reserved.contains(&number) {
            return;
        }
        let worker = self.worker;
        if let Some(local) = self.get(number) {
            match local.phase {
                Phase::Free => local.group.lines[worker].is_awake.store(true, Relaxed),
                Phase::Unwinding if !local.unwinding.is_empty() => {
                    self.preempted |= self.tree.wake(number);
                    return;
                }
                Phase::Unwinding | Phase::Held => return, // until it is told that there is time
            }
            if !local.group.servers.is_empty() {
                return self.wake_with_context(number);
            }
            // What it had elsewhere while it had nothing here is not held against it: its lag is what it left with.
            let all = local.group.served.load(Relaxed);
            local.served.news(all);
        }
        self.preempted |= self.tree.wake(number);
    }

    /// The same for one that has a context, or is inside one that has.
    #[cold]
    fn wake_with_context(&mut self, number: u32) {
        let Some(local) = self.get(number) else { return };
        let group = local.group.clone();
        let now = group.now();
        group.servers.iter().for_each(|server| server.wake(now));
        local.served.news(group.served.load(Relaxed));
        if group.is_reserved {
            self.reserved.push(number);
            self.preempted = true;
        } else {
            self.preempted |= self.tree.wake(number);
        }
    }

    /// A group has no time left: it sleeps, and what is ready of it is not counted. False if there is time by now.
    pub(crate) fn throttle(&mut self, number: u32, worker: usize) -> bool {
        self.put_to_sleep(number);
        let Some(local) = self.get(number) else { return true };
        if local.phase.is_throttled() {
            return true;
        }
        if !local.group.wait(|| Held::Group(local.group.clone(), worker)) {
            self.wake(number);
            return false;
        }
        local.phase = Phase::Unwinding;
        let ready = local.ready.len();
        self.ready -= ready;
        true
    }

    /// A group that waited has time again.
    pub(crate) fn release(&mut self, group: &Arc<ShareGroup>) {
        let Some(local) = self.get(group.number) else { return };
        if !local.phase.is_throttled() || !Arc::ptr_eq(&local.group, group) {
            return;
        }
        let counts = local.ready.len() + if local.phase == Phase::Held { local.unwinding.len() } else { 0 };
        local.phase = Phase::Free;
        self.ready += counts;
        self.put_to_sleep(group.number); // if it unwound, its rank was another
        self.wake(group.number);
    }

    /// A group that waits may not even unwind.
    pub(crate) fn hold(&mut self, number: u32) {
        self.put_to_sleep(number);
        let Some(local) = self.get(number) else { return };
        if std::mem::replace(&mut local.phase, Phase::Held) == Phase::Unwinding {
            let unwinding = local.unwinding.len();
            self.ready -= unwinding;
        }
    }

    /// A group has nothing to run here.
    pub(crate) fn put_to_sleep(&mut self, number: u32) {
        if self.reserved_current == Some(number) {
            self.reserved_current = None;
        }
        self.reserved.retain(|&other| other != number);
        let worker = self.worker;
        if let Some(local) = self.get(number) {
            local.group.lines[worker].is_awake.store(false, Relaxed);
        }
        if self.tree.contains(number) {
            self.tree.sleep(number);
        }
    }

    /// Gives the memory of groups that have ended back, now and then.
    fn forget_ended(&mut self) {
        for place in &mut self.groups {
            let is_over = |local: &LocalGroup| local.group.has_ended() && local.ready.is_empty() && !local.has_tasks();
            if place.as_ref().is_some_and(is_over) {
                *place = None; // in the tree it sleeps, or is put to sleep when it is picked
            }
        }
    }

    /// Forgets everything: the groups that it knew have ended.
    fn forget_all(&mut self) {
        debug_assert!(
            !self.groups.iter().flatten().any(LocalGroup::has_tasks),
            "groups ended with tasks in their lines"
        );
        *self = Self { generation: self.generation, ..Self::new(self.worker) };
    }
}

impl LocalGroup {
    /// Whether it has started tasks here. A future in its line may have been taken away.
    fn has_tasks(&self) -> bool {
        !self.unwinding.is_empty() || self.ready.iter().any(|ready| matches!(ready.what, ReadyWhat::Fiber(_)))
    }
}

impl Worker {
    /// What is known here of the groups that there are now.
    pub(crate) fn local_shares(&self) -> RefMut<'_, LocalShares> {
        let shares = self.shares.borrow_mut();
        let mut shares =
            RefMut::map(shares, |shares| &mut **shares.get_or_insert_with(|| Box::new(LocalShares::new(self.index))));
        let generation = self.shared.shares.generation();
        if shares.generation != generation {
            shares.forget_all();
            shares.generation = generation;
        }
        shares
    }

    /// Adds an unstarted task of a group; gives back one that is in none.
    #[cold]
    pub(crate) fn push_to_group(&self, priority: Priority, task: RunnableRef) -> Result<(), RunnableRef> {
        let scope = task.scope();
        let Some(group) = scope.group() else { return Err(task) };
        let mut shares = self.local_shares();
        let local = shares.known(group);
        if local.phase.is_throttled() && scope.is_cancelled() {
            shares.unwind(group.number, Next::Start(task));
            return Ok(());
        }
        let number = group.number;
        shares.wake(number);
        let group = &shares.known_by_number(number).group;
        group.push(self.index, priority, task); // the last use of its nursery: it may end now, and the group is kept here
        group.published(self.index);
        Ok(())
    }

    /// Takes back what was pushed last, if it is that of a group. None: it is in no group.
    #[cold]
    pub(crate) fn pop_from_group(&self, group: Option<&Membership>, item: *mut Runnable) -> Option<bool> {
        group.map(|group| group.pop_if_newest(self.index, item))
    }

    /// A fiber of a group can go on; false if it is in none.
    #[cold]
    pub(crate) fn enqueue_in_group(&self, waiter: &'static Waiter, behind: Behind) -> bool {
        let Some(scope) = self.fibers.base(waiter.tag()) else { return false };
        let Some(group) = scope.group() else { return false };
        if !self.is_to_unwind_now(group, waiter) {
            self.line_up(group, behind, ReadyWhat::Fiber(waiter));
        }
        true
    }

    /// A future of a group is to be polled again; gives back one that is in none.
    #[cold]
    pub(crate) fn requeue_in_group(&self, future: RunnableRef, behind: Behind) -> Result<(), RunnableRef> {
        let scope = future.scope();
        let Some(group) = scope.group() else { return Err(future) };
        let mut shares = self.local_shares();
        if scope.is_cancelled() && shares.known(group).phase.is_throttled() {
            shares.unwind(group.number, Next::Start(future));
            return Ok(());
        }
        // Where a worker has nothing of the group it takes what has not started: now and then that is one that has.
        let local = shares.known(group);
        let is_for_others = local.tick.is_multiple_of(OFFER_INTERVAL)
            && !local.ready.is_empty()
            && group.absent_workers(self.index) > 0;
        if is_for_others {
            let group = group.clone();
            group.push(self.index, Priority::Normal, future); // the last use of its nursery
            shares.wake(group.number);
            drop(shares);
            group.published(self.index);
            return Ok(());
        }
        drop(shares);
        self.line_up(group, behind, ReadyWhat::Future);
        group.lines[self.index].yielded.push(future); // the last use of its nursery: others may take it
        Ok(())
    }

    fn line_up(&self, group: &Arc<ShareGroup>, behind: Behind, what: ReadyWhat) {
        let unstarted = &group.lines[self.index].unstarted;
        let mark = match behind {
            Behind::Ready => 0,
            Behind::Oldest => unstarted.mark_behind_oldest(),
            Behind::All => unstarted.mark(),
        };
        let mut shares = self.local_shares();
        let local = shares.known(group);
        local.ready.push_back(GroupReady { mark, yielded: behind == Behind::All, what });
        local.futures_lined += usize::from(matches!(what, ReadyWhat::Future));
        let counts = usize::from(!local.phase.is_throttled());
        shares.ready += counts;
        shares.wake(group.number);
        let ready = self.ready.len() + shares.ready;
        drop(shares);
        self.watch.count_ready(ready);
    }

    /// Whether something of a group could run here now, or has to be looked at.
    #[cold]
    pub(crate) fn has_group_work(&self) -> bool {
        let shares = &self.shared.shares;
        !shares.injected.is_empty() && self.slot().takes.shared()
            || !shares.notices[self.index].is_empty()
            || shares.counts.of(self.index) > 0
            || self.local_shares().ready > 0
    }
}
