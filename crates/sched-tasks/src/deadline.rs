//! A time that is some time later.
//!
//! Room: values.

use std::time::{Duration, Instant};

/// Further away than any wait: a deadline beyond what an `Instant` can hold is no deadline.
const FAR: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// `after` later, or so late that no wait lasts until then.
pub(crate) fn later(now: Instant, after: Duration) -> Instant {
    now.checked_add(after).unwrap_or_else(|| now + FAR)
}
