//! Atomics for seeded runs: before every operation another task may run first.
//!
//! Room: interface.
//!
//! Outside seeded runs they are those of the standard library, plus a check of where the caller is, about a nanosecond.
//! A seeded run has one thread, so it finds wrong orders of operations. It cannot find that an ordering is too weak for
//! another processor: `loom` does.
//!
//! ```should_panic
//! use bursar::{explore, nursery, sync::atomic::{AtomicU32, Ordering::Relaxed}};
//!
//! explore(0..100, || {
//!     let count = AtomicU32::new(0);
//!     nursery(|n| {
//!         for _ in 0..2 {
//!             n.spawn(|| count.store(count.load(Relaxed) + 1, Relaxed)); // not `fetch_add`
//!         }
//!         Ok(())
//!     }).unwrap();
//!     assert_eq!(count.load(Relaxed), 2); // some seed says 1
//! });
//! ```

use std::{fmt, sync::atomic};

pub use std::sync::atomic::Ordering;

use crate::strand::current;

/// Other tasks may run first, if a seed decides that.
#[inline]
fn pass() {
    current().interleave();
}

/// As [`std::sync::atomic::fence`].
#[inline]
pub fn fence(order: Ordering) {
    pass();
    atomic::fence(order);
}

macro_rules! atomics {
    ($($(#[$doc:meta])* $name:ident of $value:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// In a seeded run another task may run before every operation.
        #[derive(Default)]
        #[repr(transparent)]
        pub struct $name(atomic::$name);

        impl $name {
            /// Holds `value`. May be a `static`.
            pub const fn new(value: $value) -> Self {
                Self(atomic::$name::new(value))
            }

            /// The value, without an atomic operation: `&mut` is exclusive.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// The value.
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            /// The value.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                pass();
                self.0.load(order)
            }

            /// Stores `value`.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                pass();
                self.0.store(value, order);
            }

            /// Stores `value`; returns the old one.
            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                pass();
                self.0.swap(value, order)
            }

            /// Stores `new` if the value is `current`; returns the old value.
            ///
            /// # Errors
            /// The old value, if that was not `current`.
            #[inline]
            pub fn compare_exchange(&self, current: $value, new: $value, success: Ordering, failure: Ordering) -> Result<$value, $value> {
                pass();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// The same; may fail spuriously.
            ///
            /// # Errors
            /// The old value.
            #[inline]
            pub fn compare_exchange_weak(&self, current: $value, new: $value, success: Ordering, failure: Ordering) -> Result<$value, $value> {
                pass();
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            /// Changes the value by `update`, again until no other thread comes between, or `update` says `None`.
            ///
            /// # Errors
            /// The old value, if `update` said `None`.
            pub fn fetch_update(&self, set: Ordering, fetch: Ordering, mut update: impl FnMut($value) -> Option<$value>) -> Result<$value, $value> {
                let mut now = self.load(fetch);
                while let Some(next) = update(now) {
                    match self.compare_exchange_weak(now, next, set, fetch) {
                        Ok(before) => return Ok(before),
                        Err(other) => now = other,
                    }
                }
                Err(now)
            }
        }

        impl From<$value> for $name {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

macro_rules! changes {
    ($($name:ident of $value:ty: $($(#[$doc:meta])* $change:ident)*;)*) => {$(
        impl $name {
            $(
                $(#[$doc])*
                #[inline]
                pub fn $change(&self, value: $value, order: Ordering) -> $value {
                    pass();
                    self.0.$change(value, order)
                }
            )*
        }
    )*};
}

macro_rules! integers {
    ($($name:ident of $value:ty;)*) => {
        atomics! {$(
            #[doc = concat!("As [`std::sync::atomic::", stringify!($name), "`].")]
            $name of $value;
        )*}
        changes! {$(
            $name of $value:
                /// Adds, and wraps around; returns the value before.
                fetch_add
                /// Subtracts, and wraps around; returns the value before.
                fetch_sub
                /// And, bit by bit; returns the value before.
                fetch_and
                /// Or, bit by bit; returns the value before.
                fetch_or
                /// Exclusive or, bit by bit; returns the value before.
                fetch_xor
                /// The greater of both; returns the value before.
                fetch_max
                /// The lesser of both; returns the value before.
                fetch_min;
        )*}
    };
}

integers! {
    AtomicU8 of u8;
    AtomicU16 of u16;
    AtomicU32 of u32;
    AtomicU64 of u64;
    AtomicUsize of usize;
    AtomicI8 of i8;
    AtomicI16 of i16;
    AtomicI32 of i32;
    AtomicI64 of i64;
    AtomicIsize of isize;
}

atomics! {
    /// As [`std::sync::atomic::AtomicBool`].
    AtomicBool of bool;
}

changes! {
    AtomicBool of bool:
        /// And; returns the value before.
        fetch_and
        /// Or; returns the value before.
        fetch_or
        /// Exclusive or; returns the value before.
        fetch_xor;
}
