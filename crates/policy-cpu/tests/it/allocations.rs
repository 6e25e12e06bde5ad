//! Nothing allocates after set-up.

use policy_cpu::{
    Capacity, Class, ContextSpec, CpuSet, Endpoint, Evidence, FairQueue, FairState, LeaseMode, LeaseSpec, Overrun,
    Scheduler, ThreadSpec, Weight,
};
use test_support::Dice;

#[test]
fn a_fair_queue_allocates_when_it_is_made_and_never_again() {
    let mut queue = FairQueue::with_capacity(5_000);
    let mut states: Vec<_> = (0..5_000).map(|_| FairState::new(Weight::NORMAL, 3_000_000)).collect();
    let before = crate::allocations();
    for (entity, state) in states.iter_mut().enumerate() {
        queue.join(entity as u32, state);
    }
    for round in 0..20_000_u32 {
        let entity = queue.pick().unwrap() as usize;
        queue.charge(&mut states[entity], 100_000 + u64::from(round % 7) * 1_000_000);
        queue.put_back(&states[entity]);
        let other = (round * 7919) % 5_000;
        if queue.leave(other, &mut states[other as usize]) {
            queue.join(other, &mut states[other as usize]);
        }
    }
    assert_eq!(crate::allocations() - before, 0);
}

#[test]
fn a_scheduler_allocates_when_it_is_made_and_never_again() {
    let mut scheduler = Scheduler::new(Capacity::cpus(8), 0);
    let dice = Dice::new(1);
    let before = crate::allocations();
    let process = scheduler.add_process().unwrap();
    let mut threads = [None; 200];
    let mut contexts = [None; 20];
    let (mut now, mut switches) = (0, 0);
    for _ in 0..200_000 {
        now += dice.below(50_000);
        let cpu = dice.below(8) as u32;
        let slot = dice.below(200) as usize;
        let context = dice.below(20) as usize;
        match (dice.below(14), threads[slot], contexts[context]) {
            (0, None, _) => {
                let class = if dice.chance(10) { Class::Idle } else { Class::Fair };
                let spec = ThreadSpec {
                    class,
                    weight: Weight::clamped(1 + dice.below(3000) as u32),
                    ..ThreadSpec::new(process)
                };
                threads[slot] = Some(scheduler.add_thread(&spec).unwrap());
            }
            (0, Some(thread), _) if dice.chance(10) => {
                let _ = scheduler.exit(thread, now).unwrap();
                threads[slot] = None;
            }
            (1, _, None) => {
                let overrun = [Overrun::Throttle, Overrun::Demote, Overrun::Stop][dice.below(3) as usize];
                let spec = ContextSpec { overrun, endpoint: Some(Endpoint(1)), ..ContextSpec::new(100_000, 1_000_000) };
                contexts[context] = Some(scheduler.add_context(spec, now).unwrap());
            }
            (1, _, Some(id)) if dice.chance(10) => {
                let _ = scheduler.revoke_context(id, now).unwrap();
                contexts[context] = None;
            }
            (2, Some(thread), context) => {
                let _ = scheduler.bind(thread, context, now).unwrap();
            }
            (3, Some(thread), _) => {
                let _ = scheduler.migrate(thread, cpu, now).unwrap();
            }
            (4, ..) => {
                scheduler.block(cpu, now);
            }
            (5, Some(thread), _) => {
                let _ = scheduler.call(cpu, thread, now);
            }
            (6, ..) => {
                let _ = scheduler.reply(cpu, now);
            }
            (7, ..) => {
                let _ = scheduler.take_notice();
            }
            (8 | 9, Some(thread), _) => {
                let _ = scheduler.wake(thread, now, Some(cpu)).unwrap();
            }
            _ => {}
        }
        switches += u64::from(scheduler.schedule(cpu, now).is_switch);
    }
    assert_eq!(crate::allocations() - before, 0);
    assert!(switches > 10_000, "{switches}");
}

#[test]
fn leases_allocate_nothing() {
    let mut scheduler = Scheduler::new(Capacity::cpus(4), 0);
    let before = crate::allocations();
    for round in 0..100 {
        let owner = scheduler.add_process().unwrap();
        let accounting = scheduler.add_context(ContextSpec::new(1, 2), round).unwrap();
        let spec = LeaseSpec {
            owner,
            cpus: CpuSet::one(1),
            mode: LeaseMode::Exclusive,
            tolerated: [false; 4],
            accounting,
            revocation_latency_max: 100,
            endpoint: None,
        };
        let lease = scheduler.grant_lease(spec).unwrap();
        let evidence = Evidence { pinned: [CpuSet::NONE; 4], ring_consumers: 1, revocation_latency: 10 };
        let _ = scheduler.activate_lease(lease, &evidence, round).unwrap();
        let _ = scheduler.exit_process(owner, round).unwrap();
        let _ = scheduler.schedule(1, round);
        let _ = scheduler.revoke_context(accounting, round).unwrap();
        assert!(scheduler.lease(lease).is_err());
    }
    assert_eq!(crate::allocations() - before, 0);
}

#[test]
fn an_island_allocates_nothing_once_it_is_admitted() {
    let mut scheduler = Scheduler::new(Capacity::cpus(2), 0);
    let (audio, others) = (scheduler.add_process().unwrap(), scheduler.add_process().unwrap());
    // What admission granted: two contexts, a CPU, and who they belong to.
    let session = policy_cpu::Session(1);
    let own = ThreadSpec { cpus: CpuSet::one(1), ..ThreadSpec::new(audio) };
    let tasks = [(300_000, 5_000_000), (900_000, 5_000_000)].map(|(budget, period)| {
        let spec =
            ContextSpec { overrun: Overrun::Stop, endpoint: Some(Endpoint(1)), ..ContextSpec::new(budget, period) };
        let context = scheduler.add_context(spec, 0).unwrap();
        scheduler.own_context(context, session).unwrap();
        let thread = scheduler.add_thread(&own).unwrap();
        let _ = scheduler.bind(thread, Some(context), 0).unwrap();
        (thread, context)
    });
    let effect = scheduler.add_thread(&own).unwrap();
    let hogs = [(); 6].map(|()| scheduler.add_thread(&ThreadSpec::new(others)).unwrap());
    let spec = LeaseSpec {
        owner: audio,
        cpus: CpuSet::one(1),
        mode: LeaseMode::Exclusive,
        tolerated: [false; 4],
        accounting: tasks[0].1,
        revocation_latency_max: 100,
        endpoint: None,
    };
    let lease = scheduler.grant_lease(spec).unwrap();
    let evidence = Evidence { pinned: [CpuSet::NONE; 4], ring_consumers: 0, revocation_latency: 10 };

    let before = crate::allocations();
    let _ = scheduler.activate_lease(lease, &evidence, 0).unwrap();
    for hog in hogs {
        let _ = scheduler.wake(hog, 0, None).unwrap();
    }
    let (mut now, mut ran) = (0, 0);
    for period in 0..2_000_u64 {
        now = period * 5_000_000;
        for (thread, _) in tasks {
            let _ = scheduler.wake(thread, now, None).unwrap();
        }
        let _ = scheduler.schedule(0, now);
        for _ in tasks {
            if scheduler.schedule(1, now).thread.is_none() {
                continue;
            }
            now += 100_000;
            // Half of its work is done by another thread, on its time.
            if scheduler.call(1, effect, now).is_ok() {
                now += 50_000;
                let _ = scheduler.reply(1, now);
            }
            now += 50_000;
            scheduler.block(1, now);
            ran += 1;
        }
        let _ = scheduler.schedule(1, now);
        let _ = scheduler.take_notice();
    }
    let _ = scheduler.close_session(session, now);
    assert_eq!(crate::allocations() - before, 0);
    assert_eq!(ran, 4_000, "every task ran in every period");
}
