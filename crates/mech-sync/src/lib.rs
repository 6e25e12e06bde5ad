//! How threads hand work and wakeups to each other. Every protocol has its invariant at the top of its file and a model
//! in `tests/loom/`.
//!
//! Room: mechanism. Knows threads and memory; knows nothing of tasks, budgets or priorities.
//!
//! | file | one idea |
//! |---|---|
//! | [`deque`] | the work-stealing deque of unstarted work: the owner at one end, thieves at the other |
//! | [`injector`] | the global queue: work from outside, first in, first out |
//! | [`waiter`] | one blocked task or thread, and the token that wakes exactly one wait of it |
//! | [`inbox`] | where a woken waiter is delivered: a thread's inbox, or a future's waker |
//! | [`idle`] | idle workers sleep, and no published work sleeps with them |
//! | [`countdown`] | the last member to end wakes the owner |
//! | [`completion`] | one result and one reader, in either order |
//! | [`ring`] | a bounded queue for many producers and many consumers |
//! | [`spin`] | a spin lock for a few instructions |
//! | [`batch_claim`] | a batch of work that one thread does in order, until another takes the rest back |
//! | [`permit_cache`] | permits that are used again, and given back when many are spare |
//! | [`ticks`] | time that is cheap to read, to charge what ran |
//! | [`arming`] | the watchdog is armed while any worker runs |

pub mod arming;
pub mod batch_claim;
pub mod completion;
pub mod countdown;
pub mod deque;
pub mod idle;
pub mod inbox;
pub mod injector;
pub mod permit_cache;
pub mod ring;
pub mod spin;
mod sync;
pub mod ticks;
pub mod waiter;

pub use arming::{Arming, Awake};
pub use batch_claim::BatchClaim;
pub use completion::{Completion, Finish};
pub use countdown::Countdown;
pub use deque::{Deque, Steal, Stealer};
pub use idle::Idle;
pub use injector::Injector;
pub use permit_cache::PermitCache;
pub use ring::Ring;
pub use spin::SpinLock;
pub use waiter::{Delivery, Inbox, Park, TIMEOUT, TokenCell, WaitToken, Waiter, Wake};
