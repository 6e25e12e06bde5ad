//! Problems of a graph are reported before anything runs: each with its message, and all of them at once.

use std::time::Duration;

use sched_flow::{
    AnyMessage, Builder, Context, Control, Flow, Graph, MAX_CAPACITY, Node, NodeResult, NodeSpec, Policy, Ports,
    Problem, Schema, from_iter, map, sink,
};

/// The problems of a graph.
fn problems_of(graph: Graph) -> Vec<String> {
    told_of(Flow::builder().register(graph))
}

fn told_of(builder: Builder) -> Vec<String> {
    let problems = builder.build().expect_err("something is wrong");
    problems.list().iter().map(Problem::to_string).collect()
}

fn numbers() -> NodeSpec {
    from_iter(0..3u64)
}

fn out() -> NodeSpec {
    sink(|_: u64| ())
}

/// A graph that is right.
fn right() -> Graph {
    let mut graph = Graph::new("g");
    let from = graph.add("from", numbers());
    let to = graph.add("to", out());
    graph.connect(&from, &to);
    graph
}

#[test]
fn two_nodes_of_one_name() {
    let mut graph = right();
    graph.add("to", out());
    assert_eq!(problems_of(graph), ["there are two nodes called `to`; rename one"]);
    let builder = Flow::builder().register(right()).register(right());
    assert_eq!(
        told_of(builder)[..2],
        ["there are two nodes called `from`; rename one", "there are two nodes called `to`; rename one"]
    );
}

#[test]
fn names_that_ids_are_made_with() {
    for name in ["", "a:b", "a/b", "a->b", "a b"] {
        let mut graph = right();
        graph.add(name, numbers());
        let words = "is no name: it must not be empty nor have `:`, `/`, `->` or white space in it";
        assert_eq!(problems_of(graph), [format!("`{name}` {words}")]);
    }
}

#[test]
fn a_path_has_names_between_its_strokes_and_none_of_its_graphs_is_a_node() {
    for path in ["", "/a", "a/", "a//b", "a/b:c"] {
        let mut graph = right();
        graph.add_at(path, numbers());
        assert!(problems_of(graph)[0].starts_with(&format!("`{path}` is no name: ")));
    }
    let taken = ["there are two nodes called `from`; rename one"];
    let mut before = right();
    before.add_at("from/inner", numbers());
    assert_eq!(problems_of(before), taken);
    let mut after = Graph::new("g");
    after.add_at("from/deep/inner", numbers());
    after.add("from", numbers());
    assert_eq!(problems_of(after), taken);
    let mut misspelt = right();
    misspelt.add_at("box/sink", out());
    misspelt.connect("from", "box/sing");
    assert_eq!(
        problems_of(misspelt),
        ["from:out->box/sing:in: there is no node `box/sing`; did you mean `sink`?"],
        "what is in a graph is looked for there"
    );
}

#[test]
fn nodes_and_ports_that_are_not_there() {
    let mut graph = right();
    graph.connect("form", "to");
    graph.connect("from:on", "to");
    graph.connect("from", "to:inn");
    graph.connect("to", "something-else");
    assert_eq!(
        problems_of(graph),
        [
            "form:out->to:in: there is no node `form`; did you mean `from`?",
            "from:on->to:in: node `from` has no output `on`; it has `out`",
            "from:out->to:inn: node `to` has no input `inn`; it has `in`",
            "to:out->something-else:in: node `to` has no output `out`; it has no outputs",
            "to:out->something-else:in: there is no node `something-else`; add it, or name another",
        ]
    );
}

#[test]
fn capacities_that_are_not_possible() {
    for capacity in [0, MAX_CAPACITY + 1] {
        let mut graph = Graph::new("g");
        let (from, to) = (graph.add("from", numbers()), graph.add("to", out()));
        graph.connect(&from, &to).capacity(capacity);
        assert_eq!(
            problems_of(graph),
            [format!("from:out->to:in: a capacity of {capacity} is not possible; use 1 to {MAX_CAPACITY}")]
        );
    }
}

#[test]
fn an_edge_that_is_there_twice() {
    let mut graph = right();
    graph.connect("from", "to");
    assert_eq!(problems_of(graph), ["from:out->to:in: this edge exists twice; remove one"]);
}

#[test]
fn types_and_schemas_that_do_not_fit() {
    let mut graph = Graph::new("g");
    let from = graph.add("from", from_iter([1i32]));
    let to = graph.add("to", out());
    graph.connect(&from, &to);
    graph.connect(&from, to.control());
    assert_eq!(
        problems_of(graph),
        [
            "from:out->to:in: `i32` comes out and `u64` goes in; put a `map` between them",
            "from:out->to:control: `i32` comes out and `sched_flow::message::Control` goes in; put a `map` between them",
        ]
    );
    let mut graph = Graph::new("g");
    let from = graph.add("from", numbers().schema("out", Schema::<u64>::named("metres")));
    let to = graph.add("to", out().schema("in", Schema::<u64>::named("feet")));
    graph.add("bad", numbers().schema("out", Schema::<i8>::named("feet")).schema("in", Schema::<u64>::named("feet")));
    graph.connect(&from, &to);
    assert_eq!(
        problems_of(graph),
        [
            "node `bad`: schema `feet` does not fit its port `out`; name a port of that type",
            "node `bad`: schema `feet` does not fit its port `in`; name a port of that type",
            "from:out->to:in: schema `metres` comes out and `feet` goes in; put a `map` between them",
        ]
    );
}

#[test]
fn coalescing_without_knowing_how() {
    let mut graph = Graph::new("g");
    let (from, to) = (graph.add("from", numbers()), graph.add("to", out()));
    graph.connect(&from, &to).policy(Policy::Coalesce);
    assert_eq!(
        problems_of(graph),
        ["from:out->to:in: there is no function that merges `u64`; give one with `coalesce`"]
    );
    let mut graph = Graph::new("g");
    let (from, to) = (graph.add("from", numbers()), graph.add("to", out()));
    graph.connect(&from, &to).coalesce(|_: &mut i8, _: &i8| Ok(()));
    assert_eq!(problems_of(graph), ["from:out->to:in: carries `u64`, but its function merges `i8`"]);
}

#[test]
fn an_input_that_is_not_connected() {
    let mut graph = right();
    graph.add("lonely", map(|n: u64| n));
    assert_eq!(problems_of(graph), ["nothing feeds the input `in` of node `lonely`; connect it, or remove the node"]);
}

#[test]
fn cycles_that_could_wait_for_themselves() {
    let cycle = |policy: Policy| {
        let mut graph = Graph::new("g");
        let from = graph.add("from", numbers());
        let one = graph.add("one", map(|n: u64| n));
        let two = graph.add("two", map(|n: u64| n));
        graph.connect(&from, &one);
        graph.connect(&one, &two);
        let back = graph.connect(&two, &one);
        if policy == Policy::Coalesce {
            back.coalesce(|_: &mut u64, _: &u64| Ok(()));
        } else {
            back.policy(policy);
        }
        Flow::new(graph)
    };
    for policy in [Policy::Block, Policy::Coalesce] {
        let text = cycle(policy).unwrap_err().to_string();
        let (one, two) = ("one -> two -> one", "two -> one -> two");
        let words = "all block or coalesce, so it could wait for itself; give one of them the policy drop or latest";
        let expected = |nodes| format!("graph `g` cannot run: the edges of the cycle {nodes} {words}");
        assert!(text == expected(one) || text == expected(two), "{text}");
    }
    assert!(cycle(Policy::Latest).is_ok() && cycle(Policy::Drop).is_ok());
}

#[test]
fn settings_that_make_no_sense() {
    let mut graph = Graph::new("g");
    let from = graph.add("from", numbers().batch(0));
    let to = graph.add("to", out().tick(Duration::ZERO));
    graph.connect(&from, &to);
    assert_eq!(
        problems_of(graph),
        [
            "`from`: a batch of 0 messages does nothing; use at least 1",
            "`to`: a tick every 0 ns leaves no time for anything else; use at least 1 ns",
        ]
    );
    let builder = Flow::builder().register(right());
    let builder = builder.workers(0).batch(0).tick(Duration::ZERO).shares(1, 0, 1);
    assert_eq!(
        told_of(builder),
        [
            "`flow`: 0 workers do nothing; use at least 1",
            "`flow`: a batch of 0 messages does nothing; use at least 1",
            "`flow`: a tick every 0 ns leaves no time for anything else; use at least 1 ns",
            "`flow`: a band with a share of 0 would starve; use at least 1",
        ]
    );
    for shares in [(1, 1, 1), (3, 2, 2), (1, u32::MAX, 1)] {
        let builder = Flow::builder().register(right()).shares(shares.0, shares.1, shares.2);
        assert_eq!(
            told_of(builder),
            [
                "`flow`: control has less than half of the turns, so its messages could wait for two of others; give it more"
            ]
        );
    }
    assert_eq!(
        told_of(Flow::builder().register(right()).shares(998, 2, 1)),
        ["`flow`: shares that add up to more than 1000 make control of latency meaningless; use smaller numbers"]
    );
    assert_eq!(
        told_of(Flow::builder().register(right()).virtual_time().workers(2)),
        ["`flow`: virtual time needs one worker: with several, it is not known when nothing else can happen"]
    );
}

#[test]
fn graphs_inside_graphs() {
    let mut deep = Graph::new("deepest");
    deep.add("n", numbers());
    for _ in 0..65 {
        let mut outer = Graph::new("outer");
        outer.add_graph("g", deep);
        deep = outer;
    }
    let problems_of_deep = problems_of(deep);
    assert!(problems_of_deep[0].ends_with("is nested deeper than 64 levels; remove some"), "{problems_of_deep:?}");

    let mut inner = Graph::new("inner");
    let pass = inner.add("pass", map(|n: u64| n));
    inner.expose_input("in", &pass);
    inner.expose_input("in", &pass);
    inner.expose_output("out", pass.out("on"));
    inner.expose_output("other", "absent");
    let mut graph = right();
    let inner = graph.add_graph("inner", inner);
    graph.connect("from", &inner);
    graph.connect(inner.out("none"), "to");
    let words = problems_of(graph);
    for expected in [
        "graph `inner` exposes `in` twice; rename one",
        "inner:none->to:in: node `inner` has no output `none`; it has `other`, `out`",
        "graph `inner` exposes `out`: node `inner/pass` has no output `on`; it has `out`",
        "graph `inner` exposes `other`: there is no node `inner/absent`; add it, or name another",
    ] {
        assert!(words.iter().any(|words| words == expected), "{expected}\n{words:#?}");
    }
}

#[test]
fn nothing_at_all() {
    assert_eq!(problems_of(Graph::new("void")), ["the graph has no nodes; add some"]);
    assert_eq!(told_of(Flow::builder()), ["the graph has no nodes; add some"]);
}

#[test]
fn ports_that_are_there_twice() {
    struct Twice;
    impl Node for Twice {
        fn ports(&self, ports: &mut Ports) {
            ports.input::<u64>("in").input::<u64>("in").output::<Control>("control");
        }
        fn on_message(&mut self, _: &str, _: AnyMessage<'_>, _: &mut Context<'_>) -> NodeResult {
            Ok(())
        }
    }
    let mut graph = right();
    graph.add("twice", NodeSpec::node(Twice));
    assert_eq!(
        problems_of(graph)[..2],
        [
            "node `twice` declares the port `in` twice; rename one",
            "`control` is no name for a port: every node has an input that is called so; rename it",
        ]
    );
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let mut graph = Graph::new("all-wrong");
    let from = graph.add("from", numbers().batch(0));
    let to = graph.add("to", sink(|_: i8| ()));
    graph.add("to", out());
    graph.add("a b", numbers());
    graph.connect(&from, &to).capacity(0);
    graph.connect(&from, &to);
    graph.connect(&from, "nowhere");
    let problems = Flow::builder().register(graph).workers(0).build().unwrap_err();
    let text = problems.to_string();
    assert!(text.starts_with("graph `all-wrong` cannot run, 9 problems:\n  "), "{text}");
    for part in ["two nodes", "no name", "capacity of 0", "twice", "`i8` goes in", "nowhere", "batch", "0 workers"] {
        assert!(text.contains(part), "{part} is missing:\n{text}");
    }
}
