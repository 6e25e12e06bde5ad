//! Faults that are not ours reach the handler that was there before.
//!
//! Room: mechanism. Knows the old disposition of SIGSEGV; knows nothing of fibers.
//!
//! # Invariant
//! For a fault outside our guards the process behaves as if this crate were absent: Rust's own
//! message for a thread's overflow, another library's handler, or death by SIGSEGV.
//!
//! # Why it holds
//! [`pass_on`] does what the kernel would have done with the old `sigaction`, flag by flag. One
//! difference remains: a handler without `SA_ONSTACK` runs on the alternate stack.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::{self, MaybeUninit};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::StackError;
use crate::memory::last_errno;

/// A signal handler of the `SA_SIGINFO` kind.
pub(crate) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// The disposition before ours.
struct Previous {
    action: UnsafeCell<MaybeUninit<libc::sigaction>>,
    known: AtomicBool,
}

// SAFETY: `action` is written once, before `known` is set (Release); readers see `known`
// (Acquire) first.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous { action: UnsafeCell::new(MaybeUninit::uninit()), known: AtomicBool::new(false) };

/// Installs `handler` for SIGSEGV, once per process.
pub(crate) fn install(handler: Handler) -> Result<(), StackError> {
    static DONE: OnceLock<Result<(), i32>> = OnceLock::new();
    let done = DONE.get_or_init(|| {
        // SAFETY: `sigaction` is plain data, for which zero is a valid value.
        let mut ours: libc::sigaction = unsafe { mem::zeroed() };
        ours.sa_sigaction = handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY:
        // - The pointers are to live values of the right type; `PREVIOUS.action` is written by
        //   this closure only, which runs once, and read only after `known`.
        // - The handler keeps to async-signal-safe calls: see `overflow.rs`.
        unsafe {
            libc::sigemptyset(&mut ours.sa_mask);
            let previous = (*PREVIOUS.action.get()).as_mut_ptr();
            // Ask first, install second: a fault between the two must find the old handler.
            if libc::sigaction(libc::SIGSEGV, ptr::null(), previous) != 0 {
                return Err(last_errno());
            }
            PREVIOUS.known.store(true, Ordering::Release);
            if libc::sigaction(libc::SIGSEGV, &ours, ptr::null_mut()) != 0 {
                return Err(last_errno());
            }
        }
        Ok(())
    });
    done.map_err(|errno| StackError::Thread { call: "sigaction", errno })
}

/// Does with the signal what the kernel would have done without us.
///
/// # Safety
/// Called from the handler given to [`install`], with its arguments.
pub(crate) unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid `siginfo_t`.
    let sent = unsafe { (*info).si_code } <= 0; // by `kill` or `raise`, not by a fault
    if !PREVIOUS.known.load(Ordering::Acquire) {
        return die(signal, sent);
    }
    // SAFETY: `known` is set after the write, and nothing writes it again.
    let action = unsafe { (*PREVIOUS.action.get()).assume_init_ref() };
    match action.sa_sigaction {
        libc::SIG_DFL => die(signal, sent),
        libc::SIG_IGN if sent => {}
        libc::SIG_IGN => die(signal, sent), // a fault cannot be ignored
        handler => {
            if action.sa_flags & libc::SA_RESETHAND != 0 {
                set_default(signal);
            }
            // SAFETY: async-signal-safe calls on live values; returning from our handler restores
            // the mask. The function has the type its flags promise.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, &action.sa_mask, ptr::null_mut());
                if action.sa_flags & libc::SA_NODEFER != 0 {
                    let mut only = mem::zeroed();
                    libc::sigemptyset(&mut only);
                    libc::sigaddset(&mut only, signal);
                    libc::pthread_sigmask(libc::SIG_UNBLOCK, &only, ptr::null_mut());
                }
                if action.sa_flags & libc::SA_SIGINFO != 0 {
                    mem::transmute::<usize, Handler>(handler)(signal, info, context);
                } else {
                    mem::transmute::<usize, extern "C" fn(c_int)>(handler)(signal);
                }
            }
        }
    }
}

/// The default action: back to the faulting instruction, which faults again and ends the process.
fn die(signal: c_int, sent: bool) {
    set_default(signal);
    if sent {
        // Nothing will fault again, so ask for it; blocked until the handler returns.
        // SAFETY: async-signal-safe, no memory involved.
        unsafe {
            libc::raise(signal);
        }
    }
}

fn set_default(signal: c_int) {
    // SAFETY: zero is the valid `sigaction` that means SIG_DFL; the call is async-signal-safe.
    unsafe {
        let default: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, &default, ptr::null_mut());
    }
}
