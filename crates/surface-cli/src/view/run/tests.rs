//! Events in, lines out; and the display over a real scheduler.
//!
//! Room: tests.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sched_jobs::{Limits, State, Usage, What};
use surface_jobfile::Plan;

use super::Ended;
use super::board::{Board, Group};
use super::forecast::Forecast;
use super::frame::{FrameContext, frame};
use super::lines::{job_event, plain};
use super::watch::last_line;
use crate::view::paint::Paint;

const RENDER: &str = r#"
[job.storyboard]
run = "true"
[job.image]
foreach = { scene = "1..8" }
needs = ["storyboard"]
run = "true"
vram = "6 GB"
[job.compose]
needs = ["image"]
run = "true"
"#;

fn plan(text: &str) -> Arc<Plan> {
    Arc::new(surface_jobfile::parse("render.toml", text).unwrap())
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn limits() -> Limits {
    Limits { cpu_slots: 4, ram_mb: 8_000, vram_mb: 16_000, gpus: Vec::new(), named: Vec::new() }
}

/// A board and its forecast, fed together as the display does.
struct Fixture {
    board: Board,
    forecast: Forecast,
}

impl Fixture {
    fn new(plan: &Arc<Plan>, expected: Vec<Option<Duration>>) -> Fixture {
        Fixture { board: Board::new(plan), forecast: Forecast::new(plan.clone(), expected, &limits()) }
    }

    fn take(&mut self, at: f64, job: usize, what: What) {
        if let Some(change) = self.board.take(seconds(at), job, what) {
            self.forecast.moved(job, change.from, change.to);
        }
    }

    fn run(&mut self, job: usize, from: f64, to: f64) {
        self.take(from, job, What::Ready);
        self.take(from, job, What::Started { attempt: 1 });
        self.take(to, job, What::Succeeded);
    }

    fn frame(&mut self, now: f64, width: usize, height: usize, lacks: &[(usize, &str)]) -> Vec<String> {
        let lacks: HashMap<usize, String> = lacks.iter().map(|(group, lack)| (*group, (*lack).to_owned())).collect();
        let usage =
            Usage { running: 2, cpu_slots: 2, ram_mb: 3_100, vram_mb: 12_000, named: Vec::new(), ..Usage::default() };
        let context = FrameContext {
            run: "r-7f3a",
            limits: &limits(),
            usage: &usage,
            lacks: &lacks,
            has_vram: true,
            now: seconds(now),
            width,
            height,
            paint: Paint(false),
        };
        frame(&self.board, &mut self.forecast, &context)
    }
}

fn halfway() -> Fixture {
    let mut fixture = Fixture::new(&plan(RENDER), Vec::new());
    fixture.run(0, 0.0, 2.1);
    for image in 1..=5 {
        fixture.run(image, 2.1, 12.1);
    }
    for image in 6..=8 {
        fixture.take(12.1, image, What::Ready);
    }
    fixture.take(12.2, 6, What::Started { attempt: 1 });
    fixture.take(12.2, 7, What::Started { attempt: 1 });
    fixture
}

#[test]
fn a_frame_says_for_each_group_how_far_it_is_and_what_it_waits_for() {
    assert_eq!(
        halfway().frame(17.2, 120, 24, &[(1, "vram")]),
        [
            " storyboard  ██████████ done   2.1 s",
            " image[1..8] ███████░░░ 5/8    running 2, waiting 1 (vram)    eta ~10 s",
            " compose     ░░░░░░░░░░ waiting for image[1..8]",
            " cpu 2/4 · ram 3.1/8.0 GB · vram 12.0/16.0 GB · 6/10 done · eta ~19 s · run r-7f3a · pause: bursar pause r-7f3a",
        ]
    );
}

#[test]
fn a_run_never_ends_sooner_than_a_group_of_it() {
    // Three of 6 GB do not fit into 16 GB, though two leave 4 GB of it: the sum of demands alone would promise 15 s.
    let jobs = "[job.image]\nforeach = { n = '1..6' }\nrun = 'true'\nvram = '6 GB'\n";
    let mut fixture = Fixture::new(&plan(jobs), Vec::new());
    for job in 0..2 {
        fixture.run(job, 0.0, 10.0);
    }
    for job in 2..6 {
        fixture.take(10.0, job, What::Ready);
    }
    fixture.take(10.0, 2, What::Started { attempt: 1 });
    fixture.take(10.0, 3, What::Started { attempt: 1 });
    let lines = fixture.frame(10.0, 120, 24, &[]);
    assert!(lines[0].ends_with("eta ~20 s"), "{lines:#?}");
    assert!(lines[1].contains("· eta ~20 s ·"), "{lines:#?}");
}

#[test]
fn a_frame_says_what_failed_and_how_to_go_on() {
    let mut fixture = halfway();
    fixture.take(18.0, 6, What::Failed);
    fixture.take(18.0, 9, What::Cancelled);
    fixture.take(18.5, 7, What::Paused);
    fixture.take(18.5, 8, What::Paused);
    let lines = fixture.frame(20.0, 120, 24, &[]);
    assert_eq!(lines[1], " image[1..8] ██████░░░░ 5/8    1 failed, paused 2");
    assert_eq!(lines[2], " compose     ░░░░░░░░░░ cancelled");
    assert!(lines[3].ends_with("resume: bursar resume r-7f3a"), "{}", lines[3]);
}

#[test]
fn a_job_that_was_done_before_is_no_new_work() {
    let mut fixture = Fixture::new(&plan(RENDER), Vec::new());
    fixture.take(0.0, 0, What::Succeeded);
    assert_eq!(fixture.frame(1.0, 100, 24, &[])[0], " storyboard  ██████████ done   already");
}

#[test]
fn a_long_plan_is_folded_and_what_matters_stays() {
    let mut text = String::new();
    for job in 0..100 {
        text.push_str(&format!("[job.step-{job}]\nrun = 'true'\n"));
    }
    let mut fixture = Fixture::new(&plan(&text), Vec::new());
    for job in 0..60 {
        fixture.run(job, 0.0, 1.0);
    }
    fixture.take(1.0, 60, What::Started { attempt: 1 });
    fixture.take(2.0, 60, What::Failed);
    fixture.take(2.0, 61, What::Started { attempt: 1 });
    fixture.take(2.0, 62, What::Ready);
    assert_eq!(
        fixture.frame(3.0, 70, 6, &[]),
        [
            " step-60 ░░░░░░░░░░ failed",
            " step-61 █████████░ running 1.0 s                         eta ~1 s",
            " step-62 ░░░░░░░░░░ waiting",
            " step-63 ░░░░░░░░░░",
            " … and 96 more: 36 waiting, 60 done",
            " run r-7f3a · cpu 2/4 · ram 3.1/8.0 GB · vram 12.0/16.0 GB · 60/100 d…",
        ]
    );
}

#[test]
fn an_estimate_is_the_longest_chain_or_the_scarcest_resource() {
    let expected = |board: f64, image: f64, compose: f64| {
        let mut all = vec![Some(seconds(board))];
        all.extend([Some(seconds(image)); 8]);
        all.push(Some(seconds(compose)));
        all
    };
    let left = |expected| {
        let mut fixture = Fixture::new(&plan(RENDER), expected);
        let board = fixture.board.clone();
        fixture.forecast.left(&board, Duration::ZERO)
    };
    assert_eq!(left(Vec::new()), None, "nothing is known");
    assert_eq!(left(expected(10.0, 1.0, 10.0)), Some(seconds(21.0)), "one after the other");
    // Eight pictures of 6 GB for 10 s each, on 16 GB.
    assert_eq!(left(expected(1.0, 10.0, 1.0)), Some(seconds(30.0)), "the graphics card is busy longest");
}

#[test]
fn an_estimate_falls_as_time_goes_by_and_rises_with_a_retry() {
    let mut fixture =
        Fixture::new(&plan("[job.a]\nrun='true'\n[job.b]\nneeds=['a']\nrun='true'"), vec![Some(seconds(10.0)); 2]);
    let left = |fixture: &mut Fixture, now: f64| fixture.forecast.left(&fixture.board.clone(), seconds(now)).unwrap();
    assert_eq!(left(&mut fixture, 0.0), seconds(20.0));
    fixture.take(0.0, 0, What::Started { attempt: 1 });
    assert_eq!(left(&mut fixture, 4.0), seconds(16.0));
    assert_eq!(left(&mut fixture, 30.0), seconds(10.0), "late, it may end any moment");
    fixture.take(30.0, 0, What::Retrying { attempt: 1, after_ms: 10 });
    assert_eq!(left(&mut fixture, 30.0), seconds(20.0));
    fixture.take(31.0, 0, What::Started { attempt: 2 });
    fixture.take(41.0, 0, What::Succeeded);
    assert_eq!(left(&mut fixture, 41.0), seconds(10.0));
}

#[test]
fn plain_lines_are_what_scripts_were_promised() {
    let plan = plan(RENDER);
    let mut board = Board::new(&plan);
    let mut lines = Vec::new();
    let mut report = |at: f64, job: usize, what: What, error: Option<&str>| {
        let change = board.take(seconds(at), job, what);
        let mut event = job_event(seconds(at), board.name(job), what, change).unwrap();
        event.error = error.map(|error| error.to_owned().into());
        lines.extend(plain(&event));
        serde_json::from_str::<serde_json::Value>(&event.json()).unwrap()
    };
    report(0.0, 0, What::Ready, None);
    report(0.104, 0, What::Started { attempt: 1 }, None);
    report(2.204, 0, What::Succeeded, None);
    report(3.0, 1, What::Started { attempt: 1 }, None);
    report(4.0, 1, What::Retrying { attempt: 1, after_ms: 1_200 }, Some("exited with 3"));
    report(5.2, 1, What::Started { attempt: 2 }, None);
    let failed = report(6.45, 1, What::Failed, Some("exited with 3"));
    report(6.45, 9, What::Cancelled, Some("[3004] `image[1]`, which it needs, failed"));
    report(7.0, 2, What::Paused, None);
    assert_eq!(
        lines,
        [
            "    0.104  started   storyboard",
            "    2.204  done      storyboard: 2.1 s",
            "    3.000  started   image[1]",
            "    4.000  retrying  image[1]: attempt 1 failed: exited with 3; again in 1.2 s",
            "    5.200  started   image[1]: attempt 2",
            "    6.450  failed    image[1]: exited with 3; attempt 2, 1.2 s",
            "    6.450  cancelled compose: [3004] `image[1]`, which it needs, failed",
            "    7.000  paused    image[2]",
        ]
    );
    let expected = serde_json::json!({
        "v": 1, "at_ms": 6450, "event": "failed", "job": "image[1]", "attempt": 2, "ran_ms": 1250, "error": "exited with 3"
    });
    assert_eq!(failed, expected);
}

#[test]
fn the_last_line_says_what_to_do_next() {
    assert_eq!(last_line(Ended::Succeeded, "r-7f3a", false, 10, [10, 0, 0], seconds(41.0)), "10 jobs done in 41 s");
    let line = |ended, counts| last_line(ended, "r-7f3a", true, 10, counts, seconds(41.0));
    assert_eq!(line(Ended::Succeeded, [10, 0, 0]), "10 jobs done in 41 s · run r-7f3a · details: bursar report r-7f3a");
    assert_eq!(
        line(Ended::Failed, [7, 1, 2]),
        "1 failed, 2 cancelled, 7 done in 41 s · run r-7f3a · retry: bursar run --resume r-7f3a --retry-failed"
    );
    assert_eq!(
        line(Ended::Interrupted { late: 0 }, [4, 0, 6]),
        "interrupted after 41 s: 4 of 10 jobs done · run r-7f3a · resume: bursar run --resume r-7f3a"
    );
    assert_eq!(
        line(Ended::Interrupted { late: 2 }, [4, 0, 6]),
        "interrupted after 41 s: 6 of 10 jobs done, 2 after being asked to end · run r-7f3a · resume: bursar run --resume r-7f3a"
    );
}

#[test]
fn groups_of_numbers_in_a_row_are_named_as_a_range() {
    let text = "[job.a]\nforeach={n='3..5'}\nrun='true {n}'\n[job.b]\nforeach={os=['x','y']}\nrun='true {os}'\n[job.c]\nrun='true'";
    let board = Board::new(&plan(text));
    let labels: Vec<&str> = board.groups().iter().map(|group| group.label.as_str()).collect();
    assert_eq!(labels, ["a[3..5]", "b ×2", "c"]);
}

#[test]
fn a_hundred_thousand_jobs_cost_no_more_for_each_event() {
    let cost = |jobs: usize| {
        let text = format!("[job.a]\nforeach={{n='1..{jobs}'}}\nrun='true {{n}}'\n");
        let mut fixture = Fixture::new(&plan(&text), Vec::new());
        let began = std::time::Instant::now();
        for job in 0..jobs {
            fixture.take(job as f64, job, What::Ready);
        }
        for job in 0..jobs {
            fixture.run(job, job as f64, job as f64 + 0.5);
        }
        fixture.frame(jobs as f64, 100, 24, &[]);
        (began.elapsed().as_nanos() / jobs as u128, fixture.board.count(State::Succeeded))
    };
    let (few, _) = cost(1_000);
    let (many, done) = cost(100_000);
    assert_eq!(done, 100_000);
    // A cost that grew with the number of jobs would be a hundred times as much; caches and neighbours are allowed twenty.
    assert!(many < few.max(100) * 20, "{many} ns for each event with 100,000 jobs, {few} ns with 1,000");
}

fn whats() -> impl Strategy<Value = What> {
    prop_oneof![
        Just(What::Submitted),
        Just(What::Ready),
        (1..4_u32).prop_map(|attempt| What::Started { attempt }),
        (0.0..1.0_f32).prop_map(What::Progress),
        Just(What::Paused),
        Just(What::Resumed),
        (1..4_u32).prop_map(|attempt| What::Retrying { attempt, after_ms: 5 }),
        Just(What::Succeeded),
        Just(What::Failed),
        Just(What::Cancelled),
        Just(What::Revived),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn counts_are_the_states_whatever_happens(events in prop::collection::vec((0..12_usize, whats()), 0..200)) {
        let mut board = Board::new(&plan(RENDER));
        for (at, (job, what)) in events.into_iter().enumerate() {
            board.take(Duration::from_millis(at as u64), job, what);
            let count = |state: State| (0..10).filter(|job| board.state(*job) == state).count() as u32;
            for state in State::ALL {
                prop_assert_eq!(board.count(state), count(state));
                let groups: u32 = board.groups().iter().map(|group: &Group| group.count(state)).sum();
                prop_assert_eq!(groups, count(state));
            }
            let mut running = board.running().to_vec();
            running.sort_unstable();
            prop_assert_eq!(running, (0..10).filter(|job| board.state(*job) == State::Running).collect::<Vec<_>>());
            for (index, group) in board.groups().iter().enumerate() {
                let mut ready = group.ready.clone();
                ready.sort_unstable();
                let real = (0..10).filter(|job| board.group_of(*job) == index && board.state(*job) == State::Ready);
                prop_assert_eq!(ready, real.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_frame_is_never_larger_than_the_terminal(
        groups in 0..40_usize,
        events in prop::collection::vec((0..40_usize, whats()), 0..100),
        width in 1..200_usize,
        height in 1..50_usize,
    ) {
        let text: String = (0..groups.max(1)).map(|n| format!("[job.group-{n}]\nrun = 'true'\n")).collect();
        let mut fixture = Fixture::new(&plan(&text), vec![Some(seconds(3.0))]);
        for (at, (job, what)) in events.into_iter().enumerate() {
            fixture.take(at as f64, job, what);
        }
        let lines = fixture.frame(200.0, width, height, &[(0, "vram")]);
        prop_assert!(lines.len() <= height, "{} lines on {height}", lines.len());
        for line in lines {
            prop_assert!(console::measure_text_width(&line) <= width, "`{line}` on {width}");
        }
    }
}
