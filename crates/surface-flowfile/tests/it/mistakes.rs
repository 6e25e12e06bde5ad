//! Each problem with a part, a node or a field: its place and its way out.

use crate::{problems, says};

#[test]
fn a_kind_that_is_almost_one_is_suggested() {
    says(
        r##"
[node.a]
kind = "stdn"
"##,
        &[r##"2:8: there is no kind "stdn"; did you mean "stdin"?"##],
    );
}

#[test]
fn a_kind_that_is_none_gets_the_list() {
    says(
        r##"
[node.a]
kind = "spaceship"
"##,
        &[
            r##"2:8: there is no kind "spaceship"; the kinds are command, lines, stdin, tcp-in, every, numbers, values, random-walk, map, filter, janus, router, splitter, merger, batcher, window, throttle, debounce, sample, validator, counter, head, cache, breaker, timeout, delay, correlator, json, text, print, write, tcp-out, discard, stop"##,
        ],
    );
}

#[test]
fn a_program_without_a_kind_is_a_command() {
    says(
        r##"
[node.a]
run = "date"
"##,
        &[r##"1:7: node `a` has no `kind`; write `kind = "command"`"##],
    );
}

#[test]
fn a_node_has_a_kind() {
    says(
        r##"
[node.a]
"##,
        &[r##"1:7: node `a` has no `kind`; write `kind = "filter"` or another; `bursar flow kinds` lists them"##],
    );
}

#[test]
fn a_file_has_a_node() {
    says(
        r##"
"##,
        &[r##"1:1: there is no node in this file; the smallest file is
edges = ["in -> out"]
[node.in]
kind = "stdin"
[node.out]
kind = "print""##],
    );
}

#[test]
fn a_part_that_is_almost_one_is_suggested() {
    says(
        r##"
nod = 1
"##,
        &[r##"1:1: `nod` is not a part of a flow file; did you mean `node`?"##],
    );
}

#[test]
fn a_node_is_a_section_of_node() {
    says(
        r##"
[imu]
kind = "stdin"
"##,
        &[
            r##"1:2: `imu` is not a part of a flow file; a node is written `[node.imu]`; the parts are name, edges, [flow], [node.NAME], [[edge]], [graph.NAME] and [part.NAME]"##,
        ],
    );
}

#[test]
fn only_a_nested_graph_exposes_ports() {
    says(
        r##"
expose = {}
"##,
        &[r##"1:1: `expose` is not a part of a flow file; only a nested graph, `[graph.NAME]`, exposes ports"##],
    );
}

#[test]
fn a_node_is_no_number() {
    says(
        r##"
node = 3
"##,
        &[
            r##"1:1: `node` is a section, not the number `3`; write `[node.NAME]` on a line of its own, and its fields below"##,
        ],
    );
}

#[test]
fn a_field_that_is_almost_one_is_suggested() {
    says(
        r##"
edges = ['a -> z']
[node.a]
kind = 'stdin'
formt = 'json'
[node.z]
kind = 'print'
"##,
        &[r##"4:1: `formt` is not a field of `stdin` node `a`; did you mean `format`?"##],
    );
}

#[test]
fn a_required_field_is_asked_for() {
    says(
        r##"
edges = ['a -> z']
[node.a]
kind = 'lines'
[node.z]
kind = 'print'
"##,
        &[r##"2:7: `lines` node `a` needs `path`, the file; write `path = "server.log"`"##],
    );
}

#[test]
fn a_value_of_the_wrong_type_and_edges_at_the_wrong_place() {
    says(
        r##"
edges = ['a -> f -> z']
[node.a]
kind = 'stdin'
format = 'jsn'
[node.f]
kind = 'filter'
above = 'hot'
[node.z]
kind = 'print'
edges = []
"##,
        &[
            r##"4:10: `format` takes "lines" or "json", not 'jsn'; did you mean "json"?"##,
            r##"7:9: `above` takes a number, not the text `'hot'`; write `above = 80`"##,
            r##"10:1: `edges` is not a field of `print` node `z`; `edges` belongs above the first `[section]` of the file"##,
        ],
    );
}

#[test]
fn a_filter_asks_something() {
    says(
        r##"
edges = ['a -> f -> z']
[node.a]
kind = 'stdin'
format = 'json'
[node.f]
kind = 'filter'
field = 'x'
[node.z]
kind = 'print'
"##,
        &[
            r##"5:7: `filter` node `f` has no condition; write one of above, below, at_least, at_most, equals, not, matches, exists"##,
        ],
    );
}

#[test]
fn a_regular_expression_is_one() {
    says(
        r##"
edges = ['a -> f -> z']
[node.a]
kind = 'stdin'
format = 'json'
[node.f]
kind = 'filter'
matches = '('
[node.z]
kind = 'print'
"##,
        &[r##"7:11: `matches` is not a regular expression: unclosed group; a plain `.`, `(` or `[` is written `\\.`"##],
    );
}

#[test]
fn settings_and_error_policies_are_checked() {
    says(
        r##"
edges = ['a -> z']
[flow]
tick = 0
batch = 0
drains = '5s'
workers = 'two'
[node.a]
kind = 'stdin'
[node.z]
kind = 'print'
on_error = 'skipp'
retry = { time = 3, first = 'soon', then = 'die' }
tick = '0s'
"##,
        &[
            r##"3:8: `tick` is 0, and the interval must not be 0; write `tick = "1ms"` or more"##,
            r##"4:9: `batch` is 0, but the minimum is 1; write a number from 1 to 1000000"##,
            r##"5:1: `drains` is not a field of [flow]; did you mean `drain`?"##,
            r##"6:11: `workers` takes a whole number, not the text `'two'`; write `workers = 1`"##,
            r##"11:12: `on_error` takes "skip", "retry", "stop-node", "stop" or "dead-letter", not 'skipp'; did you mean "skip"?"##,
            r##"12:11: `time` is not a field of `retry`; did you mean `times`?"##,
            r##"12:29: `first` is 'soon', which is not a duration: its unit is none of ms, s, m, h, d; write "250ms", "10s", "1h30m", or a plain number of seconds"##,
            r##"12:44: `then` takes "skip", "stop-node", "stop" or "dead-letter", not 'die'; write `then = "dead-letter"`"##,
            r##"13:8: `tick` is 0, and the interval must not be 0; write `tick = "1ms"` or more"##,
        ],
    );
}

#[test]
fn a_retry_is_what_happens_on_an_error() {
    says(
        r##"
edges = ['a -> z']
[node.a]
kind = 'stdin'
[node.z]
kind = 'print'
on_error = 'stop'
retry = {}
[node."x y"]
kind = 'print'
[node.alone]
kind = 'stdin'
"##,
        &[
            r##"6:12: `on_error` is "stop", and there is a `retry`; write `then = "stop"` in `retry`, and leave `on_error` out"##,
            r##"8:7: `x y` cannot be the name of a node; start with a letter, and use letters, digits and any of `_-.+@`"##,
            r##"10:7: node `alone` has no edge; write an edge from it, `edges = ["alone -> …"]`, or remove the node"##,
        ],
    );
}

#[test]
fn fields_that_need_or_exclude_each_other() {
    says(
        r##"
edges = ['a -> w -> z', 'a -> v -> z', 'a->m->z', 't -> z', 'e->z', 'n->z', 'l->z', 'c->z', 'a->th->z']
[node.a]
kind = 'stdin'
[node.w]
kind = 'window'
[node.v]
kind = 'window'
size = 3
slide = 4
[node.m]
kind = 'map'
[node.t]
kind = 'tcp-in'
listen = 'here'
[node.e]
kind = 'every'
interval = 0
[node.n]
kind = 'numbers'
to = -4
[node.l]
kind = 'values'
list = []
[node.c]
kind = 'command'
run = 'true'
command = ['true']
[node.th]
kind = 'throttle'
rate = 0
[node.z]
kind = 'print'
"##,
        &[
            r##"4:7: `window` node `w` has neither `size` nor `span`; write `size = …` or `span = …`"##,
            r##"9:9: `slide` is 4, and it must be from 1 to `size`; write `slide = 1`, or leave it out: then windows do not overlap"##,
            r##"10:7: `map` node `m` changes nothing; write what it changes, such as `set = { unit = "C" }`, or remove it"##,
            r##"14:10: `listen` is "here", which is not an address; write an IP address and a port, such as "127.0.0.1:7000""##,
            r##"17:12: `interval` is 0, and `every` node `e` needs a time above 0; write `1ms` or more"##,
            r##"20:6: `to` is -4, which is less than `from`, 1; swap the two"##,
            r##"23:8: `list` is empty; write a value in it, or remove the node"##,
            r##"27:11: `command` node `c` has both `run` and `command`; remove one of the two"##,
            r##"30:8: `rate` is 0 messages a second; it must be from 0.001 to 1000000000; write `rate = 100`"##,
        ],
    );
}

#[test]
fn syntax_is_told_in_the_words_of_a_flow_file() {
    says(
        "[node.a\n",
        &[
            "1:8: unclosed table, expected `]`; a line is `key = value`, a node starts with `[node.NAME]`, and text is in quotes",
        ],
    );
    let json = surface_flowfile::parse("x.json", "[1]").unwrap_err().to_string();
    assert!(json.starts_with("x.json:1:1: this is not a table; a flow file in JSON is {"), "{json}");
}

#[test]
fn a_number_that_no_message_holds_is_refused() {
    let text = |value: &str| {
        format!("edges = ['a -> z']\n[node.a]\nkind = 'values'\nlist = [{value}]\n[node.z]\nkind = 'print'\n")
    };
    for value in ["nan", "inf", "99999999999999999999999999", "-9223372036854775809", "{ a = [inf] }"] {
        let said = problems(&text(value)).to_string();
        assert!(said.contains("does not fit into a message"), "{value}: {said}");
    }
    for value in ["18446744073709551615", "-9223372036854775808", "1e300", "2026-01-01", "{ a = [true] }"] {
        crate::plan(&text(value));
    }
}

#[test]
fn a_source_that_reads_nothing_has_no_dead_letters() {
    let text =
        "edges = ['a -> z']\n[node.a]\nkind = 'numbers'\nto = 3\non_error = 'dead-letter'\n[node.z]\nkind = 'print'";
    says(
        text,
        &[
            r#"5:12: `numbers` node `a` reads no lines or messages that could fail, so it has no dead letters; write "skip", "stop-node" or "stop""#,
        ],
    );
}

#[test]
fn shares_and_bands_that_cannot_be_are_told_with_their_limits() {
    for (shares, said) in [
        (
            "[4, 2]",
            "1:10: `shares` has 2 numbers, and the bands are three: control, high and normal; write `shares = [4, 2, 1]`",
        ),
        ("[1, 2, 1]", "1:10: `shares` give control 1 turns of 4; it needs at least half; write `shares = [3, 2, 1]`"),
        ("[900, 99, 2]", "1:10: `shares` add up to 1001; the limit is 1000; use smaller numbers of the same ratio"),
    ] {
        let text =
            format!("flow.shares = {shares}\nedges = ['a -> z']\n[node.a]\nkind = 'stdin'\n[node.z]\nkind = 'print'");
        says(&text, &[&said.replace("1:10", "1:15")]);
    }
    let text = "edges = ['a -> z']\n[node.a]\nkind = 'stdin'\nband = 'top'\n[node.z]\nkind = 'print'";
    says(text, &[r#"4:8: `band` takes "control", "high" or "normal", not 'top'; write `band = "high"`"#]);
}

#[test]
fn a_file_that_is_read_from_its_end_and_not_followed_gives_nothing() {
    let text = "edges = ['a -> z']\n[node.a]\nkind = 'lines'\npath = 'x'\nfrom = 'end'\n[node.z]\nkind = 'print'";
    says(
        text,
        &[
            "5:8: `lines` node `a` starts at the end and does not follow the file, so it reads nothing; write `follow = true`, or remove `from`",
        ],
    );
}

#[test]
fn two_nodes_that_would_spoil_a_file_are_told() {
    let nodes = |first: &str, second: &str| {
        format!(
            "edges = ['a -> x', 'a -> y', 'b -> x']\n[node.a]\nkind = 'stdin'\n[node.b]\nkind = 'lines'\npath = '{first}'\n\
             [node.x]\nkind = 'write'\npath = 'out/x.txt'\n[node.y]\nkind = 'write'\npath = '{second}'"
        )
    };
    says(
        &nodes("in.txt", "./out/../out/x.txt"),
        &[
            "10:7: node `y` writes ./out/../out/x.txt, which node `x` writes; give it a file of its own, or connect both edges to one node",
        ],
    );
    says(
        &nodes("out/./x.txt", "y.txt"),
        &["7:7: node `x` writes out/x.txt, which node `b` reads; give it a file of its own"],
    );
    assert!(surface_flowfile::parse("x.toml", &nodes("in.txt", "y.txt")).is_ok());
}

#[test]
fn a_file_that_is_read_and_written_is_known_through_links() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("log"), "").unwrap();
    std::fs::hard_link(path("log"), path("hard")).unwrap();
    std::os::unix::fs::symlink(path("log"), path("soft")).unwrap();
    std::fs::create_dir(path("made")).unwrap();
    std::os::unix::fs::symlink(path("made"), path("other")).unwrap();
    let text = |read: &str, written: &str| {
        format!(
            "edges = ['a -> z']\n[node.a]\nkind = 'lines'\npath = '{}'\n[node.z]\nkind = 'write'\npath = '{}'",
            path(read).display(),
            path(written).display()
        )
    };
    for (read, written) in [("log", "hard"), ("log", "soft"), ("hard", "soft"), ("made/new", "other/new")] {
        let reported = problems(&text(read, written)).to_string();
        assert!(reported.contains("which node `a` reads; give it a file of its own"), "{reported}");
    }
    assert!(surface_flowfile::parse("x.toml", &text("log", "other/new")).is_ok());
}

#[test]
fn a_link_that_leads_to_no_file_yet_is_the_file_that_will_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("sub")).unwrap();
    std::os::unix::fs::symlink("../new", path("sub/link")).unwrap();
    std::os::unix::fs::symlink("sub/link", path("again")).unwrap();
    std::os::unix::fs::symlink("round", path("round")).unwrap();
    let text = |one: &str, two: &str| {
        format!(
            "edges = ['a -> y', 'a -> z']\n[node.a]\nkind = 'stdin'\n[node.y]\nkind = 'write'\npath = '{}'\n\
             [node.z]\nkind = 'write'\npath = '{}'",
            path(one).display(),
            path(two).display()
        )
    };
    for (one, two) in [("new", "sub/link"), ("sub/link", "new"), ("again", "new"), ("round", "round")] {
        let reported = problems(&text(one, two)).to_string();
        assert!(reported.contains("which node `y` writes"), "{reported}");
    }
    assert!(surface_flowfile::parse("x.toml", &text("again", "other")).is_ok());
}

#[test]
fn a_node_that_writes_the_flow_file_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.toml");
    std::os::unix::fs::symlink("own.toml", folder.path().join("link")).unwrap();
    for path in ["own.toml", "./link"] {
        let text = format!("edges = ['a -> z']\n[node.a]\nkind = 'stdin'\n[node.z]\nkind = 'write'\npath = '{path}'");
        std::fs::write(&own, &text).unwrap();
        let reported = surface_flowfile::load(&own).unwrap_err().to_string();
        assert!(reported.contains("which is the flow file itself; give it a file of its own"), "{reported}");
    }
    says(
        "edges = ['a -> z']\n[node.a]\nkind = 'stdin'\n[node.z]\nkind = 'write'\npath = 'test.toml'",
        &["4:7: node `z` writes test.toml, which is the flow file itself; give it a file of its own"],
    );
}
