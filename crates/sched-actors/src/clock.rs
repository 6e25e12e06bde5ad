//! Deadlines on the runtime's clock.
//!
//! Room: driver.

use std::time::{Duration, Instant};

use sched_tasks::now;

/// A duration that can be added to any instant: a hundred years.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The end of a duration that begins now.
pub(crate) fn due(time: Duration) -> Instant {
    now() + time.min(FAR)
}
