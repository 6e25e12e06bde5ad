//! Writes the report of a made-up film, to look at: `cargo run --example report -- 60 > film.html`.
//!
//! Nothing runs: a small simulation with a fixed seed says when each job would.

use std::collections::BTreeMap;

use surface_journal::report::{self, Facts, Limits};
use surface_journal::{Demand, Detail, Event, JobRow, Journal, JournalError, Moved, NewJob, NewRun, Outcome, State};

const LIMITS: Limits = Limits { cpu_slots: 8, ram_mb: 16_384, vram_mb: 24_576 };

struct Job {
    new: NewJob,
    needs: Vec<usize>,
    length_ms: u64,
    fails: u32,
}

/// Storyboard, then images, each drawn and enlarged, then scenes, sound, and the film.
fn film(images: usize) -> Vec<Job> {
    let mut seed = 42_u64;
    let mut between = |low: u64, high: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (seed >> 33) % (high - low)
    };
    let mut jobs: Vec<Job> = Vec::new();
    let mut add =
        |name: String, group: &str, command: String, demand: (u32, u64, u64), needs: Vec<usize>, ms, fails| {
            let (cpu_slots, ram_mb, vram_mb) = demand;
            let demand = Demand { cpu_slots, ram_mb, vram_mb, named: BTreeMap::new() };
            let new = NewJob { group: group.into(), fingerprint: 7, demand, ..NewJob::new(name, command) };
            jobs.push(Job { new, needs, length_ms: ms, fails });
            jobs.len() - 1
        };
    let board = add("storyboard".into(), "", "write-board script.txt".into(), (2, 2_048, 0), vec![], 4_200, 0);
    let voices = add("voices".into(), "", "speak --all script.txt".into(), (2, 1_500, 4_000), vec![board], 9_000, 0);
    let mut scenes = Vec::new();
    for scene in 0..images.div_ceil(8) {
        let mut large = Vec::new();
        for image in scene * 8..images.min(scene * 8 + 8) {
            let fails = match image {
                5 => 1,
                11 => 9,
                _ => 0,
            };
            let command = format!("draw --seed {image} board/{image}.json -o image-{image}.png");
            let name = format!("draw-{image}");
            let drawn = add(name, "draw", command, (1, 1_024, 6_144), vec![board], between(2_000, 6_000), fails);
            let command = format!("enlarge x4 image-{image}.png");
            let name = format!("enlarge-{image}");
            large.push(add(name, "enlarge", command, (2, 3_072, 0), vec![drawn], between(800, 2_500), 0));
        }
        let name = format!("scene-{scene}");
        scenes.push(add(name, "scene", format!("cut scene-{scene}"), (1, 512, 0), large, between(1_500, 4_000), 0));
    }
    let lint = "check '<script>alert(1)</script>' && echo \"ok\"".into();
    add("spell <check> & \"quotes\"".into(), "", lint, (1, 128, 0), vec![board], 1_100, 0);
    let sound = add("sound".into(), "", "mix voices/*.wav".into(), (1, 700, 0), vec![voices], 6_000, 0);
    scenes.push(sound);
    add("film".into(), "", "compose scenes/*.mp4".into(), (4, 4_096, 0), scenes, 5_000, 0);
    jobs
}

fn plus(used: [u64; 3], demand: &Demand) -> [u64; 3] {
    [used[0] + u64::from(demand.cpu_slots), used[1] + demand.ram_mb, used[2] + demand.vram_mb]
}

/// First come, first served, within the limits; an attempt that fails is tried once more after a second.
fn simulate(jobs: &[Job], mut report: impl FnMut(u64, Moved)) {
    let mut state = vec![State::Queued; jobs.len()];
    let mut attempt = vec![1_u32; jobs.len()];
    let mut ready_ms = vec![0_u64; jobs.len()];
    let mut running: Vec<(u64, usize)> = Vec::new();
    let mut now = 0;
    loop {
        for job in 0..jobs.len() {
            if state[job] == State::Queued {
                let over = jobs[job].needs.iter().any(|need| {
                    state[*need] == State::Cancelled || (state[*need] == State::Failed && attempt[*need] > 1)
                });
                if over {
                    state[job] = State::Cancelled;
                    report(now, Moved::new(job as u32, attempt[job], State::Cancelled));
                } else if jobs[job].needs.iter().all(|need| state[*need] == State::Succeeded) && now >= ready_ms[job] {
                    state[job] = State::Ready;
                    ready_ms[job] = now;
                    report(now, Moved::new(job as u32, attempt[job], State::Ready));
                }
            }
        }
        let mut used = running.iter().fold([0; 3], |used, (_, job)| plus(used, &jobs[*job].new.demand));
        for job in 0..jobs.len() {
            if state[job] != State::Ready {
                continue;
            }
            let after = plus(used, &jobs[job].new.demand);
            if after.iter().zip([LIMITS.cpu_slots, LIMITS.ram_mb, LIMITS.vram_mb]).all(|(after, limit)| *after <= limit)
            {
                used = after;
                state[job] = State::Running;
                running.push((now + jobs[job].length_ms, job));
                report(now, Moved::new(job as u32, attempt[job], State::Running));
            }
        }
        running.sort_unstable();
        if running.is_empty() {
            return;
        }
        let (end, job) = running.remove(0);
        now = end;
        let bad = attempt[job] <= jobs[job].fails;
        state[job] = if bad { State::Failed } else { State::Succeeded };
        let lost =
            "Traceback (most recent call last):\n  draw.py, line 118, in sample\nCUDA out of memory: tried <2.00 GiB>";
        let detail = Detail {
            how: Some(if bad { "exit 1" } else { "exit 0" }.into()),
            error: bad.then(|| lost.into()),
            peak_rss_kb: Some(jobs[job].new.demand.ram_mb * 900),
            cpu_ms: Some(jobs[job].length_ms * u64::from(jobs[job].new.demand.cpu_slots) * 9 / 10),
            wall_ms: Some(jobs[job].length_ms),
            ..Detail::default()
        };
        report(now, Moved::new(job as u32, attempt[job], state[job]).with(detail));
        if bad && attempt[job] < 2 {
            attempt[job] += 1;
            state[job] = State::Queued;
            ready_ms[job] = now + 1_000;
        }
    }
}

fn main() -> Result<(), JournalError> {
    let images = std::env::args().nth(1).and_then(|many| many.parse().ok()).unwrap_or(24);
    let jobs = film(images);
    let dir = std::env::temp_dir().join(format!("bursar-report-{}", std::process::id()));
    let journal = Journal::open(&dir)?;
    let new = jobs.iter().map(|job| job.new.clone()).collect();
    let run = journal.begin(NewRun { file: Some("examples/film.toml".into()), jobs: new, ..NewRun::new("film") })?;
    let writer = journal.writer(&run)?;
    simulate(&jobs, |ms, moved| {
        writer.record(Event::from(Moved { offset_us: Some(ms * 1_000), ..moved }));
    });
    writer.flush()?;
    let jobs_now = journal.jobs(run.id())?;
    let failed = |job: &JobRow| job.state == State::Failed;
    writer.finish(if jobs_now.iter().any(failed) { Outcome::Failed } else { Outcome::Succeeded })?;
    let edges: Vec<(u32, u32)> = jobs
        .iter()
        .enumerate()
        .flat_map(|(job, spec)| spec.needs.iter().map(move |need| (*need as u32, job as u32)))
        .collect();
    let (row, events) = (journal.run(run.id())?, journal.events(run.id())?);
    let facts = Facts { run: &row, jobs: &jobs_now, events: &events, edges: &edges, limits: LIMITS };
    print!("{}", report::html(&facts));
    let _ = std::fs::remove_dir_all(&dir); // a leftover in the temporary directory does no harm
    Ok(())
}
