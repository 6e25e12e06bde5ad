//! Time that is cheap to read: the processor's own counter, as nanoseconds.
//!
//! Room: mechanism. Knows a counter and its rate; knows nothing of what is timed.
//!
//! # Invariant
//! On one thread [`nanos`] never goes back. Between threads it may differ by what the processor's counters differ, so callers subtract with saturation.
//!
//! # Why it holds
//! On x86_64 the counter is used only if the processor says that it runs at one rate in all states (*invariant TSC*); its rate is measured once, against the system's clock. On
//! aarch64 the architecture promises the same, and a register says the rate. Anywhere else the system's clock is read.
//!
//! Not for deadlines: the rate is measured over a millisecond, so an hour may be off by some tenths of a second. It is for charging what ran.

use std::sync::OnceLock;
use std::time::Instant;

/// How long the rate is measured.
#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
const MEASURED_FOR: std::time::Duration = std::time::Duration::from_millis(1);

/// What the counter said when this was first asked, and its rate.
struct Rate {
    base: u64,
    /// Nanoseconds a tick, times 2^32. 0: the counter cannot be used.
    scale: u64,
    clock: Instant,
}

fn rate() -> &'static Rate {
    static RATE: OnceLock<Rate> = OnceLock::new();
    RATE.get_or_init(|| {
        let (clock, base) = both_clocks();
        Rate { base, scale: counter::scale(clock, base).unwrap_or(0), clock }
    })
}

/// The system's clock and the counter at one moment. Of several looks the shortest: a thread that loses its CPU between the two would measure that, too.
fn both_clocks() -> (Instant, u64) {
    const LOOKS: usize = 8;
    let look = |_| {
        let (clock, ticks) = (Instant::now(), counter::read());
        (clock.elapsed(), clock, ticks)
    };
    let shortest = (0..LOOKS).map(look).min_by_key(|(took, ..)| *took);
    shortest.map_or_else(|| (Instant::now(), counter::read()), |(_, clock, ticks)| (clock, ticks))
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

/// Nanoseconds since some time before the first call. The first call takes a millisecond.
#[inline]
pub fn nanos() -> u64 {
    let rate = rate();
    if rate.scale == 0 {
        return rate.clock.elapsed().as_nanos() as u64;
    }
    let ticks = counter::read().saturating_sub(rate.base);
    ((u128::from(ticks) * u128::from(rate.scale)) >> 32) as u64
}

#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
mod counter {
    use super::*;
    use std::arch::x86_64::{__cpuid, _rdtsc};

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86_64 processor has the instruction; a system that forbids it to programs would forbid it to the C library, too.
        unsafe { _rdtsc() }
    }

    /// None if the rate of the counter may change.
    pub(super) fn scale(clock: Instant, base: u64) -> Option<u64> {
        const POWER: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        #[allow(unused_unsafe, reason = "newer compilers call it safe")]
        // SAFETY: every x86_64 processor has the instruction.
        let [last, power] = unsafe { [__cpuid(0x8000_0000).eax, __cpuid(POWER).edx] };
        if last < POWER || power & INVARIANT_TSC == 0 {
            return None;
        }
        while clock.elapsed() < MEASURED_FOR {
            std::hint::spin_loop();
        }
        let (now, ticks) = both_clocks();
        let (ticks, passed) = (ticks.checked_sub(base)?, now.duration_since(clock).as_nanos());
        u64::try_from((passed << 32).checked_div(u128::from(ticks))?).ok()
    }
}

#[cfg(all(target_arch = "aarch64", not(loom), not(miri)))]
mod counter {
    use super::*;
    use std::arch::asm;

    #[inline]
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: reads a counter that Linux lets programs read, and nothing else.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    pub(super) fn scale(_: Instant, _: u64) -> Option<u64> {
        let hertz: u64;
        // SAFETY: as above.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hertz, options(nomem, nostack, preserves_flags)) };
        u64::try_from((1_000_000_000_u128 << 32).checked_div(u128::from(hertz))?).ok()
    }
}

#[cfg(any(not(any(target_arch = "x86_64", target_arch = "aarch64")), loom, miri))]
mod counter {
    use super::*;

    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn scale(_: Instant, _: u64) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
