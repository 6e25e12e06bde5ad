//! Scheduling contexts of tasks: so much CPU time in each period.
//!
//! Room: values.

use std::{fmt, time::Duration};

use policy_admission::service::Reserve;
use policy_cpu::{ContextSpec, Nanos};

/// The longest period: 100 years. Times are added up as nanoseconds, in 64 bits.
pub(crate) const PERIOD_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// What happens to tasks whose [`Context`] has no time left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Overrun {
    /// They wait until time comes back.
    #[default]
    Throttle,
    /// They go on with the weight of their nursery, among those that have no context, until time comes back.
    Demote,
    /// The nursery is cancelled, with [`Reason::CpuTimeSpent`](crate::Reason::CpuTimeSpent).
    Cancel,
}

/// A right to so much CPU time in each period, and no more: a sporadic server.
///
/// What was used comes back one period after it could be used first. Time is charged when a task stops, and a task stops at checkpoints: what it uses beyond its time is taken from the next
/// period.
///
/// ```
/// use std::time::Duration;
/// use bursar::cpu::{Context, Overrun};
///
/// let context = Context::budget(Duration::from_micros(300)).period(Duration::from_millis(5)).on_overrun(Overrun::Demote);
/// assert_eq!(context.to_string(), "300µs in every 5ms");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    budget: Duration,
    period: Duration,
    deadline: Option<Duration>,
    overrun: Overrun,
}

impl Context {
    /// So much in every 100 ms.
    pub const fn budget(budget: Duration) -> Self {
        Self { budget, period: Duration::from_millis(100), deadline: None, overrun: Overrun::Throttle }
    }

    /// In every `period` instead.
    #[must_use]
    pub const fn period(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// By when, after it came back, time should have been served: contexts with earlier deadlines go first. Default: the period.
    #[must_use]
    pub const fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// What happens when no time is left. Default: tasks wait.
    #[must_use]
    pub const fn on_overrun(mut self, overrun: Overrun) -> Self {
        self.overrun = overrun;
        self
    }

    /// That of a profile of the CPU policy.
    pub(crate) fn of(reserve: &Reserve) -> Self {
        Self {
            budget: Duration::from_nanos(reserve.budget),
            period: Duration::from_nanos(reserve.period),
            deadline: Some(Duration::from_nanos(reserve.deadline)),
            overrun: match reserve.overrun {
                policy_cpu::Overrun::Throttle => Overrun::Throttle,
                policy_cpu::Overrun::Demote => Overrun::Demote,
                policy_cpu::Overrun::Stop => Overrun::Cancel,
            },
        }
    }

    pub(crate) const fn overrun(&self) -> Overrun {
        self.overrun
    }

    /// The same as `policy-cpu` has it; none if budget, deadline and period are not in order.
    pub(crate) fn spec(&self) -> Option<ContextSpec> {
        let spec = self.asked();
        (spec.is_valid() && self.period <= PERIOD_MAX).then_some(spec)
    }

    /// The same, in order or not, and as far as it can be counted.
    pub(crate) fn asked(&self) -> ContextSpec {
        let nanos = |time: Duration| Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX);
        let mut spec = ContextSpec::new(nanos(self.budget), nanos(self.period));
        spec.deadline = nanos(self.deadline.unwrap_or(self.period));
        spec
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in every {:?}", self.budget, self.period)
    }
}
