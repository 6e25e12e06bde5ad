//! Batches that are added in several steps, while other jobs run.
//!
//! Room: tests.

use super::{Scope, Stage, job, rules};
use crate::state::State;

#[test]
fn a_dependency_that_succeeds_while_a_batch_is_added_wakes_it_when_it_is_complete() {
    let mut stage = Stage::new(rules(1));
    let above = stage.submit(job("above"));
    assert_eq!(stage.pick(), [above]);
    let mut draft = stage.core.draft(None);
    stage.add(&mut draft, &[job("below").needs("above")]).unwrap();
    stage.succeed(above);
    assert_eq!((stage.pick(), stage.core.len()), (vec![], 1), "nothing of a batch starts before its last job is there");
    stage.add(&mut draft, &[job("last").needs("below").needs("above")]).unwrap();
    stage.finish(&draft).unwrap();
    assert_eq!(stage.pick(), [1]);
    stage.succeed(1);
    assert_eq!(stage.pick(), [2]);
    stage.succeed(2);
    assert_eq!(stage.core.counts()[State::Succeeded as usize], 3);
}

#[test]
fn a_dependency_that_fails_while_a_batch_is_added_fails_the_batch() {
    let mut stage = Stage::new(rules(1));
    let above = stage.submit(job("above"));
    stage.pick();
    let mut draft = stage.core.draft(None);
    stage.add(&mut draft, &[job("below").needs("above"), job("last").needs("below")]).unwrap();
    stage.fail(above);
    let error = stage.finish(&draft).unwrap_err();
    assert_eq!(error.code(), Some(3002), "{error}");
    stage.core.undo(&draft);
    assert_eq!(stage.core.counts().iter().sum::<usize>(), 1);
    stage.core.retry(stage.now, above).unwrap();
    assert_eq!(stage.pick(), [above]);
    stage.succeed(above);
    assert_eq!(stage.core.open(), 0);
}

#[test]
fn a_batch_that_is_undone_was_never_woken() {
    let mut stage = Stage::new(rules(1));
    let above = stage.submit(job("above"));
    stage.pick();
    let mut draft = stage.core.draft(None);
    stage.add(&mut draft, &[job("below").needs("above")]).unwrap();
    stage.succeed(above);
    stage.core.undo(&draft);
    assert_eq!((stage.pick(), stage.core.open()), (vec![], 0));
    let below = stage.submit(job("below").needs("above"));
    assert_eq!(stage.pick(), [below]);
}

#[test]
fn requests_do_not_reach_into_a_batch_that_is_not_complete() {
    for request in 0..4 {
        let mut stage = Stage::new(rules(1));
        let above = stage.submit(job("above"));
        let mut draft = stage.core.draft(None);
        stage.add(&mut draft, &[job("below").needs("above").needs("later")]).unwrap();
        let (now, all) = (stage.now, Scope::Subtree(above));
        match request {
            0 => assert!(stage.core.pause(now, all).unwrap().is_empty()),
            1 => stage.core.cancel(now, all),
            2 => {
                stage.pick();
                stage.fail(above);
                stage.core.retry(now, above).unwrap();
            }
            _ => stage.core.cancel(now, Scope::Run),
        }
        stage.add(&mut draft, &[job("later")]).unwrap();
        let sealed = stage.finish(&draft);
        if sealed.is_err() {
            stage.core.undo(&draft);
        }
        stage.drain();
        assert_eq!(sealed.is_err(), request == 1 || request == 3, "request {request}");
        assert_eq!(stage.core.counts().iter().sum::<usize>(), if sealed.is_ok() { 3 } else { 1 });
        if sealed.is_ok() {
            assert_eq!((stage.state(1), stage.state(2)), (State::Queued, State::Ready), "request {request}");
        }
    }
}
