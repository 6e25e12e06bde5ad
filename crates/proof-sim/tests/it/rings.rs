//! Submission rings: what a polled ring needs, who pays for it, and what a deadline of a request is worth.

use policy_cpu::{ContextId, ContextSpec, CpuSet, LeaseError, LeaseMode, LeaseSpec, ProcessId};
use proof_sim::{Late, Machine, Program, RingError, RingSpec, Step};

use crate::{ms, us};

fn hog() -> Program {
    Program::forever(vec![Step::Run(ms(1000))])
}

fn consumer(ring: u32) -> Program {
    Program::forever(vec![Step::Poll(ring)])
}

fn polling(owner: ProcessId, accounting: ContextId) -> LeaseSpec {
    LeaseSpec {
        owner,
        cpus: CpuSet::one(1),
        mode: LeaseMode::Polling,
        tolerated: [false; 4],
        accounting,
        revocation_latency_max: us(50),
        endpoint: None,
    }
}

/// Two CPUs, hogs that want both, and a ring whose consumer is charged to a context.
struct Site {
    machine: Machine,
    owner: ProcessId,
    ring: u32,
    context: ContextId,
}

fn site(spec: RingSpec, budget: u64) -> Site {
    let mut machine = Machine::new(2, 9);
    let (owner, others) = (machine.process("owner"), machine.process("others"));
    let ring = machine.add_ring(spec);
    let context = machine.context(ContextSpec::new(budget, ms(10)));
    machine.thread("consumer", owner).context(context).runs(consumer(ring));
    for number in 0..4 {
        machine.thread(&format!("hog{number}"), others).runs(hog());
    }
    Site { machine, owner, ring, context }
}

#[test]
fn each_condition_of_polling_is_refused_on_its_own() {
    let Site { mut machine, owner, ring, context } = site(RingSpec::new("r", ms(1), us(50)), ms(9));
    let lease = polling(owner, context);
    let refused = machine.poll_ring(ring, LeaseSpec { mode: LeaseMode::Exclusive, ..lease }).unwrap_err();
    assert_eq!(refused, RingError::NotForPolling);
    // No lease without CPUs that are there.
    let refused = machine.poll_ring(ring, LeaseSpec { cpus: CpuSet::one(7), ..lease }).unwrap_err();
    assert_eq!(refused, RingError::Lease(LeaseError::Unavailable { cpu: 7 }));
    // Nothing to charge: the context is gone, or the consumer runs by another.
    let gone = machine.context(ContextSpec::new(1, 2));
    let _ = machine.scheduler().revoke_context(gone, 0).unwrap();
    let refused = machine.poll_ring(ring, LeaseSpec { accounting: gone, ..lease }).unwrap_err();
    assert_eq!(refused, RingError::Lease(LeaseError::NotChargeable));
    let other = machine.context(ContextSpec::new(1, 2));
    assert_eq!(machine.poll_ring(ring, LeaseSpec { accounting: other, ..lease }), Err(RingError::NotCharged));
    // No consumer, and two.
    let empty = machine.add_ring(RingSpec::new("empty", ms(1), us(1)));
    let refused = machine.poll_ring(empty, lease).unwrap_err();
    assert_eq!(refused, RingError::Lease(LeaseError::RingConsumers { count: 0 }));
    machine.thread("second", owner).context(context).runs(consumer(ring));
    let refused = machine.poll_ring(ring, lease).unwrap_err();
    assert_eq!(refused, RingError::Lease(LeaseError::RingConsumers { count: 2 }));
    machine.kill("second");
    assert!(machine.poll_ring(ring, lease).is_ok(), "with all of it, it is polled");
}

#[test]
fn a_polled_ring_is_served_at_once_and_every_look_is_charged_to_its_context() {
    let spec = RingSpec { every: (us(200), us(900)), ..RingSpec::new("r", 0, us(50)) };
    let Site { mut machine, owner, ring, context } = site(spec, ms(10));
    machine.poll_ring(ring, polling(owner, context)).unwrap();
    let report = machine.run_for(ms(500));
    let counted = &report.rings[0];
    assert!(counted.served > 700 && counted.submitted - counted.served <= 2, "{counted:?}");
    // A look of 10 µs may have begun before, and the first one was asleep.
    assert!(counted.latency.max() <= us(50 + 10 + 50 + 10), "{counted:?}");
    assert!(counted.empty_polls > 1_000, "{counted:?}");
    let charged = machine.scheduler().context(context).unwrap().charged();
    assert_eq!(charged, report.used_by("consumer"), "looks that find nothing are paid for, too");
    assert!(charged > ms(490), "{report}");
}

#[test]
fn without_a_lease_a_ring_wakes_its_consumer() {
    let Site { mut machine, .. } = site(RingSpec::new("r", ms(1), us(50)), ms(9));
    let report = machine.run_for(ms(500));
    let counted = &report.rings[0];
    assert!(counted.served >= 498 && counted.empty_polls == 0, "{counted:?}");
    assert!(report.used_by("consumer").abs_diff(us(50) * counted.served) <= us(50), "it sleeps in between\n{report}");
}

#[test]
fn a_deadline_of_a_request_is_counted_and_grants_no_time() {
    let run = |deadline| {
        let spec = RingSpec { deadline, every: (us(100), us(900)), ..RingSpec::new("r", 0, us(300)) };
        let Site { mut machine, .. } = site(spec, ms(4));
        let report = machine.run_for(ms(1000));
        let ring = report.rings[0].clone();
        let used: Vec<u64> = report.threads.iter().map(|thread| thread.account.runtime).collect();
        (used, ring.served, ring.missed)
    };
    let (without, served, none) = run(None);
    let (with, also_served, missed) = run(Some(us(400)));
    assert_eq!((without, served), (with, also_served), "not a nanosecond more");
    assert_eq!(none, 0);
    assert!(missed > 100, "{missed} of {served}");
}

#[test]
fn a_late_request_is_dropped_where_the_ring_says_so() {
    let run = |late| {
        let spec = RingSpec { deadline: Some(ms(2)), late, ..RingSpec::new("r", us(500), us(400)) };
        let Site { mut machine, .. } = site(spec, ms(4));
        machine.run_for(ms(1000)).rings[0].clone()
    };
    let (served, dropped) = (run(Late::Serve), run(Late::Drop));
    assert!(served.missed > 0 && served.dropped_late == 0 && served.dropped_full > 0, "{served:?}");
    assert!(dropped.dropped_late > 0 && dropped.latency.max() <= served.latency.max(), "{dropped:?}");
    for counted in [served, dropped] {
        let known = counted.served + counted.dropped_late + counted.dropped_full;
        assert!(counted.submitted - known <= 65, "every request is somewhere: {counted:?}");
    }
}

#[test]
fn a_poller_without_time_waits_for_its_refill_whatever_its_requests_ask_for() {
    let spec = RingSpec { deadline: Some(us(100)), ..RingSpec::new("r", us(500), us(50)) };
    let Site { mut machine, owner, ring, context } = site(spec, ms(2));
    machine.poll_ring(ring, polling(owner, context)).unwrap();
    let report = machine.run_for(ms(500));
    assert!(report.used_by("consumer") <= ms(100) + us(20), "2 ms in every 10\n{report}");
    assert!(report.rings[0].missed > 300, "{:?}", report.rings[0]);
}

#[test]
fn a_revoked_lease_leaves_a_ring_that_works_without_polling() {
    let Site { mut machine, owner, ring, context } = site(RingSpec::new("r", ms(1), us(50)), ms(9));
    let lease = machine.poll_ring(ring, polling(owner, context)).unwrap();
    let before = machine.run_for(ms(100));
    assert!(before.rings[0].empty_polls > 1_000);
    let now = machine.now();
    let interrupt = machine.scheduler().revoke_lease(lease, now).unwrap();
    machine.send(interrupt);
    let between = machine.run_for(us(100));
    let after = machine.run_for(ms(100));
    assert_eq!(after.rings[0].empty_polls, between.rings[0].empty_polls, "it polls no longer");
    assert!(after.rings[0].served >= before.rings[0].served + 99, "{:?}", after.rings[0]);
    let hogs = |report: &proof_sim::Report| report.used_by("hog");
    assert!(hogs(&after) - hogs(&between) > ms(190), "its CPU is everybody's again\n{after}");
}

#[test]
fn a_second_consumer_ends_the_polling_and_gets_nothing() {
    let Site { mut machine, owner, ring, context } = site(RingSpec::new("r", ms(1), us(50)), ms(9));
    machine.poll_ring(ring, polling(owner, context)).unwrap();
    machine.run_for(ms(10));
    machine.thread("second", owner).runs(consumer(ring));
    let before = machine.run_for(us(500));
    let after = machine.run_for(ms(50));
    assert_eq!(after.rings[0].empty_polls, before.rings[0].empty_polls, "one consumer, or none that polls");
    assert_eq!(after.thread("second").refused + after.thread("consumer").refused, 1, "{after}");
}
