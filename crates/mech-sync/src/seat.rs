//! One blocked thing, and the ticket that wakes exactly one wait of it.
//!
//! Room: mechanism. A *seat* belongs to a fiber, a thread or a future for as long as it may block. A *ticket*
//! names one wait on that seat: it is what a channel, a lock or a timer keeps and later wakes.
//!
//! ```text
//!   word = epoch << 18 | code << 2 | KICKED | PARKED
//!
//!              park                     wake(code)
//!   (e, -) ───────────► (e, PARKED) ───────────────────► (e+1, code)  and is delivered
//!     │                     │ kick
//!     │ wake(code)          └──────► (e, KICKED)   and is delivered; the ticket stays good
//!     └──► (e+1, code)   not parked yet: park will refuse
//! ```
//!
//! # Invariant
//! A ticket wakes at most one wait, the one it was made for; a wait that parked is delivered exactly once per
//! parking; a kick is never lost.
//!
//! # Why it holds
//! Waking *is* moving the epoch on, by CAS: a ticket of an older epoch changes nothing, and of two wakers one wins.
//! Whoever clears PARKED delivers the seat, and one CAS clears it. KICKED is cleared only by the seat's owner, by CAS,
//! after which it looks at what it was kicked for.
//!
//! Seats and homes are `&'static` and never freed, only reused: a waker that comes late touches a live word and
//! finds another epoch there. No reference counts, no locks, no "is it still alive?".
//!
//! Checked by `tests/loom/seat.rs`: a `park` that overlooks kicks or does not acquire fails `a_wake_or_a_kick_is_never_lost`; a wake by plain
//! store, or a `park` that does not release, fails `of_two_wakers_one_delivers`; a `withdraw` that does not acquire, `a_late_withdrawal_sees_the_waker`; an
//! `unpark` that overlooks a kick, `a_sleeper_whose_time_is_up_knows_what_will_arrive`.

use crate::{
    home::{self, Link, Linked},
    sync::{
        atomic::{
            AtomicPtr, AtomicU32, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
        or_planted,
    },
};

const PARKED: u64 = 1;
const KICKED: u64 = 2;
const CODE: u64 = 4;
const EPOCH: u64 = CODE << 16;

/// The code of a wake that came because time was up.
pub const TIMEOUT: u16 = u16::MAX;

/// Where woken seats are brought.
pub type Home = home::Home<Seat>;

/// Where one blocked thing sits.
#[derive(Debug)]
pub struct Seat {
    word: AtomicU64,
    home: AtomicPtr<Home>,
    /// Links seats in an inbox or a run queue; a seat is in at most one, see the invariant.
    next: Link<Seat>,
    /// The owner's note to itself: which of its fibers sits here.
    tag: AtomicU32,
}

/// Names one wait on one seat.
#[derive(Debug, Clone, Copy)]
pub struct Ticket {
    seat: &'static Seat,
    epoch: u64,
}

/// What [`Ticket::park`] says.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
#[must_use = "a parked seat must stop running, any other must not"]
pub enum Park {
    /// Stop running: the seat will be delivered to its home.
    Parked,
    /// The ticket was already woken, with this code.
    Woken(u16),
    /// Somebody kicked: look at what for, then park again with the same ticket or withdraw it.
    Kicked,
}

/// A seat that its waker must bring home.
#[derive(Debug)]
#[must_use = "a seat that is not delivered never runs again"]
pub struct Delivery(&'static Seat);

impl Seat {
    /// A seat of `home`.
    pub fn new(home: &'static Home) -> Self {
        Self {
            word: AtomicU64::new(0),
            home: AtomicPtr::new(std::ptr::from_ref(home).cast_mut()),
            next: Link::new(),
            tag: AtomicU32::new(0),
        }
    }

    /// Gives a seat that nobody sits on to `home`.
    pub fn move_to(&self, home: &'static Home) {
        self.home.store(std::ptr::from_ref(home).cast_mut(), Release);
    }

    /// Where this seat is delivered.
    #[inline]
    pub fn home(&self) -> &'static Home {
        // SAFETY: only ever set from a `&'static Home`, by `new` and `move_to`.
        unsafe { &*self.home.load(Acquire) }
    }

    /// The owner's note.
    #[inline]
    pub fn tag(&self) -> u32 {
        self.tag.load(Relaxed)
    }

    /// Sets the owner's note.
    pub fn set_tag(&self, tag: u32) {
        self.tag.store(tag, Relaxed);
    }

    /// Whether who sits here has stopped and nobody has woken it yet, for who looks on: the answer may be old by the time it is read.
    pub fn is_parked(&self) -> bool {
        self.word.load(Relaxed) & PARKED != 0
    }

    /// A ticket for the next wait. Only the seat's owner calls this, and only between waits.
    #[inline]
    pub fn ticket(&'static self) -> Ticket {
        Ticket { seat: self, epoch: self.word.load(Relaxed) / EPOCH }
    }

    /// Wakes the seat without ending its wait: it is to look around. Returns the seat if it slept.
    pub fn kick(&'static self) -> Option<Delivery> {
        let word = self
            .word
            .fetch_update(AcqRel, Relaxed, |word| Some((word | KICKED) & !PARKED))
            .expect("the update always gives a word");
        (word & PARKED != 0).then_some(Delivery(self))
    }

    /// The next seat in the queue this one is in.
    #[inline]
    pub fn next(&self) -> Option<&'static Seat> {
        self.next.next()
    }

    /// Links this seat; only who owns the queue it is in may do so.
    #[inline]
    pub fn set_next(&self, next: Option<&'static Seat>) {
        self.next.set_next(next);
    }
}

impl Linked for Seat {
    #[inline]
    fn link(&self) -> &Link<Seat> {
        &self.next
    }
}

impl Ticket {
    /// The seat this ticket is for.
    pub fn seat(&self) -> &'static Seat {
        self.seat
    }

    /// Ends the wait and says why: `code` means something to whoever waits. Returns the seat if it was parked; a ticket that
    /// was used before does nothing.
    #[inline]
    pub fn wake(self, code: u16) -> Wake {
        let word = &self.seat.word;
        let mut now = word.load(Relaxed);
        loop {
            if now / EPOCH != self.epoch {
                return Wake::Stale;
            }
            let next = (self.epoch + 1).wrapping_mul(EPOCH) | (u64::from(code) * CODE) | (now & KICKED);
            let swapped = or_planted!(
                word.compare_exchange_weak(now, next, AcqRel, Relaxed),
                "wake-by-store" => { word.store(next, Release); Ok(now) }
            );
            match swapped {
                Ok(was) if was & PARKED != 0 => return Wake::Parked(Delivery(self.seat)),
                Ok(_) => return Wake::Awake,
                Err(changed) => now = changed,
            }
        }
    }

    /// Goes to sleep, unless the ticket was woken or the seat kicked. Owner only.
    #[inline]
    pub fn park(self) -> Park {
        let word = &self.seat.word;
        let mut now = word.load(Relaxed);
        loop {
            if now / EPOCH != self.epoch {
                // See what the waker did before. Not a fence: sanitizers do not know those.
                or_planted!({ let _ = word.load(Acquire); }, "park-without-acquire" => ());
                return Park::Woken((now / CODE) as u16);
            }
            let (next, verdict) = if now & or_planted!(KICKED, "park-ignores-kick" => 0) != 0 {
                (now & !KICKED, Park::Kicked)
            } else {
                (now | PARKED, Park::Parked)
            };
            // Acquires what it was kicked for; releases what the owner did to whoever delivers it.
            let order = or_planted!(AcqRel, "park-relaxed" => Relaxed);
            match word.compare_exchange_weak(now, next, order, Relaxed) {
                Ok(_) => return verdict,
                Err(changed) => now = changed,
            }
        }
    }

    /// Whether it names the same wait.
    pub fn is_same(self, other: Ticket) -> bool {
        std::ptr::eq(self.seat, other.seat) && self.epoch == other.epoch
    }

    /// Whether the wait has been ended. Owner only.
    #[inline]
    pub fn is_woken(self) -> bool {
        self.seat.word.load(or_planted!(Acquire, "is-woken-relaxed" => Relaxed)) / EPOCH != self.epoch
    }

    /// Ends the wait from the owner's side. False if somebody woke it first: then what the waker did counts.
    ///
    /// For an owner that runs; one that parked and was not delivered calls [`Ticket::unpark`].
    pub fn withdraw(self) -> bool {
        match self.wake(0) {
            Wake::Stale => {
                or_planted!({ let _ = self.seat.word.load(Acquire); }, "withdraw-without-acquire" => ()); // as in `park`
                false
            }
            Wake::Awake | Wake::Parked(_) => true,
        }
    }

    /// Ends the wait of an owner that parked and comes back by itself, because its time is up or its future was dropped. False if
    /// somebody woke or kicked it first: then the seat is on its way home, once, and must be taken in there before it parks
    /// again or changes hands. What ended the wait is what [`Ticket::park`] says.
    #[must_use = "a seat that is on its way must not be used before it arrives"]
    pub fn unpark(self) -> bool {
        or_planted!(matches!(self.wake(TIMEOUT), Wake::Parked(_)), "unpark-like-withdraw" => self.withdraw())
    }
}

/// What [`Ticket::wake`] did.
#[derive(Debug)]
#[must_use = "a parked seat must be delivered"]
pub enum Wake {
    /// It slept: bring it home.
    Parked(Delivery),
    /// It had not gone to sleep yet, and now will not.
    Awake,
    /// The wait was over already.
    Stale,
}

impl Delivery {
    /// The seat, for a caller that runs at its home and can queue it itself.
    #[inline]
    pub fn seat(self) -> &'static Seat {
        self.0
    }

    /// Whether `home` is where it goes.
    #[inline]
    pub fn is_for(&self, home: &'static Home) -> bool {
        std::ptr::eq(self.0.home.load(Relaxed), home)
    }

    /// Brings the seat home and wakes what sleeps there.
    pub fn send(self) {
        self.0.home().deliver(self.0);
    }
}

/// A ticket in a place that two threads share. Whoever reads it must be ordered after the write by other means.
#[derive(Debug)]
pub struct TicketCell {
    seat: AtomicPtr<Seat>,
    epoch: AtomicU64,
}

impl Default for TicketCell {
    fn default() -> Self {
        Self::new()
    }
}

impl TicketCell {
    /// A cell without a ticket.
    #[inline(always)]
    pub fn new() -> Self {
        Self { seat: AtomicPtr::new(std::ptr::null_mut()), epoch: AtomicU64::new(0) }
    }

    /// Keeps `ticket`.
    #[inline]
    pub fn set(&self, ticket: Ticket) {
        self.epoch.store(ticket.epoch, Relaxed);
        self.seat.store(std::ptr::from_ref(ticket.seat).cast_mut(), Relaxed);
    }

    /// The ticket kept.
    #[inline]
    pub fn get(&self) -> Option<Ticket> {
        // SAFETY: null, or set from a `&'static Seat` by `set`.
        let seat = unsafe { self.seat.load(Relaxed).as_ref() }?;
        Some(Ticket { seat, epoch: self.epoch.load(Relaxed) })
    }
}
