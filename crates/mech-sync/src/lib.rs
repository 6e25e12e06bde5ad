//! How threads hand work and wakeups to each other.
//!
//! Room: mechanism. Knows threads and memory; knows nothing of tasks, budgets or priorities. Every
//! protocol has its invariant at the top of its file and a model in `tests/loom/`.
//!
//! | file | one idea |
//! |---|---|
//! | [`deque`] | unstarted work: the owner at one end, thieves at the other |
//! | [`injector`] | work from outside, first in, first out |
//! | [`waiter`] | one blocked thing, and the token that wakes exactly one wait of it |
//! | [`inbox`] | where a woken waiter is delivered: a thread's inbox, or a future's waker |
//! | [`idle`] | idle workers sleep, and no published work sleeps with them |
//! | [`countdown`] | the last of many wakes the one who waits |
//! | [`completion`] | one result, one reader, whichever comes first |
//! | [`ring`] | a bounded queue for many on both sides |
//! | [`spin`] | a lock for a few instructions |
//! | [`batch_claim`] | things that one thread does in turn, until another takes the rest back |
//! | [`permit_cache`] | rights that are used again, and given back when many lie about |
//! | [`arming`] | somebody looks round while anybody is awake |

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
