//! A record of a random flow while it runs, and random interventions.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst},
    },
};

use sched_flow::{EdgeStats, Handle, Policy, Stats, Time};
use test_support::Dice;

/// What is known of a node.
#[derive(Default)]
pub(crate) struct Life {
    busy: AtomicBool,
    pub(crate) started: AtomicU64,
    pub(crate) ended: AtomicU64,
    pub(crate) stopped: AtomicU64,
    /// Emitted by calls that did not fail, by output.
    pub(crate) emitted: [AtomicU64; 2],
}

/// What is known of an edge between two nodes that record.
pub(crate) struct Known {
    pub(crate) id: String,
    pub(crate) policy: Policy,
    /// The largest capacity it ever had.
    pub(crate) most: AtomicUsize,
}

pub(crate) struct Record {
    wrong: Mutex<Vec<String>>,
    pub(crate) dice: Dice,
    /// Taken away after the run: the flow holds its nodes, and they hold this.
    pub(crate) handle: Mutex<Option<Handle>>,
    pub(crate) names: Vec<String>,
    pub(crate) lives: Vec<Life>,
    pub(crate) edges: Vec<Known>,
    pub(crate) starts: Mutex<Vec<usize>>,
    pub(crate) stops: Mutex<Vec<usize>>,
    /// No node may be paused any more.
    calm: Mutex<bool>,
    /// The call at which the flow is shut down or stopped.
    pub(crate) shutdown_at: Option<u64>,
    pub(crate) stop_now_at: Option<u64>,
    pub(crate) end_at: Option<(u64, usize)>,
    pub(crate) shut: Mutex<Option<Time>>,
    calls: AtomicU64,
    /// Calls are interrupted, so that others come between.
    pub(crate) yields: bool,
    /// Everything that happened, in order, as one number.
    pub(crate) history: Mutex<u64>,
}

/// A call of a node; its end is seen, too.
pub(crate) struct Inside<'a>(&'a Life);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, SeqCst);
    }
}

/// What must be so for every edge at every look.
pub(crate) fn add_up(edge: &EdgeStats) -> bool {
    edge.put == edge.delivered + edge.dropped + edge.replaced + edge.coalesced + edge.depth as u64
}

impl Record {
    pub(crate) fn new(dice: Dice, names: Vec<String>, edges: Vec<Known>) -> Self {
        Self {
            wrong: Mutex::default(),
            dice,
            handle: Mutex::default(),
            lives: names.iter().map(|_| Life::default()).collect(),
            names,
            edges,
            starts: Mutex::default(),
            stops: Mutex::default(),
            calm: Mutex::new(false),
            shutdown_at: None,
            stop_now_at: None,
            end_at: None,
            shut: Mutex::default(),
            calls: AtomicU64::new(0),
            yields: false,
            history: Mutex::new(0),
        }
    }

    /// A law was broken. A panic would only be an error of the node.
    pub(crate) fn wrong(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() < 10 {
            wrong.push(what);
        }
    }

    pub(crate) fn wrongs(&self) -> Vec<String> {
        self.wrong.lock().unwrap().clone()
    }

    pub(crate) fn chance(&self, percent: u64) -> bool {
        self.dice.chance(percent)
    }

    pub(crate) fn below(&self, sides: u64) -> u64 {
        self.dice.below(sides)
    }

    /// The permission to use the handle, where a task may be interrupted: others wait meanwhile.
    fn calm(&self) -> MutexGuard<'_, bool> {
        loop {
            if let Ok(calm) = self.calm.try_lock() {
                return calm;
            }
            sched_tasks::yield_now();
        }
    }

    /// A node is called.
    pub(crate) fn enter(&self, node: usize, what: &str, number: u64, now: Time) -> Inside<'_> {
        let life = &self.lives[node];
        let name = &self.names[node];
        if life.busy.swap(true, SeqCst) {
            self.wrong(format!("{name} is called twice at a time ({what})"));
        }
        if what != "start" && life.started.load(SeqCst) != 1 {
            self.wrong(format!("{name} is called before it was started ({what})"));
        }
        if life.stopped.load(SeqCst) != 0 {
            self.wrong(format!("{name} is called after it was stopped ({what})"));
        }
        {
            let mut history = self.history.lock().unwrap();
            let news = node as u64 ^ number << 8 ^ (what.len() as u64) << 40 ^ now.nanos().rotate_left(20);
            *history = (history.rotate_left(7) ^ news).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        let call = self.calls.fetch_add(1, SeqCst);
        if self.shutdown_at == Some(call) {
            self.shut_down(now);
        }
        if self.stop_now_at == Some(call) {
            self.handle().stop_now();
        }
        if let Some((at, node)) = self.end_at
            && at == call
        {
            self.handle().end(&self.names[node]).unwrap();
        }
        if what != "start" && what != "stop" && self.chance(3) {
            self.meddle();
        }
        if self.yields && self.chance(30) {
            sched_tasks::yield_now();
        }
        Inside(life)
    }

    pub(crate) fn handle(&self) -> Handle {
        self.handle.lock().unwrap().clone().expect("it is given before the run")
    }

    pub(crate) fn shut_down(&self, now: Time) {
        let mut calm = self.calm();
        *calm = true;
        self.shut.lock().unwrap().get_or_insert(now);
        self.handle().shutdown();
    }

    /// Resumes all nodes; and if it is the last time, no node may be paused later.
    pub(crate) fn resume_all(&self, last: bool) {
        let mut calm = self.calm();
        *calm |= last;
        let handle = self.handle();
        self.names.iter().for_each(|name| handle.resume(name).unwrap());
    }

    /// Changes something, or looks at everything.
    pub(crate) fn meddle(&self) {
        let handle = self.handle();
        let dice = &self.dice;
        let (what, number) = (dice.below(8), dice.throw());
        let (edge, node) = (dice.below(self.edges.len() as u64), dice.below(self.names.len() as u64));
        let name = &self.names[node as usize];
        let edge = self.edges.get(edge as usize);
        match (what, edge) {
            (0, Some(edge)) => {
                let capacity = 1 + number as usize % 8;
                edge.most.fetch_max(capacity, SeqCst);
                handle.set_capacity(&edge.id, capacity).unwrap();
            }
            (1, Some(edge)) => handle.set_priority(&edge.id, [0, 10, 100][number as usize % 3]).unwrap(),
            (2, _) => {
                let calm = self.calm();
                if !*calm {
                    handle.pause(name).unwrap();
                }
            }
            (3, _) => handle.resume(name).unwrap(),
            (4, _) => assert!(handle.why(name).unwrap().to_string().starts_with(name.as_str())),
            _ => self.look(&handle.stats()),
        }
    }

    /// The laws of edges, at any moment.
    pub(crate) fn look(&self, stats: &Stats) {
        for edge in &stats.edges {
            if !add_up(edge) {
                self.wrong(format!("the counts of {} do not add up: {edge:?}", edge.id));
            }
        }
        let by_id: BTreeMap<_, _> = stats.edges.iter().map(|edge| (edge.id.as_str(), edge)).collect();
        for known in self.edges.iter().filter(|known| known.policy == Policy::Block) {
            let edge = by_id[known.id.as_str()];
            if edge.depth > known.most.load(SeqCst) {
                self.wrong(format!("{} holds too many: {edge:?}", edge.id));
            }
        }
    }
}
