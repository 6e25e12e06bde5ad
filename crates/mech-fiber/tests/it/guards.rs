//! Guards are checked, not believed; and faults leave `errno` alone.
//!
//! A kernel, an emulator or a sandbox that answers otherwise is played by a library that is loaded before the C
//! library, and answers for it.

use std::env;
use std::hint::black_box;
use std::io;
use std::path::PathBuf;

use mech_fiber::{Fiber, GuardKind, Slab, SlabOptions, StackError, Step, prepare_thread, remaining_bytes};
use test_support::{alone, alone_with, c_library, is_alone};

use crate::leave_on_overflow;
use crate::overflow::recurse_allocating;

/// What the kernel says of guards: the markers and `mprotect(PROT_NONE)` are answered by the words of `FAKE_MARKERS` and `FAKE_NONE`:
/// `ignore` is success without effect, as from qemu-user; `refuse` is EINVAL, as from an old kernel; else the call goes through.
const FAKE_KERNEL: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* 1: answered, with *result. */
static int fakes(const char *variable, int *result) {
    const char *how = getenv(variable);
    if (how && !strcmp(how, "ignore")) { *result = 0; return 1; }
    if (how && !strcmp(how, "refuse")) { errno = EINVAL; *result = -1; return 1; }
    return 0;
}
int madvise(void *start, size_t length, int advice) {
    int result;
    if ((advice == 102 || advice == 103) && fakes("FAKE_MARKERS", &result)) return result;
    return syscall(SYS_madvise, start, length, advice);
}
int mprotect(void *start, size_t length, int protection) {
    int result;
    if (protection == PROT_NONE && fakes("FAKE_NONE", &result)) return result;
    return syscall(SYS_mprotect, start, length, protection);
}
"#;

/// The fake kernel as a library to preload.
fn fake_kernel(test: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("mech-fiber-{}-{}", test.replace(':', "-"), std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let (source, library) = (folder.join("kernel.c"), folder.join("kernel.so"));
    std::fs::write(&source, FAKE_KERNEL).expect("write the source");
    c_library(&source, &library);
    library
}

/// Runs the test again in a child before a kernel that answers so; true in the parent.
fn passed_before_a_kernel(test: &str, markers: &str, none: &str) -> bool {
    if is_alone() {
        return false;
    }
    let library = fake_kernel(test);
    let preload = library.to_str().expect("a plain path");
    alone_with(test, &[("LD_PRELOAD", preload), ("FAKE_MARKERS", markers), ("FAKE_NONE", none)]);
    let _ = std::fs::remove_dir_all(library.parent().expect("it lies in a folder"));
    true
}

/// Whether the kernel cannot read so far below the end of the running fiber's stack: asked by a system call, which says so and does not fault.
fn is_guarded(below: usize) -> bool {
    let here = 0_u8;
    let address = (&raw const here as usize - remaining_bytes().expect("in a fiber") - below) as *const libc::c_void;
    let mut ends = [0; 2];
    // SAFETY: two descriptors for an array of two; the kernel checks the address that it is asked to read.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let written = libc::write(ends[1], address, 1);
        let error = io::Error::last_os_error();
        libc::close(ends[0]);
        libc::close(ends[1]);
        written == -1 && error.raw_os_error() == Some(libc::EFAULT)
    }
}

#[track_caller]
fn every_guard_is_in_effect(slab: &'static Slab) {
    for _ in 0..3 {
        let mut fiber = Fiber::new(slab.take().unwrap(), |_| usize::from(is_guarded(1 << 10) && is_guarded(12 << 10)));
        assert_eq!(fiber.resume(0), Step::Returned(1), "no guard below a stack of {slab:?}");
        std::mem::forget(fiber); // the next one takes the next stack
    }
}

fn options() -> SlabOptions {
    SlabOptions { max_stacks: 4, ..Default::default() }
}

#[test]
fn guards_of_this_kernel_are_in_effect() {
    every_guard_is_in_effect(Slab::reserve(options()).unwrap());
    every_guard_is_in_effect(Slab::reserve_with(options(), Some(GuardKind::Mprotect)).unwrap());
}

#[test]
fn a_marker_that_was_promised_and_is_not_there_is_replaced_by_mprotect() {
    const ME: &str = "guards::a_marker_that_was_promised_and_is_not_there_is_replaced_by_mprotect";
    if passed_before_a_kernel(ME, "ignore", "") {
        return;
    }
    let slab = Slab::reserve(options()).unwrap();
    every_guard_is_in_effect(slab);
    assert_eq!(slab.stats().guard, GuardKind::Mprotect);
}

#[test]
fn a_kernel_that_refuses_markers_gets_mprotect() {
    if passed_before_a_kernel("guards::a_kernel_that_refuses_markers_gets_mprotect", "refuse", "") {
        return;
    }
    let slab = Slab::reserve(options()).unwrap();
    every_guard_is_in_effect(slab);
    assert_eq!(slab.stats().guard, GuardKind::Mprotect);
}

#[test]
fn without_any_guard_in_effect_there_is_no_slab_but_a_clear_error() {
    const ME: &str = "guards::without_any_guard_in_effect_there_is_no_slab_but_a_clear_error";
    if passed_before_a_kernel(ME, "ignore", "ignore") {
        return;
    }
    for chosen in [None, Some(GuardKind::Marker), Some(GuardKind::Mprotect)] {
        let error = Slab::reserve_with(options(), chosen).expect_err("no guard is in effect");
        assert!(matches!(error, StackError::NoGuards { .. }), "{error:?}");
        let text = error.to_string();
        for word in ["mprotect", "no effect", "emulator"] {
            assert!(text.contains(word), "`{word}` is missing in: {text}");
        }
    }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn set_errno(value: i32) {
    // SAFETY: the address of this thread's `errno`.
    unsafe { *libc::__errno_location() = value };
}

/// On a kernel that knows no markers the handler's attempt to remove one fails, in the middle of a `malloc` that goes on.
#[test]
fn an_overflow_inside_the_c_library_leaves_errno_as_it_was() {
    const ME: &str = "guards::an_overflow_inside_the_c_library_leaves_errno_as_it_was";
    if !cfg!(target_arch = "x86_64") || passed_before_a_kernel(ME, "refuse", "") {
        return;
    }
    // SAFETY: no memory involved; ends a child that hangs.
    unsafe { libc::alarm(30) };
    prepare_thread().unwrap();
    leave_on_overflow();
    let slab = Slab::reserve(SlabOptions { stack_bytes: 16 << 10, max_stacks: 100, ..Default::default() }).unwrap();
    for round in 0..64 {
        let mut fiber = Fiber::new(slab.take().unwrap(), move |depth| {
            black_box(recurse_allocating(round));
            set_errno(libc::EXDEV);
            recurse_allocating(depth)
        });
        assert_eq!(fiber.resume(usize::MAX), Step::Overflowed);
        assert_eq!(errno(), libc::EXDEV, "in round {round}");
    }
}

/// A fault that is not ours goes to the handler that was there before; what it left in `errno` would be the interrupted code's.
#[test]
fn a_fault_repaired_by_an_earlier_handler_leaves_errno_as_it_was() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static CLOSED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn repair(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: async-signal-safe calls; the page is the test's own.
        unsafe {
            libc::close(-1); // EBADF
            libc::mprotect(CLOSED.load(Ordering::Relaxed) as *mut _, 1, libc::PROT_READ | libc::PROT_WRITE);
        }
    }
    if !alone("guards::a_fault_repaired_by_an_earlier_handler_leaves_errno_as_it_was") {
        return;
    }
    // SAFETY: plain data, a fresh mapping, and a handler of the right type.
    let page = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = repair as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_NONE, flags, -1, 0)
    };
    CLOSED.store(page as usize, Ordering::Relaxed);
    prepare_thread().unwrap();
    set_errno(libc::EXDEV);
    // SAFETY: the handler opens the page, and the read is repeated.
    let read = unsafe { black_box(page.cast::<u8>()).read_volatile() };
    assert_eq!((read, errno()), (0, libc::EXDEV));
}
