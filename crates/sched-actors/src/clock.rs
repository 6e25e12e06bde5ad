//! Deadlines.

use std::time::{Duration, Instant};

use sched_tasks::now;

/// A time that can be added to any moment: a hundred years.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The end of a time that begins now.
pub(crate) fn due(time: Duration) -> Instant {
    now() + time.min(FAR)
}
