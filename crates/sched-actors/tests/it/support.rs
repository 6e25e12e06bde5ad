//! What these tests share: waiting. What they share with those of other crates is in `test-support`.

/// Waits, without blocking a worker, until something is so.
pub(crate) fn until(what: impl Fn() -> bool) {
    while !what() {
        sched_tasks::yield_now();
        if sched_tasks::current_task().is_none() {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }
}
