//! Waiting for a future in code that may block.
//!
//! Room: driver.
//!
//! ```text
//!             listen 1            wake 2
//!    POLLING ──────────► WAITING ────────► WOKEN     and the token is woken
//!       │ wake 3                             │
//!       ├───────────────► WOKEN ◄────────────┘
//!       ▲                   │ poll 4
//!       └───────────────────┘
//! ```
//!
//! # Invariant
//! A wake that comes after a poll began leads to another poll. A waker that comes late wakes nothing but a wait of the same `block_on`.
//!
//! # Why it holds
//! Every move is a swap or a CAS on one word. A wake during a poll (3) makes `listen` (1) fail, so the strand does not wait. A wake of a
//! waiting strand (2) happened after the token was left, and one waker makes that move. A token is used up before the next poll, by its
//! waker or by withdrawing it: what the future itself waits for inside `poll` has another.
//!
//! A waker may be delayed between its move and the token, and find the token of a later wait of the same `block_on`:
//! one poll too many. It cannot find the token of another `block_on`: a signal is used again only when no waker is
//! left, which `Arc::get_mut` checks.

use std::{
    cell::RefCell,
    future::{Future, IntoFuture},
    pin::pin,
    sync::{
        Arc,
        atomic::{
            AtomicU32,
            Ordering::{AcqRel, Acquire},
        },
    },
    task::{Context, Poll, Wake, Waker},
};

use mech_sync::{TokenCell, WaitToken};

use crate::{
    free,
    strand::{self, Strand},
    wait::{self, End},
};

const POLLING: u32 = 0;
const WAITING: u32 = 1;
const WOKEN: u32 = 2;

/// The limit of signals that a thread keeps for later.
const MAX_SPARE: usize = 64;

thread_local! {
    /// Signals without wakers, so that most calls allocate nothing.
    static SPARE: RefCell<Vec<Arc<Signal>>> = const { RefCell::new(Vec::new()) };
}

/// Runs a future to its end: inside a task it blocks only the task, on a plain thread the thread.
///
/// The future may come from any library, as long as it does not need a runtime of its own. A cancelled task drops it
/// and unwinds, so do not wait in here for something that must not be given up; see [`shield`](crate::shield).
///
/// The future is on the caller's stack: box it if it is larger than a few KiB.
///
/// ```
/// use bursar::{block_on, nursery};
///
/// let (tx, rx) = async_channel::bounded(1); // a channel that knows nothing of us
/// let sum = nursery(|n| {
///     n.spawn(move || (1..=10).try_for_each(|i| block_on(tx.send(i))));
///     let mut sum = 0;
///     while let Ok(i) = block_on(rx.recv()) {
///         sum += i;
///     }
///     Ok(sum)
/// })?;
/// assert_eq!(sum, 55);
/// # Ok::<(), bursar::TaskError>(())
/// ```
pub fn block_on<F: IntoFuture>(future: F) -> F::Output {
    strand::with(|strand| {
        strand.checkpoint();
        let listener = Listener::new();
        let mut future = pin!(future.into_future()); // dropped before the listener, so its wakers are gone by then
        let mut context = Context::from_waker(&listener.waker);
        loop {
            listener.signal.begin_poll();
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            listener.signal.wait(strand);
        }
    })
}

/// What a waker and a strand share.
struct Signal {
    state: AtomicU32,
    token: TokenCell,
}

impl Signal {
    fn begin_poll(&self) {
        self.state.swap(POLLING, AcqRel); // sees what wakers did before
    }

    /// Waits for the next wake, unless it has come already.
    fn wait(&self, strand: &Strand) {
        let token = strand.waiter.token();
        if !self.listen(token) {
            token.withdraw();
            return free::yield_now(); // a future that wakes itself wants other tasks to run first
        }
        if wait::wait(strand, token, None) == End::Cancelled {
            strand.unwind();
        }
    }

    /// Leaves a token for the next waker. False if a wake came since the poll began.
    fn listen(&self, token: WaitToken) -> bool {
        self.token.set(token);
        self.state.compare_exchange(POLLING, WAITING, AcqRel, Acquire).is_ok()
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, AcqRel) == WAITING {
            strand::wake(self.token.get().expect("a waiting strand left a token"), 0);
        }
    }
}

/// The signal of one `block_on`, as an `Arc` and as a waker.
struct Listener {
    signal: Arc<Signal>,
    waker: Waker,
}

impl Listener {
    fn new() -> Self {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        let signal =
            spare.unwrap_or_else(|| Arc::new(Signal { state: AtomicU32::new(POLLING), token: TokenCell::new() }));
        Self { waker: Waker::from(signal.clone()), signal }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.waker = Waker::noop().clone();
        if Arc::get_mut(&mut self.signal).is_none() {
            return; // a waker is still kept elsewhere, and may be used at any time
        }
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MAX_SPARE {
                spare.push(self.signal.clone());
            }
        });
    }
}
