//! When control traffic comes while turns are being given, those turns end after a few microseconds, or after the message they are at.
//!
//! Room: decisions.
//!
//! # Invariant
//! Control that comes now and then waits for a few messages, not for a turn. Control that never lets up hurries others once in so many turns only, so their shares stay what they are.
//!
//! # Why it holds
//! A rush is called when control comes, if others have turns and there is credit: turns given earn it, and a rush costs several. There is credit for two, since what comes from outside comes to its node
//! in two steps, through a source. A rush is over when control has its turn; or when so many turns went by that whatever called it must be gone.

/// A rush costs what so many turns earn.
const COST: u32 = 4;
/// No more is saved.
const MOST_CREDIT: u32 = 2 * COST;
/// A rush that nobody answers is over after so many turns.
const LONGEST: u32 = 7;

#[derive(Debug, Default)]
pub(crate) struct Rush {
    on: bool,
    credit: u32,
    age: u32,
}

impl Rush {
    /// Whether turns should end soon.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Control came; `running`: so many turns are being given.
    pub(super) fn control_came(&mut self, running: usize) {
        if running > 0 && !self.on && self.credit >= COST {
            *self = Rush { on: true, credit: self.credit - COST, age: 0 };
        }
    }

    /// A turn is given.
    pub(super) fn turn_given(&mut self, of_control: bool) {
        self.credit = (self.credit + 1).min(MOST_CREDIT);
        self.age = self.age.saturating_add(1);
        self.on &= !of_control && self.age < LONGEST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rested() -> Rush {
        let mut rush = Rush::default();
        (0..100).for_each(|_| rush.turn_given(false));
        rush
    }

    #[test]
    fn a_rush_lasts_until_control_has_its_turn() {
        let mut rush = rested();
        rush.control_came(0);
        assert!(!rush.is_on(), "nobody is to be hurried");
        rush.control_came(1);
        assert!(rush.is_on());
        rush.turn_given(false);
        assert!(rush.is_on());
        rush.turn_given(true);
        assert!(!rush.is_on());
    }

    #[test]
    fn what_comes_in_two_steps_is_hurried_twice() {
        let mut rush = rested();
        rush.control_came(1);
        rush.turn_given(true);
        rush.control_came(1);
        assert!(rush.is_on());
        rush.turn_given(true);
        rush.control_came(1);
        assert!(!rush.is_on(), "but not for ever");
    }

    #[test]
    fn control_that_never_lets_up_calls_one_rush_in_four_turns() {
        let mut rush = Rush::default();
        let mut called = 0;
        for turn in 0..7_000 {
            let was_on = rush.is_on();
            rush.control_came(1);
            called += u32::from(!was_on && rush.is_on());
            rush.turn_given(turn % 2 == 0);
        }
        assert!(called > 0 && called <= 7_000 / COST, "{called} were called");
    }

    #[test]
    fn a_rush_that_nobody_answers_passes() {
        let mut rush = rested();
        rush.control_came(1);
        (0..LONGEST).for_each(|_| rush.turn_given(false));
        assert!(!rush.is_on());
    }
}
