//! Reports every switch to ThreadSanitizer. Without the feature `tsan` nothing is reported, and nothing here costs
//! anything.
//!
//! Room: mechanism. Knows the sanitizer's calls; knows nothing of why a switch happens.
//!
//! # Invariant
//! The sanitizer's idea of the running stack changes with the stack, and what it counts for a stack stays with it.
//!
//! # Why it holds
//! [`TsanFiber::resume`] and [`TsanFiber::suspend`] are the only switches, and report right before they do it. The sanitizer counts entries and exits
//! of functions per stack, so none may be counted between the two: with the feature both are functions of their own, and
//! `cargo xtask test tsan` compiles this crate without that counting. A coroutine that returned would have the exits of its last functions
//! counted for its resumer; so it suspends for the last time instead, and is reset: [`TsanFiber::end`].
//!
//! AddressSanitizer gets its reports from corosensei itself: feature `asan`.

#[cfg(not(feature = "tsan"))]
pub(crate) use off::TsanFiber;
#[cfg(feature = "tsan")]
pub(crate) use on::TsanFiber;

#[cfg(not(feature = "tsan"))]
mod off {
    use corosensei::stack::Stack;
    use corosensei::{Coroutine, CoroutineResult, Yielder};

    /// No sanitizer: nothing is reported.
    pub(crate) struct TsanFiber;

    impl TsanFiber {
        #[inline(always)]
        pub(crate) fn new() -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn resume<S: Stack>(
            &self,
            coroutine: &mut Coroutine<usize, usize, usize, S>,
            word: usize,
        ) -> CoroutineResult<usize, usize> {
            coroutine.resume(word)
        }

        #[inline(always)]
        pub(crate) fn suspend(&self, yielder: &Yielder<usize, usize>, word: usize) -> usize {
            yielder.suspend(word)
        }

        #[inline(always)]
        pub(crate) fn end(&self, _: &Yielder<usize, usize>, word: usize, _: usize) -> usize {
            word
        }

        #[inline(always)]
        pub(crate) fn ended<S: Stack>(
            &self,
            _: &mut Coroutine<usize, usize, usize, S>,
            result: CoroutineResult<usize, usize>,
        ) -> CoroutineResult<usize, usize> {
            result
        }

        #[inline(always)]
        pub(crate) fn destroy(&self) {}
    }
}

#[cfg(feature = "tsan")]
mod on {
    use std::cell::Cell;
    use std::ffi::{c_uint, c_void};
    use std::process;
    use std::ptr;

    use corosensei::stack::Stack;
    use corosensei::{Coroutine, CoroutineResult, Yielder};

    unsafe extern "C" {
        fn __tsan_get_current_fiber() -> *mut c_void;
        fn __tsan_create_fiber(flags: c_uint) -> *mut c_void;
        fn __tsan_destroy_fiber(fiber: *mut c_void);
        fn __tsan_switch_to_fiber(fiber: *mut c_void, flags: c_uint);
    }

    /// What the sanitizer knows of one stack.
    pub(crate) struct TsanFiber {
        own: Cell<*mut c_void>,
        resumer: Cell<*mut c_void>,
        /// What `main` returned.
        returned: Cell<Option<usize>>,
    }

    impl TsanFiber {
        pub(crate) fn new() -> Self {
            // SAFETY: no memory of ours is involved.
            let own = unsafe { __tsan_create_fiber(0) };
            Self { own: Cell::new(own), resumer: Cell::new(ptr::null_mut()), returned: Cell::new(None) }
        }

        #[inline(never)]
        pub(crate) fn resume<S: Stack>(
            &self,
            coroutine: &mut Coroutine<usize, usize, usize, S>,
            word: usize,
        ) -> CoroutineResult<usize, usize> {
            // SAFETY: created by `new` and not destroyed: a fiber that is resumed has not ended. The switch follows.
            unsafe {
                self.resumer.set(__tsan_get_current_fiber());
                __tsan_switch_to_fiber(self.own.get(), 0);
            }
            coroutine.resume(word)
        }

        #[inline(never)]
        pub(crate) fn suspend(&self, yielder: &Yielder<usize, usize>, word: usize) -> usize {
            // SAFETY: set by `resume`; the resumer waits for this switch, so it lives.
            unsafe { __tsan_switch_to_fiber(self.resumer.get(), 0) };
            yielder.suspend(word)
        }

        /// Leaves for the last time, with `last`.
        pub(crate) fn end(&self, yielder: &Yielder<usize, usize>, word: usize, last: usize) -> usize {
            self.returned.set(Some(word));
            self.suspend(yielder, last);
            process::abort() // `ended` made the coroutine done
        }

        /// What the resume would have answered if the coroutine had returned.
        pub(crate) fn ended<S: Stack>(
            &self,
            coroutine: &mut Coroutine<usize, usize, usize, S>,
            result: CoroutineResult<usize, usize>,
        ) -> CoroutineResult<usize, usize> {
            match self.returned.take() {
                Some(word) => {
                    // SAFETY: it waits in `end`, where nothing on its stack has a destructor or lends anything.
                    unsafe { coroutine.force_reset() };
                    CoroutineResult::Return(word)
                }
                None => result,
            }
        }

        pub(crate) fn destroy(&self) {
            // SAFETY: created by `new`, destroyed here once, by the fiber's `drop`, which does not run on it.
            unsafe { __tsan_destroy_fiber(self.own.replace(ptr::null_mut())) }
        }
    }
}
