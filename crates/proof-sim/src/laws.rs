//! What must hold after every event.
//!
//! Room: decisions.

use policy_cpu::{Class, Latency, Location, Nanos, Scheduler, ThreadId};

/// What was seen last, so that what may only grow is seen to grow.
#[derive(Default)]
pub(crate) struct Laws {
    runtimes: Vec<(ThreadId, Nanos)>,
    /// An idle CPU, a thread that waits elsewhere and could run there, and since when that is so.
    missed: Vec<(u32, ThreadId, Nanos)>,
}

/// An idle CPU looks round at once when a thread comes to wait. Where only the order of those that wait changed, it finds out when it next compares loads.
const MISSED_MAX: Nanos = 5_000_000;

impl Laws {
    /// Looks at everything. Panics at the first law that is broken, and names it.
    pub(crate) fn check(&mut self, scheduler: &Scheduler, now: Nanos, is_interrupted: impl Fn(u32) -> bool) {
        let cpus = scheduler.machine().len();
        let mut queued = vec![[0_u32; 3]; cpus as usize];
        let mut seen = Vec::with_capacity(self.runtimes.len());
        for (id, thread) in scheduler.threads() {
            match thread.location() {
                Location::Queued { cpu, class } => queued[cpu as usize][rank(class)] += 1,
                Location::Running { cpu, class } => {
                    assert_eq!(
                        scheduler.current(cpu),
                        Some(id),
                        "at {now}: a thread that runs is the one that runs there"
                    );
                    // Its context was full of time when it was chosen; what is left by now is for the timer.
                    assert!(
                        class != Class::Reserved || scheduler.has_authority(id) || is_interrupted(cpu),
                        "at {now}: {id:?} runs without authority"
                    );
                }
                _ => {}
            }
            if let Ok(Some(lag)) = scheduler.lag_ns(id) {
                // A request of another thread may be served before this one, and this one's own may overrun by the time of an interrupt.
                let bound = 2 * Latency::Batch.slice() as i64 + 1_000_000;
                assert!(lag.abs() <= bound, "at {now}: {id:?} has a lag of {lag} ns, more than {bound}");
            }
            seen.push((id, thread.account().runtime));
        }
        for (cpu, counted) in queued.iter().enumerate() {
            let waiting = scheduler.waiting(cpu as u32);
            assert_eq!(waiting, *counted, "at {now}: a runnable thread is in exactly one queue, here of CPU {cpu}");
        }
        let is_free =
            |cpu: u32| match scheduler.current(cpu).map(|id| scheduler.thread(id).map(|thread| thread.location())) {
                None => true,
                Some(location) => matches!(location, Ok(Location::Running { class: Class::Idle, .. })),
            };
        let before = std::mem::take(&mut self.missed);
        for idle in (0..cpus).filter(|&cpu| is_free(cpu) && !is_interrupted(cpu)) {
            for cpu in (0..cpus).filter(|&cpu| !is_interrupted(cpu)) {
                let Some(id) = scheduler.first_waiting(cpu).filter(|&id| scheduler.allows(id, idle)) else { continue };
                let known = before.iter().find(|missed| (missed.0, missed.1) == (idle, id));
                let since = known.map_or(now, |missed| missed.2);
                assert!(
                    now - since <= MISSED_MAX,
                    "at {now}: CPU {idle} idles since {since} while {id:?} waits for CPU {cpu}"
                );
                self.missed.push((idle, id, since));
            }
        }
        for (id, before) in &self.runtimes {
            if let Ok(thread) = scheduler.thread(*id) {
                assert!(thread.account().runtime >= *before, "at {now}: the runtime of {id:?} fell");
            }
        }
        self.runtimes = seen;
    }
}

fn rank(class: Class) -> usize {
    match class {
        Class::Reserved => 0,
        Class::Fair => 1,
        Class::Idle => 2,
    }
}
