//! `bursar run --resume`: after `kill -9`, after failures, and when others want the same run. At random moments: `run_kills.rs`.

use std::fs;

use surface_journal::{State, Status};

use super::run_site::{Site, assert_code, is_alive};
use super::text;

#[test]
fn a_job_that_still_runs_is_found_again_and_not_started_twice() {
    let site = Site::new(
        "[job.long]\nrun = 'echo $$ >> pids; echo up > fifo; cat fifo2; echo done >> done'\n[job.next]\nneeds = ['long']\nrun = 'echo next >> done'\n",
    );
    let (fifo, answer) = (site.fifo("fifo"), site.fifo("fifo2"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    run.kill();
    assert_eq!(site.newest().status, Status::Interrupted);
    let pid = site.lines("pids")[0].clone();
    assert!(is_alive(&pid));
    let run = site.start("run --resume");
    answer.answer();
    let (code, said) = run.wait();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((site.lines("pids").len(), site.lines("done")), (1, vec!["done".to_owned(), "next".to_owned()]));
    assert_eq!((site.job("long").attempt, site.newest().status), (1, Status::Succeeded));
}

#[test]
fn a_job_that_ended_meanwhile_has_ended() {
    let site = Site::new(
        "[job.good]\nrun = 'echo up > fifo; cat fifo2; echo good >> done'\n[job.bad]\nrun = 'echo up > fifo3; cat fifo4; echo bad >> done; exit 5'\n[job.next]\nneeds = ['good']\nrun = 'echo next >> done'\n",
    );
    let fifos = ["fifo", "fifo2", "fifo3", "fifo4"].map(|name| site.fifo(name));
    let run = site.start("run jobs.toml --cpu 4");
    fifos[0].wait();
    fifos[2].wait();
    run.kill();
    fifos[1].answer();
    fifos[3].answer();
    let (code, said) = site.start("run --resume").wait();
    assert_eq!(code, Some(1), "{said}");
    let mut done = site.lines("done");
    done.sort();
    assert_eq!(done, ["bad", "good", "next"]);
    let bad = site.job("bad");
    assert_eq!((bad.state, bad.attempt, bad.detail.error.as_deref()), (State::Failed, 1, Some("exited with 5")));
}

#[test]
fn what_a_crash_means_for_a_job_is_its_own_choice() {
    let job = |name: &str, choice: &str| {
        let run = format!("echo {name} >> ran; [ -e again ] || (echo up > {name}.fifo; exec sleep 600)");
        format!("[job.{name}]\non_crash = '{choice}'\nrun = '{run}'\n")
    };
    let site = Site::new(&format!("{}{}", job("restart", "restart"), job("fail", "fail")));
    let fifos = ["restart.fifo", "fail.fifo"].map(|name| site.fifo(name));
    let run = site.start("run jobs.toml --cpu 4");
    fifos.iter().for_each(|fifo| drop(fifo.wait()));
    run.kill();
    fs::write(site.path("again"), "").unwrap();
    let (code, said) = site.start("run --resume").wait();
    assert_eq!(code, Some(1), "{said}");
    let mut ran = site.lines("ran");
    ran.sort();
    assert_eq!(ran, ["fail", "restart", "restart"]);
    assert_eq!((site.job("restart").state, site.job("fail").state), (State::Succeeded, State::Failed));
}

#[test]
fn two_cannot_go_on_with_one_run() {
    let site = Site::new("[job.long]\nrun = 'echo up > fifo; cat fifo2'\n");
    let (fifo, answer) = (site.fifo("fifo"), site.fifo("fifo2"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    let id = site.newest().id;
    let output = site.bursar(&format!("run --resume {id}"));
    assert_code(&output, 1);
    let said = text(&output.stderr);
    assert!(said.contains(&format!("process {} runs run {id}", run.child.id())), "{said}");
    answer.answer();
    assert_eq!(run.wait().0, Some(0));
}

#[test]
fn what_failed_is_tried_again_only_if_asked() {
    let site = Site::new(
        "[job.bad]\nrun = 'echo bad >> ran; [ -e fixed ]'\n[job.next]\nneeds = ['bad']\nrun = 'echo next >> ran'\n[job.good]\nrun = 'echo good >> ran'\n",
    );
    assert_code(&site.bursar("run jobs.toml --jobs 1"), 1);
    let id = site.newest().id;
    let output = site.bursar(&format!("run --resume {id}"));
    assert_code(&output, 1);
    assert!(
        text(&output.stderr).contains(&format!("`bursar run --resume {id} --retry-failed`")),
        "{}",
        text(&output.stderr)
    );
    assert_code(&site.bursar("run --resume --retry-failed"), 1);
    fs::write(site.path("fixed"), "").unwrap();
    assert_code(&site.bursar("run --resume --retry-failed"), 0);
    let mut ran = site.lines("ran");
    ran.sort();
    assert_eq!(ran, ["bad", "bad", "bad", "good", "next"]);
    assert_eq!((site.job("bad").attempt, site.newest().status), (3, Status::Succeeded));
    assert_code(&site.bursar(&format!("run --resume {id}")), 0);
}

#[test]
fn an_earlier_failure_stays_one_when_an_interrupted_run_is_resumed() {
    let site = Site::new(
        "[job.bad]\npriority = 9\nrun = 'echo bad >> ran; exit 4'\n[job.after]\nneeds = ['bad']\nrun = 'echo after >> ran'\n\
         [job.long]\nneeds = ['slow']\nrun = 'echo long >> ran'\n[job.slow]\nrun = 'echo up > fifo; cat fifo2'\n",
    );
    let (fifo, answer) = (site.fifo("fifo"), site.fifo("fifo2"));
    let run = site.start("run jobs.toml --jobs 1");
    fifo.wait();
    run.kill();
    let run = site.start("run --resume");
    answer.answer();
    let (code, said) = run.wait();
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(site.lines("ran"), ["bad", "long"]);
    let bad = site.job("bad");
    assert_eq!((bad.state, bad.attempt, bad.detail.code), (State::Failed, 1, Some(4)));
    assert_eq!(site.newest().status, Status::Failed);
}

#[test]
fn a_resumed_run_keeps_its_own_plan_whatever_happened_to_its_file() {
    let file =
        "[job.a]\nrun = 'echo up > fifo; cat fifo2; echo a >> ran'\n[job.b]\nneeds = ['a']\nrun = 'echo b >> ran'\n";
    let site = Site::new(file);
    let (fifo, answer) = (site.fifo("fifo"), site.fifo("fifo2"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    run.kill();
    fs::remove_file(site.path("jobs.toml")).unwrap();
    let run = site.start("run --resume");
    answer.answer();
    let (code, said) = run.wait();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(site.lines("ran"), ["a", "b"]);
}

#[test]
fn a_resumed_run_reports_that_its_file_was_changed_and_how_to_take_the_new_plan() {
    let file = "[job.a]\nrun = 'echo begun > begun; read line < gate'\n[job.b]\nneeds = ['a']\nrun = 'touch old'\n";
    for (changed, is_told) in [(file.replace("touch old", "touch new"), true), (format!("# a comment\n{file}"), false)]
    {
        let site = Site::new(file);
        let (begun, gate) = (site.fifo("begun"), site.fifo("gate"));
        let run = site.start("run jobs.toml");
        begun.wait();
        run.kill();
        site.write(&changed);
        gate.answer();
        let output = site.bursar("run --resume");
        assert_code(&output, 0);
        let said = text(&output.stderr);
        assert_eq!(said.contains("jobs.toml has changed since run"), is_told, "{said}");
        assert!(site.path("old").exists() && !site.path("new").exists());
    }
}

#[test]
fn starting_a_file_again_reports_the_run_that_was_interrupted() {
    let site = Site::new("[job.a]\nrun = '[ -e again ] || { touch again; echo up > fifo; cat fifo2; }'\n");
    let (fifo, answer) = (site.fifo("fifo"), site.fifo("fifo2"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    run.kill();
    let id = site.newest().id;
    answer.answer(); // while its job runs, the file is refused
    site.until_no_job_runs();
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 0);
    let said = text(&output.stderr);
    assert!(
        said.contains(&format!("run {id} of this file was interrupted after 0 of 1 jobs; `bursar run --resume {id}`")),
        "{said}"
    );
}

#[test]
fn a_journal_that_cannot_be_written_stops_the_run_and_loses_no_end() {
    let site = Site::new("[job.one]\nforeach = { n = '1..300' }\nrun = 'echo x >> out/{n}; sleep 0.01'\n");
    fs::create_dir(site.path("out")).unwrap();
    // No file may grow beyond 480 blocks of 512 bytes: the journal soon would.
    let mut shell = std::process::Command::new("sh");
    let script = "ulimit -f 480; trap '' XFSZ; exec \"$0\" run jobs.toml --cpu 4 --quiet";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_bursar")]).current_dir(site.path(""));
    shell.env("BURSAR_STATE_DIR", site.state_dir()).env("XDG_RUNTIME_DIR", site.path(""));
    let output = shell.output().unwrap();
    assert_code(&output, 1);
    let said = text(&output.stderr);
    assert!(said.contains("no other job is started") && said.contains("bursar run --resume r-"), "{said}");
    assert_eq!(site.newest().status, Status::Interrupted);
    let ran = fs::read_dir(site.path("out")).unwrap().count();
    assert!(ran < 300, "it never came to the limit");
    assert_code(&site.bursar("run --resume --cpu 4 --quiet"), 0);
    for n in 1..=300 {
        let lines = site.lines(&format!("out/{n}"));
        assert_eq!(lines.len(), 1, "job {n} ran {} times; {ran} had run before the resume", lines.len());
    }
}
