//! Faults that are not a fiber's overflow end the process as they would without us.

use std::hint::black_box;
use std::os::unix::process::ExitStatusExt;

use mech_fiber::{Fiber, OnOverflow, prepare_thread, set_overflow_hook, suspend};
use test_support::{all_text, output_alone};

use crate::{leave_on_overflow, overflow::recurse, slab, stack};

#[test]
fn an_overflow_of_the_threads_own_stack_aborts_with_rusts_message() {
    let Some(output) = output_alone("crash::an_overflow_of_the_threads_own_stack_aborts_with_rusts_message") else {
        prepare_thread().unwrap();
        recurse(usize::MAX);
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert!(all_text(&output).contains("has overflowed its stack"), "{}", all_text(&output));
}

#[test]
fn a_null_dereference_in_a_fiber_dies_of_sigsegv() {
    let Some(output) = output_alone("crash::a_null_dereference_in_a_fiber_dies_of_sigsegv") else {
        prepare_thread().unwrap();
        let _ = Fiber::new(stack(), |word| {
            // SAFETY: none; the fault is the purpose.
            unsafe { black_box(word as *const usize).read_volatile() }
        })
        .resume(0);
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", all_text(&output));
}

#[test]
fn a_wild_pointer_into_the_guard_is_no_overflow() {
    let Some(output) = output_alone("crash::a_wild_pointer_into_the_guard_is_no_overflow") else {
        prepare_thread().unwrap();
        let _ = Fiber::new(stack(), |_| {
            let below = mech_fiber::remaining_bytes().unwrap() + 4096;
            let here = 0u8;
            // SAFETY: none; the fault is the purpose.
            unsafe { black_box((&raw const here).wrapping_sub(below)).read_volatile().into() }
        })
        .resume(0);
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", all_text(&output));
}

#[test]
fn a_sigsegv_from_outside_ends_the_process() {
    let Some(output) = output_alone("crash::a_sigsegv_from_outside_ends_the_process") else {
        prepare_thread().unwrap();
        // SAFETY: no memory involved.
        let _ = Fiber::new(stack(), |_| unsafe { libc::raise(libc::SIGSEGV) } as usize).resume(0);
        // Rust's handler restores the default and returns; the second one is deadly.
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGSEGV) };
        return;
    };
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{}", all_text(&output));
}

#[test]
fn an_overflow_that_no_hook_vouched_for_ends_the_process_and_names_the_stack() {
    let name = "crash::an_overflow_that_no_hook_vouched_for_ends_the_process_and_names_the_stack";
    let Some(output) = output_alone(name) else {
        prepare_thread().unwrap();
        let slab = slab(64 << 10, 4);
        let _first = slab.take().unwrap();
        let _ = Fiber::new(slab.take().unwrap(), recurse).resume(usize::MAX);
        return;
    };
    let text = all_text(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert!(text.contains("the fiber on stack 1 overflowed") && text.contains("`stack_bytes` = 65536"), "{text}");
}

#[test]
fn the_hook_names_the_one_that_overflowed() {
    let Some(output) = output_alone("crash::the_hook_names_the_one_that_overflowed") else {
        prepare_thread().unwrap();
        // SAFETY: the hook writes to the given text and vouches for nothing.
        unsafe {
            set_overflow_hook(|line| {
                let _ = line.write_str("task 7");
                OnOverflow::EndProcess("it is a test")
            });
        }
        let _ = Fiber::new(stack(), recurse).resume(usize::MAX);
        return;
    };
    let text = all_text(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert!(text.contains("task 7 overflowed its stack") && text.contains("because it is a test"), "{text}");
}

#[test]
fn an_overflow_while_unwinding_aborts_as_a_double_panic_does() {
    struct Deep;
    impl Drop for Deep {
        fn drop(&mut self) {
            black_box(recurse(usize::MAX));
        }
    }
    let Some(output) = output_alone("crash::an_overflow_while_unwinding_aborts_as_a_double_panic_does") else {
        leave_on_overflow();
        let mut fiber = Fiber::new(stack(), |_| {
            let _deep = Deep;
            suspend(1)
        });
        let _ = fiber.resume(0);
        drop(fiber);
        return;
    };
    let text = all_text(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    assert!(text.contains("unwinding a panic"), "{text}");
}

#[test]
fn a_handler_installed_before_ours_still_gets_its_faults() {
    extern "C" fn earlier(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: ends the process, touches nothing.
        unsafe { libc::_exit(42) }
    }
    let Some(output) = output_alone("crash::a_handler_installed_before_ours_still_gets_its_faults") else {
        // SAFETY: plain data; the handler only exits.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = earlier as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        }
        prepare_thread().unwrap();
        // SAFETY: none; the fault is the purpose.
        unsafe { black_box(std::ptr::null::<usize>()).read_volatile() };
        return;
    };
    assert_eq!(output.status.code(), Some(42), "{}", all_text(&output));
}
