//! One incarnation of a child as its supervisor holds it: a way to ask it to stop, and a way to make it.
//!
//! Room: driver.
//!
//! # Invariant
//! A cancellation reaches the incarnation's nursery, also if it comes before that nursery is open.
//!
//! # Why it holds
//! Both set a flag under one lock: the cancellation that it came, the nursery that it is open. The second one acts.

use std::sync::{Arc, Mutex, PoisonError};

use sched_tasks::Canceller;

use crate::mailbox::Signal;

/// The present incarnation of a child.
pub(crate) struct Run {
    pub(crate) serial: u64,
    pub(crate) signal: Arc<Signal>,
    pub(crate) link: Arc<Link>,
    /// Whether it was asked to stop for good.
    pub(crate) for_good: bool,
}

/// Reaches the nursery of one incarnation, which opens some time after the incarnation was launched.
#[derive(Default)]
pub(crate) struct Link(Mutex<LinkState>);

#[derive(Default)]
struct LinkState {
    nursery: Option<Canceller>,
    cancelled: bool,
}

impl Link {
    /// The nursery is open. If the cancellation came first, it is carried out now.
    pub(crate) fn publish(&self, nursery: Canceller) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.cancelled {
            nursery.cancel();
        }
        state.nursery = Some(nursery);
    }

    pub(crate) fn cancel(&self) {
        let nursery = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.cancelled = true;
            state.nursery.clone()
        };
        if let Some(nursery) = nursery {
            nursery.cancel();
        }
    }
}
