//! Graphics cards, one scenario each.
//!
//! Room: tests.

use super::{MS, Scope, Spec, Stage, job, with_cards};
use crate::decide::{CardUse, Others};
use crate::error::SubmitError;
use crate::state::State;

/// The numbers of the cards that a job holds.
fn on(stage: &Stage, id: u32) -> Vec<usize> {
    stage.core.held_cards(id).iter().collect()
}

/// Cards with this much memory, and plenty of everything else.
fn stage(vram_mb: &[u64]) -> Stage {
    let mut rules = with_cards(64, vram_mb);
    rules.limits.ram_mb = 0;
    Stage::new(rules)
}

fn refusal(stage: &mut Stage, job: Spec) -> String {
    let error = stage.try_submit(&[job]).unwrap_err();
    assert!(matches!(error, SubmitError::NoCard { .. }) && error.code() == Some(3001), "{error}");
    error.to_string()
}

#[test]
fn a_demand_that_no_card_can_hold_is_refused_with_the_numbers() {
    let mut two = stage(&[8_000, 8_000]);
    assert_eq!(
        refusal(&mut two, job("large").vram(12_000)),
        "[3001] job `large` needs 12.0 GB of VRAM on one card; the largest has 8.0 GB; lower `vram`, or spread it over more cards with `gpus`"
    );
    assert_eq!(refusal(&mut two, job("wide").gpus(3)), "[3001] job `wide` wants 3 GPUs, and there are 2; lower `gpus`");
    assert_eq!(
        refusal(&mut stage(&[8_000, 24_000, 4_000]), job("pair").gpus(2).vram(12_000)),
        "[3001] job `pair` needs 12.0 GB of VRAM on each of 2 cards; 1 of 3 have that much, and the largest has 24.0 GB; lower `vram` or `gpus`"
    );
    assert_eq!(
        refusal(&mut stage(&[]), job("any").gpus(1)),
        "[3001] job `any` wants 1 GPUs, and no card is known here; say how many there are, as `gpus = 1` under [resources]"
    );
    assert_eq!(two.core.len(), 0, "what was refused left no trace");
}

#[test]
fn two_small_cards_are_not_one_large_one() {
    let mut stage = stage(&[8_000, 8_000]);
    let ids: Vec<u32> = (0..3).map(|i| stage.submit(job(format!("{i}")).vram(5_000))).collect();
    // In sum 16 GB would hold all three.
    assert_eq!(stage.pick(), ids[..2]);
    assert_eq!((on(&stage, ids[0]), on(&stage, ids[1])), (vec![0], vec![1]));
    stage.succeed(ids[1]);
    assert_eq!(stage.pick(), ids[2..]);
    assert_eq!(on(&stage, ids[2]), [1]);
}

#[test]
fn the_card_with_least_to_spare_is_chosen_and_among_equals_the_first() {
    let mut stage = stage(&[24_000, 8_000, 8_000, 0]);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| stage.submit(job(name).vram(6_000)));
    stage.pick();
    assert_eq!(
        [a, b, c, d].map(|id| on(&stage, id)[0]),
        [1, 2, 0, 0],
        "small cards first, and those of unknown size last"
    );
    let e = stage.submit(job("e").vram(2_000));
    stage.pick();
    assert_eq!(on(&stage, e), [1], "it fills up a card that is in use");
}

#[test]
fn jobs_share_a_card_as_long_as_its_memory_lasts() {
    let mut stage = stage(&[8_000]);
    let ids: Vec<u32> = (0..5).map(|i| stage.submit(job(format!("{i}")).vram(2_000))).collect();
    assert_eq!(stage.pick(), ids[..4]);
    assert_eq!(stage.core.usage().cards, [8_000]);
}

#[test]
fn cards_without_a_memory_demand_are_taken_whole() {
    let mut stage = stage(&[24_000, 8_000, 8_000]);
    let small = stage.submit(job("small").vram(1_000));
    let two = stage.submit(job("two").gpus(2));
    let one = stage.submit(job("one").gpus(1));
    let late = stage.submit(job("late").vram(100));
    assert_eq!(stage.pick(), [small, two, late]);
    assert_eq!((on(&stage, small), on(&stage, two), on(&stage, late)), (vec![1], vec![0, 2], vec![1]));
    assert_eq!(stage.core.usage().vram_mb, 24_000 + 8_000 + 1_100);
    stage.succeed(two);
    assert_eq!(stage.pick(), [one]);
    assert_eq!(on(&stage, one), [2], "the smallest that is free");
}

#[test]
fn a_job_may_spread_over_cards_and_pays_on_each() {
    let mut stage = stage(&[8_000; 8]);
    let wide = stage.submit(job("wide").gpus(4).vram(5_000));
    let other = stage.submit(job("other").gpus(5).vram(4_000));
    assert_eq!(stage.pick(), [wide]);
    assert_eq!(on(&stage, wide), [0, 1, 2, 3]);
    assert_eq!(
        stage.core.why(0, other, None).to_string(),
        "other waits for VRAM: needs 4.0 GB on each of 5 cards, 4 of 8 have that free. Held by wide (20.0 GB). First in line"
    );
    stage.succeed(wide);
    assert_eq!(stage.pick(), [other]);
}

#[test]
fn a_paused_job_keeps_its_cards_and_resumes_on_them() {
    let mut stage = stage(&[8_000, 8_000]);
    let first = stage.submit(job("first").vram(6_000));
    stage.pick();
    stage.pause_running(first);
    let second = stage.submit(job("second").vram(6_000));
    let third = stage.submit(job("third").gpus(1));
    assert_eq!(stage.pick(), [second]);
    assert_eq!(on(&stage, second), [1]);
    stage.resume(first);
    assert_eq!((stage.state(first), on(&stage, first)), (State::Running, vec![0]));
    stage.core.cancel(stage.now, Scope::Job(first));
    stage.end(first, super::Ended::Stopped);
    assert_eq!(stage.pick(), [third]);
}

#[test]
fn why_says_which_card_is_short_and_when_it_is_free() {
    let mut stage = stage(&[8_000, 4_000]);
    let large = stage.submit(job("large").vram(6_000));
    let small = stage.submit(job("small").vram(4_000));
    stage.pick();
    let next = stage.submit(job("next").vram(5_000));
    let why = |stage: &Stage, id| stage.core.why(stage.now, id, None).to_string();
    assert_eq!(
        why(&stage, next),
        "next waits for VRAM: needs 5.0 GB on one card, the one with most free has 2.0 GB of 8.0 GB. Held by large (6.0 GB). First in line"
    );
    stage.core.extras.entry(large).or_default().expected = Some(core::time::Duration::from_secs(9));
    stage.core.extras.entry(small).or_default().expected = Some(core::time::Duration::from_secs(1));
    assert!(
        why(&stage, next).ends_with("; expected start in ~9 s"),
        "the end of `small` does not help: {}",
        why(&stage, next)
    );
    let whole = stage.submit(job("whole").gpus(2));
    assert!(
        why(&stage, whole).starts_with(
            "whole waits for GPUs: needs 2, 0 free of 2. Held by small (1, ~1 s left) and large (1, ~9 s left)"
        ),
        "{}",
        why(&stage, whole)
    );
}

#[test]
fn what_other_runs_hold_of_a_card_is_not_free() {
    let mut stage = stage(&[8_000, 8_000]);
    let card = |held_mb, free_mb| CardUse { held_mb, free_mb };
    let others = |cards| Others { running: 1, cards, ..Others::default() };
    stage.core.set_others(&others(vec![card(4_000, None), card(1 << 40, None)]));
    let job = stage.submit(job("job").vram(5_000));
    assert!(stage.pick().is_empty());
    assert_eq!(stage.core.usage().wanted.map(|wanted| (wanted.job.0, wanted.gpus)), Some((job, 1)));
    // No run holds it, but it is not free: another program uses it.
    stage.core.set_others(&others(vec![card(4_000, None), card(0, Some(1_000))]));
    assert!(stage.pick().is_empty());
    assert!(stage.core.why(0, job, None).to_string().contains("other programs use the rest"));
    stage.core.set_others(&others(vec![card(0, Some(0)), card(0, Some(5_000))]));
    assert_eq!(stage.pick(), [job]);
    assert_eq!(on(&stage, job), [1]);
    assert_eq!(stage.core.usage().cards, [0, 5_000]);
}

#[test]
fn the_cards_reserved_for_a_job_stay_the_same_while_it_waits() {
    let mut stage = stage(&[8_000, 8_000]);
    let [a, b] = ["a", "b"].map(|name| stage.submit(job(name).vram(5_000)));
    stage.pick();
    let more = stage.submit(job("more").vram(2_000));
    stage.pick();
    assert_eq!(on(&stage, more), [0]);
    let large = stage.submit(job("large").vram(8_000));
    stage.now = 1_500 * MS;
    // Card 1 is the least used and is reserved. Small jobs go to card 0 only, also when there is less on that one.
    for i in 0..4 {
        let small = stage.submit(job(format!("small-{i}")).vram(1_000));
        assert_eq!(stage.pick(), [small]);
        assert_eq!(on(&stage, small), [0]);
        stage.succeed(small);
        if i == 1 {
            stage.succeed(a);
        }
    }
    stage.succeed(b);
    assert_eq!(stage.pick(), [large]);
    assert_eq!(on(&stage, large), [1]);
}

#[test]
fn a_job_that_was_found_again_gets_the_cards_its_processes_see() {
    let mut stage = stage(&[8_000, 8_000]);
    let spec = job("found").vram(1_000);
    let mut options = spec.options().unwrap_or_default();
    options.was_on = vec!["1".to_owned()];
    let options = Some(options);
    let mut draft = stage.core.draft(None);
    stage.core.add(&mut draft, &spec.as_new(&options)).unwrap();
    stage.finish(&draft).unwrap();
    assert_eq!(stage.pick(), [0]);
    assert_eq!(on(&stage, 0), [1]);
}

#[test]
fn jobs_with_cards_are_never_claimed_ahead() {
    let mut stage = stage(&[8_000]);
    let ids: Vec<u32> = ["a", "b", "c"].map(|name| stage.submit(job(name))).to_vec();
    let gpu = stage.submit(job("gpu").vram(1_000).priority(-1));
    let first = stage.core.pick(0).unwrap();
    let mut chain = Vec::new();
    stage.core.claim(0, first, 10, &mut chain);
    assert_eq!(chain, ids[1..], "and not {gpu}");
}

#[test]
fn no_room_is_reserved_for_a_job_that_waits_for_a_card_of_a_paused_one() {
    for share in [job("holder").gpus(1), job("holder").vram(6_000)] {
        let mut stage = Stage::new(with_cards(2, &[8_000]));
        let holder = stage.submit(share);
        stage.pick();
        stage.pause_running(holder);
        let large = stage.submit(job("large").cpu(2).gpus(1));
        stage.now = 10_000 * MS;
        let small = stage.submit(job("small"));
        assert_eq!(stage.pick(), [small], "the card comes back when the job is resumed, not when others wait");
        stage.succeed(small);
        stage.resume(holder);
        stage.succeed(holder);
        assert_eq!(stage.pick(), [large]);
    }
}
