//! How threads hand work and wakeups to each other. Every protocol has its invariant at the top of its file and a model
//! in `tests/loom/`.
//!
//! Room: mechanism. Knows threads and memory; knows nothing of tasks, budgets or priorities.
//!
//! | file | one idea |
//! |---|---|
//! | [`deque`] | the work-stealing deque of unstarted work: the owner at one end, thieves at the other |
//! | [`injector`] | the global queue: work from outside, first in, first out |
//! | [`mod@line`] | one of many queues of a worker: the owner takes from both ends, thieves take the oldest |
//! | [`counts`] | how much of very many lines may be taken, of which some are behind closed gates |
//! | [`roster`] | which of very many sources have something for a thief |
//! | [`throttle`] | on while a budget is used up; what it holds back is told when it ends |
//! | [`members`] | the last one to leave ends it, and nothing that has ended is joined |
//! | [`directory`] | what there is at the moment, by number and key, and whether there is anything |
//! | [`waiter`] | one blocked task or thread, and the token that wakes exactly one wait of it |
//! | [`inbox`] | where the woken waiters of a thread are delivered |
//! | `waker_slot` | the waker of a future that waits: kept by it, taken by who ends the wait |
//! | [`readiness`] | who waits until one direction of a socket is ready |
//! | [`poller_role`] | one thread polls for events, or a monitor will see that none does |
//! | [`idle`] | idle workers sleep, and no published work sleeps with them |
//! | [`countdown`] | the last member to end wakes the owner |
//! | [`cycle_watch`] | a watcher acts on a cycle that takes too long, and on no other |
//! | [`completion`] | one result and one reader, in either order |
//! | [`ring`] | a bounded queue for many producers and many consumers |
//! | [`spin`] | a spin lock for a few instructions |
//! | [`batch_claim`] | a batch of work that one thread does in order, until another takes the rest back |
//! | [`permit_cache`] | permits that are used again, and given back when many are spare |
//! | [`tally`] | what a thread counts of its dealings with others: wakes sent, locks found taken |
//! | [`ticks`] | time that is cheap to read, to charge what ran |
//! | [`arming`] | the watchdog is armed while any worker runs |
//! | [`main_thread`] | whether the end of a thread is the end of the process |

pub mod arming;
pub mod batch_claim;
pub mod completion;
pub mod countdown;
pub mod counts;
pub mod cycle_watch;
pub mod deque;
pub mod directory;
pub mod idle;
pub mod inbox;
pub mod injector;
pub mod line;
pub mod main_thread;
pub mod members;
pub mod permit_cache;
pub mod poller_role;
pub mod readiness;
pub mod ring;
pub mod roster;
pub mod spin;
mod sync;
pub mod tally;
pub mod throttle;
pub mod ticks;
pub mod waiter;
mod waker_slot;

pub use arming::{Arming, Awake};
pub use batch_claim::BatchClaim;
pub use completion::{Completion, Finish};
pub use countdown::Countdown;
pub use counts::{Counts, Gates};
pub use cycle_watch::CycleWatch;
pub use deque::{Deque, Steal, Stealer};
pub use directory::Directory;
pub use idle::Idle;
pub use injector::Injector;
pub use line::Line;
pub use members::Members;
pub use permit_cache::PermitCache;
pub use poller_role::{PollerRole, Taken};
pub use readiness::{Edge, Lasts, Readiness};
pub use ring::Ring;
pub use roster::{Listing, Roster};
pub use spin::SpinLock;
pub use tally::Tally;
pub use throttle::{Released, Throttle};
pub use waiter::{CodedToken, Delivery, Inbox, PackedToken, Park, TIMEOUT, TokenCell, WaitToken, Waiter, Wake};
