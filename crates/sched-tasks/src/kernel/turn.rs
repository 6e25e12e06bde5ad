//! What is left of a turn; see `strand/turn.rs` for what a turn is.
//!
//! Room: state.

use std::cell::Cell;

/// So many operations make a turn; tokio's number.
pub(crate) const TURN: u32 = 128;

/// What is left of a strand's turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) left: Cell<u32>,
    /// Nothing may stop here that need not wait.
    pub(crate) fixed: Cell<Option<Fixed>>,
    /// A future was refused in this poll.
    pub(crate) refused: Cell<bool>,
}

/// Where nothing stops that need not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fixed {
    InPoll,
    /// A foreign waker, in the middle of an operation of the runtime.
    InWaker,
}

impl Turn {
    pub(crate) const fn new() -> Self {
        Self { left: Cell::new(TURN), fixed: Cell::new(None), refused: Cell::new(false) }
    }

    /// Whether a waker runs here, in the middle of an operation of the runtime.
    pub(crate) fn is_in_waker(&self) -> bool {
        self.fixed.get() == Some(Fixed::InWaker)
    }

    /// Whether nothing may stop here that need not wait.
    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed.get().is_some()
    }

    /// A new turn begins: others ran, or could have.
    #[inline(always)]
    pub(crate) fn begin(&self) {
        self.left.set(TURN);
    }

    /// Runs `f`, which is no turn for others: what was left is left.
    pub(crate) fn while_kept<R>(&self, f: impl FnOnce() -> R) -> R {
        let left = self.left.get();
        let result = f();
        self.left.set(left);
        result
    }

    /// Whether it is over, and no other has run yet.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.left.get() == 0
    }

    /// Counts an operation that goes on in any case.
    #[inline(always)]
    pub(crate) fn count(&self) {
        self.left.set(self.left.get().saturating_sub(1));
    }

    /// Whether a future was refused since the last time this was asked.
    pub(crate) fn take_refused(&self) -> bool {
        self.refused.take()
    }

    /// Runs `f`, in which no operation stops that need not wait.
    #[inline]
    pub(crate) fn while_fixed<R>(&self, why: Fixed, f: impl FnOnce() -> R) -> R {
        struct Back<'a>(&'a Cell<Option<Fixed>>, Option<Fixed>);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.set(self.1);
            }
        }
        let _back = Back(&self.fixed, self.fixed.replace(Some(why)));
        f()
    }
}
