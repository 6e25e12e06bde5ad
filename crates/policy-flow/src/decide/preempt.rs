//! Cooperative preemption: when a control message arrives during turns of other bands, those turns end after a few microseconds, or after the current message.
//!
//! Room: decisions.
//!
//! # Invariant
//! Control traffic that comes now and then waits for a few messages, not for a turn. Control traffic without pause preempts others only once in several turns, so the shares of the bands hold.
//!
//! # Why it holds
//! Preemption is requested when control arrives, if others have turns and there is credit. Each turn earns credit, and a request costs several turns' worth. There is credit for two requests, because a message from outside reaches its
//! node in two steps, through a source. A request ends when control has its turn, or after so many turns that its cause must be gone.

/// A request costs what so many turns earn.
const COST: u32 = 4;
/// The limit of saved credit.
const MAX_CREDIT: u32 = 2 * COST;
/// A request ends after so many turns, also if control had none.
const MAX_AGE: u32 = 7;

#[derive(Debug, Default)]
pub(crate) struct Preemption {
    requested: bool,
    credit: u32,
    age: u32,
}

impl Preemption {
    /// Whether running turns should end early.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested
    }

    /// Control arrived. `running`: the number of running turns.
    pub(super) fn control_arrived(&mut self, running: usize) {
        if running > 0 && !self.requested && self.credit >= COST {
            *self = Preemption { requested: true, credit: self.credit - COST, age: 0 };
        }
    }

    /// A turn is given.
    pub(super) fn turn_given(&mut self, of_control: bool) {
        self.credit = (self.credit + 1).min(MAX_CREDIT);
        self.age = self.age.saturating_add(1);
        self.requested &= !of_control && self.age < MAX_AGE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_credit() -> Preemption {
        let mut preemption = Preemption::default();
        (0..100).for_each(|_| preemption.turn_given(false));
        preemption
    }

    #[test]
    fn a_request_lasts_until_control_has_its_turn() {
        let mut preemption = with_credit();
        preemption.control_arrived(0);
        assert!(!preemption.is_requested(), "there is no turn to preempt");
        preemption.control_arrived(1);
        assert!(preemption.is_requested());
        preemption.turn_given(false);
        assert!(preemption.is_requested());
        preemption.turn_given(true);
        assert!(!preemption.is_requested());
    }

    #[test]
    fn a_message_in_two_steps_preempts_twice() {
        let mut preemption = with_credit();
        preemption.control_arrived(1);
        preemption.turn_given(true);
        preemption.control_arrived(1);
        assert!(preemption.is_requested());
        preemption.turn_given(true);
        preemption.control_arrived(1);
        assert!(!preemption.is_requested(), "but not for ever");
    }

    #[test]
    fn control_without_pause_preempts_once_in_four_turns() {
        let mut preemption = Preemption::default();
        let mut requests = 0;
        for turn in 0..7_000 {
            let was_requested = preemption.is_requested();
            preemption.control_arrived(1);
            requests += u32::from(!was_requested && preemption.is_requested());
            preemption.turn_given(turn % 2 == 0);
        }
        assert!(requests > 0 && requests <= 7_000 / COST, "{requests} requests");
    }

    #[test]
    fn a_request_ends_without_control() {
        let mut preemption = with_credit();
        preemption.control_arrived(1);
        (0..MAX_AGE).for_each(|_| preemption.turn_given(false));
        assert!(!preemption.is_requested());
    }
}
