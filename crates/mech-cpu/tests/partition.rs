//! Partitions change every thread of the process, so each test is a process of its own.
//!
//! Room: tests.

use std::sync::mpsc;
use std::thread;

use mech_cpu::{CpuMask, Partition, TakeError, Tid, partition};
use test_support::alone;

/// The CPUs this process may use; None on a machine with one alone, where nothing can be taken.
fn cpus() -> Option<CpuMask> {
    let all = Tid::current().affinity().unwrap();
    if all.count() < 2 {
        eprintln!("skipped: one CPU");
    }
    (all.count() >= 2).then_some(all)
}

#[test]
fn all_other_threads_leave_and_come_back() {
    if !alone("all_other_threads_leave_and_come_back") {
        return;
    }
    let Some(all) = cpus() else { return };
    let last = all.iter().last().unwrap();
    let (ask, asked) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let other = thread::spawn(move || {
        while asked.recv().is_ok() {
            tell.send(Tid::current().affinity().unwrap()).unwrap();
        }
    });
    let elsewhere = || {
        ask.send(()).unwrap();
        told.recv().unwrap()
    };
    assert_eq!(elsewhere(), all);
    let partition = Partition::take(CpuMask::one(last)).unwrap();
    assert_eq!(elsewhere(), all.without(CpuMask::one(last)));
    thread::scope(|scope| {
        scope.spawn(|| {
            let member = partition.enter(last).unwrap();
            assert_eq!(Tid::current().affinity().unwrap(), CpuMask::one(last));
            // What a member starts is moved away at the next look.
            let started = thread::spawn(|| {
                partition::sweep().unwrap();
                Tid::current().affinity().unwrap()
            });
            assert_eq!(started.join().unwrap(), all.without(CpuMask::one(last)));
            member.leave();
            assert_eq!(Tid::current().affinity().unwrap(), all.without(CpuMask::one(last)));
        });
    });
    drop(partition);
    assert_eq!(elsewhere(), all);
    assert_eq!(Tid::current().affinity().unwrap(), all);
    drop(ask);
    other.join().unwrap();
}

#[test]
fn what_cannot_be_had_is_refused_and_changes_nothing() {
    if !alone("what_cannot_be_had_is_refused_and_changes_nothing") {
        return;
    }
    let Some(all) = cpus() else { return };
    let last = all.iter().last().unwrap();
    assert!(matches!(*Partition::take(all).unwrap_err(), TakeError::NoneLeft { .. }));
    assert!(matches!(*Partition::take(CpuMask::one(1023)).unwrap_err(), TakeError::Unavailable { cpu: 1023 }));
    let (ready, is_ready) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let pinned = thread::Builder::new()
        .name("pinned".into())
        .spawn(move || {
            Tid::current().set_affinity(CpuMask::one(last)).unwrap();
            ready.send(()).unwrap();
            let _ = ends.recv();
        })
        .unwrap();
    is_ready.recv().unwrap();
    let refused = Partition::take(CpuMask::one(last)).unwrap_err().to_string();
    assert_eq!(refused, format!("thread `pinned` is pinned to CPUs {last}; let it run elsewhere, too"));
    assert_eq!(Tid::current().affinity().unwrap(), all);
    drop(end);
    pinned.join().unwrap();
    let _taken = Partition::take(CpuMask::one(last)).unwrap();
    assert!(matches!(*Partition::take(CpuMask::one(last)).unwrap_err(), TakeError::Unavailable { cpu } if cpu == last));
}

#[test]
fn a_thread_that_had_less_gets_no_more_back() {
    if !alone("a_thread_that_had_less_gets_no_more_back") {
        return;
    }
    let Some(all) = cpus() else { return };
    let (first, last) = (all.iter().next().unwrap(), all.iter().last().unwrap());
    thread::spawn(move || {
        Tid::current().set_affinity(CpuMask::one(first)).unwrap();
        drop(Partition::take(CpuMask::one(last)).unwrap());
        assert_eq!(Tid::current().affinity().unwrap(), CpuMask::one(first));
    })
    .join()
    .unwrap();
}
