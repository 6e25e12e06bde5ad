//! Realtime islands: admitted as a whole, then run beside hogs on the simulated machine.

use policy_admission::cpu::{AdmitError, CpuAdmission, Island};
use policy_cpu::{ContextSpec, CpuSet, Endpoint, Evidence, LeaseMode, LeaseSpec, Location, Overrun};
use proof_sim::{Machine, Program, Report, Step};

use crate::{ms, us};

const TASKS: [(&str, u64, u64); 3] = [("capture", 400, 5), ("mix", 1_200, 5), ("meter", 900, 20)];

fn spec(budget_us: u64, period_ms: u64) -> ContextSpec {
    ContextSpec {
        overrun: Overrun::Stop,
        endpoint: Some(Endpoint(1)),
        ..ContextSpec::new(us(budget_us), ms(period_ms))
    }
}

fn island() -> Island {
    TASKS
        .into_iter()
        .fold(Island::new("audio").lease(1), |island, (name, budget, period)| island.task(name, spec(budget, period)))
}

/// Runs the tasks where admission put them, each using so many thousandths of its budget, beside hogs.
fn run(use_permille: u64) -> (Machine, Report) {
    let mut admission = CpuAdmission::new(3);
    let admitted = admission.admit(&island()).unwrap();
    let mut machine = Machine::new(3, 4);
    let (owner, others) = (machine.process("audio"), machine.process("others"));
    for (name, budget, period) in TASKS {
        let cpus = CpuSet::one(admitted.cpu_of(name).unwrap());
        let context = machine.named_context(name, ContextSpec { cpus, ..spec(budget, period) });
        let time = us(budget) * use_permille / 1000;
        machine
            .thread(name, owner)
            .context(context)
            .deadline(ms(period))
            .runs(Program::forever(vec![Step::Run(time), Step::Sleep(ms(period))]));
    }
    for number in 0..9 {
        machine.thread(&format!("hog{number}"), others).runs(Program::forever(vec![Step::Run(ms(1000))]));
    }
    let accounting = machine.context(ContextSpec::new(ms(10), ms(10)));
    let lease = LeaseSpec {
        owner,
        cpus: admitted.leased(),
        mode: LeaseMode::Exclusive,
        tolerated: [false; 4],
        accounting,
        revocation_latency_max: us(50),
        endpoint: None,
    };
    let lease = machine.scheduler().grant_lease(lease).unwrap();
    let evidence = Evidence { pinned: [CpuSet::NONE; 4], ring_consumers: 0, revocation_latency: us(10) };
    let interrupt = machine.scheduler().activate_lease(lease, &evidence, 0).unwrap();
    machine.send(interrupt);
    let report = machine.run_for(ms(2000));
    (machine, report)
}

#[test]
fn an_admitted_island_misses_no_deadline_beside_hogs() {
    let (_, report) = run(980);
    for (name, _, period) in TASKS {
        let thread = report.thread(name);
        assert!(thread.deadlines >= 2000 / period / 2 && thread.misses == 0, "{name}\n{report}");
    }
    assert!(report.notices.is_empty(), "{:?}", report.notices);
}

#[test]
fn an_island_that_does_not_fit_is_refused_as_a_whole() {
    let mut admission = CpuAdmission::new(3);
    let refused = admission.admit(&island().task("greedy", spec(18_000, 20))).unwrap_err();
    assert!(refused.to_string().contains("greedy needs 18 ms in every 20 ms"), "{refused}");
    let refused = admission.admit(&island().lease(3)).unwrap_err();
    assert!(matches!(refused, AdmitError::NoHousekeepingCpu { .. }), "{refused}");
    assert!((0..3).all(|cpu| admission.used_permille(cpu) == 0), "nothing is left behind");
    assert!(admission.admit(&island()).is_ok());
}

#[test]
fn a_task_of_an_island_that_overruns_is_stopped_and_told_and_the_others_go_on() {
    let (mut machine, report) = run(1_050);
    // It fails closed: each used its first budget, was stopped, and said so once.
    assert_eq!(report.notices.len(), TASKS.len(), "{:?}", report.notices);
    for (name, budget, _) in TASKS {
        let id = machine.id_of(name);
        assert_eq!(machine.scheduler().thread(id).unwrap().location(), Location::Stopped, "{name}");
        assert!(report.used_by(name) <= us(budget) + us(2), "{name}\n{report}");
    }
    assert!(report.cpus.iter().filter(|cpu| cpu.account.idle < ms(10)).count() >= 2, "hogs go on\n{report}");
}

#[test]
fn a_deadline_that_is_missed_is_counted() {
    let mut machine = Machine::new(1, 0);
    let process = machine.process("p");
    // Never admitted: together they want more than there is.
    for name in ["a", "b"] {
        let context = machine.context(ContextSpec::new(ms(6), ms(10)));
        machine
            .thread(name, process)
            .context(context)
            .deadline(ms(10))
            .runs(Program::forever(vec![Step::Run(ms(6)), Step::Sleep(ms(1))]));
    }
    let report = machine.run_for(ms(1000));
    let (misses, all) =
        report.threads.iter().fold((0, 0), |(misses, all), thread| (misses + thread.misses, all + thread.deadlines));
    assert!(misses > 20 && misses <= all, "{misses} of {all}\n{report}");
}
