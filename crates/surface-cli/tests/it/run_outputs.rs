//! What a job says it makes: nothing is called made that is not there, or only half.

use std::fs;

use surface_journal::State;

use super::run_site::{Site, assert_code};
use super::text;

/// Starts with a whole `out`, then breaks the job in some way, then fixes it. `reader` must never have read half a file.
fn broken_then_fixed(site: &Site, break_it: impl FnOnce(&Site)) {
    fs::write(site.path("in"), "1").unwrap();
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.lines("read"), ["whole"]);
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(2);
    fs::File::options().append(true).open(site.path("in")).unwrap().set_modified(later).unwrap();
    break_it(site);
    assert_eq!(site.lines("read"), ["whole"], "what needs the file did not read half of it");
    // Older than the half file, so that time alone would call that up to date.
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(100);
    fs::File::options().append(true).open(site.path("in")).unwrap().set_modified(past).unwrap();
    fs::remove_file(site.path("bad")).unwrap();
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 0);
    assert_eq!(site.job("make").attempt, 1, "it ran, and was not called up to date: {}", text(&output.stderr));
    assert_eq!(site.lines("read"), ["whole", "whole"]);
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!((site.job("make").attempt, site.lines("read").len()), (0, 2), "now it is up to date");
}

/// Writes half, then does what the file `bad` says, if it is there.
const BREAKABLE: &str = "[job.make]\ninputs = ['in']\noutputs = ['out']\nINCOMPLETE\n\
    run = 'echo half > out; if [ -e bad ]; then . ./bad; fi; echo whole > out'\n\
    [job.read]\nneeds = ['make']\ninputs = ['out']\noutputs = ['done']\nrun = 'cat out >> read; touch done'\n";

fn site(incomplete: &str) -> Site {
    Site::new(&BREAKABLE.replace("INCOMPLETE", incomplete))
}

#[test]
fn half_a_file_of_a_job_that_failed_is_not_up_to_date() {
    for incomplete in ["", "incomplete = 'keep'"] {
        broken_then_fixed(&site(incomplete), |site| {
            fs::write(site.path("bad"), "exit 3").unwrap();
            assert_code(&site.bursar("run jobs.toml"), 1);
        });
    }
}

#[test]
fn half_a_file_of_a_job_that_was_killed_or_ran_out_of_time_is_not_up_to_date() {
    broken_then_fixed(&site(""), |site| {
        fs::write(site.path("bad"), "kill -9 $$").unwrap();
        assert_code(&site.bursar("run jobs.toml"), 1);
    });
    broken_then_fixed(&site("timeout = '300ms'"), |site| {
        fs::write(site.path("bad"), "sleep 600").unwrap();
        assert_code(&site.bursar("run jobs.toml"), 1);
    });
}

#[test]
fn half_a_file_of_a_job_that_was_cancelled_is_not_up_to_date() {
    broken_then_fixed(&site(""), |site| {
        fs::write(site.path("bad"), "echo begun > begun; exec sleep 600").unwrap();
        let begun = site.fifo("begun");
        let run = site.start("run jobs.toml");
        begun.wait();
        assert_code(&site.bursar("cancel make --now"), 0);
        assert_eq!(run.wait().0, Some(1));
    });
}

#[test]
fn half_a_file_that_a_run_without_a_journal_left_is_not_up_to_date() {
    broken_then_fixed(&site("incomplete = 'keep'"), |site| {
        fs::write(site.path("bad"), "exit 3").unwrap();
        assert_code(&site.bursar("run jobs.toml --no-journal"), 1);
        assert_eq!(site.lines("out"), ["half"]);
    });
}

#[test]
fn half_a_file_of_a_run_that_was_killed_is_not_up_to_date() {
    broken_then_fixed(&site(""), |site| {
        fs::write(site.path("bad"), "echo begun > begun; read line < gate; exit 3").unwrap();
        let (begun, gate) = (site.fifo("begun"), site.fifo("gate"));
        let run = site.start("run jobs.toml");
        begun.wait();
        run.kill();
        gate.answer(); // the job continues without its run, and fails
        site.until_no_job_runs();
    });
}

#[test]
fn what_a_failed_job_made_is_removed_unless_it_was_there_before_or_is_to_be_kept() {
    let file =
        "[job.make]\noutputs = ['new', 'old', 'folder']\nrun = 'mkdir folder; echo half | tee new >> old; exit 1'\n";
    let site = Site::new(file);
    fs::write(site.path("old"), "precious\n").unwrap();
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 1);
    assert!(!site.path("new").exists() && site.path("folder").exists());
    assert_eq!(site.lines("old"), ["precious", "half"], "what was there before is not ours to remove");
    let said = text(&output.stderr);
    for part in ["make: its incomplete output ", "/new was removed", "/old was there before, and is changed"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_code(&site.bursar("run jobs.toml --keep-incomplete"), 1);
    assert!(site.path("new").exists());
    let site = Site::new(&file.replace("outputs", "incomplete = 'keep'\noutputs"));
    assert_code(&site.bursar("run jobs.toml"), 1);
    assert!(site.path("new").exists());
}

#[test]
fn a_device_that_is_an_output_is_never_removed() {
    let site = Site::new("[job.make]\noutputs = ['pipe', 'link']\nrun = 'mkfifo pipe; ln -s /dev/null link; exit 1'\n");
    assert_code(&site.bursar("run jobs.toml"), 1);
    assert!(site.path("pipe").exists() && site.path("link").exists());
}

#[test]
fn an_output_that_is_not_there_after_an_exit_with_0_fails_the_job_and_is_named() {
    let site = Site::new(
        "[job.make]\noutputs = ['here', 'never']\nrun = 'touch here'\n[job.next]\nneeds = ['make']\nrun = 'touch next'\n",
    );
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 1);
    assert!(!site.path("next").exists());
    let job = site.job("make");
    let why = job.detail.error.unwrap();
    assert_eq!(job.state, State::Failed);
    assert!(why.starts_with("exited with 0, but did not make its output ") && why.ends_with("/never"), "{why}");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("did not make its output"), "{said}");
}

#[test]
fn an_output_that_was_changed_by_hand_is_made_again() {
    let site = Site::new("[job.make]\noutputs = ['out']\nrun = 'echo ran >> ran; echo whole > out'\n");
    assert_code(&site.bursar("run jobs.toml"), 0);
    fs::write(site.path("out"), "").unwrap();
    let output = site.bursar("run jobs.toml --dry-run");
    assert!(text(&output.stdout).contains("output out was changed since it was made"), "{}", text(&output.stdout));
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!((site.lines("out"), site.lines("ran").len()), (vec!["whole".to_owned()], 2));
}

#[test]
fn what_was_made_many_runs_ago_is_still_up_to_date() {
    let site = Site::new(
        "[job.make]\noutputs = ['out']\nrun = 'echo ran >> ran; echo whole > out'\n[job.often]\nrun = 'true'\n",
    );
    assert_code(&site.bursar("run jobs.toml"), 0);
    for _ in 0..12 {
        assert_code(&site.bursar("run jobs.toml --only often"), 0);
    }
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.lines("ran").len(), 1);
}

#[test]
fn a_pipeline_of_ten_broken_in_the_middle_three_ways_is_run_until_it_is_right() {
    // Each step adds its line to what the step before made. The fifth does what `bad` says, if it is there.
    let mut jobs = "[job.s1]\noutputs = ['o1']\nrun = 'echo 1 > o1'\n".to_owned();
    for step in 2..=10 {
        let before = step - 1;
        let breaks = if step == 5 { "if [ -e bad ]; then . ./bad; fi;" } else { "" };
        jobs.push_str(&format!(
            "[job.s{step}]\nneeds = 'inputs'\ninputs = ['o{before}']\noutputs = ['o{step}']\n\
             run = 'cat o{before} > o{step}; {breaks} echo {step} >> o{step}'\n",
        ));
    }
    let site = Site::new(&jobs);
    let right: Vec<String> = (1..=10).map(|step: u32| step.to_string()).collect();
    let is_right = |site: &Site| site.lines("o10") == right;
    let done = |site: &Site| site.jobs().iter().filter(|job| job.state == State::Succeeded).count();

    // It fails with half of its output written.
    fs::write(site.path("bad"), "exit 3").unwrap();
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 1);
    assert!(text(&output.stdout).contains("failed    s5: exited with 3"), "{}", text(&output.stdout));
    assert_eq!((done(&site), is_right(&site)), (4, false));

    // It says that all is well, and made nothing.
    fs::write(site.path("bad"), "rm o5; exit 0").unwrap();
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 1);
    let said = text(&output.stdout);
    assert!(said.contains("failed    s5") && said.contains("o5"), "{said}");
    assert_eq!((done(&site), is_right(&site)), (4, false), "the first four were up to date, nothing behind is done");

    // The run is killed in the middle of it, and the job a moment later.
    fs::write(site.path("bad"), "echo $$ > pid; echo up > fifo; exec sleep 600").unwrap();
    let fifo = site.fifo("fifo");
    let run = site.start("run jobs.toml");
    fifo.wait();
    run.kill();
    let pid = rustix::process::Pid::from_raw(site.lines("pid")[0].parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    site.until_no_job_runs();
    let output = site.bursar("run --resume");
    assert_code(&output, 1);
    assert_eq!((done(&site), is_right(&site)), (4, false), "{}", text(&output.stdout));

    // Then it is right; and after that, up to date.
    fs::remove_file(site.path("bad")).unwrap();
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert!(is_right(&site), "{:?}", site.lines("o10"));
    assert_eq!(site.jobs().iter().filter(|job| job.attempt > 0).count(), 6, "s5 to s10 ran, the others were whole");
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert!(site.jobs().iter().all(|job| job.attempt == 0), "all is up to date");
}

#[test]
fn a_half_file_of_a_job_that_failed_after_its_run_was_killed_is_reported() {
    let site = Site::new(
        "[job.make]\noutputs = ['out']\nrun = 'echo half > out; echo begun > begun; read line < gate; exit 3'\n",
    );
    let (begun, gate) = (site.fifo("begun"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    begun.wait();
    run.kill();
    gate.answer();
    site.until_no_job_runs();
    let output = site.bursar("run --resume");
    assert_code(&output, 1);
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(said.contains("out may be incomplete, and stays"), "{said}");
    assert_eq!(site.lines("out"), ["half"]);
}

#[test]
fn a_half_file_of_a_job_that_was_cancelled_after_its_run_was_killed_is_reported() {
    let site =
        Site::new("[job.make]\noutputs = ['out']\nrun = 'echo half > out; echo begun > begun; read line < gate'\n");
    let (begun, _gate) = (site.fifo("begun"), site.fifo("gate"));
    let run = site.start("run jobs.toml");
    begun.wait();
    run.kill();
    let output = site.bursar("cancel latest");
    assert_code(&output, 0);
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(said.contains("out may be incomplete, and stays"), "{said}");
}

#[test]
fn a_folder_that_a_failed_job_made_is_reported() {
    let site = Site::new("[job.make]\noutputs = ['dir']\nrun = 'mkdir dir; echo half > dir/a; exit 3'\n");
    let output = site.bursar("run jobs.toml");
    assert_code(&output, 1);
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(said.contains("dir is incomplete, and stays"), "{said}");
}

#[test]
fn a_failing_job_cannot_remove_a_file_that_another_makes_under_another_spelling() {
    let site = Site::new("");
    fs::create_dir(site.path("sub")).unwrap();
    std::os::unix::fs::symlink(site.path("sub"), site.path("link")).unwrap();
    let absolute = site.path("same.txt").display().to_string();
    for (first, second) in
        [("same.txt", "./same.txt"), ("same.txt", "sub/../same.txt"), ("same.txt", &absolute), ("sub/x", "link/x")]
    {
        site.write(&format!(
            "[job.good]\noutputs = ['{first}']\nrun = 'echo good > {first}'\n\
             [job.bad]\noutputs = ['{second}']\nneeds = ['good']\nrun = 'rm -f {second}; exit 1'\n"
        ));
        for words in ["check jobs.toml", "run jobs.toml"] {
            let output = site.bursar(words);
            assert_code(&output, 3);
            assert!(text(&output.stderr).contains("both write"), "{}", text(&output.stderr));
        }
    }
}

#[test]
fn an_input_that_is_spelled_differently_is_needed_all_the_same() {
    let site = Site::new("");
    let absolute = site.path("made").display().to_string();
    for (output, input) in [("made", absolute.as_str()), (absolute.as_str(), "made")] {
        site.write(&format!(
            "[job.read]\nneeds = 'inputs'\ninputs = ['{input}']\nrun = 'cat {input}'\n\
             [job.make]\noutputs = ['{output}']\nrun = 'sleep 0.1; echo x > {output}'\n"
        ));
        assert_code(&site.bursar("run jobs.toml"), 0);
        fs::remove_file(site.path("made")).unwrap();
    }
}

#[test]
fn an_input_that_no_job_makes_and_that_is_not_there_is_a_mistake_where_needs_are_left_to_inputs() {
    let site = Site::new("");
    fs::write(site.path("there"), "").unwrap();
    for input in ["mdae", "mdae-*"] {
        site.write(&format!(
            "[job.make]\noutputs = ['made']\nrun = 'touch made'\n\
             [job.read]\nneeds = 'inputs'\ninputs = ['there', '{input}']\nrun = 'touch ran'\n"
        ));
        for words in ["check jobs.toml", "run jobs.toml"] {
            let output = site.bursar(words);
            assert_code(&output, 3);
            let said = text(&output.stderr);
            assert!(said.contains(&format!("`{input}`")) && said.contains("no job makes"), "{said}");
        }
    }
    assert!(!site.path("ran").exists());
}

#[test]
fn a_file_whose_name_is_no_text_is_a_mistake_and_not_left_out() {
    use std::os::unix::ffi::OsStrExt;
    let site = Site::new("[job.a]\nforeach = { f = 'glob:img/*.png' }\ncommand = ['echo', '{f}']\n");
    fs::create_dir(site.path("img")).unwrap();
    fs::write(site.path("img/a.png"), "").unwrap();
    fs::write(site.path("img").join(std::ffi::OsStr::from_bytes(b"\xff.txt")), "").unwrap();
    assert_code(&site.bursar("check jobs.toml"), 0);
    fs::write(site.path("img").join(std::ffi::OsStr::from_bytes(b"\xff.png")), "").unwrap();
    let output = site.bursar("check jobs.toml");
    assert_code(&output, 3);
    let said = text(&output.stderr);
    assert!(said.contains(".png") && said.contains("UTF-8"), "{said}");
}

/// Runs, then does something, then runs again: how often the job ran.
fn runs_again_after(site: &Site, job: &str, change: impl FnOnce(&Site)) -> bool {
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.job(job).attempt, 0, "it is up to date");
    change(site);
    assert_code(&site.bursar("run jobs.toml"), 0);
    let again = site.job(job).attempt == 1;
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.job(job).attempt, 0, "and then it is again");
    again
}

/// Gives a file an old time.
fn age(site: &Site, name: &str) {
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(1_000);
    fs::File::options().append(true).open(site.path(name)).unwrap().set_modified(past).unwrap();
}

#[test]
fn a_job_runs_again_when_what_it_reads_is_another_whatever_its_time() {
    let site =
        Site::new("[job.sum]\ninputs = ['in/*.t', 'folder']\noutputs = ['out']\nrun = 'cat in/*.t folder/* > out'\n");
    for name in ["in", "folder"] {
        fs::create_dir(site.path(name)).unwrap();
    }
    for name in ["in/a.t", "in/b.t", "folder/c"] {
        fs::write(site.path(name), name).unwrap();
        age(&site, name);
    }
    assert!(runs_again_after(&site, "sum", |site| fs::remove_file(site.path("in/b.t")).unwrap()), "one is gone");
    let moved = |site: &Site| {
        fs::write(site.path("older"), "moved").unwrap();
        age(site, "older");
        fs::rename(site.path("older"), site.path("in/a.t")).unwrap();
    };
    assert!(runs_again_after(&site, "sum", moved), "another took its place, with an old time");
    let deep = |site: &Site| {
        fs::write(site.path("folder/c"), "changed").unwrap();
        age(site, "folder/c");
    };
    assert!(runs_again_after(&site, "sum", deep), "a file in a folder is another");
    assert!(!runs_again_after(&site, "sum", |_| ()));
}

#[test]
fn an_input_that_was_changed_while_its_job_ran_makes_it_run_again() {
    let site = Site::new(
        "[job.copy]\ninputs = ['in']\noutputs = ['out']\nrun = 'x=$(cat in); [ -e calm ] || echo 2 > in; echo $x > out'\n",
    );
    fs::write(site.path("in"), "1\n").unwrap();
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!((site.lines("in"), site.lines("out")), (vec!["2".to_owned()], vec!["1".to_owned()]));
    fs::write(site.path("calm"), "").unwrap();
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.lines("out"), ["2"]);
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.job("copy").attempt, 0);
}

#[test]
fn a_job_runs_again_when_what_it_needs_was_made_anew_without_it() {
    let site = Site::new(
        "[job.a]\ninputs = ['in']\noutputs = ['mid']\nrun = 'cat in > mid'\n\
         [job.b]\nneeds = ['a']\noutputs = ['out']\nrun = 'cat mid > out'\n",
    );
    fs::write(site.path("in"), "1\n").unwrap();
    let only_a = |site: &Site| {
        fs::write(site.path("in"), "2\n").unwrap();
        assert_code(&site.bursar("run jobs.toml --only a"), 0);
    };
    assert!(runs_again_after(&site, "b", only_a));
    assert_eq!(site.lines("out"), ["2"]);
}

#[test]
fn of_a_file_that_runs_already_no_job_is_started_twice() {
    let site = Site::new(
        "[job.long]\noutputs = ['out']\nrun = 'echo up > fifo; read x < gate; echo x >> out'\n[job.other]\nrun = 'true'\n",
    );
    let (fifo, gate) = (site.fifo("fifo"), site.fifo("gate"));
    let first = site.start("run jobs.toml");
    fifo.wait();
    for command in ["run jobs.toml", "run jobs.toml --no-journal", "run jobs.toml --only long"] {
        let output = site.bursar(command);
        assert_code(&output, 1);
        let said = text(&output.stderr);
        assert!(said.contains("have not ended: long") && said.contains("--beside"), "{said}");
    }
    // One that has ended may be run again, as soon as the journal knows.
    let since = std::time::Instant::now();
    while site.bursar("run jobs.toml --only other").status.code() != Some(0) {
        assert!(since.elapsed() < std::time::Duration::from_secs(20), "the journal does not hear of its end");
    }
    gate.answer();
    assert_eq!(first.wait().0, Some(0));
    assert_code(&site.bursar("run jobs.toml"), 0);
    assert_eq!(site.lines("out"), ["x"]);
}

#[test]
fn of_two_runs_that_begin_at_once_one_is_refused() {
    let site = Site::new("[job.long]\nrun = 'echo x >> ran; read x < gate'\n");
    let gate = site.fifo("gate");
    let mut both = [site.start("run jobs.toml"), site.start("run jobs.toml")];
    let over = loop {
        if let Some(at) = both.iter_mut().position(|run| run.child.try_wait().unwrap().is_some()) {
            break at;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    let [first, second] = both;
    let (refused, goes_on) = if over == 0 { (first, second) } else { (second, first) };
    let (code, said) = refused.wait();
    assert!(code == Some(1) && said.contains("They would run twice"), "{code:?}: {said}");
    gate.answer();
    assert_eq!(goes_on.wait().0, Some(0));
    assert_eq!(site.lines("ran"), ["x"]);
}

#[test]
fn a_resumed_run_makes_again_what_is_gone_and_needed() {
    let site = Site::new(
        "[job.a]\noutputs = ['mid']\nrun = 'echo a >> ran; echo 1 > mid'\n[job.used]\nneeds = ['a']\noutputs = ['spare']\nrun = 'echo used >> ran; touch spare'\n\
         [job.b]\nneeds = ['a', 'used']\nrun = '[ -e good ] && cat mid > out'\n",
    );
    assert_code(&site.bursar("run jobs.toml"), 1);
    fs::remove_file(site.path("mid")).unwrap();
    fs::write(site.path("good"), "").unwrap();
    let output = site.bursar("run --resume latest --retry-failed");
    assert_code(&output, 0);
    assert!(text(&output.stderr).contains("outputs of these jobs are missing, so they are started again: a\n"));
    assert_eq!(site.lines("ran"), ["a", "used", "a"], "what is there is not made again");
    assert_eq!(site.lines("out"), ["1"]);
}

#[test]
fn a_dry_run_into_a_closed_pipe_does_not_panic() {
    let site = Site::new("[job.a]\nrun = 'true'\n");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = site.command(["run", "jobs.toml", "--dry-run"]);
    assert_eq!(command.stdout(full).status().unwrap().code(), Some(1));
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = site.command(["run", "jobs.toml", "--dry-run"]);
    assert_eq!(command.stdout(writer).status().unwrap().code(), Some(0));
}
