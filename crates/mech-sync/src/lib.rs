//! How threads hand work and wakeups to each other.
//!
//! Room: mechanism. Knows threads and memory; knows nothing of tasks, budgets or priorities. Every
//! protocol has its invariant at the top of its file and a model in `tests/loom/`.
//!
//! | file | one idea |
//! |---|---|
//! | [`deque`] | unstarted work: the owner at one end, thieves at the other |
//! | [`injector`] | work from outside, first in, first out |
//! | [`seat`] | one blocked thing, and the ticket that wakes exactly one wait of it |
//! | [`home`] | where a woken seat is delivered: a thread's inbox, or a future's waker |
//! | [`idle`] | idle workers sleep, and no published work sleeps with them |
//! | [`countdown`] | the last of many wakes the one who waits |
//! | [`completion`] | one result, one reader, whichever comes first |
//! | [`ring`] | a bounded queue for many on both sides |
//! | [`spin`] | a lock for a few instructions |
//! | [`agenda`] | things that one thread does in turn, until another takes the rest back |
//! | [`stock`] | rights that are used again, and given back when many lie about |
//! | [`vigil`] | somebody looks round while anybody is awake |

pub mod agenda;
pub mod completion;
pub mod countdown;
pub mod deque;
pub mod home;
pub mod idle;
pub mod injector;
pub mod ring;
pub mod seat;
pub mod spin;
pub mod stock;
mod sync;
pub mod vigil;

pub use agenda::Agenda;
pub use completion::{Completion, Finish};
pub use countdown::Countdown;
pub use deque::{Deque, Steal, Stealer};
pub use idle::Idle;
pub use injector::Injector;
pub use ring::Ring;
pub use seat::{Delivery, Home, Park, Seat, TIMEOUT, Ticket, TicketCell, Wake};
pub use spin::SpinLock;
pub use stock::Stock;
pub use vigil::{Awake, Vigil};
