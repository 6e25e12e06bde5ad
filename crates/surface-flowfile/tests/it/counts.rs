//! No message vanishes without being counted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use proptest::prelude::*;
use surface_flowfile::build::{Hooks, flow};

use crate::plan;
use crate::run::{run_builder, run_plan};

#[test]
fn what_leaves_by_an_output_without_an_edge_is_counted() {
    let text = "edges = ['a -> s', 's:0 -> z']\n[node.a]\nkind = 'numbers'\nto = 10\n[node.s]\nkind = 'splitter'\noutputs = 2\n\
                [node.z]\nkind = 'print'";
    let (lines, ended) = run_plan(&plan(text), |_| ());
    assert_eq!((lines.len(), ended.stats.node("s").unwrap().unconnected), (5, 5));
}

#[test]
fn what_a_window_cannot_use_fails_and_is_counted() {
    let list = "[{ k = 'a', v = 1 }, { k = 'a' }, { v = 2 }, { k = 'a', v = 'x' }, { k = 'a', v = 3 }]";
    for (fields, errors, lines) in [
        ("field = 'v'\naggregate = 'sum'", 2, "6"),
        ("field = 'v'\naggregate = 'sum'\nkey = 'k'", 3, "{\"key\":\"a\",\"value\":4}"),
        ("field = 'k'\naggregate = 'count'", 1, "4"),
    ] {
        let text = format!(
            "edges = ['a -> w -> z']\n[node.a]\nkind = 'values'\nlist = {list}\n[node.w]\nkind = 'window'\nsize = 9\n{fields}\n\
             [node.z]\nkind = 'print'"
        );
        let (printed, ended) = run_plan(&plan(&text), |_| ());
        let window = ended.stats.node("w").unwrap();
        assert_eq!((printed, window.errors, window.failed), (vec![lines.to_owned()], errors, errors), "{fields}");
    }
}

#[test]
fn what_a_node_has_gathered_when_the_flow_is_stopped_is_lost() {
    for (node, lost) in [("kind = 'batcher'\nsize = 10", 3), ("kind = 'debounce'\nquiet = '1h'", 1)] {
        let text = format!(
            "edges = ['a -> w -> z', 'b -> w']\n[node.a]\nkind = 'numbers'\nto = 3\n[node.b]\nkind = 'every'\ninterval = '1h'\n\
             [node.w]\n{node}\n[node.z]\nkind = 'print'"
        );
        let (lines, ended) = run_plan(&plan(&text), |handle| {
            while handle.stats().node("w").unwrap().messages < 3 {
                std::thread::yield_now();
            }
            assert_eq!(handle.stats().node("w").unwrap().held, lost);
            handle.stop_now();
        });
        let window = ended.stats.node("w").unwrap();
        assert_eq!((lines.len(), window.lost, window.held), (0, lost, 0), "{node}");
    }
}

#[test]
fn a_flow_whose_only_sink_failed_ends() {
    let text = "edges = ['a -> x -> z']\n[node.a]\nkind = 'every'\ninterval = '1ms'\n[node.x]\nkind = 'text'\n\
                [node.z]\nkind = 'write'\npath = 'no-such-folder/x'";
    let (_, ended) = run_plan(&plan(text), |_| ());
    let failed: Vec<&str> = ended.stats.failures().map(|(node, _)| node).collect();
    assert_eq!(failed, ["z"]);
    // A disk that is full is found out later, and a program stands in between.
    let text = text.replace("'text'", "'command'\nrun = 'cat'").replace("no-such-folder/x", "/dev/full");
    let (_, ended) = run_plan(&plan(&text), |_| ());
    let failed: Vec<&str> = ended.stats.failures().map(|(node, _)| node).collect();
    assert_eq!(failed, ["z"]);
}

#[test]
fn a_flow_with_another_living_branch_goes_on_after_a_sink_failed() {
    let text = "edges = ['a -> x', 'x -> z', 'x -> y']\n[node.a]\nkind = 'every'\ninterval = '1ms'\ncount = 20\n[node.x]\nkind = 'text'\n\
                [node.y]\nkind = 'print'\n[node.z]\nkind = 'write'\npath = 'no-such-folder/x'";
    let (lines, ended) = run_plan(&plan(text), |_| ());
    assert_eq!((lines.len(), ended.stats.failures().count()), (20, 1));
}

/// A sink, and how many messages reached it, as the world outside sees that.
#[derive(Debug, Clone)]
enum Sink {
    /// Prints so many, and then its output is full.
    Prints(u64),
    FullDisk,
    NoFolder,
    /// A program that reads nothing and fails, after being started so often.
    Fails(u64),
    /// One that wants so many lines, one at a time.
    Reads(u64),
}

impl Sink {
    fn node(&self) -> String {
        match self {
            Sink::Prints(_) => "kind = 'print'".to_owned(),
            Sink::FullDisk => "kind = 'write'\npath = '/dev/full'".to_owned(),
            Sink::NoFolder => "kind = 'write'\npath = 'no-such-folder/x'".to_owned(),
            Sink::Fails(restart) => format!("kind = 'command'\nrun = 'exit 1'\nrestart = {restart}"),
            Sink::Reads(lines) => format!("kind = 'command'\nrun = 'for i in $(seq {lines}); do read line; done'"),
        }
    }
}

fn sink() -> impl Strategy<Value = Sink> {
    prop_oneof![
        (0..60_u64).prop_map(Sink::Prints),
        Just(Sink::FullDisk),
        Just(Sink::NoFolder),
        (0..2_u64).prop_map(Sink::Fails),
        (0..60_u64).prop_map(Sink::Reads),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_message_of_a_source_is_delivered_or_counted_as_what_became_of_it(
        sink in sink(),
        count in 1..50_u64,
        policy in prop::sample::select(vec!["block", "drop", "latest"]),
        on_error in prop::sample::select(vec![
            "", "on_error = 'stop-node'", "on_error = 'dead-letter'", "retry = { times = 2, first = '1ms' }",
        ]),
        capacity in 1..20_u64,
        between in any::<bool>(),
    ) {
        let stage = if between { "\n[node.x]\nkind = 'text'" } else { "" };
        let way = if between { "edges = ['a -> x']\n" } else { "" };
        let from = if between { "x" } else { "a" };
        let text = format!(
            "{way}[[edge]]\nfrom = '{from}'\nto = 'z'\ncapacity = {capacity}\npolicy = '{policy}'\n[node.a]\nkind = 'numbers'\nto = {count}{stage}\n\
             [node.z]\n{}\n{on_error}",
            sink.node()
        );
        let printed = Arc::new(AtomicU64::new(0));
        let (room, prints) = (if let Sink::Prints(room) = sink { room } else { 0 }, Arc::clone(&printed));
        let hooks = Hooks::default().print(move |_| {
            if prints.load(SeqCst) == room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            prints.fetch_add(1, SeqCst);
            Ok(())
        });
        let ended = run_builder(flow(&plan(&text), &hooks).unwrap(), |_| ()).unwrap();
        let stats = &ended.stats;
        let (z, first) = (stats.node("z").unwrap(), &stats.edge(if between { "a:out->x:in" } else { "a:out->z:in" }).unwrap());
        let last = stats.edge(&format!("{from}:out->z:in")).unwrap();
        prop_assert_eq!(first.put, stats.node("a").unwrap().emitted);
        prop_assert_eq!(last.put, last.delivered + last.dropped + last.replaced + last.coalesced, "nothing waits: {:?}", last);
        let reached = match sink {
            Sink::Prints(_) => printed.load(SeqCst),
            Sink::FullDisk | Sink::NoFolder | Sink::Fails(_) => 0,
            Sink::Reads(lines) => lines.min(last.delivered),
        };
        let counted = z.lost + z.failed + z.unwanted + z.held;
        prop_assert_eq!(last.delivered, reached + counted, "{}\n{:#?}", text, stats);
    }
}
