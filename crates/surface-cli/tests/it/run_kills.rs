//! Runs and keepers that are killed or stopped at random moments, and another user beside them.
//!
//! # Invariant
//! After `kill -9` of a run at any moment, and with keepers stopped at any moment, a resumed run has every effect exactly once. A keeper that is
//! killed takes the end of its job with it: that job is told as lost, never as done, and nothing of it runs on. Another user changes nothing of ours.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use surface_journal::{Filter, State, Status};
use test_support::Dice;

use super::run_site::{Site, Started, assert_code};
use super::text;

/// What is done to a run, so often.
#[derive(Debug, Default)]
struct Done {
    kills: u32,
    /// Keepers that were stopped before their run was killed.
    stops: u32,
}

/// The keepers of a place that live now.
pub(crate) fn keepers(site: &Site) -> Vec<Pid> {
    let home = site.state_dir();
    let is_named_so = |pid: &Pid| {
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_pid())).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.nth(1) == Some(b"keep")
            && words.next().is_some_and(|word| word.starts_with(home.as_os_str().as_encoded_bytes()))
    };
    let parent_of = |pid: Pid| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?;
        Pid::from_raw(stat.rsplit(") ").next()?.split(' ').nth(1)?.parse().ok()?)
    };
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    let all = names.filter_map(|name| Pid::from_raw(name.parse().ok()?)).filter(is_named_so);
    // A job that is just being started is still called as its keeper is.
    all.filter(|pid| parent_of(*pid).is_some_and(|parent| !is_named_so(&parent))).collect()
}

/// Waits so long, or until the run has ended; `true` if it has.
fn ends_within(run: &mut Started, time: Duration) -> bool {
    // The moment is the point of these tests: no event could be waited for instead.
    let until = Instant::now() + time;
    loop {
        if run.child.try_wait().unwrap().is_some() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Kills a run of 200 jobs at random moments until it is through; every effect must be there exactly once. If asked to, keepers are stopped a
/// moment before the run is killed.
fn kill_until_done(seed: u64, stop: bool, done: &mut Done) {
    let site = Site::new(
        "[job.one]\nforeach = { n = '1..150' }\nrun = 'sleep 0.0$(({n} % 5)); echo x >> out/{n}'\n\
         [job.two]\nforeach = { n = '151..200' }\nneeds = ['one[7]', 'one[99]']\nrun = 'echo x >> out/{n}'\n",
    );
    fs::create_dir(site.path("out")).unwrap();
    let dice = Dice::new(seed);
    let mut run = site.start("run jobs.toml --cpu 4 --quiet");
    for round in 0_u64.. {
        // Later ones come later: on a busy machine the first may all be too soon for anything to happen.
        let mut ended = ends_within(&mut run, Duration::from_millis(5 + dice.below(200 + 20 * round)));
        if stop && !ended {
            for keeper in keepers(&site) {
                if dice.below(2) == 0 && kill_process(keeper, Signal::STOP).is_ok() {
                    done.stops += 1;
                }
            }
            // With a stopped keeper it cannot end; without one it may.
            ended = ends_within(&mut run, Duration::from_millis(dice.below(20)));
        }
        if ended {
            let (code, said) = run.wait();
            assert_eq!(code, Some(0), "seed {seed}, round {round}: it said:\n{said}");
            break;
        }
        assert!(round < 200, "seed {seed}: it does not come to an end");
        run.kill();
        done.kills += 1;
        // Killed before it had begun, or after its last word, there is nothing to resume.
        let begun = site.state_dir().join("journal.db").exists();
        let runs = if begun { site.journal().runs(Filter::default()).unwrap() } else { Vec::new() };
        run = match runs.first().map(|run| run.status) {
            Some(Status::Succeeded) => break,
            Some(_) => site.start("run --resume --cpu 4 --quiet"),
            None => site.start("run jobs.toml --cpu 4 --quiet"),
        };
    }
    for n in 1..=200 {
        let lines = site.lines(&format!("out/{n}"));
        assert_eq!(lines.len(), 1, "seed {seed}: job {n} ran {} times", lines.len());
    }
    assert_eq!(site.newest().status, Status::Succeeded, "seed {seed}");
    assert!(site.jobs().iter().all(|job| job.state == State::Succeeded), "seed {seed}");
    // Idle ones may have been stopped in their last moment.
    for keeper in keepers(&site) {
        let _ = kill_process(keeper, Signal::CONT);
    }
}

#[test]
fn after_kill_nine_at_any_moment_every_job_has_run_exactly_once() {
    let mut done = Done::default();
    for seed in 0..3 {
        kill_until_done(seed, false, &mut done);
    }
    assert!(done.kills >= 3, "only {done:?}: the run is too quick for this test");
}

#[test]
fn keepers_that_are_stopped_when_their_run_is_killed_go_on_with_it() {
    let mut done = Done::default();
    kill_until_done(0, true, &mut done);
    assert!(done.stops > 0, "{done:?}: the run is too quick for this test");
}

#[test]
#[ignore = "minutes; `cargo xtask test kills`"]
fn after_kill_nine_at_fifty_moments_and_more_every_job_has_run_exactly_once() {
    let mut done = Done::default();
    let mut seed = 1_000;
    while done.kills < 50 {
        kill_until_done(seed, false, &mut done);
        seed += 1;
    }
    println!("{done:?}, seeds 1000..{seed}");
}

#[test]
#[ignore = "minutes; `cargo xtask test kills`"]
fn after_keepers_were_stopped_at_fifty_moments_every_job_has_run_exactly_once() {
    let mut done = Done::default();
    let mut seed = 2_000;
    while done.kills < 50 {
        kill_until_done(seed, true, &mut done);
        seed += 1;
    }
    println!("{done:?}, seeds 2000..{seed}");
}

/// What is said of a job whose keeper was killed.
const LOST: &str = "its exit status is not known";

/// Kills keepers of a run at random moments, and looks what is told of their jobs. How many jobs were lost.
fn kill_keepers(seed: u64) -> usize {
    let site = Site::new(
        "[job.one]\nforeach = { n = '1..60' }\nrun = 'echo x >> begun/{n}; sleep 0.0$(({n} % 7)); echo x >> ended/{n}'\n\
         [job.two]\nforeach = { n = '61..70' }\nneeds = ['one[7]', 'one[59]']\nrun = 'echo x >> begun/{n}; echo x >> ended/{n}'\n",
    );
    fs::create_dir(site.path("begun")).unwrap();
    fs::create_dir(site.path("ended")).unwrap();
    let dice = Dice::new(seed);
    let mut run = site.start("run jobs.toml --cpu 4");
    while !ends_within(&mut run, Duration::from_millis(1 + dice.below(60))) {
        let all = keepers(&site);
        if let Some(keeper) = all.get(dice.below(all.len().max(1) as u64) as usize) {
            let _ = kill_process(*keeper, Signal::KILL);
        }
    }
    let (code, said) = run.wait();
    assert_eq!(keepers(&site), [], "seed {seed}: keepers are left");
    let mut lost = 0;
    for job in site.jobs() {
        let number = job.name.trim_start_matches(|c: char| !c.is_ascii_digit()).trim_end_matches(']');
        let times = ["begun", "ended"].map(|place| site.lines(&format!("{place}/{number}")).len());
        let error = job.detail.error.unwrap_or_default();
        let is_true = match job.state {
            State::Succeeded => times == [1, 1],
            // It may have been killed before, amid or after its effects; nothing of it comes later or again.
            State::Failed => error.contains(LOST) && times[0] <= 1 && times[1] <= times[0],
            State::Cancelled => times == [0, 0],
            _ => false,
        };
        assert!(
            is_true,
            "seed {seed}: {} is {:?} ({error}), with effects {times:?}; it said:\n{said}",
            job.name, job.state
        );
        lost += usize::from(job.state == State::Failed);
    }
    assert_eq!(code, Some(i32::from(lost > 0)), "seed {seed}: {lost} jobs are lost; it said:\n{said}");
    lost
}

#[test]
fn a_job_whose_keeper_is_killed_is_reported_as_lost_and_never_as_done() {
    assert!((0..4).map(kill_keepers).sum::<usize>() > 0, "no job was lost: the run is too quick for this test");
}

#[test]
fn a_job_that_was_lost_with_run_and_keeper_is_reported_as_lost_and_fails_if_it_says_so() {
    for choice in ["fail", "adopt"] {
        let site = Site::new(&format!(
            "[job.long]\non_crash = '{choice}'\nrun = 'echo x >> ran; [ -e again ] || (echo up > fifo; read x < gate)'\n"
        ));
        let (fifo, _gate) = (site.fifo("fifo"), site.fifo("gate"));
        let run = site.start("run jobs.toml");
        fifo.wait();
        fs::write(site.path("again"), "").unwrap();
        run.kill();
        let all = keepers(&site);
        assert_eq!(all.len(), 1);
        kill_process(all[0], Signal::KILL).unwrap();
        let (code, said) = site.start("run --resume").wait();
        let error = site.job("long").detail.error.unwrap_or_default();
        if choice == "fail" {
            assert_eq!((code, site.lines("ran").len()), (Some(1), 1), "{said}");
            assert!(error.contains("`on_crash` is `fail`"), "{error}; it said:\n{said}");
        } else {
            assert_eq!((code, site.lines("ran").len()), (Some(0), 2), "{said}");
            assert!(said.contains("it is not known how these jobs ended") && said.contains("again: long"), "{said}");
        }
    }
}

#[test]
#[ignore = "minutes; `cargo xtask test kills`"]
fn jobs_whose_keepers_are_killed_at_fifty_moments_are_reported_as_lost() {
    let (mut seed, mut lost) = (3_000, 0);
    while lost < 50 {
        lost += kill_keepers(seed);
        seed += 1;
    }
    println!("{lost} jobs lost with their keepers, seeds 3000..{seed}");
}

/// A user who owns nothing.
const OTHER: u32 = 65_534;

/// The command as another user runs it, in the folder and with the state of this place.
fn as_other(site: &Site, binary: &Path, words: &str, state: &Path, runtime: &Path) -> Command {
    let mut command = Command::new(binary);
    command.args(words.split_whitespace()).current_dir(site.path("")).uid(OTHER).gid(OTHER);
    command.env("BURSAR_STATE_DIR", state).env("XDG_RUNTIME_DIR", runtime).env("HOME", "/");
    command
}

fn all_text(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// Every file below, with what is in it; of those that a run writes all the time, only that they are there.
fn contents(folder: &Path) -> Vec<(PathBuf, u32, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let about = fs::symlink_metadata(&path).unwrap();
        let size = if path.to_string_lossy().contains("journal.db") { 0 } else { about.len() };
        found.push((path.clone(), about.permissions().mode(), if about.is_dir() { 0 } else { size }));
        if about.is_dir() {
            found.extend(contents(&path));
        }
    }
    found.sort();
    found
}

#[test]
fn another_user_runs_beside_us_and_changes_nothing_of_ours() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can be another user");
    }
    let site = Site::new("[job.long]\nrun = 'echo x >> ran; echo up > fifo; read x < gate; echo done >> ran'\n");
    let (fifo, gate) = (site.fifo("fifo"), site.fifo("gate"));
    // The other user can come as far as our state folder, and has one of its own.
    let place = site.state_dir().parent().unwrap().to_owned();
    for folder in [place.clone(), site.path("")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (binary, theirs) = (place.join("bursar-for-all"), place.join("theirs"));
    fs::copy(env!("CARGO_BIN_EXE_bursar"), &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(&theirs).unwrap();
    fs::write(theirs.join("own.toml"), "[job.own]\nrun = 'id -u > own'\n").unwrap();
    std::os::unix::fs::chown(&theirs, Some(OTHER), Some(OTHER)).unwrap();

    let run = site.start("run jobs.toml");
    fifo.wait();
    let id = site.newest().id;
    let beside = |ours_is_open: bool| {
        // Its own run, beside ours.
        let mut own = as_other(&site, &binary, "run own.toml", &theirs.join("state"), &theirs);
        let output = own.current_dir(&theirs).output().unwrap();
        assert_code(&output, 0);
        assert_eq!(fs::read_to_string(theirs.join("own")).unwrap().trim(), OTHER.to_string());
        // Ours, by every command that changes something.
        let before = contents(&site.state_dir());
        for words in [
            format!("run --resume {id}"),
            format!("run --resume {id} --retry-failed"),
            format!("cancel {id} --now"),
            format!("pause {id}"),
            format!("resume {id}"),
            format!("retry {id} long"),
            "prune --keep 0".to_owned(),
            "run jobs.toml --beside".to_owned(),
        ] {
            let output = as_other(&site, &binary, &words, &site.state_dir(), &place).output().unwrap();
            let said = all_text(&output);
            assert!(!output.status.success(), "`{words}`, open: {ours_is_open}: it said:\n{said}");
            assert!(said.contains("ermission denied") || said.contains("belongs to user 0"), "`{words}`: {said}");
        }
        assert_eq!(contents(&site.state_dir()), before, "open: {ours_is_open}");
        assert_eq!(site.lines("ran"), ["x"], "open: {ours_is_open}");
    };
    beside(false);
    // A folder that was opened to all by mistake lets others look, and no more.
    let folders = [site.state_dir(), site.state_dir().join("runs"), site.state_dir().join("runs").join(id.as_str())];
    for folder in &folders {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    beside(true);
    run.kill();
    beside(true);
    let run = site.start("run --resume");
    gate.answer();
    let (code, said) = run.wait();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(site.lines("ran"), ["x", "done"]);
    // Nor do we resume theirs.
    let output = site.command(["run", "--resume"]).env("BURSAR_STATE_DIR", theirs.join("state")).output().unwrap();
    assert!(!output.status.success());
    assert!(all_text(&output).contains("belongs to user 65534"), "{}", all_text(&output));
}
