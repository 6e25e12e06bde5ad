//! An active flow, and other commands that show and change it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use test_support::until_some;

use crate::flow::site;
use crate::run_site::{Site, Started, assert_code};
use crate::{complains, says, text};

/// A source that is blocked as soon as the FIFO was written: `slow` has taken one message and takes no other, and 4 wait.
const BLOCKED: &str = r#"
name = "blocked"
edges = ["slow -> signal"]
[flow]
drain = "100ms"
[node.count]
kind = "numbers"
to = 1000000
[node.slow]
kind = "throttle"
rate = 0.001
[node.signal]
kind = "command"
run = "read one; echo up > fifo; cat > /dev/null"
[[edge]]
from = "count"
to = "slow"
capacity = 4
"#;

/// Starts the flow, and waits until its source is blocked; gives its id.
fn blocked(site: &Site) -> (Started, String) {
    let fifo = site.fifo("fifo");
    let run = site.start("flow run flow.toml");
    fifo.wait();
    let flows: Value = serde_json::from_str(&says(&site.bursar("flow ps --json"))).unwrap();
    (run, flows[0]["flow"].as_str().expect("the flow is active").to_owned())
}

/// Asks again and again, a process each time, until there is an answer.
#[track_caller]
fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    until_some(Duration::from_secs(60), what, ask)
}

fn edge(site: &Site, id: &str) -> Value {
    let stats: Value = serde_json::from_str(&says(&site.bursar("flow stats --json"))).unwrap();
    let edges = stats["edges"].as_array().unwrap();
    edges.iter().find(|edge| edge["id"] == id).unwrap_or_else(|| panic!("no edge {id} in {stats:#}")).clone()
}

#[test]
fn an_active_flow_is_listed_counted_and_explained() {
    let site = site(BLOCKED);
    let (run, id) = blocked(&site);
    let ps = says(&site.bursar("flow ps"));
    assert!(ps.starts_with(&format!("{id}  blocked  ")) && ps.contains("3 nodes  2 edges"), "{ps}");
    let why = says(&site.bursar("flow why count"));
    assert_eq!(why, "count waits for room: count:out->slow:in is full (4 of 4), slow is running.\n");
    assert_eq!(says(&site.bursar(&format!("flow why {id} count,slow"))), says(&site.bursar("flow why slow")));
    let stats = says(&site.bursar("flow stats"));
    assert!(stats.contains("████████    4/4") && stats.contains("■ blocked"), "{stats}");
    let metrics = says(&site.bursar(&format!("flow stats {} --prometheus", &id[..3])));
    assert!(metrics.contains("flow_edge_depth{flow=\"blocked\",edge=\"count:out->slow:in\"} 4\n"), "{metrics}");
    run.signal(rustix::process::Signal::TERM);
    let (code, said) = run.wait();
    assert_eq!(code, Some(143), "{said}");
    assert!(said.contains("when the drain timeout expired") && said.contains("left behind"), "{said}");
    assert_eq!(complains(&site.bursar("flow ps"), 0).trim_end(), none_is_active());
    assert_eq!(complains(&site.bursar("flow why count"), 4).trim_end(), none_is_active());
}

fn none_is_active() -> &'static str {
    "bursar: no flow is active; start one with `bursar flow run FILE`"
}

#[test]
fn an_edge_is_changed_while_its_flow_runs() {
    let site = site(BLOCKED);
    let (run, id) = blocked(&site);
    let set = says(&site.bursar("flow set count,slow capacity=16 priority=high"));
    assert_eq!(set, format!("count:out->slow:in of flow {id}: capacity=16, priority=high\n"));
    let changed = edge(&site, "count:out->slow:in");
    assert_eq!((&changed["capacity"], &changed["band"]), (&16.into(), &"high".into()));
    // The source was waiting for room, and has used it by now or does so at once.
    until("16 wait", || (edge(&site, "count:out->slow:in")["depth"] == 16).then_some(()));
    says(&site.bursar(&format!("flow set {id} count:out->slow:in capacity=2")));
    let changed = edge(&site, "count:out->slow:in");
    assert_eq!((&changed["capacity"], &changed["depth"]), (&2.into(), &16.into()), "nothing is lost");
    for (words, code, part) in [
        ("count,slow capacity=16777217", 2, "use 1 to 16777216"),
        ("count,slow policy=latest", 2, "cannot be changed while the flow runs; change `policy` in the file"),
        ("count,slow capacity=0", 2, "a capacity of 0 is not possible; use 1 to "),
        ("count,slow capacity=lots", 2, "`capacity=512`"),
        ("absent capacity=3", 4, "there is no edge `absent`; there are "),
        ("count:out- capacity=3", 4, "taken its `>` for a redirection (in quotes, 'count:out->slow:in'"),
        ("slow capacity=3", 2, "2 edges match `slow`"),
        ("f-zzzz slow capacity=3", 4, "there is no active flow `f-zzzz`"),
    ] {
        let error = complains(&site.bursar(&format!("flow set {words}")), code);
        assert!(error.contains(part), "`{words}`: `{part}` is missing from:\n{error}");
    }
    let said = says(&site.bursar("flow stop --now"));
    let left = said.strip_prefix(&format!("stopped flow {id}; ")).expect(&said);
    assert!(left.ends_with(" messages were left behind\n"), "{said}");
    assert_eq!(run.wait().0, Some(130));
}

#[test]
fn a_node_is_paused_and_resumed() {
    let site = site(BLOCKED);
    let (run, id) = blocked(&site);
    assert_eq!(says(&site.bursar("flow pause count")), format!("paused count of flow {id}\n"));
    assert_eq!(says(&site.bursar("flow why count")), "count is paused; resume it.\n");
    assert_eq!(says(&site.bursar(&format!("flow resume {id} count"))), format!("resumed count of flow {id}\n"));
    assert!(says(&site.bursar("flow why count")).starts_with("count waits for room"));
    assert!(complains(&site.bursar("flow pause cuont"), 4).contains("did you mean `count`?"));
    says(&site.bursar("flow stop"));
    let (code, said) = run.wait();
    assert_eq!(code, Some(1), "messages were left when the drain timeout expired: {said}");
    for told in [
        "count was paused by another command",
        "count was resumed by another command",
        "as another command requested; delivering",
    ] {
        assert!(said.contains(told), "it prints `{told}`: {said}");
    }
}

#[test]
fn of_several_flows_one_must_be_named() {
    let (site, other) = (site(BLOCKED), "edges = ['a -> b']\n[node.a]\nkind = 'every'\ninterval = '1h'\n");
    std::fs::write(site.path("other.toml"), format!("{other}[node.b]\nkind = 'discard'\n")).unwrap();
    let (run, id) = blocked(&site);
    let mut second = site.command(["flow", "run", "other.toml"]).spawn().unwrap();
    let ids = until("two flows are active", || {
        let flows: Value = serde_json::from_str(&says(&site.bursar("flow ps --json"))).unwrap();
        let ids: Vec<String> =
            flows.as_array().unwrap().iter().map(|flow| flow["flow"].as_str().unwrap().to_owned()).collect();
        (ids.len() == 2).then_some(ids)
    });
    let error = complains(&site.bursar("flow stats"), 2);
    assert!(ids.iter().all(|id| error.contains(id)) && error.contains("name one"), "{error}");
    let other = ids.iter().find(|other| **other != id).unwrap();
    assert_eq!(says(&site.bursar(&format!("flow stop {other}"))), format!("stopped flow {other}\n"));
    assert_eq!(second.wait().unwrap().code(), Some(0));
    says(&site.bursar("flow stop --now"));
    run.wait();
}

#[test]
fn what_a_killed_flow_left_is_seen_through_and_tidied_up() {
    let site = site(BLOCKED);
    let (run, id) = blocked(&site);
    let folder = site.state_dir().join("flows").join(&id);
    assert!(folder.join("control.sock").exists());
    run.kill();
    assert_eq!(complains(&site.bursar("flow ps"), 0).trim_end(), none_is_active());
    assert!(!folder.exists(), "the socket is closed");
}

#[test]
fn nonsense_over_the_socket_is_answered_and_changes_nothing() {
    let site = site(BLOCKED);
    let (run, id) = blocked(&site);
    let socket = site.state_dir().join("flows").join(&id).join("control.sock");
    let stream = UnixStream::connect(&socket).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let mut answer = |line: &str| -> Value {
        (&stream).write_all(format!("{line}\n").as_bytes()).unwrap();
        serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
    };
    for words in [r#""do":"stats""#, r#""do":"ps","all":true"#] {
        assert_eq!(answer(&format!("{{\"v\":1,{words}}}"))["ok"]["flow"]["flow"], id, "{words}");
    }
    for name in ["what", "node", "job"] {
        let why = answer(&format!(r#"{{"v":1,"do":"why","{name}":"count"}}"#));
        assert!(why["ok"]["text"].as_str().unwrap().starts_with("count waits for room"), "{why}");
    }
    for (line, kind) in [
        ("nonsense", "bad_request"),
        (r#"{"v":1,"do":"fly"}"#, "bad_request"),
        (r#"{"v":1,"do":"set","edge":"count,slow","capacity":-1}"#, "bad_request"),
        (r#"{"v":1,"do":"set","edge":"count,slow","capacity":18446744073709551615}"#, "bad_value"),
        (r#"{"v":1,"do":"pause","node":"absent"}"#, "unknown_node"),
        // What ends a whole flow, or pauses it, does not do so for a name that it does not know.
        (r#"{"v":1,"do":"cancel","job":"slow"}"#, "bad_request"),
        (r#"{"v":1,"do":"stop","node":"slow"}"#, "bad_request"),
        (r#"{"v":1,"do":"pause"}"#, "bad_request"),
        (r#"{"v":1,"do":"retry","job":"slow"}"#, "bad_request"),
        (r#"{"v":9,"do":"stop"}"#, "wrong_version"),
    ] {
        let answer = answer(line);
        assert_eq!(answer["error"]["kind"], kind, "{line}: {answer}");
    }
    assert!(lines.next().is_none(), "a stranger is hung up on");
    assert_eq!(edge(&site, "count:out->slow:in")["capacity"], 4);
    says(&site.bursar("flow stop --now"));
    assert_eq!(run.wait().0, Some(130));
}

#[test]
fn a_flow_without_a_socket_still_runs() {
    let site = site("edges = ['a -> b']\n[node.a]\nkind = 'numbers'\nto = 3\n[node.b]\nkind = 'print'\n");
    std::fs::write(site.path("file"), "").unwrap();
    let output = site.command(["flow", "run", "flow.toml"]).env("BURSAR_STATE_DIR", site.path("file")).output();
    let output = output.unwrap();
    assert_eq!(says(&output), "1\n2\n3\n");
    let told = text(&output.stderr);
    assert!(told.contains("bursar: other commands cannot reach this flow: "), "{told}");
}

#[test]
fn why_names_a_connection_that_is_refused_and_a_peer_that_does_not_read() {
    for listens in [false, true] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let listener = listens.then_some(listener);
        let site = site(&format!(
            "edges = ['a -> z']\n[flow]\ndrain = '10ms'\n[node.a]\nkind = 'values'\nlist = ['{}']\nrepeat = 100000\n\
             [node.z]\nkind = 'tcp-out'\nconnect = '{address}'",
            "x".repeat(1000)
        ));
        let run = site.start("flow run flow.toml");
        let wanted = match listens {
            false => format!("z waits: it cannot send to {address}: Connection refused"),
            true => format!("z waits: {address} does not read what it is sent"),
        };
        until(&wanted, || text(&site.bursar("flow why z").stdout).starts_with(&wanted).then_some(()));
        run.signal(rustix::process::Signal::TERM);
        let (code, said) = run.wait();
        assert_eq!(code, Some(143), "{said}");
        let last = said.lines().last().unwrap();
        assert!(last.contains(" lost, ") && (listens || last.contains(" · 0 messages delivered, ")), "{said}");
        drop(listener);
    }
}

#[test]
fn a_sink_that_tries_again_loses_nothing_while_its_disk_is_full() {
    let value = "x".repeat(200);
    let site = site(&format!(
        "edges = ['a -> z']\n[node.a]\nkind = 'every'\ninterval = '5ms'\ncount = 30\nvalue = '{value}'\n\
         [node.z]\nkind = 'write'\npath = 'out'\nretry = {{ times = 12, first = '5ms' }}"
    ));
    // A file may have 512 bytes at first.
    let bursar = site.command([""; 0]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -S -f 1; exec \"$0\" flow run flow.toml"]).arg(bursar.get_program());
    for (name, value) in bursar.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let mut run = limited.current_dir(site.path("")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the disk is full", || {
        let stats: Value = serde_json::from_str(&text(&site.bursar("flow stats --json").stdout)).ok()?;
        let nodes = stats["nodes"].as_array()?;
        nodes.iter().any(|node| node["id"] == "z" && node["errors"].as_u64() > Some(1)).then_some(())
    });
    prlimit(Some(Pid::from_child(&run)), Resource::Fsize, Rlimit { current: None, maximum: None }).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(0));
    assert_eq!(site.lines("out"), vec![value; 30]);
}

#[test]
fn a_stop_says_how_many_messages_it_lost() {
    let site = site(
        "edges = ['a -> d -> z', 'b -> d']\n[flow]\ndrain = '50ms'\n[node.a]\nkind = 'numbers'\nto = 3\n[node.b]\nkind = 'every'\ninterval = '1h'\n\
         [node.d]\nkind = 'delay'\nby = '1h'\n[node.z]\nkind = 'print'",
    );
    let run = site.start("flow run flow.toml");
    until("the delay has all of them", || {
        let stats: Value = serde_json::from_str(&text(&site.bursar("flow stats --json").stdout)).ok()?;
        stats["nodes"].as_array()?.iter().any(|node| node["id"] == "d" && node["held"] == 3).then_some(())
    });
    let said = says(&site.bursar("flow stop"));
    assert!(said.ends_with("; 3 messages were lost\n"), "{said}");
    assert_eq!(run.wait().0, Some(1));
}

#[test]
fn events_that_cannot_be_written_for_a_program_are_shown_by_the_exit_code() {
    let site = Site::new("");
    std::fs::write(
        site.path("f.toml"),
        "edges = ['a -> z']\n[node.a]\nkind = 'numbers'\nto = 5\n[node.z]\nkind = 'write'\npath = 'o'\n",
    )
    .unwrap();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = site.command(["flow", "run", "f.toml", "--json"]).stdout(full).output().unwrap();
    assert_code(&output, 1);
    assert!(crate::text(&output.stderr).contains("not all events could be written"), "{output:?}");
    assert_eq!(site.lines("o").len(), 5);
}
