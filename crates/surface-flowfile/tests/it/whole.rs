//! Whole files: what comes in and goes out unchanged, what is followed, what ends, what is control.

use std::sync::mpsc;

use surface_flowfile::build::{Hooks, flow};

use crate::plan;
use crate::run::{LIMIT, run_builder, run_plan};

#[test]
fn json_passes_through_a_flow_file_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [
        r#"{"z":1,"a":{"y":2,"b":3},"m":[1.50,2.0]}"#,
        "123456789012345678901234567890",
        "[18446744073709551615,-9223372036854775808,0.1000,1e-7,1e3,1E3,-2.50E+03]",
    ];
    std::fs::write(folder.path().join("in.jsonl"), lines.join("\n")).unwrap();
    let mut plan = plan(
        "edges = ['a -> t -> j -> m -> z']\n[node.a]\nkind = 'lines'\npath = 'in.jsonl'\nformat = 'json'\n[node.t]\nkind = 'text'\n[node.j]\nkind = 'json'\n\
         [node.m]\nkind = 'merger'\n[node.z]\nkind = 'print'\nformat = 'json'",
    );
    plan.base = folder.path().to_owned();
    let (printed, _) = run_plan(&plan, |_| ());
    assert_eq!(printed, lines);
}

#[test]
fn a_file_that_is_rotated_is_followed_to_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.log");
    std::fs::write(&path, "one\n").unwrap();
    let mut plan =
        plan("edges = ['a -> z']\n[node.a]\nkind = 'lines'\npath = 'in.log'\nfollow = true\n[node.z]\nkind = 'print'");
    plan.base = folder.path().to_owned();
    let (sender, reported) = mpsc::channel();
    let hooks = Hooks::default().print(move |line| {
        let _ = sender.send(line.trim_end().to_owned());
        Ok(())
    });
    let next = || reported.recv_timeout(LIMIT).unwrap();
    run_builder(flow(&plan, &hooks).unwrap(), |handle| {
        assert_eq!(next(), "one");
        std::fs::rename(&path, folder.path().join("in.log.1")).unwrap();
        std::fs::write(&path, "two, of another file\n").unwrap();
        assert_eq!(next(), "two, of another file");
        std::fs::write(&path, "3\n").unwrap(); // cut off, and begun again
        assert_eq!(next(), "3");
        handle.shutdown();
    })
    .unwrap();
}

#[test]
fn a_head_ends_the_sources_that_feed_only_it() {
    let text = "edges = ['a -> h -> z']\n[node.a]\nkind = 'command'\ncommand = ['yes']\n[node.h]\nkind = 'head'\ncount = 3\n[node.z]\nkind = 'print'";
    let (lines, ended) = run_plan(&plan(text), |_| ());
    assert_eq!(lines, ["y", "y", "y"]);
    assert!(ended.drained);
    // A program that ended well wants no more, either.
    let text = "edges = ['a -> h -> z']\n[node.a]\nkind = 'random-walk'\n[node.h]\nkind = 'command'\ncommand = ['head', '-n', '3']\n[node.z]\nkind = 'print'";
    assert_eq!(run_plan(&plan(text), |_| ()).0.len(), 3);
}

#[test]
fn what_feeds_only_control_is_in_the_control_band_and_what_a_file_says_stays() {
    use bursar::flow::Band;
    let text = "edges = ['k -> f -> a:control', 'a -> z', 'b -> z']\nflow.shares = [6, 2, 1]\n[node.k]\nkind = 'values'\nlist = [1]\n\
                [node.f]\nkind = 'filter'\nabove = 5\n[node.a]\nkind = 'numbers'\nto = 3\n[node.b]\nkind = 'numbers'\nto = 3\nband = 'high'\n\
                [node.z]\nkind = 'print'";
    let plan = plan(text);
    assert_eq!((plan.settings.shares, plan.nodes[3].band), (Some([6, 2, 1]), Some(Band::High)));
    let (_, ended) = run_plan(&plan, |_| ());
    let band = |edge: &str| ended.stats.edge(edge).unwrap_or_else(|| panic!("{edge}: {:?}", ended.stats.edges)).band;
    assert_eq!(band("k:out->f:in"), Band::Control);
    assert_eq!(band("f:out->a!control:in"), Band::Control);
    assert_eq!(band("a:out->z:in"), Band::Normal);
}
