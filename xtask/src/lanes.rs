//! `cargo xtask test asan`, `tsan`, `depths`, `aarch64`, `load`: the tests again, under other conditions; and `bare`: decisions without a system below them.
//!
//! # Invariant
//! A lane that passed could have failed. It names what it skips, with the reason. If something it needs is missing, it fails and says how to get it.
//!
//! # Why it holds
//! Each sanitizer first gets a planted bug, and must report it. Tests are run by nextest, which fails if it finds none. Tests are left out by
//! name in the tables below, and every table is printed.

use std::env;
use std::fs;
use std::hint;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::steps::{Cargo, cargo, works};

/// Tests that a lane leaves out.
struct Skip {
    /// As nextest selects them.
    tests: &'static str,
    why: &'static str,
}

/// Tests with a lane of their own.
const DEPTHS: Skip = Skip {
    tests: "package(bursar-sched-tasks) & binary(depths)",
    why: "the room that operations ask for is measured for plain code; `cargo xtask test depths` is their lane",
};

/// For the sanitizers.
const OVERFLOWS_IN_MALLOC: Skip = Skip {
    tests: "test(an_overflow_inside_the_c_library_leaves_errno_as_it_was) \
            | test(an_overflow_inside_malloc_leaves_the_allocator_usable)",
    why: "`malloc` is the sanitizer's own, part of the program and not of the C library",
};

/// For the sanitizers.
const LARGE_FRAMES: Skip = Skip {
    tests: "test(a_frame_larger_than_the_guard_does_not_jump_it) | test(own_frame_is_too_large) | test(has_too_large_a_frame)",
    why: "the compiler writes no stack probes for a sanitizer, so a large frame does jump the guard",
};

/// For the sanitizers.
const MEASURES_MEMORY: Skip = Skip {
    tests: "package(bursar-mech-fiber) & test(/^memory::/) | package(bursar) & binary(memory) \
            | test(ten_thousand_cancels_leak_nothing) | test(ten_thousand_seeds_leave_nothing_behind) \
            | test(ten_thousand_restarts_do_not_grow_memory) | test(two_hundred_runtimes_leave_nothing_behind) \
            | test(ten_thousand_cancelled_nurseries_give_their_memory_back) \
            | test(a_burst_of_blocked_fibers_gives_its_stacks_and_memory_back)",
    why: "they measure memory, and the sanitizer keeps what was freed, and more for each stack",
};

const HOST: &str = "x86_64-unknown-linux-gnu";

// ---- AddressSanitizer ----

/// Without its leak checker: it would report memory that only the stack of a waiting fiber points to, and slabs, which live for ever on purpose. Without its handler of
/// faults: ours is what is tested.
const ASAN_OPTIONS: &str = "detect_leaks=0:handle_segv=0:handle_abort=0:use_sigaltstack=0";

const ASAN_SKIPS: &[Skip] = &[
    MEASURES_MEMORY,
    DEPTHS,
    Skip {
        tests: "package(bursar) & binary(hostile)",
        why: "they measure how much others get done beside an attacker",
    },
    OVERFLOWS_IN_MALLOC,
    LARGE_FRAMES,
    Skip {
        tests: "test(a_fiber_at_its_end_unwinds_on_half_of_its_guard_and_gives_it_back) \
                | test(a_recursion_that_asks_the_runtime_for_something_unwinds_in_good_time) \
                | test(an_actor_that_runs_out_of_stack_at_a_checkpoint_is_a_failure_like_any_other)",
        why: "instrumented frames are several times as large: unwinding needs more than the room kept for it",
    },
];

/// Memory errors, on the fibers' stacks too: corosensei reports every switch to the sanitizer.
pub(crate) fn asan() -> Result<(), String> {
    let lane = Lane {
        folder: "asan",
        feature: Some("asan"),
        skips: ASAN_SKIPS,
        setup: |cargo| {
            let flags = "-Zsanitizer=address";
            cargo.flags("RUSTFLAGS", flags).env("RUSTC_BOOTSTRAP", "1").args(&["--target", HOST])
        },
    };
    only_on_this_host()?;
    needs_nextest()?;
    lane.report_skips();
    lane.must_report("a_use_after_free_on_a_fiber", "AddressSanitizer: heap-use-after-free", ASAN_OPTIONS)?;
    // Its own tests compare addresses of locals with the stack: those have to be there.
    let options = format!("{ASAN_OPTIONS}:detect_stack_use_after_return=0");
    lane.tests(&["mech-fiber"]).env("ASAN_OPTIONS", &options).run()?;
    let options = format!("{ASAN_OPTIONS}:detect_stack_use_after_return=1");
    lane.tests(&["mech-sync", "policy-admission", "sched-tasks", "sched-actors", "bursar"])
        .env("ASAN_OPTIONS", &options)
        .run()
}

// ---- ThreadSanitizer ----

const TSAN_OPTIONS: &str = "handle_segv=0:handle_abort=0:use_sigaltstack=0:second_deadlock_stack=1";

const TSAN_SKIPS: &[Skip] = &[
    MEASURES_MEMORY,
    OVERFLOWS_IN_MALLOC,
    DEPTHS,
    Skip {
        tests: "test(a_signal_every_millisecond_disturbs_no_switch)",
        why: "the sanitizer keeps signals back until the program calls the C library",
    },
    LARGE_FRAMES,
];

/// In the crate that switches, entries and exits of functions would be counted for the wrong stack: see `tsan.rs`.
const UNCOUNTED: &str =
    "profile.dev.package.bursar-mech-fiber.rustflags=['-Cllvm-args=-tsan-instrument-func-entry-exit=0']";

/// Data races, with the library instrumented too and every switch reported.
pub(crate) fn tsan() -> Result<(), String> {
    let lane = Lane {
        folder: "tsan",
        feature: Some("tsan"),
        skips: TSAN_SKIPS,
        setup: |cargo| {
            let runtime = tsan_runtime().unwrap_or_default();
            let flags = format!(
                "-Zsanitizer=thread -Zexternal-clangrt \
                 -Zpre-link-arg=-Wl,--whole-archive,{},--no-whole-archive -Clink-arg=-lm",
                runtime.display()
            );
            with_library_source(cargo)
                .flags("RUSTFLAGS", &flags)
                .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
                // With some random address layouts the runtime finds no room for its shadow memory.
                .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", "setarch x86_64 -R")
                .args(&["-Z", "profile-rustflags", "--config", UNCOUNTED, "--target", HOST])
        },
    };
    only_on_this_host()?;
    needs_nextest()?;
    needs(&LIBRARY_SOURCE)?;
    tsan_runtime()?;
    lane.report_skips();
    lane.must_report("a_race_of_two_fibers", "ThreadSanitizer: data race", TSAN_OPTIONS)?;
    lane.tests(&["mech-fiber", "mech-sync", "policy-admission", "sched-tasks", "sched-actors"])
        .env("TSAN_OPTIONS", TSAN_OPTIONS)
        .run()
}

/// Debian's compiler comes with the library's source, but without the sanitizers; rustup's is the other way round.
fn tsan_runtime() -> Result<PathBuf, String> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output();
    let sysroot = output.map_err(|error| format!("cannot start rustc: {error}"))?.stdout;
    let folder = Path::new(String::from_utf8_lossy(&sysroot).trim()).join("lib/rustlib").join(HOST).join("lib");
    let files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    files
        .filter_map(Result::ok)
        .map(|file| file.path())
        .find(|path| path.to_string_lossy().ends_with("_rt.tsan.a"))
        .ok_or_else(|| format!("{} has no `librustc-*_rt.tsan.a`; use rustup's toolchain", folder.display()))
}

// ---- little stack ----

/// Every public operation at every depth of a stack: it works or its task unwinds, and the runtime works afterwards.
pub(crate) fn depths() -> Result<(), String> {
    for profile in ["dev", "release"] {
        let test = ["test", "--profile", profile, "-p", "bursar-sched-tasks", "--test", "depths"];
        Cargo::new(&test).env("DEPTHS_STEP", "64").run_tests()?;
    }
    Ok(())
}

// ---- another processor ----

const AARCH64_SKIPS: &[Skip] = &[
    DEPTHS,
    Skip {
        tests: "test(an_overflow_inside_malloc_leaves_the_allocator_usable)",
        why: "this processor cannot step through the C library: such an overflow ends the process, and says why",
    },
    Skip {
        tests: "package(bursar-mech-fiber) & test(/^memory::/) \
                | package(bursar-mech-sync) & (test(a_mark_is_passed_only_by_all_that_stood_before_it) \
                | test(every_value_passes_the_ring_once_and_in_order) | test(every_item_of_a_million_is_taken_once))",
        why: "millions of operations and a hundred thousand stacks take an emulator too long",
    },
    Skip {
        tests: "test(a_burst_of_blocked_fibers_gives_its_stacks_and_memory_back) \
                | test(two_hundred_runtimes_leave_nothing_behind)",
        why: "they measure memory, and the emulator keeps its own beside: what it translated, and what it knows of each mapping",
    },
];

/// Switches, guards, overflows and wakes on the other processor we know, emulated. Its weaker memory ordering is not emulated: the emulator keeps that of this machine.
pub(crate) fn aarch64() -> Result<(), String> {
    let packages = ["mech-fiber", "mech-sync", "sched-tasks", "sched-actors"];
    let lane = |setup| Lane { folder: "aarch64", feature: None, skips: AARCH64_SKIPS, setup };
    needs_nextest()?;
    needs(&LIBRARY_SOURCE)?;
    needs(&AARCH64_TOOLS)?;
    let all = lane(|cargo| on_aarch64(cargo, "qemu-aarch64 -L /usr/aarch64-linux-gnu"));
    all.report_skips();
    let version = emulator_version()?;
    if version >= EMULATOR_OF_MANY_ADDRESSES {
        return all.tests(&packages).run();
    }
    println!(
        "the emulator is version {version}: this takes an hour; with version {EMULATOR_OF_MANY_ADDRESSES}, as in Debian's backports, ten minutes"
    );
    let few = lane(|cargo| on_aarch64(cargo, "qemu-aarch64 -L /usr/aarch64-linux-gnu -R 0x1000000000"));
    few.tests_but(&packages, MANY_ADDRESSES).run()?;
    all.nextest(&packages).args(&["--no-fail-fast", "--status-level", "fail", "-E", MANY_ADDRESSES]).run()
}

/// Its first version that keeps nothing for the pages of a mapping.
const EMULATOR_OF_MANY_ADDRESSES: u32 = 8;

/// The first number of `qemu-aarch64 version 7.2.22 (Debian …)`.
fn emulator_version() -> Result<u32, String> {
    let output = Command::new("qemu-aarch64").arg("--version").output();
    let said = output.map_err(|error| format!("cannot start qemu-aarch64: {error}"))?.stdout;
    let said = String::from_utf8_lossy(&said);
    let number = said.split_whitespace().nth(2).and_then(|version| version.split('.').next());
    number
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| format!("qemu-aarch64 does not say its version: {said:?}"))
}

/// Tests that need more addresses than the others get with an old emulator: that keeps some bytes for each page of a mapping, used or not, and the stacks of a million fibers are 64 million
/// pages. A runtime that gets fewer addresses takes fewer stacks; each of these tests then takes a second instead of ten, and those below fail.
const MANY_ADDRESSES: &str = "test(a_stolen_half_of_a_join_has_as_much_stack_as_its_task) | test(a_task_gets_the_stack_it_asks_for) \
    | test(captures_and_results_larger_than_a_stack_are_counted_like_any_other)";

fn on_aarch64(cargo: Cargo, runner: &str) -> Cargo {
    with_library_source(cargo)
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc")
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner)
        // For tests that start themselves again, and for those that compile a library.
        .env("BURSAR_TEST_RUNNER", runner)
        .env("BURSAR_TEST_CC", "aarch64-linux-gnu-gcc")
        // The emulator translates what the compiler wrote: a third of it.
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
        .args(&["--target", "aarch64-unknown-linux-gnu"])
}

// ---- no system ----

/// Crates that are built without `std`: values and decisions.
const BARE: &[&str] = &["vocab", "policy-cpu", "policy-flow", "policy-jobs"];

/// A crate that uses `std`, and otherwise only what these use.
const NOT_BARE: &str = "policy-admission";

/// Decisions for machines without a system: they cannot use a thread, clock or lock, since there is none. One target has words of 64 bits, one of 32.
pub(crate) fn bare() -> Result<(), String> {
    needs(&LIBRARY_SOURCE)?;
    for target in ["x86_64-unknown-none", "thumbv7em-none-eabi"] {
        let build = |packages: &[&str]| {
            with_compiler_of_source(Cargo::with("/usr/bin/cargo".into(), &["build", "--lib"]))
                .args(&["-Z", "build-std=core,alloc", "--target", target])
                .target("bare")
                .packages(packages)
        };
        let (output, report) = (build(&[NOT_BARE]).output()?, "can't find crate for `std`");
        if !output.contains(report) {
            println!("{output}");
            return Err(format!("`{NOT_BARE}` uses `std` and was built for {target}: this lane would find nothing"));
        }
        println!("planted: `{NOT_BARE}`, which uses `std`, is not built for {target}, as it must be");
        build(BARE).run()?;
    }
    Ok(())
}

// ---- load ----

/// The tests that wait for something to happen, beside as many busy loops as there are CPUs.
pub(crate) fn load() -> Result<(), String> {
    const ROUNDS: u32 = 5;
    const PACKAGES: [&str; 10] = [
        "mech-fiber",
        "mech-sync",
        "policy-flow",
        "policy-jobs",
        "policy-admission",
        "sched-tasks",
        "sched-actors",
        "sched-flow",
        "sched-jobs",
        "bursar",
    ];
    needs_nextest()?;
    let tests = |more: &[&str]| {
        Cargo::new(&["nextest", "run", "--profile", "load", "--no-tests", "fail"]).packages(&PACKAGES).args(more)
    };
    tests(&["--no-run"]).run()?;
    let busy = Busy::start()?;
    let mut failed = Vec::new();
    for round in 1..=ROUNDS {
        println!("\n-- round {round} of {ROUNDS}, beside {} busy loops", busy.threads);
        let started = Instant::now();
        if tests(&["--no-fail-fast", "--status-level", "fail", "--final-status-level", "fail"]).run().is_err() {
            failed.push(round.to_string());
        }
        println!("-- round {round}: {:.0} s", started.elapsed().as_secs_f64());
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("tests failed in rounds {} of {ROUNDS}: see above", failed.join(", "))),
    }
}

/// A process that keeps every CPU busy, until it is dropped.
struct Busy {
    child: Child,
    threads: usize,
}

impl Busy {
    fn start() -> Result<Self, String> {
        let me = env::current_exe().map_err(|error| format!("the path of xtask: {error}"))?;
        let mut command = Command::new(me);
        command.arg(BUSY).stdin(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("cannot start busy loops: {error}"))?;
        Ok(Self { child, threads: cpus() })
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        drop(self.child.stdin.take()); // it ends at the end of its input, also if we are killed
        let _ = self.child.wait();
    }
}

/// The hidden command of the process that keeps the CPUs busy.
pub(crate) const BUSY: &str = "busy-loops";

/// Busy loops until standard input ends, and for an hour at most.
pub(crate) fn busy_loops() -> ! {
    for _ in 0..cpus() {
        thread::spawn(|| {
            let turns = AtomicU64::new(0);
            loop {
                hint::black_box(turns.fetch_add(1, Ordering::Relaxed));
            }
        });
    }
    thread::spawn(|| {
        thread::sleep(Duration::from_secs(3600));
        process::exit(1);
    });
    let _ = io::stdin().read_to_end(&mut Vec::new());
    process::exit(0)
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

// ---- what lanes have in common ----

/// A way to build and run tests.
struct Lane {
    /// Of the target folder.
    folder: &'static str,
    /// Of `mech-fiber`.
    feature: Option<&'static str>,
    skips: &'static [Skip],
    setup: fn(Cargo) -> Cargo,
}

impl Lane {
    fn report_skips(&self) {
        for Skip { tests, why } in self.skips {
            println!("left out: {}\n   since {why}", tests.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }

    /// Everything of these packages that is not left out.
    fn tests(&self, packages: &[&str]) -> Cargo {
        self.tests_but(packages, "none()")
    }

    /// The same without these tests, which are run another way.
    fn tests_but(&self, packages: &[&str], elsewhere: &str) -> Cargo {
        let left_out = self.skips.iter().map(|skip| skip.tests).chain((elsewhere != "none()").then_some(elsewhere));
        let left_out: Vec<_> = left_out.map(|tests| format!("({tests})")).collect();
        let chosen = match left_out.is_empty() {
            true => "all()".to_owned(),
            false => format!("not ({})", left_out.join(" | ")),
        };
        self.nextest(packages).args(&["--no-fail-fast", "--status-level", "fail", "-E", &chosen])
    }

    fn nextest(&self, packages: &[&str]) -> Cargo {
        let run = ["nextest", "run", "--profile", "lanes", "--no-tests", "fail"];
        // Not through cargo, which would set itself as the cargo to build with.
        let mut cargo = (self.setup)(Cargo::with("cargo-nextest".into(), &run));
        if let Some(feature) = self.feature {
            // Cargo knows it by its package if that is tested, else by what those that use it call it.
            let owner = if packages.contains(&"mech-fiber") { "bursar-mech-fiber" } else { "mech-fiber" };
            cargo = cargo.args(&["--features", &format!("{owner}/{feature}")]);
        }
        cargo
            .env("BURSAR_TEST_SLOWDOWN", "10")
            .env("CARGO_INCREMENTAL", "0") // a third of the room on the disk
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .target(self.folder)
            .packages(packages)
    }

    /// A bug put into a test of `mech-fiber` on purpose is reported.
    fn must_report(&self, planted: &str, report: &str, options: &str) -> Result<(), String> {
        let name = format!("test({planted})");
        let output = self
            .nextest(&["mech-fiber"])
            .args(&["--run-ignored", "only", "-E", &name])
            .env("ASAN_OPTIONS", options)
            .env("TSAN_OPTIONS", options)
            .output()?;
        if output.contains(report) {
            println!("planted: `{planted}` is reported, as it must be");
            return Ok(());
        }
        println!("{output}");
        Err(format!("the bug planted in `{planted}` was not reported as `{report}`: this lane would find nothing"))
    }
}

/// Programs that have to be on the machine, and the packages of Debian that have them.
pub(crate) struct Tools {
    pub(crate) what: &'static str,
    pub(crate) files: &'static [&'static str],
    pub(crate) packages: &'static [&'static str],
}

impl Tools {
    fn install(&self) -> String {
        format!("apt-get install --no-install-recommends {}", self.packages.join(" "))
    }

    fn unavailable(&self, missing: &[&str]) -> String {
        format!(
            "this lane needs {}, and {} is missing; on Debian, as root: `apt-get update && {}`",
            self.what,
            missing.join(" and "),
            self.install()
        )
    }
}

const LIBRARY_SOURCE: Tools = Tools {
    what: "a compiler with the source of the standard library, to build that for this lane",
    files: &["/usr/bin/rustc", "/usr/bin/cargo", "/usr/lib/rustlib/src/rust/library/std/Cargo.toml"],
    packages: &["rustc-web", "cargo-web", "rust-web-src"],
};

const AARCH64_TOOLS: Tools = Tools {
    what: "a linker, a C library and an emulator for aarch64",
    files: &["/usr/bin/aarch64-linux-gnu-gcc", "/usr/aarch64-linux-gnu/lib/libc.so.6", "/usr/bin/qemu-aarch64"],
    packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user"],
};

/// With Debian's compiler, and the library built with the same flags as the program.
fn with_library_source(cargo: Cargo) -> Cargo {
    with_compiler_of_source(cargo).args(&["-Z", "build-std"])
}

/// With Debian's compiler, which knows where the library's source is.
fn with_compiler_of_source(cargo: Cargo) -> Cargo {
    cargo
        .env("CARGO", "/usr/bin/cargo")
        .env("RUSTC", "/usr/bin/rustc")
        .env("RUSTC_BOOTSTRAP", "1")
        .env("LD_LIBRARY_PATH", "") // rustup's, for its own compiler
}

/// Installs what is missing, if we may.
pub(crate) fn needs(tools: &Tools) -> Result<(), String> {
    let missing = || tools.files.iter().filter(|file| !Path::new(file).exists()).copied().collect::<Vec<_>>();
    if missing().is_empty() {
        return Ok(());
    }
    let install = tools.install();
    let root = fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    if root && Path::new("/usr/bin/apt-get").exists() {
        println!("{} is missing ({}); installing: {install}", tools.what, missing().join(" "));
        let apt = |args: &[&str]| {
            let mut command = Command::new("apt-get");
            command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null()).status()
        };
        let _ = apt(&["update", "-q"]); // an older list may do
        let _ = apt(&[&["install", "-q", "-y", "--no-install-recommends"], tools.packages].concat());
    }
    match missing()[..] {
        [] => Ok(()),
        ref missing => Err(tools.unavailable(missing)),
    }
}

fn needs_nextest() -> Result<(), String> {
    match works(&["nextest", "--version"]) {
        true => Ok(()),
        false => Err(format!(
            "cargo-nextest is missing: a test that crashes must not take the others along; install it: `{} install cargo-nextest --locked`",
            cargo().to_string_lossy()
        )),
    }
}

fn only_on_this_host() -> Result<(), String> {
    match cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")) {
        true => Ok(()),
        false => Err(format!("this lane is for {HOST}; run it there")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_built_bare_if_it_opens_with_no_std_and_only_then() {
        let entries = fs::read_dir(crate::root().join("crates")).expect("there are crates");
        let mut found = Vec::new();
        for entry in entries.map(|entry| entry.expect("it is a folder")) {
            let text = fs::read_to_string(entry.path().join("src/lib.rs")).unwrap_or_default();
            if text.lines().any(|line| line.starts_with("#![") && line.contains("no_std")) {
                found.push(entry.file_name().into_string().expect("names are plain"));
            }
        }
        found.sort();
        let mut bare = BARE.to_vec();
        bare.sort_unstable();
        assert_eq!(found, bare, "BARE names what `cargo xtask test bare` builds");
    }

    #[test]
    fn what_is_left_out_is_not_chosen() {
        const SKIPS: &[Skip] = &[Skip { tests: "test(a) | test(b)", why: "" }, Skip { tests: "test(c)", why: "" }];
        let lane = Lane { folder: "lane", feature: None, skips: SKIPS, setup: |cargo| cargo };
        let shown = lane.tests(&["p"]).shown();
        assert!(shown.ends_with("-E 'not ((test(a) | test(b)) | (test(c)))'"), "{shown}");
        let lane = Lane { skips: &[], ..lane };
        assert!(lane.tests(&["p"]).shown().ends_with("-E 'all()'"));
    }

    #[test]
    fn what_is_missing_is_named_with_the_way_to_get_it() {
        let error = AARCH64_TOOLS.unavailable(&["/usr/bin/qemu-aarch64"]);
        for part in ["an emulator", "/usr/bin/qemu-aarch64 is missing", "apt-get install", "qemu-user"] {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    }

    #[test]
    fn what_is_there_needs_no_package() {
        assert_eq!(needs(&Tools { what: "", files: &["/"], packages: &[] }), Ok(()));
    }
}
