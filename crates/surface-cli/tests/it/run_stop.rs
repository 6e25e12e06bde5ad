//! Ctrl-C, once and twice; SIGTERM; and trees that do not want to go.

use std::fs;

use rustix::process::Signal;
use surface_journal::{State, Status};

use super::run_kills::keepers;
use super::run_site::{Site, assert_code, is_alive};
use super::text;

#[test]
fn ctrl_c_asks_running_jobs_to_end_and_the_run_can_go_on() {
    let site = Site::new(
        "[job.first]\nrun = 'echo first >> ran'\n\
         [job.polite]\nneeds = ['first']\nrun = '''trap 'echo asked >> ran; exit 1' TERM; [ -e once ] && exit 0; touch once; echo up > fifo; while :; do sleep 0.05; done'''\n\
         [job.last]\nneeds = ['polite']\nrun = 'echo last >> ran'\n",
    );
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml");
    fifo.wait();
    run.signal(Signal::INT);
    let (code, said) = run.wait();
    assert_eq!(code, Some(130), "{said}");
    assert!(said.contains("Ctrl-C again kills them now"), "{said}");
    assert_eq!(site.lines("ran"), ["first", "asked"]);
    assert_eq!(site.newest().status, Status::Interrupted);
    let states: Vec<State> = site.states().into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, [State::Succeeded, State::Queued, State::Queued]);
    assert_code(&site.bursar("run --resume"), 0);
    assert_eq!(site.lines("ran"), ["first", "asked", "last"]);
    assert_eq!((site.newest().status, site.job("polite").attempt), (Status::Succeeded, 2));
}

#[test]
fn a_second_ctrl_c_kills_what_does_not_go() {
    let site = Site::new(
        "[job.stubborn]\ngrace = '10m'\nrun = '''echo $$ > pid; trap 'echo no > fifo2' TERM; echo up > fifo; while :; do sleep 0.05; done'''\n",
    );
    let (fifo, asked) = (site.fifo("fifo"), site.fifo("fifo2"));
    let run = site.start("run jobs.toml");
    fifo.wait();
    run.signal(Signal::INT);
    assert_eq!(asked.wait(), "no");
    run.signal(Signal::INT);
    let (code, said) = run.wait();
    assert_eq!(code, Some(130), "{said}");
    assert!(!is_alive(&fs::read_to_string(site.path("pid")).unwrap()));
    assert_eq!(site.newest().status, Status::Interrupted);
}

#[test]
fn a_tree_that_left_its_session_and_ignores_term_is_gone_when_the_run_returns() {
    let site = Site::new(
        "[job.wild]\ngrace = '100ms'\nrun = '''setsid sh -c 'trap \"\" TERM HUP INT; (sh -c \"trap \\\"\\\" TERM; echo \\$\\$ > pid2; exec sleep 600\" &) ; echo $$ > pid; sleep 0.1; echo up > fifo; while :; do sleep 0.05; done' & exec sleep 600'''\n",
    );
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml");
    fifo.wait();
    let pids = ["pid", "pid2"].map(|name| fs::read_to_string(site.path(name)).unwrap());
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    run.signal(Signal::TERM);
    let (code, said) = run.wait();
    assert_eq!(code, Some(143), "{said}");
    assert!(!pids.iter().any(|pid| is_alive(pid)), "{pids:?}");
}

#[test]
fn a_hangup_ends_a_run_unless_the_signal_was_ignored() {
    let site = Site::new("[job.a]\nrun = 'echo up > fifo; exec sleep 600'\n");
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml");
    fifo.wait();
    run.signal(Signal::HUP);
    assert_eq!(run.wait().0, Some(129));

    let site = Site::new("[job.a]\nrun = 'echo up > fifo; cat fifo2 > heard'\n");
    let (fifo, answer) = (site.fifo("fifo"), site.fifo("fifo2"));
    let bursar = env!("CARGO_BIN_EXE_bursar");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" run jobs.toml", bursar]).current_dir(site.path(""));
    shell
        .env("BURSAR_STATE_DIR", site.state_dir())
        .env("XDG_RUNTIME_DIR", site.path(""))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = shell.spawn().unwrap();
    fifo.wait();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::HUP).unwrap();
    answer.answer();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn nothing_new_starts_after_ctrl_c() {
    let site = Site::new(
        "[job.slow]\npriority = 9\nrun = '''trap 'sleep 0.3; exit 0' TERM; echo up > fifo; while :; do sleep 0.05; done'''\n\
         [job.other]\nforeach = { n = '1..50' }\nrun = 'echo {n} >> ran'\n",
    );
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml --jobs 1");
    fifo.wait();
    run.signal(Signal::INT);
    assert_eq!(run.wait().0, Some(130));
    assert!(site.lines("ran").is_empty());
    // It ended with 0, but because it was asked to: that is not done.
    assert_eq!(site.job("slow").state, State::Queued);
}

#[test]
fn a_wild_tree_is_gone_when_cancel_returns_and_the_rest_continues() {
    let site = Site::new(
        "[job.wild]\ngrace = '100ms'\nrun = '''setsid sh -c 'trap \"\" TERM HUP; echo $$ > pid; echo up > fifo; while :; do sleep 0.05; done' & exec sleep 600'''\n\
         [job.other]\nrun = 'cat fifo2 > other'\n",
    );
    let (fifo, answer) = (site.fifo("fifo"), site.fifo("fifo2"));
    let run = site.start("run jobs.toml --cpu 4");
    fifo.wait();
    let pid = fs::read_to_string(site.path("pid")).unwrap();
    assert!(is_alive(&pid));
    let id = site.newest().id;
    assert_code(&site.bursar(&format!("cancel {id} wild")), 0);
    assert!(!is_alive(&pid), "cancel returned and {pid} is still there");
    answer.answer();
    let (code, said) = run.wait();
    assert_eq!(code, Some(1), "{said}");
    assert_eq!((site.job("wild").state, site.job("other").state), (State::Cancelled, State::Succeeded));
    assert_eq!(site.newest().status, Status::Cancelled);
}

#[test]
fn after_ctrl_c_logs_and_show_count_the_attempts_that_began() {
    let site = Site::new("[job.p]\nrun = 'echo hello; echo up > fifo; exec sleep 600'\n");
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml");
    fifo.wait();
    run.signal(Signal::INT);
    assert_eq!(run.wait().0, Some(130));
    let output = site.bursar("logs p");
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), "hello\n");
    let show = text(&site.bursar("show").stdout);
    let row = show.lines().find(|line| line.starts_with("p ")).unwrap();
    assert_eq!(row.split_whitespace().nth(2), Some("1"), "{show}");
}

#[test]
fn a_keeper_that_was_stopped_does_not_keep_its_job_from_being_cancelled() {
    use rustix::process::kill_process;
    for ends in ["cancel", "cancel --now", "ctrl-c"] {
        let site = Site::new("[job.p]\ngrace = '100ms'\nrun = 'echo $$ > fifo; exec sleep 600'\n");
        let fifo = site.fifo("fifo");
        let run = site.start("run jobs.toml");
        let pid = fifo.wait();
        keepers(&site).into_iter().for_each(|keeper| kill_process(keeper, Signal::STOP).unwrap());
        if ends == "ctrl-c" {
            run.signal(Signal::INT);
        } else {
            site.bursar(ends);
        }
        let (_, said) = run.wait_at_most(std::time::Duration::from_secs(20));
        assert!(!is_alive(&pid), "{ends}: {said}");
    }
}
