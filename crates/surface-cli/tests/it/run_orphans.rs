//! Jobs whose run was killed with -9 stay what they were: shown, counted, steered, and not started twice.

use rustix::process::{Signal, kill_process};
use surface_journal::State;

use super::run_kills::keepers;
use super::run_site::{Fifo, Site, assert_code, is_alive};
use super::text;

const FILE: &str = "[resources]\nlicence = 1\n[job.long]\nlicence = 1\nrun = 'echo x >> ran; echo begun > begun; read line < gate; echo done >> ran'\n";

/// A job that still runs, and whose run was killed.
fn orphaned(site: &Site) -> Fifo {
    let (begun, gate) = (site.fifo("begun"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    begun.wait();
    run.kill();
    gate
}

fn said(site: &Site, words: &str) -> String {
    let output = site.bursar(words);
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn ps_why_and_logs_know_a_job_whose_run_was_killed() {
    let site = Site::new(&FILE.replace("read line", "echo hello; read line"));
    let gate = orphaned(&site);
    let id = site.newest().id;
    let ps = said(&site, "ps");
    assert!(ps.contains("still run: long") && ps.contains(&format!("bursar cancel {id}")), "{ps}");
    assert!(said(&site, "ps --json").contains("\"still_running\":[\"long\"]"));
    let why = said(&site, "why long");
    assert!(why.contains("it still runs") && why.contains("--resume"), "{why}");
    assert!(said(&site, "logs long").contains("hello"));
    gate.answer();
    assert_code(&site.bursar("run --resume"), 0);
    assert_eq!(site.lines("ran"), ["x", "done"]);
    assert!(!said(&site, "ps").contains("still run"));
}

#[test]
fn a_run_that_leaves_no_record_is_known_while_it_or_a_job_of_it_runs() {
    let site = Site::new(&FILE.replace("read line", "echo hello; read line"));
    let (begun, gate) = (site.fifo("begun"), site.fifo("gate"));
    let run = site.start("run jobs.toml --no-journal");
    begun.wait();
    let ps = said(&site, "ps");
    assert!(ps.contains("running for") && ps.contains("long"), "{ps}");
    run.kill();
    let ps = said(&site, "ps");
    assert!(ps.contains("still run: long"), "{ps}");
    assert!(said(&site, "why long").contains("it still runs"));
    assert!(said(&site, "logs long").contains("hello"));
    // Its licence is still held, and its file is not started again.
    for words in ["run jobs.toml", "run jobs.toml --no-journal"] {
        let output = site.bursar(words);
        assert_code(&output, 1);
        assert!(text(&output.stderr).contains("would run twice"), "{}", text(&output.stderr));
    }
    gate.answer();
    assert_code(&site.bursar("run --resume"), 0);
    assert_eq!(site.lines("ran"), ["x", "done"]);
    assert!(!said(&site, "ps").contains("long"));
    let left: Vec<_> = std::fs::read_dir(site.temporary()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_job_of_a_run_that_left_no_record_can_be_cancelled() {
    let site = Site::new(FILE);
    let (begun, _gate) = (site.fifo("begun"), site.fifo("gate"));
    let run = site.start("run jobs.toml --no-journal");
    begun.wait();
    run.kill();
    let told = said(&site, "cancel long");
    assert!(told.contains("ended 1 job of run r-"), "{told}");
    assert!(!said(&site, "ps").contains("long"));
    assert_eq!(site.lines("ran"), ["x"]);
}

#[test]
fn a_file_whose_jobs_still_run_is_not_started_again_beside_them() {
    let site = Site::new(FILE);
    let gate = orphaned(&site);
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 1);
    let said = text(&output.stderr);
    for part in ["its jobs still run: long", "would run twice", "--resume r-", "bursar cancel r-", "--beside"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(site.lines("ran"), ["x"]);
    gate.answer();
    assert_code(&site.bursar("run --resume"), 0);
    assert_eq!(site.lines("ran"), ["x", "done"]);
}

#[test]
fn a_job_whose_run_was_killed_can_be_cancelled_by_its_name_or_its_runs() {
    for by in ["cancel long", "cancel latest --now"] {
        let site = Site::new(FILE);
        let _gate = orphaned(&site);
        let told = said(&site, by);
        assert!(told.starts_with("ended 1 job of run r-"), "{by}: {told}");
        assert!(!said(&site, "ps").contains("still run"));
        // It did not end by itself, so a resumed run that is asked to does it once more.
        site.write(FILE);
        let gate = Fifo::at(site.path("gate"));
        let begun = Fifo::at(site.path("begun"));
        let run = site.start("run --resume --retry-failed");
        begun.wait();
        gate.answer();
        assert_eq!(run.wait().0, Some(0));
        assert_eq!(site.lines("ran"), ["x", "x", "done"]);
    }
}

#[test]
fn a_job_whose_run_was_killed_keeps_its_share() {
    let site = Site::new(FILE);
    let gate = orphaned(&site);
    // Another file of the same user wants the only licence there is.
    std::fs::write(
        site.path("other.toml"),
        "[resources]\nlicence = 1\n[job.other]\nlicence = 1\nrun = 'cat ran > seen'\n[job.free]\nrun = 'echo free > free'\n",
    )
    .unwrap();
    let free = site.fifo("free");
    let other = site.start("run other.toml --cpu 8");
    free.wait(); // it runs, and has checked for a licence before
    assert!(!site.path("seen").exists(), "the licence is held");
    let why = said(&site, "why other");
    assert!(why.contains("licence"), "{why}");
    gate.answer();
    assert_eq!(other.wait().0, Some(0));
    assert_eq!(site.lines("seen"), ["x", "done"], "it waited for the job that held the licence");
    // Resumed, it counts once.
    assert_code(&site.bursar("run --resume"), 0);
}

#[test]
fn a_job_that_is_found_again_has_run_since_it_started_and_not_since_it_was_found() {
    // It has run for a while when it is found: that is the point.
    let site = Site::new(&FILE.replace("echo begun", "sleep 0.4; echo begun"));
    let (begun, gate) = (site.fifo("begun"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    begun.wait();
    let before = site.job("long").started_us.expect("the journal has its start by now");
    run.kill();
    let run = site.start("run --resume --json");
    run.until_it_says("\"started\"");
    gate.answer();
    let (code, told) = run.wait();
    assert_eq!(code, Some(0), "{told}");
    let job = site.job("long");
    assert_eq!(job.started_us, Some(before), "{job:?}");
    let events = site.journal().events(&site.newest().id).unwrap();
    let starts = events.iter().filter(|event| event.state == surface_journal::State::Running).count();
    assert_eq!(starts, 1, "it ran all the time: {events:?}");
    let succeeded = told.lines().find(|line| line.contains("\"succeeded\"")).unwrap();
    let ran_ms: u64 = succeeded.split("\"ran_ms\":").nth(1).unwrap().split([',', '}']).next().unwrap().parse().unwrap();
    let wall_ms = job.detail.wall_ms.unwrap();
    // On a busy machine the run may learn of a start some time after it; since it was found it would be next to nothing.
    assert!(ran_ms * 2 >= wall_ms && ran_ms < wall_ms + 1_000, "{ran_ms} of {wall_ms} ms");
}

/// A job that still runs, and whose run and keeper were killed; its process.
fn unkept(site: &Site) -> String {
    let begun = site.fifo("begun");
    site.fifo("gate");
    let run = site.start("run jobs.toml");
    let pid = begun.wait();
    run.kill();
    keepers(site).into_iter().for_each(|keeper| kill_process(keeper, Signal::KILL).unwrap());
    while !keepers(site).is_empty() {
        std::thread::yield_now();
    }
    assert!(is_alive(&pid));
    pid
}

#[test]
fn a_job_whose_run_and_keeper_were_killed_is_known_and_not_started_twice() {
    let site = Site::new(&FILE.replace("echo begun >", "echo $$ >"));
    let pid = unkept(&site);
    let id = site.newest().id;
    let ps = said(&site, "ps");
    assert!(ps.contains("still run: long") && ps.contains(&format!("bursar cancel {id}")), "{ps}");
    let why = said(&site, "why long");
    assert!(why.contains("it still runs"), "{why}");
    assert!(said(&site, "prune --keep 0 --interrupted").contains("their jobs still run"));
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 1);
    assert!(text(&output.stderr).contains("would run twice"), "{}", text(&output.stderr));
    assert!(is_alive(&pid), "to look disturbs nothing");
    let told = said(&site, &format!("cancel {id}"));
    assert!(told.starts_with("ended 1 job of run r-"), "{told}");
    assert!(!is_alive(&pid));
    assert!(!said(&site, "ps").contains("still run"));
    assert_eq!(site.lines("ran"), ["x"]);
}

#[test]
fn to_cancel_a_job_by_name_leaves_others_whose_keepers_were_killed() {
    let one = "[job.NAME]\nrun = 'echo $$ > NAME; read line < gate'\n";
    let site = Site::new(&(one.replace("NAME", "a") + &one.replace("NAME", "b")));
    let (a, b) = (site.fifo("a"), site.fifo("b"));
    site.fifo("gate");
    let run = site.start("run jobs.toml --cpu 2");
    let (a, b) = (a.wait(), b.wait());
    run.kill();
    keepers(&site).into_iter().for_each(|keeper| kill_process(keeper, Signal::KILL).unwrap());
    let told = said(&site, "cancel a");
    assert!(told.starts_with("ended 1 job of run r-"), "{told}");
    assert_eq!((is_alive(&a), is_alive(&b)), (false, true));
    let told = said(&site, "cancel");
    assert!(told.starts_with("ended 1 job of run r-"), "{told}");
    assert!(!is_alive(&b));
}

#[test]
fn cancel_without_a_name_means_the_one_interrupted_run_whose_jobs_still_run() {
    let site = Site::new(FILE);
    let _gate = orphaned(&site);
    let told = said(&site, "cancel --now");
    assert!(told.starts_with("ended 1 job of run r-"), "{told}");
}

#[test]
fn a_job_that_was_cancelled_after_its_run_was_killed_is_not_run_again_unasked() {
    let site = Site::new(FILE);
    let _gate = orphaned(&site);
    assert!(said(&site, "cancel latest").starts_with("ended 1 job of run r-"));
    assert_eq!(site.job("long").state, State::Cancelled);
    let show = said(&site, "show");
    assert!(show.contains("1 cancelled") && !show.contains("running"), "{show}");
    assert_code(&site.bursar("run --resume"), 1);
    assert_eq!(site.lines("ran"), ["x"]);
}

#[test]
fn show_runs_and_why_know_what_ended_after_its_run_was_killed() {
    for (end, word) in [("exit 0", "succeeded"), ("exit 3", "failed")] {
        let site = Site::new(&FILE.replace("echo done >> ran", &format!("echo done >> ran; {end}")));
        let gate = orphaned(&site);
        gate.answer();
        site.until_no_job_runs();
        let show = said(&site, "show");
        assert!(show.contains(&format!("1 job: 1 {word}")) && !show.contains("running"), "{show}");
        let why = said(&site, "why long");
        assert!(why.contains(word) && !why.contains("running"), "{why}");
        let done = if word == "succeeded" { "1/1" } else { "0/1" };
        assert!(said(&site, "runs").contains(done), "{}", said(&site, "runs"));
        assert!(said(&site, "show --json").contains(&format!("\"state\":\"{word}\"")));
    }
}

#[test]
fn a_job_that_was_lost_with_run_and_keeper_is_not_shown_as_running() {
    let site = Site::new(&FILE.replace("echo begun >", "echo $$ >"));
    let pid = unkept(&site);
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    while is_alive(&pid.as_raw_pid().to_string()) {
        std::thread::yield_now();
    }
    let show = said(&site, "show");
    assert!(!show.contains("running") && show.contains("it is not known how it ended"), "{show}");
}

#[test]
fn logs_that_are_followed_wait_for_a_run_that_does_not_answer_but_still_writes() {
    let site = Site::new(&FILE.replace("read line", "echo hello; read line"));
    let (begun, gate) = (site.fifo("begun"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    begun.wait();
    // So is a run that is about to end: its socket is gone, and its last events are not yet in the journal.
    std::fs::remove_file(site.journal().folder(&site.newest().id).join("control.sock")).unwrap();
    let logs = site.command(["logs", "-f", "long"]).spawn().unwrap();
    // Longer than it takes to ask the run twice, which nothing tells of.
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    gate.answer();
    assert_code(&logs.wait_with_output().unwrap(), 0);
    assert_eq!(run.wait().0, Some(0));
}

#[test]
fn of_a_run_that_is_stopped_other_commands_say_so_and_ask_nothing_of_it() {
    let site = Site::new("[job.long]\nrun = 'echo up > fifo; read x < gate'\n");
    let (fifo, gate) = (site.fifo("fifo"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    let pid = rustix::process::Pid::from_child(&run.child);
    kill_process(pid, Signal::STOP).unwrap();
    let way_out = format!("is stopped (Ctrl-Z); `kill -CONT {pid}` continues it");
    for command in ["why long", "cancel long", "cancel", "pause"] {
        let output = site.bursar(command);
        assert_code(&output, 1);
        assert!(text(&output.stderr).contains(&way_out), "{command}: {}", text(&output.stderr));
    }
    let output = site.bursar("ps");
    assert_code(&output, 0);
    assert!(text(&output.stdout).contains(&way_out), "{}", text(&output.stdout));
    kill_process(pid, Signal::CONT).unwrap();
    gate.answer();
    assert_eq!(run.wait().0, Some(0), "nothing of what was asked meanwhile happens");
}
