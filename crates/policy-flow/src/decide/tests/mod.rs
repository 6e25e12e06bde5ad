//! The decisions alone, without messages or threads.
//!
//! Room: tests.

use std::time::Duration;

use test_support::Dice;

use super::*;
use crate::policy::Band;

/// Nodes in a row, the first a source, each with a batch of 4, and an edge from each to the next.
fn chain(nodes: u32) -> Core {
    let facts = (0..nodes).map(|node| facts(node, node == 0)).collect();
    let edges = (1..nodes).map(|node| edge(node - 1, node, Band::Normal)).collect();
    started(Core::new(facts, edges, &(0..nodes).collect::<Vec<_>>(), [4, 2, 1]), nodes)
}

fn facts(node: u32, source: bool) -> NodeFacts {
    NodeFacts { source, cadence: None, batch: 4, band: Band::Normal, group: node }
}

fn edge(from: u32, to: u32, band: Band) -> EdgeFacts {
    EdgeFacts { from, to, band, steers: false, loose: false }
}

fn started(mut core: Core, nodes: u32) -> Core {
    (0..nodes).for_each(|node| core.started(node, &Outcome::default(), &Log::default(), Time::START));
    core
}

fn turn(core: &mut Core) -> Turn {
    match core.pick(Time::START) {
        Pick::Turn(turn) => turn,
        other => panic!("there is a turn to give, not {other:?}"),
    }
}

fn log(filled: &[u32], roomy: &[u32]) -> Log {
    Log { filled: filled.to_vec(), roomy: roomy.to_vec(), ..Log::default() }
}

fn more() -> Outcome {
    Outcome { produced: Some(Produced::More), ..Outcome::default() }
}

#[test]
fn what_comes_while_a_node_has_its_turn_is_kept() {
    let mut core = chain(2);
    let source = turn(&mut core);
    core.report(source, &Outcome { produced: Some(Produced::Idle), ..Outcome::default() }, &log(&[0], &[]));
    let serve = turn(&mut core);
    assert_eq!((serve.node, serve.work), (1, Work::Serve(0)));
    // The edge is filled again after the node saw it empty, and before that is reported.
    core.filled(0);
    core.report(serve, &Outcome::default(), &Log::default());
    assert_eq!(turn(&mut core).work, Work::Serve(0));
}

#[test]
fn room_that_came_before_the_report_of_a_blocked_turn_is_not_forgotten() {
    let mut core = chain(2);
    let source = turn(&mut core);
    core.roomy(0);
    core.report(source, &Outcome { blocked: true, unsent: true, ..more() }, &Log::default());
    assert_eq!(turn(&mut core).node, 0, "it would wait for a signal that was sent already");
}

#[test]
fn a_node_that_waits_for_room_has_no_turn_before_there_is_some() {
    let mut core = chain(2);
    let source = turn(&mut core);
    core.report(source, &Outcome { blocked: true, ..more() }, &Log::default());
    assert_eq!(core.pick(Time::START), Pick::Idle(None));
    core.roomy(0);
    assert_eq!(turn(&mut core).node, 0);
}

#[test]
fn edges_that_were_not_served_keep_their_position_and_served_ones_go_to_the_back() {
    let nodes = (0..4).map(|node| facts(node, node < 3)).collect();
    let edges = (0..3).map(|from| edge(from, 3, Band::Normal)).collect();
    let mut core = started(Core::new(nodes, edges, &[0, 1, 2, 3], [4, 2, 1]), 4);
    for _ in 0..3 {
        let source = turn(&mut core);
        let idle = Outcome { produced: Some(Produced::Idle), ..Outcome::default() };
        core.report(source, &idle, &log(&[source.node], &[]));
    }
    let first = turn(&mut core);
    assert_eq!((first.work, first.extra.edges()), (Work::Serve(0), &[1, 2][..]));
    core.report(first, &Outcome { more: true, extra_served: 1, ..Outcome::default() }, &log(&[1], &[]));
    let second = turn(&mut core);
    let order: Vec<u32> = std::iter::once(second.work)
        .map(|work| if let Work::Serve(edge) = work { edge } else { panic!("{work:?}") })
        .chain(second.extra.edges().iter().copied())
        .collect();
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn a_turn_that_was_refused_is_given_again() {
    let mut core = chain(2);
    let source = turn(&mut core);
    core.report(source, &Outcome { produced: Some(Produced::Idle), ..Outcome::default() }, &log(&[0], &[]));
    let serve = turn(&mut core);
    core.report(serve, &Outcome { refused: true, ..Outcome::default() }, &Log::default());
    assert_eq!(turn(&mut core).work, Work::Serve(0));
}

#[test]
fn a_late_tick_does_not_shift_those_to_come_and_missed_ones_are_counted() {
    let every = Duration::from_millis(10);
    let nodes = vec![NodeFacts { cadence: Some(every), ..facts(0, true) }];
    let mut core = started(Core::new(nodes, Vec::new(), &[0], [4, 2, 1]), 1);
    assert_eq!(core.pick(Time::START), Pick::Idle(Some(Time::START + every)));
    let late = Time::START + Duration::from_millis(34);
    let Pick::Turn(tick) = core.pick(late) else { panic!("its tick is due") };
    assert_eq!(tick.work, Work::Tick);
    core.report(tick, &more(), &Log { ticked: true, ..Log::default() });
    assert_eq!(core.pick(late), Pick::Idle(Some(Time::START + every * 4)));
    let counts = &core.node(0).counts;
    assert_eq!((counts.ticks, counts.ticks_missed), (1, 2));
}

#[test]
fn the_end_goes_down_the_chain_behind_the_last_message() {
    let mut core = chain(3);
    let source = turn(&mut core);
    core.report(source, &Outcome { produced: Some(Produced::End), ..Outcome::default() }, &log(&[0], &[]));
    let mut seen = Vec::new();
    while let Pick::Turn(turn) = core.pick(Time::START) {
        seen.push((turn.node, turn.work));
        // The middle one forwards what it got.
        let filled: &[u32] = if turn == (Turn { node: 1, work: Work::Serve(0), ..turn }) { &[1] } else { &[] };
        core.report(turn, &Outcome::default(), &log(filled, &[]));
    }
    let (end, serve) = (Work::End, Work::Serve);
    assert_eq!(seen, [(1, serve(0)), (0, end), (2, serve(1)), (1, end), (2, end)]);
    assert_eq!(core.pick(Time::START), Pick::Over);
}

#[test]
fn a_new_band_of_an_edge_counts_from_the_next_turn_on() {
    let nodes = (0..3).map(|node| facts(node, node == 0)).collect();
    let edges = vec![edge(0, 1, Band::Normal), edge(0, 2, Band::Normal)];
    let mut core = started(Core::new(nodes, edges, &[0, 1, 2], [4, 2, 1]), 3);
    let source = turn(&mut core);
    core.report(source, &Outcome { produced: Some(Produced::Idle), ..Outcome::default() }, &log(&[0, 1], &[]));
    core.set_band(1, Band::Control);
    let first = turn(&mut core);
    assert_eq!((first.node, first.band), (2, Band::Control));
}

#[test]
fn on_any_number_of_workers_one_turn_of_others_at_most_begins_before_control_has_its_own() {
    // Nodes 0 to 5 are busy sources of both other bands; 6 feeds 7 by an edge of control.
    for workers in 1..=4_usize {
        for seed in 0..50_u64 {
            let mut nodes: Vec<NodeFacts> = (0..8).map(|node| facts(node, node < 7)).collect();
            nodes[..3].iter_mut().for_each(|node| node.band = Band::High);
            let mut core =
                started(Core::new(nodes, vec![edge(6, 7, Band::Control)], &[0, 1, 2, 3, 4, 5, 6, 7], [4, 2, 1]), 8);
            let dice = Dice::new(seed);
            let mut running: Vec<Turn> = Vec::new();
            let (mut begun, mut waits, mut served) = (0, false, 0);
            for _ in 0..2_000 {
                if running.len() < workers
                    && let Pick::Turn(turn) = core.pick(Time::START)
                {
                    if turn.band == Band::Control {
                        (waits, begun, served) = (false, 0, served + 1);
                    } else if waits {
                        begun += 1;
                        assert!(begun <= 1, "{workers} workers, seed {seed}: {begun} turns of others began");
                    }
                    running.push(turn);
                }
                if running.is_empty() {
                    continue;
                }
                let done = running.swap_remove(dice.below(running.len() as u64) as usize);
                core.report(done, &more(), &Log::default());
                // Control comes at any moment, while other turns are being given; a node that has its turn gets the signal after it.
                if !waits && running.iter().all(|turn| turn.node != 7) && dice.below(5) == 0 {
                    core.filled(0);
                    (waits, begun) = (true, 0);
                }
            }
            assert!(served > 50, "{workers} workers, seed {seed}: {served}");
        }
    }
}
