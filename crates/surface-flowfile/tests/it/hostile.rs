//! Files that want to hurt: deep, long, or wrong in every line.

use std::fmt::Write;

use surface_flowfile::{Limits, graph, parse, parse_with};

use crate::{edges, plan, problems};

/// Unoptimised code gets a tenth of the edges.
const MANY: usize = if cfg!(debug_assertions) { 10_000 } else { 100_000 };

/// Seconds this thread has had a CPU: others use the machine, too.
fn cpu_secs() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0) / 1e9
}

/// Runs on a small stack, so that recursion by the depth of the input is seen.
fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(1 << 20).spawn(test).unwrap().join().unwrap();
}

#[test]
fn deep_brackets_are_refused_with_their_place() {
    on_a_small_stack(|| {
        for text in ["{a=".repeat(100_000), "[".repeat(100_000), "a.".repeat(100_000), "[a.".repeat(50_000)] {
            problems(&format!("x = {text}"));
            problems(&text);
        }
        let json = parse("x.json", &"[".repeat(1_000_000)).unwrap_err().to_string();
        let wanted = "x.json:1:49: this is nested too deep; write it flat, or move a nested graph one level up";
        assert_eq!(json, wanted);
        parse("x.json", &"{\"a\":".repeat(100_000)).unwrap_err();
    });
}

#[test]
fn the_deepest_tree_the_syntax_allows_is_read_on_a_small_stack() {
    on_a_small_stack(|| {
        // Dotted keys within inline tables: each has a limit of its own, and together they are a product.
        let key = vec!["a"; 39].join(".");
        let deep = format!("{}{key} = 1{}", format!("{key} = {{ ").repeat(12), " }".repeat(12));
        assert!(problems(&deep).to_string().contains("nested too deep"));
        // 38 + 1 levels of the key, 1 of the table, 1 of the list, and the brackets within.
        let inner = 13;
        let list = format!("[{{ {key} = {}{} }}]", "[".repeat(inner), "]".repeat(inner));
        plan(&format!("edges = ['v -> z']\n[node.z]\nkind = 'print'\n[node.v]\nkind = 'values'\nlist = {list}"));
    });
}

fn nested(depth: usize) -> String {
    let mut text = String::from("edges = ['a -> g -> z']\n[node.a]\nkind = 'stdin'\n[node.z]\nkind = 'print'\n");
    let mut header = String::new();
    for level in 1..=depth {
        header.push_str(if level == 1 { "graph.g" } else { ".graph.g" });
        let inner = if level == depth { "n" } else { "g" };
        let _ = write!(text, "[{header}]\nexpose = {{ in = '{inner}:in', out = '{inner}:out' }}\n");
    }
    let _ = write!(text, "[{header}.node.n]\nkind = 'merger'\n");
    text
}

#[test]
fn graphs_nest_sixteen_deep_and_no_deeper() {
    on_a_small_stack(|| {
        let plan = plan(&nested(16));
        let id = format!("{}n", "g/".repeat(16));
        assert_eq!(edges(&plan), [format!("a:out->{id}:in"), format!("{id}:out->z:in")]);
        let said = problems(&nested(17)).to_string();
        assert!(
            said.contains("graph `g` is nested 17 deep; the limit is 16; write its nodes into the graph around it"),
            "{said}"
        );
    });
}

/// A chain, and an edge from every node to another far away.
fn long_file(count: usize) -> String {
    let nodes = count / 2;
    let mut text = String::from("[node.n0]\nkind = 'numbers'\nto = 9\n");
    for n in 1..nodes {
        let _ = write!(text, "[node.n{n}]\nkind = 'filter'\nat_least = {n}\n");
    }
    for n in 1..nodes {
        let _ = write!(text, "[[edge]]\nfrom = 'n{}'\nto = 'n{n}'\ncapacity = 128\n", n - 1);
        let _ =
            write!(text, "[[edge]]\nfrom = 'n{}:out'\nto = 'n{n}:in'\npolicy = 'latest'\n", (n + nodes / 2) % nodes);
    }
    text
}

#[test]
fn a_file_of_100_000_edges_is_read_in_time() {
    let text = long_file(MANY);
    let once = || {
        let start = cpu_secs();
        let plan = plan(&text);
        let took = cpu_secs() - start;
        assert_eq!(plan.edges.len(), MANY - 2);
        took
    };
    // The best of three: other processes of the machine use its caches, too.
    let took = (0..3).map(|_| once()).fold(f64::MAX, f64::min);
    println!("{MANY} edges, {} bytes: {took:.3} s", text.len());
    assert!(took < if cfg!(debug_assertions) { 10.0 } else { 2.0 }, "{took} s");
    let plan = plan(&text);
    let start = cpu_secs();
    let drawn = graph::text(&plan);
    assert!(drawn.ends_with(&format!("… and {} more\n", MANY - 2 - 200)), "{}", &drawn[drawn.len() - 200..]);
    graph::dot(&plan);
    assert!(cpu_secs() - start < 10.0);
}

#[test]
fn a_circle_of_any_length_is_named() {
    on_a_small_stack(|| {
        let count = MANY - 1; // and one that leads into it
        let chain: Vec<String> = (0..count).map(|n| format!("n{n}")).collect();
        let mut text = format!("edges = ['a -> {} -> n0']\n[node.a]\nkind = 'stdin'\n", chain.join(" -> "));
        for n in 0..count {
            let _ = write!(text, "[node.n{n}]\nkind = 'merger'\n");
        }
        let said = problems(&text).to_string();
        assert!(said.contains("n0 -> n1 -> n2 -> n3 -> n4 -> n5 -> … -> n"), "{said}");
        assert!(said.contains(&format!("-> n0 ({count} nodes)")), "{said}");
    });
}

#[test]
fn a_file_of_nothing_but_mistakes_is_read_in_time() {
    for text in [
        "x\n".repeat(MANY),
        (0..MANY).map(|n| format!("[node.n{n}]\nkind = 'filtre'\n")).collect(),
        (0..MANY).map(|n| format!("[node.n{n}]\nkind = 'filter'\nabov = 1\n")).collect(),
        (0..MANY).map(|n| format!("[[edge]]\nfrom = 'k{n}'\nto = 'l{n}'\n")).collect(),
        format!("edges = ['s -> {}']\n[node.s]\nkind = 'splitter'\noutputs = 256\n", vec!["s"; MANY].join(" -> ")),
    ] {
        let start = cpu_secs();
        let _ = parse("test.toml", &text);
        let took = cpu_secs() - start;
        println!("{} bytes: {took:.3} s", text.len());
        assert!(took < 10.0, "{took} s for {}…", &text[..40]);
    }
}

#[test]
fn one_node_or_edge_more_than_allowed_is_refused_wherever_it_is() {
    let limits = Limits { nodes: 3, edges: 2, ..Limits::default() };
    let said = |text: &str| parse_with("x.toml", text.as_bytes(), &limits).map_err(|problems| problems.to_string());
    said(&nested(2)).unwrap();
    let more = format!("{}[graph.g.node.extra]\nkind = 'stdin'\n", nested(1));
    assert!(said(&more).unwrap_err().contains("there are more than 3 nodes; split the file"));
    let more = nested(1).replace("'a -> g -> z'", "'a -> g -> z', 'a -> z'");
    assert_eq!(said(&more).unwrap_err(), "x.toml:1:25: there are more than 2 edges; split the file");
    let limits = Limits { file_bytes: 10, ..Limits::default() };
    let said = parse_with("x.toml", nested(1).as_bytes(), &limits).unwrap_err().to_string();
    assert_eq!(said, "x.toml: has more than 10 bytes, the limit; split it into several graphs");
}

#[test]
fn a_regular_expression_that_would_fill_the_memory_is_refused() {
    let text = "edges = ['a -> f -> z']\n[node.a]\nkind = 'stdin'\n[node.f]\nkind = 'filter'\nmatches = '((a{1000}){1000}){1000}'\n[node.z]\nkind = 'print'";
    let said = problems(text).to_string();
    assert!(said.contains("`matches` is not a regular expression: "), "{said}");
}
