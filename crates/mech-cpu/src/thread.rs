//! The threads of this process: which CPUs they may use, and with which policy they run.
//!
//! Room: mechanism.
//!
//! # Invariant
//! A thread that has `SCHED_FIFO` from here hands it to no thread or process that it starts (`SCHED_RESET_ON_FORK`).

use std::fs;
use std::io;
use std::mem::size_of_val;

use crate::mask::CpuMask;

/// Names a thread of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tid(libc::pid_t);

/// How the system schedules a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Fairly, beside all others: `SCHED_OTHER`, and its kin `SCHED_BATCH` and `SCHED_IDLE`.
    Fair,
    /// Before all of these: `SCHED_FIFO`, with its priority.
    Fifo(u8),
    /// Another one, by the system's number.
    Other(i32),
}

impl Tid {
    /// The calling thread.
    pub fn current() -> Self {
        // SAFETY: the call takes nothing and cannot fail.
        Self(unsafe { libc::gettid() })
    }

    /// All threads of this process. Those that end or begin meanwhile may be missing or gone.
    pub fn all() -> io::Result<Vec<Self>> {
        let mut all = Vec::new();
        for entry in fs::read_dir("/proc/self/task")? {
            let name = entry?.file_name();
            all.extend(name.to_str().and_then(|name| name.parse().ok()).map(Self));
        }
        Ok(all)
    }

    /// What the thread is called, as far as the system keeps it: 15 bytes.
    pub fn name(self) -> Option<String> {
        let name = fs::read_to_string(format!("/proc/self/task/{}/comm", self.0)).ok()?;
        Some(name.trim_end().to_owned())
    }

    /// The CPUs it may use.
    pub fn affinity(self) -> io::Result<CpuMask> {
        let mut mask = CpuMask::NONE;
        let bytes = size_of_val(&mask.0);
        // SAFETY: the pointer is to `bytes` writable bytes. A mask is an array of longs, in the order of its bits; on the 64-bit machines we run on these are ours.
        let read = unsafe { libc::sched_getaffinity(self.0, bytes, mask.0.as_mut_ptr().cast()) };
        check(read).map(|()| mask)
    }

    /// Allows it these CPUs and no others. It leaves the others before this returns.
    pub fn set_affinity(self, mask: CpuMask) -> io::Result<()> {
        // SAFETY: as above, and it only reads.
        check(unsafe { libc::sched_setaffinity(self.0, size_of_val(&mask.0), mask.0.as_ptr().cast()) })
    }

    /// How it is scheduled.
    pub fn policy(self) -> io::Result<Policy> {
        let mut parameter = libc::sched_param { sched_priority: 0 };
        // SAFETY: the pointer is to a structure of the right type, which the call fills.
        check(unsafe { libc::sched_getparam(self.0, &mut parameter) })?;
        // SAFETY: the call takes a number.
        let policy = unsafe { libc::sched_getscheduler(self.0) };
        check(policy.min(0))?;
        Ok(match policy & !libc::SCHED_RESET_ON_FORK {
            libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE => Policy::Fair,
            libc::SCHED_FIFO => Policy::Fifo(parameter.sched_priority as u8),
            other => Policy::Other(other),
        })
    }

    /// Lets it go before all threads that are scheduled fairly, 1 to 99. Needs a privilege, or a limit for it (`ulimit -r`).
    pub fn set_fifo(self, priority: u8) -> io::Result<()> {
        self.set_policy(libc::SCHED_FIFO, priority.into())
    }

    /// Schedules it fairly again. Always permitted.
    pub fn set_fair(self) -> io::Result<()> {
        self.set_policy(libc::SCHED_OTHER, 0)
    }

    fn set_policy(self, policy: i32, priority: i32) -> io::Result<()> {
        let parameter = libc::sched_param { sched_priority: priority };
        // Unlike the flag of a fair thread, that of a realtime one may be taken away again only with a privilege.
        let flag = if policy == libc::SCHED_FIFO { libc::SCHED_RESET_ON_FORK } else { 0 };
        // SAFETY: the pointer is to a structure of the right type, which the call reads.
        let set = unsafe { libc::sched_setscheduler(self.0, policy | flag, &parameter) };
        if set != 0 && flag == 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM) {
            // SAFETY: as above.
            return check(unsafe { libc::sched_setscheduler(self.0, policy | libc::SCHED_RESET_ON_FORK, &parameter) });
        }
        check(set)
    }
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_may() {
        std::thread::spawn(|| {
            let me = Tid::current();
            let before = me.affinity().unwrap();
            let last = before.iter().last().unwrap();
            me.set_affinity(CpuMask::one(last)).unwrap();
            assert_eq!(me.affinity().unwrap(), CpuMask::one(last));
            // SAFETY: the call takes nothing.
            assert_eq!(unsafe { libc::sched_getcpu() }, last as i32);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn all_threads_are_listed_with_their_names() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("of-the-test".into())
            .spawn(move || {
                tell.send(Tid::current()).unwrap();
                let _ = ended.recv();
            })
            .unwrap();
        let other = told.recv().unwrap();
        let all = Tid::all().unwrap();
        assert!(all.contains(&other) && all.contains(&Tid::current()));
        assert_eq!(other.name().as_deref(), Some("of-the-test"));
        drop(end);
        thread.join().unwrap();
    }

    #[test]
    fn what_a_realtime_thread_starts_is_no_realtime_thread() {
        std::thread::spawn(|| {
            let me = Tid::current();
            assert_eq!(me.policy().unwrap(), Policy::Fair);
            match me.set_fifo(3) {
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{error}");
                    eprintln!("not permitted here: {error}");
                    return;
                }
                Ok(()) => assert_eq!(me.policy().unwrap(), Policy::Fifo(3)),
            }
            let child = std::thread::spawn(|| Tid::current().policy().unwrap()).join().unwrap();
            assert_eq!(child, Policy::Fair);
            me.set_fair().unwrap();
            assert_eq!(me.policy().unwrap(), Policy::Fair);
        })
        .join()
        .unwrap();
    }
}
