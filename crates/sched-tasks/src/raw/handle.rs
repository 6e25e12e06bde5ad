//! The reader's end of a task.
//!
//! Room: mechanism. Knows results; knows nothing of what ran.
//!
//! # Invariant
//! A handle's task is live. Its result is taken at most once, and only when it is there.
//!
//! # Why it holds
//! The memory is freed by whichever of runner and handle leaves last, and a handle leaves when it is joined or dropped: one that a poll has given its result to stays, and its tag
//! says that the result is gone.

use std::{
    marker::PhantomData,
    ptr::NonNull,
    task::{Context, Poll},
};

use mech_sync::Completion;

use super::task::{Front, error_of};
use crate::{
    error::{Reason, TaskError, TaskLabel},
    kernel::task::{Header, Runnable, label},
    strand::{self, Strand, Woken, future_wait::FutureWait, panics},
    task_state::TaskState,
};

/// The reader's end of a task: one word, so that handles move cheaply.
pub(crate) struct Handle<T> {
    /// Tagged with [`WAITING`] or [`TAKEN`].
    pointer: NonNull<Runnable>,
    result: PhantomData<T>,
}

/// In a handle's pointer: a poll left its token with the task.
const WAITING: usize = 1;

/// In a handle's pointer: a poll gave the result out. The memory stays, so that the handle still knows which task it was.
const TAKEN: usize = 2;

const TAGS: usize = WAITING | TAKEN;
const _: () = assert!(align_of::<Header>() > TAGS, "the tags fit below the address of a task");

// SAFETY: a handle gives out the result, which is sent from the thread that ran the task.
unsafe impl<T: Send> Send for Handle<T> {}
// SAFETY: by reference one can only ask whether the task is done, which it is, and how it failed: never for its value.
unsafe impl<T: Send> Sync for Handle<T> {}

impl<T> Handle<T> {
    #[inline]
    pub(super) fn new(pointer: NonNull<Runnable>) -> Self {
        Self { pointer, result: PhantomData }
    }

    #[inline]
    fn tag(&self) -> usize {
        self.pointer.addr().get() & TAGS
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        self.tag() == WAITING
    }

    #[inline]
    fn runnable(&self) -> NonNull<Runnable> {
        let pointer = self.pointer.as_ptr().map_addr(|address| address & !TAGS);
        // SAFETY: a task is aligned to more than the tags, so without them it is still not null.
        unsafe { NonNull::new_unchecked(pointer) }
    }

    fn set_tag(&mut self, tag: usize) {
        let pointer = self.runnable().as_ptr().map_addr(|address| address | tag);
        self.pointer = NonNull::new(pointer).expect("a tag does not make it null");
    }

    #[inline]
    pub(super) fn front(&self) -> &Front<T> {
        // SAFETY: the handle has not left, so the memory is there; every task begins with a `Front<T>`.
        unsafe { self.runnable().cast().as_ref() }
    }

    #[inline]
    pub(super) fn completion(&self) -> &Completion {
        &self.front().header.completion
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.completion().is_done()
    }

    pub(crate) fn label(&self) -> TaskLabel {
        label(&self.front().header)
    }

    /// Where it stands.
    pub(crate) fn state(&self) -> TaskState {
        if self.tag() == TAKEN {
            return TaskState::Completed; // the taker of the result knows more
        }
        if !self.is_done() && self.is_exhausted() {
            return TaskState::BudgetExhausted;
        }
        if !self.is_done() {
            // SAFETY: the handle has not left, so the memory is there; and it cannot outlive the nursery.
            let state = unsafe { (self.runnable().as_ref().vtable.state)(self.runnable()) };
            if !self.is_done() {
                return state;
            } // else it ended meanwhile
        }
        // SAFETY: done, so the result was written, and only this handle takes it out.
        match unsafe { (*self.front().result.get()).assume_init_ref() } {
            Err(error) if error.is_cancelled() => TaskState::Cancelled,
            Err(error) if matches!(error.reason(), Reason::BudgetExhausted { .. }) => TaskState::BudgetExhausted,
            _ => TaskState::Completed,
        }
    }

    /// Whether it has spent its budget, and waits for more.
    pub(crate) fn is_exhausted(&self) -> bool {
        let header = &self.front().header;
        let mut level = Some(header.scope);
        while let Some(scope) = level.filter(|_| !self.is_done()) {
            if scope.account().is_some_and(|account| account.is_exhausted(header.identity.id)) {
                return true;
            }
            level = scope.outer();
        }
        false
    }

    /// Waits for the result. A cancelled caller unwinds, unless the result came first.
    #[inline]
    pub(crate) fn join(mut self) -> Result<T, TaskError> {
        if self.tag() != 0 {
            self.untag()?;
        }
        strand::with(|strand| {
            strand.take_turn_regardless(); // a result that is there is handed over, cancelled or not
            if !self.is_done() {
                self.wait(strand);
            }
        });
        // SAFETY: done, with no token out, and not taken; and `self` is forgotten.
        let result = unsafe { self.take() };
        // SAFETY: as above.
        unsafe { self.free() };
        std::mem::forget(self);
        result
    }

    /// The result, if the task has ended. Lets no other run, so it may be asked for under a lock.
    pub(crate) fn take_if_done(self) -> Result<Result<T, TaskError>, Self> {
        if self.tag() != 0 || !self.is_done() {
            return Err(self);
        }
        // SAFETY: done, with no token out, and not taken; and `self` is forgotten.
        let result = unsafe { self.take() };
        // SAFETY: as above.
        unsafe { self.free() };
        std::mem::forget(self);
        Ok(result)
    }

    /// Waits until the task has ended. A cancelled caller unwinds, unless that came first.
    pub(crate) fn wait_done(&mut self) {
        if self.is_waiting() {
            self.take_token_back();
        }
        strand::with(|strand| {
            strand.take_turn_regardless();
            if !self.is_done() {
                self.wait(strand);
            }
        });
    }

    /// What a poll left is put right, so that the result can be waited for. An error if a poll took it.
    #[cold]
    fn untag(&mut self) -> Result<(), TaskError> {
        if self.tag() == TAKEN {
            let text = "has given its result away before, to an await by reference; keep that result";
            return Err(TaskError::msg(text).of_task(&self.label()));
        }
        self.take_token_back();
        Ok(())
    }

    #[inline(never)]
    fn wait(&self, strand: &Strand) {
        let token = strand.token();
        if !self.completion().wait(token) {
            return;
        }
        loop {
            // Before every stop, not only after an interrupt: an earlier wait may have used the interrupt up.
            if strand.is_cancelled() && self.completion().retract() {
                token.withdraw();
                strand.unwind();
            }
            if let Woken::By(_) = strand.wait(token) {
                return;
            }
        }
    }

    /// The result, if it is there; else `cx` is woken when it is. Not to be called again after it was.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, TaskError>> {
        assert!(self.tag() != TAKEN, "{} was polled after it had given its result", self.label());
        if !self.is_waiting() && !self.is_done() {
            let wait = FutureWait::begin(cx.waker());
            if self.completion().wait(wait.token()) {
                wait.leave();
                self.set_tag(WAITING);
            }
        }
        if self.is_waiting() {
            let wait = self.come_back();
            // Done is not enough while a token is out: the strand that finished it may still use the token. The wake is the last it does.
            if !wait.poll(cx.waker()) {
                wait.leave();
                return Poll::Pending;
            }
            self.set_tag(0);
        }
        // SAFETY: done, and no token is out; the tag says from here on that it was taken.
        let result = unsafe { self.take() };
        self.set_tag(TAKEN);
        Poll::Ready(result)
    }

    fn come_back(&self) -> FutureWait {
        FutureWait::come_back(self.completion().token().expect("a poll left its token"))
    }

    /// # Safety
    /// The task is done, no token is out, and the result was not taken before.
    #[inline]
    unsafe fn take(&self) -> Result<T, TaskError> {
        debug_assert!(self.is_done());
        // SAFETY: done, so the result was written, and we are its only reader.
        unsafe { (*self.front().result.get()).assume_init_read() }
    }

    /// # Safety
    /// The task is done, no token is out, the result was taken, and the handle is not used again.
    #[inline]
    unsafe fn free(&self) {
        // SAFETY: the runner left when it finished, and we leave now.
        unsafe { (self.runnable().as_ref().vtable.free)(self.runnable()) }
    }

    /// Takes back the token an earlier poll left. A task that just ended may be looking at it: its wake is the last it does.
    #[cold]
    fn take_token_back(&mut self) {
        let wait = self.come_back();
        self.set_tag(0);
        if !self.completion().retract() {
            wait.until_woken();
        }
    }
}

impl<T> Drop for Handle<T> {
    #[inline]
    fn drop(&mut self) {
        if self.tag() == TAKEN {
            // SAFETY: done when it was taken, with no token out.
            return unsafe { self.free() };
        }
        if self.is_waiting() {
            self.take_token_back();
        }
        if self.completion().abandon() {
            struct Frees<'a, T>(&'a Handle<T>); // also if a destructor panics
            impl<T> Drop for Frees<'_, T> {
                #[inline]
                fn drop(&mut self) {
                    // SAFETY: done, no token is out; the result is dropped before, and `Handle::drop` does nothing more.
                    unsafe { self.0.free() };
                }
            }
            let frees = Frees(self);
            // SAFETY: done, so it was written, and not taken. Dropped where it is: it may be large.
            let dropped = panics::apart(|| unsafe { (*frees.0.front().result.get()).assume_init_drop() });
            match dropped {
                Ok(()) => {}
                // Whether the handle or the task leaves last, a result that panics is the task's failure.
                Err(payload) if panics::is_panic(&*payload) => {
                    let header = &frees.0.front().header;
                    header.scope.child_failed(error_of(payload, header));
                }
                Err(payload) if std::thread::panicking() => panics::discard(payload),
                Err(payload) => {
                    drop(frees);
                    strand::current().rethrow(payload); // the destructor waited, and the task that runs it is to end
                }
            }
        }
    }
}
