//! What only a worker of a seeded runtime has.
//!
//! Room: state. Knows one virtual worker; knows nothing of how it takes a step (`drive/stepwise.rs`).

use std::cell::Cell;

use mech_sync::Waiter;
use vocab::TaskId;

use super::{seeded::Seeded, worker::Worker};
use crate::trace::What;

/// What only a worker of a seeded runtime has.
pub(crate) struct Stepwise {
    pub(crate) seeded: &'static Seeded,
    /// The fiber in which it was interrupted.
    pub(crate) paused: Cell<Option<&'static Waiter>>,
    /// It takes a step: the worker's own strand may wait in the middle, for a destructor.
    pub(crate) in_step: Cell<bool>,
    /// The last step ended with a yield.
    pub(crate) yielded: Cell<bool>,
    /// Which task it started or went on with last.
    pub(crate) task: Cell<Option<TaskId>>,
}

impl Stepwise {
    pub(crate) fn new(seeded: &'static Seeded) -> Self {
        Self {
            seeded,
            paused: Cell::new(None),
            in_step: Cell::new(false),
            yielded: Cell::new(false),
            task: Cell::new(None),
        }
    }
}

impl Worker {
    /// Its own part, for what is called only in a seeded run.
    pub(crate) fn own(&self) -> &Stepwise {
        self.stepwise.as_ref().expect("a driver has stepwise workers")
    }

    pub(crate) fn note(&self, what: What, task: Option<TaskId>) {
        self.own().seeded.note(Some(self.index as u32), what, task);
    }
}
