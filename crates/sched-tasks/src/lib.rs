//! Tasks: fibers and futures in nurseries, on workers that steal.

mod block_on;
mod channel;
pub mod decide;
mod drive;
mod error;
mod explore;
mod free;
mod line;
mod local;
pub mod net;
mod nursery;
pub mod oneshot;
mod panics;
mod places;
mod raw;
mod scope;
mod select;
mod state;
mod strand;
mod sync;
mod time;
mod wait;

pub use block_on::block_on;
pub use channel::{
    IntoIter, Iter, Receiver, RecvError, RecvFuture, RecvTimeoutError, SendError, SendFuture, SendTimeoutError, Sender,
    TryRecvError, TrySendError, channel, unbounded,
};
pub use decide::VictimStrategy;
pub use drive::{
    chance::{Decision, Drawn},
    clock::now,
    log::Logged,
    runtime::{Builder, Runtime},
    stats::{Stats, WorkerStats},
    trace::{Event, ParseTraceError, Trace, What},
    unblock::{Unblock, unblock, unblock_async},
};
pub use error::{BuildError, Reason, RunError, TaskError, TaskLabel};
pub use explore::{Explore, Explored, Finding, Outcome, explore};
pub use free::{checkpoint, current_task, is_cancelled, join, run, shield, sleep, yield_now};
pub use local::FiberLocal;
pub use nursery::{NurseryOptions, OnFailure};
pub use scope::{Canceller, Nursery, Task, TaskBuilder, nursery, nursery_with};
pub use select::{Case, RecvCase, Select, SendCase};
pub use state::{IllegalMove, NurseryEvent, NurseryState};
pub use sync::{AcquireFuture, Condvar, Mutex, MutexGuard, Permit, Semaphore};
pub use time::{Elapsed, Sleep, sleep_async, timeout};
pub use vocab::{Priority, TaskId};

/// A runtime has at most so many workers.
pub const MAX_WORKERS: usize = 256;
