//! What these tests share: waiting, CPU time, a runtime that survives overflows. What they share with those of other crates is in `test-support`.

use std::{
    thread,
    time::{Duration, Instant},
};

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

/// A runtime whose tasks are vouched for: an overflow fails only its task.
pub(crate) fn skipping() -> sched_tasks::Builder {
    // SAFETY: the tasks of these tests borrow from frames that are waited for, and do nothing with them when they overflow.
    unsafe { sched_tasks::Runtime::builder().skip_frames_on_overflow() }
}
