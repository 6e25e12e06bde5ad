//! C programs, compiled with the system's compiler against the archive and the shared library, and run; also under AddressSanitizer, where the compiler has it.
//!
//! # Invariant
//! Every program in `tests/c/` is compiled and run by a test here, or the test that looks for it fails.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
};

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

/// What rustc says an archive needs besides.
const NATIVE: [&str; 6] = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];

/// How a program is linked and watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Archive,
    Shared,
    Sanitized,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The archive and the shared library, as cargo says where they are.
fn libraries() -> &'static [PathBuf] {
    static BUILT: OnceLock<Vec<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "-p", "bursar-surface-capi", "--lib", "--message-format=json"]).current_dir(root());
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        let built = cargo.output().expect("cargo can be started");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let messages = String::from_utf8(built.stdout).expect("messages are texts");
        let of_ours = messages
            .lines()
            .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
            .filter(|message| message["reason"] == "compiler-artifact" && message["target"]["name"] == "janus");
        let files = of_ours.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
        let files = files.filter_map(|file| file.as_str().map(PathBuf::from));
        files.filter(|file| file.extension().is_some_and(|kind| kind == "a" || kind == "so")).collect()
    })
}

fn library(kind: &str) -> &'static Path {
    let found = libraries().iter().find(|file| file.extension().is_some_and(|found| found == kind));
    found.unwrap_or_else(|| panic!("cargo built no .{kind}: {:?}", libraries()))
}

fn compiler(source: &Path) -> Command {
    if source.extension().is_some_and(|kind| kind == "cpp") {
        let mut compiler = Command::new("c++");
        compiler.arg("-std=c++17");
        return compiler;
    }
    let mut compiler = Command::new("cc");
    compiler.arg("-std=c11");
    compiler
}

fn compile(source: &Path, way: Way, program: &Path) -> Output {
    let mut compiler = compiler(source);
    compiler.args(WARNINGS).args(["-g", "-O1", "-I"]).arg(root().join("include"));
    if way == Way::Sanitized {
        compiler.args(["-fsanitize=address", "-fno-omit-frame-pointer"]);
    }
    compiler.arg(source).arg("-o").arg(program);
    match way {
        Way::Archive | Way::Sanitized => compiler.arg(library("a")),
        Way::Shared => {
            let folder = library("so").parent().expect("a file is in a folder");
            compiler.arg(library("so")).arg(format!("-Wl,-rpath,{}", folder.display()))
        }
    };
    compiler.args(NATIVE).output().expect("there is a C compiler: cc")
}

/// Whether programs can be built and run with AddressSanitizer here. Else it is said why not, once.
fn has_sanitizer() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, program) = (folder.join("asan.c"), folder.join("asan"));
        fs::write(&source, "int main(void) { return 0; }\n").expect("a file can be written");
        let built = Command::new("cc").arg("-fsanitize=address").arg(&source).arg("-o").arg(&program).status();
        let runs =
            built.is_ok_and(|built| built.success()) && Command::new(&program).status().is_ok_and(|ran| ran.success());
        if !runs {
            eprintln!("AddressSanitizer is not here: the C programs are run without it");
        }
        runs
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

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
fn every_program_is_run() {
    let apart = ["returns_int.c", "planted.c"];
    for file in fs::read_dir(root().join("tests/c")).expect("there are programs") {
        let name = file.expect("it can be listed").file_name().into_string().expect("names are texts");
        let is_known = PROGRAMS.contains(&&*name) || apart.contains(&&*name) || name.ends_with(".h");
        assert!(is_known, "tests/c/{name} is not run by any test");
    }
}
