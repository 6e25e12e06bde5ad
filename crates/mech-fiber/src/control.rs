//! Rounding modes do not travel between stacks.
//!
//! Room: mechanism. Knows the floating-point control registers and nothing else.
//!
//! # Invariant
//! Every switch happens with the default control words in force: round to nearest, denormals
//! kept, exceptions masked. So a fiber starts with them, and what one side chose never reaches
//! the other.
//!
//! # Why it holds
//! Each side, before it leaves, asks [`are_default`]. If not, it takes the slow way: save, load
//! the defaults, leave, and on its return load what it saved. corosensei itself switches only the
//! integer registers.
//!
//! # Why it asks by calculating
//! Storing MXCSR costs 6 to 8 ns on current AMD parts and storing the x87 word 2, where a bare
//! pair of switches takes 3: the store waits for the sticky flags of all arithmetic before it.
//! One vector addition, whose lanes come out differently under every other rounding or denormal
//! mode, costs 0.5 ns. `<fenv.h>` changes the rounding of both registers together, so the
//! addition speaks for x87 too.
//!
//! # Limits
//! Not seen: exceptions unmasked, and an x87 word changed alone. A program that needs these kept apart
//! calls [`keep_control_words_exactly`], and every switch takes the slow way, some 20 ns. So do
//! programs that flush denormals throughout (`-ffast-math`). The addition sets sticky flags,
//! which the ABI leaves to the caller.

#[cfg(target_arch = "x86_64")]
mod arch {
    use std::arch::asm;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// MXCSR and the x87 control word, as a process starts with them.
    const SIMD: u32 = 0x1f80;
    const X87: u16 = 0x037f;

    /// Read by assembly only.
    #[repr(align(16))]
    #[expect(dead_code)]
    struct Lanes([u32; 4]);

    // Lane 0: the smallest denormal + 0; zero if denormals are flushed or read as zero.
    // Lane 1: 1 + 3/4 ulp; 1 + 1 ulp to nearest and up, 1 down and towards zero.
    // Lane 2: 1 + 1/4 ulp; 1 to nearest, 1 + 1 ulp up.
    // Lane 3: 0 + 0.
    static LEFT: Lanes = Lanes([1, 0x3f80_0000, 0x3f80_0000, 0]);
    static RIGHT: Lanes = Lanes([0, 0x33c0_0000, 0x3300_0000, 0]);
    // Lane 3 is made wrong to send every switch the slow way.
    static SUM: Expected =
        Expected([AtomicU32::new(1), AtomicU32::new(0x3f80_0001), AtomicU32::new(0x3f80_0000), AtomicU32::new(0)]);

    #[repr(align(16))]
    struct Expected([AtomicU32; 4]);

    pub(crate) fn always_slow(on: bool) {
        SUM.0[3].store(on.into(), Ordering::Relaxed);
    }

    pub(crate) struct Words {
        simd: u32,
        x87: u16,
    }

    /// Whether the modes in force are the default ones, as far as one addition can tell.
    #[inline(always)]
    pub(crate) fn are_default() -> bool {
        let equal: u32;
        // SAFETY: reads 16 bytes each from three aligned statics; changes two registers it
        // declares and the sticky flags of MXCSR, which belong to the caller of any function.
        unsafe {
            asm!(
                "movaps {lanes}, xmmword ptr [rip + {left}]",
                "addps {lanes}, xmmword ptr [rip + {right}]",
                "pcmpeqd {lanes}, xmmword ptr [rip + {sum}]",
                "movmskps {equal:e}, {lanes}",
                left = sym LEFT,
                right = sym RIGHT,
                sum = sym SUM,
                lanes = out(xmm_reg) _,
                equal = out(reg) equal,
                options(nostack, readonly, preserves_flags),
            );
        }
        equal == 0b1111
    }

    impl Words {
        pub(crate) const DEFAULT: Words = Words { simd: SIMD, x87: X87 };

        /// The words in force.
        pub(crate) fn save() -> Words {
            let mut words = Words { simd: 0, x87: 0 };
            // SAFETY: stores 4 and 2 bytes into fields of that size.
            unsafe {
                asm!(
                    "stmxcsr [{}]", "fnstcw [{}]",
                    in(reg) &raw mut words.simd, in(reg) &raw mut words.x87,
                    options(nostack, preserves_flags),
                );
            }
            words
        }

        /// Puts these words in force.
        pub(crate) fn load(&self) {
            // SAFETY: the words are the defaults or came out of `save`: valid, and those the code
            // that runs next had when it left.
            unsafe {
                asm!(
                    "ldmxcsr [{}]", "fldcw [{}]",
                    in(reg) &raw const self.simd, in(reg) &raw const self.x87,
                    options(nostack, preserves_flags, readonly),
                );
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arch {
    use std::arch::asm;

    /// FPCR.
    pub(crate) struct Words(u64);

    pub(crate) fn always_slow(_on: bool) {} // reading FPCR is exact already

    #[inline(always)]
    pub(crate) fn are_default() -> bool {
        Words::save().0 == Words::DEFAULT.0
    }

    impl Words {
        pub(crate) const DEFAULT: Words = Words(0);

        /// The word in force.
        #[inline(always)]
        pub(crate) fn save() -> Words {
            let fpcr;
            // SAFETY: reads a register.
            unsafe { asm!("mrs {}, fpcr", out(reg) fpcr, options(nomem, nostack, preserves_flags)) };
            Words(fpcr)
        }

        /// Puts this word in force.
        pub(crate) fn load(&self) {
            // SAFETY: the word is the default or came out of `save`: what the code that runs next
            // had when it left.
            unsafe { asm!("msr fpcr, {}", in(reg) self.0, options(nostack, preserves_flags)) };
        }
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod arch {
    /// Nothing: control words are not kept apart on this architecture.
    pub(crate) struct Words;

    pub(crate) fn always_slow(_on: bool) {}

    pub(crate) fn are_default() -> bool {
        true
    }

    impl Words {
        pub(crate) const DEFAULT: Words = Words;

        pub(crate) fn save() -> Words {
            Words
        }

        pub(crate) fn load(&self) {}
    }
}

pub(crate) use arch::{Words, are_default};

/// Makes every switch of the process keep all control words apart, exception masks and x87
/// precision included.
///
/// Off by default: rounding and denormal modes are always kept apart, the rest costs some 20 ns
/// per switch.
pub fn keep_control_words_exactly(on: bool) {
    arch::always_slow(on);
}
