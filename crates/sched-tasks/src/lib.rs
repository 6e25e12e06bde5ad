//! Tasks: fibers and futures in nurseries (structured concurrency), on workers that steal work.
//!
//! Room: interface.

mod alarm;
mod authority;
mod block_on;
pub mod broadcast;
mod budget;
mod build_error;
mod chance;
mod channel;
mod choosing;
mod confine;
mod contain;
mod context;
mod convert;
mod deadline;
pub mod decide;
mod drive;
mod error;
mod explore;
mod free;
pub mod fs;
mod fuel;
mod gate;
#[doc(hidden)]
pub mod internals;
mod kernel;
mod lending;
mod lifecycle;
#[cfg(feature = "net")]
pub mod net;
mod nursery;
pub mod oneshot;
mod options;
mod places;
mod raw;
#[cfg(feature = "net")]
mod reactor;
mod reading;
mod scope;
mod select;
mod spending;
mod stacks;
mod state;
mod stats;
mod stats_table;
mod strand;
mod sync;
mod task_builder;
mod task_state;
mod threads;
mod time;
mod timing;
mod trace;
mod unblock;
mod wait;
mod wait_queue;
pub mod watch;
mod wheel;

pub use authority::{Authority, Capability};
pub use block_on::block_on;
pub use budget::{Answer, CHILD_BUDGET, Exhausted, Pool, Recharge, Settlement};
pub use build_error::BuildError;
pub use chance::{Decision, Drawn};
pub use channel::{
    IntoIter, Iter, Receiver, RecvError, RecvFuture, RecvTimeoutError, SendError, SendFuture, SendTimeoutError, Sender,
    TryRecvError, TrySendError, channel, try_channel, try_unbounded, unbounded,
};
pub use confine::Confinement;
pub use contain::{Stop, contain};
pub use context::{Context, Overrun};
pub use decide::VictimStrategy;
pub use drive::runtime::{Builder, Runtime};
pub use error::{Reason, RunError, TaskError, TaskLabel};
pub use explore::{Explore, Explored, Finding, Outcome, explore};
pub use free::{checkpoint, current_task, current_worker, is_cancelled, is_seeded, join, run, sleep, yield_now};
#[doc(hidden)]
pub use fuel::Fuel;
pub use kernel::{clock::now, log::Logged, share_report::Share, watchdog::Stuck};
pub use nursery::Pauser;
pub use options::{NurseryOptions, OnFailure};
pub use policy_admission::{
    AuditEvent, AuditRecord, AuditTotals, Cap, CapBudget, CapChannel, CapError, CapErrorKind, CapExecutor, CapId,
    CapSpawn, CapUse, Capabilities, Delegation, Grant, Ledger, Profile, Sovereign,
};
pub use policy_admission::{BudgetRule, ChannelLimit, ExecutorLimit, ParseProfileError, Terms};
pub use raw::alloc::BudgetedAlloc;
pub use scope::{
    Canceller, Nursery, OpenNursery, OpenTask, OpenTaskBuilder, OwnedNursery, Spawner, Task, nursery, nursery_with,
};
pub use select::{Case, RecvCase, Select, SendCase};
pub use spending::{BudgetSupervisor, budget_left, charge, recharge};
pub use state::{IllegalMove, NurseryEvent, NurseryState};
pub use stats::{Choices, Diagnostics, Stats, WorkerStats};
pub use strand::local::FiberLocal;
pub use strand::shield::shield;
pub use sync::{
    AcquireFuture, Condvar, Mutex, MutexGuard, Permit, ReadFuture, RwLock, RwLockReadGuard, RwLockWriteGuard,
    Semaphore, WriteFuture, atomic,
};
pub use task_builder::{OwnedTaskBuilder, TaskBuilder, ThreadTaskBuilder};
pub use task_state::TaskState;
pub use time::{Elapsed, Sleep, after, sleep_async, ticker, timeout};
pub use trace::{Event, ParseTraceError, Trace, What};
pub use unblock::{Unblock, unblock, unblock_async};
pub use vocab::{Budget, Component, Operation, Priority, Shortage, TaskId, UNLIMITED};

/// The limit of workers of a runtime.
pub const MAX_WORKERS: usize = 256;
