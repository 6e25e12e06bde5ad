//! Classes, weights, CPUs and reservations of jobs, through the command: what is in force, for whom, and where it is said.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use surface_journal::State;

use crate::run_site::{Site, assert_code};
use crate::terminal::terminal;
use crate::{complains, says, text};

/// Niceness and policy of a process: fields 19 and 41 of its `stat`.
pub(crate) fn nice_and_policy(pid: &str) -> (i32, i32) {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")).unwrap();
    let field = |number: usize| stat.rsplit(") ").next().unwrap().split(' ').nth(number - 3).unwrap();
    (field(19).trim().parse().unwrap(), field(41).trim().parse().unwrap())
}

fn parent_of(pid: &str) -> String {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")).unwrap();
    stat.rsplit(") ").next().unwrap().split(' ').nth(1).unwrap().to_owned()
}

const BATCH: (i32, i32) = (10, 3);

/// A job that says its process, and one that it started, and waits.
fn waiting(fields: &str) -> String {
    format!("[job.it]\n{fields}\nrun = 'sleep 1000 & echo $$ $! > up; read x < go; kill $!'\n")
}

#[test]
fn a_batch_job_is_batch_with_all_it_starts_and_why_show_and_the_report_say_so() {
    let site = Site::new(&waiting("class = 'batch'"));
    let (up, go) = (site.fifo("up"), site.fifo("go"));
    let run = site.start("run jobs.toml");
    let pids = up.wait();
    let (shell, child) = pids.split_once(' ').unwrap();
    assert_eq!((nice_and_policy(shell), nice_and_policy(child)), (BATCH, BATCH));
    let keeper = parent_of(shell);
    assert_eq!(nice_and_policy(&keeper).1, 0, "the keeper must answer");
    assert!(nice_and_policy(&keeper).0 < 10, "the keeper must answer");
    let why = says(&site.bursar("why it"));
    let line = why
        .lines()
        .find(|line| line.starts_with("In force: class batch: SCHED_BATCH, nice 10"))
        .unwrap_or_else(|| panic!("{why}"));
    assert!(line.contains("I/O best-effort 7"), "{line}");
    let json: serde_json::Value = serde_json::from_slice(&site.bursar("why it --json").stdout).unwrap();
    assert!(json["in_force"].as_str().unwrap().starts_with("class batch: SCHED_BATCH"), "{json}");
    // It is measured when it is asked for.
    assert!(Command::new("renice").args(["-n", "12", "-p", shell]).output().unwrap().status.success());
    assert!(says(&site.bursar("why it")).contains("SCHED_BATCH, nice 12"));
    go.answer();
    assert_eq!(run.wait().0, Some(0));
    let recorded = site.job("it").detail.in_force.unwrap();
    assert!(recorded.starts_with("class batch: SCHED_BATCH, nice 10"), "as it was at its start: {recorded}");
    let shown = says(&site.bursar("show"));
    assert!(shown.contains("\nIn force:\n  it: class batch: SCHED_BATCH, nice 10"), "{shown}");
    assert!(says(&site.bursar("why it")).contains("In force: class batch: SCHED_BATCH, nice 10"));
    assert_code(&site.bursar("report -o report.html"), 0);
    assert!(fs::read_to_string(site.path("report.html")).unwrap().contains("class batch: SCHED_BATCH, nice 10"));
}

/// Runs `bursar` with these streams at a terminal, or not.
fn run_at(site: &Site, words: &str, stdin: bool, stdout: bool) {
    let (master, slave) = terminal((80, 24));
    let mut command = site.command(words.split_whitespace());
    let at = |is_terminal: bool| if is_terminal { Stdio::from(slave.try_clone().unwrap()) } else { Stdio::null() };
    command.stdin(at(stdin)).stdout(at(stdout)).stderr(Stdio::null()).env("TERM", "xterm");
    let mut child = command.spawn().unwrap();
    let mut master = master;
    let reader = std::thread::spawn(move || std::io::copy(&mut master, &mut std::io::sink()));
    assert!(child.wait().unwrap().success(), "{words}");
    drop((command, slave));
    let _ = reader.join();
}

#[test]
fn at_a_terminal_jobs_of_a_file_are_batch_unless_a_file_or_an_option_says_otherwise() {
    let job = "[job.it]\nrun = \"cut -d' ' -f41 /proc/self/stat > policy\"\n";
    let policy = |text: &str, words: &str, stdin: bool, stdout: bool| {
        let site = Site::new(text);
        run_at(&site, words, stdin, stdout);
        site.lines("policy").concat()
    };
    let run = "run jobs.toml";
    assert_eq!(policy(job, run, true, true), "3", "SCHED_BATCH");
    assert_eq!(policy(job, run, true, false), "0", "its output is read by a program");
    assert_eq!(policy(job, run, false, true), "0", "its input comes from a program");
    assert_eq!(policy(job, "run jobs.toml --class normal", true, true), "0");
    assert_eq!(policy(job, "run jobs.toml --class idle", false, false), "5");
    assert_eq!(policy(&format!("[defaults]\nclass = 'normal'\n{job}"), run, true, true), "0");
    assert_eq!(policy(&format!("{job}class = 'idle'\n"), "run jobs.toml --class batch", true, true), "5");
    // A single command is what the person waits for.
    let single = "run -- cut -d, -f1 --output-delimiter=x /proc/self/sched";
    let site = Site::new("");
    run_at(&site, single, true, true);
    assert_eq!(site.jobs()[0].detail.in_force, None);
    run_at(&site, &single.replace("run --", "run --class batch --"), true, true);
    assert!(site.jobs()[0].detail.in_force.as_ref().unwrap().starts_with("class batch: SCHED_BATCH"));
}

#[test]
fn a_resumed_run_has_its_class_again_and_an_adopted_job_shows_it() {
    let site = Site::new(&format!(
        "{}[job.next]\nneeds = ['it']\nrun = \"cut -d' ' -f41 /proc/self/stat > policy\"\n",
        waiting("")
    ));
    let (up, go) = (site.fifo("up"), site.fifo("go"));
    let run = site.start("run jobs.toml --class batch");
    let pids = up.wait();
    run.kill();
    let run = site.start("run --resume");
    run.until_it_says("1 still run");
    let shell = pids.split(' ').next().unwrap();
    test_support::until(std::time::Duration::from_secs(60), "the resumed run answers", || {
        text(&site.bursar("why it").stdout).contains("In force: class batch: SCHED_BATCH, nice 10")
    });
    assert_eq!(nice_and_policy(shell), BATCH);
    // A pause takes nothing away.
    assert_code(&site.bursar("pause latest it"), 0);
    assert!(says(&site.bursar("why it")).contains("In force: class batch: SCHED_BATCH, nice 10"));
    assert_code(&site.bursar("resume latest it"), 0);
    assert_eq!(nice_and_policy(shell), BATCH);
    go.answer();
    let (code, said) = run.wait();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(site.lines("policy"), ["3"], "what the resumed run starts is batch, too");
    assert!(site.job("next").detail.in_force.unwrap().starts_with("class batch: SCHED_BATCH"));
}

#[test]
fn what_cannot_be_is_refused_with_the_value_the_limit_and_the_way_out() {
    let site = Site::new("[job.a]\nrun = 'true'\ncpus = [0, 4000]");
    for words in ["check jobs.toml", "run jobs.toml", "run jobs.toml --dry-run"] {
        let said = complains(&site.bursar(words), 3);
        let expected = "job `a` is to run on CPU 4000, but this machine has CPUs 0";
        assert!(said.contains(expected) && said.contains("name some of these in `cpus`"), "{words}: {said}");
    }
    for (fields, expected) in [
        ("weight = 0", "`weight` is 0, but the minimum is 1"),
        ("weight = 10001", "`weight` is 10001, but the limit is 10000"),
        ("deadline = '5ms'", "but no `budget`"),
        ("budget = '6ms'\ndeadline = '5ms'", "`budget` is 6ms, but it must be had within 5ms"),
        ("budget = '1ms'\ndeadline = '5ms'\nperiod = '4ms'", "`deadline` is 5ms, but the `period` is 4ms"),
    ] {
        site.write(&format!("[job.a]\nrun = 'true'\n{fields}"));
        let said = complains(&site.bursar("check jobs.toml"), 3);
        assert!(said.contains(expected), "{fields}: {said}");
    }
    let said = complains(&site.bursar("run jobs.toml --class fast"), 2);
    assert!(said.contains("the classes are `normal`, `latency`, `batch` and `idle`"), "{said}");
}

#[test]
fn the_example_runs_and_says_what_is_in_force_for_each_job() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/classes.toml");
    let site = Site::new("");
    let output = site.command(["run", example]).output().unwrap();
    assert_code(&output, 0);
    let words = |job: &str| site.job(job).detail.in_force.unwrap_or_default();
    assert!(site.jobs().iter().all(|job| job.state == State::Succeeded));
    assert!(words("encode[1]").starts_with("class batch: SCHED_BATCH, nice 10"), "{}", words("encode[1]"));
    assert!(words("index").starts_with("class idle: SCHED_IDLE, nice 19"), "{}", words("index"));
    assert!(words("preview").starts_with("class latency: SCHED_OTHER, nice "), "{}", words("preview"));
    assert!(words("preview").contains("weight 200: "), "{}", words("preview"));
    assert!(words("upload").contains("cpus 0: affinity 0"), "{}", words("upload"));
    let control = words("control");
    let is_said = ["reservation: SCHED_DEADLINE 1ms of every 10ms", "uses SCHED_FIFO 10", "uses SCHED_OTHER"];
    assert!(is_said.iter().any(|one| control.contains(one)), "{control}");
    println!("{}", says(&site.bursar("show")));
}

/// A user who owns nothing.
const OTHER: u32 = 65_534;

#[test]
fn a_user_without_rights_gets_the_next_best_and_is_told_so() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can be another user");
    }
    let place = tempfile::tempdir().unwrap();
    let (binary, theirs) = (place.path().join("bursar"), place.path().join("theirs"));
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_bursar"), &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(&theirs).unwrap();
    let file = "[job.batch]\nclass = 'batch'\nrun = 'cat /proc/self/stat > batch'\n\
                [job.latency]\nclass = 'latency'\nweight = 400\nrun = 'cat /proc/self/stat > latency'\n\
                [job.reserved]\nbudget = '1ms'\nperiod = '10ms'\nrun = 'cat /proc/self/stat > reserved'\n\
                [job.one]\ncpus = [0]\nrun = 'grep Cpus_allowed_list /proc/self/status > one'\n";
    fs::write(theirs.join("jobs.toml"), file).unwrap();
    std::os::unix::fs::chown(&theirs, Some(OTHER), Some(OTHER)).unwrap();
    let bursar = |words: &[&str]| {
        let mut command = Command::new(&binary);
        command.args(words).current_dir(&theirs).uid(OTHER).gid(OTHER).stdin(Stdio::null());
        command.env("BURSAR_STATE_DIR", theirs.join("state")).env("XDG_RUNTIME_DIR", &theirs).env("HOME", "/");
        command.output().unwrap()
    };
    assert_code(&bursar(&["run", "jobs.toml"]), 0);
    let shown = says(&bursar(&["show"]));
    let line = |job: &str| {
        let found = shown.lines().find(|line| line.starts_with(&format!("  {job}: ")));
        found.unwrap_or_else(|| panic!("{job} in {shown}")).to_owned()
    };
    let mine = nice_and_policy("self").0;
    let field = |job: &str, number: usize| {
        let stat = fs::read_to_string(theirs.join(job)).unwrap();
        stat.rsplit(") ").next().unwrap().split(' ').nth(number - 3).unwrap().trim().parse::<i32>().unwrap()
    };
    assert_eq!((field("batch", 19), field("batch", 41)), BATCH);
    assert!(line("batch").contains("class batch: SCHED_BATCH, nice 10"), "{shown}");
    assert_eq!((field("latency", 19), field("latency", 41)), (mine, 0), "{shown}");
    assert!(line("latency").contains("is refused (E"), "{shown}");
    assert!(line("latency").contains("weight 400: a control group is refused"), "{shown}");
    assert_eq!(field("reserved", 41), 0);
    for what in ["SCHED_DEADLINE is refused (EPERM", "SCHED_FIFO is refused (EPERM", "uses SCHED_OTHER"] {
        assert!(line("reserved").contains(what), "{shown}");
    }
    assert_eq!(fs::read_to_string(theirs.join("one")).unwrap().trim(), "Cpus_allowed_list:\t0");
    assert!(line("one").contains("cpus 0: affinity 0 (a cpuset is refused"), "{shown}");
}
