//! An active run, and other commands that show and change it.

use std::io::{BufRead, BufReader, Read};

use surface_journal::{Filter, State, Status};

use crate::run_site::{Site, assert_code, is_alive};
use crate::{complains, says, text};

/// One job runs until it is let go; the others wait for it, or for its CPU.
const WAITING: &str = r#"
[resources]
cpu = 1
[job.first]
priority = 10
run = "echo hello; echo up > fifo; read go < gate; echo bye"
[job.second]
run = "echo second"
[job.third]
needs = ["first"]
run = "true"
"#;

#[test]
fn an_active_run_is_listed_and_explained() {
    let site = Site::new(WAITING);
    let (fifo, gate) = (site.fifo("fifo"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    let id = site.newest().id;
    let ps = says(&site.bursar("ps"));
    let lines: Vec<&str> = ps.lines().collect();
    assert!(lines[0].starts_with(&format!("{id}  jobs  running for ")) && lines[0].contains("0/3 done"), "{ps}");
    assert_eq!(lines[1..], ["  first   running", "  second  ready", "  third   queued"]);
    assert_eq!(says(&site.bursar("why third")), "third waits for first (running).\n");
    let why = says(&site.bursar("why second"));
    assert!(why.starts_with("second waits for CPU slots: needs 1, 0 free of 1. Held by first (1"), "{why}");
    let json: serde_json::Value = serde_json::from_str(&says(&site.bursar("ps --json"))).unwrap();
    assert_eq!(json[0]["id"], id.as_str());
    assert_eq!(json[0]["live"]["jobs"][0]["name"], "first");
    assert_eq!(says(&site.bursar("logs first")), "hello\n");
    assert!(complains(&site.bursar("logs second"), 0).contains("has not started yet"));
    gate.answer();
    let (code, said) = run.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(complains(&site.bursar("ps"), 0).contains("no run is active"));
}

#[test]
fn a_run_is_paused_and_resumed() {
    let site = Site::new(WAITING);
    let (fifo, gate) = (site.fifo("fifo"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    let id = site.newest().id;
    assert_eq!(says(&site.bursar("pause")), format!("paused run {id}\n"));
    let states: serde_json::Value = serde_json::from_str(&says(&site.bursar("ps --json"))).unwrap();
    assert_eq!(states[0]["live"]["counts"]["paused"], 3, "the answer came when all stood still: {states}");
    assert_eq!(says(&site.bursar("why first")), "first is paused (it was running); resume it to continue.\n");
    assert_eq!(says(&site.bursar(&format!("resume {id}"))), format!("resumed run {id}\n"));
    assert_eq!(says(&site.bursar("pause second")), format!("paused second of run {id}\n"));
    assert!(complains(&site.bursar("resume first"), 1).contains("only paused jobs can be resumed"));
    assert_eq!(says(&site.bursar(&format!("resume {id} second"))), format!("resumed second of run {id}\n"));
    gate.answer();
    assert_eq!(run.wait().0, Some(0));
    assert_eq!(site.newest().status, Status::Succeeded);
}

#[test]
fn a_cancelled_job_takes_what_needs_it_along_and_leaves_the_rest() {
    let site = Site::new(WAITING);
    let (fifo, _gate) = (site.fifo("fifo"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    let id = site.newest().id;
    assert_eq!(says(&site.bursar("cancel first")), format!("cancelled first of run {id}\n"));
    assert_eq!(run.wait().0, Some(1));
    let states = site.states().into_iter().map(|(_, state)| state);
    assert_eq!(states.collect::<Vec<_>>(), [State::Cancelled, State::Succeeded, State::Cancelled]);
    let why = says(&site.bursar("why third"));
    assert!(
        why.contains("it was cancelled: [3004] `first`, which it needs, was cancelled")
            && why.ends_with("--retry-failed`.\n"),
        "{why}"
    );
}

#[test]
fn a_job_that_does_not_want_to_end_is_gone_when_cancel_returns() {
    let site = Site::new(
        r#"
        [job.stubborn]
        grace = "10m"
        run = "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > fifo; while :; do sleep 0.05; done'"
        "#,
    );
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml");
    let pid = fifo.wait();
    assert!(is_alive(&pid));
    says(&site.bursar("cancel stubborn --now"));
    assert!(!is_alive(&pid), "process {pid} outlived its cancel");
    assert_eq!(run.wait().0, Some(1));
}

#[test]
fn a_failed_job_is_retried_while_the_run_is_active() {
    let site = Site::new(
        r#"
        [resources]
        cpu = 2
        [job.keeps]
        run = "read go < gate"
        [job.fails]
        run = "echo tried > fifo; test -e fixed"
        [job.after]
        needs = ["fails"]
        run = "true"
        "#,
    );
    let (fifo, gate) = (site.fifo("fifo"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    let id = site.newest().id;
    // The job wrote to the FIFO before it failed; once a retry is accepted, it had failed.
    std::fs::write(site.path("fixed"), "").unwrap();
    let retry = loop {
        let retry = site.bursar("retry fails");
        if retry.status.success() || site.job("fails").state == State::Succeeded {
            break retry;
        }
    };
    if retry.status.success() {
        assert_eq!(text(&retry.stdout), format!("retrying fails of run {id}\n"));
        fifo.wait();
    }
    gate.answer();
    assert_eq!(run.wait().0, Some(0));
    assert!(site.states().iter().all(|(_, state)| *state == State::Succeeded), "{:?}", site.states());
}

#[test]
fn a_name_that_several_runs_have_is_no_name() {
    let site = Site::new("[job.a]\nrun = 'true'");
    let runs = ["a", "b"].map(|name| {
        let (fifo, gate) = (site.fifo(&format!("fifo-{name}")), site.fifo(&format!("gate-{name}")));
        let line = format!("echo up > fifo-{name}; read go < gate-{name}");
        let child = site.command(["run", "--name", "same", "--", "sh", "-c", &line]).spawn().unwrap();
        fifo.wait();
        (child, gate)
    });
    let live: Vec<String> = site
        .journal()
        .runs(Filter { live: true, ..Filter::default() })
        .unwrap()
        .iter()
        .map(|run| run.id.to_string())
        .collect();
    assert_eq!(live.len(), 2);
    for words in ["pause same", "cancel same", "pause"] {
        let error = complains(&site.bursar(words), 2);
        assert!(live.iter().all(|id| error.contains(id)), "`{words}`: {error}");
    }
    // To look, the newest will do.
    assert!(says(&site.bursar("why same")).starts_with("same does not wait: it has been running for"));
    assert_eq!(says(&site.bursar(&format!("pause {} same", live[1]))), format!("paused same of run {}\n", live[1]));
    assert_eq!(says(&site.bursar(&format!("resume {}", live[1]))), format!("resumed run {}\n", live[1]));
    for (run, gate) in runs {
        gate.answer();
        assert_code(&run.wait_with_output().unwrap(), 0);
    }
}

#[test]
fn a_log_is_followed_until_its_job_has_ended() {
    let site = Site::new(
        r#"
        [job.talks]
        run = "echo one; echo up > fifo; read go < gate; echo two"
        "#,
    );
    let (fifo, gate) = (site.fifo("fifo"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    let mut follow = site.command(["logs", "-f", "talks"]).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "one\n");
    gate.answer();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "two\n");
    assert_eq!(follow.wait().unwrap().code(), Some(0));
    assert_eq!(run.wait().0, Some(0));
}

#[test]
fn what_a_killed_run_left_is_seen_through_and_tidied_up() {
    let site = Site::new(WAITING);
    let (fifo, gate) = (site.fifo("fifo"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    let id = site.newest().id;
    let socket = site.journal().folder(&id).join("control.sock");
    assert!(socket.exists());
    run.kill();
    assert!(says(&site.bursar("ps")).contains("interrupted, but its jobs still run: "));
    assert!(!socket.exists(), "there is no listener any more");
    let error = complains(&site.bursar(&format!("pause {id}")), 1);
    assert!(error.contains("is not active (interrupted); resume it with `bursar run --resume"), "{error}");
    let why = says(&site.bursar("why third"));
    assert!(why.starts_with("third waits for the run, which was interrupted while the job was queued."), "{why}");
    gate.answer(); // its job is still there
    assert_code(&site.bursar("run --resume"), 0);
}

#[test]
fn a_job_that_has_ended_is_not_called_cancelled() {
    let site =
        Site::new("[job.quick]\nrun = 'true'\n[job.slow]\nneeds = ['quick']\nrun = 'echo up > up; exec sleep 600'\n");
    let up = site.fifo("up");
    let run = site.start("run jobs.toml");
    up.wait();
    let output = site.bursar("cancel quick");
    assert_code(&output, 1);
    let said = text(&output.stderr);
    assert!(said.contains("quick has ended already: it succeeded"), "{said}");
    assert_code(&site.bursar("cancel slow"), 0);
    run.wait();
}
