//! Edges over a broker, and the parts that processes run.

use surface_flowfile::build::{Hooks, build, edge_id};
use surface_flowfile::plan::Policy;

use crate::{plan, says};

const FLEET: &str = r##"
edges = ["imu -> hot"]
[part.robot]
nodes = ["imu", "hot"]
[part.base]
nodes = ["store"]
[node.imu]
kind = "numbers"
to = 9
[node.hot]
kind = "filter"
above = 3
[node.store]
kind = "discard"
"##;

fn fleet(edge: &str) -> String {
    format!("{FLEET}{edge}\n")
}

const EDGE: &str =
    "[[edge]]\nfrom = \"hot\"\nto = \"store\"\ncapacity = 8\npolicy = \"latest\"\nover = \"nats://127.0.0.1/hot\"";

#[test]
fn a_part_has_its_nodes_and_its_half_of_each_edge() {
    let whole = plan(&fleet(EDGE));
    assert_eq!(whole.parts.len(), 2);
    let ids = |part: Option<&str>| {
        let part = whole.part(part).unwrap();
        build(&part, &Hooks::default()).unwrap();
        let edges: Vec<String> = part.edges.iter().map(|edge| edge_id(&part, edge)).collect();
        let policies: Vec<&str> = part.edges.iter().map(|edge| edge.policy.name()).collect();
        (edges.join(" "), policies.join(" "))
    };
    let (robot, policies) = ids(Some("robot"));
    assert_eq!(robot, "imu:out->hot:in hot:out->hot!publish:in");
    assert_eq!(policies, "block latest");
    // What the policy left is not lost any more.
    assert_eq!(ids(Some("base")), ("hot!subscribe:out->store:in".to_owned(), "block".to_owned()));
    // Without a part all nodes run, and the edge still goes over the broker.
    assert_eq!(ids(None).0, "imu:out->hot:in hot:out->hot!publish:in hot!subscribe:out->store:in");
    assert_eq!(whole.edges[1].policy, Policy::Latest);
    assert_eq!(whole.part(Some("bas")).unwrap_err().to_string(), "there is no part `bas`; the file has robot, base");
}

#[test]
fn an_edge_to_control_is_of_control_on_both_sides() {
    let text = fleet(EDGE) + "[[edge]]\nfrom = \"hot\"\nto = \"store:control\"\nover = \"nats://127.0.0.1/stop\"\n";
    let whole = plan(&text);
    for part in ["robot", "base"] {
        let part = whole.part(Some(part)).unwrap();
        assert_eq!(part.edges.last().unwrap().priority, Some(100));
    }
}

#[test]
fn an_edge_between_parts_needs_a_broker() {
    says(
        &fleet("[[edge]]\nfrom = \"hot\"\nto = \"store\""),
        &[
            r##"14:1: this edge leads from part `robot` (`hot`) to part `base` (`store`), and has no broker; write it as `[[edge]]` with `over = "nats://127.0.0.1:4222/SUBJECT"`, or move a node"##,
        ],
    );
}

#[test]
fn a_node_is_in_one_part() {
    let text = fleet(EDGE);
    says(
        &text.replace("[\"store\"]", "[\"hot\", \"stor\"]"),
        &[
            "5:10: node `hot` is in the parts `robot` and `base`; name it once: one process runs it",
            "5:17: there is no node or graph `stor`; did you mean `store`?",
        ],
    );
    says(
        &text.replace("[\"imu\", \"hot\"]", "[\"imu\"]"),
        &["9:7: node `hot` is in no part, so no process runs it; write its name into `nodes` of a part, as of `robot`"],
    );
}

#[test]
fn a_part_without_nodes_is_refused_before_it_runs() {
    let text = fleet(EDGE) + "[part.spare]\nnodes = []\n";
    let said = "20:7: part `spare` has no node, so its process would have nothing to run; write the names of its nodes into `nodes`, or remove the part";
    says(&text, &[said]);
}

#[test]
fn a_circle_through_several_parts_is_a_circle() {
    let text = r##"
[part.a]
nodes = ["x"]
[part.b]
nodes = ["y"]
[node.x]
kind = "delay"
by = "1ms"
[node.y]
kind = "delay"
by = "1ms"
[[edge]]
from = "x"
to = "y"
over = "nats://127.0.0.1/xy"
[[edge]]
from = "y"
to = "x"
over = "nats://127.0.0.1/yx"
"##;
    let problems = surface_flowfile::parse("x.toml", text).unwrap_err().to_string();
    assert!(problems.contains("messages go in a circle that can deadlock"), "{problems}");
}

#[test]
fn two_edges_have_two_subjects() {
    let second = "\n[[edge]]\nfrom = \"imu\"\nto = \"store\"\nover = \"nats://127.0.0.1/hot\"";
    says(
        &fleet(&(EDGE.to_owned() + second)),
        &["23:8: the edge from `hot` to `store` goes over this subject, too; give each edge a subject of its own"],
    );
}

#[test]
fn a_password_in_a_file_is_refused_and_not_shown() {
    let text = fleet(&EDGE.replace("127.0.0.1", "me:hunter2@127.0.0.1"));
    let problems = surface_flowfile::parse("x.toml", &text).unwrap_err();
    assert!(problems.to_string().contains("NATS_PASSWORD"), "{problems}");
    assert!(!problems.to_string().contains("hunter2"), "{problems}");
    assert_eq!(
        problems.iter().next().unwrap().location.unwrap().line,
        15,
        "the line of the edge is drawn, not that of the password"
    );
}
