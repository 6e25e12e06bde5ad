//! A machine that stays usable: something interactive beside eight busy jobs, with class `batch` and with class `normal`.
//!
//! The probe is a process in a session of its own, as a program of a desktop is. It wakes every 10 ms, computes for 3 ms, as who draws a frame, and records how
//! late it was done. Figures of a shared machine vary, so there are several rounds, and what is asserted is an order, not a time: in one of them the
//! probe is less than two thirds as late in the middle, and no later at the end.

use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::run_site::Site;
use crate::{says, text};

const PERIOD: Duration = Duration::from_millis(10);
const WORK: Duration = Duration::from_millis(3);
const FRAMES: usize = 150;
/// The first frames are not counted: the load is still being balanced.
const WARM_UP: usize = 20;
const HOGS: usize = 8;
const ROUNDS: usize = 6;
/// The test, which is the probe in a process of its own.
const PROBE: &str = "desktop::beside_eight_hogs_a_probe_is_no_later_with_batch_than_with_normal";

/// Hogs and probe share two CPUs, however many there are.
fn cpus() -> Vec<usize> {
    mech_process::machine::online_cpus().into_iter().take(2).collect()
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}

/// The probe: prints p50 and p99, in microseconds.
fn probe() {
    let _ = rustix::process::setsid();
    let mut set = CpuSet::new();
    cpus().into_iter().for_each(|cpu| set.set(cpu));
    sched_setaffinity(None, &set).unwrap();
    let mut late: Vec<u128> = Vec::with_capacity(FRAMES);
    for frame in 0..WARM_UP + FRAMES {
        let due = Instant::now() + PERIOD + WORK;
        std::thread::sleep(PERIOD);
        let until = cpu_time() + WORK;
        while cpu_time() < until {}
        if frame >= WARM_UP {
            late.push(due.elapsed().as_micros());
        }
    }
    late.sort_unstable();
    println!("late {} {}", late[FRAMES / 2], late[(FRAMES - 1) * 99 / 100]);
}

/// How late the probe is beside the hogs: p50 and p99.
fn beside_hogs(class: &str) -> (Duration, Duration) {
    let job = "foreach = { n = '1..8' }\nrun = 'echo up > up{n}; while :; do :; done'\n";
    let site = Site::new(&format!("[resources]\ncpu = {HOGS}\n[job.hog]\ncpus = {:?}\n{job}", cpus()));
    let up: Vec<_> = (1..=HOGS).map(|n| site.fifo(&format!("up{n}"))).collect();
    let run = site.start(&format!("run jobs.toml --overcommit --class {class}"));
    up.iter().for_each(|up| drop(up.wait()));
    let probe = test_support::output_alone(PROBE).expect("this is not the probe");
    says(&site.bursar("cancel latest --now"));
    run.wait();
    let said = text(&probe.stdout);
    let line = said.lines().find_map(|line| line.split("late ").nth(1)).unwrap_or_else(|| panic!("{said}"));
    let mut figures = line.split(' ').map(|us| Duration::from_micros(us.trim().parse().unwrap()));
    (figures.next().unwrap(), figures.next().unwrap())
}

#[test]
fn beside_eight_hogs_a_probe_is_no_later_with_batch_than_with_normal() {
    if test_support::is_alone() {
        return probe();
    }
    let mut tried = Vec::new();
    for _ in 0..ROUNDS {
        let (batch, normal) = (beside_hogs("batch"), beside_hogs("normal"));
        let [(b50, b99), (n50, n99)] = [batch, normal];
        println!("probe beside {HOGS} hogs: batch p50 {b50:?} p99 {b99:?}; normal p50 {n50:?} p99 {n99:?}");
        tried.push((batch, normal));
        if b50 * 5 <= n50 * 3 && b99 <= n99 {
            return;
        }
    }
    panic!("in no round was the probe better off with batch (p50, p99): {tried:?}");
}
