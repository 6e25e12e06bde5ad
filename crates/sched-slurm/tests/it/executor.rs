//! The executor over a cluster that loses answers, forgets jobs, and starts them twice.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use sched_jobs::{AttemptId, Cause, Jobs, State};
use sched_slurm::{Left, Remains, Site, SlurmError, VramAs, left};

use crate::fake::{Fake, Mood, run};
use crate::play::{EFFECT, LONG, ONE, Play, slurm};

#[test]
fn a_graph_runs_and_no_job_needs_more_than_two_calls() {
    let play = Play::new(true);
    for n in 0..30 {
        let job = play.job(&format!("{n}"), EFFECT);
        play.jobs.submit(if n < 10 { job } else { job.needs(format!("{}", n - 10)) }).unwrap();
    }
    play.ends();
    let state = play.fake.state();
    assert_eq!((play.effects(), state.submits), (30, 30));
    assert!(state.queries <= 30, "{} questions", state.queries);
}

#[test]
fn an_answer_that_is_lost_costs_no_second_effect() {
    let play = Play::new(true);
    play.fake.state().moods = vec![Mood::AcceptSilently, Mood::Silent, Mood::Silent];
    play.jobs.submit(play.job("a", &format!("sleep 2; {EFFECT}"))).unwrap();
    play.ends();
    assert_eq!(play.effects(), 1);
    assert_eq!(play.fake.state().submits, 1, "it was found in the queue");
}

#[test]
fn a_call_that_never_arrived_is_made_again() {
    let play = Play::new(true);
    play.fake.state().moods = vec![Mood::Silent];
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (1, 2));
}

#[test]
fn a_forgotten_submission_whose_id_another_job_has_is_submitted_again() {
    let play = Play::new(false);
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    play.until(|fake| fake.state().jobs.contains_key(&ONE));
    let lost = play.fake.forget(1);
    let mut other = lost.submission.clone();
    other.description.comment = "of another user".to_owned();
    {
        let mut state = play.fake.state();
        (state.starts, state.last_id) = (true, 1);
        state
            .jobs
            .insert(ONE, crate::fake::Job { fate: Some("FAILED"), node: Some("n1"), ..crate::fake::Job::new(&other) });
    }
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (1, 2));
    // The lost one turns up again, and does nothing.
    let again = run(ONE, &lost.submission).wait().unwrap();
    assert!(again.success() && play.effects() == 1);
}

#[test]
fn a_controller_that_is_down_for_a_while_delays_and_breaks_nothing() {
    let play = Play::new(true);
    play.fake.state().is_down = true;
    for n in 0..5 {
        play.jobs.submit(play.job(&format!("{n}"), EFFECT)).unwrap();
    }
    sleep(Duration::from_secs(2));
    assert_eq!(play.effects(), 0);
    let first = AttemptId { job: play.jobs.statuses()[0].id, attempt: 1 };
    let words = play.slurm.status(first).unwrap();
    assert!(words.ends_with("Slurm does not answer: down"), "{words}");
    play.fake.state().is_down = false;
    play.ends();
    assert_eq!(play.effects(), 5);
}

#[test]
fn a_refusal_is_final_and_names_the_reason() {
    let play = Play::new(true);
    play.fake.state().moods = vec![Mood::Refuse];
    play.jobs.submit(play.job("a", EFFECT).retries(3)).unwrap();
    assert_eq!(play.fails(), Cause::Permanent("Slurm refuses it: Invalid account".to_owned()));
    assert_eq!((play.effects(), play.fake.state().submits), (0, 1));
}

#[test]
fn what_vanishes_while_it_runs_has_failed_and_says_so() {
    let play = Play::new(true);
    play.jobs.submit(play.job("a", "sleep 5")).unwrap();
    play.until(|fake| fake.state().jobs.contains_key(&ONE));
    sleep(Duration::from_millis(300));
    {
        let mut state = play.fake.state();
        let job = state.jobs.get_mut(&ONE).unwrap();
        let script = job.script.as_mut().unwrap();
        script.kill().unwrap();
        job.fate = Some("NODE_FAIL");
    }
    assert_eq!(play.fails(), Cause::Error("its node failed while its command ran".to_owned()));
}

/// Each of these takes the rest of the script along, so no mark of the end is written.
#[test]
fn a_prologue_that_takes_its_script_along_is_named_and_the_command_never_began() {
    let prologues = [
        ("exit 3", 3),
        ("exec sh -c 'exit 3'", 3),
        ("trap 'echo bye' EXIT; exit 3", 3),
        ("kill -KILL $$", 137),
        ("exec true", 0),
    ];
    for (prologue, code) in prologues {
        let play = Play::with_prologue(prologue);
        play.jobs.submit(play.job("a", EFFECT)).unwrap();
        let Cause::Error(why) = play.fails() else { panic!("{prologue}: it may be tried again") };
        let said = format!("the prologue of [slurm] ended with code {code} before its command began");
        assert!(why.starts_with(&said), "{prologue}: {why}");
        assert_eq!(play.effects(), 0, "{prologue}");
    }
}

#[test]
fn a_prologue_that_dies_is_a_failed_attempt_that_is_retried() {
    let play = Play::with_prologue("echo >>attempts; [ $(wc -l <attempts) = 2 ] || exec sh -c 'exit 3'");
    play.jobs.submit(play.job("a", EFFECT).retries(1)).unwrap();
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (1, 2));
    let marks = std::fs::read_dir(play.marks()).unwrap();
    let left =
        marks.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|ending| ending == "prologue"));
    assert_eq!(left.count(), 1, "of the attempt that failed in it");
}

#[test]
fn what_slurm_cancels_in_the_prologue_was_not_cancelled_while_its_command_ran() {
    let play = Play::with_prologue("touch ready; exec sleep 60");
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    play.until(|_| play.folder.path().join("ready").exists());
    {
        let mut state = play.fake.state();
        let job = state.jobs.get_mut(&ONE).unwrap();
        job.script.as_mut().unwrap().kill().unwrap();
        job.fate = Some("CANCELLED");
    }
    let said = "was cancelled in Slurm while the prologue of [slurm] ran, before its command began".to_owned();
    assert_eq!(play.fails(), Cause::Error(said));
}

#[test]
fn what_is_cancelled_in_slurm_before_it_begins_has_failed_and_never_begins() {
    let play = Play::new(false);
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    play.until(|fake| fake.state().jobs.contains_key(&ONE));
    play.fake.state().jobs.get_mut(&ONE).unwrap().fate = Some("CANCELLED");
    assert_eq!(play.fails(), Cause::Error("was cancelled in Slurm before its command began".to_owned()));
    play.fake.start(1);
    sleep(Duration::from_millis(300));
    assert_eq!(play.effects(), 0);
}

/// As after a crash of slurmctld: the node runs a forgotten job with the id, so it does not start this one, and Slurm calls it cancelled.
#[test]
fn what_a_node_could_not_start_is_submitted_again() {
    let play = Play::new(true);
    play.fake.state().moods = vec![Mood::FailToLaunch; 2];
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (1, 3));
}

/// As after a crash of slurmctld, which then lists jobs for minutes that no node has.
#[test]
fn what_slurm_says_runs_and_no_node_has_is_submitted_again() {
    let play = Play::new(true);
    play.fake.state().moods = vec![Mood::Ghost];
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (1, 2));
}

#[test]
fn what_no_node_can_start_has_failed_after_a_few_times() {
    let play = Play::new(true);
    play.fake.state().moods = vec![Mood::FailToLaunch; 100];
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    let cause = format!("{:?}", play.fails());
    assert!(cause.contains("Slurm started it 5 times") && cause.contains("BURSAR_STATE_DIR"), "{cause}");
    assert_eq!((play.effects(), play.fake.state().submits), (0, 5));
}

#[test]
fn a_cancelled_job_that_waits_in_the_queue_ends_at_once_and_leaves_it() {
    let play = Play::new(false);
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    play.until(|fake| fake.state().jobs.contains_key(&ONE));
    sleep(Duration::from_millis(50));
    play.jobs.cancel_and_wait("a").unwrap();
    assert_eq!(play.jobs.status("a").unwrap().state, State::Cancelled);
    play.until(|fake| fake.state().cancelled == [ONE]);
    assert_eq!(left(&play.marks()).unwrap()[0].what, Remains::Revoked);
}

#[test]
fn a_cancellation_does_not_reach_another_job_that_has_got_the_id() {
    let play = Play::new(false);
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    play.until(|fake| fake.state().jobs.contains_key(&ONE));
    sleep(Duration::from_millis(50)); // the answer, with the id, has come
    let mut other = play.fake.forget(1).submission;
    other.description.comment = "of another run".to_owned();
    {
        let mut state = play.fake.state();
        state.last_id = 1;
        state.jobs.insert(ONE, crate::fake::Job::new(&other));
    }
    play.jobs.cancel_and_wait("a").unwrap();
    let Play { fake, slurm, jobs, folder: _folder } = play;
    drop((jobs, slurm)); // what is to be cancelled is cancelled before
    assert!(fake.state().cancelled.is_empty(), "{:?}", fake.state().cancelled);
}

#[test]
fn a_cancellation_does_not_reach_another_job_of_the_run_that_has_got_the_id() {
    let play = Play::new(false);
    play.jobs.submit(play.job("a", EFFECT)).unwrap();
    play.until(|fake| fake.state().jobs.contains_key(&ONE));
    sleep(Duration::from_millis(50)); // the answer, with the id, has come
    play.fake.forget(1);
    play.jobs.submit(play.job("b", EFFECT)).unwrap();
    play.until(|fake| fake.state().jobs.contains_key(&ONE));
    play.jobs.cancel_and_wait("a").unwrap();
    play.fake.start(1);
    play.jobs.wait_timeout(LONG).expect("it ends").expect_err("a was cancelled");
    assert_eq!(play.jobs.status("b").unwrap().state, State::Succeeded);
    assert!(play.fake.state().cancelled.is_empty(), "{:?}", play.fake.state().cancelled);
}

#[test]
fn a_cancelled_job_that_ignores_the_request_is_killed_after_its_grace() {
    let play = Play::new(true);
    play.jobs.submit(play.job("a", "trap '' TERM; touch ready; while :; do sleep 0.1; done")).unwrap();
    play.until(|_| play.folder.path().join("ready").exists());
    play.until(|_| {
        play.slurm
            .status(AttemptId { job: play.jobs.status("a").unwrap().id, attempt: 1 })
            .is_some_and(|words| words.contains("n1"))
    });
    play.jobs.cancel_and_wait("a").unwrap();
    assert!(play.fake.state().cancelled.len() >= 2, "asked, then killed");
}

#[test]
fn a_pause_that_slurm_does_not_permit_cancels_nothing() {
    let play = Play::new(true);
    play.jobs.submit(play.job("a", &format!("sleep 1; {EFFECT}"))).unwrap();
    play.until(|fake| fake.state().jobs.contains_key(&ONE));
    play.jobs.pause("a").unwrap();
    play.jobs.resume("a").unwrap();
    play.ends();
    assert_eq!(play.effects(), 1);
}

#[test]
fn a_later_process_continues_what_waits_what_runs_and_what_has_ended() {
    let play = Play::new(false);
    for (name, line) in
        [("waits", EFFECT.to_owned()), ("runs", format!("sleep 2; {EFFECT}")), ("ended", EFFECT.to_owned())]
    {
        play.jobs.submit(play.job(name, &line)).unwrap();
    }
    play.until(|fake| fake.state().jobs.len() == 3);
    play.fake.start(2);
    play.fake.start(3);
    let has_ended = |left: &Left| left.what == Remains::Ended;
    play.until(|_| {
        left(&play.marks()).unwrap().iter().any(has_ended) && left(&play.marks()).unwrap()[1].what == Remains::Began
    });
    let found: Vec<Left> = left(&play.marks()).unwrap();
    assert_eq!(
        found.iter().map(|left| left.what).collect::<Vec<_>>(),
        [Remains::Waits, Remains::Began, Remains::Ended]
    );
    // As after `kill -9`: the first process says nothing more.
    let Play { folder, fake, slurm: first, jobs } = play;
    std::mem::forget((first, jobs));
    let play = Play { slurm: slurm(&fake, folder.path()), folder, fake, jobs: Jobs::builder().build() };
    for (left, name) in found.iter().zip(["waits", "runs", "ended"]) {
        play.jobs.submit(play.job(name, EFFECT).found(left.key.token())).unwrap();
    }
    sleep(Duration::from_secs(1));
    play.fake.start(1);
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (3, 3));
}

#[test]
fn a_process_that_was_killed_between_permit_and_script_is_continued() {
    let play = Play::new(true);
    fs::create_dir_all(play.marks()).unwrap();
    fs::write(play.marks().join("0.1.0.permit"), "").unwrap();
    fs::write(play.marks().join("0.1.0.sh.new"), "#!/bin/sh\nhal").unwrap();
    let found = left(&play.marks()).unwrap();
    assert_eq!(found[0].what, Remains::Waits);
    play.jobs.submit(play.job("a", EFFECT).found(found[0].key.token())).unwrap();
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (1, 1));
}

/// As after a full disk, on which the script could write no mark.
#[test]
fn what_began_under_an_earlier_process_and_is_nowhere_now_has_failed() {
    let play = Play::new(false);
    fs::create_dir_all(play.marks()).unwrap();
    for file in ["0.1.0.sh", "0.1.0.taken-7-0-1-n1", "0.1.0.start.new", "0.1.0.end.new"] {
        fs::write(play.marks().join(file), "").unwrap();
    }
    let found = left(&play.marks()).unwrap();
    assert_eq!(found[0].what, Remains::Began);
    play.jobs.submit(play.job("a", EFFECT).found(found[0].key.token())).unwrap();
    let cause = format!("{:?}", play.fails());
    assert!(cause.contains("left no mark of its end") && play.effects() == 0, "{cause}");
}

#[test]
fn a_partition_that_is_not_there_is_named_with_those_that_are() {
    let mut site = Site { partition: Some("gpu".to_owned()), ..Site::default() };
    let error = sched_slurm::check(&Fake::default(), &mut site).unwrap_err();
    assert_eq!(error, SlurmError::NoPartition { name: "gpu".to_owned(), known: vec!["main".to_owned()] });
    site.partition = Some("main".to_owned());
    sched_slurm::check(&Fake::default(), &mut site).unwrap();
    assert_eq!(site.vram, VramAs::Gres("vram".to_owned()), "the cluster has it");
}
