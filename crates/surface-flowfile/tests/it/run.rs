//! Each kind in a small graph that runs, in virtual time.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bursar::flow::{Ended, FlowBuilder as Builder, FlowError, Handle};
use mech_process::KeeperProgram;
use surface_flowfile::build::{Hooks, edge_id, flow};
use surface_flowfile::plan::Plan;

use crate::plan;

/// Lines that `print` nodes wrote.
#[derive(Clone, Default)]
pub(crate) struct Printed(Arc<Mutex<String>>);

impl Printed {
    pub(crate) fn hooks(&self) -> Hooks {
        let printed_lines = self.clone();
        let keeper = KeeperProgram { program: env!("CARGO_BIN_EXE_surface-flowfile-keeper").into(), args: Vec::new() };
        Hooks::default().keeper(keeper).print(move |line| {
            printed_lines.0.lock().unwrap().push_str(line);
            Ok(())
        })
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().lines().map(str::to_owned).collect()
    }
}

/// A flow that runs longer has found a bug.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Runs to the end, or tells where it stands.
pub(crate) fn run_builder(builder: Builder, meanwhile: impl FnOnce(Handle)) -> Result<Ended, FlowError> {
    let flow = builder.build().unwrap_or_else(|problems| panic!("{problems}"));
    let handle = flow.handle();
    let (done, is_done) = mpsc::channel();
    let runner = std::thread::spawn(move || {
        let ended = flow.run();
        let _ = done.send(());
        ended
    });
    meanwhile(handle.clone());
    if is_done.recv_timeout(LIMIT).is_err() {
        panic!("it does not end: {:#?}", handle.stats());
    }
    runner.join().unwrap()
}

/// Runs a file in real time, and gives what it printed.
pub(crate) fn run_plan(plan: &Plan, meanwhile: impl FnOnce(Handle)) -> (Vec<String>, Ended) {
    let printed_lines = Printed::default();
    let ended = run_builder(flow(plan, &printed_lines.hooks()).unwrap(), meanwhile).unwrap();
    (printed_lines.lines(), ended)
}

/// Runs a file in virtual time, and gives what it printed.
fn printed(text: &str) -> Vec<String> {
    let printed_lines = Printed::default();
    let ended = run_builder(flow(&plan(text), &printed_lines.hooks()).unwrap().virtual_time(), |_| ()).unwrap();
    assert!(ended.drained);
    printed_lines.lines()
}

/// What comes out of one node for these messages.
fn through(list: &str, node: &str) -> Vec<String> {
    printed(&format!(
        "edges = ['a -> x -> z']\n[node.a]\nkind = 'values'\nlist = {list}\n[node.x]\n{node}\n[node.z]\nkind = 'print'"
    ))
}

/// The same, one message every so many milliseconds.
fn paced(every_ms: u64, count: u64, node: &str, tail: &str) -> Vec<String> {
    printed(&format!(
        "edges = ['a -> x -> z'{tail}]\n[node.a]\nkind = 'every'\ninterval = '{every_ms}ms'\ncount = {count}\n[node.x]\n{node}\n[node.z]\nkind = 'print'"
    ))
}

#[test]
fn numbers_and_values_are_emitted_in_order() {
    assert_eq!(
        printed("edges = ['a -> z']\n[node.a]\nkind = 'numbers'\nfrom = -1\nto = 2\n[node.z]\nkind = 'print'"),
        ["-1", "0", "1", "2"]
    );
    let text = "edges = ['a -> z']\n[node.a]\nkind = 'values'\nrepeat = 2\nlist = [1, 'two', { three = [3.5, true] }]\n[node.z]\nkind = 'print'\n";
    assert_eq!(printed(text), ["1", "two", r#"{"three":[3.5,true]}"#, "1", "two", r#"{"three":[3.5,true]}"#]);
    assert_eq!(printed(&format!("{text}format = 'json'"))[1], "\"two\"");
}

#[test]
fn a_clock_emits_in_every_interval_without_drift() {
    let text = |fields: &str| {
        format!(
            "edges = ['a -> z']\n[node.a]\nkind = 'every'\ninterval = '250ms'\ncount = 3\n{fields}\n[node.z]\nkind = 'print'"
        )
    };
    assert_eq!(printed(&text("")), ["0", "1", "2"]);
    assert_eq!(printed(&text("emit = 'time'")), ["0.25", "0.5", "0.75"]);
    assert_eq!(printed(&text("value = { on = true }")), [r#"{"on":true}"#; 3]);
}

#[test]
fn a_walk_with_the_same_seed_is_the_same() {
    let text = |seed: u32| {
        format!(
            "edges = ['a -> z']\n[node.a]\nkind = 'random-walk'\nseed = {seed}\nstart = 20\nstep = 0.5\ncount = 50\nas = 'room.celsius'\n[node.z]\nkind = 'print'"
        )
    };
    let walk = printed(&text(7));
    assert_eq!(walk, printed(&text(7)));
    assert_ne!(walk, printed(&text(8)));
    assert_eq!((walk.len(), walk[0].as_str()), (50, r#"{"room":{"celsius":20.0}}"#));
    // The same in every version: files with a seed are repeated for comparison.
    assert_eq!(walk[1..3], [r#"{"room":{"celsius":19.88982974839127}}"#, r#"{"room":{"celsius":19.406618042919426}}"#]);
    let degrees: Vec<f64> = walk.iter().map(|line| line[19..line.len() - 2].parse().unwrap()).collect();
    assert!(degrees.windows(2).all(|pair| (pair[1] - pair[0]).abs() <= 0.5), "{degrees:?}");
    let slow = text(7).replace("seed", "interval = '1h'\nseed");
    assert_eq!(printed(&slow), walk, "the pace does not change the walk");
}

#[test]
fn a_map_changes_messages_in_a_fixed_order() {
    let list = "[{ temp = '20.5', raw = 1, id = 'x' }]";
    let node = "kind = 'map'\nparse = 'number'\nfield = 'temp'\nscale = 2\noffset = 1\n";
    assert_eq!(through(list, node), [r#"{"temp":42.0,"raw":1,"id":"x"}"#]);
    let node = "kind = 'map'\nrename = { temp = 'celsius' }\npick = ['celsius', 'id']\ndrop = ['id']\nset = { 'at.room' = 3 }\n";
    assert_eq!(through(list, node), [r#"{"celsius":"20.5","at":{"room":3}}"#]);
    assert_eq!(through(list, "kind = 'map'\nformat = '{id}: {temp}, {{{missing}}} {raw}'"), ["x: 20.5, {} 1"]);
    assert_eq!(through("['[1, 2]', 'nonsense', '3']", "kind = 'map'\nparse = 'json'"), ["[1,2]", "3"]);
    assert_eq!(through("[1, 2]", "kind = 'map'\nscale = 10"), ["10", "20"]);
}

#[test]
fn a_filter_lets_through_what_meets_all_conditions() {
    let list = "[{ c = 79 }, { c = 80 }, { c = 81.5 }, { c = 'hot' }, { d = 99 }]";
    let filter = |conditions: &str| through(list, &format!("kind = 'filter'\nfield = 'c'\n{conditions}"));
    assert_eq!(filter("above = 80"), [r#"{"c":81.5}"#]);
    assert_eq!(filter("at_least = 80"), [r#"{"c":80}"#, r#"{"c":81.5}"#]);
    assert_eq!(filter("at_least = 80\nbelow = 81"), [r#"{"c":80}"#]);
    assert_eq!(filter("at_most = 79.0"), [r#"{"c":79}"#]);
    assert_eq!(filter("equals = 80.0"), [r#"{"c":80}"#]);
    assert_eq!(filter("not = 80").len(), 3);
    assert_eq!(filter("matches = '^h.t$'"), [r#"{"c":"hot"}"#]);
    assert_eq!(filter("exists = false"), [r#"{"d":99}"#]);
    assert_eq!(filter("exists = true").len(), 4);
}

#[test]
fn a_router_takes_the_first_route_that_fits() {
    let lines = printed(
        "edges = ['a -> r', 'r:hot -> h -> z', 'r:cold -> c -> z', 'r:else -> z']\n[node.a]\nkind = 'numbers'\nto = 5\n\
         [node.r]\nkind = 'router'\nroutes = [{ to = 'hot', above = 4 }, { to = 'cold', below = 2 }, { to = 'hot', equals = 3 }]\n\
         [node.h]\nkind = 'map'\nformat = 'hot {}'\n[node.c]\nkind = 'map'\nformat = 'cold {}'\n[node.z]\nkind = 'print'",
    );
    let mut sorted = lines.clone();
    sorted.sort();
    assert_eq!(sorted, ["2", "4", "cold 1", "hot 3", "hot 5"]);
}

#[test]
fn a_splitter_deals_and_a_merger_joins() {
    let lines = printed(
        "edges = ['a -> s', 's:0 -> x -> m', 's:1 -> y -> m', 'm -> z']\n[node.a]\nkind = 'numbers'\nto = 4\n\
         [node.s]\nkind = 'splitter'\noutputs = 2\n[node.x]\nkind = 'map'\nformat = 'x{}'\n[node.y]\nkind = 'map'\nformat = 'y{}'\n\
         [node.m]\nkind = 'merger'\n[node.z]\nkind = 'print'",
    );
    let mut sorted = lines.clone();
    sorted.sort();
    assert_eq!(sorted, ["x1", "x3", "y2", "y4"]);
}

#[test]
fn a_batcher_makes_lists_that_wait_no_longer_than_told() {
    assert_eq!(through("[1, 2, 3, 4, 5]", "kind = 'batcher'\nsize = 2"), ["[1,2]", "[3,4]", "[5]"]);
    assert_eq!(paced(100, 5, "kind = 'batcher'\nsize = 100\nwithin = '250ms'", ""), ["[0,1,2]", "[3,4]"]);
}

#[test]
fn windows_have_one_value_each() {
    let window = |fields: &str| through("[4, 1, 3, 2, 10]", &format!("kind = 'window'\n{fields}"));
    assert_eq!(window("size = 2\naggregate = 'sum'"), ["5", "5", "10"]);
    assert_eq!(window("size = 4\naggregate = 'mean'"), ["2.5", "10"]);
    assert_eq!(window("size = 4\naggregate = 'min'"), ["1", "10"]);
    assert_eq!(window("size = 4\naggregate = 'max'"), ["4", "10"]);
    assert_eq!(window("size = 4\naggregate = 'count'"), ["4", "1"]);
    assert_eq!(window("size = 4\naggregate = 'last'"), ["2", "10"]);
    assert_eq!(window("size = 3"), ["[4,1,3]", "[2,10]"]);
    assert_eq!(window("size = 2\nslide = 1\naggregate = 'max'"), ["4", "4", "3", "3", "10"]);
    assert_eq!(
        through(
            "[{ v = 1 }, { w = 9 }, { v = 'x' }, { v = 3 }]",
            "kind = 'window'\nsize = 4\nfield = 'v'\naggregate = 'mean'"
        ),
        ["2.0"]
    );
    assert_eq!(
        paced(100, 6, "kind = 'window'\nspan = '300ms'\naggregate = 'count'", "")
            .iter()
            .map(|n| n.parse::<u32>().unwrap())
            .sum::<u32>(),
        6
    );
}

#[test]
fn pace_is_kept_in_time() {
    // What comes at once leaves at 0, 100, 200 ms: a clock beside it tells.
    let text = |node: &str| {
        format!(
            "edges = ['a -> x -> z', 'clock -> z']\n[node.a]\nkind = 'values'\nlist = ['a', 'b', 'c']\n[node.x]\n{node}\n\
                 [node.clock]\nkind = 'every'\ninterval = '70ms'\ncount = 4\n[node.z]\nkind = 'print'"
        )
    };
    assert_eq!(printed(&text("kind = 'throttle'\nrate = 10")), ["a", "0", "b", "1", "c", "2", "3"]);
    assert_eq!(printed(&text("kind = 'throttle'\nrate = 10\nburst = 3")), ["a", "b", "c", "0", "1", "2", "3"]);
    assert_eq!(printed(&text("kind = 'delay'\nby = '100ms'")), ["0", "a", "b", "c", "1", "2", "3"]);
    assert_eq!(paced(10, 5, "kind = 'debounce'\nquiet = '50ms'", ""), ["4"]);
    assert_eq!(paced(100, 3, "kind = 'debounce'\nquiet = '50ms'", ""), ["0", "1", "2"]);
    assert_eq!(through("[1, 2, 3, 4, 5]", "kind = 'sample'\nevery = 2"), ["1", "3", "5"]);
}

#[test]
fn a_validator_tells_why() {
    let lines = printed(
        "edges = ['a -> v -> z', 'v:invalid -> z']\n[node.a]\nkind = 'values'\nlist = [{ c = 1, note = 'x' }, { c = 'x' }, { note = 2, c = 3 }, 7, { c = 4 }]\n\
         [node.v]\nkind = 'validator'\nfields = { c = 'number', note = 'text?' }\n[node.z]\nkind = 'print'",
    );
    let mut sorted = lines.clone();
    sorted.sort();
    assert_eq!(
        sorted,
        [
            r#"{"c":1,"note":"x"}"#,
            r#"{"c":4}"#,
            r#"{"value":7,"why":"field `c` is missing"}"#,
            r#"{"value":{"c":"x"},"why":"field `c` is a text, not a number"}"#,
            r#"{"value":{"note":2,"c":3},"why":"field `note` is a number, not a text"}"#,
        ]
    );
}

#[test]
fn a_counter_counts_all_or_by_value() {
    assert_eq!(paced(100, 25, "kind = 'counter'\ninterval = '1s'", "").last().unwrap(), "25");
    let lines = through("[{ l = 'a' }, { l = 'b' }, { l = 'a' }, 3]", "kind = 'counter'\nfield = 'l'");
    assert_eq!(lines.last().unwrap(), r#"{"a":2,"b":1,"missing":1}"#);
}

#[test]
fn a_counter_tells_its_own_names_from_values_that_are_called_so() {
    let values = (0..1_000).map(|n| format!("{{ l = 'v{n}' }}")).collect::<Vec<_>>().join(", ");
    let names = r#"{ l = 'others' }, { l = 'missing' }, { l = '"others"' }, {}"#;
    let reported = |list: String| {
        let lines = through(&list, "kind = 'counter'\nfield = 'l'");
        serde_json::from_str::<serde_json::Map<_, _>>(lines.last().unwrap()).unwrap()
    };
    let counts = reported(format!("[{names}, {names}, {values}]"));
    assert_eq!(counts.len(), 1_001);
    for name in [r#""others""#, r#""missing""#, r#""\"others\"""#, "missing"] {
        assert_eq!(counts[name], 2, "{name}: {counts:?}");
    }
    assert_eq!(counts["others"], 4, "four more than a thousand");
}

#[test]
fn a_cache_lets_each_key_through_once_in_a_while() {
    assert_eq!(through("[{ k = 1 }, { k = 2 }, { k = 1 }, {}, {}]", "kind = 'cache'\nkey = 'k'\nttl = '1m'").len(), 4);
    assert_eq!(through("['a', 'b', 'a']", "kind = 'cache'\nttl = '1m'"), ["a", "b"]);
    let value = "kind = 'map'\nformat = 'same'\n[node.c]\nkind = 'cache'\nttl = '250ms'";
    let text = format!(
        "edges = ['a -> x -> c -> z']\n[node.a]\nkind = 'every'\ninterval = '100ms'\ncount = 6\n[node.x]\n{value}\n[node.z]\nkind = 'print'"
    );
    assert_eq!(printed(&text), ["same", "same"]);
}

#[test]
fn a_breaker_opens_after_failures_in_a_row_and_closes_after_a_while() {
    let lines = printed(
        "edges = ['a -> s -> b -> z', 'b:rejected -> r -> z']\n[node.a]\nkind = 'values'\nlist = [1, 99, 98, 2, 3, 4, 5]\n\
         [node.s]\nkind = 'throttle'\nrate = 10\n[node.b]\nkind = 'breaker'\nabove = 90\nfailures = 2\ncool = '250ms'\n\
         [node.r]\nkind = 'map'\nformat = 'rejected {}'\n[node.z]\nkind = 'print'",
    );
    assert_eq!(lines, ["1", "rejected 2", "rejected 3", "4", "5"]);
}

#[test]
fn a_timeout_tells_once_of_each_silence() {
    let lines = printed(
        "edges = ['a -> t -> z', 't:late -> z', 'b -> z']\n[node.a]\nkind = 'every'\ninterval = '400ms'\ncount = 2\n\
         [node.t]\nkind = 'timeout'\nafter = '150ms'\n[node.b]\nkind = 'every'\ninterval = '2s'\ncount = 1\nvalue = 'end'\n[node.z]\nkind = 'print'",
    );
    assert_eq!(lines[..4], [r#"{"silent_ms":150}"#, "0", r#"{"silent_ms":150}"#, "1"], "{lines:?}");
}

#[test]
fn a_correlator_pairs_by_key() {
    let lines = printed(
        "edges = ['a -> c:left', 'b -> c:right', 'c:out -> z', 'c:left -> l -> z']\n[node.a]\nkind = 'values'\nlist = [{ id = 1, x = 1 }, { id = 2 }, {}]\n\
         [node.b]\nkind = 'values'\nlist = [{ id = 1, y = 1 }, {}]\n[node.c]\nkind = 'correlator'\nkey = 'id'\nwithin = '1s'\n\
         [node.l]\nkind = 'map'\nset = { alone = true }\n[node.z]\nkind = 'print'",
    );
    let mut sorted = lines.clone();
    sorted.sort();
    assert_eq!(
        sorted,
        [r#"{"alone":true}"#, r#"{"id":2,"alone":true}"#, r#"{"left":{"id":1,"x":1},"right":{"id":1,"y":1}}"#]
    );
}

#[test]
fn json_and_text_are_each_others_opposite() {
    let lines = printed(
        "edges = ['a -> j -> t -> z']\n[node.a]\nkind = 'values'\nlist = ['{\"a\": 1}', 'nonsense', '\"x\"']\n\
         [node.j]\nkind = 'json'\n[node.t]\nkind = 'text'\n[node.z]\nkind = 'print'",
    );
    assert_eq!(lines, ["{\"a\":1}", "\"x\""]);
}

#[test]
fn dead_letters_leave_with_their_reason() {
    let text = "edges = ['a -> j -> z', 'j:dead -> z']\n[node.a]\nkind = 'values'\nlist = ['1', 'x']\n[node.j]\nkind = 'json'\n\
                retry = { times = 2, first = '10ms', then = 'dead-letter' }\n[node.z]\nkind = 'print'";
    let lines = printed(text);
    assert_eq!(lines[0], "1");
    assert!(lines[1].starts_with(r#"{"value":"x","why":"expected value"#), "{lines:?}");
    let plan = plan(text);
    assert_eq!(edge_id(&plan, &plan.edges[2]), "j!dead:out->z:in");
    let flow = flow(&plan, &Hooks::default()).unwrap().build().unwrap();
    let handle = flow.handle();
    let known: Vec<&str> = handle.edges().collect();
    for edge in &plan.edges {
        assert!(known.contains(&edge_id(&plan, edge).as_str()), "{} {known:?}", edge_id(&plan, edge));
    }
}

#[test]
fn a_stop_ends_a_graph_that_has_no_end() {
    let lines = printed(
        "edges = ['a -> z', 'a -> f -> s']\n[node.a]\nkind = 'every'\ninterval = '1s'\n[node.f]\nkind = 'filter'\nat_least = 5\n\
         [node.s]\nkind = 'stop'\n[node.z]\nkind = 'print'",
    );
    assert!(lines.len() == 6 || lines.len() == 7, "{lines:?}");
}

#[test]
fn a_control_edge_stops_the_node_it_leads_to() {
    let text = "edges = ['a -> z', 'a -> f -> a:control', 'b -> z']\n[node.a]\nkind = 'every'\ninterval = '1s'\n\
                [node.f]\nkind = 'filter'\nat_least = 3\n[node.b]\nkind = 'every'\ninterval = '10s'\ncount = 1\nvalue = 'other'\n[node.z]\nkind = 'print'";
    let lines = printed(text);
    assert_eq!(lines[..4], ["0", "1", "2", "3"]);
    assert_eq!(lines.last().unwrap(), "other", "the rest of the graph goes on\n{lines:?}");
    assert!(lines.len() <= 6, "{lines:?}");
}

#[test]
fn a_node_whose_policy_is_to_stop_stops_the_graph() {
    let text = "edges = ['a -> j -> z']\n[node.a]\nkind = 'values'\nlist = ['1', 'x', '2']\n[node.j]\nkind = 'json'\non_error = 'stop'\n[node.z]\nkind = 'print'";
    let error = run_builder(flow(&plan(text), &Printed::default().hooks()).unwrap(), |_| ()).unwrap_err().to_string();
    assert!(error.starts_with("node `j` stopped the graph: expected value"), "{error}");
}

#[test]
fn graphs_in_graphs_keep_their_ids() {
    let text = r#"
edges = ["a -> outer -> z", "outer:all -> z"]
[node.a]
kind = "numbers"
to = 3
[node.z]
kind = "print"
[graph.outer]
edges = ["inner -> last"]
expose = { in = "inner", out = "last", all = "inner:out" }
[graph.outer.node.last]
kind = "map"
format = "last {}"
[graph.outer.graph.inner]
expose = { in = "twice:in", out = "twice:out" }
[graph.outer.graph.inner.node.twice]
kind = "map"
scale = 2
"#;
    let plan = plan(text);
    let flow = flow(&plan, &Hooks::default()).unwrap().build().unwrap_or_else(|problems| panic!("{problems}"));
    let mut ids: Vec<String> = flow.handle().edges().map(str::to_owned).collect();
    ids.sort();
    let mut wanted: Vec<String> = plan.edges.iter().map(|edge| plan.edge_id(edge)).collect();
    wanted.sort();
    assert_eq!(ids, wanted);
    let mut lines = printed(text);
    lines.sort();
    assert_eq!(lines, ["2", "4", "6", "last 2", "last 4", "last 6"]);
}

#[test]
fn settings_of_edges_reach_the_flow() {
    let text = "[node.a]\nkind = 'numbers'\nto = 9\n[node.z]\nkind = 'print'\n[[edge]]\nfrom = 'a'\nto = 'z'\ncapacity = 3\ncoalesce = 'sum'\npriority = 42";
    let flow = flow(&plan(text), &Hooks::default()).unwrap().build().unwrap();
    let stats = flow.handle().stats();
    let edge = &stats.edges[0];
    assert_eq!((edge.id.as_ref(), edge.capacity, edge.priority), ("a:out->z:in", 3, 42));
    assert_eq!(edge.policy.to_string(), "coalesce");
}

#[test]
fn lines_of_a_file_become_lines_of_another() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.log"), "one\ntwo\r\nthree").unwrap();
    std::fs::write(folder.path().join("out.log"), "before\n").unwrap();
    let text = |append: bool| {
        format!(
            "edges = ['a -> z']\n[node.a]\nkind = 'lines'\npath = 'in.log'\n[node.z]\nkind = 'write'\npath = 'out.log'\nappend = {append}"
        )
    };
    let run = |append: bool| {
        let mut plan = plan(&text(append));
        plan.base = folder.path().to_owned();
        run_plan(&plan, |_| ());
        std::fs::read_to_string(folder.path().join("out.log")).unwrap()
    };
    assert_eq!(run(true), "before\none\ntwo\nthree\n");
    assert_eq!(run(false), "one\ntwo\nthree\n");
}

#[test]
fn a_file_that_is_followed_gives_what_is_appended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.log");
    std::fs::write(&path, "one\ntw").unwrap();
    let mut plan =
        plan("edges = ['a -> z']\n[node.a]\nkind = 'lines'\npath = 'in.log'\nfollow = true\n[node.z]\nkind = 'print'");
    plan.base = folder.path().to_owned();
    let (printed_lines, seen) = (Printed::default(), mpsc::channel());
    let (hooks, sender) = (printed_lines.clone(), seen.0);
    let hooks = Hooks::default().print(move |line| {
        hooks.0.lock().unwrap().push_str(line);
        let _ = sender.send(());
        Ok(())
    });
    let builder = flow(&plan, &hooks).unwrap();
    run_builder(builder, |handle| {
        seen.1.recv_timeout(LIMIT).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"o\nthree\n").unwrap();
        seen.1.recv_timeout(LIMIT).unwrap();
        seen.1.recv_timeout(LIMIT).unwrap();
        handle.shutdown();
    })
    .unwrap();
    assert_eq!(printed_lines.lines(), ["one", "two", "three"]);
}

#[test]
fn a_file_that_is_not_there_is_an_error_of_its_node() {
    let text = "edges = ['a -> z']\n[node.a]\nkind = 'lines'\npath = '/no/such/file'\n[node.z]\nkind = 'print'\n";
    let (lines, ended) = run_plan(&plan(text), |_| ());
    assert!(lines.is_empty());
    let node = ended.stats.nodes.iter().find(|node| &*node.id == "a").unwrap();
    assert_eq!(node.errors, 1);
    let stop = text.replace("'/no/such/file'", "'/no/such/file'\non_error = 'stop'");
    let error = run_builder(flow(&plan(&stop), &Hooks::default()).unwrap(), |_| ()).unwrap_err().to_string();
    assert!(error.starts_with("node `a` stopped the graph: /no/such/file cannot be read: "), "{error}");
    let folder = run_builder(flow(&plan(&stop.replace("/no/such/file", "/tmp")), &Hooks::default()).unwrap(), |_| ());
    assert!(folder.unwrap_err().to_string().contains("/tmp cannot be read: it is no plain file"));
}

#[test]
fn standard_input_is_read_from_a_pipe_or_a_file_and_keeps_no_graph_alive() {
    let text = "edges = ['a -> z']\n[node.a]\nkind = 'stdin'\nformat = 'json'\n[node.z]\nkind = 'print'";
    let (reader, mut writer) = std::io::pipe().unwrap();
    let reader = std::fs::File::from(std::os::fd::OwnedFd::from(reader));
    let (printed_lines, seen) = (Printed::default(), mpsc::channel());
    let (to, sender) = (printed_lines.clone(), seen.0);
    let hooks = Hooks::default().stdin(move || reader.try_clone()).print(move |line| {
        to.0.lock().unwrap().push_str(line);
        let _ = sender.send(());
        Ok(())
    });
    run_builder(flow(&plan(text), &hooks).unwrap(), |handle| {
        writer.write_all(b"{\"a\":1}\n[2").unwrap();
        seen.1.recv_timeout(LIMIT).unwrap();
        handle.shutdown(); // the pipe stays open
    })
    .unwrap();
    assert_eq!(printed_lines.lines(), ["{\"a\":1}"]);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.jsonl");
    std::fs::write(&path, "1\nnonsense\n2\n").unwrap();
    let printed_lines = Printed::default();
    let hooks = printed_lines.hooks().stdin(move || std::fs::File::open(&path));
    let ended = run_builder(flow(&plan(text), &hooks).unwrap(), |_| ()).unwrap();
    assert_eq!(printed_lines.lines(), ["1", "2"]);
    assert_eq!(ended.stats.nodes[0].errors, 1, "a line that is no JSON is an error");
}

#[test]
fn a_closed_standard_output_ends_the_graph() {
    let text = "edges = ['a -> z']\n[node.a]\nkind = 'every'\ninterval = '1ms'\n[node.z]\nkind = 'print'";
    let hooks = Hooks::default().print(|_| Err(std::io::ErrorKind::BrokenPipe.into()));
    run_builder(flow(&plan(text), &hooks).unwrap(), |_| ()).unwrap();
}

#[test]
fn a_graph_of_many_nodes_is_built_and_run() {
    let mut text = String::from(
        "[node.n0]\nkind = 'numbers'\nto = 100\n[node.z]\nkind = 'window'\nsize = 1000\naggregate = 'sum'\n[node.p]\nkind = 'print'\n",
    );
    let mut chain = String::from("n0");
    for n in 1..300 {
        let _ = write!(text, "[node.n{n}]\nkind = 'map'\noffset = 1\n");
        let _ = write!(chain, " -> n{n}");
    }
    let text =
        format!("edges = ['{chain} -> z -> p']\n[flow]\nworkers = 2\nbatch = 16\ndrain = '10s'\ntick = '1s'\n{text}");
    let (lines, _) = run_plan(&plan(&text), |_| ());
    assert_eq!(lines, [(5050 + 100 * 299).to_string()]);
}

#[test]
fn whole_numbers_stay_whole_in_sums_and_the_order_of_fields_stays() {
    let sums = "edges = ['a -> w -> z']\n[node.a]\nkind = 'values'\nlist = [9007199254740993, 9007199254740993, 2]\n[node.w]\nkind = 'window'\nsize = 3\n";
    for (aggregate, wanted) in [("sum", "18014398509481988"), ("max", "9007199254740993"), ("min", "2")] {
        let text = format!("{sums}aggregate = '{aggregate}'\n[node.z]\nkind = 'print'");
        assert_eq!(printed(&text), [wanted], "{aggregate}");
    }
    let text = "edges = ['a -> m -> z']\n[node.a]\nkind = 'values'\nlist = ['{\"z\":1,\"b\":2,\"a\":3}']\n[node.m]\nkind = 'map'\nparse = 'json'\ndrop = ['z']\n[node.z]\nkind = 'print'";
    assert_eq!(printed(text), [r#"{"b":2,"a":3}"#]);
}

#[test]
fn a_window_by_key_counts_each_key_of_a_minute() {
    let list = "[{ p = '/a', ms = 5 }, { p = '/b', ms = 7 }, { p = '/a', ms = 2 }, { q = 1 }, { p = '/a', ms = 9007199254740993 }]";
    let window = |fields: &str| through(list, &format!("kind = 'window'\nspan = '1m'\nkey = 'p'\n{fields}"));
    assert_eq!(window("aggregate = 'count'"), [r#"{"key":"/a","value":3}"#, r#"{"key":"/b","value":1}"#]);
    let of = |aggregate: &str| window(&format!("field = 'ms'\naggregate = '{aggregate}'"))[0].clone();
    assert_eq!(of("sum"), r#"{"key":"/a","value":9007199254741000}"#);
    assert_eq!(of("min"), r#"{"key":"/a","value":2}"#);
    assert_eq!(of("max"), r#"{"key":"/a","value":9007199254740993}"#);
    // It gives objects, whose fields others may look at.
    let text = "edges = ['a -> w -> f -> z']\n[node.a]\nkind = 'values'\nlist = [{ p = 'x' }]\n[node.w]\nkind = 'window'\nspan = '1m'\nkey = 'p'\naggregate = 'count'\n\
                [node.f]\nkind = 'filter'\nfield = 'value'\nat_least = 1\n[node.z]\nkind = 'print'";
    assert_eq!(printed(text), [r#"{"key":"x","value":1}"#]);
    assert_eq!(window("field = 'ms'\naggregate = 'mean'")[1], r#"{"key":"/b","value":7}"#);
}

#[test]
fn a_counter_that_resets_tells_what_came_since_the_last_time() {
    let text = "edges = ['a -> c -> z']\n[node.a]\nkind = 'every'\ninterval = '400ms'\ncount = 5\n[node.c]\nkind = 'counter'\ninterval = '1s'\nreset = true\n[node.z]\nkind = 'print'";
    assert_eq!(printed(text), ["2", "2", "1"]); // 0.4 0.8 | 1.2 1.6 | 2.0
    assert_eq!(printed(&text.replace("reset = true\n", "")), ["2", "4", "5"]);
}

#[test]
fn whole_numbers_stay_whole_in_a_map_by_whole_numbers() {
    let map = |fields: &str| through("[9007199254740993, 1.5]", &format!("kind = 'map'\n{fields}"));
    assert_eq!(map("scale = 1"), ["9007199254740993", "1.5"]);
    assert_eq!(map("scale = 2\noffset = -1"), ["18014398509481985", "2.0"]);
    assert_eq!(map("scale = 0.5"), ["4503599627370496.0", "0.75"]);
}

#[test]
fn a_line_that_is_no_json_is_named_by_its_place_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in"), "1\n\n2\n{\"a\" 3}\n").unwrap();
    let mut plan = crate::plan(
        "edges = ['a -> z']\n[node.a]\nkind = 'lines'\npath = 'in'\nformat = 'json'\n[node.z]\nkind = 'print'",
    );
    plan.base = folder.path().to_owned();
    let (lines, ended) = run_plan(&plan, |_| ());
    assert_eq!(lines, ["1", "2"]);
    let error = ended.stats.node("a").unwrap().last_error.clone().unwrap();
    assert!(error.starts_with("`{\"a\" 3}` is not JSON: expected `:` at line 4 column 6; "), "{error}");
}
