//! What of a session was lost with a stream that is gone, as far as its sender can tell.
//!
//! Room: decisions. Knows messages by their numbers; knows nothing of sockets, clocks and payloads.
//!
//! # Invariant
//! While the stream is there nothing is lost. What a receiver reported as delivered is not lost. Everything else that was in a stream that is gone is, until a receiver that went on says otherwise.
//!
//! # Why it is told
//! A receiver that lives on sees by the numbers what is missing. One that begins later sees only that the first number is not 1, as it is after any other receiver: what came before may be handled, or lost. So
//! each pack says how much was lost before it.
//!
//! # Limits
//! A receiver reports each quarter of a second. What it had handled after its last report, and was killed, counts as lost if the stream is lost as well.

/// What was lost before a pack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Messages of the session.
    pub(crate) messages: u64,
    /// All of them have lower numbers. 0 if nothing was lost.
    pub(crate) before: u64,
}

/// What the sender of a session knows.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    delivered: u64,
    /// With the streams before the last one that was lost.
    earlier: u64,
    /// With the last one.
    last: Lost,
    /// A receiver that has gone on after the last one has not said yet how many it misses.
    is_guess: bool,
}

impl Losses {
    /// The stream is gone, and a new one is there. The broker had acknowledged the messages up to `stored`.
    pub(crate) fn stream_gone(&mut self, stored: u64) {
        self.earlier += self.last.messages;
        let handled = self.delivered.max(self.last.before.saturating_sub(1));
        self.last = Lost { messages: stored.saturating_sub(handled), before: stored + 1 };
        self.is_guess = self.last.messages > 0;
    }

    /// A receiver delivered all up to a number, but for so many that it misses, if it says so.
    pub(crate) fn reported(&mut self, delivered: u64, missing: Option<u64>) {
        self.delivered = self.delivered.max(delivered);
        let most = if delivered + 1 >= self.last.before {
            self.is_guess &= missing.is_none();
            missing.map_or(u64::MAX, |missing| missing.saturating_sub(self.earlier))
        } else {
            // It has them from the old stream.
            self.last.before.saturating_sub(1 + self.delivered)
        };
        self.last.messages = self.last.messages.min(most);
        self.is_guess &= self.last.messages > 0;
    }

    /// Whether a report may say that fewer were lost.
    pub(crate) fn is_guess(&self) -> bool {
        self.is_guess
    }

    /// What the next pack says.
    pub(crate) fn told(&self) -> Lost {
        let messages = self.earlier + self.last.messages;
        if messages == 0 { Lost::default() } else { Lost { messages, before: self.last.before } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_and_not_delivered_is_lost_with_the_stream() {
        let mut losses = Losses::default();
        assert_eq!(losses.told(), Lost::default());
        losses.reported(40, Some(0));
        losses.stream_gone(100);
        assert_eq!(losses.told(), Lost { messages: 60, before: 101 });
        assert!(losses.is_guess());
        // The next receiver counts them too.
        losses.reported(100, Some(60));
        losses.reported(150, Some(60));
        assert_eq!(losses.told(), Lost { messages: 60, before: 101 });
        losses.stream_gone(170);
        assert_eq!(losses.told(), Lost { messages: 80, before: 171 });
    }

    #[test]
    fn a_receiver_that_had_them_already_says_so() {
        let mut losses = Losses::default();
        losses.reported(40, Some(0));
        losses.stream_gone(100);
        losses.reported(90, Some(0));
        assert_eq!(losses.told(), Lost { messages: 10, before: 101 });
        assert!(losses.is_guess(), "it may have more of them");
        losses.reported(130, Some(3));
        assert!(!losses.is_guess());
        assert_eq!(losses.told(), Lost { messages: 3, before: 101 });
        losses.reported(140, Some(7));
        assert_eq!(losses.told(), Lost { messages: 3, before: 101 }, "it may only be less");
    }

    #[test]
    fn with_nothing_in_it_nothing_is_lost() {
        let mut losses = Losses::default();
        losses.stream_gone(0);
        assert_eq!(losses.told(), Lost::default(), "nothing was sent");
        losses.reported(50, Some(0));
        losses.stream_gone(50);
        assert_eq!(losses.told(), Lost::default());
        losses.reported(60, Some(0)); // ahead of the acknowledgement
        losses.stream_gone(55);
        assert_eq!(losses.told(), Lost::default());
    }
}
