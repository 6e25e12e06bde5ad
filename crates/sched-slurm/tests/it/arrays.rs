//! Attempts that are submitted together.

use std::fs;

use sched_jobs::Jobs;
use sched_slurm::{Left, SlurmId, left};

use crate::play::{EFFECT, LONG, ONE, Play, slurm};

#[test]
fn jobs_that_want_the_same_are_submitted_as_few_arrays_and_each_runs_once_with_its_own_log() {
    let play = Play::new(true);
    play.fake.state().array_size_max = 1_001;
    let submit = |n: usize| {
        play.jobs.submit(play.job(&format!("{n}"), &format!("echo said {n}; {EFFECT}"))).unwrap();
    };
    let hold = play.fake.hold();
    submit(0);
    play.until(|fake| fake.state().submits == 1);
    (1..40).for_each(submit);
    drop(hold);
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (40, 2));
    let tasks = play.fake.state().jobs.keys().filter(|id| id.task.is_some()).count();
    let log = |n: &usize| fs::read_to_string(play.folder.path().join(format!("{n}.log"))).ok();
    // What was submitted alone has its log opened by Slurm.
    let logs: Vec<usize> = (0..40).filter(|n| log(n).is_some_and(|text| text == format!("said {n}\n"))).collect();
    assert!(tasks == 39 && logs.len() == tasks, "{tasks} tasks, and logs of {logs:?}");
}

/// Submits jobs of which the first goes alone, and the others go as one array, since they wait until the first submission has returned.
fn alone_and_array(play: &Play, names: [&str; 3]) {
    let submits = play.fake.state().submits;
    let hold = play.fake.hold();
    play.jobs.submit(play.job(names[0], EFFECT)).unwrap();
    play.until(|fake| fake.state().submits > submits);
    play.jobs.submit(play.job(names[1], EFFECT)).unwrap();
    play.jobs.submit(play.job(names[2], EFFECT)).unwrap();
    drop(hold);
}

/// The ids of the tasks of the array.
fn three(play: &Play) -> [SlurmId; 2] {
    play.fake.state().array_size_max = 1_001;
    alone_and_array(play, ["a", "b", "c"]);
    play.until(|fake| fake.state().jobs.len() == 3);
    [SlurmId { job: 2, task: Some(0) }, SlurmId { job: 2, task: Some(1) }]
}

#[test]
fn one_task_of_an_array_is_cancelled_and_the_others_run() {
    let play = Play::new(false);
    let [_, last] = three(&play);
    play.jobs.cancel_and_wait("c").unwrap();
    play.until(|fake| fake.state().cancelled == [last]);
    for id in [ONE, SlurmId { job: 2, task: Some(0) }, last] {
        play.fake.start(id);
    }
    play.jobs.wait_timeout(LONG).expect("it ends").expect_err("one was cancelled");
    assert_eq!(play.effects(), 2);
}

#[test]
fn a_task_that_a_person_cancels_has_failed_alone() {
    let play = Play::new(false);
    let [first, last] = three(&play);
    play.fake.state().jobs.get_mut(&first).unwrap().fate = Some("CANCELLED");
    play.fake.start(ONE);
    play.fake.start(last);
    let cause = format!("{:?}", play.fails());
    assert!(cause.contains("was cancelled in Slurm before its command began") && play.effects() == 2, "{cause}");
}

/// After a crash slurmctld gave the id to an array with the same first task, in which this one is not.
#[test]
fn a_task_that_another_array_with_its_id_does_not_have_is_submitted_again() {
    let play = Play::new(false);
    let [first, last] = three(&play);
    let mut other = play.fake.state().jobs[&first].submission.clone();
    let comment = &mut other.description.comment;
    *comment = format!("{}~1", comment.split_once('~').unwrap().0);
    {
        let mut state = play.fake.state();
        for id in [first, last] {
            state.jobs.get_mut(&id).unwrap().fate = Some("CANCELLED");
            state.jobs.get_mut(&id).unwrap().submission = other.clone();
        }
        state.starts = true;
    }
    play.fake.start(ONE);
    play.ends();
    assert_eq!(play.effects(), 3);
}

#[test]
fn a_later_process_finds_the_tasks_of_an_array() {
    let play = Play::new(false);
    let [first, last] = three(&play);
    play.fake.start(first);
    let found: Vec<Left> = left(&play.marks()).unwrap();
    let Play { folder, fake, slurm: earlier, jobs } = play;
    std::mem::forget((earlier, jobs)); // as after `kill -9`
    let play = Play { slurm: slurm(&fake, folder.path()), folder, fake, jobs: Jobs::builder().build() };
    for (left, name) in found.iter().zip(["a", "b", "c"]) {
        play.jobs.submit(play.job(name, EFFECT).found(left.key.token())).unwrap();
    }
    play.until(|fake| fake.state().queries > 2);
    play.fake.start(ONE);
    play.fake.start(last);
    play.ends();
    assert_eq!((play.effects(), play.fake.state().submits), (3, 2));
}

#[test]
fn an_array_that_is_refused_is_submitted_one_by_one() {
    let play = Play::new(true);
    three(&play); // all begin
    play.fake.state().array_size_max = 1; // from now on Slurm takes none, though it said so before
    alone_and_array(&play, ["d", "e", "f"]);
    play.ends();
    // d, the array, e and f.
    assert_eq!((play.effects(), play.fake.state().submits), (6, 2 + 4));
}

#[test]
fn an_array_for_which_there_is_no_room_is_submitted_in_parts() {
    let play = Play::new(true);
    play.fake.state().array_size_max = 1_001;
    play.fake.state().room = Some(5);
    for n in 0..12 {
        play.jobs.submit(play.job(&format!("{n}"), EFFECT)).unwrap();
    }
    play.until(|fake| fake.state().room.is_some_and(|room| room < 2));
    play.fake.state().room = None;
    play.ends();
    assert_eq!(play.effects(), 12);
}
