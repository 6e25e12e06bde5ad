//! The registers of an interrupted thread: read where it was, set where it continues. The only file that knows the
//! layout of `ucontext_t`.
//!
//! Room: mechanism.

use std::ffi::c_void;

/// The interrupted context, as the kernel passes it to a signal handler.
pub(crate) struct Interrupted<'a>(&'a mut libc::ucontext_t);

impl<'a> Interrupted<'a> {
    /// # Safety
    /// `context` is the third argument of a running `SA_SIGINFO` handler.
    pub(crate) unsafe fn new(context: *mut c_void) -> Self {
        // SAFETY: the kernel passes a valid `ucontext_t`, which belongs to the handler until it
        // returns.
        Self(unsafe { &mut *context.cast() })
    }
}

#[cfg(target_arch = "x86_64")]
impl Interrupted<'_> {
    /// The stack pointer.
    pub(crate) fn stack_pointer(&self) -> usize {
        self.0.uc_mcontext.gregs[libc::REG_RSP as usize] as usize
    }

    /// The address of the instruction that faulted.
    pub(crate) fn instruction(&self) -> usize {
        self.0.uc_mcontext.gregs[libc::REG_RIP as usize] as usize
    }

    /// Whether this processor can run one instruction at a time for us.
    pub(crate) const STEPS: bool = true;

    /// Interrupts with SIGTRAP after each instruction, or no longer.
    pub(crate) fn step(&mut self, on: bool) {
        let flags = &mut self.0.uc_mcontext.gregs[libc::REG_EFL as usize];
        *flags = if on { *flags | 0x100 } else { *flags & !0x100 };
    }

    /// Continues in `function` on the stack that ends at `top`, as if just called.
    ///
    /// The direction flag is cleared, as the ABI wants at an entry; rbp is zero: backtraces end.
    pub(crate) fn continue_at(&mut self, function: extern "C" fn() -> !, top: usize) {
        let registers = &mut self.0.uc_mcontext.gregs;
        registers[libc::REG_RIP as usize] = function as usize as i64;
        registers[libc::REG_RSP as usize] = (top & !15) as i64 - 8;
        registers[libc::REG_RBP as usize] = 0;
        registers[libc::REG_EFL as usize] &= !0x400;
    }
}

#[cfg(target_arch = "aarch64")]
impl Interrupted<'_> {
    /// Single steps need a debugger here.
    pub(crate) const STEPS: bool = false;

    /// Never called.
    pub(crate) fn step(&mut self, _on: bool) {}

    /// The stack pointer.
    pub(crate) fn stack_pointer(&self) -> usize {
        self.0.uc_mcontext.sp as usize
    }

    /// The address of the instruction that faulted.
    pub(crate) fn instruction(&self) -> usize {
        self.0.uc_mcontext.pc as usize
    }

    /// Continues in `function` on the stack that ends at `top`, as if just called.
    pub(crate) fn continue_at(&mut self, function: extern "C" fn() -> !, top: usize) {
        self.0.uc_mcontext.pc = function as usize as u64;
        self.0.uc_mcontext.sp = (top & !15) as u64;
        self.0.uc_mcontext.regs[29] = 0; // frame pointer
        self.0.uc_mcontext.regs[30] = 0; // return address
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Interrupted<'_> {
    /// Never called.
    pub(crate) const STEPS: bool = false;

    /// Never called.
    pub(crate) fn step(&mut self, _on: bool) {}

    /// Zero lies in no stack, so no fault is ever taken for an overflow.
    pub(crate) fn stack_pointer(&self) -> usize {
        let _ = &self.0;
        0
    }

    /// Never called.
    pub(crate) fn instruction(&self) -> usize {
        0
    }

    /// Never called.
    pub(crate) fn continue_at(&mut self, _function: extern "C" fn() -> !, _top: usize) {}
}
