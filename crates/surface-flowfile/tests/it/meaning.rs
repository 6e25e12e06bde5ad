//! What right files mean.

use serde_json::json;
use surface_flowfile::action::{Action, Aggregate, Extent, Format};
use surface_flowfile::plan::{Coalesce, OnError, Policy};
use surface_flowfile::{build, parse};

use crate::{edges, plan};

const SENSORS: &str = r#"
name = "sensors"
edges = ["hot -> show", "hot:dead -> errors"]

[flow]
tick = "50ms"
batch = 64
drain = "5s"
workers = 2

[node.imu]
kind = "command"
run = "python3 imu.py"
format = "json"
restart = 3
env = { RATE = 5 }

[node.hot]
kind = "filter"
field = "celsius"
above = 80
tick = "100ms"
retry = { times = 5, first = "20ms", then = "dead-letter" }

[node.show]
kind = "print"

[node.errors]
kind = "write"
path = "errors.jsonl"
append = true

[[edge]]
from = "imu:out"
to = "hot:in"
capacity = 256
policy = "latest"
priority = "high"
"#;

#[test]
fn a_file_with_everything_means_what_it_says() {
    let plan = plan(SENSORS);
    assert_eq!(plan.name, "sensors");
    let settings = &plan.settings;
    assert_eq!(
        (settings.tick_ms, settings.batch, settings.drain_ms, settings.workers),
        (Some(50), Some(64), Some(5_000), Some(2))
    );
    let ids: Vec<&str> = plan.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["imu", "hot", "show", "errors"]);
    let Action::Command(command) = &plan.nodes[0].action else { panic!("{:?}", plan.nodes[0]) };
    assert_eq!(command.argv, ["sh", "-c", "python3 imu.py"]);
    assert_eq!((command.reading.format, command.restart, command.grace_ms), (Format::Json, 3, 2_000));
    assert_eq!(command.env, [("RATE".to_owned(), "5".to_owned())]);
    let hot = &plan.nodes[1];
    let then = Box::new(OnError::DeadLetter);
    assert_eq!(hot.on_error, OnError::Retry { times: 5, first_ms: 20, then });
    assert_eq!((hot.tick_ms, hot.outputs()), (Some(100), vec!["out".to_owned(), "dead".to_owned()]));
    assert_eq!(edges(&plan), ["hot:out->show:in", "hot:dead->errors:in", "imu:out->hot:in"]);
    let edge = &plan.edges[2];
    assert_eq!((edge.capacity, edge.policy, edge.priority), (256, Policy::Latest, Some(10)));
    assert_eq!((plan.edges[0].capacity, plan.edges[0].policy, plan.edges[0].priority), (1024, Policy::Block, None));
}

#[test]
fn the_same_in_json_is_the_same_plan() {
    let text = r#"{ "name": "sensors", "edges": ["a -> z"],
        "node": { "a": { "kind": "values", "list": [1, null, true, {"b": 1.5}] }, "z": { "kind": "print" } },
        "edge": [{ "from": "a", "to": "z:control", "coalesce": "sum" }] }"#;
    let plan = parse("x.json", text).unwrap();
    let Action::Values { list, repeat: 1 } = &plan.nodes[0].action else { panic!("{plan:?}") };
    assert_eq!(json!(list), json!([1, null, true, { "b": 1.5 }]));
    assert_eq!(edges(&plan), ["a:out->z:in", "a:out->z:control"]);
    assert_eq!(plan.edges[1].policy, Policy::Coalesce(Coalesce::Sum));
    assert!(plan.edges[1].is_control(), "an edge into `control` is one of control");
}

#[test]
fn graphs_in_graphs_become_flat_and_their_ports_those_of_their_nodes() {
    let plan = plan(
        r#"
edges = ["a -> outer -> z"]
[node.a]
kind = "stdin"
[node.z]
kind = "print"
[graph.outer]
edges = ["inner -> last"]
expose = { in = "inner:source", out = "last" }
[graph.outer.node.last]
kind = "merger"
[graph.outer.graph.inner]
edges = ["first -> r", "r:x -> second"]
expose = { source = "first:in", out = "second:out" }
[graph.outer.graph.inner.node.first]
kind = "merger"
[graph.outer.graph.inner.node.r]
kind = "router"
routes = [{ to = "x", exists = true }]
[graph.outer.graph.inner.node.second]
kind = "merger"
"#,
    );
    let ids: Vec<&str> = plan.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["a", "z", "outer/last", "outer/inner/first", "outer/inner/r", "outer/inner/second"]);
    assert_eq!(
        edges(&plan),
        [
            "outer/inner/first:out->outer/inner/r:in",
            "outer/inner/r:x->outer/inner/second:in",
            "outer/inner/second:out->outer/last:in",
            "a:out->outer/inner/first:in",
            "outer/last:out->z:in"
        ]
    );
}

#[test]
fn a_port_in_the_middle_of_a_chain_belongs_to_the_edge_it_fits() {
    let plan = plan(
        "edges = ['a -> v:invalid -> z', 'a -> c:left -> z', 'a -> c:right']\n[node.a]\nkind = 'stdin'\nformat = 'json'\n\
         [node.v]\nkind = 'validator'\nfields = { x = 'number' }\n[node.c]\nkind = 'correlator'\nkey = 'id'\n[node.z]\nkind = 'print'",
    );
    assert_eq!(edges(&plan), ["a:out->v:in", "v:invalid->z:in", "a:out->c:left", "c:out->z:in", "a:out->c:right"]);
}

#[test]
fn windows_tumble_or_slide_by_number_or_by_time() {
    let extent = |fields: &str| {
        let text = format!(
            "edges = ['a -> w -> z']\n[node.a]\nkind = 'numbers'\nto = 9\n[node.w]\nkind = 'window'\naggregate = 'mean'\n{fields}\n[node.z]\nkind = 'print'"
        );
        match &plan(&text).nodes[1].action {
            Action::Window { extent, aggregate: Aggregate::Mean, .. } => *extent,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(extent("size = 4"), Extent::Count { size: 4, slide: 4 });
    assert_eq!(extent("size = 4\nslide = 1"), Extent::Count { size: 4, slide: 1 });
    assert_eq!(extent("span = '1s'"), Extent::Time { span_ms: 1_000, slide_ms: 1_000 });
    assert_eq!(extent("span = '1s'\nslide = '100ms'"), Extent::Time { span_ms: 1_000, slide_ms: 100 });
    assert_eq!(extent("span = '2s'\nslide = 0.5"), Extent::Time { span_ms: 2_000, slide_ms: 500 });
}

#[test]
fn a_router_has_each_output_once_and_else() {
    let plan = plan(
        "edges = ['a -> r', 'r:hot -> z', 'r:else -> z']\n[node.a]\nkind = 'numbers'\nto = 9\n[node.r]\nkind = 'router'\n\
         routes = [{ to = 'hot', above = 5 }, { to = 'cold', below = 2 }, { to = 'hot', equals = 3 }]\n[node.z]\nkind = 'print'",
    );
    assert_eq!(plan.nodes[1].outputs(), ["hot", "cold", "else"]);
}

#[test]
fn a_plan_without_a_name_has_that_of_its_file() {
    let text = "edges = ['a -> z']\n[node.a]\nkind = 'stdin'\n[node.z]\nkind = 'print'";
    let plan = parse("flows/night.toml", text).unwrap();
    assert_eq!((plan.name.as_str(), plan.base.to_str()), ("night", Some("flows")));
}

#[test]
fn the_files_we_hand_out_are_right() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for file in [
        "examples/sensors.toml",
        "fuzz/seeds/flowfile/sensors.toml",
        "fuzz/seeds/flowfile/nested.toml",
        "fuzz/seeds/flowfile/small.json",
    ] {
        let plan = surface_flowfile::load(&root.join(file)).unwrap_or_else(|problems| panic!("{problems}"));
        let flow = build::flow(&plan, &build::Hooks::default()).unwrap().build();
        assert!(flow.is_ok(), "{file}: {}", flow.unwrap_err());
    }
}
