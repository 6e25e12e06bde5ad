//! The stacks of a runtime, by size.
//!
//! Room: driver. Knows slabs and sizes; which task gets which stack is said by the task.
//!
//! # Invariant
//! A stack is at least as large as was asked for, and below the double of it where it is larger than the usual one. A slab of a larger size is
//! reserved when its first stack is asked for, once.
//!
//! # Why sizes double
//! A stack costs addresses, and memory only where it is touched. So few sizes are enough, and stacks of one size can be used again by all tasks
//! that ask for about as much.

use std::sync::{Arc, OnceLock};

use mech_fiber::{Slab, SlabOptions, SlabStats, Stack, StackError};

/// Addresses for the stacks of one larger size.
const LARGER_ADDRESS_BYTES: usize = 64 << 30;

/// Sizes above the usual one: from twice a page to the largest.
const CLASSES: usize = usize::BITS as usize;

pub(crate) struct Stacks {
    usual: &'static Slab,
    usual_bytes: usize,
    max_stacks: usize,
    /// By the logarithm of their size.
    larger: [OnceLock<Result<&'static Slab, Arc<StackError>>>; CLASSES],
}

impl Stacks {
    /// Reserves addresses for `max_stacks` stacks; for fewer, where the system does not give so many and `may_shrink`.
    pub(crate) fn reserve(stack_bytes: usize, max_stacks: usize, may_shrink: bool) -> Result<Self, StackError> {
        const ENOUGH: usize = 4096;
        let mut wanted = max_stacks;
        let usual = loop {
            let options = SlabOptions { stack_bytes, max_stacks: wanted, ..SlabOptions::default() };
            match Slab::reserve(options) {
                Ok(slab) => break slab,
                Err(StackError::Reserve { .. }) if may_shrink && wanted / 4 >= ENOUGH => wanted /= 4,
                Err(error) => return Err(error),
            }
        };
        let larger = [const { OnceLock::new() }; CLASSES];
        Ok(Self { usual, usual_bytes: stack_bytes, max_stacks: wanted, larger })
    }

    /// How large the usual stack is.
    #[inline]
    pub(crate) fn usual_bytes(&self) -> usize {
        self.usual_bytes
    }

    /// A stack of at least `bytes`.
    pub(crate) fn take(&self, bytes: usize) -> Result<Stack, Arc<StackError>> {
        if bytes <= self.usual_bytes {
            return self.usual.take().map_err(Arc::new);
        }
        let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes);
        let reserve = || {
            let max_stacks = (LARGER_ADDRESS_BYTES / bytes).clamp(1, self.max_stacks);
            Slab::reserve(SlabOptions { stack_bytes: bytes, max_stacks, ..SlabOptions::default() }).map_err(Arc::new)
        };
        let slab = self.larger[bytes.ilog2() as usize].get_or_init(reserve);
        slab.clone()?.take().map_err(Arc::new)
    }

    /// What the stacks of the usual size are up to.
    pub(crate) fn stats(&self) -> SlabStats {
        self.usual.stats()
    }

    /// The runtime is over: gives the memory back.
    pub(crate) fn retire(&self) {
        self.usual.retire();
        self.larger.iter().filter_map(|slab| slab.get()).flatten().for_each(|slab| slab.retire());
    }
}
