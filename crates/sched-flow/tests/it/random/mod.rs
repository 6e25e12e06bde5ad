//! Random graphs with random nodes, meddled with at random moments: the laws hold in all of them.
//!
//! Block edges deliver every message exactly once and in order. What goes onto an edge is accounted for at every look. Traces follow their messages. Nodes
//! start producers first, stop in reverse, end after their last message, and are never called twice at a time. Nothing spins, nothing hangs.

mod nodes;
mod plan;
mod record;

use std::{
    sync::{Arc, atomic::Ordering::SeqCst, mpsc},
    task::Waker,
    time::Duration,
};

use sched_flow::{Ended, Flow, FlowError, Policy, Stats};
use test_support::{Dice, for_seeds};

use plan::{Kind, Plan};
use record::Record;

const DRAIN: Duration = Duration::from_secs(10);

struct Ran {
    result: Result<Ended, FlowError>,
    stats: Stats,
    record: Arc<Record>,
}

/// How a flow is run.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// On one worker, in virtual time.
    Virtual,
    /// On so many workers, in real time.
    Real(usize),
    /// On workers that one thread plays, as a seed decides, in virtual time.
    Seeded(u64),
}

fn run(plan: &Plan, dice: &Dice, mode: Mode) -> Ran {
    let names = (0..plan.nodes.len()).map(|node| plan.id(node)).collect();
    let mut record = Record::new(dice.clone(), names, plan.known());
    record.shutdown_at = plan.shutdown_at;
    record.stop_now_at = plan.stop_now_at;
    record.end_at = plan.end_at;
    record.yields = matches!(mode, Mode::Seeded(_));
    let record = Arc::new(record);
    let builder = Flow::builder().batch(plan.batch).drain_timeout(DRAIN);
    // In real time, wakes come from another thread.
    let (wakes, waker) = matches!(mode, Mode::Real(_)).then(mpsc::channel::<Waker>).unzip();
    let waker = waker.map(|waker| std::thread::spawn(move || waker.iter().for_each(Waker::wake)));
    let builder = match mode {
        Mode::Virtual => builder.virtual_time(),
        Mode::Real(workers) => builder.workers(workers),
        Mode::Seeded(_) => builder.workers(3),
    };
    let flow = builder.register(plan.graph(&record, wakes.as_ref())).build();
    let flow = flow.unwrap_or_else(|problems| panic!("{problems}\n{plan:#?}"));
    let handle = flow.handle();
    *record.handle.lock().unwrap() = Some(handle.clone());
    if plan.shutdown_before {
        record.shut_down(sched_flow::Time::START);
    }
    // One seed alone is there to be looked at: if it hangs, it says where.
    let look = std::env::var("SEED").is_ok().then(|| {
        let (over, handle) = (mpsc::channel::<()>(), handle.clone());
        std::thread::spawn(move || {
            if over.1.recv_timeout(Duration::from_secs(2)) == Err(mpsc::RecvTimeoutError::Timeout) {
                handle.nodes().for_each(|node| eprintln!("{}", handle.why(node).unwrap()));
                eprintln!("{:#?}", handle.stats());
            }
        });
        over.0
    });
    let result = match mode {
        Mode::Seeded(seed) => {
            let runtime = sched_tasks::Runtime::builder().workers(3).seeded(seed).build().unwrap();
            runtime.run(move || flow.run()).unwrap()
        }
        _ => flow.run(),
    };
    drop(look);
    let stats = handle.stats();
    record.look(&stats);
    *record.handle.lock().unwrap() = None;
    drop((handle, wakes));
    waker.into_iter().for_each(|waker| waker.join().unwrap());
    Ran { result, stats, record }
}

/// Checks everything that must be so at the end.
fn check(plan: &Plan, ran: &Ran, in_virtual_time: bool) {
    let Ran { result, stats, record } = ran;
    let fatal = plan.nodes.iter().any(|node| node.breaks && format!("{:?}", node.on_error).contains("StopGraph"));
    assert!(result.is_ok() || fatal, "{result:?}");
    let starts = record.starts.lock().unwrap();
    let stops = record.stops.lock().unwrap();
    assert_eq!(starts.len(), plan.nodes.len(), "not everybody was started");
    assert!(starts.iter().rev().eq(stops.iter()), "started {starts:?}, stopped {stops:?}");
    let place = |node| starts.iter().position(|other| *other == node).unwrap();
    let cycles = plan.edges.iter().any(|edge| !edge.forwards);
    for edge in plan.edges.iter().filter(|edge| matches!(edge.policy, Policy::Block | Policy::Coalesce) || !cycles) {
        assert!(place(edge.from) < place(edge.to), "{} starts after {}", plan.id(edge.from), plan.id(edge.to));
    }
    check_turns(stats);
    let Ok(ended) = result else { return };
    if plan.stop_now_at.is_some() {
        return;
    }
    // A node stays paused if the switch that paused it was shut down before it sent `Resume`.
    let shut = *record.shut.lock().unwrap();
    if let Some(shut) = shut {
        if in_virtual_time {
            let took = ended.stats.elapsed.saturating_sub(shut.since(sched_flow::Time::START));
            assert!(took <= DRAIN + Duration::from_millis(1), "it took {took:?} to drain");
        }
        if plan.steered.is_some() && !ended.drained {
            return;
        }
    }
    assert!(ended.drained, "something was left");
    for (at, node) in plan.nodes.iter().enumerate() {
        if matches!(node.kind, Kind::Relay(_)) && !node.breaks {
            assert_eq!(record.lives[at].ended.load(SeqCst), 1, "`on_end` of {} was not called", plan.id(at));
        }
    }
    let forsaken = forsaken(plan);
    for plan_edge in &plan.edges {
        let edge = stats.edge(&plan.edge_id(plan_edge)).unwrap();
        let emitted = record.lives[plan_edge.from].emitted[plan_edge.output].load(SeqCst);
        assert_eq!(edge.put, emitted, "not everything that was emitted reached {edge:?}");
        assert_eq!(edge.depth, 0, "{edge:?}");
        // In a cycle, what a node emits at its end does not reach the nodes that ended before.
        let heard = edge.policy == Policy::Block || !cycles;
        if heard && !forsaken[plan_edge.to] {
            match edge.policy {
                Policy::Block => assert_eq!(edge.delivered, edge.put, "{edge:?}"),
                Policy::Drop => assert_eq!(edge.delivered + edge.dropped, edge.put, "{edge:?}"),
                Policy::Latest => assert_eq!(edge.delivered + edge.replaced, edge.put, "{edge:?}"),
                Policy::Coalesce => assert_eq!(edge.delivered + edge.coalesced, edge.put, "{edge:?}"),
            }
        }
    }
}

/// Nodes that may break, and those that feed only such nodes: when these break, the others take no more.
fn forsaken(plan: &Plan) -> Vec<bool> {
    let mut forsaken: Vec<bool> = plan.nodes.iter().map(|node| node.breaks).collect();
    loop {
        let is_new = |node: &usize| {
            let mut outputs = plan.edges.iter().filter(|edge| edge.from == *node).peekable();
            !forsaken[*node] && outputs.peek().is_some() && outputs.all(|edge| forsaken[edge.to])
        };
        let Some(next) = (0..plan.nodes.len()).find(is_new) else { return forsaken };
        forsaken[next] = true;
    }
}

/// No worker spins: each turn has a reason.
fn check_turns(stats: &Stats) {
    for node in &stats.nodes {
        let blocked: u64 = stats.edges.iter().map(|edge| edge.blocked_times).sum();
        let reasons = node.messages + node.emitted + node.errors + node.ticks + node.ticks_missed + blocked;
        // Wakes, commands and control messages are at most as many as all that.
        let bound = 3 * reasons + 200;
        assert!(node.turns <= bound, "{} had {} turns, but only {reasons} reasons", node.id, node.turns);
    }
}

fn one(seed: u64, mode: Mode) {
    let dice = Dice::new(seed);
    let plan = Plan::of(&dice);
    let ran = run(&plan, &dice, mode);
    let wrongs = ran.record.wrongs();
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&plan, &ran, mode == Mode::Virtual)));
    if !wrongs.is_empty() || checked.is_err() {
        println!("{plan:#?}\n{:#?}", ran.stats);
        let message = checked.err().and_then(|panic| panic.downcast::<String>().ok());
        panic!("seed {seed}: {wrongs:#?} {}", message.unwrap_or_default());
    }
    if !matches!(mode, Mode::Real(_)) && seed.is_multiple_of(10) {
        let again = run(&plan, &dice, mode);
        let (first, second) = (*ran.record.history.lock().unwrap(), *again.record.history.lock().unwrap());
        assert_eq!(first, second, "seed {seed} does not replay");
    }
}

#[test]
fn random_flows_keep_the_laws_in_virtual_time() {
    for_seeds("random_flows_keep_the_laws_in_virtual_time", 0..1_000, |seed| one(seed, Mode::Virtual));
}

#[test]
fn random_flows_keep_the_laws_on_several_workers() {
    for_seeds("random_flows_keep_the_laws_on_several_workers", 0..100, |seed| {
        one(seed, Mode::Real(2 + seed as usize % 3))
    });
}

#[test]
fn random_flows_keep_the_laws_on_workers_that_a_seed_plays() {
    for_seeds("random_flows_keep_the_laws_on_workers_that_a_seed_plays", 0..200, |seed| one(seed, Mode::Seeded(seed)));
}
