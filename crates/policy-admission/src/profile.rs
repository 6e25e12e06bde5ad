//! How strict a runtime is: one value, given when it is built.
//!
//! Room: values.
//!
//! | | `:core` | `:service` | `:cluster` | `:sovereign` |
//! |---|---|---|---|---|
//! | scheduler | none | M:N | M:N and actors | M:N |
//! | capabilities | forbidden | implicit | supervisors' | explicit |
//! | budget | none | default | rechargeable | the user's |
//! | recharged by | nothing | the pool | and by supervisors | and by holders of `CapBudget` |
//! | loop rounds between checks | none | 1024 | 512 | the user's |
//!
//! Where there are no actors, there are neither supervisors nor `actor::spawn`. A profile applies to all code that
//! enters its runtime, and follows its tasks into other runtimes.
//!
//! Checked by `the_matrix_is_the_one_above`.

use std::{error::Error, fmt, num::NonZeroU32, str::FromStr};

use vocab::Budget;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// What a child gets of its nursery's pool by default.
const CHILD: Budget = budget(10_000, MIB, 0, 100, 10);

const fn budget(ops: u64, memory: u64, spawns: u64, channel_ops: u64, syscalls: u64) -> Budget {
    Budget { ops, memory, spawns, channel_ops, syscalls }
}

const fn interval(rounds: u32) -> NonZeroU32 {
    NonZeroU32::new(rounds).expect("loops are checked at the latest every so many rounds, and not never")
}

/// One of the four profiles.
///
/// ```
/// use policy_admission::{Capabilities, Profile};
///
/// let profile: Profile = ":cluster".parse()?;
/// assert_eq!(profile, Profile::Cluster);
/// assert_eq!(profile.capabilities(), Capabilities::Supervisor);
/// assert_eq!(profile.pool().ops, 1_000_000);
/// # Ok::<(), policy_admission::ParseProfileError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Profile {
    /// No scheduler: one thread, no tasks.
    Core,
    /// Tasks with a default budget; no capability needs to be named.
    #[default]
    Service,
    /// Tasks and actors, whose supervisors recharge them.
    Cluster,
    /// Nothing runs that was not granted by name.
    Sovereign(Sovereign),
}

/// The values that the user of `:sovereign` chooses.
///
/// ```
/// use policy_admission::{Profile, Sovereign};
/// use vocab::Budget;
///
/// const PROFILE: Profile = Profile::Sovereign(Sovereign::new(Budget::ops(1_000_000).spawns(10), Budget::ops(1_000)));
/// assert_eq!(PROFILE.child(), Budget::ops(1_000));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sovereign {
    pool: Budget,
    child: Budget,
    yield_interval: NonZeroU32,
}

impl Sovereign {
    /// Grants nothing: the meaning of `":sovereign"` until the user gives values.
    pub const NOTHING: Sovereign = Sovereign::new(Budget::ZERO, Budget::ZERO);

    /// This pool, and this much of it for each child.
    pub const fn new(pool: Budget, child: Budget) -> Self {
        Self { pool, child, yield_interval: interval(1024) }
    }

    /// The limit of loop rounds between checks; 1024 by default.
    #[must_use]
    pub const fn yield_interval(mut self, rounds: NonZeroU32) -> Self {
        self.yield_interval = rounds;
        self
    }
}

/// What runs tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Nothing: there are no tasks.
    None,
    /// Workers that share many cooperative tasks.
    Cooperative,
}

/// Where capabilities come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capabilities {
    /// There are none, and nothing that needs one.
    Forbidden,
    /// Every task has what its nursery has.
    Implicit,
    /// The same, and supervisors may recharge.
    Supervisor,
    /// Only what was given by name.
    Explicit,
}

/// Where budgets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BudgetRule {
    /// There are none.
    None,
    /// From the profile.
    Default,
    /// From the profile, and from supervisors when spent.
    Rechargeable,
    /// From the user.
    Custom,
}

/// What may recharge a task whose budget is spent. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Recharge {
    /// Nothing.
    None,
    /// Its nursery, from the pool.
    Pool,
    /// A supervisor, from its own pool.
    Supervisors,
    /// A holder of a `CapBudget`.
    Holders,
}

impl Profile {
    /// What runs tasks.
    pub const fn scheduler(&self) -> Scheduler {
        match self {
            Profile::Core => Scheduler::None,
            Profile::Service | Profile::Cluster | Profile::Sovereign(_) => Scheduler::Cooperative,
        }
    }

    /// Whether there are actors and supervisors.
    pub const fn actors(&self) -> bool {
        matches!(self, Profile::Cluster)
    }

    /// Where capabilities come from.
    pub const fn capabilities(&self) -> Capabilities {
        match self {
            Profile::Core => Capabilities::Forbidden,
            Profile::Service => Capabilities::Implicit,
            Profile::Cluster => Capabilities::Supervisor,
            Profile::Sovereign(_) => Capabilities::Explicit,
        }
    }

    /// Where budgets come from.
    pub const fn budget(&self) -> BudgetRule {
        match self {
            Profile::Core => BudgetRule::None,
            Profile::Service => BudgetRule::Default,
            Profile::Cluster => BudgetRule::Rechargeable,
            Profile::Sovereign(_) => BudgetRule::Custom,
        }
    }

    /// The pool of an outermost nursery.
    pub const fn pool(&self) -> Budget {
        match self {
            Profile::Core => Budget::ZERO,
            Profile::Service => budget(100_000, 10 * MIB, 100, 1_000, 100),
            Profile::Cluster => budget(1_000_000, 100 * MIB, 1_000, 10_000, 1_000),
            Profile::Sovereign(user) => user.pool,
        }
    }

    /// What a child gets of the pool.
    pub const fn child(&self) -> Budget {
        match self {
            Profile::Core => Budget::ZERO,
            Profile::Service | Profile::Cluster => CHILD,
            Profile::Sovereign(user) => user.child,
        }
    }

    /// The limit of loop rounds between two checks; `None` where nothing is checked.
    pub const fn yield_interval(&self) -> Option<NonZeroU32> {
        match self {
            Profile::Core => None,
            Profile::Service => Some(interval(1024)),
            Profile::Cluster => Some(interval(512)),
            Profile::Sovereign(user) => Some(user.yield_interval),
        }
    }

    /// What may recharge a task.
    pub const fn rechargeable(&self) -> Recharge {
        match self {
            Profile::Core => Recharge::None,
            Profile::Service => Recharge::Pool,
            Profile::Cluster => Recharge::Supervisors,
            Profile::Sovereign(_) => Recharge::Holders,
        }
    }

    /// Its name, with the colon.
    pub const fn name(&self) -> &'static str {
        match self {
            Profile::Core => ":core",
            Profile::Service => ":service",
            Profile::Cluster => ":cluster",
            Profile::Sovereign(_) => ":sovereign",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Profile {
    type Err = ParseProfileError;

    /// Reads a name, with or without its colon. `":sovereign"` is [`Sovereign::NOTHING`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Profile::Core, Profile::Service, Profile::Cluster, Profile::Sovereign(Sovereign::NOTHING)];
        let wanted = text.strip_prefix(':').unwrap_or(text);
        let found = all.into_iter().find(|profile| &profile.name()[1..] == wanted);
        found.ok_or_else(|| ParseProfileError { text: text.into() })
    }
}

/// The name of no profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseProfileError {
    text: Box<str>,
}

impl fmt::Display for ParseProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no profile {:?}; write :core, :service, :cluster or :sovereign", self.text)
    }
}

impl Error for ParseProfileError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_the_one_above() {
        let user = Sovereign::new(Budget::ops(7), Budget::ops(3)).yield_interval(interval(9));
        let (core, service, cluster, sovereign) =
            (Profile::Core, Profile::Service, Profile::Cluster, Profile::Sovereign(user));
        let row = |p: Profile| (p.scheduler(), p.actors(), p.capabilities(), p.budget(), p.rechargeable());
        use Scheduler::Cooperative;
        assert_eq!(row(core), (Scheduler::None, false, Capabilities::Forbidden, BudgetRule::None, Recharge::None));
        assert_eq!(row(service), (Cooperative, false, Capabilities::Implicit, BudgetRule::Default, Recharge::Pool));
        assert_eq!(
            row(cluster),
            (Cooperative, true, Capabilities::Supervisor, BudgetRule::Rechargeable, Recharge::Supervisors)
        );
        assert_eq!(row(sovereign), (Cooperative, false, Capabilities::Explicit, BudgetRule::Custom, Recharge::Holders));
        let intervals = [core, service, cluster, sovereign].map(|p| p.yield_interval().map(NonZeroU32::get));
        assert_eq!(intervals, [None, Some(1024), Some(512), Some(9)]);
        assert_eq!((sovereign.pool(), sovereign.child()), (Budget::ops(7), Budget::ops(3)));
    }

    #[test]
    fn pools_and_children_have_the_numbers_of_the_specification() {
        let numbers = |b: Budget| [b.ops, b.memory, b.spawns, b.channel_ops, b.syscalls];
        assert_eq!(numbers(Profile::Core.pool()), [0; 5]);
        assert_eq!(numbers(Profile::Core.child()), [0; 5]);
        assert_eq!(numbers(Profile::Service.pool()), [100_000, 10 << 20, 100, 1_000, 100]);
        assert_eq!(numbers(Profile::Cluster.pool()), [1_000_000, 100 << 20, 1_000, 10_000, 1_000]);
        for profile in [Profile::Service, Profile::Cluster] {
            assert_eq!(numbers(profile.child()), [10_000, 1 << 20, 0, 100, 10]);
            assert!(profile.pool().covers(&profile.child()));
        }
    }

    #[test]
    fn a_profile_is_read_as_it_is_written() {
        for profile in [Profile::Core, Profile::Service, Profile::Cluster, Profile::Sovereign(Sovereign::NOTHING)] {
            assert_eq!(profile.to_string().parse(), Ok(profile));
            assert_eq!(profile.name()[1..].parse(), Ok(profile));
        }
        assert_eq!(format!("[{:>9}]", Profile::Core), "[    :core]");
    }

    #[test]
    fn the_error_for_a_wrong_name_lists_the_right_ones() {
        for wrong in ["", ":", "::core", "Core", ":core ", ":servise"] {
            let error = wrong.parse::<Profile>().unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")) && error.contains(":service"), "{error}");
        }
    }
}
