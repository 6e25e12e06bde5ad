//! Flows that are jobs, and jobs that are nodes of flows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bursar::flow::{Flow, Graph, NodeError, OnError, from_iter, jobs_for, map, sink, source, try_sink};
use bursar::jobs::{FlowJob, Job, JobError, Jobs, State, Summary};
use bursar::{Runtime, explore, sleep, unbounded, yield_now};

const SOON: Duration = Duration::from_secs(20);

/// A flow that never ends by itself and counts its messages, on so many workers.
fn endless(workers: usize, rounds: &Arc<AtomicUsize>) -> impl FnMut() -> Result<Flow, JobError> + Send + 'static {
    let rounds = rounds.clone();
    move || {
        let rounds = rounds.clone();
        let mut graph = Graph::new("endless");
        let ticks = graph.add("ticks", source(|| Some(1_u64)).tick(Duration::from_micros(100)));
        let out = graph.add("out", sink(move |_: u64| _ = rounds.fetch_add(1, SeqCst)));
        graph.connect(&ticks, &out);
        Ok(Flow::builder().register(graph).workers(workers).build()?)
    }
}

#[test]
fn cancelling_and_pausing_a_job_reach_the_flow_in_it() {
    for workers in [1, 2] {
        let rounds = Arc::new(AtomicUsize::new(0));
        let jobs = Jobs::builder().cpu_slots(2).build();
        let job = jobs.submit(Job::new("flow").flow(endless(workers, &rounds))).unwrap();
        while rounds.load(SeqCst) < 3 {
            std::thread::yield_now();
        }
        for _ in 0..3 {
            jobs.pause(job).unwrap();
            std::thread::sleep(Duration::from_millis(10)); // turns that had begun end
            let before = rounds.load(SeqCst);
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(rounds.load(SeqCst), before, "it stands still on {workers} workers");
            jobs.resume(job).unwrap();
            while rounds.load(SeqCst) == before {
                std::thread::yield_now();
            }
        }
        let asked = Instant::now();
        jobs.cancel_and_wait(job).unwrap();
        assert!(asked.elapsed() < SOON);
        assert_eq!(jobs.status(job).unwrap().state, State::Cancelled, "{workers} workers");
    }
}

#[test]
fn why_says_what_waits_in_the_flow_of_a_job() {
    let jobs = Jobs::builder().build();
    let (open, opened) = unbounded::<()>();
    jobs.submit(Job::new("import").flow(move || {
        let opened = opened.clone();
        let mut graph = Graph::new("import");
        let rows = graph.add("rows", from_iter(0..100_u64));
        let parse = graph.add("parse", map(|row: u64| row));
        let store = graph.add("store", sink(move |_: u64| _ = opened.recv()));
        graph.connect(&rows, &parse).capacity(2);
        graph.connect(&parse, &store).capacity(2);
        Flow::builder().register(graph).workers(2).build()
    }))
    .unwrap();
    let mut why = String::new();
    while !why.contains("; in it, ") {
        why = jobs.why("import").unwrap().to_string();
    }
    assert!(why.contains("room"), "{why}");
    drop(open);
    jobs.wait().unwrap();
    assert!(!jobs.why("import").unwrap().to_string().contains("in it"));
}

#[test]
fn a_flow_that_fails_fails_its_job_which_tries_again() {
    let jobs = Jobs::builder().build();
    let tries = Arc::new(AtomicUsize::new(0));
    let made = tries.clone();
    jobs.submit(Job::new("flow").retries(1).flow(move || {
        let attempt = made.fetch_add(1, SeqCst);
        let mut graph = Graph::new("flaky");
        let numbers = graph.add("numbers", from_iter(0..3_u64));
        let out = try_sink(move |_: u64| if attempt == 0 { Err(NodeError::msg("not yet")) } else { Ok(()) });
        let out = graph.add("out", out.on_error(OnError::StopGraph));
        graph.connect(&numbers, &out);
        Flow::new(graph)
    }))
    .unwrap();
    jobs.wait().unwrap();
    assert_eq!(tries.load(SeqCst), 2);
}

/// Films come, and each is rendered by jobs; one cannot be.
fn films() -> (Vec<Summary>, u64) {
    let jobs = Jobs::builder().cpu_slots(2).build();
    let mut graph = Graph::new("films");
    let films = graph.add("films", from_iter(0..4_u64));
    let render = jobs_for(&jobs, |film: u64| {
        let scene = move |_: &bursar::jobs::Ctx<'_>| {
            yield_now();
            if film == 2 { Err(JobError::msg("no film in the camera")) } else { Ok(()) }
        };
        let scenes = (0..2).map(move |i| Job::new(format!("{film}/{i}")).run(scene));
        scenes.chain([Job::new(format!("{film}/cut")).needs_all((0..2).map(|i| format!("{film}/{i}"))).run(|_| ())])
    });
    let render = graph.add("render", render.on_error(OnError::Skip));
    let (tx, rx) = unbounded();
    let out = graph.add("out", sink(move |done: Summary| tx.send(done).unwrap()));
    graph.connect(&films, &render);
    graph.connect(&render, &out);
    let ended = Flow::builder().register(graph).workers(2).build().unwrap().run().unwrap();
    let errors = ended.stats.node("render").unwrap().errors;
    (rx.iter().collect(), errors)
}

#[test]
fn jobs_are_a_node_of_a_flow_also_where_a_seed_decides() {
    let check = || {
        let (done, errors) = films();
        assert_eq!(done.iter().map(|summary| summary.succeeded).collect::<Vec<_>>(), [3, 3, 3]);
        assert_eq!(errors, 1);
    };
    check();
    explore(0..20, check);
}

#[test]
fn a_node_that_is_cancelled_cancels_its_jobs() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let jobs = runtime
        .run(|| {
            let jobs = Jobs::builder().cpu_slots(2).build();
            let mut graph = Graph::new("slow");
            let films = graph.add("films", from_iter(0..1_u64));
            let render = jobs_for(&jobs, |_: u64| [Job::new("slow").run(|_| sleep(Duration::from_secs(3600)))]);
            let render = graph.add("render", render);
            let out = graph.add("out", sink(|_: Summary| ()));
            graph.connect(&films, &render);
            graph.connect(&render, &out);
            let flow = Flow::builder().register(graph).workers(2).build().unwrap();
            let cancelled = bursar::nursery(|n| {
                n.spawn(move || flow.run().map(drop).map_err(|error| error.to_string()));
                while !jobs.status("slow").is_ok_and(|status| status.state == State::Running) {
                    yield_now();
                }
                n.cancel();
                Ok(())
            });
            assert!(cancelled.is_err());
            jobs
        })
        .unwrap();
    let _ = jobs.wait_timeout(SOON).expect("its job was cancelled, too");
    assert_eq!(jobs.status("slow").unwrap().state, State::Cancelled);
}
