//! Each problem with edges, ports and graphs: its place and its way out.

use crate::{problems, says};

#[test]
fn every_end_of_every_edge_is_looked_up() {
    says(
        r##"
edges = ['a -> z', 'b -> z', 'a:ot -> z', 'z -> a', 'a:out -> z:out', 'a -> ', 'a']
[node.a]
kind = 'stdin'
[node.z]
kind = 'print'
"##,
        &[
            r##"1:21: there is no node `b`; write `[node.b]`, or name another"##,
            r##"1:31: node `a` has no output `ot`; it has `out`"##,
            r##"1:44: node `z` has no output; it only takes; reverse the edge, or name another node"##,
            r##"1:49: node `a` has no input; it only sends; reverse the edge, or name another node"##,
            r##"1:63: node `z` has no input `out`; it has `in`"##,
            r##"1:76: an end of this edge is ``, which names no node or port; write `node` or `node:port`"##,
            r##"1:80: `a` is not an edge: it has no `->`; write "from -> to""##,
        ],
    );
}

#[test]
fn an_edge_is_written_once() {
    says(
        r##"
edges = ['a -> z', 'a:out -> z:in']
[node.a]
kind = 'stdin'
[node.z]
kind = 'print'
"##,
        &[r##"1:20: the edge `a:out->z:in` is written twice; remove one of the two"##],
    );
}

#[test]
fn every_field_of_an_edge_is_checked() {
    says(
        r##"
[node.a]
kind = 'stdin'
[node.z]
kind = 'print'
[[edge]]
from = 'a'
to = 'z'
capacity = 0
policy = 'lates'
priority = 'top'
colour = 1
[[edge]]
from = 'a'
"##,
        &[
            r##"8:12: `capacity` is 0, but the minimum is 1; write a number from 1 to 16777216"##,
            r##"9:10: `policy` takes "block", "drop", "latest" or "coalesce", not 'lates'; did you mean "latest"?"##,
            r##"10:12: `priority` takes "control", "high", "normal" or a whole number, not 'top'; write `priority = "high"`"##,
            r##"11:1: `colour` is not a field of an edge; it has from, to, capacity, policy, coalesce, priority and over"##,
            r##"12:1: this edge has no `to`; write `from = "imu:out"` and `to = "hot:in"`"##,
        ],
    );
}

#[test]
fn a_capacity_has_a_limit_and_policies_exclude_each_other() {
    says(
        r##"
[node.a]
kind = 'stdin'
[node.z]
kind = 'print'
[[edge]]
from = 'a'
to = 'z'
capacity = 99999999999
policy = 'drop'
coalesce = 'sum'
"##,
        &[
            r##"8:12: `capacity` is 99999999999, but the limit is 16777216; write a number from 1 to 16777216"##,
            r##"9:10: `policy` is "drop", and there is a `coalesce`; write `policy = "coalesce"`, or remove `coalesce`"##,
        ],
    );
}

#[test]
fn a_circle_of_waiting_edges_is_named() {
    says(
        r##"
edges = ['a -> m -> z', 'm -> m2 -> m']
[node.a]
kind = 'stdin'
[node.m]
kind = 'merger'
[node.m2]
kind = 'merger'
[node.z]
kind = 'print'
"##,
        &[
            r##"1:25: messages go in a circle that can deadlock when its edges are full: m -> m2 -> m (2 nodes); make one of its edges non-blocking: `policy = "latest"` or "drop""##,
        ],
    );
}

#[test]
fn a_node_that_waits_for_itself_is_a_circle() {
    says(
        r##"
edges = ['a -> m -> m']
[node.a]
kind = 'stdin'
[node.m]
kind = 'merger'
"##,
        &[
            r##"1:10: messages go in a circle that can deadlock when its edges are full: m -> m (1 node); make one of its edges non-blocking: `policy = "latest"` or "drop""##,
        ],
    );
}

#[test]
fn numbers_have_no_fields() {
    says(
        r##"
edges = ['a -> f -> z']
[node.a]
kind = 'numbers'
to = 10
[node.f]
kind = 'filter'
field = 'x'
above = 3
[node.z]
kind = 'print'
"##,
        &[
            r##"1:10: `a:out` gives numbers, and `f:in` takes objects: it reads a field; name no field, which means the message itself"##,
        ],
    );
}

#[test]
fn a_type_goes_through_nodes_that_pass_messages_on() {
    says(
        r##"
edges = ['a -> s -> j -> z']
[node.a]
kind = 'numbers'
to = 10
[node.s]
kind = 'sample'
every = 2
[node.j]
kind = 'json'
[node.z]
kind = 'print'
"##,
        &[r##"1:10: `s:out` gives numbers, and `j:in` takes texts: it parses them; leave it out"##],
    );
}

#[test]
fn routes_ports_and_exposures_are_checked_together() {
    says(
        r##"
edges = ['a -> g', 'a -> r', 'r:hot -> z', 'r -> z', 's -> z', 's:3 -> z']
[node.a]
kind = 'stdin'
[node.r]
kind = 'router'
routes = [{ to = 'hot', matches = 'x' }, { too = 'hot' }, 3, { to = 'else', above = 2 }]
[node.s]
kind = 'splitter'
outputs = 2
[node.z]
kind = 'print'
[graph.g]
expose = { in = 'q:in', out = 'x', b = 'x:bad' }
[graph.g.node.x]
kind = 'merger'
"##,
        &[
            r##"1:55: node `s` has several outputs; write `s:0`; it has `0`, `1`"##,
            r##"1:65: node `s` has no output `3`; it has `0`, `1`"##,
            r##"6:42: a route needs `to`, the output; write `to = "hot"`"##,
            r##"6:44: `too` is not a field of a route; did you mean `to`?"##,
            r##"6:59: a route is a table, not the number `3`; write `{ to = "hot", field = "celsius", above = 80 }`"##,
            r##"6:69: `else` cannot be the name of an output; use letters, digits, `_` and `-`; `else`, `dead` and `control` are reserved"##,
            r##"13:17: there is no node `q`; write `[node.q]`, or name another"##,
            r##"13:40: `x:bad` is not a port of a node, so it cannot be exposed; write `b = "x:PORT"`; it has `in`, `out`"##,
        ],
    );
}

#[test]
fn ports_of_a_nested_graph_have_a_direction() {
    says(
        r##"
edges = ['a -> g:out', 'g:in -> z', 'g -> z', 'a -> g']
[node.a]
kind = 'stdin'
[node.z]
kind = 'print'
[graph.g]
expose = { in = 'x:in', out = 'x:out' }
edges = ['y -> x']
[graph.g.node.x]
kind = 'merger'
[graph.g.node.y]
kind = 'merger'
[graph.z]
edges = []
"##,
        &[
            r##"1:16: `g:out` is an output, and an edge ends at an input; reverse the edge, or name another port"##,
            r##"1:25: `g:in` is an input, and an edge starts at an output; reverse the edge, or name another port"##,
            r##"13:8: `z` is a node and a graph; give one of the two another name"##,
        ],
    );
}

#[test]
fn a_node_with_a_problem_makes_no_second_one_of_its_edges() {
    says(
        "edges = ['a -> b -> c']\n[node.a]\nkind = 'stdin'\n[node.b]\nkind = 'filtre'\n[node.c]\nkind = 'print'",
        &[r#"5:8: there is no kind "filtre"; did you mean "filter"?"#],
    );
}

#[test]
fn an_input_without_an_edge_is_reported_also_in_a_nested_graph() {
    says(
        "edges = ['a -> g']\n[node.a]\nkind = 'stdin'\n[graph.g]\nedges = ['x -> c:left']\nexpose = { in = 'x' }\n\
         [graph.g.node.x]\nkind = 'json'\n[graph.g.node.c]\nkind = 'correlator'\nkey = 'id'\n",
        &[
            r#"9:15: no edge leads to `g/c:right`; write an edge to it, `edges = ["… -> g/c:right"]`, or remove the node"#,
        ],
    );
}

#[test]
fn a_circle_is_fine_where_an_edge_does_not_wait() {
    let text = "edges = ['a -> m -> n']\n[node.a]\nkind = 'stdin'\n[node.m]\nkind = 'merger'\n[node.n]\nkind = 'merger'\n\
                [[edge]]\nfrom = 'n'\nto = 'm'\n";
    assert!(problems(text).to_string().contains("messages go in a circle"));
    for way in ["policy = 'latest'", "policy = 'drop'"] {
        crate::plan(&format!("{text}{way}"));
    }
    // One that coalesces waits when two messages cannot be merged, so the scheduler refuses it, too.
    for way in ["priority = 'control'", "coalesce = 'last'"] {
        assert!(problems(&format!("{text}{way}")).to_string().contains("messages go in a circle"), "{way}");
    }
}

#[test]
fn a_graph_has_no_control_input_of_its_own() {
    says(
        r##"
edges = ['g -> a:control']
[graph.a.node.a]
kind = 'merger'
[node.g]
kind = 'command'
run = 'true'
"##,
        &[r##"1:16: node `a` has no input `control`; it has no input"##],
    );
}
