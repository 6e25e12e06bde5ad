//! The n-th call to the system fails: a run goes through all the same, or says why not and can be gone on with.
//!
//! # Invariant
//! Whatever call fails, in the client or in a keeper: exit code 0 means that every effect is there once; any other code comes with words
//! that name the failure, and a resume without it gives every effect once. Nothing hangs, no job runs twice, none is called done that is not.
//!
//! # How
//! `tests/faults/faults.c` fails the n-th call of a kind, and says that it did. A sweep counts n up until a run goes through without the
//! fault having been met. Every kind of call is met at least once on its side, so a library that reaches nothing fails the test.
//!
//! # What it does not reach
//! Calls that the C library makes for itself (`posix_spawn` as a whole can fail, not the steps within); memory that is mapped, as the
//! index of SQLite's log is; a power loss after a failed sync; and, where there is no Syscall User Dispatch (Linux 5.11 on x86_64), what is not
//! called through the C library: the sockets between a client and its keepers. Those kinds are left out then, and that is printed.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use mech_process::Keepers;
use rustix::io::Errno;
use surface_journal::{Filter, State, Status};

use super::run_site::Site;

/// Dependencies, outputs, two keepers at once, a job that its keeper starts from a thread; each has an effect.
const FILE: &str = "\
[job.first]\nrun = 'echo x >> out/first; echo made > made'\noutputs = ['made']\n\
[job.left]\nneeds = ['first']\nnice = 19\nrun = 'echo x >> out/left'\n\
[job.right]\nneeds = ['first']\nrun = 'echo x >> out/right; cat made > copy'\noutputs = ['copy']\n\
[job.alone]\nrun = 'echo x >> out/alone'\n\
[job.last]\nneeds = ['left', 'right']\nrun = 'echo x >> out/last'\n";

/// The first two wait until their client is gone; tried again, they do not wait.
const WAITING: &str = "\
[job.first]\nrun = '[ -e again ] || (echo up > fifo1; read x < gate1); echo x >> out/first; echo made > made'\noutputs = ['made']\n\
[job.alone]\nrun = '[ -e again ] || (echo up > fifo2; read x < gate2); echo x >> out/alone'\n\
[job.next]\nneeds = ['first']\nrun = 'echo x >> out/next'\n\
[job.last]\nneeds = ['next', 'alone']\nrun = 'echo x >> out/last'\n";

/// What is said of a job whose end is not known.
const LOST: &str = "its exit status is not known";

/// A run that takes longer than this hangs.
const LIMIT: Duration = Duration::from_secs(20);

/// Whose calls fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    /// `bursar run`.
    Client,
    /// Its keepers.
    Keeper,
    /// The keepers of a client that was killed.
    Orphan,
    /// `bursar run --resume` after a client was killed.
    Resume,
}

/// One kind of fault.
#[derive(Debug, Clone, Copy)]
struct Kind {
    side: Side,
    call: &'static str,
    errno: Errno,
    /// All later calls fail, too.
    stays: bool,
}

const fn once(side: Side, call: &'static str, errno: Errno) -> Kind {
    Kind { side, call, errno, stays: false }
}

const fn from_then_on(side: Side, call: &'static str, errno: Errno) -> Kind {
    Kind { side, call, errno, stays: true }
}

/// The first of each side and call are those of the quick test.
const KINDS: &[Kind] = &[
    from_then_on(Side::Client, "write", Errno::NOSPC),
    once(Side::Client, "write", Errno::IO),
    once(Side::Client, "write", Errno::INTR),
    once(Side::Client, "sync", Errno::IO),
    from_then_on(Side::Client, "sync", Errno::IO),
    once(Side::Client, "truncate", Errno::IO),
    once(Side::Client, "spawn", Errno::AGAIN),
    from_then_on(Side::Client, "spawn", Errno::NOMEM),
    once(Side::Client, "thread", Errno::AGAIN),
    from_then_on(Side::Client, "thread", Errno::AGAIN),
    once(Side::Client, "send", Errno::NOBUFS),
    once(Side::Client, "send", Errno::INTR),
    once(Side::Client, "send", Errno::AGAIN),
    once(Side::Client, "send", Errno::PIPE),
    once(Side::Client, "recv", Errno::NOMEM),
    once(Side::Client, "recv", Errno::INTR),
    once(Side::Client, "recv", Errno::AGAIN),
    once(Side::Client, "recv", Errno::CONNRESET),
    once(Side::Client, "watch", Errno::NOMEM),
    once(Side::Keeper, "write", Errno::NOSPC),
    from_then_on(Side::Keeper, "write", Errno::IO),
    once(Side::Keeper, "truncate", Errno::IO),
    once(Side::Keeper, "spawn", Errno::AGAIN),
    from_then_on(Side::Keeper, "spawn", Errno::NOMEM),
    once(Side::Keeper, "thread", Errno::AGAIN),
    once(Side::Keeper, "send", Errno::NOBUFS),
    once(Side::Keeper, "send", Errno::INTR),
    once(Side::Keeper, "send", Errno::AGAIN),
    once(Side::Keeper, "send", Errno::PIPE),
    once(Side::Keeper, "recv", Errno::NOMEM),
    once(Side::Keeper, "recv", Errno::INTR),
    once(Side::Keeper, "recv", Errno::AGAIN),
    once(Side::Keeper, "recv", Errno::CONNRESET),
    from_then_on(Side::Orphan, "write", Errno::NOSPC),
    once(Side::Orphan, "write", Errno::IO),
    once(Side::Orphan, "sync", Errno::IO),
    from_then_on(Side::Orphan, "sync", Errno::IO),
    from_then_on(Side::Resume, "write", Errno::NOSPC),
    once(Side::Resume, "write", Errno::IO),
    once(Side::Resume, "sync", Errno::IO),
    once(Side::Resume, "spawn", Errno::AGAIN),
    once(Side::Resume, "thread", Errno::AGAIN),
    once(Side::Resume, "send", Errno::NOBUFS),
    once(Side::Resume, "send", Errno::PIPE),
    once(Side::Resume, "recv", Errno::NOMEM),
    once(Side::Resume, "recv", Errno::CONNRESET),
    once(Side::Resume, "watch", Errno::NOMEM),
];

/// What became of a run that a fault was injected into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Became {
    /// It went through.
    Through,
    /// It said why not, and was resumed.
    Resumed,
    /// Jobs failed for it, and were tried again.
    Retried,
    /// Nothing had begun; the file was started again.
    Anew,
}

/// The library that injects faults, which is made once.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap().keep();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/faults.c");
        let library = folder.join("libfaults.so");
        test_support::c_library(&source, &library);
        library
    })
}

/// A run into which one fault is injected.
struct Trial {
    kind: Kind,
    nth: usize,
    /// Only calls on a file with this in its path count.
    path: &'static str,
    site: Site,
    /// What a job was told through a pipe that it has not opened yet is there as long as the pipe is open.
    gate: OnceCell<fs::File>,
}

impl Trial {
    fn new(kind: Kind, nth: usize) -> Trial {
        let site = Site::new(if matches!(kind.side, Side::Orphan | Side::Resume) { WAITING } else { FILE });
        fs::create_dir(site.path("out")).unwrap();
        Trial { kind, nth, path: "", site, gate: OnceCell::new() }
    }

    fn on(mut self, path: &'static str) -> Trial {
        self.path = path;
        self
    }

    fn hit(&self) -> PathBuf {
        self.site.path("hit")
    }

    fn was_hit(&self) -> bool {
        self.hit().exists()
    }

    fn faulty(&self, words: &str) -> Command {
        let mut command = self.site.command(words.split_whitespace());
        let side = if matches!(self.kind.side, Side::Client | Side::Resume) { "client" } else { "keeper" };
        command.env("LD_PRELOAD", library()).env("FAULT_SIDE", side).env("FAULT_CALL", self.kind.call);
        command.env("FAULT_NTH", self.nth.to_string()).env("FAULT_ERRNO", self.kind.errno.raw_os_error().to_string());
        command.env("FAULT_STAYS", if self.kind.stays { "1" } else { "0" }).env("FAULT_HIT", self.hit());
        command.env("FAULT_PATH", self.path);
        command
    }

    /// Runs it with the fault, and then without as long as there is something left to do.
    fn run(&self) -> Became {
        let (code, said) = match self.kind.side {
            Side::Orphan => return self.orphan(),
            Side::Resume => self.resume(),
            _ => self.site.start_command(self.faulty("run jobs.toml --cpu 2")).wait_at_most(LIMIT),
        };
        let (became, lost) = self.judge(code, &said);
        self.check_effects(&lost, &said);
        became
    }

    /// A failure leaves no job behind.
    fn end_what_is_left(&self) {
        let _ = self.site.command(["cancel", "latest", "--now"]).output();
    }

    /// Also returns the jobs whose end was reported as unknown: their effect may exist, and the user who retries them knows that.
    fn judge(&self, code: Option<i32>, said: &str) -> (Became, Vec<String>) {
        if code == Some(0) {
            return (Became::Through, Vec::new());
        }
        self.check_words(code, said);
        let begun = self.site.state_dir().join("journal.db").exists();
        let runs = if begun { self.site.journal().runs(Filter::default()).unwrap() } else { Vec::new() };
        let Some(run) = runs.first() else {
            self.expect(self.effects().is_empty(), "a job has run that is not recorded", said);
            self.go_on("run jobs.toml --cpu 2", said);
            return (Became::Anew, Vec::new());
        };
        let failed = self.site.jobs().into_iter().filter(|job| job.state == State::Failed);
        let (lost, refused): (Vec<_>, Vec<_>) =
            failed.partition(|job| job.detail.error.as_deref().is_some_and(|error| error.contains(LOST)));
        for job in refused {
            let times = self.site.lines(&format!("out/{}", job.name)).len();
            self.expect(times == 0, &format!("job {} has run and is called failed", job.name), said);
            self.expect(job.detail.error.is_some(), &format!("no reason is recorded for job {}", job.name), said);
        }
        let became = match run.status {
            Status::Failed | Status::Cancelled => {
                self.go_on(&format!("run --resume {} --retry-failed --cpu 2", run.id), said);
                Became::Retried
            }
            _ => {
                self.go_on(&format!("run --resume {} --cpu 2", run.id), said);
                Became::Resumed
            }
        };
        (became, lost.into_iter().map(|job| job.name).collect())
    }

    /// Without the fault.
    fn go_on(&self, words: &str, said: &str) {
        let (code, again) = self.site.start(words).wait_at_most(LIMIT);
        self.expect(code == Some(0), &format!("`{words}` ended with {code:?} and said:\n{again}"), said);
    }

    /// A client is killed while two jobs run; when the run is resumed, one has ended and the other still runs.
    fn resume(&self) -> (Option<i32>, String) {
        let [first, second, gate1, _gate2] = ["fifo1", "fifo2", "gate1", "gate2"].map(|name| self.site.fifo(name));
        let run = self.site.start("run jobs.toml --cpu 2");
        first.wait();
        second.wait();
        fs::write(self.site.path("again"), "").unwrap();
        run.kill();
        gate1.answer();
        until("the first job has had its effect", || self.effects().len() == 1);
        let mut run = self.site.start_command(self.faulty("run --resume --cpu 2"));
        // Its first line comes after it has looked for jobs that still run.
        until("it has found the job that runs, or given up", || {
            !run.said().is_empty() || run.child.try_wait().unwrap().is_some()
        });
        // Open for both directions, a pipe waits for no reader: the fault may have ended the job.
        let gate2 = fs::File::options().read(true).write(true).open(self.site.path("gate2")).unwrap();
        self.gate.get_or_init(|| gate2).write_all(b"go\n").unwrap();
        run.wait_at_most(LIMIT)
    }

    /// Its client is killed while two jobs run; they end with the fault, and the run is gone on with.
    fn orphan(&self) -> Became {
        let fifos = ["fifo1", "fifo2", "gate1", "gate2"].map(|name| self.site.fifo(name));
        let run = self.site.start_command(self.faulty("run jobs.toml --cpu 2"));
        fifos[0].wait();
        fifos[1].wait();
        fs::write(self.site.path("again"), "").unwrap();
        run.kill();
        fifos[2].answer();
        fifos[3].answer();
        until("both jobs have had their effects", || self.effects().len() == 2);
        let home = self.site.journal().folder(&self.site.newest().id).join("keepers");
        // They go when they have recorded what they know; those that cannot stay.
        let gone = || Keepers::inspect(&home).unwrap().alive == 0;
        until("keepers are gone or meet the fault", || gone() || (self.kind.stays && self.was_hit()));
        let (code, said) = self.site.start("run --resume --cpu 2").wait_at_most(LIMIT);
        let mut became = Became::Through;
        if code != Some(0) {
            self.expect(!gone(), "it is not resumed, though no keeper is left", &said);
            self.check_words(code, &said);
            fs::write(self.hit().with_extension("fixed"), "").unwrap();
            self.go_on("run --resume --cpu 2", &said);
            became = Became::Resumed;
        }
        self.check_effects(&[], &said);
        became
    }

    /// What was said names what happened.
    fn check_words(&self, code: Option<i32>, said: &str) {
        self.expect(code.is_some_and(|code| code != 101), &format!("it broke down with {code:?}"), said);
        let error = io::Error::from(self.kind.errno).to_string();
        let error = error.split(" (os error").next().unwrap();
        let names_it = [error, "disk I/O error", "no room for the journal", LOST];
        self.expect(names_it.iter().any(|words| said.contains(words)), "no word names the failure", said);
    }

    /// The names of files that jobs have left.
    fn effects(&self) -> Vec<String> {
        let entries = fs::read_dir(self.site.path("out")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn check_effects(&self, lost: &[String], said: &str) {
        for job in self.site.jobs() {
            let times = self.site.lines(&format!("out/{}", job.name)).len();
            let is_once = times == 1 || (times == 2 && lost.contains(&job.name));
            self.expect(is_once, &format!("job {} ran {times} times", job.name), said);
            self.expect(job.state == State::Succeeded, &format!("job {} is {:?}", job.name, job.state), said);
        }
        let status = self.site.newest().status;
        self.expect(status == Status::Succeeded, &format!("the run is {status:?}"), said);
        let home = self.site.journal().folder(&self.site.newest().id).join("keepers");
        until("no keeper is left", || Keepers::inspect(&home).unwrap().alive == 0);
    }

    fn about(&self) -> String {
        let where_ = fs::read_to_string(self.hit()).unwrap_or_else(|_| "never met\n".to_owned());
        let Kind { side, call, errno, stays } = self.kind;
        let (nth, later) = (self.nth, if stays { " and later" } else { "" });
        let where_ = where_.lines().next().unwrap_or_default();
        format!("{side:?} {call} {nth}{later} fails with {}: {where_}\n", io::Error::from(errno))
    }

    #[track_caller]
    fn expect(&self, holds: bool, what: &str, said: &str) {
        assert!(holds, "{}{what}; the faulted run said:\n{said}", self.about());
    }
}

#[track_caller]
fn until(what: &str, holds: impl FnMut() -> bool) {
    test_support::until(LIMIT, what, holds);
}

type Table = BTreeMap<(Side, &'static str), BTreeMap<Became, usize>>;

/// What sweeps have found so far.
#[derive(Default)]
struct Found {
    table: Table,
    failures: Vec<String>,
}

/// Counts n up, by these steps, until the fault is not met any more. A failure does not hide the next.
fn sweep(kind: Kind, steps: impl Iterator<Item = usize>, found: &Mutex<Found>) {
    for nth in steps {
        let trial = Trial::new(kind, nth);
        let became = catch_unwind(AssertUnwindSafe(|| trial.run()));
        let mut found = found.lock().unwrap();
        match became {
            Ok(Became::Through) if !trial.was_hit() => return,
            Ok(became) if trial.was_hit() => {
                *found.table.entry((kind.side, kind.call)).or_default().entry(became).or_default() += 1;
            }
            Ok(became) => found.failures.push(format!("{}without a fault it was {became:?}", trial.about())),
            Err(_) => {
                found.failures.push(trial.about());
                trial.end_what_is_left();
            }
        }
        if !trial.was_hit() {
            return;
        }
    }
}

/// Sweeps through all of these, several at a time.
fn sweep_all<S: Iterator<Item = usize>>(kinds: &[Kind], steps: impl Fn() -> S + Sync) -> Table {
    let (found, next) = (Mutex::new(Found::default()), AtomicUsize::new(0));
    library();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(kind) = kinds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    sweep(*kind, steps(), &found);
                }
            });
        }
    });
    let Found { table, failures } = found.into_inner().unwrap();
    assert!(failures.is_empty(), "{} runs failed, as told above:\n{}", failures.len(), failures.concat());
    table
}

/// These kinds, without those that cannot be reached here.
fn reachable(kinds: &[Kind]) -> Vec<Kind> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let numbers: Vec<u32> = release.split('.').map_while(|number| number.parse().ok()).collect();
    let is_caught = cfg!(target_arch = "x86_64") && numbers >= vec![5, 11];
    if !is_caught {
        eprintln!("SKIPPED: send, recv and watch; Syscall User Dispatch needs Linux 5.11 on x86_64, this is {release}");
    }
    kinds.iter().filter(|kind| is_caught || !matches!(kind.call, "send" | "recv" | "watch")).copied().collect()
}

/// Every kind of call was met, but for one: a resumed run may have enough keepers, and then starts none.
fn check_reach(table: &Table, kinds: &[Kind]) {
    for Kind { side, call, .. } in kinds.iter().filter(|kind| (kind.side, kind.call) != (Side::Resume, "spawn")) {
        assert!(table.contains_key(&(*side, *call)), "no {call} of {side:?} was reached");
    }
}

#[test]
fn an_end_that_its_keeper_cannot_record_stays_with_it_until_it_can() {
    // The first line says that a command starts.
    let trial = Trial::new(from_then_on(Side::Orphan, "write", Errno::NOSPC), 2).on(".ends");
    assert_eq!(trial.run(), Became::Resumed);
}

#[test]
fn a_keeper_without_a_thread_to_start_a_job_from_says_so() {
    let trial = Trial::new(once(Side::Keeper, "thread", Errno::AGAIN), 1);
    let (code, said) = trial.site.start_command(trial.faulty("run jobs.toml --cpu 2")).wait_at_most(LIMIT);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot start \"sh\" from a thread of its own: Resource temporarily"), "{said}");
    trial.judge(code, &said);
    trial.check_effects(&[], &said);
}

#[test]
fn why_a_job_could_not_be_started_is_in_the_journal() {
    let trial = Trial::new(once(Side::Client, "spawn", Errno::AGAIN), 1);
    let (code, said) = trial.site.start_command(trial.faulty("run jobs.toml --cpu 1")).wait_at_most(LIMIT);
    assert_eq!(code, Some(1), "{said}");
    let why = trial.site.job("first").detail.error.unwrap_or_default();
    assert!(why.starts_with("cannot start a keeper") && why.contains("Resource temporarily unavailable"), "{why}");
}

#[test]
fn a_command_whose_keeper_cannot_be_heard_does_not_run() {
    for kind in reachable(&[once(Side::Client, "watch", Errno::NOMEM)]) {
        // The first is for the pool itself.
        for nth in 2..4 {
            assert_eq!(Trial::new(kind, nth).run(), Became::Retried);
        }
    }
}

#[test]
fn an_interrupted_wake_does_not_keep_a_run_from_its_end() {
    for nth in 1.. {
        let trial = Trial::new(once(Side::Client, "write", Errno::INTR), nth).on("eventfd");
        assert_eq!(trial.run(), Became::Through);
        if !trial.was_hit() {
            return;
        }
    }
}

#[test]
fn that_the_journal_cannot_be_written_is_said_while_a_job_runs() {
    for nth in 1.. {
        let mut trial = Trial::new(from_then_on(Side::Client, "write", Errno::NOSPC), nth).on("journal.db");
        trial.site = Site::new("[job.long]\nrun = 'touch begun; read x < gate'\n");
        let gate = trial.site.fifo("gate");
        let mut run = trial.site.start_command(trial.faulty("run jobs.toml"));
        let begun = trial.site.path("begun");
        until("the job runs, or the run is over", || begun.exists() || run.child.try_wait().unwrap().is_some());
        if !begun.exists() {
            assert!(trial.was_hit(), "{}", run.said());
            continue;
        }
        let is_recorded = || trial.site.job("long").state == State::Running;
        until("the journal knows of it, or cannot", || trial.was_hit() || is_recorded());
        if !trial.was_hit() {
            gate.answer();
            run.wait();
            return;
        }
        run.until_it_says("the journal cannot be written");
        gate.answer();
        let (code, said) = run.wait();
        assert!(code == Some(1) && said.contains("not everything is recorded"), "{code:?}: {said}");
    }
}

#[test]
fn a_run_that_cannot_write_its_share_runs_without_and_says_so() {
    let trial = Trial::new(from_then_on(Side::Client, "write", Errno::NOSPC), 1).on("bursar/runs-");
    let (code, said) = trial.site.start_command(trial.faulty("run jobs.toml --cpu 2")).wait_at_most(LIMIT);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("does not share its limits with others") && said.contains("No space left"), "{said}");
    trial.check_effects(&[], &said);
}

#[test]
fn a_dead_runs_share_that_cannot_be_cleared_keeps_no_job_waiting() {
    for nth in 1..4 {
        let trial = Trial::new(from_then_on(Side::Resume, "write", Errno::IO), nth).on("bursar/runs-");
        assert_eq!(trial.run(), Became::Through);
    }
}

#[test]
fn what_cannot_be_said_breaks_no_run() {
    let site = Site::new(FILE);
    fs::create_dir(site.path("out")).unwrap();
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    // A setting that makes no sense is told before anything begins.
    let mut command = site.command(["run", "jobs.toml"]);
    command.env("BURSAR_SCHED_CPU_SLOTS", "many").stdout(full()).stderr(full());
    assert_eq!(command.status().unwrap().code(), Some(0));
    // But a program that reads events must not take a part for all of them.
    let output = site.command(["run", "jobs.toml", "--json"]).stdout(full()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(super::text(&output.stderr).contains("not all events could be written"), "{output:?}");
    let mut command = site.command(["run", "missing.toml"]);
    assert_eq!(command.stderr(full()).status().unwrap().code(), Some(3));
}

#[test]
fn a_run_in_which_one_call_fails_goes_through_or_says_why_not() {
    let mut kinds: Vec<Kind> = Vec::new();
    for kind in &reachable(KINDS) {
        if !kinds.iter().any(|earlier| (earlier.side, earlier.call) == (kind.side, kind.call)) {
            kinds.push(*kind);
        }
    }
    // Ever further apart: the first of each, some of the rest.
    let table = sweep_all(&kinds, || (0..).map(|power| 1 + power * power * power * power));
    check_reach(&table, &kinds);
}

#[test]
#[ignore = "minutes; `cargo xtask test faults`"]
fn a_run_in_which_any_call_fails_goes_through_or_says_why_not() {
    let kinds = reachable(KINDS);
    let table = sweep_all(&kinds, || 1..);
    check_reach(&table, &kinds);
    let mut text = String::new();
    for ((side, call), outcomes) in &table {
        let total: usize = outcomes.values().sum();
        let _ = write!(text, "{side:?} {call}: {total} faults:");
        for (became, times) in outcomes {
            let _ = write!(text, " {times} {became:?}");
        }
        text.push('\n');
    }
    println!("{text}");
}
