//! No message vanishes without being counted.

use crate::plan;
use crate::run::run_plan;

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
