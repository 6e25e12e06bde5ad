//! Storage that belongs to a task: what `thread_local!` is to a thread.
//!
//! Room: interface. Knows the values of a task; knows nothing of threads.

use std::{any::Any, rc::Rc};

use super::{self as strand, Strand, panics};
use crate::kernel::locals::Locals;

impl Drop for Locals {
    /// Of a thread that ends, or of a half of a `join`: the thread or task that drops them does not fail for it. The panic hook has printed the panic of a destructor.
    #[inline]
    fn drop(&mut self) {
        if let Some(values) = self.0.take() {
            values.into_iter().for_each(|value| panics::drop_apart(value).unwrap_or_else(panics::discard));
        }
    }
}

impl Locals {
    /// Drops every value, whatever the destructors of others do. The first panic goes on afterwards.
    pub(crate) fn drop_each(mut self) {
        panics::drop_each(self.0.take().into_iter().flat_map(|values| *values));
    }
}

impl Strand {
    /// Gives the task that runs here the values it had elsewhere.
    pub(crate) fn put_locals(&self, locals: Locals) {
        if !locals.is_empty() {
            self.locals.replace(locals);
            self.traces.has_locals().set(true);
        }
    }

    /// Gives the task that runs here the values that its other half made, but for those it has by now.
    #[cold]
    pub(crate) fn add_locals(&self, locals: Locals) {
        self.traces.has_locals().set(true);
        let unwanted = self.locals.borrow_mut().add(locals);
        drop(unwanted); // the borrow is over: destructors may use others
    }
}

/// A value per task, made on first use and dropped when the task ends: what that costs the task pays, and a panic there is the task's failure. Declare it with [`fiber_local!`](crate::fiber_local).
///
/// On a plain thread it is a value per thread. A value is for one at a time, so [`join`](crate::join) runs one half after the other where there is one. A value that is made first in
/// a half stays with the task; if both halves make it at the same time, each has its own, and that of the first half stays. A future takes its values along from worker to worker, so they are `Send`; this does not compile:
///
/// ```compile_fail,E0277
/// use std::{cell::RefCell, rc::Rc};
/// bursar::fiber_local! {
///     static SHARED_WITH_THIS_THREAD: RefCell<Option<Rc<u32>>> = RefCell::new(None);
/// }
/// ```
#[derive(Debug)]
pub struct FiberLocal<T: 'static> {
    make: fn() -> T,
    /// Gives every key an address of its own, also if two have the same type and initialiser.
    key: u8,
}

impl<T: Send + 'static> FiberLocal<T> {
    #[doc(hidden)]
    pub const fn new(make: fn() -> T) -> Self {
        Self { make, key: 1 }
    }

    /// Uses this task's value.
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        strand::with(Strand::ensure_room);
        let key = std::ptr::from_ref(&self.key).addr();
        let found = strand::with(|strand| strand.locals.borrow().get(key));
        let value = found.unwrap_or_else(|| {
            let made: Rc<dyn Any> = Rc::new((self.make)()); // may use other locals, so nothing is borrowed here
            strand::with(|strand| {
                strand.traces.has_locals().set(true);
                let mut locals = strand.locals.borrow_mut();
                locals.get(key).unwrap_or_else(|| {
                    locals.0.get_or_insert_default().push((key, made.clone()));
                    made
                })
            })
        });
        f(value.downcast_ref().expect("a key has one type"))
    }
}

impl<T: Copy + Send + 'static> FiberLocal<std::cell::Cell<T>> {
    /// A copy of this task's value.
    pub fn get(&'static self) -> T {
        self.with(std::cell::Cell::get)
    }

    /// Replaces this task's value.
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }
}

/// Declares values that every task has for itself.
///
/// ```
/// use std::cell::Cell;
/// bursar::fiber_local! {
///     /// How many retries this task has left.
///     static RETRIES: Cell<u32> = Cell::new(3);
/// }
/// RETRIES.set(RETRIES.get() - 1);
/// assert_eq!(RETRIES.get(), 2);
/// ```
#[macro_export]
macro_rules! fiber_local {
    ($($(#[$meta:meta])* $vis:vis static $name:ident : $type:ty = $init:expr);+ $(;)?) => {
        $($(#[$meta])* $vis static $name: $crate::FiberLocal<$type> = $crate::FiberLocal::new(|| $init);)+
    };
}
