//! Any bytes give a plan or problems, and what a plan promises holds.

use proptest::prelude::*;
use surface_flowfile::{Plan, build, graph, parse, parse_with};

fn holds(plan: &Plan) {
    let mut ids: Vec<&str> = plan.nodes.iter().map(|node| node.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), plan.nodes.len(), "ids are unique");
    for edge in &plan.edges {
        assert!(plan.nodes[edge.from].outputs().contains(&edge.output), "{}", plan.edge_id(edge));
        assert!(
            edge.input == "control" || plan.nodes[edge.to].inputs().contains(&edge.input),
            "{}",
            plan.edge_id(edge)
        );
        assert!(edge.capacity > 0);
    }
    for (at, node) in plan.nodes.iter().enumerate().filter(|(_, node)| node.kind.name != "command") {
        for input in node.inputs() {
            assert!(plan.edges.iter().any(|edge| edge.to == at && edge.input == input), "{} {input}", node.id);
        }
    }
    let built = build::flow(plan, &build::Hooks::default()).unwrap().build();
    assert!(built.is_ok(), "the scheduler finds something wrong: {}", built.unwrap_err());
    graph::text(plan);
    graph::dot(plan);
    graph::svg(plan);
}

/// Pieces of flow files, put together at random: closer to right than bytes are.
fn piece() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c", "g", "z"]);
    let kind = prop::sample::select(vec![
        "stdin",
        "print",
        "merger",
        "filter",
        "command",
        "router",
        "splitter",
        "json",
        "correlator",
        "stop",
        "nonsense",
    ]);
    prop_oneof![
        (name.clone(), kind).prop_map(|(name, kind)| format!("[node.{name}]\nkind = '{kind}'\n")),
        (name.clone(), name.clone()).prop_map(|(from, to)| format!("[[edge]]\nfrom = '{from}'\nto = '{to}'\n")),
        (name.clone(), name.clone())
            .prop_map(|(from, to)| format!("[[edge]]\nfrom = '{from}:out'\nto = '{to}:in'\npolicy = 'drop'\n")),
        name.clone().prop_map(|name| format!("[graph.{name}]\nexpose = {{ in = '{name}:in', out = '{name}' }}\n")),
        (name.clone(), name.clone())
            .prop_map(|(graph, name)| format!("[graph.{graph}.node.{name}]\nkind = 'merger'\n")),
        (name.clone(), name.clone())
            .prop_map(|(graph, name)| format!("[graph.{graph}]\nedges = ['{name} -> {name}']\n")),
        name.clone().prop_map(|name| format!("[[edge]]\nfrom = '{name}:dead'\nto = 'z'\n")),
        name.clone().prop_map(|name| format!("[[edge]]\nfrom = '{name}'\nto = 'a:control'\n")),
        name.clone()
            .prop_map(|name| format!("[node.{name}]\nkind = 'command'\nrun = 'true'\non_error = 'dead-letter'\n")),
        name.clone()
            .prop_map(|name| format!("[node.{name}]\nkind = 'router'\nroutes = [{{ to = 'out', above = 3 }}]\n")),
        Just("run = 'true'\n".to_owned()),
        Just("outputs = 3\n".to_owned()),
        Just("above = 3\n".to_owned()),
        Just("on_error = 'dead-letter'\n".to_owned()),
    ]
}

/// A file that is right: each node gets messages from an earlier one, in all ways edges can be written.
fn right_file() -> impl Strategy<Value = String> {
    let stage = prop::sample::select(vec![
        ("kind = 'merger'", "in", "out"),
        ("kind = 'sample'\nevery = 2", "in", "out"),
        ("kind = 'command'\nrun = 'cat'", "in", "out"),
        ("kind = 'splitter'\noutputs = 3", "in", "2"),
        ("kind = 'router'\nroutes = [{ to = 'yes', exists = true }]", "in", "else"),
        ("kind = 'batcher'\nsize = 3", "in", "out"),
        ("kind = 'timeout'\nafter = '1s'", "in", "late"),
        ("kind = 'text'", "in", "out"),
        ("kind = 'cache'\nttl = '1s'", "in", "out"),
        ("kind = 'window'\nsize = 3", "in", "out"),
    ]);
    let error = prop::sample::select(vec!["skip", "retry", "stop-node", "stop", "dead-letter"]);
    let policy =
        prop::sample::select(vec!["policy = 'block'", "policy = 'drop'", "policy = 'latest'", "coalesce = 'list'"]);
    let node = (stage, error, policy, any::<prop::sample::Index>(), any::<bool>(), any::<bool>());
    prop::collection::vec(node, 1..12).prop_map(|nodes| {
        let mut text = String::from("[node.n0]\nkind = 'command'\nrun = 'true'\n[node.z]\nkind = 'discard'\n");
        let mut outs = vec!["n0:out".to_owned()];
        let mut ends = vec![String::from("[[edge]]\nfrom = 'n0'\nto = 'z'\n")];
        for (nth, ((kind, input, output), error, policy, from, nested, steers)) in nodes.into_iter().enumerate() {
            let n = nth + 1;
            let source = from.get(&outs).clone();
            if nested {
                text += &format!("[graph.n{n}]\nexpose = {{ {input} = 'x:{input}', {output} = 'x:{output}' }}\n[graph.n{n}.node.x]\n{kind}\non_error = '{error}'\n");
            } else {
                text += &format!("[node.n{n}]\n{kind}\non_error = '{error}'\n");
            }
            ends.push(format!("[[edge]]\nfrom = '{source}'\nto = 'n{n}:{input}'\n{policy}\ncapacity = {n}\n"));
            if error == "dead-letter" && !nested {
                ends.push(format!("[[edge]]\nfrom = 'n{n}:dead'\nto = 'z'\n"));
            }
            if steers {
                ends.push(format!("[[edge]]\nfrom = 'n{n}:{output}'\nto = 'n0:control'\n"));
            }
            outs.push(format!("n{n}:{output}"));
        }
        text + &ends.concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_plan_or_problems(bytes in prop::collection::vec(any::<u8>(), 0..400), json in any::<bool>()) {
        let name = if json { "x.json" } else { "x.toml" };
        if let Err(problems) = parse_with(name, &bytes, &surface_flowfile::Limits::default()) {
            prop_assert!(problems.len() > 0);
        }
    }

    #[test]
    fn any_text_of_the_syntax_gives_a_plan_or_problems(text in "[\\[\\]{}a-c.='\" \n:>0-9,-]{0,200}") {
        let _ = parse("x.toml", &text).map(|plan| holds(&plan));
        let _ = parse("x.json", &text).map(|plan| holds(&plan));
    }

    #[test]
    fn every_right_file_gives_a_plan_that_the_scheduler_takes(text in right_file()) {
        match parse("x.toml", &text) {
            Ok(plan) => holds(&plan),
            Err(problems) => prop_assert!(false, "{text}\n{problems}"),
        }
    }

    #[test]
    fn every_right_file_runs_to_its_end(text in right_file()) {
        let text = text.replace("'command'\nrun = 'true'", "'numbers'\nto = 50").replace("'command'\nrun = 'cat'", "'merger'");
        let plan = parse("x.toml", &text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
        let builder = build::flow(&plan, &build::Hooks::default()).unwrap().virtual_time();
        // Whether a node stopped it or not, it ended.
        let _ = crate::run::run_builder(builder, |_| ());
    }

    #[test]
    fn a_right_file_with_a_few_mistakes_gives_a_plan_that_holds_or_problems(
        text in right_file(),
        mistakes in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, "[\\[\\]{}a-z.='\" \n:>0-9,-]{0,6}"), 1..4),
    ) {
        let mut bytes = text.into_bytes();
        for (at, length, other) in mistakes {
            let at = at.index(bytes.len() + 1);
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, other.bytes());
        }
        if let Ok(plan) = parse_with("x.toml", &bytes, &surface_flowfile::Limits::default()) {
            holds(&plan);
        }
    }

    #[test]
    fn any_pieces_of_flow_files_give_a_plan_that_holds_or_problems(
        head in prop::sample::select(vec!["", "edges = ['a -> z']\n", "edges = ['a -> b -> z', 'a:out -> g -> z']\n"]),
        pieces in prop::collection::vec(piece(), 0..10),
    ) {
        let text = format!("{head}{}", pieces.concat());
        match parse("x.toml", &text) {
            Ok(plan) => holds(&plan),
            Err(problems) => prop_assert!(problems.iter().all(|problem| !problem.help.is_empty()), "{text}\n{problems}"),
        }
    }
}
