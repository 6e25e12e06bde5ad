//! The types of a runtime that refer to each other, and how one wakes another.
//!
//! Room: state. Knows who holds what and who wakes whom; knows nothing of how a task runs, waits, pays or is spawned.
//!
//! ```text
//!   Strand ──► Worker ──► Shared ──► queues of RunnableRef, Clock, Watchdog, Groups, Seeded
//!     │           │          ▲
//!     │           ▼          │
//!     └──► ScopeRef ──► NurseryCore ──► members, nested nurseries
//!     └──► Running ──► Header of a task ──► ScopeRef
//! ```
//!
//! # Invariant
//! No module above is imported here. Nothing here stops a strand.
//!
//! # Why one module
//! The types form a circle: a strand has a worker, the worker has queues of tasks, a task is run with a strand; a task has a nursery, the nursery has a runtime, the clock of the
//! runtime has nurseries. Between modules imports go one way, so these types share one.
//!
//! # Rejected
//! Type parameters or erased pointers instead of the types themselves: each cut would cost a cast in unsafe code, and no reader would gain by it.

mod cancel;
pub(crate) mod clock;
pub(crate) mod cpu_server;
pub(crate) mod groups;
pub(crate) mod local_shares;
pub(crate) mod locals;
pub(crate) mod log;
pub(crate) mod nursery;
mod pending_ends;
pub(crate) mod seeded;
pub(crate) mod share_report;
pub(crate) mod shared;
pub(crate) mod shares;
pub(crate) mod stepwise;
pub(crate) mod strand;
pub(crate) mod takes;
pub(crate) mod thread;
pub(crate) mod timers;
pub(crate) mod traces;
pub(crate) mod turn;
mod unwinding;
pub(crate) mod wake;
pub(crate) mod watchdog;
pub(crate) mod worker;

// Unsafe code stands in files called `raw.rs`, one invariant a file.

pub(crate) mod current {
    mod raw;
    pub(super) use self::raw::set;
    pub(crate) use self::raw::{StrandRef, enter, get, is_ending, peek, without};
}
pub(crate) mod fibers {
    mod raw;
    pub(crate) use self::raw::Fibers;
}
pub(crate) mod local_queue {
    mod raw;
    pub(crate) use self::raw::LocalQueue;
}
pub(crate) mod name_slot {
    mod raw;
    pub(crate) use self::raw::{Name, NameSlot};
}
pub(crate) mod scope {
    mod raw;
    pub(crate) use self::raw::{
        OpenRef, OpenScope, ScopeRef, Unfinished, enter, enter_open, is_in, leave_open, shared, unfinished, weak,
        while_joining, while_open,
    };
}
pub(crate) mod task {
    mod raw;
    pub(crate) use self::raw::{
        Details, FutureRef, Header, Identity, Runnable, RunnableRef, Running, TaskRef, VTable, label,
    };
}
pub(crate) mod worker_set {
    mod raw;
    pub(crate) use self::raw::WorkerSet;
}
