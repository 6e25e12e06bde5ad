//! Programs that want everything: each is stopped with the name of what it spent, those beside it hardly notice, and its memory comes back.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicBool, AtomicU64, AtomicUsize,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use bursar::{
    Budget, NurseryOptions, OnFailure, Reason, Runtime, TaskError,
    budget::{BudgetedAlloc, Component},
    budgeted, fs, nursery, nursery_with, unbounded,
};
use test_support::resident_bytes;

/// The system's allocator, which also counts what is not freed.
struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator; the counter touches no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size(), Relaxed);
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static MEMORY: BudgetedAlloc<Counting> = BudgetedAlloc::before(Counting);

const MIB: u64 = 1 << 20;
const WORKERS: usize = 2;
const TENANTS: usize = 8;
/// A budget buys so much work, which takes several times as long without optimisation.
const WINDOW: Duration = Duration::from_millis(if cfg!(debug_assertions) { 450 } else { 150 });

/// Throughput is measured: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Some microseconds of honest work.
#[budgeted]
fn work(seed: u64) -> u64 {
    let mut x = seed | 1;
    for _ in 0..2_000 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }
    x
}

/// What the threads of this process have had of the CPUs. Others use the machine too: they must not count for or against any task here. With `HOSTILE_CLOCK=wall`, for a
/// machine that has nothing else to do, it is the time of day: that also shows a task that keeps others waiting without using a CPU.
fn time_had() -> Duration {
    static BEGIN: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    if by_wall_clock() {
        return BEGIN.elapsed();
    }
    let threads = std::fs::read_dir("/proc/self/task").expect("tests run on Linux");
    let ran = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?; // else it has just ended
        stat.split_whitespace().next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(threads.filter_map(ran).sum())
}

fn by_wall_clock() -> bool {
    std::env::var_os("HOSTILE_CLOCK").is_some_and(|clock| clock == "wall")
}

/// Waits until the process has had as much of the CPUs as its workers get in a window on an idle machine. A budget buys a fixed amount of work: in a
/// window of real time beside busy neighbours it would be a larger part of what this process gets.
fn wait_for_window(before: Duration) {
    let enough = if by_wall_clock() { WINDOW } else { WINDOW * WORKERS as u32 };
    let begun = Instant::now();
    while time_had().saturating_sub(before) < enough && begun.elapsed() < 100 * WINDOW {
        bursar::sleep(WINDOW / 50);
    }
}

/// What the tenants got done in a window of time, for each second that the process had, beside `hostile`; and how that one ended.
fn beside(runtime: &Runtime, hostile: impl FnOnce() -> Result<(), TaskError> + Send) -> (u64, Result<(), TaskError>) {
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let before = time_had();
    let outcome = runtime
        .run(|| {
            nursery(|n| {
                let bad = n.spawn(hostile);
                for tenant in 0..TENANTS {
                    let (done, over) = (&done, &over);
                    let options = NurseryOptions::new().name(format!("tenant-{tenant}")).budget(Budget::UNLIMITED);
                    n.spawn(move || {
                        nursery_with(options, |m| {
                            m.spawn(|| {
                                while !over.load(Relaxed) {
                                    std::hint::black_box(work(tenant as u64));
                                    done.fetch_add(1, Relaxed);
                                    bursar::yield_now();
                                }
                            })
                            .join()
                        })
                    });
                }
                wait_for_window(before);
                over.store(true, Relaxed);
                bad.join()
            })
        })
        .expect("the tenants end well");
    let used = time_had().saturating_sub(before);
    let rate = done.load(SeqCst) as f64 / used.as_secs_f64();
    (rate as u64, outcome.expect("a failure inside the hostile nursery stays inside"))
}

/// The three promises about a hostile program: it ends with `component`, the others keep nine tenths, and memory is where it was.
fn is_contained(component: Component, budget: Budget, hostile: impl Fn() + Send + Sync + Copy) {
    let _alone = alone();
    let runtime = Runtime::builder().workers(WORKERS).build().unwrap();
    let attack = || {
        let pool = budget.spawns(budget.spawns + 1); // one for the task itself
        let options = NurseryOptions::new().name("hostile").budget(pool).task_budget(budget);
        nursery_with(options, |n| n.spawn(hostile).join())
    };
    // Once, so that stacks, pools and threads are there before memory is measured.
    let _ = beside(&runtime, attack);
    let (live, resident) = (LIVE_BYTES.load(SeqCst), resident_bytes());
    // The caches are shared with others: the best of a few rounds, taken in turns.
    let (mut without, mut with) = (0, 0);
    for round in 1..=10 {
        without = without.max(beside(&runtime, || Ok(())).0);
        let (done, outcome) = beside(&runtime, attack);
        with = with.max(done);
        let error = outcome.expect_err("it is stopped");
        match error.reason() {
            Reason::BudgetExhausted { component: spent, .. } => assert_eq!(*spent, component, "{error}"),
            _ => panic!("it ended otherwise: {error}"),
        }
        if round >= 2 && with * 10 >= without * 9 {
            break;
        }
    }
    assert!(with * 10 >= without * 9, "the others did {without} units of work a second alone, {with} beside it");
    // How many stacks and blocks there are at most at one time is a matter of luck, and they are kept for the next. What is lost is lost every time.
    let measure = |live: usize, resident: usize| {
        (LIVE_BYTES.load(SeqCst).saturating_sub(live), resident_bytes().saturating_sub(resident))
    };
    let (mut kept, mut grown) = measure(live, resident);
    for _ in 0..5 {
        if kept < 64 << 10 && grown < 8 << 20 {
            break;
        }
        let (live, resident) = (LIVE_BYTES.load(SeqCst), resident_bytes());
        let _ = beside(&runtime, attack);
        (kept, grown) = measure(live, resident);
    }
    assert!(kept < 64 << 10, "{kept} bytes were not given back");
    assert!(grown < 8 << 20, "the process is {grown} bytes larger");
    println!("{component}: {with} of {without} units of work; {kept} bytes kept, {grown} more resident");
}

#[test]
fn an_endless_loop_is_stopped() {
    #[budgeted]
    fn hash_forever() {
        let mut x = 1_u64;
        loop {
            x = std::hint::black_box(x.wrapping_mul(31).wrapping_add(7));
        }
    }
    is_contained(Component::Ops, Budget::ops(1_000_000), hash_forever);
}

#[test]
fn a_fork_bomb_of_nested_nurseries_is_stopped() {
    fn bomb() {
        let outcome = nursery_with(NurseryOptions::new().task_budget(Budget::UNLIMITED), |n| {
            n.spawn(bomb);
            n.spawn(bomb);
            Ok(())
        });
        if let Err(error) = outcome {
            std::panic::resume_unwind(Box::new(error)); // and hands its end on
        }
    }
    is_contained(Component::Spawns, Budget::ops(100_000_000).memory(256 * MIB).spawns(300), bomb);
}

#[test]
fn an_allocation_bomb_is_stopped() {
    #[budgeted]
    fn hoard() {
        let mut all = Vec::new();
        loop {
            all.push(vec![1_u8; 64 << 10]);
        }
    }
    is_contained(Component::Memory, Budget::ops(1_000_000).memory(16 * MIB), hoard);
}

#[test]
fn a_channel_flood_is_stopped() {
    fn flood() {
        let (tx, _rx) = unbounded();
        loop {
            tx.send([0_u64; 8]).expect("the receiver is there");
        }
    }
    is_contained(Component::ChannelOps, Budget::ops(10_000_000).memory(64 * MIB).channel_ops(100_000), flood);
}

#[test]
fn a_syscall_flood_is_stopped() {
    fn stat_forever() {
        loop {
            let _ = fs::metadata("/");
        }
    }
    is_contained(Component::Syscalls, Budget::ops(1_000_000).memory(MIB).syscalls(100), stat_forever);
}

#[test]
fn a_hostile_task_that_hides_behind_a_shield_or_catches_its_end_is_stopped() {
    #[budgeted]
    fn stubborn() {
        bursar::shield(|| {
            let caught = std::panic::catch_unwind(|| {
                loop {
                    bursar::checkpoint();
                }
            });
            std::panic::resume_unwind(caught.expect_err("it was stopped"))
        });
    }
    is_contained(Component::Ops, Budget::ops(100_000), stubborn);
}

/// Siblings inside the hostile nursery fall with it; no other task does.
#[test]
fn a_failure_stays_in_its_nursery() {
    let _alone = alone();
    let outcome = nursery_with(NurseryOptions::new().on_failure(OnFailure::WaitAll), |n| {
        let bad = n.spawn(|| {
            nursery_with(NurseryOptions::new().task_budget(Budget::ops(10)), |m| {
                m.spawn(|| {
                    loop {
                        bursar::checkpoint();
                    }
                });
                m.spawn(bursar::checkpoint);
                Ok(())
            })
        });
        let begun = Instant::now();
        assert!(bad.join()?.is_err());
        assert!(begun.elapsed() < Duration::from_secs(10));
        n.spawn(|| 1).join()
    });
    assert_eq!(outcome.unwrap(), 1);
}
