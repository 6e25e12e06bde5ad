//! C programs, compiled with the system's compiler against the archive and the shared library, and run; also under AddressSanitizer, where the compiler has it.
//!
//! Room: tests.
//!
//! # Invariant
//! Every program in `tests/c/` is compiled and run by a test here, or the test that looks for it fails.

use std::{fs, path::Path, process::Command};

use crate::cc::{Way, compile, compiler, has_sanitizer, root, text};

/// Compiles `tests/c/<file>` in every way, and runs it.
fn runs(file: &str, arguments: &[&str]) {
    let source = root().join("tests/c").join(file);
    for way in [Way::Archive, Way::Shared, Way::Sanitized] {
        if way == Way::Sanitized && !has_sanitizer() {
            continue;
        }
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{file}.{way:?}"));
        let compiled = compile(&source, way, &program);
        assert!(compiled.status.success(), "{file} does not compile ({way:?}):\n{}", text(&compiled.stderr));
        let mut program = Command::new(&program);
        // Leaks are not looked for: memory of fibers' stacks is not searched, and slabs of stacks are kept for ever.
        program.args(arguments).env("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0");
        let ran = program.output().expect("it was just compiled");
        let said = text(&ran.stderr);
        assert!(ran.status.success(), "{file} ({way:?}) ended with {}:\n{said}{}", ran.status, text(&ran.stdout));
        assert!(!said.contains("ERROR: AddressSanitizer"), "{file} ({way:?}):\n{said}");
    }
}

macro_rules! programs {
    ($($name:ident: $file:literal $($argument:literal)*;)+) => {
        const PROGRAMS: &[&str] = &[$($file),+];
        $(
            #[test]
            fn $name() {
                runs($file, &[$($argument),*]);
            }
        )+
    };
}

programs! {
    the_first_program_of_the_guide_runs: "hello.c";
    each_verdict_of_a_nursery_has_its_code: "verdicts.c";
    channels_are_full_empty_closed_and_in_order: "channels.c";
    a_select_receives_sends_times_out_and_falls_back: "select.c";
    budgets_are_spent_recharged_and_supervised: "budgets.c";
    tokens_and_nurseries_cancel_all_that_is_inside: "cancellation.c";
    several_runtimes_live_in_one_process: "runtimes.c";
    whatever_is_misused_gets_a_code: "misuse.c";
    four_threads_do_all_of_it_at_once: "four_threads.c" "20";
    many_wait_for_one_task_and_very_many_are_not_waited_for: "awaits.c";
    what_went_wrong_is_said_in_words_of_c: "words.c";
    arguments_may_be_literals_with_commas: "literals.c";
    reserves_are_inside_each_other_and_pools_say_who_may_spawn: "reserves.c";
    a_fork_refuses_what_is_the_parents_and_starts_its_own: "forks.c";
    a_thread_that_ends_waits_for_the_tasks_of_its_nurseries: "threads_end.c";
    tasks_have_large_stacks_names_and_threads: "stacks.c";
    the_header_serves_cpp: "from_cpp.cpp";
    the_measurement_runs: "speed.c" "3";
}

#[test]
fn a_task_that_returns_int_does_not_compile() {
    let source = root().join("tests/c/returns_int.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("returns_int");
    let mut compiler = compiler(&source);
    let compiled =
        compiler.arg("-I").arg(root().join("include")).arg("-c").arg(&source).arg("-o").arg(&program).output();
    let compiled = compiled.expect("there is a C compiler: cc");
    assert!(!compiled.status.success(), "it compiles without any warning flag");
    assert!(text(&compiled.stderr).contains("_Generic"), "{}", text(&compiled.stderr));
}

#[test]
fn the_sanitizer_would_find_a_bug_in_a_task() {
    if !has_sanitizer() {
        return eprintln!("there is no sanitizer to be tested");
    }
    let source = root().join("tests/c/planted.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planted");
    let compiled = compile(&source, Way::Sanitized, &program);
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    let ran = Command::new(&program).env("ASAN_OPTIONS", "detect_leaks=0").output().expect("it was just compiled");
    assert!(text(&ran.stderr).contains("heap-use-after-free"), "{}", text(&ran.stderr));
}

#[test]
fn what_is_kept_for_ever_does_not_grow_with_use() {
    if !has_sanitizer() {
        return eprintln!("there is no sanitizer to count what is kept");
    }
    let source = root().join("tests/c/four_threads.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("leaks");
    assert!(compile(&source, Way::Sanitized, &program).status.success());
    let kept_bytes = |rounds: &str| -> u64 {
        let ran = Command::new(&program).arg(rounds).env("ASAN_OPTIONS", "detect_leaks=1").output();
        let said = text(&ran.expect("it was just compiled").stderr);
        let summary = said.lines().find_map(|line| line.strip_prefix("SUMMARY: AddressSanitizer: "));
        summary.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no summary:\n{said}"))
    };
    // A runtime that was shut down leaves its queues behind: late wakes may still look at them.
    let (few, many) = (kept_bytes("1"), kept_bytes("60"));
    assert!(many < few + 4096, "{few} bytes are kept after one round, {many} after sixty");
}

#[test]
fn every_program_is_run() {
    let apart = ["returns_int.c", "planted.c"];
    for file in fs::read_dir(root().join("tests/c")).expect("there are programs") {
        let name = file.expect("it can be listed").file_name().into_string().expect("names are texts");
        let is_known = PROGRAMS.contains(&&*name) || apart.contains(&&*name) || name.ends_with(".h");
        assert!(is_known, "tests/c/{name} is not run by any test");
    }
}
