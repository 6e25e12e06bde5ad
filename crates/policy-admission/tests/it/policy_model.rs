//! Whatever happens: what is in force passed all checks, and its number never falls.

use policy_admission::service::{
    CpuDemand, CpuProfile, Decision, Epoch, Event, Hint, Machine, PolicySet, Receiver, Refusal, Reserve, Rule, Silence,
    Subject,
};
use policy_cpu::CpuSet;
use proptest::prelude::*;

const MACHINE: u32 = 4;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-d]", 1 => Just("x".repeat(65)), 1 => Just(String::new()), 1 => "[a-c *:]{1,4}"]
}

/// Mostly right, sometimes at or beyond a limit.
fn number(right: std::ops::Range<u64>) -> impl Strategy<Value = u64> {
    prop_oneof![8 => right, 1 => Just(0), 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

prop_compose! {
    fn profile()(
        name in name(),
        weight in number(1..4096),
        slice in number(100_000..10_000_000),
        reserve in prop::option::of((number(10_000..3_000_000), number(3_000_000..6_000_000), number(6_000_000..9_000_000))),
        cpus in prop_oneof![Just(CpuDemand::Any), (0_u32..8).prop_map(CpuDemand::Count), (0_u32..8).prop_map(|cpu| CpuDemand::Set(CpuSet::one(cpu)))],
    ) -> CpuProfile {
        let mut profile = CpuProfile::new(name);
        (profile.weight, profile.slice, profile.cpus) = (weight as u32, slice, cpus);
        profile.reserve = reserve.map(|(budget, deadline, period)| {
            let mut reserve = Reserve::new(budget, period);
            reserve.deadline = deadline;
            reserve
        });
        profile
    }
}

prop_compose! {
    fn set()(
        default in "[a-d]",
        profiles in prop::collection::vec(profile(), 0..5),
        hints in prop::collection::vec((prop::sample::select(&Hint::ALL[..]), name()), 0..3),
        rules in prop::collection::vec((prop::sample::select(&Subject::ALL[..]), name(), name()), 0..3),
    ) -> PolicySet {
        let mut set = PolicySet::new(CpuProfile::new(default));
        set.profiles.extend(profiles);
        set.hints = hints.into_iter().map(|(hint, name)| (hint, name.into())).collect();
        set.rules = rules.into_iter().map(|(subject, pattern, profile)| Rule::new(subject, pattern, profile)).collect();
        set
    }
}

fn event() -> impl Strategy<Value = Event> {
    let epoch = || prop_oneof![10 => 0_u64..40, 1 => any::<u64>()];
    prop_oneof![
        6 => (epoch(), set()).prop_map(|(number, set)| Event::Proposed { number, set }),
        3 => epoch().prop_map(|number| Event::Heartbeat { number }),
        1 => Just(Event::Connected),
        1 => Just(Event::Lost),
        1 => Just(Event::Tick),
        1 => Just(Event::Garbled(Refusal::TooLong { limit: 1 })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_in_force_passed_all_checks_and_its_number_never_falls(
        events in prop::collection::vec((prop_oneof![9 => 0_u64..3_000_000_000, 1 => any::<u64>()], event()), 0..40),
    ) {
        let machine = Machine::new(MACHINE);
        let mut receiver = Receiver::new(machine, Silence::default());
        let policy = receiver.handle();
        let (mut now, mut before) = (0_u64, policy.epoch());
        for (later, event) in events {
            now = now.wrapping_add(later); // clocks jump
            let decision = receiver.take(now, event.clone());
            let after = policy.epoch();
            prop_assert!(after.number() >= before.number());
            // Checked again, from nothing.
            prop_assert!(Epoch::new(after.number(), after.set().clone(), &machine).is_ok());
            match (&decision, &event) {
                (Decision::Accepted { number }, Event::Proposed { number: offered, set }) => {
                    prop_assert_eq!((number, after.number(), after.set()), (offered, *offered, set));
                    prop_assert!(after.number() > before.number());
                }
                (Decision::Accepted { .. }, other) => prop_assert!(false, "{other:?} was accepted"),
                _ => prop_assert_eq!(&after, &before, "{:?} changed what is in force", decision),
            }
            for hint in Hint::ALL {
                policy.hint(hint);
            }
            policy.profile("service:a");
            let status = receiver.status(now);
            prop_assert_eq!(status.epoch, after.number());
            prop_assert!(receiver.log().len() <= 256);
            before = after;
        }
    }

    #[test]
    fn good_policies_are_accepted_in_order(weights in prop::collection::vec(1_u32..=1 << 20, 1..20)) {
        let mut receiver = Receiver::new(Machine::new(MACHINE), Silence::default());
        for (number, weight) in (1..).zip(weights) {
            let mut profile = CpuProfile::new("a");
            profile.weight = weight;
            let event = Event::Proposed { number, set: PolicySet::new(profile) };
            prop_assert_eq!(receiver.take(number * 1_000_000_000, event), Decision::Accepted { number });
            prop_assert_eq!(receiver.handle().profile("").weight, weight);
        }
    }
}
