//! The other orders of a fair queue, which are there to compare with.

use policy_cpu::{FairQueue, FairState, Policy, Weight};

const SLICE: u64 = 3_000_000;

/// A queue of entities with these weights, and what each got of so many slices.
fn shares(policy: Policy, weights: &[u32], slices: u32) -> Vec<u64> {
    let mut queue = FairQueue::with_capacity(weights.len() as u32).ordered_by(policy);
    let mut states: Vec<_> =
        weights.iter().map(|&weight| FairState::under(policy, Weight::clamped(weight), SLICE)).collect();
    for (entity, state) in states.iter_mut().enumerate() {
        queue.join(entity as u32, state);
    }
    let mut got = vec![0; weights.len()];
    for _ in 0..slices {
        let entity = queue.pick().unwrap() as usize;
        got[entity] += 1;
        queue.charge(&mut states[entity], SLICE);
        queue.put_back(&states[entity]);
    }
    got
}

#[test]
fn weights_are_shares_under_fair_queueing_and_mean_nothing_under_round_robin() {
    for policy in [Policy::Eevdf, Policy::Wfq] {
        let got = shares(policy, &[1024, 2048, 4096], 7_000);
        for (got, share) in got.iter().zip([1_000_u64, 2_000, 4_000]) {
            assert!(got.abs_diff(share) <= 2, "{policy}: {got} of {share}");
        }
    }
    assert_eq!(shares(Policy::RoundRobin, &[1024, 2048, 4096], 300), [100; 3]);
}

#[test]
fn round_robin_takes_turns_and_one_that_was_interrupted_goes_on_first() {
    let mut queue = FairQueue::with_capacity(3).ordered_by(Policy::RoundRobin);
    let mut states = [FairState::under(Policy::RoundRobin, Weight::NORMAL, SLICE); 3];
    for (entity, state) in states.iter_mut().enumerate() {
        queue.join(entity as u32, state);
    }
    let mut picked = Vec::new();
    for ran in [SLICE, SLICE / 2, SLICE / 2, SLICE, SLICE] {
        let entity = queue.pick().unwrap() as usize;
        picked.push(entity);
        queue.charge(&mut states[entity], ran);
        queue.put_back(&states[entity]);
    }
    assert_eq!(picked, [0, 1, 1, 2, 0]);
}

#[test]
fn under_start_time_fair_queueing_a_sleeper_starts_where_service_is_and_keeps_its_debt() {
    let mut queue = FairQueue::with_capacity(2).ordered_by(Policy::Wfq);
    let mut states = [FairState::under(Policy::Wfq, Weight::NORMAL, SLICE); 2];
    queue.join(0, &mut states[0]);
    for _ in 0..1000 {
        assert_eq!(queue.pick(), Some(0));
        queue.charge(&mut states[0], SLICE);
        queue.put_back(&states[0]);
    }
    // It slept through a thousand slices: no credit, so both take turns from now on.
    queue.join(1, &mut states[1]);
    let mut got = [0; 2];
    for _ in 0..100 {
        let entity = queue.pick().unwrap() as usize;
        got[entity] += 1;
        queue.charge(&mut states[entity], SLICE);
        queue.put_back(&states[entity]);
    }
    assert!(got[0] >= 49 && got[1] >= 49, "{got:?}");
    // One that leaves just before its request is served comes back behind by what it used, and gains nothing.
    let mut time = [0_u64; 2];
    for _ in 0..1000 {
        let entity = queue.pick().unwrap() as usize;
        let ran = if entity == 1 { SLICE * 97 / 100 } else { SLICE };
        time[entity] += ran;
        queue.charge(&mut states[entity], ran);
        if entity == 1 {
            queue.leave(1, &mut states[1]);
            queue.join(1, &mut states[1]);
        } else {
            queue.put_back(&states[0]);
        }
    }
    assert!(time[1] <= (time[0] + time[1]) * 51 / 100, "{time:?}");
}

#[test]
fn only_the_deadline_policy_interrupts_a_request_that_was_begun() {
    for policy in Policy::ALL {
        let mut queue = FairQueue::with_capacity(2).ordered_by(policy);
        let mut long = FairState::under(policy, Weight::NORMAL, 4 * SLICE);
        let mut short = FairState::under(policy, Weight::NORMAL, SLICE / 4);
        queue.join(0, &mut long);
        assert_eq!(queue.pick(), Some(0));
        queue.charge(&mut long, SLICE);
        queue.join(1, &mut short);
        assert_eq!(queue.preempts(&short, &long), policy == Policy::Eevdf, "{policy}");
    }
}
