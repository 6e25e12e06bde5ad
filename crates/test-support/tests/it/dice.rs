use std::collections::HashSet;

use test_support::Dice;

fn throws(dice: &Dice) -> Vec<u64> {
    (0..100).map(|_| dice.throw()).collect()
}

#[test]
fn equal_seeds_give_equal_numbers_and_neighbours_have_none_in_common() {
    assert_eq!(throws(&Dice::new(7)), throws(&Dice::new(7)));
    let all: HashSet<u64> = (0..1_000).flat_map(|seed| throws(&Dice::new(seed))).collect();
    assert_eq!(all.len(), 100_000);
}

#[test]
fn a_clone_continues_with_the_same_numbers() {
    let dice = Dice::new(1);
    dice.throw();
    let clone = dice.clone();
    assert_eq!(throws(&dice), throws(&clone));
}

#[test]
fn each_side_comes_about_equally_often_for_any_seed() {
    for seed in 0..100 {
        let (dice, mut counts) = (Dice::new(seed), [0; 6]);
        (0..6_000).for_each(|_| counts[dice.below(6) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "seed {seed}: {counts:?}");
        let hits = (0..1_000).filter(|_| dice.chance(25)).count();
        assert!((180..320).contains(&hits), "seed {seed}: {hits} of 1,000 at 25 %");
    }
    let dice = Dice::new(0);
    assert!((0..100).all(|_| dice.chance(100) && !dice.chance(0) && dice.below(1) == 0 && dice.below(0) == 0));
    let drawn: HashSet<_> = (0..100).map(|_| dice.one_of(&["a", "b", "c"])).collect();
    assert_eq!(drawn.len(), 3);
}
