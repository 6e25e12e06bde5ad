//! Rounding modes do not travel between stacks.
//!
//! Room: mechanism. Knows the floating-point control registers and nothing else.
//!
//! # Invariant
//! Code finds the control words after a switch as it left them. A new fiber begins with those of
//! whoever resumed it first, as a new thread begins with those of its creator.
//!
//! # Why it holds
//! Each side saves its words before it leaves and compares them with those the other side saved
//! last, which are the ones in force on arrival. corosensei switches only the integer registers.
//!
//! # Why it is cheap
//! Reading a control register costs about a nanosecond, loading one ten times that. The words
//! nearly always agree, so a switch reads and compares, and loads almost never. The sticky exception flags of
//! MXCSR are the caller's to save (System V ABI): they differ all the time and are not compared.

use std::cell::Cell;

/// The control words of one side. Garbage where the architecture has none.
#[derive(Default)]
#[repr(C)]
pub(crate) struct ControlWords {
    /// MXCSR; on aarch64 the low half of FPCR.
    simd: Cell<u32>,
    /// The x87 control word.
    x87: Cell<u16>,
}

#[cfg(target_arch = "x86_64")]
impl ControlWords {
    /// Everything in MXCSR but the sticky exception flags.
    const SIMD_CONTROL: u32 = 0xffc0;

    /// Remembers the words in force.
    #[inline(always)]
    pub(crate) fn save(&self) {
        // SAFETY: the two stores write 4 and 2 bytes into cells of that size, which nobody else
        // reads meanwhile: a header belongs to one thread.
        unsafe {
            std::arch::asm!(
                "stmxcsr [{simd}]",
                "fnstcw [{x87}]",
                simd = in(reg) self.simd.as_ptr(),
                x87 = in(reg) self.x87.as_ptr(),
                options(nostack, preserves_flags),
            );
        }
    }

    /// Puts these words in force, given that `others` are now.
    #[inline(always)]
    pub(crate) fn restore(&self, others: &ControlWords) {
        let simd = (self.simd.get() ^ others.simd.get()) & Self::SIMD_CONTROL;
        let x87 = self.x87.get() ^ others.x87.get();
        if simd | u32::from(x87) != 0 {
            self.load();
        }
    }

    #[cold]
    #[inline(never)]
    fn load(&self) {
        // SAFETY: both words came out of `save`, so they are valid, and they are what the compiler
        // assumes on this side: code here had them in force when it left.
        unsafe {
            std::arch::asm!(
                "ldmxcsr [{simd}]",
                "fldcw [{x87}]",
                simd = in(reg) self.simd.as_ptr(),
                x87 = in(reg) self.x87.as_ptr(),
                options(nostack, preserves_flags, readonly),
            );
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl ControlWords {
    /// Remembers the words in force. FPCR has no bits above 31 that a program may set.
    #[inline(always)]
    pub(crate) fn save(&self) {
        let fpcr: u64;
        // SAFETY: reads a register.
        unsafe {
            std::arch::asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags));
        }
        self.simd.set(fpcr as u32);
    }

    /// Puts these words in force, given that `others` are now.
    #[inline(always)]
    pub(crate) fn restore(&self, others: &ControlWords) {
        if self.simd.get() != others.simd.get() {
            let fpcr = u64::from(self.simd.get());
            // SAFETY: the value came out of `save`: code on this side had it in force when it left.
            unsafe {
                std::arch::asm!("msr fpcr, {}", in(reg) fpcr, options(nomem, nostack, preserves_flags));
            }
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl ControlWords {
    pub(crate) fn save(&self) {}
    pub(crate) fn restore(&self, _others: &ControlWords) {}
}
