//! `bursar run FILE`, undisturbed.

use std::fs;

use surface_journal::{State, Status};

use super::run_site::{Site, assert_code};
use super::text;

#[test]
fn jobs_run_after_what_they_need_and_success_is_0() {
    let site = Site::new(
        "[job.film]\nneeds = ['image', 'sound']\nrun = 'echo film >> order'\n\
         [job.image]\nforeach = { n = '1..3' }\nneeds = ['board']\nrun = 'echo image >> order'\n\
         [job.sound]\nneeds = ['board']\nrun = 'echo sound >> order'\n\
         [job.board]\nrun = 'echo board >> order'\n",
    );
    assert_code(&site.bursar("run jobs.toml"), 0);
    let order = site.lines("order");
    assert_eq!((order[0].as_str(), order[5].as_str(), order.len()), ("board", "film", 6));
    assert_eq!(site.newest().status, Status::Succeeded);
    assert!(site.states().iter().all(|(_, state)| *state == State::Succeeded), "{:?}", site.states());
    let job = site.job("film");
    assert_eq!((job.attempt, job.detail.code), (1, Some(0)));
    assert!(job.detail.peak_rss_kb > Some(0), "{job:?}");
}

#[test]
fn a_failure_takes_along_what_needs_it_and_nothing_else() {
    let site = Site::new(
        "[job.bad]\nrun = 'exit 3'\n[job.after]\nneeds = ['bad']\nrun = 'touch after'\n\
         [job.last]\nneeds = ['after']\nrun = 'touch last'\n[job.other]\nrun = 'touch other'\n",
    );
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 1);
    assert!(site.path("other").exists() && !site.path("after").exists() && !site.path("last").exists());
    assert_eq!(site.newest().status, Status::Failed);
    let (bad, after) = (site.job("bad"), site.job("after"));
    assert_eq!(
        (bad.state, bad.detail.error.as_deref(), bad.detail.code),
        (State::Failed, Some("exited with 3"), Some(3))
    );
    assert_eq!(after.state, State::Cancelled);
    assert_eq!(after.detail.error.as_deref(), Some("[3004] `bad`, which it needs, failed"));
}

#[test]
fn fail_fast_starts_nothing_after_the_first_failure() {
    let site = Site::new(
        "[job.bad]\npriority = 9\nrun = 'exit 1'\n[job.slow]\nforeach = { n = '1..5' }\nrun = 'sleep 0.3; echo {n} >> ran'\n",
    );
    assert_code(&site.bursar("run jobs.toml --fail-fast --jobs 1"), 1);
    // One may have started before the failure was heard of; it was cancelled.
    assert!(site.lines("ran").is_empty(), "{:?}", site.lines("ran"));
    assert_eq!(site.jobs().last().unwrap().detail.error.as_deref(), Some("cancelled: another job failed"));
    let site = Site::new(
        "[job.bad]\npriority = 9\nrun = 'exit 1'\n[job.good]\nforeach = { n = '1..5' }\nrun = 'echo {n} >> ran'\n",
    );
    assert_code(&site.bursar("run jobs.toml --jobs 1"), 1);
    assert_eq!(site.lines("ran").len(), 5);
}

#[test]
fn a_job_is_tried_again_as_often_as_it_may() {
    let job = "retries = 2\nbackoff = '10ms'\nrun = 'echo try >> tries; [ $(wc -l < tries) -ge 3 ]'\n";
    let site = Site::new(&format!("[job.flaky]\n{job}"));
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.lines("tries").len(), 3);
    let flaky = site.job("flaky");
    assert_eq!((flaky.state, flaky.attempt), (State::Succeeded, 3));
    let logs = fs::read_dir(site.journal().folder(&site.newest().id).join("logs")).unwrap().count();
    assert_eq!(logs, 3, "each attempt has its own log");
    let site = Site::new(&format!("[job.flaky]\n{}", job.replace("retries = 2", "retries = 1")));
    assert_code(&site.bursar("run jobs.toml"), 1);
    assert_eq!((site.lines("tries").len(), site.job("flaky").state), (2, State::Failed));
}

#[test]
fn a_job_over_its_time_or_its_memory_is_ended_and_says_so() {
    let site = Site::new(
        "[job.slow]\ntimeout = '200ms'\nrun = 'sleep 600'\n\
         [job.fat]\nram_limit = '50 MB'\nrun = 'head -c 300000000 /dev/zero | tail'\n",
    );
    assert_code(&site.bursar("run jobs.toml"), 1);
    assert_eq!(site.job("slow").detail.error.as_deref(), Some("ran longer than its timeout of 200 ms"));
    let said = site.job("fat").detail.error.unwrap();
    assert!(said.starts_with("used ") && said.ends_with(" MB, its limit is 50 MB: killed"), "{said}");
}

#[test]
fn at_most_so_many_jobs_run_at_once() {
    // `mkdir` fails if another one is between its two lines.
    let site = Site::new("[job.one]\nforeach = { n = '1..6' }\nrun = 'mkdir lock && sleep 0.02 && rmdir lock'\n");
    assert_code(&site.bursar("run jobs.toml --jobs 1 --cpu 8"), 0);
    let site = Site::new(
        "[resources]\ncpu = 8\nlicence = 1\n[job.one]\nforeach = { n = '1..6' }\nlicence = 1\nrun = 'mkdir lock && sleep 0.02 && rmdir lock'\n",
    );
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_code(&site.bursar("run jobs.toml --scheduler simple"), 0);
}

#[test]
fn what_is_up_to_date_is_not_made_again() {
    let file = "[job.copy]\ninputs = ['in']\noutputs = ['out']\nrun = 'echo ran >> ran; cp in out'\n\
                [job.sum]\nneeds = ['copy']\ninputs = ['out']\noutputs = ['sum']\nrun = 'echo sum >> ran; wc -c out > sum'\n";
    let site = Site::new(file);
    let runs = |what: &str, expected: usize, arguments: &str| {
        fs::write(site.path("ran"), "").unwrap();
        assert_code(&site.bursar(&format!("run jobs.toml {arguments}")), 0);
        assert_eq!(site.lines("ran").len(), expected, "{what}");
    };
    fs::write(site.path("in"), "1").unwrap();
    runs("nothing is there yet", 2, "");
    runs("all is there", 0, "");
    assert_eq!(site.job("copy").detail.how.as_deref(), Some("up to date"));
    runs("asked for", 2, "--force");
    let future = std::time::SystemTime::now() + std::time::Duration::from_secs(1);
    fs::File::options().append(true).open(site.path("in")).unwrap().set_modified(future).unwrap();
    runs("an input is newer", 2, "");
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    fs::File::options().append(true).open(site.path("in")).unwrap().set_modified(past).unwrap();
    runs("its time is another", 2, "");
    runs("all is there again", 0, "");
    site.write(&file.replace("cp in out", "cat in > out"));
    runs("the command has changed", 2, "");
    site.write(file);
    runs("and changed back", 2, "");
    runs("which was the last one", 0, "");
}

#[test]
fn only_a_part_of_a_file_can_be_run_and_a_dry_run_leaves_no_trace() {
    let site = Site::new(
        "[job.a]\nrun = 'echo a >> ran'\n[job.b]\nneeds = ['a']\nrun = 'echo b >> ran'\n[job.c]\nrun = 'echo c >> ran'\n",
    );
    let output = site.bursar("run jobs.toml --dry-run");
    assert_code(&output, 0);
    assert!(text(&output.stdout).contains("   3  b  cpu 1, ram 256 MB"), "{}", text(&output.stdout));
    assert!(!site.state_dir().exists() && !site.path("ran").exists());
    assert_code(&site.bursar("run jobs.toml --only b"), 0);
    assert_eq!(site.lines("ran"), ["a", "b"]);
    let output = site.bursar("run jobs.toml --dry-run");
    assert!(text(&output.stdout).contains("MB (from history)"), "{}", text(&output.stdout));
}

#[test]
fn what_is_wanted_of_a_file_does_not_swallow_its_name() {
    let site =
        Site::new("[job.cake]\nrun = 'touch cake'\n[job.tea]\nrun = 'touch tea'\n[job.other]\nrun = 'touch other'\n");
    assert_code(&site.bursar("run --only cake jobs.toml"), 0);
    assert!(site.path("cake").exists() && !site.path("tea").exists());
    assert_code(&site.bursar("run --only cake --only tea jobs.toml"), 0);
    assert!(site.path("tea").exists() && !site.path("other").exists());
}

#[test]
fn without_a_journal_nothing_is_left() {
    let site = Site::new("[job.a]\nrun = 'echo a >> ran'\n");
    assert_code(&site.bursar("run jobs.toml --no-journal"), 0);
    assert_eq!(site.lines("ran"), ["a"]);
    assert!(!site.state_dir().exists());
    assert_eq!(fs::read_dir(site.temporary()).unwrap().count(), 0);
}

#[test]
fn every_kind_of_failure_has_its_code() {
    let site = Site::new("[job.a]\nrun = 'true'\nretires = 2\n");
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 3);
    assert!(text(&output.stderr).contains("did you mean `retries`?"), "{}", text(&output.stderr));
    assert_code(&site.bursar("run no-such.toml"), 3);
    assert_code(&site.bursar("run"), 2);
    assert_code(&site.bursar("run jobs.toml --ram much"), 2);
    assert_code(&site.bursar("run --resume r-nope"), 4);
    assert_code(&site.bursar("run --resume"), 4);
    site.write("[job.a]\ncpu = 9\nrun = 'true'\n");
    let output = site.bursar("run jobs.toml --cpu 2");
    assert_code(&output, 3);
    assert!(
        text(&output.stderr).contains("[3001] job `a` wants 9 CPU slots but the hard limit is 2"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn hostile_names_stay_within_the_folder_of_the_run() {
    let site = Site::new(
        "[job.evil]\nforeach = { v = ['../../../../up', 'a/b', \"new\\nline\", '😀', '$(touch pwned)', '..'] }\nrun = 'echo said'\n",
    );
    assert_code(&site.bursar("run jobs.toml"), 0);
    let folder = site.journal().folder(&site.newest().id);
    let mut logs: Vec<String> = fs::read_dir(folder.join("logs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    logs.sort();
    assert_eq!(logs, ["0.1.log", "1.1.log", "2.1.log", "3.1.log", "4.1.log", "5.1.log"]);
    assert_eq!(fs::read_to_string(folder.join("logs/1.1.log")).unwrap(), "said\n");
    let mut left: Vec<_> = fs::read_dir(site.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["jobs.toml"]);
}

#[test]
fn a_thousand_jobs_of_one_failed_ancestor_end_at_once() {
    let site = Site::new(
        "[job.root]\nrun = 'exit 1'\n[job.leaf]\nforeach = { n = '1..1000' }\nneeds = ['root']\nrun = 'echo {n} >> ran'\n",
    );
    assert_code(&site.bursar("run jobs.toml --quiet"), 1);
    assert_eq!((site.newest().counts.cancelled, site.newest().counts.failed), (1000, 1));
    assert!(!site.path("ran").exists());
}

#[test]
fn two_runs_share_what_both_name() {
    // `mkdir` fails if a job of the other run is between its two lines.
    let site = Site::new(
        "[resources]\ncpu = 4\nlicence = 1\n\
         [job.one]\nforeach = { n = '1..10' }\nlicence = 1\nrun = 'mkdir lock && sleep 0.02 && rmdir lock'\n",
    );
    let both = [(), ()].map(|()| site.command(["run", "jobs.toml", "--quiet", "--beside"]).spawn().unwrap());
    for run in both {
        assert_code(&run.wait_with_output().unwrap(), 0);
    }
}

#[test]
fn how_many_jobs_one_run_starts_at_once_does_not_hold_up_another() {
    let site = Site::new("[job.one]\nrun = 'echo up > fifo; cat fifo2'\n");
    let (fifo, answer) = (site.fifo("fifo"), site.fifo("fifo2"));
    let run = site.start("run jobs.toml --jobs 1 --cpu 4");
    fifo.wait();
    let mut other = site.command(["run", "other.toml", "--jobs", "1", "--cpu", "4"]);
    fs::write(site.path("other.toml"), "[job.two]\nrun = 'true'\n").unwrap();
    assert_code(&other.output().unwrap(), 0);
    answer.answer();
    assert_eq!(run.wait().0, Some(0));
}

#[test]
fn the_log_of_a_job_has_its_limit_and_says_where_it_was_cut() {
    use std::os::unix::fs::MetadataExt;
    let site = Site::new("[job.loud]\nlog_limit = '10 MB'\nrun = 'echo first; yes | head -c 60000000; echo last'\n");
    assert_code(&site.bursar("run jobs.toml --quiet"), 0);
    let log = site.journal().folder(&site.newest().id).join("logs/0.1.log");
    let taken = fs::metadata(&log).unwrap().blocks() * 512;
    assert!(taken < 11_000_000, "it takes {taken} bytes of the disk");
    let said = text(&site.bursar("logs loud").stdout);
    assert!(said.starts_with("first\ny\n") && said.ends_with("y\nlast\n"), "{} bytes", said.len());
    let told = said.lines().filter(|line| !["", "y"].contains(line)).collect::<Vec<_>>();
    assert!(told.len() == 3 && told[1].contains("left out"), "{told:?}");
}

/// `bursar` on a machine that says what the file `meminfo` does; none where the system lets us make no such machine.
fn with_meminfo(site: &Site, words: &str) -> Option<std::process::Command> {
    let make = "mount --bind meminfo /proc/meminfo && exec \"$0\" \"$@\"";
    let in_it = |program: &std::ffi::OsStr| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "sh", "-c", make]).arg(program).current_dir(site.path(""));
        command
    };
    if !in_it("true".as_ref()).output().is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: no right to mount anything here");
        return None;
    }
    let direct = site.command(words.split(' '));
    let mut command = in_it(direct.get_program());
    command.args(direct.get_args());
    command.envs(direct.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Some(command)
}

#[test]
fn a_job_waits_for_memory_that_is_really_free_unless_overcommit_is_set() {
    let site = Site::new("[job.large]\nram = '20 GB'\nrun = 'echo x >> ran'\n");
    let free = |gb: u64| {
        let kb = |gb: u64| gb * 1_000_000_000 / 1024;
        fs::write(site.path("meminfo"), format!("MemTotal: {} kB\nMemAvailable: {} kB\n", kb(24), kb(gb))).unwrap();
    };
    free(18);
    let Some(command) = with_meminfo(&site, "run jobs.toml") else { return };
    let run = site.start_command(command);
    test_support::until(std::time::Duration::from_secs(30), "it says what it waits for", || {
        let why = text(&site.bursar("why large").stdout);
        assert!(!site.path("ran").exists(), "{why}");
        why.contains("needs 20.0 GB, ") && why.contains("free on this machine; other programs use the rest")
    });
    free(23);
    assert_eq!(run.wait().0, Some(0));
    free(18);
    assert_code(&with_meminfo(&site, "run jobs.toml --overcommit").unwrap().output().unwrap(), 0);
    assert_eq!(site.lines("ran").len(), 2);
}
