//! The configuration of a scheduler: built-in values, then the environment, then the program.
//!
//! Room: interface.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use policy_jobs::{Aging, Limits};

/// Which driver runs the jobs. Both keep the same contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Scheduler {
    /// Several workers, and a pick that does not visit every job.
    #[default]
    Threadpool,
    /// One job at a time, picked by evaluating the formula for every job. Slow with many jobs, and easy to understand.
    Simple,
}

impl Scheduler {
    /// Its name, as in `BURSAR_SCHEDULER`.
    pub const fn name(self) -> &'static str {
        match self {
            Scheduler::Threadpool => "threadpool",
            Scheduler::Simple => "simple",
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheduler {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "threadpool" => Ok(Scheduler::Threadpool),
            "simple" => Ok(Scheduler::Simple),
            _ => Err(()),
        }
    }
}

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Which driver.
    pub scheduler: Scheduler,
    /// Threads that run closures.
    pub workers: usize,
    /// What all jobs together may use.
    pub limits: Limits,
    /// How waiting raises rank.
    pub aging: Aging,
    /// How long a running job may take to reach a checkpoint when it is asked to pause.
    pub pause_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Self::for_cpus(cpus)
    }
}

impl Config {
    /// The built-in values for a machine with this many CPUs.
    pub fn for_cpus(cpus: usize) -> Self {
        let workers = cpus.saturating_sub(1).clamp(2, 8);
        Self {
            scheduler: Scheduler::default(),
            workers,
            limits: Limits {
                cpu_slots: workers as u32,
                ram_mb: 2048,
                vram_mb: 7680,
                gpus: Vec::new(),
                named: Vec::new(),
            },
            aging: Aging::default(),
            pause_timeout: Duration::from_millis(1500),
        }
    }

    /// The built-in values, changed by the environment: `BURSAR_SCHEDULER`, `BURSAR_SCHED_WORKERS`, `BURSAR_SCHED_CPU_SLOTS`,
    /// `BURSAR_SCHED_RAM_MB_SOFT`, `BURSAR_SCHED_VRAM_MB_SOFT`, `BURSAR_SCHED_AGING_INTERVAL_MS`, `BURSAR_SCHED_AGING_BOOST`,
    /// `BURSAR_SCHED_PAUSE_TIMEOUT_MS`, or the same with `STV_` for `BURSAR_`. An invalid value is reported, and the
    /// built-in one is used.
    pub fn from_env() -> (Self, Vec<BadSetting>) {
        Self::default().changed_by(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()))
    }

    /// These values, changed by what `lookup` finds under the names of [`from_env`](Self::from_env).
    pub fn changed_by(mut self, lookup: impl Fn(&str) -> Option<String>) -> (Self, Vec<BadSetting>) {
        let mut bad = Vec::new();
        let mut settings = Settings { lookup: &lookup, bad: &mut bad };
        settings.apply("SCHEDULER", "threadpool or simple", &mut self.scheduler, |text| text.parse().ok());
        let workers_before = self.workers;
        settings.apply("SCHED_WORKERS", "a number from 1 to 1024", &mut self.workers, |text| {
            text.parse().ok().filter(|workers| (1..=1024).contains(workers))
        });
        if self.workers != workers_before {
            self.limits.cpu_slots = self.workers as u32;
        }
        settings.apply("SCHED_CPU_SLOTS", "a number from 1 to 1000000", &mut self.limits.cpu_slots, |text| {
            text.parse().ok().filter(|slots| (1..=1_000_000).contains(slots))
        });
        const MB: &str = "a number of megabytes, 0 for no limit";
        settings.apply("SCHED_RAM_MB_SOFT", MB, &mut self.limits.ram_mb, |text| text.parse().ok());
        settings.apply("SCHED_VRAM_MB_SOFT", MB, &mut self.limits.vram_mb, |text| text.parse().ok());
        const MS: &str = "a number of milliseconds";
        let ms = |text: &str| text.parse().ok().map(Duration::from_millis);
        settings.apply("SCHED_AGING_INTERVAL_MS", MS, &mut self.aging.interval, ms);
        settings.apply("SCHED_AGING_BOOST", "a number, 0 or more", &mut self.aging.boost, |text| text.parse().ok());
        settings.apply("SCHED_PAUSE_TIMEOUT_MS", MS, &mut self.pause_timeout, ms);
        (self, bad)
    }
}

struct Settings<'a, F> {
    lookup: &'a F,
    bad: &'a mut Vec<BadSetting>,
}

impl<F: Fn(&str) -> Option<String>> Settings<'_, F> {
    fn apply<T: fmt::Debug>(
        &mut self,
        name: &str,
        expected: &'static str,
        to: &mut T,
        parse: impl Fn(&str) -> Option<T>,
    ) {
        for prefix in ["BURSAR_", "STV_"] {
            let variable = format!("{prefix}{name}");
            let Some(value) = (self.lookup)(&variable) else { continue };
            match parse(value.trim()) {
                Some(value) => *to = value,
                None => self.bad.push(BadSetting { variable, value, expected, used: format!("{to:?}").to_lowercase() }),
            }
            return;
        }
    }
}

/// An invalid setting in the environment, which was ignored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadSetting {
    /// Its name.
    pub variable: String,
    /// Its value.
    pub value: String,
    /// What it should be.
    pub expected: &'static str,
    /// What is used instead.
    pub used: String,
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, value, expected, used } = self;
        write!(f, "{variable}=`{value}` should be {expected}; using {used}")
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::{Config, Scheduler};

    fn with(values: &[(&str, &str)]) -> (Config, Vec<String>) {
        let find = |name: &str| values.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let (config, bad) = Config::for_cpus(4).changed_by(find);
        (config, bad.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn workers_are_one_less_than_the_cpus_but_two_to_eight() {
        let workers = [1, 2, 3, 4, 9, 64].map(|cpus| Config::for_cpus(cpus).workers);
        assert_eq!(workers, [2, 2, 2, 3, 8, 8]);
        let config = Config::for_cpus(64);
        assert_eq!((config.limits.cpu_slots, config.limits.ram_mb, config.limits.vram_mb), (8, 2048, 7680));
        assert_eq!((config.aging.interval, config.aging.boost), (Duration::from_millis(500), 1));
        assert_eq!(config.pause_timeout, Duration::from_millis(1500));
    }

    #[test]
    fn the_environment_changes_every_value_under_both_spellings() {
        for prefix in ["BURSAR_", "STV_"] {
            let names = [
                "SCHEDULER",
                "SCHED_WORKERS",
                "SCHED_CPU_SLOTS",
                "SCHED_RAM_MB_SOFT",
                "SCHED_VRAM_MB_SOFT",
                "SCHED_AGING_INTERVAL_MS",
                "SCHED_AGING_BOOST",
                "SCHED_PAUSE_TIMEOUT_MS",
            ];
            let names = names.map(|name| format!("{prefix}{name}"));
            let values = ["simple", "5", "6", "7", "8", "9", "10", "11"];
            let pairs: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(values).collect();
            let (config, bad) = with(&pairs);
            assert!(bad.is_empty(), "{bad:?}");
            assert_eq!((config.scheduler, config.workers, config.limits.cpu_slots), (Scheduler::Simple, 5, 6));
            assert_eq!((config.limits.ram_mb, config.limits.vram_mb), (7, 8));
            assert_eq!((config.aging.interval, config.aging.boost), (Duration::from_millis(9), 10));
            assert_eq!(config.pause_timeout, Duration::from_millis(11));
        }
    }

    #[test]
    fn the_bursar_prefix_takes_precedence_over_the_old_one() {
        let (config, _) = with(&[("BURSAR_SCHED_CPU_SLOTS", "3"), ("STV_SCHED_CPU_SLOTS", "9")]);
        assert_eq!(config.limits.cpu_slots, 3);
    }

    #[test]
    fn slots_follow_the_workers_unless_they_are_set() {
        assert_eq!(with(&[("BURSAR_SCHED_WORKERS", "7")]).0.limits.cpu_slots, 7);
    }

    #[test]
    fn an_invalid_value_is_named_and_ignored() {
        let (config, bad) = with(&[("BURSAR_SCHED_WORKERS", "many"), ("STV_SCHEDULER", "fast")]);
        assert_eq!(config, Config::for_cpus(4));
        assert_eq!(
            bad,
            [
                "STV_SCHEDULER=`fast` should be threadpool or simple; using threadpool",
                "BURSAR_SCHED_WORKERS=`many` should be a number from 1 to 1024; using 3"
            ]
        );
    }
}
