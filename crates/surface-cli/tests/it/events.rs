//! What `--json` prints of a run and of a flow is what `docs/events.md` says, and nothing else.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::flow;
use crate::run_site::{Site, assert_code};
use crate::{json_lines, text};

const PAGE: &str = include_str!("../../../../docs/events.md");

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// By the name of an event, the fields that the page gives it.
fn fields() -> HashMap<&'static str, HashSet<&'static str>> {
    let mut fields: HashMap<&str, HashSet<&str>> = HashMap::new();
    for row in PAGE.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').collect();
        for event in in_backticks(cells[1]) {
            fields.entry(event).or_default().extend(in_backticks(cells[3]));
        }
    }
    fields
}

/// Every event has the envelope, with this `id`, and no field that the page does not name.
#[track_caller]
fn are_as_the_page_says(events: &[Value], of: &str, id: &str) {
    let fields = fields();
    for event in events {
        let name = event["event"].as_str().unwrap_or_default();
        let known = fields.get(name).unwrap_or_else(|| panic!("the page has no `{name}`: {event}"));
        assert!(event["v"] == 1 && event["at_ms"].is_u64() && event[of] == id, "{event}");
        for field in event.as_object().unwrap().keys() {
            let is_known = ["v", "at_ms", "event", of].contains(&field.as_str()) || known.contains(field.as_str());
            assert!(is_known, "`{field}` of `{name}` is not on the page: {event}");
        }
    }
}

#[test]
fn every_event_of_a_run_names_the_run_and_has_the_fields_of_the_page() {
    let site = Site::new(
        "[job.good]\nrun = 'true'\n[job.bad]\nneeds = ['good']\nretries = 1\nbackoff = '1ms'\nrun = 'exit 3'\n\
         [job.last]\nneeds = ['bad']\nrun = 'true'\n",
    );
    let output = site.bursar("run jobs.toml --json");
    assert_code(&output, 1);
    let events = json_lines(&text(&output.stdout));
    are_as_the_page_says(&events, "run", site.newest().id.as_str());
    for name in ["run_started", "started", "succeeded", "retrying", "failed", "cancelled", "run_ended"] {
        assert!(events.iter().any(|event| event["event"] == name), "{name}: {events:#?}");
    }
}

#[test]
fn every_event_of_a_flow_names_the_flow_and_has_the_fields_of_the_page() {
    let site = flow::site(
        "edges = ['texts -> read -> show']\n[node.texts]\nkind = 'values'\nlist = ['1', 'x', '2']\n\
         [node.read]\nkind = 'json'\n[node.show]\nkind = 'print'\n",
    );
    let output = site.bursar("flow run flow.toml --json");
    assert_code(&output, 0);
    let events = json_lines(&text(&output.stdout));
    are_as_the_page_says(&events, "flow", events[0]["flow"].as_str().unwrap());
    for name in ["flow_started", "printed", "failed", "flow_ended"] {
        assert!(events.iter().any(|event| event["event"] == name), "{name}: {events:#?}");
    }
}

#[test]
fn a_message_for_people_is_an_event_for_programs() {
    let site = Site::new("[job.long]\nrun = 'echo up > fifo; exec sleep 600'\n");
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml --json");
    fifo.wait();
    run.signal(Signal::INT);
    let (code, said) = run.wait();
    assert_eq!(code, Some(130), "{said}");
    let events = json_lines(&said);
    are_as_the_page_says(&events, "run", site.newest().id.as_str());
    let told = events.iter().find(|event| event["event"] == "said").expect("they are told");
    assert!(told["text"].as_str().unwrap().contains("Ctrl-C again kills them now"), "{told}");
}

#[test]
fn a_reader_of_events_that_does_not_read_holds_up_no_interruption() {
    // More events than a pipe holds have happened when `long` starts.
    let site = Site::new(
        "[job.many]\nforeach = { n = '1..300' }\nrun = 'true'\n\
         [job.long]\nneeds = ['many']\nrun = \"trap 'echo asked > asked; exit 1' TERM; echo up > fifo; while :; do sleep 0.05; done\"\n",
    );
    let (fifo, asked) = (site.fifo("fifo"), site.fifo("asked"));
    let mut command = site.command(["run", "jobs.toml", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    fifo.wait();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(asked.wait(), "asked");
    let mut events = String::new();
    child.stdout.take().unwrap().read_to_string(&mut events).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let events = json_lines(&events);
    are_as_the_page_says(&events, "run", site.newest().id.as_str());
    assert!(events.iter().any(|event| event["event"] == "said"), "{:#?}", events.last());
}
