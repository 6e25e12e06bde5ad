//! What the tests share: a watchdog, numbers from a seed, a test that has the process for itself.

use std::{
    io::Write,
    process::{Command, Output},
    sync::{
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Ends the process if a test takes too long, and says how to see it again.
pub(crate) struct Watchdog(#[expect(dead_code, reason = "dropped, it ends the watch")] mpsc::Sender<()>);

/// Watches a test that has no seed.
pub(crate) fn watch(test: &'static str) -> Watchdog {
    watch_seed(test, 0)
}

/// Watches a test; `SEED=<seed>` runs it with that seed alone.
pub(crate) fn watch_seed(test: &'static str, seed: u64) -> Watchdog {
    let (alive, over) = mpsc::channel::<()>();
    thread::spawn(move || {
        if over.recv_timeout(patience()) == Err(mpsc::RecvTimeoutError::Timeout) {
            // Not `eprintln!`: that is kept until the test ends, and it does not.
            let mut stderr = std::io::stderr();
            let _ =
                writeln!(stderr, "\n{test} hangs; replay: `SEED={seed} cargo test -p sched-tasks --test it {test}`");
            std::process::abort();
        }
    });
    Watchdog(alive)
}

/// How long a test may take: a minute, and more where a sanitizer or an emulator makes everything slower (`BURSAR_TEST_SLOWDOWN`).
pub(crate) fn patience() -> Duration {
    let slowdown = std::env::var("BURSAR_TEST_SLOWDOWN").ok().and_then(|times| times.parse().ok());
    Duration::from_secs(60) * slowdown.unwrap_or(1)
}

/// Runs `body` with each seed, or with `SEED` alone, under a watchdog.
pub(crate) fn for_seeds(test: &'static str, seeds: std::ops::Range<u64>, body: impl Fn(u64)) {
    let seeds: Vec<u64> = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("SEED is a number")],
        Err(_) => seeds.collect(),
    };
    for seed in seeds {
        let _watchdog = watch_seed(test, seed);
        println!("replay: `SEED={seed} cargo test -p sched-tasks --test it {test}`"); // shown if it fails
        body(seed);
    }
}

/// Numbers that look random, and are the same for the same seed.
pub(crate) struct Dice(AtomicU64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A number below `sides`.
    pub(crate) fn roll(&self, sides: u64) -> u64 {
        let state = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, SeqCst);
        sched_tasks::decide::next_random(state).1 % sides
    }
}

/// Waits, without blocking a worker, until something is so.
pub(crate) fn until(what: impl Fn() -> bool) {
    while !what() {
        sched_tasks::yield_now();
        if sched_tasks::current_task().is_none() {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Keeps the CPU busy: no yield, no checkpoint.
pub(crate) fn spin_until(what: impl Fn() -> bool) {
    while !what() {
        thread::yield_now(); // the thread's, not the task's: two cores are few
    }
}

/// Runs a test in a process of its own, for what is counted by the process. True in that process.
pub(crate) fn alone(test: &str) -> bool {
    if is_alone() {
        return true;
    }
    let output = run_alone(test);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    false
}

fn is_alone() -> bool {
    std::env::var_os("BURSAR_TEST_ALONE").is_some()
}

/// What a test says in a process of its own. None in that process.
pub(crate) fn output_alone(test: &str) -> Option<Output> {
    (!is_alone()).then(|| run_alone(test))
}

fn run_alone(test: &str) -> Output {
    myself().args([test, "--exact", "--nocapture", "--test-threads=1"]).env("BURSAR_TEST_ALONE", "1").output().unwrap()
}

/// This program again; through the emulator if it runs in one.
pub(crate) fn myself() -> Command {
    let me = std::env::current_exe().unwrap();
    let runner = std::env::var("BURSAR_TEST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(me) };
    let mut command = Command::new(emulator);
    command.args(words).arg(me);
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// CPU time that the process has used.
pub(crate) fn cpu_time() -> Duration {
    // SAFETY: `rusage` is plain data, which the call fills.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut usage), 0);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// The part of a CPU that the process uses during a second, once it has come to rest: the least of a few.
pub(crate) fn cpu_share_at_rest() -> f64 {
    (0..3).map(|_| cpu_share(Duration::from_secs(1))).fold(f64::MAX, f64::min)
}

fn cpu_share(time: Duration) -> f64 {
    let (begun, used) = (Instant::now(), cpu_time());
    thread::sleep(time); // what is measured is that nothing happens
    (cpu_time() - used).as_secs_f64() / begun.elapsed().as_secs_f64()
}

/// Entries of a folder, or lines of a file, of `/proc/self`.
pub(crate) fn proc_count(what: &str) -> usize {
    let path = format!("/proc/self/{what}");
    match std::fs::read_dir(&path) {
        Ok(entries) => entries.count(),
        Err(_) => std::fs::read_to_string(&path).unwrap().lines().count(),
    }
}

/// Memory the process has in RAM.
pub(crate) fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A runtime whose tasks are vouched for: an overflow fails only its task.
pub(crate) fn skipping() -> sched_tasks::Builder {
    // SAFETY: the tasks of these tests borrow from frames that are waited for, and do nothing with them when they overflow.
    unsafe { sched_tasks::Runtime::builder().skip_frames_on_overflow() }
}
