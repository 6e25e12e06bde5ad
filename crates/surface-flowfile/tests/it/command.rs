//! Programs as nodes: real processes.

use std::path::Path;
use std::time::{Duration, Instant};

use bursar::flow::{Ended, Handle};

use crate::plan;
use crate::run::{Printed, run_builder, run_plan};
use surface_flowfile::build::{Hooks, flow};

fn run(text: &str) -> (Vec<String>, Ended) {
    run_plan(&plan(text), |_: Handle| ())
}

fn errors(ended: &Ended, node: &str) -> u64 {
    ended.stats.nodes.iter().find(|known| &*known.id == node).unwrap().errors
}

fn last_error(ended: &Ended, node: &str) -> String {
    ended
        .stats
        .nodes
        .iter()
        .find(|known| &*known.id == node)
        .unwrap()
        .last_error
        .as_deref()
        .unwrap_or_default()
        .to_owned()
}

/// Whether a process runs, by its number in a file. A zombie of ours was not reaped, and counts; one of others is their business.
fn runs(file: &Path) -> bool {
    let pid = std::fs::read_to_string(file).unwrap();
    let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())) else { return false };
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned();
    !field("State:").starts_with('Z') || field("PPid:") == std::process::id().to_string()
}

/// Processes that are signalled may take a moment to end.
fn ends_soon(file: &Path) {
    let start = Instant::now();
    while runs(file) {
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "process {} is left behind",
            std::fs::read_to_string(file).unwrap()
        );
        std::thread::yield_now();
    }
}

#[test]
fn a_program_that_prints_is_a_source() {
    let (lines, ended) =
        run("edges = ['a -> z']\n[node.a]\nkind = 'command'\nrun = 'seq 1 3; printf last'\n[node.z]\nkind = 'print'");
    assert_eq!(lines, ["1", "2", "3", "last"]);
    assert_eq!(errors(&ended, "a"), 0);
    assert!(ended.drained);
}

#[test]
fn a_program_that_reads_and_prints_is_a_stage() {
    let (lines, ended) = run(
        "edges = ['a -> x -> z']\n[node.a]\nkind = 'values'\nlist = ['b', 'c', 'a']\n[node.x]\nkind = 'command'\ncommand = ['sort']\n[node.z]\nkind = 'print'",
    );
    assert_eq!(lines, ["a", "b", "c"], "it prints only when its input has ended");
    assert_eq!(errors(&ended, "x"), 0);
}

#[test]
fn a_program_that_reads_is_a_sink_with_json_variables_and_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    let mut plan = plan(
        "edges = ['a -> x']\n[node.a]\nkind = 'values'\nlist = [{ n = 1 }, 'two']\n[node.x]\nkind = 'command'\n\
         run = 'cat > $NAME'\nformat = 'json'\ncwd = 'sub'\nenv = { NAME = 'out.jsonl' }",
    );
    plan.base = folder.path().to_owned();
    let (_, ended) = run_plan(&plan, |_| ());
    assert_eq!(errors(&ended, "x"), 0);
    assert_eq!(std::fs::read_to_string(folder.path().join("sub/out.jsonl")).unwrap(), "{\"n\":1}\n\"two\"\n");
}

#[test]
fn a_sink_is_fed_although_nothing_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(
        "edges = ['a -> x']\n[node.a]\nkind = 'numbers'\nto = 50000\n[node.x]\nkind = 'command'\nrun = 'wc -l > count'",
    );
    plan.base = folder.path().to_owned();
    run_plan(&plan, |_| ());
    assert_eq!(std::fs::read_to_string(folder.path().join("count")).unwrap().trim(), "50000");
}

#[test]
fn many_lines_go_through_in_order_and_none_is_lost() {
    for workers in [1, 2] {
        let (lines, ended) = run(&format!(
            "edges = ['a -> x -> y -> w -> z']\n[flow]\nworkers = {workers}\n[node.a]\nkind = 'command'\nrun = 'seq 1 100000'\n[node.x]\nkind = 'command'\nrun = 'cat'\n\
             [node.y]\nkind = 'map'\nparse = 'number'\n[node.w]\nkind = 'window'\nsize = 1000000\n[node.z]\nkind = 'print'"
        ));
        let numbers: Vec<u32> = serde_json::from_str(&lines[0]).unwrap();
        assert!(numbers.iter().copied().eq(1..=100_000), "{workers} workers: {} numbers", numbers.len());
        assert!(ended.drained);
    }
}

#[test]
fn a_program_is_held_back_when_its_lines_are_not_taken() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(
        "edges = ['a -> t -> z']\n[flow]\ndrain = '0s'\n[node.a]\nkind = 'command'\nrun = 'i=0; while :; do i=$((i+1)); echo $i; echo $i > far; done'\n[node.t]\nkind = 'throttle'\nrate = 50\n\
         [node.z]\nkind = 'print'",
    );
    plan.edges.iter_mut().for_each(|edge| edge.capacity = 4);
    plan.base = folder.path().to_owned();
    let far =
        || std::fs::read_to_string(folder.path().join("far")).ok().and_then(|text| text.trim().parse::<u64>().ok());
    run_plan(&plan, |handle| {
        // It runs ahead until everything between is full, and then stands still.
        let (start, mut last, mut same) = (Instant::now(), 0, 0);
        while same < 20 {
            std::thread::sleep(Duration::from_millis(50));
            let now = far().unwrap_or(last);
            same = if now > 0 && now < last + 20 { same + 1 } else { 0 };
            last = now.max(last);
            assert!(start.elapsed() < Duration::from_secs(25), "it is never held back: {last}");
        }
        handle.shutdown();
    });
}

#[test]
fn a_program_that_fails_is_an_error_and_is_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let text = "edges = ['a -> z']\n[node.a]\nkind = 'command'\nrun = 'echo run >> runs; wc -l < runs; test $(wc -l < runs) -ge 3'\nrestart = 5\n[node.z]\nkind = 'print'\n";
    let mut plan = plan(text);
    plan.base = folder.path().to_owned();
    let (lines, ended) = run_plan(&plan, |_| ());
    assert_eq!(lines, ["1", "2", "3"]);
    assert_eq!(errors(&ended, "a"), 2);
    assert_eq!(last_error(&ended, "a"), "the program ended with exit code 1; restart 2 of 5");
}

#[test]
fn a_program_that_fails_too_often_ends_its_node_or_the_graph() {
    let text =
        "edges = ['a -> z']\n[node.a]\nkind = 'command'\nrun = 'echo x; exit 3'\nrestart = 1\n[node.z]\nkind = 'print'";
    let (lines, ended) = run(text);
    assert_eq!(lines, ["x", "x"]);
    assert_eq!((errors(&ended, "a"), last_error(&ended, "a").as_str()), (2, "the program ended with exit code 3"));
    let stop = text.replace("restart = 1", "on_error = 'stop'");
    let error = run_builder(flow(&plan(&stop), &Printed::default().hooks()).unwrap(), |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "node `a` stopped the graph: the program ended with exit code 3");
}

#[test]
fn a_program_that_is_not_there_is_an_error_of_its_node() {
    let (_, ended) =
        run("edges = ['a -> z']\n[node.a]\nkind = 'command'\ncommand = ['no-such-program']\n[node.z]\nkind = 'print'");
    assert!(
        last_error(&ended, "a").starts_with("`no-such-program` cannot be started: "),
        "{}",
        last_error(&ended, "a")
    );
    let (_, ended) = run(
        "edges = ['a -> x', 'x:dead -> z']\n[node.a]\nkind = 'numbers'\nto = 3\n[node.x]\nkind = 'command'\ncommand = ['no-such-program']\non_error = 'dead-letter'\n[node.z]\nkind = 'print'",
    );
    assert_eq!(errors(&ended, "x"), 1, "what does not start gets no messages");
    assert_eq!(ended.stats.failures().map(|(node, _)| node).collect::<Vec<_>>(), ["x"]);
}

#[test]
fn a_stage_whose_program_fails_reports_it_and_its_messages_are_dead_letters() {
    let (lines, ended) = run(
        "edges = ['a -> x -> z', 'x:dead -> d -> z']\n[node.a]\nkind = 'every'\ninterval = '1ms'\ncount = 300\n[node.x]\nkind = 'command'\n\
         run = 'read line; echo got $line; exit 7'\non_error = 'dead-letter'\n[node.d]\nkind = 'map'\nformat = 'dead'\n[node.z]\nkind = 'print'",
    );
    assert_eq!(lines[0], "got 0");
    assert!(lines.len() > 1 && lines[1..].iter().all(|line| line == "dead"), "{lines:?}");
    assert!(last_error(&ended, "x").contains("the program ended with exit code 7"), "{}", last_error(&ended, "x"));
}

#[test]
fn a_program_that_wants_no_more_ends_well() {
    let (lines, ended) = run(
        "edges = ['a -> x -> z']\n[node.a]\nkind = 'numbers'\nto = 200000\n[node.x]\nkind = 'command'\nrun = 'head -n 2'\n[node.z]\nkind = 'print'",
    );
    assert_eq!(lines, ["1", "2"]);
    assert_eq!(errors(&ended, "x"), 0);
}

#[test]
fn a_stage_is_started_again_and_goes_on() {
    let (lines, ended) = run(
        "edges = ['a -> x -> z']\n[node.a]\nkind = 'every'\ninterval = '2ms'\ncount = 400\n[node.x]\nkind = 'command'\n\
         run = 'read line; echo first $line; cat > /dev/null & read line; kill $!; exit 1'\nrestart = 2\n[node.z]\nkind = 'print'",
    );
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(lines[0], "first 0");
    assert!(errors(&ended, "x") >= 3, "{}", errors(&ended, "x"));
}

#[test]
fn a_line_that_is_no_json_is_an_error_and_the_others_come() {
    let (lines, ended) = run(
        "edges = ['a -> z']\n[node.a]\nkind = 'command'\nrun = 'echo 1; echo nonsense; echo [2]'\nformat = 'json'\n[node.z]\nkind = 'print'",
    );
    assert_eq!(lines, ["1", "[2]"]);
    assert_eq!(errors(&ended, "a"), 1);
}

#[test]
fn a_stop_closes_the_input_and_leaves_no_process_behind() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(
        "edges = ['clock -> x', 'x -> s']\n[flow]\ndrain = '300ms'\n[node.clock]\nkind = 'every'\ninterval = '1ms'\n[node.x]\nkind = 'command'\n\
         run = 'echo $$ > leader; sleep 1000 & echo $! > child; echo ready; cat > /dev/null; echo over > over; wait'\ngrace = '300ms'\n[node.s]\nkind = 'stop'",
    );
    plan.base = folder.path().to_owned();
    // It waits for the sleeper, so the end of its input alone does not end it.
    run_plan(&plan, |_| ());
    ends_soon(&folder.path().join("leader"));
    ends_soon(&folder.path().join("child"));
    assert_eq!(std::fs::read_to_string(folder.path().join("over")).unwrap(), "over\n", "its input was closed first");
}

#[test]
fn a_source_is_asked_to_end_and_then_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(
        "edges = ['a -> s', 'b -> s']\n[node.a]\nkind = 'command'\nrun = 'trap \"echo asked > asked; exit 0\" TERM; echo $$ > polite; echo x; while :; do sleep 0.01; done'\n\
         [node.b]\nkind = 'command'\nrun = 'trap \"\" TERM; echo $$ > stubborn; echo x; while :; do sleep 0.01; done'\ngrace = '200ms'\n\
         [node.s]\nkind = 'batcher'\nsize = 2\n[node.e]\nkind = 'stop'\n[[edge]]\nfrom = 's'\nto = 'e'",
    );
    plan.base = folder.path().to_owned();
    run_plan(&plan, |_| ());
    ends_soon(&folder.path().join("polite"));
    ends_soon(&folder.path().join("stubborn"));
    assert_eq!(std::fs::read_to_string(folder.path().join("asked")).unwrap(), "asked\n");
}

#[test]
fn what_a_program_leaves_behind_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(
        "edges = ['a -> z']\n[node.a]\nkind = 'command'\nrun = 'sleep 1000 & echo $! > child; echo done'\n[node.z]\nkind = 'print'",
    );
    plan.base = folder.path().to_owned();
    let (lines, ended) = run_plan(&plan, |_| ());
    assert_eq!(lines, ["done"]);
    assert_eq!(errors(&ended, "a"), 0);
    ends_soon(&folder.path().join("child"));
}

#[test]
fn a_process_that_leaves_the_session_and_holds_the_pipe_ends_with_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(
        "edges = ['a -> z']\n[node.a]\nkind = 'command'\nrun = 'setsid sh -c \"echo \\$\\$ > escaped; exec sleep 30\" & while ! test -s escaped; do sleep 0.01; done; echo done'\n[node.z]\nkind = 'print'",
    );
    plan.base = folder.path().to_owned();
    let start = Instant::now();
    let (lines, _) = run_plan(&plan, |_| ());
    assert_eq!(lines, ["done"]);
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(!runs(&folder.path().join("escaped")));
}

#[test]
fn a_program_that_leaves_its_session_and_ignores_term_is_gone_when_the_flow_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    // One is a source that is stopped, the other a sink whose input is closed.
    let stubborn = |name: &str, then: &str| {
        format!(
            "trap \"\" TERM HUP; setsid sh -c \"trap \\\"\\\" TERM HUP; echo \\$\\$ > {name}; while :; do sleep 0.01; done\" & \
             while ! test -s {name}; do sleep 0.01; done; {then}; while :; do sleep 0.01; done"
        )
    };
    let (source, sink) = (stubborn("source", "echo x"), stubborn("sink", "read line; echo > got"));
    let mut plan = plan(&format!(
        "edges = ['a -> b', 'a -> z']\n[flow]\ndrain = '100ms'\n[node.a]\nkind = 'command'\nrun = '''{source}'''\ngrace = '100ms'\n\
         [node.b]\nkind = 'command'\nrun = '''{sink}'''\ngrace = '100ms'\n[node.z]\nkind = 'discard'"
    ));
    plan.base = folder.path().to_owned();
    run_plan(&plan, |handle| {
        let start = Instant::now();
        while !folder.path().join("got").exists() {
            assert!(start.elapsed() < Duration::from_secs(20), "no line came through: {:#?}", handle.stats());
            std::thread::yield_now();
        }
        assert!(runs(&folder.path().join("source")) && runs(&folder.path().join("sink")));
        handle.shutdown();
    });
    assert!(!runs(&folder.path().join("source")) && !runs(&folder.path().join("sink")));
}

#[test]
fn a_program_needs_a_keeper_and_the_error_says_how_to_name_one() {
    let text = "edges = ['a -> z']\n[node.a]\nkind = 'command'\nrun = 'echo x'\n[node.z]\nkind = 'discard'";
    let ended = run_builder(flow(&plan(text), &Hooks::default()).unwrap(), |_| ()).unwrap();
    assert_eq!(
        last_error(&ended, "a"),
        "`sh` cannot be started: no keeper program is known; name one with `Hooks::keeper`"
    );
}

#[test]
fn a_program_whose_keeper_is_killed_has_failed_and_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(
        // It reads a line first: that comes after its start was reported.
        "edges = ['n -> a -> z']\n[node.n]\nkind = 'numbers'\nto = 1\n[node.a]\nkind = 'command'\n\
         run = 'read line; echo $$ > leader; setsid sleep 1000 & echo $! > child; kill -9 $PPID; wait'\n[node.z]\nkind = 'print'",
    );
    plan.base = folder.path().to_owned();
    let (_, ended) = run_plan(&plan, |_| ());
    let error = last_error(&ended, "a");
    assert!(error.starts_with("the keeper process of the program was killed"), "{error}");
    ends_soon(&folder.path().join("leader"));
    ends_soon(&folder.path().join("child"));
}

#[test]
fn lines_on_standard_error_are_reported_with_the_name_of_their_node() {
    let reported = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let to = std::sync::Arc::clone(&reported);
    let text = "edges = ['a -> z']\n[node.a]\nkind = 'command'\nrun = 'echo out; echo one >&2; printf two >&2'\n[node.z]\nkind = 'print'";
    let printed_lines = Printed::default();
    let hooks = printed_lines.hooks().stderr(move |node, line| to.lock().unwrap().push(format!("{node}: {line}")));
    run_builder(flow(&plan(text), &hooks).unwrap(), |_| ()).unwrap();
    assert_eq!(printed_lines.lines(), ["out"]);
    assert_eq!(*reported.lock().unwrap(), ["a: one", "a: two"]);
}

#[test]
fn lines_that_a_source_cannot_read_are_dead_letters() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("in.jsonl");
    std::fs::write(&file, "{\"a\":1}\nnonsense\n[2]\n").unwrap();
    let from_file = format!("kind = 'lines'\npath = '{}'", file.display());
    let from_program = format!("kind = 'command'\ncommand = ['cat', '{}']", file.display());
    for source in [from_file, from_program] {
        let text = format!(
            "edges = ['a -> z', 'a:dead -> d']\n[node.a]\n{source}\nformat = 'json'\non_error = 'dead-letter'\n[node.z]\nkind = 'print'\n\
             [node.d]\nkind = 'map'\nformat = 'bad: {{value}}: {{why}}'\n[[edge]]\nfrom = 'd'\nto = 'z'"
        );
        let (mut lines, ended) = run(&text);
        lines.sort();
        assert_eq!(lines[0], "[2]", "{source}");
        assert!(lines[1].starts_with("bad: nonsense: `nonsense` is not JSON"), "{lines:?}");
        assert_eq!((&*lines[2], lines.len()), ("{\"a\":1}", 3));
        assert_eq!(errors(&ended, "a"), 1);
    }
}

/// A graph whose program `x` waits for a line in the pipe `go`, which comes when 300 messages were given out.
fn waiting_program(folder: &Path, then: &str) -> surface_flowfile::plan::Plan {
    let go = folder.join("go");
    let made = std::process::Command::new("mkfifo").arg(&go).status().unwrap();
    assert!(made.success());
    let go = go.display();
    plan(&format!(
        "edges = ['a -> x -> z', 'a -> y']\n[node.a]\nkind = 'numbers'\nto = 300\n[node.y]\nkind = 'command'\n\
         run = 'cat > /dev/null; echo > {go}'\n[node.x]\nkind = 'command'\n{}\n[node.z]\nkind = 'print'",
        then.replace("GO", &go.to_string())
    ))
}

#[test]
fn messages_that_a_program_died_without_reading_are_lost_and_not_delivered() {
    for (end, failed) in [("exit 7", true), ("exit 0", false)] {
        let folder = tempfile::tempdir().unwrap();
        let plan = waiting_program(folder.path(), &format!("run = 'read a; read b < GO; echo got $a; {end}'"));
        let (lines, ended) = run_plan(&plan, |_: Handle| ());
        assert_eq!(lines, ["got 1"]);
        let x = ended.stats.node("x").unwrap();
        let edge = ended.stats.edge("a:out->x:in").unwrap();
        // What a program that ended well did not read it did not want.
        let (unread, none) = if failed { (x.lost, x.unwanted) } else { (x.unwanted, x.lost) };
        assert!(unread > 0 && none == 0, "{x:?}");
        assert_eq!(unread + edge.dropped + 1, 300, "{end}: one was read: {x:?} {edge:?}");
        let failure = x.failure.clone().unwrap_or_default();
        let reported = format!("the program ended with exit code 7; {} messages that it had not read are lost", x.lost);
        assert_eq!(failure, if failed { &*reported } else { "" });
    }
}

#[test]
fn a_program_that_is_started_again_gets_what_the_one_before_had_not_read() {
    let folder = tempfile::tempdir().unwrap();
    // The first reads one message and fails; the second reads the rest.
    let once = folder.path().join("once");
    let script =
        format!("if [ -e {0} ]; then cat; else read a; echo $a; read b < GO; touch {0}; exit 3; fi", once.display());
    let plan = waiting_program(folder.path(), &format!("run = '{script}'\nrestart = 1"));
    let (lines, ended) = run_plan(&plan, |_: Handle| ());
    assert_eq!(lines, (1..=300).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(ended.stats.node("x").unwrap().lost, 0);
    assert_eq!(errors(&ended, "x"), 1);
}

/// A stage whose program prints what no message can be made of, `bad` lines of it, between two good ones.
fn bad_lines(bad: usize, run: &str, node: &str, more: &str) -> (Vec<String>, Ended) {
    run_plan(
        &plan(&format!(
            "edges = ['a -> g', 'g:out -> z'{more}]\n[node.a]\nkind = 'numbers'\nto = 5\n[node.g]\nkind = 'command'\n{node}\n\
             run = '''cat > /dev/null; echo 1; for i in $(seq {bad}); do {run}; done; echo 2'''\n[node.z]\nkind = 'print'"
        )),
        |_: Handle| (),
    )
}

#[test]
fn a_stage_that_prints_many_bad_lines_in_a_row_goes_on_after_them() {
    for bad in [1, 2, 3, 4, 1_000] {
        for (run, node) in [
            (r"printf 'caf\351\n'", ""),
            ("echo '{'", "format = 'json'"),
            ("echo 0123456789", "longest_line = 5"),
            (r"printf 'caf\351\n'", "retry = { times = 2 }"),
        ] {
            let (lines, ended) = bad_lines(bad, run, node, "");
            assert_eq!(lines, ["1", "2"], "{bad} times {run}, {node}");
            assert_eq!(errors(&ended, "g"), bad as u64, "{run}, {node}");
        }
    }
}

#[test]
fn bad_lines_of_a_stage_are_dead_letters_if_it_says_so() {
    let (mut lines, ended) = bad_lines(4, r"printf 'caf\351\n'", "on_error = 'dead-letter'", ", 'g:dead -> z'");
    lines.sort();
    assert_eq!((lines.len(), errors(&ended, "g")), (6, 4), "{lines:?}");
    assert!(lines[2..].iter().all(|line| line.contains("\"value\":\"caf\u{fffd}\"")), "{lines:?}");
}

#[test]
fn the_first_bad_line_of_a_stage_stops_it_if_it_says_so() {
    let (lines, ended) = bad_lines(4, r"printf 'caf\351\n'", "on_error = 'stop-node'", "");
    assert_eq!((lines, errors(&ended, "g")), (vec!["1".to_owned()], 1));
}

#[test]
fn half_a_line_of_a_program_that_was_killed_is_an_error_and_no_message() {
    let folder = tempfile::tempdir().unwrap();
    let once = folder.path().join("once");
    let text = format!(
        "edges = ['a -> z']\n[node.a]\nkind = 'command'\nrestart = 1\nrun = '''echo amount=1; \
         if mkdir {0} 2> /dev/null; then printf amount=12; kill -9 $$; fi; printf amount=12345'''\n[node.z]\nkind = 'print'",
        once.display()
    );
    let (lines, ended) = run(&text);
    assert_eq!(lines, ["amount=1", "amount=1", "amount=12345"], "the last ended well, so its last line is whole");
    assert_eq!(errors(&ended, "a"), 2, "half a line, and the program that failed");
    let stage = text
        .replace("['a -> z']", "['n -> a -> z']")
        .replace("[node.z]", "[node.n]\nkind = 'numbers'\nto = 3\n[node.z]");
    std::fs::remove_dir(once).unwrap();
    let (lines, ended) = run(&stage);
    assert_eq!((lines.len(), errors(&ended, "a")), (3, 2), "{lines:?}");
}

#[test]
fn half_a_line_is_reported_with_its_beginning() {
    let text = "edges = ['a -> z', 'a:dead -> z']\n[node.a]\nkind = 'command'\nrun = 'printf amount=12; exit 3'\non_error = 'dead-letter'\n[node.z]\nkind = 'print'";
    let (lines, _) = run(text);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("\"value\":\"amount=12\"") && lines[0].contains("no end"), "{lines:?}");
}
