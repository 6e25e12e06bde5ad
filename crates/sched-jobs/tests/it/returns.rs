//! What closures of jobs may return, without a word about its type.

use sched_jobs::{Cause, Job, JobError, Jobs};

#[test]
fn a_closure_returns_nothing_a_value_a_result_or_never() {
    let jobs = Jobs::builder().build();
    jobs.submit_all([
        Job::new("nothing").run(|_| ()),
        Job::new("number").run(|_| 7_u32),
        Job::new("text").run(|_| String::from("seven")),
        Job::new("list").run(|_| vec![1, 2, 3]),
        Job::new("pair").run(|_| (1_u8, "one")),
        Job::new("perhaps").run(|_| Some(1.5)),
        Job::new("array").run(|_| [0_u8; 4]),
        Job::new("checked").run(|ctx| ctx.progress(1.0)),
        Job::new("parsed").run(|_| "7".parse::<u64>()),
        Job::new("all").needs_all(["number", "text", "list", "pair", "perhaps", "array", "parsed"]).try_run(|ctx| {
            assert_eq!(*ctx.input::<u32>("number")?, 7);
            assert_eq!(*ctx.input::<String>("text")?, "seven");
            assert_eq!(*ctx.input::<Vec<i32>>("list")?, [1, 2, 3]);
            assert_eq!(*ctx.input::<(u8, &str)>("pair")?, (1, "one"));
            assert_eq!(*ctx.input::<Option<f64>>("perhaps")?, Some(1.5));
            assert_eq!(*ctx.input::<[u8; 4]>("array")?, [0; 4]);
            assert_eq!(*ctx.input::<u64>("parsed")?, 7);
            Ok(())
        }),
    ])
    .unwrap();
    assert_eq!(jobs.wait().unwrap().succeeded, 10);
}

#[test]
fn a_closure_that_only_panics_needs_no_annotation() {
    let jobs = Jobs::builder().build();
    jobs.submit(Job::new("panics").run(|_| panic!("no ink"))).unwrap();
    jobs.submit(Job::new("once").run_once(|_| panic!("no paper"))).unwrap();
    let failed = jobs.wait().unwrap_err();
    let said: Vec<&str> = failed
        .first
        .iter()
        .map(|(_, cause)| match cause {
            Cause::Panic { message, .. } => message.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(said.contains(&"no ink") && said.contains(&"no paper"), "{said:?}");
}

#[test]
fn a_closure_that_may_fail_knows_its_error() {
    struct Scene(u16);
    let jobs = Jobs::builder().build();
    let paper = [String::from("12")];
    jobs.submit(Job::new("scene").try_run_once(move |_| Ok(Scene(paper.concat().parse()?)))).unwrap();
    jobs.submit(Job::new("read").needs("scene").try_run(|ctx| Ok(ctx.input::<Scene>("scene")?.0))).unwrap();
    jobs.submit(Job::new("fails").needs("read").try_run(|ctx| match *ctx.input::<u16>("read")? {
        12 => Err("twelve is one too many")?,
        _ => Ok(()),
    }))
    .unwrap();
    jobs.submit(Job::new("at once").try_run(|_| Err::<(), _>(JobError::permanent("no")))).unwrap();
    let failed = jobs.wait().unwrap_err();
    assert_eq!((failed.summary.succeeded, failed.summary.failed), (2, 2));
}
