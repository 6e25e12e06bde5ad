//! The decisions of a supervisor are those of a slow reference that remembers everything.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    time::{Duration, Instant},
};

use proptest::prelude::*;
use sched_actors::{
    self as actor, Child, Restart, Strategy as Plan, Supervisor,
    decide::{Decision, Ending, History, Intensity, Rules, Sibling, decide},
};
use sched_tasks::{Runtime, TaskError, nursery, yield_now};
use test_support::{Dice, for_seeds};

fn siblings() -> impl Strategy<Value = Vec<Sibling>> {
    let restart = prop_oneof![Just(Restart::Permanent), Just(Restart::Transient), Just(Restart::Temporary)];
    let child = (1..4_u64, restart, any::<bool>());
    prop::collection::vec(child, 1..8).prop_map(|children| {
        let mut id = 0;
        let with_gaps = |(gap, restart, alive)| {
            id += gap;
            Sibling { id, restart, alive }
        };
        children.into_iter().map(with_gaps).collect()
    })
}

fn plans() -> impl Strategy<Value = Plan> {
    prop_oneof![Just(Plan::OneForOne), Just(Plan::OneForAll), Just(Plan::RestForOne)]
}

/// Goes by the words of the documentation, one child after the other, and never forgets a restart.
struct Reference {
    plan: Plan,
    intensity: Intensity,
    all_restarts: Vec<Instant>,
}

impl Reference {
    fn decide(&mut self, siblings: &[Sibling], position: usize, ending: Ending, now: Instant) -> Decision {
        let ended = siblings[position];
        if ended.restart == Restart::Temporary || (ended.restart == Restart::Transient && ending == Ending::Returned) {
            return Decision::Leave;
        }
        let inside =
            self.all_restarts.iter().filter(|&&then| now.duration_since(then) <= self.intensity.within).count();
        if inside as u32 + 1 > self.intensity.max_restarts {
            return Decision::GiveUp { restarts: inside as u32 };
        }
        self.all_restarts.push(now);
        let affected: BTreeSet<usize> = match self.plan {
            Plan::OneForOne => BTreeSet::new(),
            Plan::OneForAll => (0..siblings.len()).collect(),
            Plan::RestForOne => (position + 1..siblings.len()).collect(),
        };
        let mut stop = Vec::new();
        let mut start = Vec::new();
        for (at, sibling) in siblings.iter().enumerate() {
            if at == position {
                start.push(sibling.id);
            } else if affected.contains(&at) && sibling.alive {
                stop.insert(0, sibling.id);
                if sibling.restart != Restart::Temporary {
                    start.push(sibling.id);
                }
            }
        }
        Decision::Again { stop, start }
    }
}

proptest! {
    #[test]
    fn decisions_are_those_of_the_slow_reference(
        plan in plans(),
        siblings in siblings(),
        max_restarts in 0..5_u32,
        within in 0..10_u64,
        endings in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>(), 0..6_u64), 1..60),
    ) {
        let intensity = Intensity { max_restarts, within: Duration::from_secs(within) };
        let rules = Rules { strategy: plan, intensity };
        let mut reference = Reference { plan, intensity, all_restarts: Vec::new() };
        let (mut history, mut now) = (History::default(), Instant::now());
        for (which, failed, pause) in endings {
            now += Duration::from_secs(pause);
            let position = which.index(siblings.len());
            let ending = if failed { Ending::Failed } else { Ending::Returned };
            let expected = reference.decide(&siblings, position, ending, now);
            let (next, decision) = decide(&rules, history, &siblings, siblings[position].id, ending, now);
            prop_assert_eq!(decision, expected);
            prop_assert!(next.len() <= max_restarts as usize, "it remembers more than it needs");
            history = next;
        }
    }
}

#[test]
fn the_window_slides() {
    let rules =
        Rules { strategy: Plan::OneForOne, intensity: Intensity { max_restarts: 2, within: Duration::from_secs(10) } };
    let child = [Sibling { id: 0, restart: Restart::Permanent, alive: false }];
    let begun = Instant::now();
    let mut history = History::default();
    let mut at = |seconds| {
        let now = begun + Duration::from_secs(seconds);
        let (next, decision) = decide(&rules, std::mem::take(&mut history), &child, 0, Ending::Failed, now);
        history = next;
        decision
    };
    let again = Decision::Again { stop: vec![], start: vec![0] };
    assert_eq!(at(0), again);
    assert_eq!(at(6), again);
    assert_eq!(at(10), Decision::GiveUp { restarts: 2 });
    assert_eq!(at(11), again); // the first is out of the window
    assert_eq!(at(16), Decision::GiveUp { restarts: 2 });
    assert_eq!(at(17), again);
}

/// Counts an incarnation while it lives.
struct Alive<'a>(&'a AtomicU64);

impl<'a> Alive<'a> {
    fn new(count: &'a AtomicU64) -> Self {
        assert_eq!(count.fetch_add(1, SeqCst), 0, "two incarnations at a time");
        Self(count)
    }
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn one_incarnation_of_a_child_lives_at_a_time_whatever_is_asked_meanwhile() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    for_seeds("one_incarnation_of_a_child_lives_at_a_time_whatever_is_asked_meanwhile", 0..60, |seed| {
        let dice = Dice::new(seed);
        let alive: [AtomicU64; 4] = Default::default();
        let (dice, alive) = (&dice, &alive);
        let child = |which: usize| -> Child<'_> {
            let live = move || {
                let _alive = Alive::new(&alive[which]);
                loop {
                    yield_now();
                    match dice.below(40) {
                        0 => return Err(TaskError::msg("on purpose")),
                        1 => return Ok(()),
                        _ => {}
                    }
                }
            };
            let restart = [Restart::Permanent, Restart::Transient, Restart::Temporary][dice.below(3) as usize];
            match dice.below(2) {
                0 => Child::task(NAMES[which], live).restart(restart),
                _ => {
                    let make = move || {
                        let alive = Alive::new(&alive[which]);
                        actor::from_fn(
                            move |(): (), _| if alive.0.load(SeqCst) == 1 { Ok(()) } else { panic!("alone?") },
                        )
                    };
                    Child::actor(NAMES[which], make).restart(restart).into()
                }
            }
        };
        let plan = [Plan::OneForOne, Plan::OneForAll, Plan::RestForOne][seed as usize % 3];
        let runtime = Runtime::builder().workers(2).build().unwrap();
        let outcome = runtime.run(|| {
            nursery(|n| {
                let many = Duration::from_secs(3600);
                let sup = Supervisor::new(plan).max_restarts(u32::MAX, many);
                let sup = (0..3).fold(sup, |sup, which| sup.child(child(which))).start(n)?;
                nursery(|n| {
                    for _ in 0..2 {
                        n.spawn(|| {
                            for _ in 0..20 {
                                let which = dice.below(4) as usize;
                                // What cannot be done now is refused; that is fine.
                                let _ = match dice.below(4) {
                                    0 => sup.stop_child(NAMES[which]),
                                    1 => sup.start_child(child(which)),
                                    2 => sup.restart_child(NAMES[which]),
                                    _ => sup.child(NAMES[which]).map(drop),
                                };
                            }
                        });
                    }
                    Ok(())
                })?;
                if dice.below(2) == 0 {
                    return sup.stop();
                }
                n.dismiss();
                Ok(())
            })
        });
        outcome.unwrap().unwrap();
        assert!(alive.iter().all(|count| count.load(SeqCst) == 0));
    });
}
