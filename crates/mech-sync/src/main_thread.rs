//! Whether the end of a thread is the end of the process.
//!
//! Room: mechanism.

/// Whether the caller is the thread that the process began with. Its destructors run when the process ends. After a fork it is the thread that forked.
#[cfg(all(target_os = "linux", not(miri)))]
pub fn is_here() -> bool {
    // SAFETY: neither call has conditions, or can fail.
    unsafe { libc::gettid() == libc::getpid() }
}

/// The same where it cannot be asked.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub fn is_here() -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #[test]
    fn a_thread_that_was_started_is_not_the_main_thread() {
        assert!(!std::thread::spawn(super::is_here).join().unwrap());
    }
}
