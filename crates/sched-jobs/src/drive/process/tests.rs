//! Tests without a single process: requests in any order, and keepers that cannot be started.
//!
//! Room: tests.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

use mech_process::{End, How, KeeperProgram, Keepers, Recovered};

use super::{Command, Listen, OnCrash, Processes};
use crate::drive::Shared;
use crate::executor::{AttemptId, Executor, Order, Outcome, Reporter};
use crate::{Cause, Job, JobId, Jobs};

/// Commands for which there are no keepers: every start fails within the call.
fn without_keepers(home: &Path) -> Arc<Processes> {
    with_listener(home, Box::new(|_, _| ()))
}

fn with_listener(home: &Path, listen: Listen) -> Arc<Processes> {
    let program = KeeperProgram { program: "/no/such/keeper".into(), args: Vec::new() };
    let keepers = Keepers::new(program, home).unwrap();
    Processes::new(keepers, "instance", Box::new(|_| "/dev/null".into()), listen)
}

fn order(attempt_id: AttemptId) -> Order {
    let report = Reporter { sink: Weak::<Shared>::new(), attempt_id };
    let (name, work) = ("a".to_owned(), Arc::new(Command::new(["true"])));
    Order { attempt_id, name, trace_id: None, gpus: Vec::new(), work, report }
}

#[test]
fn a_cancel_that_overtakes_its_start_is_not_lost() {
    let home = tempfile::tempdir().unwrap();
    let processes = without_keepers(home.path());
    let attempt_id = AttemptId { job: JobId::from_index(3), attempt: 2 };
    processes.cancel(attempt_id);
    assert!(!processes.attempts.begin(attempt_id, std::time::Duration::ZERO), "it must not begin");
    // A cancel of an earlier attempt has no effect on a later one.
    processes.cancel(attempt_id);
    let next = AttemptId { attempt: 3, ..attempt_id };
    assert!(processes.attempts.begin(next, std::time::Duration::ZERO));
    processes.cancel(attempt_id);
    assert!(!processes.attempts.lock()[&3].cancel, "the earlier attempt is over");
    processes.start(order(AttemptId { job: JobId::from_index(4), attempt: 1 }));
    assert_eq!(processes.attempts.lock().len(), 1, "an attempt that could not start has no entry");
}

#[test]
fn a_token_names_its_attempt_whichever_process_made_it() {
    let home = tempfile::tempdir().unwrap();
    let token = without_keepers(home.path()).token(AttemptId { job: JobId::from_index(12), attempt: 3 });
    assert_eq!(token, "12/3/instance");
    assert_eq!(Processes::attempt_of("12/3/other/with/slashes"), Some((12, 3)));
    for token in ["", "12", "12/3", "a/3/x", "12/-1/x"] {
        assert_eq!(Processes::attempt_of(token), None, "{token}");
    }
}

#[test]
fn any_number_of_ends_within_start_does_not_grow_the_stack() {
    let home = tempfile::tempdir().unwrap();
    let processes = without_keepers(home.path());
    processes.refuse("none of them starts");
    let failed = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&failed);
    let observer = move |event: &crate::Event, _: crate::Facts<'_>| {
        seen.fetch_add(usize::from(event.what == crate::What::Failed), SeqCst);
    };
    let jobs = Jobs::builder().cpu_slots(1).observe(observer).build();
    let many = 100_000;
    jobs.submit_all(
        (0..many).map(|at| Job::new(format!("{at}")).execute(processes.clone(), Arc::new(Command::new(["true"])))),
    )
    .unwrap();
    let ended = jobs.wait().unwrap_err();
    assert_eq!((ended.summary.failed, failed.load(SeqCst)), (many, many));
    assert_eq!(ended.first[0].1.to_string(), "none of them starts");
}

#[test]
fn a_keeper_that_cannot_be_started_fails_the_job_and_is_named() {
    let home = tempfile::tempdir().unwrap();
    let jobs = Jobs::builder().build();
    let job = Job::new("a").execute(without_keepers(home.path()), Arc::new(Command::new(["true"])));
    jobs.submit(job).unwrap();
    let ended = jobs.wait().unwrap_err();
    assert!(matches!(&ended.first[0].1, Cause::Error(message) if message.contains("/no/such/keeper")), "{ended}");
}

#[test]
fn a_refused_command_is_not_tried() {
    let home = tempfile::tempdir().unwrap();
    let processes = without_keepers(home.path());
    processes.refuse("the journal is not writable");
    processes.refuse("another reason");
    let jobs = Jobs::builder().build();
    jobs.submit(Job::new("a").execute(processes, Arc::new(Command::new(["true"])))).unwrap();
    assert_eq!(jobs.wait().unwrap_err().first[0].1.to_string(), "the journal is not writable");
}

#[test]
fn an_attempt_that_is_found_again_ends_as_it_did_and_a_lost_one_follows_its_policy() {
    let home = tempfile::tempdir().unwrap();
    let processes = without_keepers(home.path());
    processes.found_ended("0/1/before", Outcome::Succeeded);
    processes.found_ended("1/1/before", Outcome::Failed(Cause::Error("exited with 3".to_owned())));
    let mut lost = Command::new(["true"]);
    lost.on_crash = OnCrash::Fail;
    let jobs = Jobs::builder().build();
    let job = |name: &str, command: Command| Job::new(name).execute(processes.clone(), Arc::new(command));
    jobs.submit_all([
        job("good", Command::new(["true"])).found("0/1/before"),
        job("bad", Command::new(["true"])).found("1/1/before"),
        job("lost", lost).found("2/1/before"),
    ])
    .unwrap();
    let ended = jobs.wait().unwrap_err();
    assert_eq!((ended.summary.succeeded, ended.summary.failed), (1, 2));
    assert_eq!(ended.first[0].1.to_string(), "exited with 3");
    assert_eq!(ended.first[1].1.to_string(), "it was running when the run was interrupted, and `on_crash` is `fail`");
}

#[test]
fn an_end_is_reported_although_the_listener_panics() {
    let home = tempfile::tempdir().unwrap();
    let processes = with_listener(home.path(), Box::new(|_, _| panic!("the journal fails")));
    let end = |token: &str, how: How| {
        let (cpu, wall) = Default::default();
        Recovered::Ended(End { token: token.to_owned(), how, peak_rss_kb: 0, cpu, wall, in_force: None })
    };
    processes.found([end("0/1/before", How::Exit(0)), end("1/1/before", How::Exit(3))]);
    let jobs = Jobs::builder().build();
    let job = |name: &str| Job::new(name).execute(processes.clone(), Arc::new(Command::new(["true"])));
    jobs.submit_all([job("good").found("0/1/before"), job("bad").found("1/1/before")]).unwrap();
    let ended = jobs.wait().unwrap_err();
    assert_eq!((ended.summary.succeeded, ended.summary.failed), (1, 1));
    assert!(matches!(&ended.first[0].1, Cause::Error(message) if message.contains('3')), "{ended}");
    assert_eq!(jobs.panics().executors, 2);
}

#[test]
fn a_command_gets_its_cards_by_one_variable_and_its_own_value_wins() {
    use policy_jobs::{Gpu, GpuDriver};
    let variables = |own: &[(&str, &str)], gpus: &[Gpu]| -> Vec<(String, String)> {
        let own: Vec<_> = own.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let text = |text: std::ffi::OsString| text.into_string().unwrap();
        super::with_cards(&own, gpus).into_iter().map(|(name, value)| (text(name), text(value))).collect()
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let cards = [Gpu::new("GPU-a", 1), Gpu::new("GPU-c", 1)];
    assert_eq!(variables(&[], &cards), [pair("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-c")]);
    let amd = [Gpu { driver: GpuDriver::Rocm, ..Gpu::new("1", 1) }];
    assert_eq!(variables(&[("A", "b")], &amd), [pair("A", "b"), pair("ROCR_VISIBLE_DEVICES", "1")]);
    assert_eq!(variables(&[("CUDA_VISIBLE_DEVICES", "7")], &cards), [pair("CUDA_VISIBLE_DEVICES", "7")]);
    assert_eq!(variables(&[], &[]), []);
}
