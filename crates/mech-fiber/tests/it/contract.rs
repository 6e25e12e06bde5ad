//! What a switch keeps, and what it costs.

use std::arch::asm;
use std::backtrace::Backtrace;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mech_fiber::{Fiber, Step, in_fiber, keep_control_words_exactly, remaining_bytes, suspend};
use test_support::alone;

use crate::{ALLOCATIONS, slab, stack};

#[test]
fn words_travel_both_ways() {
    // The last one looks like an overflow or a forced unwinding.
    let words = [0, 1, usize::MAX, -0x05ba_df1b_isize as usize];
    let mut fiber = Fiber::new(stack(), |mut word| {
        loop {
            word = suspend(word);
        }
    });
    for word in words {
        assert_eq!(fiber.resume(word), Step::Suspended(word));
    }
}

#[test]
fn nested_fibers_suspend_to_their_own_resumer() {
    assert!(!in_fiber());
    let slab = slab(64 << 10, 4);
    let mut outer = Fiber::new(slab.take().unwrap(), move |_| {
        let mut inner = Fiber::new(slab.take().unwrap(), |_| suspend(10) + suspend(11));
        assert_eq!(inner.resume(0), Step::Suspended(10));
        assert!(in_fiber());
        let word = suspend(20);
        assert_eq!(inner.resume(word), Step::Suspended(11));
        assert_eq!(suspend(21), 2);
        let Step::Returned(sum) = inner.resume(3) else { panic!("the inner fiber must end") };
        sum
    });
    assert_eq!(outer.resume(0), Step::Suspended(20));
    assert!(!in_fiber());
    assert_eq!(outer.resume(1), Step::Suspended(21));
    assert_eq!(outer.resume(2), Step::Returned(4));
}

/// Calls `f` with patterns in the callee-saved registers and returns what they hold afterwards.
#[cfg(target_arch = "x86_64")]
fn with_patterns(seed: u64, f: extern "C" fn()) -> [u64; 6] {
    let mut registers: [u64; 6] = std::array::from_fn(|i| seed * 0x0101_0101 + i as u64);
    // SAFETY: rbx and rbp are put back by hand, the others are declared; rsp is aligned for the
    // call and restored; `f` is an ordinary C function.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "push rdi",
            "mov rcx, rsp",
            "and rsp, -16",
            "push rcx",
            "push rcx",
            "mov rbx, [rdi]",
            "mov rbp, [rdi + 8]",
            "mov r12, [rdi + 16]",
            "mov r13, [rdi + 24]",
            "mov r14, [rdi + 32]",
            "mov r15, [rdi + 40]",
            "call rax",
            "pop rsp",
            "pop rdi",
            "mov [rdi], rbx",
            "mov [rdi + 8], rbp",
            "mov [rdi + 16], r12",
            "mov [rdi + 24], r13",
            "mov [rdi + 32], r14",
            "mov [rdi + 40], r15",
            "pop rbp",
            "pop rbx",
            inout("rdi") registers.as_mut_ptr() => _,
            inout("rax") f as usize => _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("C"),
        );
    }
    registers
}

#[cfg(target_arch = "x86_64")]
#[test]
fn callee_saved_registers_survive_a_switch_on_both_sides() {
    use std::cell::RefCell;
    thread_local! { static FIBER: RefCell<Option<Fiber>> = const { RefCell::new(None) }; }
    extern "C" fn leave() {
        suspend(1);
    }
    extern "C" fn enter() {
        FIBER.with_borrow_mut(|fiber| assert_eq!(fiber.as_mut().unwrap().resume(0), Step::Suspended(1)));
    }
    let expected = |seed: u64| -> [u64; 6] { std::array::from_fn(|i| seed * 0x0101_0101 + i as u64) };
    FIBER.set(Some(Fiber::new(stack(), move |_| {
        for seed in 0..100 {
            assert_eq!(with_patterns(seed, leave), expected(seed), "in the fiber");
        }
        0
    })));
    for seed in 1000..1100 {
        assert_eq!(with_patterns(seed, enter), expected(seed), "in the resumer");
    }
    assert_eq!(FIBER.take().unwrap().resume(0), Step::Returned(0));
}

#[cfg(target_arch = "x86_64")]
mod words {
    use super::*;

    const NEAREST: (u32, u16) = (0x1f80, 0x037f);
    const UP: (u32, u16) = (0x5f80, 0x0b7f);
    const DOWN: (u32, u16) = (0x3f80, 0x077f);
    const ZERO: (u32, u16) = (0x7f80, 0x0f7f);
    const FLUSH: (u32, u16) = (0x9f80, 0x037f);
    const DENORMALS_ARE_ZERO: (u32, u16) = (0x1fc0, 0x037f);

    fn set((simd, x87): (u32, u16)) {
        // SAFETY: valid control words; every test puts the defaults back.
        unsafe { asm!("ldmxcsr [{}]", "fldcw [{}]", in(reg) &simd, in(reg) &x87) };
    }

    fn get() -> (u32, u16) {
        let (mut simd, mut x87) = (0u32, 0u16);
        // SAFETY: stores 4 and 2 bytes into locals of that size.
        unsafe { asm!("stmxcsr [{}]", "fnstcw [{}]", in(reg) &mut simd, in(reg) &mut x87) };
        (simd & 0xffc0, x87)
    }

    #[test]
    fn rounding_and_denormal_modes_stay_on_their_side() {
        let modes = [NEAREST, UP, DOWN, ZERO, FLUSH, DENORMALS_ARE_ZERO];
        for ours in modes {
            for theirs in modes {
                let mut fiber = Fiber::new(stack(), move |_| {
                    assert_eq!(get(), NEAREST, "a fiber starts with the defaults");
                    set(theirs);
                    suspend(1);
                    assert_eq!(get(), theirs);
                    suspend(2);
                    assert_eq!(get(), theirs);
                    3
                });
                set(ours);
                let steps = [(); 3].map(|()| (fiber.resume(0), get()));
                set(NEAREST);
                let expected = [Step::Suspended(1), Step::Suspended(2), Step::Returned(3)];
                assert_eq!(steps, expected.map(|step| (step, ours)), "{ours:x?} and {theirs:x?}");
            }
        }
    }

    #[test]
    fn an_overflow_leaves_the_modes_of_the_resumer_alone() {
        crate::leave_on_overflow();
        let mut fiber = Fiber::new(stack(), |depth| {
            set(UP);
            crate::overflow::recurse(depth)
        });
        set(DOWN);
        let step = fiber.resume(usize::MAX);
        let after = get();
        set(NEAREST);
        assert_eq!((step, after), (Step::Overflowed, DOWN));
    }

    #[test]
    fn exception_masks_and_x87_precision_are_kept_apart_on_request() {
        if !alone("contract::words::exception_masks_and_x87_precision_are_kept_apart_on_request") {
            return; // the request is for a whole process
        }
        keep_control_words_exactly(true);
        let unmasked = (0x1d80, 0x027f); // division by zero traps; x87 rounds to double
        let mut fiber = Fiber::new(stack(), move |_| {
            set(unmasked);
            suspend(1);
            let kept = usize::from(get() == unmasked);
            set(NEAREST);
            kept
        });
        assert_eq!(fiber.resume(0), Step::Suspended(1));
        assert_eq!(get(), NEAREST);
        assert_eq!(fiber.resume(0), Step::Returned(1));
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_fiber_starts_on_an_aligned_stack() {
    // An aligned vector store faults on a misaligned stack; the address says so more kindly.
    #[repr(align(16))]
    struct Aligned([u8; 16]);
    for bytes in 0..8 {
        let captured = vec![1u8; bytes];
        let mut fiber = Fiber::new(stack(), move |_| {
            let local = black_box(Aligned([captured.len() as u8; 16]));
            let frame: usize;
            // SAFETY: reads the stack pointer.
            unsafe { asm!("mov {}, rsp", out(reg) frame) };
            black_box(&local.0);
            (&raw const local as usize % 16) | (frame % 16)
        });
        assert_eq!(fiber.resume(0), Step::Returned(0));
    }
}

#[test]
fn a_switch_allocates_nothing() {
    let mut fiber = Fiber::new(stack(), |_| {
        loop {
            suspend(1);
        }
    });
    let _ = fiber.resume(0);
    let before = ALLOCATIONS.get();
    for word in 0..1000 {
        let _ = fiber.resume(word);
    }
    assert_eq!(ALLOCATIONS.get(), before);
    drop(black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get(), before + 1, "the counter counts");
}

#[test]
fn a_backtrace_inside_a_fiber_reaches_its_resumer_and_ends() {
    let mut fiber = Fiber::new(stack(), |_| {
        let text = Backtrace::force_capture().to_string();
        usize::from(text.contains("a_backtrace_inside_a_fiber") && text.lines().count() < 500)
    });
    assert_eq!(fiber.resume(0), Step::Returned(1));
}

#[inline(never)]
fn one_frame_deeper() -> usize {
    let frame = black_box([0usize; 64]);
    remaining_bytes().unwrap() + black_box(&frame)[0]
}

#[test]
fn remaining_bytes_shrink_with_every_frame() {
    assert_eq!(remaining_bytes(), None);
    let mut fiber = Fiber::new(slab(64 << 10, 2).take().unwrap(), |_| {
        let outer = remaining_bytes().unwrap();
        let inner = one_frame_deeper();
        assert!(inner < outer && outer < 64 << 10, "{inner} {outer}");
        outer
    });
    let Step::Returned(left) = fiber.resume(0) else { panic!("must return") };
    assert!(left > 60 << 10, "{left} bytes left of 64 KiB at the start");
}

#[test]
fn suspending_outside_a_fiber_panics_with_the_way_out() {
    let error = std::panic::catch_unwind(|| suspend(1)).unwrap_err();
    assert!(error.downcast_ref::<&str>().unwrap().contains("outside a fiber"));
}

#[test]
fn resuming_a_fiber_that_is_done_panics_with_the_way_out() {
    let mut fiber = Fiber::new(stack(), |word| word);
    assert_eq!(fiber.resume(5), Step::Returned(5));
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fiber.resume(6)));
    assert!(again.unwrap_err().downcast_ref::<&str>().unwrap().contains("is_done()"));
}

/// Signals of the thread's timer, counted by a handler on the alternate stack.
static TICKS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_signal_every_millisecond_disturbs_no_switch() {
    if !alone("contract::a_signal_every_millisecond_disturbs_no_switch") {
        return; // the timer would hit the other tests
    }
    extern "C" fn tick(_: libc::c_int) {
        TICKS.fetch_add(1, Ordering::Relaxed);
    }
    crate::leave_on_overflow();
    let every = libc::timeval { tv_sec: 0, tv_usec: 1000 };
    // SAFETY: plain data for the two calls; the handler only adds to an atomic. It runs on the
    // alternate stack, which `prepare_thread` gave to this thread; the other threads of the child
    // wait.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = tick as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &action, std::ptr::null_mut());
        let timer = libc::itimerval { it_interval: every, it_value: every };
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
    }
    let (slab, start) = (slab(16 << 10, 200), Instant::now());
    let mut sum = Fiber::new(slab.take().unwrap(), |mut word| {
        let mut sum = 0usize;
        loop {
            sum = sum.wrapping_add(word);
            word = suspend(sum);
        }
    });
    let (mut expected, mut word, mut overflows) = (0usize, 0usize, 0);
    while start.elapsed() < Duration::from_millis(800) {
        for _ in 0..10_000 {
            word = word.wrapping_add(0x9e37_79b9);
            expected = expected.wrapping_add(word);
            assert_eq!(sum.resume(word), Step::Suspended(expected));
        }
        if overflows < 100 {
            let mut deep = Fiber::new(slab.take().unwrap(), crate::overflow::recurse);
            assert_eq!(deep.resume(usize::MAX), Step::Overflowed);
            overflows += 1;
        }
    }
    let ticks = TICKS.load(Ordering::Relaxed);
    assert!(ticks > 100, "only {ticks} signals in 0.8 s");
}
