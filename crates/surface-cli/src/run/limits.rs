//! The limits of a run: built-in values, then the machine, the environment, the file, the command line.
//!
//! Room: decisions.
//!
//! # Invariant
//! A later setting wins, and the machine changes none of them, except for graphics cards: no card gets more memory than it
//! has.

use mech_process::machine;
use sched_jobs::{BadSetting, Config, Gpu};
use surface_jobfile::Resources;

use super::cards;
use super::options::LimitArgs;

/// The named resource by which `--jobs` counts. No file can declare it: names there have no spaces.
pub(crate) const AT_ONCE: &str = "jobs at once";

/// What the machine has, in MB (10^6 bytes).
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) cpus: usize,
    pub(crate) ram_mb: Option<u64>,
    /// Its graphics cards, if they were asked for.
    pub(crate) gpus: Vec<Gpu>,
}

impl Machine {
    /// This machine. Its graphics cards are read only if a job needs one: loading the driver's library takes a while.
    pub(crate) fn here(wants_card: bool) -> Self {
        let variable = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self {
            cpus: machine::cpus(),
            ram_mb: machine::memory_total_mb(),
            gpus: if wants_card { cards::found(variable) } else { Vec::new() },
        }
    }

    /// Memory for jobs: an eighth stays for everything else that runs here, and never less than 512 MB.
    fn ram_for_jobs(&self) -> Option<u64> {
        self.ram_mb.map(|mb| mb.saturating_sub((mb / 8).max(512)).max(1))
    }
}

/// All settings of a run, and the variables of the environment that are not valid.
pub(crate) fn settle(
    machine: &Machine,
    environment: impl Fn(&str) -> Option<String>,
    file: &Resources,
    asked: &LimitArgs,
) -> (Config, Vec<BadSetting>) {
    let mut config = Config::for_cpus(machine.cpus);
    // Commands run in processes of their own, so a slot for each CPU is right: our own threads hardly run.
    config.limits.cpu_slots = u32::try_from(machine.cpus).unwrap_or(u32::MAX);
    if let Some(mb) = machine.ram_for_jobs() {
        config.limits.ram_mb = mb;
    }
    let built_in = config.limits.vram_mb;
    let (mut config, bad) = config.changed_by(environment);
    let limits = &mut config.limits;
    limits.cpu_slots = asked.cpu.or(file.cpu).unwrap_or(limits.cpu_slots);
    limits.ram_mb = asked.ram.or(file.ram_mb).unwrap_or(limits.ram_mb);
    // The built-in figure is a guess for a machine with unknown cards: it is no limit for known ones.
    let said = asked.vram.or(file.vram_mb).or(Some(limits.vram_mb).filter(|mb| *mb != built_in));
    limits.gpus = cards::allowed(&machine.gpus, asked.gpus.or(file.gpus), said);
    limits.vram_mb = match limits.gpus.iter().try_fold(0_u64, |sum, gpu| (gpu.vram_mb > 0).then(|| sum + gpu.vram_mb)) {
        _ if limits.gpus.is_empty() => said.unwrap_or(limits.vram_mb),
        sum => sum.unwrap_or(0),
    };
    limits.named = file.named.clone();
    let at_once = asked.jobs.map(|jobs| (AT_ONCE.to_owned(), u64::from(jobs)));
    for (name, amount) in asked.resource.iter().cloned().chain(at_once) {
        limits.named.retain(|(known, _)| *known != name);
        limits.named.push((name, amount));
    }
    config.scheduler = asked.scheduler.unwrap_or(config.scheduler);
    (config, bad)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sched_jobs::Scheduler;

    const MACHINE: Machine = Machine { cpus: 12, ram_mb: Some(32_000), gpus: Vec::new() };

    fn settled(environment: &[(&str, &str)], file: &Resources, asked: &LimitArgs) -> Config {
        let lookup =
            |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let (config, bad) = settle(&MACHINE, lookup, file, asked);
        assert!(bad.is_empty(), "{bad:?}");
        config
    }

    #[test]
    fn what_is_not_given_is_taken_from_the_machine() {
        let limits = settled(&[], &Resources::default(), &LimitArgs::default()).limits;
        assert_eq!((limits.cpu_slots, limits.ram_mb, limits.vram_mb), (12, 28_000, 7_680));
        let small = Machine { ram_mb: Some(1_000), ..MACHINE };
        assert_eq!(settle(&small, |_| None, &Resources::default(), &LimitArgs::default()).0.limits.ram_mb, 488);
        let tiny = Machine { ram_mb: Some(100), ..MACHINE };
        let limits = settle(&tiny, |_| None, &Resources::default(), &LimitArgs::default()).0.limits;
        assert_eq!(limits.ram_mb, 1, "0 would mean no limit");
    }

    #[test]
    fn the_environment_goes_before_the_machine_the_file_before_it_and_the_command_line_before_all() {
        let environment =
            [("BURSAR_SCHED_CPU_SLOTS", "3"), ("BURSAR_SCHED_RAM_MB_SOFT", "300"), ("BURSAR_SCHEDULER", "simple")];
        let nothing = (Resources::default(), LimitArgs::default());
        let config = settled(&environment, &nothing.0, &nothing.1);
        assert_eq!((config.limits.cpu_slots, config.limits.ram_mb, config.scheduler), (3, 300, Scheduler::Simple));
        let file = Resources { cpu: Some(4), ram_mb: Some(400), named: vec![("licence".into(), 2)], ..nothing.0 };
        let limits = settled(&environment, &file, &nothing.1).limits;
        assert_eq!((limits.cpu_slots, limits.ram_mb), (4, 400));
        let asked = LimitArgs { cpu: Some(5), ram: Some(0), resource: vec![("licence".into(), 7)], ..nothing.1 };
        let limits = settled(&environment, &file, &asked).limits;
        assert_eq!((limits.cpu_slots, limits.ram_mb, limits.named), (5, 0, vec![("licence".into(), 7)]));
    }

    #[test]
    fn what_a_resumed_run_is_asked_goes_before_what_it_was_asked_first() {
        let before = LimitArgs {
            cpu: Some(1),
            ram: Some(100),
            resource: vec![("a".into(), 1), ("b".into(), 1)],
            ..LimitArgs::default()
        };
        let now = LimitArgs { cpu: Some(2), resource: vec![("b".into(), 2)], ..LimitArgs::default() };
        let asked = now.over(before);
        assert_eq!((asked.cpu, asked.ram), (Some(2), Some(100)));
        assert_eq!(asked.resource, [("a".into(), 1), ("b".into(), 2)]);
    }
}
