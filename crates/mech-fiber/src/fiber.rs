//! Entering and leaving a stack: the hot path of the whole system.
//!
//! Room: mechanism. Knows one stack at a time; knows nothing of which fiber is resumed next.
//!
//! # Invariant
//! A fiber's frames are touched by one thread only, and live until `main` returned or unwound,
//! or for ever.
//!
//! # Why it holds
//! `Fiber` is `!Send`, and `resume` borrows it mutably, so a fiber has one resumer at a time. A
//! dropped fiber is unwound first; one that overflowed leaves its stack in quarantine.
//!
//! # Budget
//! A resume and the suspend that answers it: 1.3 times the bare pair of corosensei. Hence no
//! allocation, no lock, no system call and no `catch_unwind` between the two; the one
//! `catch_unwind` sits below `main`.
//!
//! # Rejected
//! corosensei's own forced unwinding: it retries a fiber that overflowed while unwinding, and its
//! `unwind` feature passes every word through memory.

use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::process;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::StackError;
use crate::control::{self, Words};
use crate::header::{self, Header};
use crate::memory;
use crate::slab::{self, Stack};

/// A stack being run.
///
/// Not `Send`: thread-local addresses and `Rc`s may live on the stack.
///
/// ```
/// use mech_fiber::{Fiber, Slab, SlabOptions, Step, suspend};
///
/// let slab = Slab::reserve(SlabOptions { max_stacks: 4, ..Default::default() })?;
/// let mut adder = Fiber::new(slab.take()?, |first| {
///     let second = suspend(first + 1);
///     first + second
/// });
/// assert_eq!(adder.resume(10), Step::Suspended(11));
/// assert_eq!(adder.resume(20), Step::Returned(30));
/// assert!(adder.is_done());
/// # Ok::<(), mech_fiber::StackError>(())
/// ```
///
/// ```compile_fail
/// fn send<T: Send>() {}
/// send::<mech_fiber::Fiber>();
/// ```
///
/// # Dropping
/// A fiber that waits in [`suspend`] is unwound from there, so its destructors run, and nothing
/// is printed. If it panics meanwhile, the panic ends with it. With `panic = "abort"` there is no
/// unwinding: the stack is quarantined instead.
pub struct Fiber {
    /// Done, and not to be dropped, once `header.overflowed` is set: the quarantine has its stack.
    coroutine: ManuallyDrop<Coroutine<usize, usize, usize, Stack>>,
    /// At the top of the coroutine's stack; outlives it, as stacks are never unmapped.
    header: *const Header,
}

/// How a [`Fiber::resume`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an ignored step loses the fiber's word, or its end"]
pub enum Step {
    /// The fiber called [`suspend`] with this word.
    Suspended(usize),
    /// `main` returned this word.
    Returned(usize),
    /// The fiber ran out of stack. Its frames stay as they are for ever; nothing was unwound.
    Overflowed,
}

/// The word that travels with an overflow or a forced unwinding. The header tells whether it is
/// one: a program may use this word too. So the hot path compares a register and loads nothing.
const RARE: usize = -0x05ba_df1b_isize as usize;

/// The payload that unwinds a dropped fiber.
struct Dropped;

impl Fiber {
    /// Prepares `main` to run on `stack`; it starts with the first [`Fiber::resume`], whose word
    /// it gets.
    ///
    /// # Panics
    /// When `main` captures more than a quarter of the stack.
    pub fn new(stack: Stack, main: impl FnOnce(usize) -> usize + 'static) -> Fiber {
        check_size(size_of_val(&main), &stack);
        let header = stack.header();
        // SAFETY: the header's place is inside the usable part of a stack that is ours, aligned,
        // and above everything corosensei writes.
        unsafe { header.write(Header::new(stack.index(), stack.guard(), stack.guard_kind())) };
        let header = header.cast_const();
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<_, _>, word| {
            // SAFETY: written above; this closure runs on the stack the header sits on.
            let header = unsafe { &*header };
            header.yielder.set(yielder);
            let result = panic::catch_unwind(AssertUnwindSafe(|| main(word)));
            if !control::are_default() {
                Words::DEFAULT.load();
            }
            let word = result.unwrap_or_else(|payload| {
                header.panic.set(Some(payload));
                0
            });
            header.tsan.end(yielder, word, RARE)
        });
        Fiber { coroutine: ManuallyDrop::new(coroutine), header }
    }

    /// Runs the fiber until it suspends, returns or overflows. `word` is what its [`suspend`]
    /// returns, or what `main` gets.
    ///
    /// # Panics
    /// With the panic that left `main`, or when the fiber is done.
    #[inline(always)]
    pub fn resume(&mut self, word: usize) -> Step {
        if !control::are_default() {
            return self.resume_with_own_words(word);
        }
        let result = self.switch(word);
        match result {
            CoroutineResult::Yield(word) if word != RARE => Step::Suspended(word),
            result => self.rare(result),
        }
    }

    /// The same for a caller that is no fiber and has not changed the floating-point control words: a scheduler's own
    /// loop, which calculates nothing, whose stack has room, and to which every fiber returns with the default words.
    /// Saves one of the two checks of the words, and the check of the stack.
    #[inline(always)]
    pub fn resume_from_defaults(&mut self, word: usize) -> Step {
        debug_assert!(control::are_default(), "the caller changed its control words; use `resume`");
        debug_assert!(!in_fiber(), "the caller is a fiber itself; use `resume`");
        match self.switch_to(word, std::ptr::null()) {
            CoroutineResult::Yield(word) if word != RARE => Step::Suspended(word),
            result => self.rare(result),
        }
    }

    #[inline(always)]
    fn switch(&mut self, word: usize) -> CoroutineResult<usize, usize> {
        touch_below();
        let before = header::current();
        self.switch_to(word, before)
    }

    /// Runs the fiber. `before` is the header of the caller, which becomes current again afterwards.
    #[inline(always)]
    fn switch_to(&mut self, word: usize, before: *const Header) -> CoroutineResult<usize, usize> {
        if self.coroutine.done() {
            resumed_after_end();
        }
        header::enter(self.header);
        // SAFETY: written by `new`; stacks are never unmapped.
        let tsan = unsafe { &(*self.header).tsan };
        let result = tsan.resume(&mut self.coroutine, word); // does not unwind: `new` catches below `main`
        header::enter(before);
        result
    }

    /// The end of the fiber, or a word that only looks like it.
    #[inline(never)]
    fn rare(&mut self, result: CoroutineResult<usize, usize>) -> Step {
        // SAFETY: written by `new`; stacks are never unmapped.
        let header = unsafe { &*self.header };
        match (header.tsan.ended(&mut self.coroutine, result), header.panic.take()) {
            (CoroutineResult::Yield(_), _) if header.overflowed.get() => self.abandon(),
            (CoroutineResult::Yield(word), _) => Step::Suspended(word),
            (CoroutineResult::Return(word), None) => Step::Returned(word),
            (CoroutineResult::Return(_), Some(payload)) => panic::resume_unwind(payload),
        }
    }

    #[cold]
    #[inline(never)]
    fn resume_with_own_words(&mut self, word: usize) -> Step {
        let words = Words::save();
        Words::DEFAULT.load();
        let result = self.switch(word);
        words.load();
        match result {
            CoroutineResult::Yield(word) if word != RARE => Step::Suspended(word),
            result => self.rare(result),
        }
    }

    /// Whether the fiber returned, panicked or overflowed.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.coroutine.done()
    }

    /// Leaves the frames as they are, for ever.
    #[cold]
    fn abandon(&mut self) -> Step {
        // SAFETY: as in `rare`.
        unsafe { &*self.header }.overflowed.set(true);
        // SAFETY:
        // - Nothing on the stack is dropped, nor overwritten later: the stack goes into
        //   quarantine, so this is a leak and not a `longjmp` over live objects.
        // - The coroutine is taken once: it is done from here on, so `resume` cannot come here
        //   again, and `drop` sees `overflowed`. What stays behind is only asked whether it is
        //   done.
        unsafe {
            self.coroutine.force_reset();
            ManuallyDrop::take(&mut self.coroutine)
        }
        .into_stack()
        .quarantine();
        Step::Overflowed
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        // SAFETY: written by `new`; stacks are never unmapped.
        let header = unsafe { &*self.header };
        let waits = |inner: &Coroutine<_, _, _, _>| inner.started() && !inner.done();
        if cfg!(panic = "abort") && waits(&self.coroutine) {
            let _ = self.abandon();
        }
        while waits(&self.coroutine) {
            header.unwinding.set(true);
            // A fiber that catches the unwinding and suspends again is unwound again.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| self.resume(RARE)));
        }
        header.tsan.destroy();
        if !header.overflowed.get() {
            // SAFETY: not taken by `abandon`, and not used again.
            unsafe { ManuallyDrop::drop(&mut self.coroutine) };
        }
    }
}

impl fmt::Debug for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fiber").field("done", &self.is_done()).finish_non_exhaustive()
    }
}

/// Leaves the running fiber with `word`; returns the word of the next [`Fiber::resume`].
///
/// # Panics
/// Outside a fiber.
#[inline(always)]
pub fn suspend(word: usize) -> usize {
    let header = header::current();
    if header.is_null() {
        suspended_outside();
    }
    // SAFETY: not null, so initialised and mapped: the invariant of `header.rs`.
    let header = unsafe { &*header };
    // SAFETY: set by the closure in `Fiber::new` before any code of the fiber ran; the yielder
    // lives on the fiber's stack as long as the fiber.
    let yielder = unsafe { &*header.yielder.get() };
    let word = if control::are_default() {
        header.tsan.suspend(yielder, word)
    } else {
        suspend_with_own_words(header, yielder, word)
    };
    if word == RARE && header.unwinding.get() {
        unwind_dropped();
    }
    word
}

#[cold]
#[inline(never)]
fn suspend_with_own_words(header: &Header, yielder: &Yielder<usize, usize>, word: usize) -> usize {
    let words = Words::save();
    Words::DEFAULT.load();
    let word = header.tsan.suspend(yielder, word);
    words.load();
    word
}

/// Whether the caller runs on a fiber.
#[inline]
pub fn in_fiber() -> bool {
    !header::current().is_null()
}

/// How many bytes of the running fiber's stack are left below the caller; `None` outside fibers.
///
/// For code that holds something an overflow would lose: ask first, fail cleanly.
#[inline]
pub fn remaining_bytes() -> Option<usize> {
    let header = header::current();
    if header.is_null() {
        return None;
    }
    // SAFETY: not null, so initialised and mapped.
    let low = unsafe { (*header).guard_high };
    Some(stack_pointer().saturating_sub(low))
}

/// Whether `bytes` of the running fiber's stack are left below the caller. True outside fibers, where it is not known.
///
/// For code about to take a lock or to leave something half done: it can fail before it begins.
#[inline(always)]
pub fn has_room(bytes: usize) -> bool {
    let header = header::current();
    if header.is_null() {
        return true;
    }
    // SAFETY: not null, so initialised and mapped.
    let low = unsafe { (*header).guard_high };
    stack_pointer() >= low + bytes
}

/// An address below which less than `bytes` of the running fiber's stack may be left; 0 outside fibers. Compare it with
/// [`stack_pointer`], where [`has_room`] is asked so often that finding the fiber counts.
///
/// Equally far from where frames begin on all stacks of a size, so that a recursion of the same frames gets equally deep on
/// each.
pub fn stack_limit(bytes: usize) -> usize {
    let header = header::current();
    if header.is_null() {
        return 0;
    }
    // SAFETY: not null, so initialised and mapped.
    let all = unsafe { (*header).stack_bytes() };
    (header as usize).saturating_sub(all - slab::TOP_BYTES).saturating_add(bytes)
}

/// Where the caller's stack ends now. Not the address of a local: under AddressSanitizer those live elsewhere.
#[inline(always)]
pub fn stack_pointer() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: copies a register.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("mov {}, sp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let here = 0_u8;
        pointer = &raw const here as usize;
    }
    pointer
}

/// How many bytes the running fiber's stack has in all; `None` outside fibers.
pub fn stack_bytes() -> Option<usize> {
    let header = header::current();
    // SAFETY: not null, so initialised and mapped.
    (!header.is_null()).then(|| unsafe { (*header).stack_bytes() })
}

/// Lends the running fiber the upper half of its guard, 8 KiB, so that it can unwind from where it
/// is. The other half still stops it. Does nothing outside fibers; `false` if the kernel refuses.
///
/// [`take_guard_back`] ends the loan.
#[cold]
pub fn lend_guard() -> bool {
    let header = header::current();
    if header.is_null() {
        return true;
    }
    // SAFETY: not null, so initialised and mapped.
    let (low, high) = unsafe { ((*header).guard_low, (*header).guard_high) };
    let half = (high - low) / 2;
    memory::open(high - half, half)
}

/// Makes the whole guard of the running fiber a guard again. Call it from frames above the guard.
///
/// # Errors
/// When the kernel refuses. The stack then has a guard of half the size.
#[cold]
pub fn take_guard_back() -> Result<(), StackError> {
    let header = header::current();
    if header.is_null() {
        return Ok(());
    }
    // SAFETY: not null, so initialised and mapped.
    let (low, kind) = unsafe { ((*header).guard_low, (*header).guard_kind) };
    memory::install(kind, low).map_err(|errno| StackError::Guard { guarded: 0, errno })
}

/// Leaves the running fiber without unwinding, as overflowed. Runs on the escape stack after a
/// fault.
#[cold]
pub(crate) extern "C" fn leave_for_good() -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: marks the x87 registers empty, as the ABI wants between functions; the overflowed
    // code may have been in the middle of using them, and never goes on.
    unsafe {
        std::arch::asm!("emms", options(nomem, nostack, preserves_flags));
    }
    // SAFETY: the caller saw this header on this thread, and nothing ran in between.
    let header = unsafe { &*header::current() };
    header.overflowed.set(true);
    Words::DEFAULT.load();
    // SAFETY: set before any code of the fiber ran, and code of the fiber overflowed.
    let yielder = unsafe { &*header.yielder.get() };
    header.tsan.suspend(yielder, RARE);
    // `Fiber::abandon` made the coroutine done, so nothing resumes it.
    process::abort()
}

/// Touches the stack a little below the caller.
///
/// If a fiber that resumes another is itself at its end, it overflows *here*, as itself, and not
/// halfway into the other one, whose state would be lost.
#[inline(always)]
fn touch_below() {
    /// More than the frames between here and the switch: larger without optimisation.
    const DEPTH: usize = if cfg!(debug_assertions) { 2048 } else { 256 };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads a byte below the stack pointer and drops it: no memory changes. It is mapped,
    // or it is the guard, and then the fault is the purpose.
    unsafe {
        std::arch::asm!(
            "test byte ptr [rsp - {depth}], 0",
            depth = const DEPTH,
            options(nostack, readonly),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "sub {scratch}, sp, #{depth}",
            "ldrb {scratch:w}, [{scratch}]",
            scratch = out(reg) _,
            depth = const DEPTH,
            options(nostack, readonly, preserves_flags),
        );
    }
}

#[cold]
#[inline(never)]
fn unwind_dropped() -> ! {
    panic::resume_unwind(Box::new(Dropped))
}

#[cold]
#[inline(never)]
#[track_caller]
fn suspended_outside() -> ! {
    panic!("suspend() was called outside a fiber; call it from code that a `Fiber` runs")
}

#[cold]
#[inline(never)]
#[track_caller]
fn resumed_after_end() -> ! {
    panic!("resume() was called on a fiber that is done; ask `is_done()` first")
}

fn check_size(bytes: usize, stack: &Stack) {
    assert!(
        bytes <= stack.bytes() / 4,
        "`main` captures {bytes} bytes, more than a quarter of a stack of {}; box them or raise \
         `stack_bytes`",
        stack.bytes(),
    );
}
