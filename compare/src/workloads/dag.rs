//! A layered random graph of a million empty jobs, each of which needs three of the layer before. 2 workers.
//!
//! The same graph, from the same seed, for both. Timed from the first submit to the end of the last job, building and dropping included. Ours has everything on: four
//! priorities, aging, two demands of memory under a limit, and an observer that counts events. Tokio's is what one writes by
//! hand: a counter and a list of successors for each job, and `tokio::spawn` when the counter reaches zero; no
//! priorities, no limits, no observer. Neither has names; a row has ours with them.
//!
//! Bars: 1.0 × tokio, also with names; a million jobs a second if each is submitted alone; 300 bytes for a job that has ended, while its scheduler lives; a job of the largest graph at most 1.5 ×
//! one of a graph a thousandth its size, whose share of starting threads is the larger.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Failure;
use crate::measure::{Plan, Side};
use crate::memory::heap_bytes;
use crate::table::{Bar, LIMIT, Row};
use crate::workloads::peers;

pub const NAME: &str = "dag";
const NEEDS: usize = 3;
const BYTES_MAX: f64 = 300.0;
const GROWTH_MAX: f64 = 1.5;
/// A million in a second.
const ONE_BY_ONE_MAX: f64 = 1000.0;
const SEED: u64 = 0x00B5_5A12;

/// Which job needs which. As many layers as a layer has jobs, or nearly.
struct Graph {
    width: usize,
    /// Of every job, in layers; those of the first are not looked at.
    needs: Vec<[u32; NEEDS]>,
}

impl Graph {
    fn random(count: usize, seed: u64) -> Self {
        let width = count.isqrt();
        let mut state = seed;
        let mut below = |limit: usize| {
            // SplitMix64: good enough to scatter, and the same everywhere.
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut x = state;
            x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            (x ^ (x >> 31)) as usize % limit
        };
        let needs = (0..count).map(|job| {
            let layer_before = (job / width).saturating_sub(1) * width;
            // One in each third of the layer: never the same one twice.
            std::array::from_fn(|third| {
                let (from, to) = (width * third / NEEDS, width * (third + 1) / NEEDS);
                (layer_before + from + below(to - from)) as u32
            })
        });
        Self { width, needs: needs.collect() }
    }

    fn len(&self) -> usize {
        self.needs.len()
    }

    /// What this job needs.
    fn needs(&self, job: usize) -> &[u32] {
        if job < self.width { &[] } else { &self.needs[job] }
    }
}

pub(super) mod ours {
    use super::*;
    use sched_jobs::{Job, JobId, Jobs, Summary};

    /// A scheduler with everything on, and what its observer counts.
    pub fn scheduler() -> (Jobs, Arc<AtomicU64>) {
        let events = Arc::new(AtomicU64::new(0));
        let seen = events.clone();
        let mut count = 0;
        let jobs = Jobs::builder()
            .cpu_slots(2)
            .ram_mb(2048)
            .observe(move |_, _| {
                count += 1;
                seen.store(count, Ordering::Relaxed);
            })
            .build();
        (jobs, events)
    }

    /// An empty job, one of eight kinds; like the tasks of others it has no name.
    pub fn job(number: usize) -> Job {
        one_of_eight(Job::unnamed(), number)
    }

    /// The same with a name.
    pub fn named(number: usize) -> Job {
        one_of_eight(Job::new(number.to_string()), number)
    }

    fn one_of_eight(job: Job, number: usize) -> Job {
        job.priority((number % 4) as i32).ram_mb(256 << (number / 4 % 2)).run(|_| ())
    }

    /// Waits for the end, and makes sure that all of it happened.
    pub fn finish(jobs: &Jobs, events: &AtomicU64, count: usize) -> Result<(), Failure> {
        let Summary { succeeded, .. } = jobs.wait()?;
        // Submitted, ready, started, succeeded.
        let events = events.load(Ordering::Relaxed);
        if succeeded != count || events != 4 * count as u64 {
            return Err(format!("of {count} jobs {succeeded} succeeded, with {events} events").into());
        }
        Ok(())
    }

    /// A layer at a time. The scheduler is handed back, with all its ended jobs.
    pub(super) fn by_layer(graph: &Graph, job: fn(usize) -> Job) -> Result<Jobs, Failure> {
        let (jobs, events) = scheduler();
        let mut before: Vec<JobId> = Vec::new();
        for first in (0..graph.len()).step_by(graph.width) {
            let layer = first..graph.len().min(first + graph.width);
            // Ids rise by one, and a layer needs only the one before.
            let start = first.saturating_sub(graph.width);
            let id = |need: &u32| before[*need as usize - start];
            before = jobs.submit_all(layer.map(|number| job(number).needs_all(graph.needs(number).iter().map(id))))?;
        }
        finish(&jobs, &events, graph.len())?;
        Ok(jobs)
    }

    /// A job at a time.
    pub(super) fn one_by_one(graph: &Graph) -> Result<(), Failure> {
        let (jobs, events) = scheduler();
        let mut ids: Vec<JobId> = Vec::with_capacity(graph.len());
        for number in 0..graph.len() {
            let id = |need: &u32| ids[*need as usize];
            let submitted = jobs.submit(job(number).needs_all(graph.needs(number).iter().map(id)))?;
            ids.push(submitted);
        }
        finish(&jobs, &events, graph.len())
    }
}

mod with_tokio {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicUsize};
    use tokio::sync::Notify;

    struct Node {
        unmet: AtomicU32,
        successors: Vec<u32>,
    }

    struct Run {
        nodes: Vec<Node>,
        open: AtomicUsize,
        done: Notify,
    }

    impl Run {
        fn new(graph: &Graph) -> Self {
            let count = graph.len();
            let mut nodes: Vec<Node> = Vec::with_capacity(count);
            for job in 0..count {
                let needs = graph.needs(job);
                nodes.push(Node { unmet: AtomicU32::new(needs.len() as u32), successors: Vec::new() });
                for &need in needs {
                    nodes[need as usize].successors.push(job as u32);
                }
            }
            Self { nodes, open: AtomicUsize::new(count), done: Notify::new() }
        }
    }

    fn spawn(run: Arc<Run>, job: u32) {
        tokio::spawn(async move {
            for &successor in &run.nodes[job as usize].successors {
                if run.nodes[successor as usize].unmet.fetch_sub(1, Ordering::AcqRel) == 1 {
                    spawn(run.clone(), successor);
                }
            }
            if run.open.fetch_sub(1, Ordering::AcqRel) == 1 {
                run.done.notify_one();
            }
        });
    }

    pub async fn whole(graph: Arc<Graph>) -> usize {
        let run = Arc::new(Run::new(&graph));
        for job in 0..graph.width.min(graph.len()) {
            spawn(run.clone(), job as u32);
        }
        run.done.notified().await;
        run.open.load(Ordering::Acquire)
    }
}

/// Nanoseconds for each job: ours, tokio's.
fn measure(plan: &Plan, tokio: &tokio::runtime::Runtime, graph: &Arc<Graph>) -> Result<[f64; 2], Failure> {
    plan.best_of(
        graph.len(),
        [
            Side::new("ours", || ours::by_layer(graph, ours::job).map(drop)),
            Side::new("tokio", || by_tokio(tokio, graph)),
        ],
    )
}

fn by_tokio(tokio: &tokio::runtime::Runtime, graph: &Arc<Graph>) -> Result<(), Failure> {
    match peers::run_tokio(tokio, with_tokio::whole(graph.clone()))? {
        0 => Ok(()),
        open => Err(format!("{open} jobs of tokio's never ran").into()),
    }
}

/// What a job that has ended keeps, in bytes.
fn kept_bytes(graph: &Graph) -> Result<f64, Failure> {
    let before = heap_bytes()?;
    let jobs = ours::by_layer(graph, ours::named)?;
    let kept = heap_bytes()?.saturating_sub(before) as f64 / graph.len() as f64;
    drop(jobs);
    Ok(kept)
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    const PEERS: [&str; 4] = ["tokio, 1/1000 of the size", "tokio, 1/100", "tokio, 1/10", "tokio"];
    let count = plan.pick(1_000_000, 100_000);
    let tokio = peers::tokio(2)?;
    let graphs = [1000, 100, 10, 1].map(|part| Arc::new(Graph::random(count / part, SEED)));
    let whole = &graphs[3];

    // First: threads of an earlier scheduler may still be letting go of their share of it.
    plan.step("ours, what is kept");
    let kept = kept_bytes(whole)?;
    let unit = "ns/job";
    let mut sizes = Vec::new();
    for (graph, peer) in graphs.iter().zip(PEERS) {
        sizes.push((peer, measure(plan, &tokio, graph)?));
    }
    let [one_by_one, named, beside_named] = plan.best_of(
        count,
        [
            Side::new("ours, one by one", || ours::one_by_one(whole)),
            Side::new("ours, named", || ours::by_layer(whole, ours::named).map(drop)),
            Side::new("tokio", || by_tokio(&tokio, whole)),
        ],
    )?;

    let (smallest, largest) = (sizes[0].1, sizes[3].1);
    let mut rows = vec![
        Row::new(NAME, "tokio", largest, unit, Bar::Times(1.0)),
        Row::new(NAME, "tokio, ours with names", [named, beside_named], unit, Bar::Times(1.0)),
        Row::new(NAME, "bar, ours one by one", [one_by_one, ONE_BY_ONE_MAX], unit, Bar::AtMost),
        Row::new(NAME, LIMIT, [kept, BYTES_MAX], "B/ended job", Bar::AtMost),
        Row::new(NAME, "ours, 1/1000 of the size", [largest[0], smallest[0]], unit, Bar::Times(GROWTH_MAX)),
    ];
    rows.extend(sizes[..3].iter().map(|(peer, both)| Row::new(NAME, *peer, *both, unit, Bar::Open)));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_needs_three_different_ones_of_the_layer_before() {
        let graph = Graph::random(1000, SEED);
        assert_eq!(graph.width, 31);
        for job in 0..graph.len() {
            let needs = graph.needs(job);
            assert_eq!(needs.len(), if job < graph.width { 0 } else { NEEDS }, "job {job}");
            assert!(needs.is_sorted_by(|a, b| a < b), "job {job}: {needs:?}");
            assert!(needs.iter().all(|need| *need as usize / graph.width + 1 == job / graph.width), "job {job}");
        }
    }

    #[test]
    fn both_sides_finish_the_same_graph() {
        let graph = Arc::new(Graph::random(2000, SEED));
        ours::by_layer(&graph, ours::job).expect("by layer");
        ours::by_layer(&graph, ours::named).expect("by layer, with names");
        ours::one_by_one(&graph).expect("one by one");
        by_tokio(&peers::tokio(2).expect("tokio"), &graph).expect("tokio");
    }
}
