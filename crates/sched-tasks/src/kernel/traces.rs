//! What a task may leave behind on its strand, in one word: most tasks leave nothing, and one look says so.
//!
//! Room: values.

use std::cell::Cell;

const UNWINDING: u64 = 1;
const FOR_UNWINDING: u64 = 2;
const GUARD_LENT: u64 = 4;
const HAS_LOCALS: u64 = 8;
const ENLISTED: u64 = 16;
/// How many shields are up.
const SHIELD: u64 = 1 << 32;

/// The flags of a strand, and its count of shields.
#[derive(Default)]
pub(crate) struct Traces(Cell<u64>);

/// One of the flags.
pub(crate) struct Flag<'a> {
    word: &'a Cell<u64>,
    bit: u64,
}

/// The count of shields.
pub(crate) struct Shields<'a>(&'a Cell<u64>);

impl Traces {
    /// Whether there is none.
    #[inline(always)]
    pub(crate) fn are_none(&self) -> bool {
        self.0.get() == 0
    }

    /// A panic or a cancellation is on its way up.
    #[inline(always)]
    pub(crate) fn unwinding(&self) -> Flag<'_> {
        self.flag(UNWINDING)
    }

    /// It runs on behalf of a destructor of a strand that unwinds: neither a budget nor a cancellation may stop it, which would come out of that destructor.
    #[inline(always)]
    pub(crate) fn for_unwinding(&self) -> Flag<'_> {
        self.flag(FOR_UNWINDING)
    }

    /// The task unwinds, or unwound, on half of its stack's guard.
    #[inline(always)]
    pub(crate) fn guard_lent(&self) -> Flag<'_> {
        self.flag(GUARD_LENT)
    }

    /// There are values, or open nurseries: its end has more to do.
    #[inline(always)]
    pub(crate) fn has_locals(&self) -> Flag<'_> {
        self.flag(HAS_LOCALS)
    }

    /// Its waiter is among the members of its nursery.
    #[inline(always)]
    pub(crate) fn enlisted(&self) -> Flag<'_> {
        self.flag(ENLISTED)
    }

    /// How many shields are up.
    #[inline(always)]
    pub(crate) fn shields(&self) -> Shields<'_> {
        Shields(&self.0)
    }

    #[inline(always)]
    fn flag(&self, bit: u64) -> Flag<'_> {
        Flag { word: &self.0, bit }
    }
}

impl Flag<'_> {
    #[inline(always)]
    pub(crate) fn get(&self) -> bool {
        self.word.get() & self.bit != 0
    }

    #[inline(always)]
    pub(crate) fn set(&self, is_set: bool) {
        let others = self.word.get() & !self.bit;
        self.word.set(if is_set { others | self.bit } else { others });
    }

    /// Returns what it was.
    #[inline(always)]
    pub(crate) fn replace(&self, is_set: bool) -> bool {
        let was = self.get();
        self.set(is_set);
        was
    }
}

impl Shields<'_> {
    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        (self.0.get() / SHIELD) as u32
    }

    #[inline(always)]
    pub(crate) fn set(&self, count: u32) {
        self.0.set(self.0.get() % SHIELD + u64::from(count) * SHIELD);
    }

    /// Returns what it was.
    #[inline(always)]
    pub(crate) fn replace(&self, count: u32) -> u32 {
        let was = self.get();
        self.set(count);
        was
    }
}
