//! Strands of plain threads.
//!
//! Room: driver. Knows waiters and inboxes.

use std::rc::Rc;

use mech_sync::{Inbox, main_thread};

use super::{current, seeded::Driver, strand::Strand};
use crate::places;

/// A plain thread's strand, with its own home.
pub(crate) fn for_thread() -> Strand {
    Strand::new(places::take_waiter(places::take_inbox()), None)
}

/// The same for a thread that cannot wait on its present strand. If it plays workers, it goes on to.
pub(crate) fn for_thread_here() -> Strand {
    Strand { driver: current::get().driver.clone(), ..for_thread() }
}

/// A strand on which a plain thread plays workers while it waits.
pub(crate) fn driving(driver: Rc<dyn Driver>) -> Strand {
    Strand { driver: Some(driver), ..for_thread() }
}

/// Ends what a plain thread has open, which waits, and drops its values. The strand is current still.
///
/// With the main thread the process ends: it waits for nothing, as it waits for no thread, so that `exit` ends a program in which a task is stuck.
pub(crate) fn end_thread(strand: &Strand) {
    if main_thread::is_here() {
        strand.leave_open_nurseries();
    } else {
        strand.end_open_nurseries();
    }
    drop(strand.locals.take());
}

/// Gives back what a plain thread's strand held. Nurseries that it could not end are its runtime's to end.
pub(crate) fn retire_thread(strand: &Strand) {
    strand.open_scopes.take().iter().for_each(|scope| scope.group().leave());
    let inbox: &'static Inbox = strand.inbox();
    places::give_waiter(strand.waiter);
    places::give_inbox(inbox);
}
