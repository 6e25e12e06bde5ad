//! A blocked task or thread, and the token that wakes exactly one wait of it.
//!
//! Room: mechanism. Knows epochs, codes and inboxes; knows nothing of tasks or of what they wait for.
//!
//! A *waiter* belongs to a fiber, a thread or a future for as long as it may block. A *token* names one wait on that
//! waiter: it is what a channel, a lock or a timer keeps and later wakes.
//!
//! ```text
//!   word = epoch << 18 | code << 2 | INTERRUPTED | PARKED
//!
//!              park                     wake(code)
//!   (e, -) ───────────► (e, PARKED) ───────────────────► (e+1, code)  and is delivered
//!     │                     │ interrupt
//!     │ wake(code)          └──────► (e, INTERRUPTED)   and is delivered; the token stays good
//!     └──► (e+1, code)   not parked yet: park will refuse
//! ```
//!
//! # Invariant
//! A token wakes at most one wait, the one it was made for; a wait that parked is delivered exactly once per
//! parking; an interrupt is never lost.
//!
//! # Why it holds
//! Waking *is* moving the epoch on, by CAS: a token of an older epoch changes nothing, and of two wakers one wins.
//! The thread that clears PARKED delivers the waiter, and one CAS clears it. INTERRUPTED is cleared only by the
//! waiter's owner, by CAS, after which it looks at what it was interrupted for.
//!
//! Waiters and inboxes are `&'static` and never freed, only reused: a waker that comes late touches a live word and
//! finds another epoch there. No reference counts, no locks, no "is it still alive?".
//!
//! Checked by `tests/loom/waiter.rs`: a `park` that overlooks interrupts or does not acquire fails
//! `a_wake_or_an_interrupt_is_never_lost`; a wake by plain store, or a `park` that does not release, fails
//! `of_two_wakers_one_delivers`; a `withdraw` that does not acquire, `a_late_withdrawal_sees_the_waker`; an `unpark`
//! that overlooks an interrupt, `a_sleeper_whose_time_is_up_knows_what_will_arrive`.

use std::task::Waker;

use crate::{
    inbox::{self, Link, Linked},
    sync::{
        atomic::{
            AtomicPtr, AtomicU32, AtomicU64,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
        or_planted,
    },
    waker_slot::{self, Slot, SlotState, WakerSlot},
};

const PARKED: u64 = 1;
const INTERRUPTED: u64 = 2;
const CODE: u64 = 4;
const EPOCH: u64 = CODE << 16;

/// The code of a wake that came because time was up.
pub const TIMEOUT: u16 = u16::MAX;

/// Where the woken waiters of a thread are delivered.
pub type Inbox = inbox::Inbox<Waiter>;

/// The wait state of one fiber, thread or future.
#[derive(Debug)]
pub struct Waiter {
    word: AtomicU64,
    /// Null if it is a future's.
    inbox: AtomicPtr<Inbox>,
    /// Links waiters in an inbox or a run queue; a waiter is in at most one, see the invariant.
    next: Link<Waiter>,
    /// The owner's own tag: which of its fibers uses this waiter.
    tag: AtomicU32,
    /// Of a future: whom to wake; see `waker_slot.rs`.
    slot_state: SlotState,
    slot: Slot,
}

/// Names one wait on one waiter.
#[derive(Debug, Clone, Copy)]
pub struct WaitToken {
    waiter: &'static Waiter,
    epoch: u64,
}

/// A token and the code it is to be woken with, in two words: lists of waits may be long.
#[derive(Debug, Clone, Copy)]
pub struct CodedToken {
    waiter: &'static Waiter,
    /// epoch << 16 | code
    word: u64,
}

impl CodedToken {
    /// The token.
    #[inline]
    pub fn token(self) -> WaitToken {
        WaitToken { waiter: self.waiter, epoch: self.word >> 16 }
    }

    /// The code.
    #[inline]
    pub fn code(self) -> u16 {
        self.word as u16
    }
}

/// A token for a value that has other states, too: an enum with some of them is no larger than a token.
#[derive(Debug, Clone, Copy)]
pub struct PackedToken {
    waiter: &'static Waiter,
    low: u32,
    high: u16,
    _spare: Spare,
}

/// A byte with one value; the others are free for the compiler.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Spare {
    Zero = 0,
}

impl PackedToken {
    /// The token.
    #[inline]
    pub fn token(self) -> WaitToken {
        WaitToken { waiter: self.waiter, epoch: u64::from(self.high) << 32 | u64::from(self.low) }
    }
}

impl From<WaitToken> for PackedToken {
    #[inline]
    fn from(token: WaitToken) -> Self {
        // An epoch has 46 bits: see the word of a waiter.
        Self { waiter: token.waiter, low: token.epoch as u32, high: (token.epoch >> 32) as u16, _spare: Spare::Zero }
    }
}

/// What [`WaitToken::park`] says.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
#[must_use = "a parked waiter must stop running, any other must not"]
pub enum Park {
    /// Stop running: the waiter will be delivered to its inbox.
    Parked,
    /// The token was already woken, with this code.
    Woken(u16),
    /// The waiter was interrupted: look at what for, then park again with the same token or withdraw it.
    Interrupted,
}

/// A waiter that its waker must deliver.
#[derive(Debug)]
#[must_use = "a waiter that is not delivered never runs again"]
pub struct Delivery(&'static Waiter);

impl Waiter {
    /// A waiter of `inbox`.
    pub fn new(inbox: &'static Inbox) -> Self {
        Self::delivered_to(std::ptr::from_ref(inbox).cast_mut())
    }

    /// A waiter of a future: it is delivered by waking what [`Waiter::keep_waker`] keeps.
    pub fn for_future() -> Self {
        Self::delivered_to(std::ptr::null_mut())
    }

    fn delivered_to(inbox: *mut Inbox) -> Self {
        Self {
            word: AtomicU64::new(0),
            inbox: AtomicPtr::new(inbox),
            next: Link::new(),
            tag: AtomicU32::new(0),
            slot_state: SlotState::empty(),
            slot: Slot::empty(),
        }
    }

    /// Gives a waiter that is not in use to `inbox`.
    pub fn move_to(&self, inbox: &'static Inbox) {
        self.inbox.store(std::ptr::from_ref(inbox).cast_mut(), Release);
    }

    /// Where this waiter is delivered; none if it is a future's.
    #[inline]
    pub fn inbox(&self) -> Option<&'static Inbox> {
        // SAFETY: null, or set from a `&'static Inbox`, by `new` and `move_to`.
        unsafe { self.inbox.load(Acquire).as_ref() }
    }

    /// Whether `inbox` is where it is delivered.
    #[inline]
    pub fn is_of(&self, inbox: &'static Inbox) -> bool {
        std::ptr::eq(self.inbox.load(Relaxed), inbox)
    }

    fn waker_slot(&self) -> WakerSlot<'_> {
        WakerSlot { state: &self.slot_state, slot: &self.slot }
    }

    /// For a future: keeps `waker` for the thread that ends its next wait. Before it parks.
    pub fn keep_waker(&self, waker: &Waker) {
        self.waker_slot().keep(waker);
    }

    /// For a future: keeps `waker` instead, if the wait has not ended. It must look afterwards whether it has.
    pub fn change_waker(&self, waker: &Waker) {
        self.waker_slot().change(waker);
    }

    /// For a future: takes the waker out, after it ended the wait itself, or [the waker was taken](Self::is_waker_taken). Ready for another wait.
    pub fn clear_waker(&self) {
        self.waker_slot().clear();
    }

    /// Whether there is a waker here that is not cleared.
    pub fn has_waker(&self) -> bool {
        self.waker_slot().has_one()
    }

    /// Whether the thread that ended the wait is done with this waiter.
    pub fn is_waker_taken(&self) -> bool {
        self.waker_slot().is_taken()
    }

    /// The owner's tag.
    #[inline]
    pub fn tag(&self) -> u32 {
        self.tag.load(Relaxed)
    }

    /// Sets the owner's tag.
    pub fn set_tag(&self, tag: u32) {
        self.tag.store(tag, Relaxed);
    }

    /// Whether the owner has parked and was not woken yet. For observers: the answer may be old by the time it is read.
    pub fn is_parked(&self) -> bool {
        self.word.load(Relaxed) & PARKED != 0
    }

    /// A token for the next wait. Only the waiter's owner calls this, and only between waits.
    #[inline]
    pub fn token(&'static self) -> WaitToken {
        WaitToken { waiter: self, epoch: self.word.load(Relaxed) / EPOCH }
    }

    /// Wakes the waiter without ending its wait, so that it looks around. Returns the waiter if it was parked.
    pub fn interrupt(&'static self) -> Option<Delivery> {
        let word = self
            .word
            .fetch_update(AcqRel, Relaxed, |word| Some((word | INTERRUPTED) & !PARKED))
            .expect("the update always gives a word");
        (word & PARKED != 0).then_some(Delivery(self))
    }

    /// The next waiter in the queue this one is in.
    #[inline]
    pub fn next(&self) -> Option<&'static Waiter> {
        self.next.next()
    }

    /// Links this waiter. Only the owner of the queue it is in may do so.
    #[inline]
    pub fn set_next(&self, next: Option<&'static Waiter>) {
        self.next.set_next(next);
    }
}

impl Linked for Waiter {
    #[inline]
    fn link(&self) -> &Link<Waiter> {
        &self.next
    }
}

impl WaitToken {
    /// The waiter this token is for.
    pub fn waiter(&self) -> &'static Waiter {
        self.waiter
    }

    /// With the code to wake it with.
    #[inline]
    pub fn with_code(self, code: u16) -> CodedToken {
        CodedToken { waiter: self.waiter, word: (self.epoch << 16) | u64::from(code) }
    }

    /// Ends the wait and says why: `code` means something to the waiter's owner. Returns the waiter if it was parked; a token that
    /// was used before does nothing.
    #[inline]
    pub fn wake(self, code: u16) -> Wake {
        let word = &self.waiter.word;
        let mut now = word.load(Relaxed);
        loop {
            if now / EPOCH != self.epoch {
                return Wake::Stale;
            }
            let next = (self.epoch + 1).wrapping_mul(EPOCH) | (u64::from(code) * CODE) | (now & INTERRUPTED);
            let swapped = or_planted!(
                word.compare_exchange_weak(now, next, AcqRel, Relaxed),
                "wake-by-store" => { word.store(next, Release); Ok(now) }
            );
            match swapped {
                Ok(was) if was & PARKED != 0 => return Wake::Parked(Delivery(self.waiter)),
                Ok(_) => return Wake::Awake,
                Err(changed) => now = changed,
            }
        }
    }

    /// Goes to sleep, unless the token was woken or the waiter interrupted. Owner only.
    #[inline]
    pub fn park(self) -> Park {
        let word = &self.waiter.word;
        let mut now = word.load(Relaxed);
        loop {
            if now / EPOCH != self.epoch {
                // See what the waker did before. Not a fence: sanitizers do not know those.
                or_planted!({ let _ = word.load(Acquire); }, "park-without-acquire" => ());
                return Park::Woken((now / CODE) as u16);
            }
            let (next, verdict) = if now & or_planted!(INTERRUPTED, "park-ignores-interrupt" => 0) != 0 {
                (now & !INTERRUPTED, Park::Interrupted)
            } else {
                (now | PARKED, Park::Parked)
            };
            // Acquires what it was interrupted for; releases what the owner did to the thread that delivers it.
            let order = or_planted!(AcqRel, "park-relaxed" => Relaxed);
            match word.compare_exchange_weak(now, next, order, Relaxed) {
                Ok(_) => return verdict,
                Err(changed) => now = changed,
            }
        }
    }

    /// Whether it names the same wait.
    pub fn is_same(self, other: WaitToken) -> bool {
        std::ptr::eq(self.waiter, other.waiter) && self.epoch == other.epoch
    }

    /// Whether the wait has been ended. Owner only.
    #[inline]
    pub fn is_woken(self) -> bool {
        self.waiter.word.load(or_planted!(Acquire, "is-woken-relaxed" => Relaxed)) / EPOCH != self.epoch
    }

    /// Ends the wait from the owner's side. False if it was woken first: then what the waker did counts.
    ///
    /// For an owner that runs; one that parked and was not delivered calls [`WaitToken::unpark`].
    pub fn withdraw(self) -> bool {
        match self.wake(0) {
            Wake::Stale => {
                or_planted!({ let _ = self.waiter.word.load(Acquire); }, "withdraw-without-acquire" => ()); // as in `park`
                false
            }
            Wake::Awake | Wake::Parked(_) => true,
        }
    }

    /// Ends the wait of an owner that parked and comes back by itself, because its time is up or its future was
    /// dropped. False if it was woken or interrupted first: then the waiter is on its way to its inbox, once, and must
    /// be taken in there before it parks again or changes hands. What ended the wait is what [`WaitToken::park`] says.
    #[must_use = "a waiter that is on its way must not be used before it arrives"]
    pub fn unpark(self) -> bool {
        or_planted!(matches!(self.wake(TIMEOUT), Wake::Parked(_)), "unpark-like-withdraw" => self.withdraw())
    }
}

/// What [`WaitToken::wake`] did.
#[derive(Debug)]
#[must_use = "a parked waiter must be delivered"]
pub enum Wake {
    /// It was parked: deliver it.
    Parked(Delivery),
    /// It had not parked yet, and now will not.
    Awake,
    /// The wait was over already.
    Stale,
}

impl Delivery {
    /// The waiter, for a caller that runs at its inbox and can queue it itself.
    #[inline]
    pub fn waiter(self) -> &'static Waiter {
        self.0
    }

    /// Whether `inbox` is where it goes.
    #[inline]
    pub fn is_for(&self, inbox: &'static Inbox) -> bool {
        self.0.is_of(inbox)
    }

    /// Delivers the waiter to its inbox and wakes the thread there, or wakes its future.
    pub fn send(self) {
        match self.0.inbox() {
            Some(inbox) => inbox.deliver(self.0),
            None => {
                if let Some(waker) = self.0.waker_slot().take() {
                    waker_slot::wake_contained(waker);
                }
            }
        }
    }
}

/// A token in memory that two threads share. The reader must be ordered after the write by other means.
#[derive(Debug)]
pub struct TokenCell {
    waiter: AtomicPtr<Waiter>,
    epoch: AtomicU64,
}

impl Default for TokenCell {
    fn default() -> Self {
        Self::new()
    }
}

impl TokenCell {
    /// A cell without a token.
    #[inline(always)]
    pub fn new() -> Self {
        Self { waiter: AtomicPtr::new(std::ptr::null_mut()), epoch: AtomicU64::new(0) }
    }

    /// Keeps `token`.
    #[inline]
    pub fn set(&self, token: WaitToken) {
        self.epoch.store(token.epoch, Relaxed);
        self.waiter.store(std::ptr::from_ref(token.waiter).cast_mut(), Relaxed);
    }

    /// The token kept.
    #[inline]
    pub fn get(&self) -> Option<WaitToken> {
        // SAFETY: null, or set from a `&'static Waiter` by `set`.
        let waiter = unsafe { self.waiter.load(Relaxed).as_ref() }?;
        Some(WaitToken { waiter, epoch: self.epoch.load(Relaxed) })
    }
}
