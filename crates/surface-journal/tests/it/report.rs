//! What a report shows, and that no job can write into it.

use proptest::prelude::*;
use surface_journal::report::{
    Extent, Facts, Kind, Level, Limits, Span, critical_path, extents, html, lanes, spans, usage,
};
use surface_journal::{Demand, Detail, Event, EventRow, JobRow, Journal, Moved, NewJob, NewRun, Outcome, RunId, State};

use crate::temp::{Temp, run_of};

fn moved(job: u32, state: State, offset_us: u64) -> EventRow {
    EventRow { n: 0, job, attempt: 1, state, at_ms: 0, offset_us, detail: Detail::default() }
}

fn report_of(journal: &Journal, id: &RunId, edges: &[(u32, u32)]) -> String {
    let (run, jobs, events) = (journal.run(id).unwrap(), journal.jobs(id).unwrap(), journal.events(id).unwrap());
    let limits = Limits { cpu_slots: 4, ram_mb: 1_000, vram_mb: 0 };
    html(&Facts { run: &run, jobs: &jobs, events: &events, edges, limits })
}

#[test]
fn a_job_cannot_write_into_the_page() {
    let temp = Temp::new();
    let journal = temp.journal();
    let evil = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"&";
    let job = NewJob { group: evil.into(), ..NewJob::new(evil, evil) };
    let run = journal.begin(NewRun { jobs: vec![job], file: Some(evil.into()), ..NewRun::new(evil) }).unwrap();
    let writer = journal.writer(&run).unwrap();
    let detail = Detail { how: Some(evil.into()), error: Some(evil.into()), ..Detail::default() };
    writer.record(Moved::new(0, 1, State::Running));
    writer.record(Moved::new(0, 1, State::Failed).with(detail));
    writer.finish(Outcome::Failed).unwrap();
    let page = report_of(&journal, run.id(), &[]);
    assert_eq!(page.matches("<script").count(), 2, "only our two scripts");
    assert_eq!(page.matches("</script").count(), 2);
    assert!(!page.contains("<img"));
    assert!(page.contains("&lt;img src=x onerror=&#39;alert(2)&#39;&gt;&quot;&amp;"), "the text itself is told");
    // Nothing is loaded from anywhere, and nothing may be.
    assert!(page.contains("default-src 'none'"));
    for outside in ["http://", "https://", "src=\"", "href=", "url(", "@import"] {
        assert!(!page.contains(outside), "the page mentions {outside}");
    }
}

#[test]
fn ten_thousand_jobs_stay_under_ten_megabytes() {
    let temp = Temp::new();
    let journal = temp.journal();
    let run = journal.run(journal.begin(run_of(0)).unwrap().id()).unwrap();
    let long = |what: &str| what.repeat(1_000);
    let job = JobRow {
        name: long("name"),
        group: long("group"),
        command: long("command"),
        state: State::Failed,
        detail: Detail { error: Some(long("err")), how: Some(long("how")), ..Detail::default() },
        ..job_with(10)
    };
    let jobs = vec![job; 10_000];
    let events: Vec<_> = (0..10_000_u32)
        .flat_map(|job| {
            let at = u64::from(job) * 1_000_000_000;
            [(State::Ready, 0), (State::Running, 700), (State::Failed, 9_000)]
                .map(|(state, us)| moved(job, state, at + us))
        })
        .collect();
    let edges: Vec<_> = (1..10_000).map(|job| (job - 1, job)).collect();
    let facts = Facts { run: &run, jobs: &jobs, events: &events, edges: &edges, limits: Limits::default() };
    let page = html(&facts);
    assert!(page.len() < 10 << 20, "{} bytes", page.len());
    assert!(page.contains("and 9950 more in the table"));
}

#[test]
fn a_run_in_which_nothing_happened_has_a_report() {
    let temp = Temp::new();
    let journal = temp.journal();
    for jobs in [0, 3] {
        let run = journal.begin(run_of(jobs)).unwrap();
        let page = report_of(&journal, run.id(), &[]);
        assert!(page.contains("Timeline") && !page.contains("NaN"), "{jobs} jobs");
    }
}

#[test]
fn failures_stand_before_everything_else() {
    let temp = Temp::new();
    let journal = temp.journal();
    let run = journal.begin(run_of(2)).unwrap();
    let writer = journal.writer(&run).unwrap();
    writer.record(Moved::new(1, 1, State::Running));
    let detail = Detail { error: Some("it broke".into()), ..Detail::default() };
    writer.record(Event::from(Moved::new(1, 3, State::Failed).with(detail)));
    writer.flush().unwrap();
    let page = report_of(&journal, run.id(), &[]);
    let (failure, timeline) = (page.find("<pre>it broke</pre>").unwrap(), page.find("Timeline</h2>").unwrap());
    assert!(failure < timeline && page.contains("attempt 3"));
}

#[test]
fn a_pause_splits_a_bar_and_gives_back_slots_but_not_memory() {
    let events = [
        moved(0, State::Ready, 1),
        moved(0, State::Running, 3),
        moved(0, State::Paused, 5),
        moved(0, State::Running, 8),
        moved(0, State::Succeeded, 9),
        moved(1, State::Ready, 9),
        moved(1, State::Paused, 10),
        moved(1, State::Running, 12),
    ];
    let spans = spans(&events, 20);
    let told: Vec<_> = spans.iter().map(|span| (span.job, span.kind, span.from_us, span.to_us)).collect();
    use Kind::{Paused, Running, Waiting};
    assert_eq!(
        told,
        [(0, Waiting, 1, 3), (0, Running, 3, 5), (0, Paused, 5, 8), (0, Running, 8, 9)]
            .into_iter()
            .chain([(1, Waiting, 9, 10), (1, Waiting, 10, 12), (1, Running, 12, 20)])
            .collect::<Vec<_>>()
    );
    let temp = Temp::new();
    let journal = temp.journal();
    let demand = Demand { cpu_slots: 2, ram_mb: 100, ..Demand::default() };
    let jobs = vec![NewJob { demand, ..NewJob::new("a", "a") }, NewJob::new("b", "b")];
    let run = journal.begin(NewRun { jobs, ..NewRun::new("x") }).unwrap();
    let levels = usage(&spans, &journal.jobs(run.id()).unwrap(), 100);
    let told: Vec<_> = levels.iter().map(|level| (level.at_us, level.cpu_slots, level.ram_mb)).collect();
    assert_eq!(told[..5], [(0, 0, 0), (3, 2, 100), (5, 0, 100), (8, 2, 100), (9, 0, 0)]);
}

#[test]
fn the_critical_path_goes_through_what_ended_last() {
    let ran = |from_us, to_us| Some(Extent { from_us, to_us });
    // 0 -> 1 -> 3, 0 -> 2 -> 3, 4 alone; 2 is slow, and 3 waits 5 for room. 5 never ran.
    let times = [ran(0, 10), ran(10, 20), ran(10, 50), ran(55, 60), ran(0, 58), None];
    let edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 5)];
    let path = critical_path(&times, &edges);
    let told: Vec<_> = path.iter().map(|link| (link.job, link.wait_us, link.length_us)).collect();
    assert_eq!(told, [(0, 0, 10), (2, 0, 40), (3, 5, 5)]);
    assert_eq!(critical_path(&[], &[]), []);
    assert_eq!(critical_path(&[None], &[(0, 0)]), []);
    // Edges that are nonsense end the walk; they do not hang it.
    assert!(critical_path(&[ran(0, 1), ran(0, 1)], &[(0, 1), (1, 0), (7, 9)]).len() <= 2);
}

/// Every job with its length and which of the jobs before it it needs.
fn graphs() -> impl Strategy<Value = Vec<(u64, Vec<prop::sample::Index>)>> {
    prop::collection::vec((1_u64..100, prop::collection::vec(any::<prop::sample::Index>(), 0..4)), 1..40)
}

/// When each job runs if each starts `wait` after its last dependency.
fn run_freely(graph: &[(u64, Vec<prop::sample::Index>)], wait: u64) -> (Vec<Option<Extent>>, Vec<(u32, u32)>) {
    let mut times: Vec<Option<Extent>> = Vec::new();
    let mut edges = Vec::new();
    for (job, (length, needs)) in graph.iter().enumerate() {
        let needs: Vec<usize> = needs.iter().filter(|_| job > 0).map(|need| need.index(job.max(1))).collect();
        edges.extend(needs.iter().map(|need| (*need as u32, job as u32)));
        let from_us = wait + needs.iter().filter_map(|need| times[*need]).map(|ran| ran.to_us).max().unwrap_or(0);
        times.push(Some(Extent { from_us, to_us: from_us + length }));
    }
    (times, edges)
}

proptest! {
    #[test]
    fn the_critical_path_is_as_long_as_the_run(graph in graphs(), wait in 0_u64..5) {
        let (times, edges) = run_freely(&graph, wait);
        let path = critical_path(&times, &edges);
        let end = times.iter().flatten().map(|ran| ran.to_us).max().unwrap();
        let work: u64 = path.iter().map(|link| link.length_us).sum();
        let waits: u64 = path.iter().map(|link| link.wait_us).sum();
        prop_assert_eq!(work + waits, end);
        prop_assert_eq!(waits, wait * path.len() as u64, "without waits it is the makespan");
        for pair in path.windows(2) {
            prop_assert!(edges.contains(&(pair[0].job, pair[1].job)), "{:?} is no chain", pair);
        }
    }

    #[test]
    fn jobs_in_a_lane_do_not_overlap_and_lanes_are_as_few_as_can_be(graph in graphs()) {
        let (times, _) = run_freely(&graph, 0);
        let lanes = lanes(&times);
        let ran: Vec<(Extent, u32)> = times.iter().zip(&lanes).map(|(time, lane)| (time.unwrap(), lane.unwrap())).collect();
        for (n, (one, lane)) in ran.iter().enumerate() {
            for (other, theirs) in &ran[n + 1..] {
                let apart = one.to_us <= other.from_us || other.to_us <= one.from_us;
                prop_assert!(lane != theirs || apart, "{:?} and {:?} share lane {}", one, other, lane);
            }
        }
        let at_once = |us: u64| ran.iter().filter(|(ran, _)| ran.from_us <= us && us < ran.to_us).count();
        let most = ran.iter().map(|(ran, _)| at_once(ran.from_us)).max().unwrap();
        prop_assert_eq!(ran.iter().map(|(_, lane)| *lane as usize + 1).max().unwrap(), most);
    }

    #[test]
    fn fewer_levels_never_hide_a_peak(graph in graphs(), most in 8_usize..40) {
        let (times, _) = run_freely(&graph, 0);
        let spans: Vec<Span> = (0..).zip(&times).map(|(job, time)| {
            let Extent { from_us, to_us } = time.unwrap();
            Span { job, kind: Kind::Running, from_us, to_us, then: State::Succeeded }
        }).collect();
        let jobs: Vec<JobRow> = graph.iter().map(|(length, _)| job_with(*length)).collect();
        let (exact, thin) = (usage(&spans, &jobs, usize::MAX), usage(&spans, &jobs, most));
        prop_assert!(thin.len() <= most, "{} levels of {most}", thin.len());
        prop_assert!(thin.is_sorted_by(|one, other| one.at_us < other.at_us));
        let end = exact.last().unwrap().at_us;
        // Both are steps: where one of them changes is where they could differ.
        for us in exact.iter().chain(&thin).map(|level| level.at_us) {
            prop_assert!(at(&thin, us).ram_mb >= at(&exact, us).ram_mb, "at {us}: {thin:?}\n{exact:?}");
        }
        prop_assert_eq!(at(&thin, end).ram_mb, 0);
        let peak = |levels: &[Level]| levels.iter().map(|level| level.ram_mb).max();
        prop_assert_eq!(peak(&thin), peak(&exact));
        prop_assert_eq!(extents(&spans, jobs.len()), times);
    }
}

fn at(levels: &[Level], us: u64) -> Level {
    *levels.iter().rfind(|level| level.at_us <= us).unwrap()
}

fn job_with(ram_mb: u64) -> JobRow {
    JobRow {
        job: 0,
        name: String::new(),
        group: String::new(),
        command: String::new(),
        fingerprint: 0,
        demand: Demand { cpu_slots: 1, ram_mb, ..Demand::default() },
        state: State::Succeeded,
        attempt: 1,
        ready_us: None,
        started_us: None,
        ended_us: None,
        progress: None,
        detail: Detail::default(),
    }
}
