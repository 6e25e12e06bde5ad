//! How plans are drawn.

use surface_flowfile::graph;

use crate::plan;

const KILL: &str = "edges = ['a -> f -> z']\n[node.a]\nkind = 'command'\nrun = 'echo \"<hi>\"'\n[node.f]\nkind = 'merger'\n\
                    [node.z]\nkind = 'print'\n[node.k]\nkind = 'sample'\nevery = 9\n[[edge]]\nfrom = 'f'\nto = 'k'\npolicy = 'latest'\n\
                    capacity = 1\npriority = 'high'\n[[edge]]\nfrom = 'k'\nto = 'a:control'\n";

#[test]
fn a_kill_switch_in_a_terminal() {
    assert_eq!(
        graph::text(&plan(KILL)),
        "\
test: 4 nodes, 4 edges

  a         $ echo \"<hi>\"
  └─ f      merger
     ├─ z   print
     └─ k   sample

  a:out->f:in        block 1024
  f:out->z:in        block 1024
  f:out->k:in        latest 1, high
  k:out->a:control   block 1024, control
"
    );
}

#[test]
fn a_kill_switch_for_graphviz() {
    assert_eq!(
        graph::dot(&plan(KILL)),
        r#"digraph "test" {
  rankdir=LR;
  node [shape=box, style=rounded];
  n0 [label="a\n$ echo \"<hi>\""];
  n1 [label="f\nmerger"];
  n2 [label="z\nprint"];
  n3 [label="k\nsample"];
  n0 -> n1;
  n1 -> n2;
  n1 -> n3 [label="latest 1, high"];
  n3 -> n0 [label="control", style=dashed, color=red, constraint=false];
}
"#
    );
}

#[test]
fn a_kill_switch_for_a_browser() {
    let svg = graph::svg(&plan(KILL));
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("$ echo &quot;&lt;hi&gt;&quot;"), "what people wrote is escaped\n{svg}");
    assert_eq!(svg.matches("<path class=\"c\"").count(), 1, "one control edge\n{svg}");
    assert_eq!(svg.matches("marker-end").count(), 4, "{svg}");
    assert!(svg.contains(">latest 1, high</text>"), "{svg}");
}
