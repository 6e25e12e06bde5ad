//! `cargo xtask test`: named steps, cheapest first, each of which can be repeated alone.
//!
//! # Invariant
//! A step that passed has tested something.
//!
//! # Why it holds
//! Tests are counted, and a step that should run tests and ran none fails:
//! a renamed file or a forgotten `cfg` must not look like success.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use crate::packages::package_of;
use crate::{cluster, dist_lane, lanes, root, target_dir, tidy};

/// Something that must hold.
pub(crate) struct Step {
    /// What `cargo xtask test NAME` calls it.
    pub(crate) name: &'static str,
    /// One line for `--help`.
    pub(crate) about: &'static str,
    run: fn() -> Result<(), String>,
}

/// Every step, cheapest first: a wrong indent should not take ten minutes to show.
pub(crate) const ALL: &[Step] = &[
    Step { name: "tidy", about: "the rules of `cargo xtask tidy`", run: tidy_step },
    Step { name: "fmt", about: "formatting", run: fmt },
    Step { name: "clippy", about: "lints, of tests and examples too; a warning fails", run: clippy },
    Step { name: "tests", about: "unit and integration tests", run: tests },
    Step { name: "doctests", about: "the examples in the documentation", run: doctests },
    Step { name: "loom", about: "every interleaving of the lock-free parts", run: loom },
    Step { name: "planted", about: "bugs put in on purpose, each of which must fail its model", run: planted },
    Step { name: "docs", about: "the documentation builds; a broken link fails", run: docs },
    Step { name: "compare", about: "the comparison harness: lints and its tests", run: compare },
];

/// Steps that take minutes each, for changes to what they test. They run only when named.
pub(crate) const LONG: &[Step] = &[
    Step {
        name: "kills",
        about: "runs killed with -9 at fifty moments and resumed; their keepers stopped or killed at fifty more",
        run: kills,
    },
    Step {
        name: "faults",
        about: "runs in which the n-th write, fsync, fork, send… fails, for every n, resumed; needs a C compiler",
        run: faults,
    },
    Step {
        name: "cluster",
        about: "jobs on a real Slurm cluster of three nodes on this machine, and flows over a real NATS server, with kills; as root it installs them",
        run: cluster::lane::test,
    },
    Step {
        name: "histories",
        about: "many more random histories of jobs, on the decisions and on threads",
        run: histories,
    },
    Step {
        name: "features",
        about: "the library with none of its features, and with each alone: builds, lints, tests, and what it pulls in",
        run: features,
    },
    Step {
        name: "package",
        about: "every package as it would be published, built from what would be uploaded",
        run: package,
    },
    Step {
        name: "dist",
        about: "the tarball and the package of `cargo xtask dist`, each installed into an empty root and run there",
        run: dist_lane::check,
    },
    Step { name: "soak", about: "half an hour of flow under load, or SOAK_MINUTES: memory does not grow", run: soak },
    Step {
        name: "fuzz",
        about: "ten minutes each of hostile job files, flow files, Janus programs and QTJIR, or FUZZ_SECONDS; needs `cargo install cargo-fuzz`",
        run: fuzz,
    },
    Step {
        name: "asan",
        about: "memory errors: the tests of tasks and fibers under AddressSanitizer",
        run: lanes::asan,
    },
    Step {
        name: "tsan",
        about: "data races: the same under ThreadSanitizer; needs Debian's rustc-web, as root it installs it",
        run: lanes::tsan,
    },
    Step {
        name: "aarch64",
        about: "fibers and tasks on an emulated aarch64; needs rustc-web and qemu-user, as root it installs them",
        run: lanes::aarch64,
    },
    Step {
        name: "bare",
        about: "values and decisions for machines without a system; needs rustc-web, as root it installs it",
        run: lanes::bare,
    },
    Step {
        name: "depths",
        about: "every public operation with ever less stack left, in steps of 64 bytes, unoptimised and optimised",
        run: lanes::depths,
    },
    Step {
        name: "load",
        about: "the tests that depend on time, five times, beside a busy loop for each CPU",
        run: lanes::load,
    },
];

/// The steps of these names, or all but the long ones.
pub(crate) fn choose(names: &[String]) -> Result<Vec<&'static Step>, String> {
    if names.is_empty() {
        return Ok(ALL.iter().collect());
    }
    let find = |name: &String| {
        ALL.iter().chain(LONG).find(|step| step.name == name).ok_or_else(|| {
            let known: Vec<_> = ALL.iter().chain(LONG).map(|step| step.name).collect();
            format!("no step is called `{name}`; there are: {}", known.join(" "))
        })
    };
    names.iter().map(find).collect()
}

/// Runs the steps until one fails.
pub(crate) fn run(steps: &[&Step]) -> ExitCode {
    let mut times: Vec<(&str, Duration)> = Vec::new();
    for step in steps {
        println!("\n== {}: {}", step.name, step.about);
        let started = Instant::now();
        let outcome = (step.run)();
        let took = started.elapsed();
        if let Err(message) = outcome {
            let left = steps.len() - times.len() - 1;
            println!("\n{} FAILED after {:.1} s: {message}", step.name, took.as_secs_f64());
            println!("repeat it: cargo xtask test {}", step.name);
            println!("steps: {} passed, 1 failed, {left} not run", times.len());
            return ExitCode::FAILURE;
        }
        times.push((step.name, took));
    }
    println!();
    for (name, took) in &times {
        println!("{name:<10} {:>7.1} s", took.as_secs_f64());
    }
    println!("steps: {} passed, 0 failed", times.len());
    ExitCode::SUCCESS
}

fn tidy_step() -> Result<(), String> {
    println!("{}", tidy::check(&root())?);
    Ok(())
}

fn fmt() -> Result<(), String> {
    component("fmt", "rustfmt")?;
    Cargo::new(&["fmt", "--all", "--check"]).run()?;
    Cargo::new(&["fmt", "--check", "--manifest-path", "compare/Cargo.toml"]).run()
}

fn clippy() -> Result<(), String> {
    component("clippy", "clippy")?;
    Cargo::new(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]).run()
}

fn tests() -> Result<(), String> {
    if works(&["nextest", "--version"]) {
        // A process for each test: a stack overflow in one does not end the others.
        return Cargo::new(&["nextest", "run", "--workspace", "--no-tests", "fail"]).run();
    }
    println!("cargo-nextest is not installed; using `cargo test`");
    Cargo::new(&["test", "--workspace", "--all-targets"]).run_tests()
}

fn doctests() -> Result<(), String> {
    Cargo::new(&["test", "--workspace", "--doc"]).run_tests()
}

fn loom() -> Result<(), String> {
    let crates = crates_with("tests/loom/main.rs")?;
    if crates.is_empty() {
        return Err("no crate has a `tests/loom/main.rs`".to_owned());
    }
    Cargo::new(&["test", "--release", "--test", "loom"])
        .flags("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", "2")
        .target("loom")
        .packages(&crates)
        .run_tests()
}

fn planted() -> Result<(), String> {
    let crates = crates_with("tests/planted.rs")?;
    let without: Vec<_> =
        crates_with("tests/loom/main.rs")?.into_iter().filter(|name| !crates.contains(name)).collect();
    if !without.is_empty() {
        return Err(format!(
            "models that were never seen to fail, without a `tests/planted.rs`: {}",
            without.join(" ")
        ));
    }
    Cargo::new(&["test", "--test", "planted"]).packages(&crates).args(&["--", "--ignored"]).run_tests()
}

fn docs() -> Result<(), String> {
    // Libraries only: the command is called `bursar` as the facade is, and the pages of one
    // would overwrite the other's.
    Cargo::new(&["doc", "--workspace", "--no-deps", "--lib"]).flags("RUSTDOCFLAGS", "-D warnings").run()
}

fn compare() -> Result<(), String> {
    component("clippy", "clippy")?;
    let manifest = ["--manifest-path", "compare/Cargo.toml"];
    Cargo::new(&["clippy", "--all-targets"]).args(&manifest).target("compare").args(&["--", "-D", "warnings"]).run()?;
    Cargo::new(&["test"]).args(&manifest).target("compare").run_tests()
}

fn kills() -> Result<(), String> {
    let tests = ["--test", "it", "--", "--ignored", "--nocapture", "fifty"];
    Cargo::new(&["test"]).packages(&["surface-cli"]).args(&tests).run_tests()
}

fn faults() -> Result<(), String> {
    Cargo::new(&["test"])
        .packages(&["surface-cli"])
        .args(&["--test", "it", "--", "--ignored", "--nocapture", "any_call_fails"])
        .run_tests()
}

fn histories() -> Result<(), String> {
    Cargo::new(&["test", "--release", "--lib", "--test", "it"])
        .packages(&["policy-jobs", "sched-jobs"])
        .args(&["--", "--ignored", "--skip", "size"])
        .run_tests()
}

/// What tasks alone may pull in, with themselves.
const PACKAGES_MAX: usize = 15;

fn features() -> Result<(), String> {
    component("clippy", "clippy")?;
    let alone = ["--no-default-features", "--features"];
    for feature in ["", "actors", "flow", "janus", "jobs", "macros", "net", "process", "flow jobs"] {
        let with = |command: &str| Cargo::new(&[command]).packages(&["bursar"]).args(&alone).args(&[feature]);
        with("clippy").args(&["--all-targets", "--", "-D", "warnings"]).run()?;
        with("test").args(&["--lib", "--bins", "--examples", "--tests"]).run_tests()?;
    }
    let tree = Cargo::new(&["tree", "--no-default-features", "--prefix", "none", "-e", "normal,build"]);
    let tree = tree.packages(&["bursar"]).output()?;
    let mut names: Vec<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    names.sort_unstable();
    names.dedup();
    println!("tasks alone are {} packages: {}", names.len(), names.join(" "));
    for heavy in ["nvml-wrapper", "serde_json"] {
        if names.contains(&heavy) {
            return Err(format!("tasks alone pull in {heavy}; make what needs it a feature"));
        }
    }
    match names.len() {
        0..=PACKAGES_MAX => Ok(()),
        many => Err(format!("tasks alone pull in {many} packages; the limit is {PACKAGES_MAX}")),
    }
}

fn package() -> Result<(), String> {
    Cargo::new(&["package", "--workspace", "--allow-dirty"]).target("package").run()
}

fn soak() -> Result<(), String> {
    Cargo::new(&["test", "--release"])
        .packages(&["sched-flow"])
        .args(&["--test", "soak", "--", "--ignored", "--nocapture"])
        .run_tests()
}

fn fuzz() -> Result<(), String> {
    if !works(&["fuzz", "--version"]) {
        return Err("`cargo fuzz` is missing; install it: `cargo install cargo-fuzz`".to_owned());
    }
    let seconds = env::var("FUZZ_SECONDS").unwrap_or_else(|_| "600".to_owned());
    let time = format!("-max_total_time={seconds}");
    // A single input that takes ten seconds is a hang.
    let limits = ["--", &time, "-timeout=10", "-rss_limit_mb=4096", "-max_len=4096"];
    for target in ["jobfile", "flowfile", "janus", "qtjir"] {
        let (corpus, seeds) = (format!("fuzz/corpus/{target}"), format!("fuzz/seeds/{target}"));
        fs::create_dir_all(root().join(&corpus)).map_err(|error| format!("{corpus}: {error}"))?;
        let dictionary = format!("fuzz/dictionaries/{target}.dict");
        let words = root().join(&dictionary).exists().then(|| format!("-dict={dictionary}"));
        Cargo::new(&["fuzz", "run", "-s", "none", target, &corpus, &seeds])
            .env("RUSTC_BOOTSTRAP", "1")
            .args(&limits)
            .args(&words.iter().map(String::as_str).collect::<Vec<_>>())
            .run()?;
    }
    Ok(())
}

/// The folders of `crates/` that have this file.
fn crates_with(file: &str) -> Result<Vec<String>, String> {
    let folder = root().join("crates");
    let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<_> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join(file).exists())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Whether cargo can do this.
pub(crate) fn works(args: &[&str]) -> bool {
    let mut command = Command::new(cargo());
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The cargo that started this program.
pub(crate) fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Makes sure that `cargo SUBCOMMAND` works, by adding a component of the toolchain if needed.
fn component(subcommand: &str, name: &str) -> Result<(), String> {
    if works(&[subcommand, "--version"]) {
        return Ok(());
    }
    println!("{name} is missing; running `rustup component add {name}`");
    let added = Command::new("rustup").args(["component", "add", name]).current_dir(root()).status();
    if added.is_ok_and(|status| status.success()) && works(&[subcommand, "--version"]) {
        return Ok(());
    }
    Err(format!(
        "`cargo {subcommand}` is missing and rustup could not add it; install {name} for this \
         toolchain: `rustup component add {name}`, or your system's package `{name}`"
    ))
}

/// A call of cargo, which can be shown as a person would type it.
pub(crate) struct Cargo {
    program: OsString,
    args: Vec<String>,
    env: Vec<(&'static str, String)>,
}

impl Cargo {
    pub(crate) fn new(args: &[&str]) -> Self {
        Self::with(cargo(), args)
    }

    /// Through a program that is not in cargo's path.
    pub(crate) fn with(program: OsString, args: &[&str]) -> Self {
        Self { program, args: Vec::new(), env: Vec::new() }.args(args)
    }

    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(|&arg| arg.to_owned()));
        self
    }

    /// Of these folders of `crates/`.
    pub(crate) fn packages(self, folders: &[impl AsRef<str>]) -> Self {
        folders.iter().fold(self, |cargo, folder| cargo.args(&["-p", &package_of(folder.as_ref())]))
    }

    pub(crate) fn env(mut self, name: &'static str, value: &str) -> Self {
        self.env.push((name, value.to_owned()));
        self
    }

    /// Adds to a variable that holds flags, keeping those the user set.
    pub(crate) fn flags(self, name: &'static str, flags: &str) -> Self {
        let set = env::var(name).unwrap_or_default();
        self.env(name, format!("{set} {flags}").trim())
    }

    /// A build with other flags would rebuild everything, and so would the next ordinary one: it gets a folder of its own.
    pub(crate) fn target(self, folder: &str) -> Self {
        let folder = target_dir().join(folder).to_string_lossy().into_owned();
        self.args(&["--target-dir", &folder])
    }

    pub(crate) fn shown(&self) -> String {
        let env: String = self.env.iter().map(|(name, value)| format!("{name}=\"{value}\" ")).collect();
        let program = if self.program == cargo() { "cargo".into() } else { self.program.to_string_lossy() };
        let quoted = |arg: &String| match arg {
            arg if arg.contains('\'') => format!("\"{arg}\""),
            arg if arg.contains([' ', '(']) => format!("'{arg}'"),
            arg => arg.clone(),
        };
        let args: Vec<_> = self.args.iter().map(quoted).collect();
        format!("{env}{program} {}", args.join(" "))
    }

    fn command(&self) -> Command {
        println!("$ {}", self.shown());
        let mut command = Command::new(&self.program);
        command.args(&self.args).current_dir(root());
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run(&self) -> Result<(), String> {
        let status = self.command().status().map_err(|error| self.cannot_start(&error))?;
        if status.success() { Ok(()) } else { Err(self.failed()) }
    }

    /// Everything it writes, whether it succeeds or not.
    pub(crate) fn output(&self) -> Result<String, String> {
        let output = self.command().output().map_err(|error| self.cannot_start(&error))?;
        Ok([&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat())
    }

    /// As `run`, and fails if the test harness reports no test that passed.
    pub(crate) fn run_tests(&self) -> Result<(), String> {
        let mut child = self.command().stdout(Stdio::piped()).spawn().map_err(|error| self.cannot_start(&error))?;
        let mut passed = 0;
        for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
            let line = line.map_err(|error| error.to_string())?;
            passed += tests_passed(&line);
            println!("{line}");
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(self.failed());
        }
        if passed == 0 {
            return Err(format!("no test ran\nthe command was: {}", self.shown()));
        }
        Ok(())
    }

    fn failed(&self) -> String {
        format!("the command was: {}", self.shown())
    }

    fn cannot_start(&self, error: &std::io::Error) -> String {
        format!("cannot start cargo: {error}")
    }
}

/// How many tests passed, if this line is the summary of a test binary.
fn tests_passed(line: &str) -> u32 {
    line.strip_prefix("test result: ok. ")
        .and_then(|rest| rest.split_once(" passed"))
        .and_then(|(count, _)| count.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_means_every_step() {
        assert_eq!(choose(&[]).map(|steps| steps.len()), Ok(ALL.len()));
    }

    #[test]
    fn an_unknown_step_is_answered_with_the_known_ones() {
        let error = choose(&["clipy".to_owned()]).err().expect("it is misspelt");
        assert!(error.starts_with("no step is called `clipy`; there are: tidy fmt clippy"));
    }

    #[test]
    fn a_test_that_hangs_is_ended_by_the_runner_whatever_the_profile() {
        let text = fs::read_to_string(root().join(".config/nextest.toml")).expect("nextest has a configuration");
        let config: toml::Table = text.parse().expect("it is TOML");
        let profiles = config["profile"].as_table().expect("profiles have names");
        let ends = |part: &toml::Value| Some(part.get("slow-timeout")?.get("terminate-after").is_some());
        assert_eq!(ends(&profiles["default"]), Some(true), "all others begin with what this says");
        for (name, profile) in profiles {
            let overrides = profile.get("overrides").and_then(|list| list.as_array());
            let parts = overrides.into_iter().flatten().chain([profile]);
            assert!(parts.filter_map(ends).all(|ends| ends), "profile {name} lets a test that hangs hang");
        }
    }

    #[test]
    fn only_the_summary_of_a_binary_counts_tests() {
        assert_eq!(tests_passed("test result: ok. 12 passed; 0 failed; 1 ignored;"), 12);
        assert_eq!(tests_passed("test result: ok. 0 passed; 0 failed; 0 ignored;"), 0);
        assert_eq!(tests_passed("test result: FAILED. 12 passed; 1 failed;"), 0);
        assert_eq!(tests_passed("test tests::twelve_passed ... ok"), 0);
    }

    #[test]
    fn a_command_is_shown_as_it_can_be_typed() {
        let cargo = Cargo::new(&["test", "--test", "loom"]).env("LOOM_MAX_PREEMPTIONS", "2");
        assert_eq!(cargo.shown(), "LOOM_MAX_PREEMPTIONS=\"2\" cargo test --test loom");
    }
}
