//! What is wrong with a policy: each refusal by itself, with its value and its limit.

use std::time::{Duration, Instant};

use policy_admission::service::{
    Because, Concern, CpuDemand, CpuProfile, Epoch, Hint, Machine, PROFILES_MAX, PolicyHandle, PolicySet, RESERVES_MAX,
    RULES_MAX, Reserve, Rule, Subject,
};
use policy_cpu::CpuSet;
use vocab::SplitMix64;

const MS: u64 = 1_000_000;

fn reserved(name: &str, budget: u64, period: u64) -> CpuProfile {
    let mut profile = CpuProfile::new(name);
    profile.reserve = Some(Reserve::new(budget, period));
    profile
}

fn with(profile: CpuProfile) -> PolicySet {
    let mut set = PolicySet::default();
    set.profiles.push(profile);
    set
}

/// The only thing that is wrong with it on a machine of two CPUs.
#[track_caller]
fn refusal(set: PolicySet) -> (String, Concern) {
    let refusals = Epoch::new(1, set, &Machine::new(2)).unwrap_err();
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert!(!refusals[0].way_out().is_empty());
    (refusals[0].to_string(), refusals[0].concern().clone())
}

#[test]
fn a_weight_out_of_range_is_refused() {
    for (weight, said) in [
        (0, "profile `x`: weight is 0, but the minimum is 1"),
        ((1 << 20) + 1, "profile `x`: weight is 1048577, but the limit is 1048576"),
    ] {
        let mut profile = CpuProfile::new("x");
        profile.weight = weight;
        assert_eq!(refusal(with(profile)), (said.to_owned(), Concern::Profile(1, Some("weight"))));
    }
}

#[test]
fn a_slice_out_of_range_is_refused() {
    let mut profile = CpuProfile::new("x");
    profile.slice = 99_999;
    assert_eq!(refusal(with(profile.clone())).0, "profile `x`: slice is 99.999 µs, but the minimum is 100 µs");
    profile.slice = 101 * MS;
    assert_eq!(refusal(with(profile)).0, "profile `x`: slice is 101 ms, but the limit is 100 ms");
}

#[test]
fn a_reserve_out_of_range_or_out_of_order_is_refused() {
    let said = |profile: CpuProfile| refusal(with(profile)).0;
    assert_eq!(said(reserved("x", MS, 50_000)), "profile `x`: period is 50 µs, but the minimum is 100 µs");
    assert_eq!(said(reserved("x", MS, u64::MAX)), "profile `x`: period is 18446744073.709 s, but the limit is 10 s");
    assert_eq!(said(reserved("x", 0, MS)), "profile `x`: budget is 0 ns, but the minimum is 10 µs");
    let order = "profile `x` asks for 2 ms with a deadline of 1 ms in every 1 ms";
    assert_eq!(said(reserved("x", 2 * MS, MS)), order);
    let mut late = reserved("x", MS, 2 * MS);
    late.reserve.as_mut().unwrap().deadline = 3 * MS;
    let (said, concern) = refusal(with(late));
    assert_eq!(said, "profile `x` asks for 1 ms with a deadline of 3 ms in every 2 ms");
    assert_eq!(concern, Concern::Profile(1, Some("deadline")));
}

#[test]
fn a_reserve_that_the_machine_cannot_promise_beside_the_others_is_refused() {
    let mut set = with(reserved("audio", 6 * MS, 10 * MS));
    set.profiles.push(reserved("video", 9 * MS, 10 * MS));
    assert!(Epoch::new(1, set.clone(), &Machine::new(2)).is_ok(), "one on each CPU");
    set.profiles.push(reserved("robot", 4 * MS, 10 * MS));
    let (said, concern) = refusal(set.clone());
    assert_eq!(
        said,
        "policy: robot needs 4 ms in every 10 ms; CPU 0 has 3.5 ms left, and 500 µs in every 10 ms are kept for housekeeping"
    );
    assert_eq!(concern, Concern::Profile(3, Some("budget")));
    assert!(Epoch::new(1, set, &Machine::new(3)).is_ok(), "a machine of three CPUs takes all of them");
}

#[test]
fn cpus_that_the_machine_does_not_have_are_refused() {
    let said = |cpus: CpuDemand| {
        let mut profile = CpuProfile::new("x");
        profile.cpus = cpus;
        refusal(with(profile)).0
    };
    assert_eq!(said(CpuDemand::Count(3)), "profile `x` asks for 3 CPUs, but the machine has 2");
    assert_eq!(said(CpuDemand::Set(CpuSet::one(2))), "profile `x` asks for CPU 2, but the machine has 2");
    assert_eq!(said(CpuDemand::Count(0)), "profile `x`: cpus is 0, but the minimum is 1");
    assert_eq!(said(CpuDemand::Set(CpuSet::NONE)), "profile `x`: cpus is 0, but the minimum is 1");
    assert_eq!(said(CpuDemand::Count(257)), "profile `x`: cpus is 257, but the limit is 256");
}

#[test]
fn names_are_short_plain_and_unique() {
    let said = |name: &str| refusal(with(CpuProfile::new(name))).0;
    assert_eq!(said(""), "profile 2: `` is empty; the limit is 64 bytes");
    assert_eq!(said("a b"), "profile 2: `a b` has a character that a name cannot have; the limit is 64 bytes");
    assert!(said(&"x".repeat(65)).ends_with("is too long; the limit is 64 bytes"));
    assert!(said(&"x".repeat(1 << 20)).len() < 200, "a message is short, whatever it quotes");
    assert_eq!(said("normal"), "profile `normal` is there twice");
}

#[test]
fn what_names_a_profile_names_one_that_is_there() {
    let mut set = PolicySet::default();
    set.default = "none".into();
    assert_eq!(
        refusal(set.clone()),
        ("`default` names the profile `none`, which is not there".into(), Concern::Default)
    );
    set = PolicySet::default();
    set.hints.push((Hint::Batch, "night".into()));
    assert_eq!(refusal(set.clone()), ("a hint names the profile `night`, which is not there".into(), Concern::Hint(0)));
    set = PolicySet::default();
    set.rules.push(Rule::new(Subject::Name, "a", "night"));
    let said = "rule 1 names the profile `night`, which is not there".to_owned();
    assert_eq!(refusal(set), (said, Concern::Rule(0, Some("profile"))));
}

#[test]
fn a_hint_is_there_once() {
    let mut set = PolicySet::default();
    set.hints = vec![(Hint::Batch, "normal".into()), (Hint::Batch, "normal".into())];
    assert_eq!(refusal(set), ("hint `batch` is there twice".into(), Concern::Hint(1)));
}

#[test]
fn a_pattern_has_one_star_and_a_length() {
    for (pattern, why) in [
        ("", "is an empty pattern"),
        ("a*b*", "has more than one `*`"),
        ("a\nb", "has a control character"),
        (&"x".repeat(129), "is too long"),
    ] {
        let mut set = PolicySet::default();
        set.rules.push(Rule::new(Subject::Service, pattern, "normal"));
        let (said, concern) = refusal(set);
        assert!(said.contains(why) && said.ends_with("the limit is 128 bytes"), "{said}");
        assert_eq!(concern, Concern::Rule(0, Some("service")));
    }
}

#[test]
fn one_more_than_the_limit_is_refused() {
    let mut set = PolicySet::default();
    set.profiles.extend((1..PROFILES_MAX).map(|n| CpuProfile::new(format!("p{n}"))));
    assert!(Epoch::new(1, set.clone(), &Machine::new(2)).is_ok());
    set.profiles.push(CpuProfile::new("more"));
    assert_eq!(refusal(set).0, "there are 65 profiles, but the limit is 64");
    let mut set = PolicySet::default();
    set.rules = vec![Rule::new(Subject::Name, "a", "normal"); RULES_MAX];
    assert!(Epoch::new(1, set.clone(), &Machine::new(2)).is_ok());
    set.rules.push(Rule::new(Subject::Name, "a", "normal"));
    assert_eq!(refusal(set).0, "there are 257 rules, but the limit is 256");
    let mut set = PolicySet::default();
    set.profiles.extend((0..=RESERVES_MAX).map(|n| reserved(&format!("p{n}"), 10_000, 10 * MS)));
    assert_eq!(refusal(set).0, "there are 17 profiles with a reserve, but the limit is 16");
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let mut set = with(CpuProfile::new("x"));
    set.profiles[1].weight = 0;
    set.profiles[1].slice = 0;
    set.rules.push(Rule::new(Subject::Name, "**", "y"));
    assert_eq!(set.problems().len(), 4, "{:?}", set.problems());
}

#[test]
fn the_first_rule_decides_then_the_name_then_the_default() {
    let mut set = with(CpuProfile::new("batch"));
    set.profiles.push(CpuProfile::new("fast"));
    set.rules = vec![
        Rule::new(Subject::Service, "web-*", "fast"),
        Rule::new(Subject::Name, "*-night", "batch"),
        Rule::new(Subject::Name, "service:*", "batch"),
    ];
    set.hints = vec![(Hint::LatencySensitive, "fast".into())];
    let epoch = Epoch::new(1, set, &Machine::new(2)).unwrap();
    let chosen = |name: &str| {
        let (profile, because) = epoch.profile(name);
        (profile.name.to_string(), because)
    };
    assert_eq!(chosen("service:web-night"), ("fast".into(), Because::Rule(0)));
    assert_eq!(chosen("web-night"), ("batch".into(), Because::Rule(1)));
    assert_eq!(chosen("service:db"), ("batch".into(), Because::Rule(2)));
    assert_eq!(chosen("fast"), ("fast".into(), Because::Name));
    assert_eq!(chosen("other"), ("normal".into(), Because::Default));
    assert_eq!(epoch.hint(Hint::LatencySensitive).1, Because::Hint(Hint::LatencySensitive));
    assert_eq!((&*epoch.hint(Hint::Agent).0.name, epoch.hint(Hint::Agent).1), ("normal", Because::Default));
    let unused: Vec<_> = epoch.set().unused().map(|profile| profile.name.to_string()).collect();
    assert_eq!(unused, [""; 0]);
}

#[test]
fn a_handle_goes_to_any_thread() {
    fn goes_anywhere<T: Clone + Send + Sync + 'static>(_: &T) {}
    goes_anywhere(&PolicyHandle::default());
}

#[test]
fn a_fixed_policy_is_checked_too() {
    let mut set = PolicySet::default();
    set.profiles[0].weight = 0;
    assert!(PolicyHandle::fixed(set).is_err());
    assert_eq!(PolicyHandle::fixed(PolicySet::default()).unwrap().profile("x").weight, 1024);
}

/// A hostile service chooses the reserves that take longest to check: many on one CPU, early deadlines, odd periods, almost all of the time.
#[test]
fn the_check_of_any_reserves_takes_a_bounded_time() {
    let mut longest = Duration::ZERO;
    for seed in 0..60 {
        let mut dice = SplitMix64::new(seed);
        let mut below = |limit: u64| dice.next_u64() % limit;
        let mut set = PolicySet::default();
        for n in 0..RESERVES_MAX {
            let period = 100_000 + [1_000_003, 99_999_989, 9_899_999_999][below(3) as usize] * (1 + below(1000)) / 1000;
            let share = 1000 - below(80);
            let budget = (period * share / 1000 / RESERVES_MAX as u64).max(10_000);
            let mut profile = reserved(&format!("p{n}"), budget, period.min(10_000 * MS));
            profile.reserve.as_mut().unwrap().deadline =
                (budget + (period - budget) * (200 + below(800)) / 1000).min(period);
            profile.cpus = CpuDemand::Set(CpuSet::one(0));
            set.profiles.push(profile);
        }
        let begun = Instant::now();
        let _ = Epoch::new(1, set, &Machine::new(256));
        longest = longest.max(begun.elapsed());
    }
    println!("longest check: {longest:?}");
    assert!(longest < Duration::from_secs(5), "{longest:?}");
}
