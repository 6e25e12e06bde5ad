//! Who runs on a worker, for others to read.
//!
//! # Invariant
//! Whatever a reader finds here lives for ever: a plate holds a number and the address of a `static` place in the source, never the address of a task.
//!
//! # Why it holds
//! `show` takes the place as `&'static`, and nothing else writes the address.
//!
//! The two words are written one after the other, so a reader may see one of the old and one of the new. It tells by the worker's counters: they move before a
//! plate changes, and a plate is written with Release and read with Acquire. Same counters before and after, same name.

use std::{
    panic::Location,
    ptr,
    sync::atomic::{
        AtomicPtr, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use vocab::TaskId;

/// What a plate says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Name {
    site: Option<&'static Location<'static>>,
    id: u64,
}

impl Name {
    /// No task.
    pub(crate) const NOBODY: Self = Self { site: None, id: 0 };

    #[inline(always)]
    pub(crate) fn new(id: TaskId, site: &'static Location<'static>) -> Self {
        Self { site: Some(site), id: id.0 }
    }

    /// The task and where it was spawned.
    pub(crate) fn task(self) -> Option<(TaskId, &'static Location<'static>)> {
        self.site.map(|site| (TaskId(self.id), site))
    }
}

/// Shows who runs on a worker. Written by the worker alone.
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

    /// From now on nobody does.
    #[inline(always)]
    pub(crate) fn clear(&self) {
        self.site.store(ptr::null_mut(), Relaxed);
    }

    /// Who runs, if the worker's counters are the same before and after.
    pub(crate) fn read(&self) -> Name {
        let site = self.site.load(Acquire);
        let id = self.id.load(Acquire);
        // SAFETY: null, or made from a `&'static` in `show`; never written through.
        Name { site: unsafe { site.as_ref() }, id }
    }
}
