//! When control traffic comes while turns are being given, those turns end after the message they are at.
//!
//! Room: decisions.
//!
//! # Invariant
//! Control that comes now and then waits for a message, not for a turn. Control that never lets up hurries others once in so many turns only, so their shares stay what they are.
//!
//! # Why it holds
//! A rush is called when control comes, if others have turns, and if enough turns were given since the last. It is over when control has its turn; or when so many turns went by that
//! whatever called it must be gone.

/// At most one rush in so many turns: the length of the usual cycle of bands.
const TURNS_BETWEEN: u32 = 7;

#[derive(Debug, Default)]
pub(crate) struct Rush {
    on: bool,
    turns_since: u32,
}

impl Rush {
    /// Whether turns should end soon.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Control came; `running`: so many turns are being given.
    pub(super) fn control_came(&mut self, running: usize) {
        if running > 0 && self.turns_since >= TURNS_BETWEEN {
            self.on = true;
            self.turns_since = 0;
        }
    }

    /// A turn is given.
    pub(super) fn turn_given(&mut self, of_control: bool) {
        self.turns_since = self.turns_since.saturating_add(1);
        self.on &= !of_control && self.turns_since < TURNS_BETWEEN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rush_lasts_until_control_has_its_turn() {
        let mut rush = Rush::default();
        (0..TURNS_BETWEEN).for_each(|_| rush.turn_given(false));
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
    fn control_that_never_lets_up_calls_one_rush_in_seven_turns() {
        let mut rush = Rush::default();
        let mut called = 0;
        for turn in 0..7_000 {
            let was_on = rush.is_on();
            rush.control_came(1);
            called += u32::from(!was_on && rush.is_on());
            rush.turn_given(turn % 2 == 0);
        }
        assert!(called > 0 && called <= 7_000 / TURNS_BETWEEN, "{called} were called");
    }

    #[test]
    fn a_rush_that_nobody_answers_passes() {
        let mut rush = Rush::default();
        (0..TURNS_BETWEEN).for_each(|_| rush.turn_given(false));
        rush.control_came(1);
        (0..TURNS_BETWEEN).for_each(|_| rush.turn_given(false));
        assert!(!rush.is_on());
    }
}
