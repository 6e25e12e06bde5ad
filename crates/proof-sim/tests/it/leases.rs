//! Isolation leases: conditions, revocation, the ends of their owners.

use policy_cpu::{
    ContextSpec, CpuSet, Evidence, Housekeeping, LeaseError, LeaseMode, LeaseSpec, LeaseState, ProcessId, Session,
    Stale,
};
use proof_sim::{Histogram, Machine, Program, Step};

use crate::{ms, us};

fn hog() -> Program {
    Program::forever(vec![Step::Run(ms(1000))])
}

fn clear() -> Evidence {
    Evidence { pinned: [CpuSet::NONE; 4], ring_consumers: 1, revocation_latency: us(10) }
}

fn spec(machine: &mut Machine, owner: ProcessId, cpus: CpuSet) -> LeaseSpec {
    LeaseSpec {
        owner,
        cpus,
        mode: LeaseMode::Exclusive,
        tolerated: [false; 4],
        accounting: machine.context(ContextSpec::new(ms(9), ms(10))),
        revocation_latency_max: us(50),
        endpoint: None,
    }
}

#[test]
fn each_condition_of_activation_is_refused_on_its_own() {
    let mut machine = Machine::new(4, 0);
    let owner = machine.process("owner");
    let base = spec(&mut machine, owner, CpuSet::one(3));
    let mut refusal = |change: &dyn Fn(&mut LeaseSpec, &mut Evidence)| {
        let (mut spec, mut evidence) = (base, clear());
        change(&mut spec, &mut evidence);
        let lease = machine.scheduler().grant_lease(spec).unwrap();
        let refused = machine.scheduler().activate_lease(lease, &evidence, 0).unwrap_err();
        assert_eq!(machine.scheduler().lease(lease).unwrap().state(), LeaseState::Granted, "nothing changed");
        let _ = machine.scheduler().revoke_lease(lease, 0).unwrap();
        refused
    };
    assert_eq!(
        refusal(&|spec, _| spec.cpus = CpuSet::first(4)),
        LeaseError::NoHousekeepingCpu { wanted: CpuSet::first(4) }
    );
    assert_eq!(refusal(&|spec, _| spec.cpus = CpuSet::one(9)), LeaseError::Unavailable { cpu: 9 });
    for (index, work) in Housekeeping::ALL.into_iter().enumerate() {
        let refused = refusal(&|_, evidence| evidence.pinned[index] = CpuSet::one(3));
        assert_eq!(refused, LeaseError::Pinned { cpu: 3, work });
    }
    for count in [0, 2] {
        let refused = refusal(&|spec, evidence| {
            spec.mode = LeaseMode::Polling;
            evidence.ring_consumers = count;
        });
        assert_eq!(refused, LeaseError::RingConsumers { count });
    }
    assert_eq!(
        refusal(&|_, evidence| evidence.revocation_latency = us(51)),
        LeaseError::RevocationTooSlow { latency: us(51), limit: us(50) }
    );
    // The accounting target is gone, or may not be used there.
    let elsewhere = machine.context(ContextSpec { cpus: CpuSet::one(0), ..ContextSpec::new(1, 2) });
    let gone = machine.context(ContextSpec::new(1, 2));
    let _ = machine.scheduler().revoke_context(gone, 0).unwrap();
    for accounting in [elsewhere, gone] {
        let lease = machine.scheduler().grant_lease(LeaseSpec { accounting, ..base }).unwrap();
        assert_eq!(machine.scheduler().activate_lease(lease, &clear(), 0), Err(LeaseError::NotChargeable));
    }
    // With all of it shown it is activated, once, and its CPU is taken.
    let lease = machine.scheduler().grant_lease(base).unwrap();
    let second = machine.scheduler().grant_lease(base).unwrap();
    assert!(machine.scheduler().activate_lease(lease, &clear(), 0).is_ok());
    assert_eq!(machine.scheduler().activate_lease(lease, &clear(), 0), Err(LeaseError::NotGranted));
    assert_eq!(machine.scheduler().activate_lease(second, &clear(), 0), Err(LeaseError::Unavailable { cpu: 3 }));
}

#[test]
fn a_leased_cpu_runs_threads_of_its_owner_alone() {
    let mut machine = Machine::new(2, 0);
    let (owner, others) = (machine.process("owner"), machine.process("others"));
    for number in 0..5 {
        machine.thread(&format!("hog{number}"), others).runs(hog());
    }
    machine
        .thread("pinned", owner)
        .cpus(CpuSet::one(1))
        .runs(Program::forever(vec![Step::Run(ms(1)), Step::Sleep(ms(1))]));
    // Before the lease two hogs share the CPU with it, and it may wait for 7 ms and an interrupt:
    // - The hogs' requests end at multiples of their slice of 3 ms, and none is picked for its next request before both have ended the last one (see
    //   `a_latency_sensitive_thread_is_served_sooner`). So it is picked at the latest when both reach the first such multiple behind its own runtime `v`: then its
    //   deadline is the earliest. That is at most `v + 3 ms`, and `2·(v + 3 ms − V)` of their time, where `V` is the mean of their runtimes.
    // - When it was picked last, it was eligible: `v <= V`. It ran for 1 ms and slept for 1 ms, in which `V` grew by 0.5 ms. So `v − V <= 0.5 ms` when it wakes.
    let before = machine.run_for(ms(50));
    assert!(before.thread("pinned").wait_max <= ms(7) + us(2), "{before}");
    assert_eq!(before.cpus[1].account.steals + before.cpus[0].account.steals, 0, "the hogs stayed where they were");
    let spec = spec(&mut machine, owner, CpuSet::one(1));
    let lease = machine.scheduler().grant_lease(spec).unwrap();
    let now = machine.now();
    let interrupt = machine.scheduler().activate_lease(lease, &clear(), now).unwrap();
    machine.send(interrupt);
    let before = machine.run_for(us(10));
    let after = machine.run_for(ms(1000));
    let busy = after.cpus[1].account.busy - before.cpus[1].account.busy;
    let own = after.used_by("pinned") - before.used_by("pinned");
    assert_eq!(busy, own, "no other thread runs there\n{after}");
    let [before, after_lease] = [&before, &after].map(|report| &report.thread("pinned").waits);
    let long = |waits: &Histogram| waits.count() - waits.count_up_to(us(2));
    assert!(after_lease.count() > before.count() + 400, "{after}");
    assert_eq!(long(after_lease), long(before), "alone it has to wait for an interrupt only\n{after}");
    assert!(after.cpus[0].account.idle <= us(2), "{after}");
}

#[test]
fn a_revoked_lease_gives_its_cpus_back_within_its_latency() {
    let mut machine = Machine::new(2, 0);
    let (owner, others) = (machine.process("owner"), machine.process("others"));
    for number in 0..4 {
        machine.thread(&format!("hog{number}"), others).runs(hog());
    }
    machine.thread("own", owner).cpus(CpuSet::one(1)).runs(hog());
    let spec = spec(&mut machine, owner, CpuSet::one(1));
    let lease = machine.scheduler().grant_lease(spec).unwrap();
    let interrupt = machine.scheduler().activate_lease(lease, &clear(), 0).unwrap();
    machine.send(interrupt);
    machine.run_for(ms(100));
    let now = machine.now();
    let interrupt = machine.scheduler().revoke_lease(lease, now).unwrap();
    machine.send(interrupt);
    machine.run_for(us(50));
    assert_eq!(machine.scheduler().lease(lease).map(|_| ()), Err(Stale), "it is over within 50 us");
    let before = machine.run_for(0).used_by("own");
    let after = machine.run_for(ms(1000));
    assert!(after.used_by("own") - before < ms(700), "others run there again\n{after}");
}

#[test]
fn the_end_of_its_owner_ends_a_lease() {
    let mut machine = Machine::new(2, 0);
    let (owner, others) = (machine.process("owner"), machine.process("others"));
    // It may run on the leased CPU only, so it stands still as long as the lease lasts.
    machine.thread("stranded", others).cpus(CpuSet::one(1)).runs(hog());
    let spec = spec(&mut machine, owner, CpuSet::one(1));
    let lease = machine.scheduler().grant_lease(spec).unwrap();
    let interrupt = machine.scheduler().activate_lease(lease, &clear(), 0).unwrap();
    machine.send(interrupt);
    let report = machine.run_for(ms(100));
    assert_eq!(report.used_by("stranded"), 0);
    let now = machine.now();
    let interrupt = machine.scheduler().exit_process(owner, now).unwrap();
    machine.send(interrupt);
    let report = machine.run_for(ms(100));
    assert_eq!(machine.scheduler().lease(lease).map(|_| ()), Err(Stale));
    assert!(report.used_by("stranded") >= ms(99), "{report}");
    assert!(machine.scheduler().exit_process(owner, now).is_err(), "a session is closed once");
}

#[test]
fn a_session_that_closes_ends_its_processes_leases_and_contexts() {
    let mut machine = Machine::new(3, 0);
    let (session, other) = (Session(7), Session(8));
    let processes = ["owner", "sibling", "stranger"].map(|name| machine.process(name));
    for (process, session) in processes.into_iter().zip([session, session, other]) {
        machine.scheduler().join_session(process, session).unwrap();
    }
    let spec = spec(&mut machine, processes[0], CpuSet::one(2));
    machine.scheduler().own_context(spec.accounting, session).unwrap();
    let kept = machine.context(ContextSpec::new(ms(1), ms(10)));
    machine.scheduler().own_context(kept, other).unwrap();
    for (number, process) in processes.into_iter().enumerate() {
        machine.thread(&format!("t{number}"), process).runs(hog());
    }
    machine.thread("reserved", processes[2]).context(spec.accounting).runs(hog());
    let lease = machine.scheduler().grant_lease(spec).unwrap();
    let interrupt = machine.scheduler().activate_lease(lease, &clear(), 0).unwrap();
    machine.send(interrupt);
    // Of another process, but to be paid by the session's context.
    let paid = LeaseSpec { owner: processes[2], cpus: CpuSet::one(1), ..spec };
    let paid = machine.scheduler().grant_lease(paid).unwrap();
    machine.run_for(ms(50));

    machine.close_session(session);
    let before = machine.run_for(us(100));
    assert_eq!(machine.scheduler().lease(lease).map(|_| ()), Err(Stale), "its CPU is given back");
    assert_eq!(machine.scheduler().lease(paid).map(|_| ()), Err(Stale), "no context pays for it any more");
    assert_eq!(machine.scheduler().context(spec.accounting).map(|_| ()), Err(Stale));
    assert!(machine.scheduler().context(kept).is_ok(), "other sessions are left alone");
    let after = machine.run_for(ms(100));
    for ended in ["t0", "t1"] {
        assert_eq!(after.used_by(ended), before.used_by(ended), "{ended} has ended\n{after}");
    }
    for left in ["t2", "reserved"] {
        assert!(after.used_by(left) - before.used_by(left) >= ms(99), "{left} has a CPU of its own now\n{after}");
    }
    machine.close_session(session); // a second time there is nothing to end
}

#[test]
fn work_of_others_falls_back_to_housekeeping_cpus_while_a_lease_lasts() {
    let mut machine = Machine::new(3, 0);
    let (owner, others) = (machine.process("owner"), machine.process("others"));
    for number in 0..6 {
        machine.thread(&format!("hog{number}"), others).runs(hog());
    }
    machine.run_for(ms(20));
    let spec = spec(&mut machine, owner, [1, 2].into_iter().collect());
    let lease = machine.scheduler().grant_lease(spec).unwrap();
    let now = machine.now();
    let interrupt = machine.scheduler().activate_lease(lease, &clear(), now).unwrap();
    machine.send(interrupt);
    let before = machine.run_for(us(20));
    let after = machine.run_for(ms(600));
    for number in 0..6 {
        let name = format!("hog{number}");
        let got = after.used_by(&name) - before.used_by(&name);
        assert!(got.abs_diff(ms(100)) <= ms(10), "all of them share CPU 0: {name} got {got}\n{after}");
    }
    for cpu in [1, 2] {
        assert_eq!(after.cpus[cpu].account.busy, before.cpus[cpu].account.busy, "CPU {cpu} is kept for its owner");
    }
}
