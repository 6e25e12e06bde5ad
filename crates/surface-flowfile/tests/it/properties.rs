//! Any bytes give a plan or problems, and what a plan promises holds.

use proptest::prelude::*;
use surface_flowfile::{Plan, graph, parse, parse_with};

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
        Just("run = 'true'\n".to_owned()),
        Just("outputs = 3\n".to_owned()),
        Just("above = 3\n".to_owned()),
        Just("on_error = 'dead-letter'\n".to_owned()),
    ]
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
