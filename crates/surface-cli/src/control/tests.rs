//! A run and its clients, friendly and hostile, over a real socket.
//!
//! Room: tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use sched_jobs::{Ctx, Job, JobError, Jobs, State};
use tempfile::TempDir;

use super::controller::SUBSCRIBERS;
use super::server::CLIENTS;
use super::socket::{connect, listen, remove_stale, socket_path};
use super::wire::REQUEST_BYTES_MAX;
use super::{AskError, Client, Request, Runner, ServerHandle, Target, Unanswered, serve};

/// A run with one job `long`, which runs until it is released or cancelled, `next`, which needs it, and `bad`, which failed.
struct Run {
    served: Option<ServerHandle>,
    jobs: Jobs,
    folder: TempDir,
    let_go: Sender<()>,
}

/// Reaches checkpoints until it may end.
fn until_let_go(ctx: &Ctx<'_>, let_go: &Mutex<std::sync::mpsc::Receiver<()>>) -> Result<(), JobError> {
    loop {
        ctx.progress(0.5)?;
        let let_go = let_go.lock().unwrap();
        if let_go.recv_timeout(std::time::Duration::from_millis(1)).is_ok() {
            return Ok(());
        }
    }
}

fn a_run() -> Run {
    a_run_with(Arc::new(()))
}

fn a_run_with(runner: Arc<dyn Runner>) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let jobs = Jobs::builder().cpu_slots(2).build();
    let (let_go, wait) = channel();
    let wait = Mutex::new(wait);
    let served = serve(folder.path(), "r-test", jobs.clone(), runner).unwrap();
    let mut events = jobs.events();
    jobs.submit(Job::new("long").run(move |ctx| until_let_go(ctx, &wait))).unwrap();
    jobs.submit(Job::new("next").needs("long").run(|_| ())).unwrap();
    let tried = AtomicU32::new(0);
    let second_time_lucky = move |_: &Ctx<'_>| match tried.fetch_add(1, SeqCst) {
        0 => Err(JobError::msg("exited with 3")),
        _ => Ok(()),
    };
    jobs.submit(Job::new("bad").run(second_time_lucky)).unwrap();
    let (mut is_started, mut has_failed) = (false, false);
    while !(is_started && has_failed) {
        let event = events.recv().unwrap();
        is_started |= event.job.index() == 0 && matches!(event.what, sched_jobs::What::Started { .. });
        has_failed |= event.what == sched_jobs::What::Failed;
    }
    Run { served: Some(served), jobs, folder, let_go }
}

impl Run {
    fn client(&self) -> Client {
        Client::connect(self.folder.path(), "run r-test").unwrap().expect("the run is there")
    }

    fn raw(&self) -> UnixStream {
        connect(&socket_path(self.folder.path())).unwrap().expect("the run is there")
    }

    fn is_well(&self) {
        assert_eq!(self.client().ask(status("long")).unwrap().job.unwrap().state, "running");
    }
}

fn status(job: &str) -> Request {
    Request::Status { job: job.into() }
}

fn of(job: &str) -> Target {
    Target { job: Some(job.into()), subtree: false }
}

fn refusal(result: Result<impl std::fmt::Debug, AskError>) -> (String, String) {
    match result.expect_err("it cannot be granted").why {
        Unanswered::Refused(refusal) => (refusal.kind, refusal.message),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_client_sees_what_runs_and_why_the_rest_waits() {
    let run = a_run();
    let mut client = run.client();
    let line = client.ask(Request::Ps { all: false, limit: None }).unwrap().run.unwrap();
    let jobs: Vec<(&str, &str)> = line.jobs.iter().map(|job| (job.name.as_str(), job.state.as_str())).collect();
    assert_eq!(jobs, [("long", "running"), ("next", "queued")], "what runs comes first, and what ended is left out");
    assert_eq!((line.run.as_str(), line.pid, line.cpu_slots), ("r-test", std::process::id(), 1));
    assert_eq!((line.counts["running"], line.counts["queued"], line.counts["failed"]), (1, 1, 1));
    let all = client.ask(Request::Ps { all: true, limit: Some(2) }).unwrap().run.unwrap();
    assert_eq!((all.jobs.len(), all.more), (2, 1));
    let why = client.ask(Request::Why { job: "next".into() }).unwrap();
    assert_eq!(why.text.as_deref(), Some("next waits for long (running)"));
    let bad = client.ask(status("bad")).unwrap().job.unwrap();
    assert_eq!((bad.state.as_str(), bad.attempts, bad.error.as_deref()), ("failed", 1, Some("exited with 3")));
    let unknown = refusal(client.ask(Request::Why { job: "unknown".into() }));
    assert_eq!(unknown, ("unknown_job".into(), "there is no job `unknown`".into()));
}

#[test]
fn a_client_pauses_resumes_and_retries() {
    #[derive(Default)]
    struct Paused(AtomicBool);
    impl Runner for Paused {
        fn run_paused(&self, paused: bool) {
            self.0.store(paused, SeqCst);
        }
    }
    let paused = Arc::new(Paused::default());
    let run = a_run_with(paused.clone());
    let mut client = run.client();
    client.ask(Request::Pause(of("long"))).unwrap();
    assert_eq!(run.jobs.status("long").unwrap().state, State::Paused, "the answer comes when it is paused");
    assert!(!paused.0.load(SeqCst), "one job is not the run");
    client.ask(Request::Resume(of("long"))).unwrap();
    client.ask(Request::Pause(Target::default())).unwrap();
    assert_eq!(run.jobs.status("next").unwrap().state, State::Paused);
    assert!(paused.0.load(SeqCst));
    client.ask(Request::Resume(Target::default())).unwrap();
    assert!(!paused.0.load(SeqCst));
    assert_eq!(refusal(client.ask(Request::Retry { job: "next".into() })).0, "not_now");
    client.ask(Request::Retry { job: "bad".into() }).unwrap();
    run.let_go.send(()).unwrap();
    assert_eq!(run.jobs.wait().unwrap().succeeded, 3);
}

#[test]
fn a_cancel_is_answered_when_it_is_really_over() {
    #[derive(Default)]
    struct SkipsGrace(AtomicBool);
    impl Runner for SkipsGrace {
        fn skip_grace(&self) {
            self.0.store(true, SeqCst);
        }
    }
    let skips_grace = Arc::new(SkipsGrace::default());
    let run = a_run_with(skips_grace.clone());
    let (kind, message) = refusal(run.client().ask(Request::Cancel { target: of("bad"), now: false }));
    assert_eq!((kind.as_str(), message.as_str()), ("not_now", "bad has ended already: it failed"));
    assert!(!skips_grace.0.load(SeqCst));
    run.client().ask(Request::Cancel { target: of("long"), now: true }).unwrap();
    assert!(skips_grace.0.load(SeqCst));
    assert_eq!(run.jobs.status("long").unwrap().state, State::Cancelled);
    assert_eq!(run.jobs.status("next").unwrap().state, State::Cancelled, "what needs it goes with it");
}

#[test]
fn a_subscriber_hears_every_event_until_the_run_is_over() {
    let mut run = a_run();
    let mut client = run.client();
    client.ask(Request::Subscribe).unwrap();
    run.let_go.send(()).unwrap();
    let mut heard = Vec::new();
    while let Some(event) = client.event() {
        assert_eq!((&event["v"], &event["run"]), (&1.into(), &"r-test".into()), "{event}");
        let of = |name: &str| event[name].as_str().unwrap_or("?").to_owned();
        if of("event") != "progress" {
            heard.push(format!("{} {}", of("job"), of("event")));
        }
        if heard.last().is_some_and(|last| last == "next succeeded") {
            run.served = None;
        }
    }
    assert_eq!(heard, ["long succeeded", "next ready", "next started", "next succeeded"]);
}

#[test]
fn a_client_gets_the_answer_to_the_request_that_ended_the_run() {
    for _ in 0..20 {
        let mut run = a_run();
        let mut client = run.client();
        let asking = std::thread::spawn(move || client.ask(Request::Cancel { target: Target::default(), now: false }));
        run.jobs.wait().unwrap_err();
        run.served = None;
        // It was asked before the end, or never.
        asking.join().unwrap().unwrap();
    }
}

#[test]
fn garbage_is_answered_and_the_connection_stays_open() {
    let run = a_run();
    let mut stream = run.raw();
    let mut replies = BufReader::new(stream.try_clone().unwrap()).lines();
    stream.write_all(b"\xff\xfe\x00 nonsense\n[]\n{\"v\":1,\"do\":\"prometheus\"}\n").unwrap();
    stream.write_all(b"{\"v\":1,\"do\":\"status\",\"job\":\"long\"}\n").unwrap();
    for kind in ["bad_request", "bad_request", "a run does not take this request"] {
        let reply = replies.next().unwrap().unwrap();
        assert!(reply.contains(kind), "{reply}");
    }
    let reply = replies.next().unwrap().unwrap();
    assert!(reply.contains("\"running\""), "{reply}");
    stream.write_all(b"{\"v\":7,\"do\":\"status\",\"job\":\"long\"}\n").unwrap();
    let reply = replies.next().unwrap().unwrap();
    assert!(reply.contains("speaks version 1, but the request has 7"), "{reply}");
    assert!(replies.next().is_none(), "a client with another version is disconnected");
    run.is_well();
}

#[test]
fn a_line_without_an_end_is_cut_off() {
    let run = a_run();
    let mut stream = run.raw();
    // The other side may close the connection while this is still being written.
    let _ = stream.write_all(&vec![b'x'; 4 * REQUEST_BYTES_MAX]);
    let mut reply = String::new();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    // Closed with unread bytes, the connection is reset; the reply comes before that, or is lost.
    match BufReader::new(&stream).read_line(&mut reply) {
        Ok(0) => {}
        Ok(_) => assert!(reply.contains("65536 bytes"), "{reply}"),
        Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "the connection was not closed"),
    }
    run.is_well();
}

#[test]
fn clients_that_never_read_do_not_delay_the_run() {
    let run = a_run();
    let names: Vec<String> = (0..20_000).map(|n| format!("waiting-for-long-{n}")).collect();
    run.jobs.submit_all(names.iter().map(|name| Job::new(name.as_str()).needs("long").run(|_| ()))).unwrap();
    let mut deaf = Vec::new();
    for client in 0..4 {
        let mut stream = run.raw();
        let what =
            if client % 2 == 0 { "{\"v\":1,\"do\":\"ps\",\"all\":true}\n" } else { "{\"v\":1,\"do\":\"subscribe\"}\n" };
        stream.write_all(what.repeat(50).as_bytes()).unwrap();
        deaf.push(stream);
    }
    run.is_well();
    run.let_go.send(()).unwrap();
    run.jobs.wait().unwrap_err(); // `bad` failed
    assert_eq!(run.jobs.status("waiting-for-long-19999").unwrap().state, State::Succeeded);
    drop(run); // and dropping the socket does not wait for them either
}

#[test]
fn one_client_too_many_is_refused() {
    let run = a_run();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| run.client()).collect();
    for client in &mut clients {
        client.ask(status("long")).unwrap();
    }
    let mut reply = String::new();
    run.raw().read_to_string(&mut reply).unwrap();
    assert!(reply.contains("32 clients are connected"), "{reply}");
    drop(clients);
    // Their connections are free as soon as their threads have seen it.
    while run.client().ask(status("long")).is_err() {
        std::thread::yield_now();
    }
    let mut listeners: Vec<Client> = (0..SUBSCRIBERS).map(|_| run.client()).collect();
    for listener in &mut listeners {
        listener.ask(Request::Subscribe).unwrap();
    }
    assert_eq!(refusal(run.client().ask(Request::Subscribe)).0, "busy");
}

#[test]
fn a_socket_is_for_its_owner_only_and_goes_with_the_run() {
    let mut run = a_run();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(run.folder.path()), 0o700);
    assert_eq!(mode(&socket_path(run.folder.path())), 0o600);
    let mut client = run.client();
    client.ask(status("long")).unwrap();
    run.served = None;
    assert!(!socket_path(run.folder.path()).exists());
    assert!(Client::connect(run.folder.path(), "run").unwrap().is_none());
    assert!(matches!(client.ask(status("long")), Err(AskError { why: Unanswered::Gone, .. })));
}

#[test]
fn a_folder_that_others_may_enter_is_closed_to_them() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let _listener = listen(folder.path()).unwrap();
    assert_eq!(std::fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_socket_that_a_dead_run_left_is_replaced_and_a_living_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    drop(UnixListener::bind(socket_path(folder.path())).unwrap());
    assert!(Client::connect(folder.path(), "run").unwrap().is_none(), "no process listens");
    assert!(remove_stale(folder.path()).unwrap());
    assert!(!socket_path(folder.path()).exists());
    drop(UnixListener::bind(socket_path(folder.path())).unwrap());
    let living = serve(folder.path(), "r-test", Jobs::builder().build(), Arc::new(())).unwrap();
    assert!(!remove_stale(folder.path()).unwrap(), "it is in use");
    let second = listen(folder.path()).unwrap_err();
    assert!(second.to_string().contains("in use by another process"), "{second}");
    drop(living);
    std::fs::write(socket_path(folder.path()), "precious").unwrap();
    let file = listen(folder.path()).unwrap_err();
    assert!(file.to_string().contains("is not a socket; move it away"), "{file}");
    assert_eq!(std::fs::read_to_string(socket_path(folder.path())).unwrap(), "precious");
}

#[test]
fn a_path_that_is_longer_than_an_address_works_all_the_same() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&folder).unwrap();
    let served = serve(&folder, "r-deep", Jobs::builder().build(), Arc::new(())).unwrap();
    assert!(socket_path(&folder).exists());
    let line =
        Client::connect(&folder, "run").unwrap().unwrap().ask(Request::Ps { all: true, limit: None }).unwrap().run;
    assert_eq!(line.unwrap().run, "r-deep");
    assert!(!remove_stale(&folder).unwrap());
    drop(served);
    assert!(!socket_path(&folder).exists());
}
