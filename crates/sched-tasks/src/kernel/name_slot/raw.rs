//! The name of the task that runs on a worker, for other threads to read.
//!
//! Room: mechanism.
//!
//! # Invariant
//! Whatever a reader finds here lives for ever: a name slot holds a number and the address of a `static` location in the source, never the address of a task.
//!
//! # Why it holds
//! `show` takes the location as `&'static`, and nothing else writes the address.
//!
//! The two words are written one after the other, so a reader may see one of the old and one of the new. The worker's counters tell it: they move before a
//! name changes, and a name is written with Release and read with Acquire. Same counters before and after, same name.

use std::{
    panic::Location,
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use vocab::TaskId;

/// The task that a name slot names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    site: Option<&'static Location<'static>>,
    id: u64,
}

impl Name {
    /// No task.
    pub(crate) const NO_TASK: Self = Self { site: None, id: 0 };

    #[inline(always)]
    pub(crate) fn new(id: TaskId, site: &'static Location<'static>) -> Self {
        Self { site: Some(site), id: id.0 }
    }

    /// The task and where it was spawned.
    pub(crate) fn task(self) -> Option<(TaskId, &'static Location<'static>)> {
        self.site.map(|site| (TaskId(self.id), site))
    }
}

/// Names the task that runs on a worker. Written by the worker alone.
#[derive(Debug, Default)]
pub(crate) struct NameSlot {
    site: AtomicPtr<Location<'static>>,
    id: AtomicU64,
}

impl NameSlot {
    /// From now on this one runs.
    #[inline(always)]
    pub(crate) fn show(&self, name: Name) {
        self.id.store(name.id, Release);
        self.site.store(name.site.map_or(ptr::null_mut(), |site| ptr::from_ref(site).cast_mut()), Release);
    }

    /// From now on none runs.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.site.store(ptr::null_mut(), Relaxed);
    }

    /// The task that runs, if the worker's counters are the same before and after.
    pub(crate) fn read(&self) -> Name {
        let site = self.site.load(Acquire);
        let id = self.id.load(Acquire);
        // SAFETY: null, or made from a `&'static` in `show`; never written through.
        Name { site: unsafe { site.as_ref() }, id }
    }
}
