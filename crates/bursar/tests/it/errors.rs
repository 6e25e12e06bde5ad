//! Errors of tasks, jobs, nodes and runs convert into each other by `?`, and none loses the original.

use std::{error::Error, fmt, num::ParseIntError};

use bursar::{
    RunError, TaskError,
    actor::SupervisorError,
    flow::{Flow, FlowError, Graph, NodeError, OnError, from_iter, try_map},
    jobs::{Cause, Job, JobError, Jobs, Stopped},
    nursery, run,
};

fn parse<E: From<ParseIntError>>() -> Result<u32, E> {
    Ok("4x2".parse::<u32>()?)
}

/// A number that is none, raised as an `A`, and that by `?` as a `B`.
fn raised<A: From<ParseIntError>, B: From<A>>() -> B {
    let outcome = || -> Result<u32, B> { Ok(parse::<A>()?) };
    match outcome() {
        Err(error) => error,
        Ok(number) => panic!("{number} is no number"),
    }
}

const TEXT: &str = "invalid digit found in string";

#[test]
fn the_error_of_a_task_is_raised_in_jobs_nodes_and_runs() {
    let job: JobError = raised::<TaskError, _>();
    assert!(job.downcast_ref::<ParseIntError>().is_some());
    assert!(job.task_error().is_some());
    let node: NodeError = raised::<TaskError, _>();
    assert!(node.downcast_ref::<ParseIntError>().is_some());
    assert!(node.task_error().is_some());
    let run: RunError = raised::<TaskError, _>();
    assert!(run.downcast_ref::<ParseIntError>().is_some());
    assert!(run.source().is_some_and(|source| source.is::<ParseIntError>()));
}

#[test]
fn the_error_of_a_job_is_raised_in_tasks_nodes_and_runs() {
    let task: TaskError = raised::<JobError, _>();
    assert!(task.downcast_ref::<ParseIntError>().is_some());
    let node: NodeError = raised::<JobError, _>();
    assert!(node.downcast_ref::<ParseIntError>().is_some());
    assert_eq!(node.to_string(), TEXT);
    let run: RunError = raised::<JobError, _>();
    assert!(run.downcast_ref::<ParseIntError>().is_some());
}

#[test]
fn the_error_of_a_node_is_raised_in_tasks_jobs_and_runs() {
    let task: TaskError = raised::<NodeError, _>();
    assert!(task.downcast_ref::<ParseIntError>().is_some());
    let job: JobError = raised::<NodeError, _>();
    assert!(job.downcast_ref::<ParseIntError>().is_some());
    assert_eq!(job.to_string(), TEXT);
    let run: RunError = raised::<NodeError, _>();
    assert!(run.downcast_ref::<ParseIntError>().is_some());
}

#[test]
fn a_run_that_failed_because_of_its_task_raises_the_error_of_that_task() {
    let failed = || RunError::from(TaskError::msg("no ink"));
    let task = TaskError::from(failed());
    assert_eq!(task.to_string(), "failed: no ink");
    assert_eq!(JobError::from(failed()).to_string(), task.to_string());
    assert_eq!(NodeError::from(failed()).to_string(), task.to_string());
    let Err(panicked) = run(|| -> u32 { panic!("in the root") }) else { panic!("it returned") };
    assert!(TaskError::from(panicked).is_panic());
    // Any other is an error like all others.
    let forked = TaskError::from(RunError::Forked { parent: 7 });
    assert!(matches!(forked.downcast_ref(), Some(RunError::Forked { parent: 7 })));
    let forked = JobError::from(RunError::Forked { parent: 7 });
    assert!(matches!(forked.downcast_ref(), Some(RunError::Forked { parent: 7 })));
}

#[test]
fn the_error_of_a_supervisor_is_raised_everywhere() {
    let over = || SupervisorError::Over { supervisor: "root".into() };
    assert_eq!(TaskError::from(over()).downcast_ref(), Some(&over()));
    assert_eq!(JobError::from(over()).downcast_ref(), Some(&over()));
    assert_eq!(NodeError::from(over()).downcast_ref(), Some(&over()));
}

#[test]
fn what_an_error_says_besides_survives_every_way_round() {
    let there = |error: JobError| JobError::from(NodeError::from(TaskError::from(error)));
    assert!(there(JobError::permanent("no such scene")).is_permanent());
    assert!(!there(JobError::msg("no such scene")).is_permanent());
    assert!(there(JobError::from(Stopped)).is_stopped());
    assert!(!there(JobError::from(Stopped)).is_permanent());
    let there = |error: NodeError| NodeError::from(JobError::from(TaskError::from(error)));
    assert_eq!(there(NodeError::msg("bad line").with_record("1;2")).record(), b"1;2");
    assert!(there(NodeError::msg("disk full").for_good()).is_for_good());
    let plain = there(NodeError::msg("late"));
    assert!(!plain.is_for_good() && !plain.is_of_record());
    // The last word counts.
    let both = NodeError::from(JobError::permanent("gone")).for_good();
    assert!(both.is_for_good() && NodeError::from(JobError::from(both)).is_for_good());
}

#[test]
fn an_error_keeps_its_text_its_causes_and_the_task_on_the_way_through_a_nursery() {
    #[derive(Debug)]
    struct Scene(ParseIntError);
    impl fmt::Display for Scene {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("scene 7 has no number")
        }
    }
    impl Error for Scene {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }
    let plain = JobError::from(Scene(raised::<ParseIntError, ParseIntError>()));
    assert_eq!(plain.to_string(), format!("scene 7 has no number: {TEXT}"));
    let outcome = nursery(|n| {
        n.task().name("read").try_spawn(|| Err::<(), _>(plain.into()));
        Ok(())
    });
    let text = JobError::from(outcome.unwrap_err()).to_string();
    assert!(text.starts_with("task `read` ("), "{text}");
    assert!(text.ends_with(&format!("failed: scene 7 has no number: {TEXT}")), "{text}");
}

#[test]
fn every_error_becomes_a_standard_one_and_comes_back() {
    let boxed = raised::<ParseIntError, TaskError>().into_boxed();
    assert!(boxed.source().is_some_and(|source| source.is::<ParseIntError>()));
    assert!(TaskError::from_boxed(boxed).downcast_ref::<ParseIntError>().is_some());
    assert!(raised::<ParseIntError, JobError>().into_boxed().is::<ParseIntError>());
    assert!(raised::<ParseIntError, NodeError>().into_boxed().is::<ParseIntError>());
    let foreign = TaskError::from_boxed("no ink".into());
    assert_eq!(foreign.to_string(), "failed: no ink");
    // `?` does it where a box is returned.
    fn fails() -> Result<(), Box<dyn Error>> {
        nursery(|n| n.try_spawn(|| Ok("4x2".parse::<u32>()?)).join())?;
        Ok(())
    }
    assert!(fails().unwrap_err().source().is_some_and(|source| source.is::<ParseIntError>()));
}

#[test]
fn strings_and_boxes_are_raised_in_jobs_and_nodes() {
    let ink = || Err::<(), Box<dyn Error + Send + Sync>>("no ink".into());
    let in_job = || -> Result<(), JobError> { Ok(ink()?) };
    let in_node = || -> Result<(), NodeError> { Ok(ink()?) };
    assert_eq!(in_job().unwrap_err().to_string(), "no ink");
    assert_eq!(in_node().unwrap_err().to_string(), "no ink");
    let in_node = || -> Result<u32, NodeError> { Ok(None.ok_or("no ink")?) };
    assert_eq!(in_node().unwrap_err().to_string(), "no ink");
}

#[test]
fn a_permanent_error_in_a_task_of_a_job_is_not_retried() -> Result<(), Box<dyn Error>> {
    let jobs = Jobs::builder().build();
    jobs.submit(Job::new("render").retries(5).run(|_| -> Result<(), JobError> {
        nursery(|n| n.try_spawn(|| Err(JobError::permanent("no such scene").into())).join())?;
        Ok(())
    }))?;
    let failed = jobs.wait().unwrap_err();
    assert!(matches!(&failed.first[0].1, Cause::Permanent(text) if text.ends_with("failed: no such scene")));
    assert_eq!(jobs.status("render")?.attempts, 1);
    Ok(())
}

#[test]
fn a_flow_that_failed_gives_the_original_back() -> Result<(), Box<dyn Error>> {
    let mut graph = Graph::new("numbers");
    let lines = graph.add("lines", from_iter(["1", "one"]));
    let numbers = graph.add("numbers", try_map(|line: &str| line.parse::<u32>()).on_error(OnError::StopGraph));
    graph.connect(&lines, &numbers);
    let error: FlowError = Flow::new(graph)?.run().unwrap_err();
    assert!(error.downcast_ref::<ParseIntError>().is_some());
    Ok(())
}
