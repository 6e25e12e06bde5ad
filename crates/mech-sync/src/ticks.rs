//! Time that is cheap to read: the processor's own counter, as nanoseconds.
//!
//! Room: mechanism. Knows a counter and its rate; knows nothing of what is timed.
//!
//! # Invariants
//! - On one thread [`nanos`] never goes back. Between threads it may differ by what the processor's counters differ, so callers subtract with saturation.
//! - No call waits for another thread: not for one that a fork left behind, either.
//!
//! # Why they hold
//! On x86_64 the counter is used only if the processor says that it runs at one rate in all states (*invariant TSC*); its rate is measured once, against the system's clock. On
//! aarch64 the architecture promises the same, and a register says the rate. Anywhere else the system's clock is read.
//! Until a millisecond has passed since the first call the system's clock is read as well. Then the first caller that claims it measures, and publishes the rate by one store; the others read the clock
//! meanwhile, and for ever in a child of a fork that came then. From there on the counter is ahead of the clock by what a look at both took, so the next call sees no less than the last one.
//!
//! Not for deadlines: the rate is measured over a millisecond or more, so an hour may be off by some tenths of a second. It is for charging what ran.
//!
//! # Rejected
//! - A `OnceLock` whose first caller measures for a millisecond: in a child of a fork that came meanwhile every other call waited for ever.
//! - Values in a `Box`: the task that happens to call first would pay for it from its budget.

use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;

/// How long the rate is measured, at least.
const MEASURED_FOR: Duration = Duration::from_millis(1);

// What `Rate::state` says.
const UNKNOWN: u32 = 0;
const CLAIMED: u32 = 1;
const KNOWN: u32 = 2;

/// The counter when this was first asked, and the clock, which is written after it: 0 until then.
static FIRST_TICKS: AtomicU64 = AtomicU64::new(0);
static FIRST_NANOS: AtomicU64 = AtomicU64::new(0);

static RATE: Rate = Rate {
    state: AtomicU32::new(UNKNOWN),
    base: AtomicU64::new(0),
    nanos: AtomicU64::new(0),
    scale: AtomicU64::new(0),
};

/// Read when `state` is KNOWN; written by the thread that made it CLAIMED.
struct Rate {
    state: AtomicU32,
    /// What the counter said when it was measured, and what [`nanos`] said there.
    base: AtomicU64,
    nanos: AtomicU64,
    /// Nanoseconds a tick, times 2^32. 0: the counter cannot be used.
    scale: AtomicU64,
}

/// The system's clock.
fn clock() -> u64 {
    let mut time = std::mem::MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: the pointer is to a structure of the right type, which the call fills. It cannot fail for this clock; if it did, it would stay 0.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Clock and counter at one moment.
struct Look {
    took: u64,
    clock: u64,
    ticks: u64,
}

/// Of several looks the shortest: a thread that loses its CPU between the two would measure that, too.
fn both_clocks() -> Look {
    const LOOKS: usize = 8;
    let look = |_| {
        let (clock_then, ticks) = (clock(), counter::read());
        Look { took: clock() - clock_then, clock: clock_then, ticks }
    };
    (0..LOOKS).map(look).min_by_key(|look| look.took).expect("several looks")
}

/// What the calling thread has had of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// How long it has had a CPU, in nanoseconds.
    pub on_cpu: u64,
    /// How often it gave its CPU away by itself, to wait for something.
    pub blocked: u64,
}

/// What the calling thread has had of the system. A call of the system: to be asked seldom.
pub fn thread_usage() -> Usage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a structure of the right type, which the call fills. It cannot fail for this thread; if it did, all would stay 0.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let nanos = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Usage { on_cpu: nanos(usage.ru_utime) + nanos(usage.ru_stime), blocked: usage.ru_nvcsw as u64 }
}

/// Nanoseconds since some time before the first call.
#[inline]
pub fn nanos() -> u64 {
    if RATE.state.load(Acquire) != KNOWN {
        return nanos_by_clock();
    }
    let scale = RATE.scale.load(Relaxed);
    if scale == 0 {
        return clock();
    }
    let ticks = counter::read().saturating_sub(RATE.base.load(Relaxed));
    RATE.nanos.load(Relaxed) + ((u128::from(ticks) * u128::from(scale)) >> 32) as u64
}

/// The same by the system's clock. Measures the rate if it is time to.
#[cold]
#[inline(never)]
fn nanos_by_clock() -> u64 {
    let (now, first) = (clock(), FIRST_NANOS.load(Acquire));
    if first == 0 {
        let look = both_clocks();
        // Of several one; and one that is forked meanwhile leaves 0, and the counter is never used.
        if FIRST_TICKS.compare_exchange(0, look.ticks.max(1), Relaxed, Relaxed).is_ok() {
            FIRST_NANOS.store(look.clock, Release);
        }
    } else if now.saturating_sub(first) >= MEASURED_FOR.as_nanos() as u64
        && RATE.state.compare_exchange(UNKNOWN, CLAIMED, Relaxed, Relaxed).is_ok()
    {
        let look = both_clocks();
        let (ticks, passed) = (look.ticks.checked_sub(FIRST_TICKS.load(Relaxed)), look.clock - first);
        let scale = ticks.and_then(|ticks| counter::scale(ticks, Duration::from_nanos(passed))).unwrap_or(0);
        RATE.base.store(look.ticks, Relaxed);
        RATE.nanos.store(look.clock + look.took, Relaxed);
        RATE.scale.store(scale, Relaxed);
        RATE.state.store(KNOWN, Release);
    }
    now
}

#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
mod counter {
    use std::arch::x86_64::{__cpuid, _rdtsc};
    use std::time::Duration;

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86_64 processor has the instruction; a system that forbids it to programs would forbid it to the C library, too.
        unsafe { _rdtsc() }
    }

    /// The rate, by what it counted in a time. None if it may change.
    pub(super) fn scale(ticks: u64, passed: Duration) -> Option<u64> {
        const POWER: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        #[allow(unused_unsafe, reason = "newer compilers call it safe")]
        // SAFETY: every x86_64 processor has the instruction.
        let [last, power] = unsafe { [__cpuid(0x8000_0000).eax, __cpuid(POWER).edx] };
        if last < POWER || power & INVARIANT_TSC == 0 {
            return None;
        }
        u64::try_from((passed.as_nanos() << 32).checked_div(u128::from(ticks))?).ok()
    }
}

#[cfg(all(target_arch = "aarch64", not(loom), not(miri)))]
mod counter {
    use std::{arch::asm, time::Duration};

    #[inline]
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: reads a counter that Linux lets programs read, and nothing else.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    pub(super) fn scale(_: u64, _: Duration) -> Option<u64> {
        let hertz: u64;
        // SAFETY: as above.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags)) };
        u64::try_from((1_000_000_000_u128 << 32).checked_div(u128::from(hertz))?).ok()
    }
}

#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), loom, miri))]
mod counter {
    use std::time::Duration;

    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn scale(_: u64, _: Duration) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thread_that_sleeps_has_no_cpu() {
        let (before, begun) = (thread_usage(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let after = thread_usage();
        let had = Duration::from_nanos(after.on_cpu - before.on_cpu);
        assert!(had < begun.elapsed() / 2, "{had:?} of {:?}", begun.elapsed());
        assert!(after.blocked > before.blocked);
    }

    /// How long 20 ms of the clock are by the counter, over how long they are by the clock.
    fn counter_over_clock() -> f64 {
        let (begun, first) = (Instant::now(), nanos());
        let mut last = first;
        while begun.elapsed() < Duration::from_millis(20) {
            let now = nanos();
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        (nanos() - first) as f64 / 1e9 / begun.elapsed().as_secs_f64()
    }

    #[test]
    fn it_agrees_with_the_clock_and_never_goes_back() {
        // On a busy machine the thread may be stopped between the two clocks, at either end.
        let ratios: Vec<f64> = (0..10).map(|_| counter_over_clock()).collect();
        assert!(ratios.iter().any(|ratio| (ratio - 1.0).abs() < 0.1), "the counter over the clock: {ratios:?}");
    }
}
