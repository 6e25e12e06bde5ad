//! Random machines, with every law checked at every event.

use policy_cpu::{Capacity, Class, ContextSpec, CpuSet, Latency, Overrun, Policy, Weight};
use proof_sim::{Machine, Program, Step};
use test_support::Dice;

use crate::{ms, us};

/// A random machine that runs for a while, with random changes in between. What the run came to.
fn run(seed: u64) -> String {
    let dice = Dice::new(seed);
    let cpus = dice.one_of(&[1, 2, 3, 4, 8, 17]);
    let policy = [Policy::Eevdf, Policy::Eevdf, Policy::Wfq, Policy::RoundRobin][seed as usize % 4];
    let mut machine = Machine::with_policy(Capacity::cpus(cpus), policy, seed);
    machine.interrupt_latency(dice.one_of(&[1, us(2), us(40)]));
    let processes = [machine.process("a"), machine.process("b"), machine.process("c")];
    let contexts: Vec<_> = (0..4)
        .map(|_| {
            let period = ms(1 + dice.below(40));
            let spec = ContextSpec {
                overrun: dice.one_of(&[Overrun::Throttle, Overrun::Demote, Overrun::Stop]),
                endpoint: dice.chance(50).then_some(policy_cpu::Endpoint(1)),
                ..ContextSpec::new(1 + dice.below(period / 2), period)
            };
            machine.context(spec)
        })
        .collect();
    let servers: Vec<u32> = (0..2)
        .map(|number| {
            machine.thread(&format!("server{number}"), processes[0]).runs(Program::server(us(1 + dice.below(800))))
        })
        .collect();
    for number in 0..4 + dice.below(20) {
        let mut steps = Vec::new();
        for _ in 0..1 + dice.below(4) {
            steps.push(match dice.below(8) {
                0 => Step::SleepBetween(0, ms(5)),
                1 => Step::Sleep(us(1 + dice.below(3000))),
                2 => Step::Call(dice.one_of(&servers)),
                3 => Step::Yield,
                _ => Step::RunBetween(1, ms(4)),
            });
        }
        steps.push(Step::Run(us(50)));
        let program = if dice.chance(85) { Program::forever(steps) } else { Program::once(steps) };
        let mut thread = machine
            .thread(&format!("t{number}"), dice.one_of(&processes))
            .weight(dice.one_of(&[1024, 1024, 100, 5000]))
            .latency(dice.one_of(&[Latency::Sensitive, Latency::Normal, Latency::Batch]))
            .class(if dice.chance(10) { Class::Idle } else { Class::Fair });
        if dice.chance(20) {
            thread = thread.context(dice.one_of(&contexts));
        }
        if dice.chance(15) {
            thread = thread.cpus(CpuSet::one(dice.below(u64::from(cpus)) as u32));
        }
        thread.runs(program);
    }
    let mut report = machine.run_for(0);
    for _ in 0..12 {
        report = machine.run_for(dice.below(ms(20)));
        let names: Vec<String> = report.threads.iter().map(|thread| thread.name.clone()).collect();
        let name = dice.one_of(&names);
        let now = machine.now();
        let thread = machine.scheduler().threads().map(|(id, _)| id).nth(dice.below(4) as usize);
        let interrupt = match (dice.below(7), thread) {
            (0, _) if name.starts_with('t') => {
                machine.kill(&name);
                continue;
            }
            (1, _) => machine.scheduler().revoke_context(dice.one_of(&contexts), now).unwrap_or_default(),
            (2, Some(thread)) => {
                machine.scheduler().set_weight(thread, Weight::clamped(1 + dice.below(9000) as u32), now).unwrap();
                continue;
            }
            (3, Some(thread)) => machine.scheduler().migrate(thread, dice.below(u64::from(cpus)) as u32, now).unwrap(),
            (4, Some(thread)) => machine.scheduler().bind(thread, None, now).unwrap(),
            (5, Some(thread)) => {
                machine.scheduler().bind(thread, Some(dice.one_of(&contexts)), now).unwrap_or_default()
            }
            (6, Some(thread)) => machine.scheduler().resume(thread, now).unwrap(),
            _ => continue,
        };
        machine.send(interrupt);
    }
    format!("{report}{} events", report.events)
}

#[test]
fn laws_hold_on_random_machines() {
    test_support::for_seeds("laws_hold_on_random_machines", 0..400, |seed| {
        run(seed);
    });
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [1, 77, 4711] {
        assert_eq!(run(seed), run(seed));
    }
}
