//! Machine code of one program: made once, by a thread of its own, while those who want it wait.
//!
//! Room: driver.
//!
//! # Invariants
//! 1. A program is compiled once at most, however many tasks want its code.
//! 2. A task that is cancelled, or has its deadline, does not wait for a compiler.
//! 3. The compiler stops when the program is gone.
//!
//! # Why they hold
//! 1. Who finds that none has begun begins, under the lock.
//! 2. Who waits looks at the nursery around it again and again. If that is cancelled, it stops waiting and unwinds; the compiler continues for those that come later.
//! 3. The program says so when it is dropped, and the compiler looks between two functions.
//!
//! # Rejected
//! Stopping the compiler when no task waits: where each call has a deadline, as in a flow, each would begin anew, and none would ever have code.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use sched_tasks::is_cancelled;

use super::compile::{COMPILER_STACK_BYTES, Native, Settings, compile, is_within_limits};
use crate::task::Code;

/// How often who waits looks whether it was cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The code of a program, or that it will be there.
#[derive(Default)]
pub(crate) struct Making {
    /// None if the program is interpreted.
    made: OnceLock<Option<Arc<Native>>>,
    has_begun: Mutex<bool>,
    changed: Condvar,
    is_unwanted: AtomicBool,
}

impl Making {
    /// Waits for the code. None if the program is interpreted, or the caller is cancelled.
    pub(crate) fn wait(self: &Arc<Self>, code: &Arc<Code>, settings: Settings) -> Option<Arc<Native>> {
        if let Some(made) = self.made.get() {
            return made.clone();
        }
        let mut has_begun = self.has_begun.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut *has_begun, true) {
            self.begin(code.clone(), settings);
        }
        loop {
            if let Some(made) = self.made.get() {
                return made.clone();
            }
            if is_cancelled() {
                return None;
            }
            let waited = self.changed.wait_timeout(has_begun, LOOK_EVERY);
            has_begun = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The program is gone, so the code will not be used.
    pub(crate) fn give_up(&self) {
        self.is_unwanted.store(true, Relaxed); // it is only looked at
    }

    fn begin(self: &Arc<Self>, code: Arc<Code>, settings: Settings) {
        if !is_within_limits(&code) {
            _ = self.made.set(None);
            return;
        }
        let making = self.clone();
        let compiler = thread::Builder::new().name("janus-compiler".into()).stack_size(COMPILER_STACK_BYTES);
        let begun = compiler.spawn(move || {
            // An error or a panic means that the program is interpreted.
            let compiled = catch_unwind(AssertUnwindSafe(|| compile(code, settings, &making.is_unwanted).ok()));
            let made = compiled.ok().flatten().map(Arc::new);
            let _guard = making.has_begun.lock().unwrap_or_else(PoisonError::into_inner);
            _ = making.made.set(made);
            making.changed.notify_all();
        });
        if begun.is_err() {
            _ = self.made.set(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use sched_tasks::{NurseryOptions, Reason, nursery_with};

    use crate::native::Bug;
    use crate::{Engine, Host, Program};

    fn endless() -> Program {
        Program::compile("func main() do print(1) end").unwrap().planted(Some(Bug::NeverReady))
    }

    #[test]
    fn a_deadline_ends_the_wait_for_machine_code() {
        let program = endless();
        let options = NurseryOptions::new().timeout(Duration::from_millis(50));
        let ended = nursery_with(options, |n| program.spawn_on(&Host::new(), n, "main", &[])?.join());
        let error = ended.unwrap_err();
        assert!(matches!(error.reason(), Reason::DeadlineExceeded { .. }), "{error}");
    }

    #[test]
    fn a_cancellation_ends_the_wait_for_machine_code() {
        let program = endless();
        let ended = nursery_with(NurseryOptions::new(), |n| {
            let canceller = n.canceller();
            thread::spawn(move || {
                thread::sleep(Duration::from_millis(50));
                canceller.cancel();
            });
            program.spawn_on(&Host::new(), n, "main", &[])?.join()
        });
        assert!(ended.unwrap_err().is_cancelled());
    }

    #[test]
    fn the_compiler_stops_when_the_program_is_gone() {
        let program = endless();
        let making = Arc::downgrade(&program.shared.native);
        let options = NurseryOptions::new().timeout(Duration::from_millis(10));
        nursery_with(options, |n| program.spawn_on(&Host::new(), n, "main", &[])?.join()).unwrap_err();
        assert!(making.upgrade().is_some(), "the compiler continues for those that come later");
        drop(program);
        let begun = Instant::now();
        while making.upgrade().is_some() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the compiler continues");
            thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn all_who_wait_get_the_same_code() {
        let program = Program::compile("func main() do print(1) end").unwrap();
        let made: Vec<_> = thread::scope(|scope| {
            let waiting: Vec<_> = (0..8).map(|_| scope.spawn(|| program.native().unwrap())).collect();
            waiting.into_iter().map(|waiting| waiting.join().unwrap()).collect()
        });
        assert!(made.iter().all(|native| Arc::ptr_eq(native, &made[0])));
        assert_eq!(program.prepare(), Engine::Native);
    }
}
