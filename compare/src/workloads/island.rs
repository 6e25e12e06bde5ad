//! A periodic task on a CPU of its own, beside busy loops of other processes: deadlines that are missed. Period and deadline 1 ms, the work 20 µs; two busy loops for each CPU.
//!
//! Ours is an island: a leased CPU, `SCHED_FIFO` where the system permits. The peer is tokio's interval timer on a thread of its own, as a program without such a thing would do it.
//! One after the other, beside the same loops.
//!
//! Bar: fewer misses than the peer. The worst lateness is for orientation.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bursar::Runtime;
use bursar::cpu::{Context, Island};
use tokio::time::MissedTickBehavior;

use crate::Failure;
use crate::measure::Plan;
use crate::table::{Bar, Row};

pub const NAME: &str = "island";
const PERIOD: Duration = Duration::from_millis(1);
const WORK: Duration = Duration::from_micros(20);
/// How long before a release the thread that spins is awake.
const SPIN: Duration = Duration::from_micros(400);

fn work() {
    let begun = Instant::now();
    while begun.elapsed() < WORK {
        std::hint::spin_loop();
    }
}

/// Deadlines that were missed, and the longest time from a release to its cycle in µs.
struct Kept {
    missed: u64,
    late_max_us: f64,
    note: String,
}

fn ours(cycles: u64, spin: Duration) -> Result<Kept, Failure> {
    let runtime = Runtime::builder().workers(2).build()?;
    let context = Context::budget(10 * WORK).period(PERIOD);
    let mut island = Island::new("island").task("periodic", context).spin(spin).admit_on(&runtime)?;
    let stats = island
        .program()
        .on("periodic", |cycle| {
            work();
            if cycle.number() + 1 >= cycles {
                cycle.stop();
            }
        })
        .run()?;
    let note = stats.in_force.as_ref().map(ToString::to_string).unwrap_or_default();
    Ok(Kept { missed: stats.missed(), late_max_us: stats.tasks[0].late_max.as_nanos() as f64 / 1e3, note })
}

/// A tick that does not come in its period is left out and missed, as above.
fn tokio_interval(cycles: u64) -> Result<Kept, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    Ok(runtime.block_on(async {
        let first = tokio::time::Instant::now() + PERIOD;
        let mut ticks = tokio::time::interval_at(first, PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut number, mut missed, mut late_max) = (0, 0, Duration::ZERO);
        while number < cycles {
            let release = ticks.tick().await;
            let this = ((release - first).as_nanos() / PERIOD.as_nanos()) as u64;
            missed += this - number; // ticks that were left out
            late_max = late_max.max(release.elapsed());
            work();
            missed += u64::from(release.elapsed() > PERIOD);
            number = this + 1;
        }
        Kept { missed, late_max_us: late_max.as_nanos() as f64 / 1e3, note: String::new() }
    }))
}

/// Busy loops, which end with this.
struct Hogs(Vec<Child>);

impl Hogs {
    fn start() -> Result<Self, Failure> {
        let cpus = std::thread::available_parallelism()?.get();
        let mut hogs = Hogs(Vec::new());
        for _ in 0..2 * cpus {
            // It ends by itself if we are killed.
            let hog = Command::new("timeout")
                .args(["300", "sh", "-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()?;
            hogs.0.push(hog);
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = Command::new("kill").arg(hog.id().to_string()).status(); // `timeout` ends what it started
            let _ = hog.wait();
        }
    }
}

pub fn run(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let cycles = plan.pick(60_000, 2_000) as u64;
    let _hogs = Hogs::start()?;
    plan.step("tokio's interval");
    let theirs = tokio_interval(cycles)?;
    plan.step("ours");
    let sleeps = ours(cycles, Duration::ZERO)?;
    plan.step("ours, spinning");
    let spins = ours(cycles, SPIN)?;
    plan.done(&format!("island: {}", sleeps.note));
    let missed = |ours: &Kept| [ours.missed as f64, theirs.missed as f64];
    let late = |ours: &Kept| [ours.late_max_us, theirs.late_max_us];
    Ok(vec![
        Row::new(NAME, "tokio interval", missed(&sleeps), "missed deadlines", Bar::Times(1.0)),
        Row::new(NAME, "tokio interval, worst lateness", late(&sleeps), "µs", Bar::Open),
        Row::new(NAME, "tokio interval; ours spins", missed(&spins), "missed deadlines", Bar::Times(1.0)),
        Row::new(NAME, "tokio interval, lateness; ours spins", late(&spins), "µs", Bar::Open),
    ])
}
