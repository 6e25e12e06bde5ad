//! Every component stops a task, each operation costs what the table says, and what happened is counted.

use std::{
    io::{Read, Write},
    sync::atomic::{AtomicU64, Ordering::SeqCst},
};

use sched_tasks::{
    Budget, CapBudget, CapChannel, CapSpawn, Component, Grant, Ledger, NurseryOptions, OnFailure, Reason, Runtime,
    TaskState, budget_left, channel, charge, net, nursery, nursery_with, unblock,
};

/// What `what` costs a task.
fn cost(what: impl FnOnce() + Send) -> Budget {
    let plenty = Budget::ops(1_000).memory(1 << 20).spawns(100).channel_ops(100).syscalls(100);
    nursery_with(NurseryOptions::new().task_budget(plenty), |n| {
        n.spawn(move || {
            let before = budget_left();
            what();
            before.saturating_sub(&budget_left())
        })
        .join()
    })
    .unwrap()
}

#[test]
fn a_socket_costs_what_the_table_says() {
    let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let one = Budget::ops(1).syscalls(1);
    for _ in 0..130 {
        assert_eq!(cost(|| stream.write_all(b"x").unwrap()), one, "a write");
        assert_eq!(cost(|| peer.read_exact(&mut [0]).unwrap()), one, "a read");
    }
    assert_eq!(cost(|| drop(net::TcpStream::connect(listener.local_addr().unwrap()).unwrap())), one, "a connection");
    assert_eq!(cost(|| drop(listener.accept().unwrap())), one, "an accept");
    assert_eq!(cost(|| drop(net::TcpListener::bind("127.0.0.1:0").unwrap())), one, "a bind");
    assert_eq!(cost(|| stream.shutdown(std::net::Shutdown::Both).unwrap()), one, "a shutdown");
}

#[test]
fn other_operations_cost_what_the_table_says() {
    let (tx, rx) = channel(4);
    let message = Budget::ops(1).channel_ops(1);
    assert_eq!(cost(|| tx.send(1).unwrap()), message);
    assert_eq!(cost(|| assert_eq!(rx.recv(), Ok(1))), message);
    assert_eq!(cost(|| tx.try_send(1).unwrap()), message);
    assert_eq!(cost(|| assert_eq!(rx.try_recv(), Ok(1))), message);
    assert_eq!(cost(|| unblock(|| ())), Budget::ops(1).syscalls(1));
    assert_eq!(cost(|| charge(7)), Budget::ops(7));
    assert_eq!(cost(sched_tasks::yield_now), Budget::ZERO);
    assert_eq!(cost(|| nursery(|n| n.spawn(|| ()).join()).unwrap()), Budget::ops(1).spawns(1));
    let file = std::env::temp_dir().join(format!("bursar-cost-{}", std::process::id()));
    assert_eq!(cost(|| sched_tasks::fs::write(&file, b"x").unwrap()), Budget::ops(1).syscalls(1));
    let _ = std::fs::remove_file(file);
}

/// How often `what` goes well in a task with `budget`, and why it did not go on.
fn until_it_stops(budget: Budget, what: impl Fn() + Send + Sync) -> (u64, Component) {
    let times = AtomicU64::new(0);
    let error = nursery_with(NurseryOptions::new().task_budget(budget), |n| {
        n.spawn(|| {
            for _ in 0..10_000 {
                what();
                times.fetch_add(1, SeqCst);
            }
        })
        .join()
    })
    .unwrap_err();
    match error.reason() {
        Reason::BudgetExhausted { component, .. } => (times.into_inner(), *component),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_component_stops_a_task_when_it_is_spent() {
    let plenty = Budget::ops(1 << 40).memory(1 << 40).spawns(1 << 40).channel_ops(1 << 40).syscalls(1 << 40);
    let (tx, rx) = channel(1);
    let there_and_back = || {
        tx.send(()).unwrap();
        rx.recv().unwrap();
    };
    assert_eq!(until_it_stops(Budget { ops: 10, ..plenty }, || charge(1)), (10, Component::Ops));
    assert_eq!(until_it_stops(plenty.channel_ops(10), there_and_back), (5, Component::ChannelOps));
    assert_eq!(until_it_stops(plenty.syscalls(10), || unblock(|| ())), (10, Component::Syscalls));
    let spawned = until_it_stops(plenty.spawns(10), || {
        if let Err(error) = nursery(|n| n.spawn(|| ()).join()) {
            std::panic::resume_unwind(Box::new(error));
        }
    });
    assert_eq!(spawned, (10, Component::Spawns));
}

#[test]
fn each_component_at_zero_stops_a_task_before_it_began_with_it() {
    let plenty = Budget::ops(1 << 40).memory(1 << 40).spawns(1 << 40).channel_ops(1 << 40).syscalls(1 << 40);
    let (tx, _rx) = channel(1);
    assert_eq!(until_it_stops(Budget { ops: 0, ..plenty }, || ()), (0, Component::Ops));
    assert_eq!(until_it_stops(plenty.channel_ops(0), || tx.send(()).unwrap()), (0, Component::ChannelOps));
    assert_eq!(until_it_stops(plenty.syscalls(0), || unblock(|| ())), (0, Component::Syscalls));
}

#[test]
fn what_became_of_tasks_is_counted() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    runtime
        .run(|| {
            nursery(|n| {
                (0..10).for_each(|_| drop(n.spawn(|| ())));
                n.spawn_async(async {});
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
    let stats = runtime.stats().total();
    assert_eq!((stats.completed, stats.cancelled), (12, 0), "the root, ten fibers and a future: {stats:?}");
    assert_eq!(stats.local_pops, 11, "all but the root, which came from outside: {stats:?}");
    let _ = runtime.run(|| {
        nursery(|n| {
            (0..5).for_each(|_| drop(n.spawn(|| sched_tasks::sleep(std::time::Duration::from_secs(3_600)))));
            n.spawn_async(futures::future::pending::<()>());
            sched_tasks::yield_now();
            n.cancel();
            Ok(())
        })
    });
    let stats = runtime.stats().total();
    assert_eq!((stats.completed, stats.cancelled), (13, 6), "the second root ended as it would: {stats:?}");
}

#[test]
fn a_task_says_where_it_stands() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let options =
        NurseryOptions::new().on_failure(OnFailure::WaitAll).budget(Budget::ops(1_000).spawns(20).channel_ops(100));
    runtime
        .run(|| {
            nursery_with(options.task_budget(Budget::ops(100).channel_ops(10)), |n| {
                let (tx, rx) = channel::<()>(1);
                let fiber = n.spawn(|| sched_tasks::current_task().is_some());
                let future = n.spawn_async(async {});
                assert_eq!(
                    (fiber.state(), future.state()),
                    (TaskState::Ready, TaskState::Ready),
                    "no worker took them yet"
                );
                assert!(fiber.join()?);
                let receiver = rx.clone();
                let waits = n.spawn(move || receiver.recv().is_ok());
                let awaits = n.spawn_async(async move { rx.recv_async().await.is_ok() });
                crate::support::until(|| [waits.state(), awaits.state()] == [TaskState::Blocked; 2]);
                tx.send(()).unwrap();
                drop(tx);
                assert_eq!(
                    (waits.state(), awaits.state()),
                    (TaskState::Ready, TaskState::Ready),
                    "woken, and not there yet"
                );
                crate::support::until(|| waits.is_done() && awaits.is_done() && future.is_done());
                let done = [waits.state(), awaits.state(), future.state()];
                assert_eq!(done, [TaskState::Completed; 3]);
                let supervisor = n.budget_supervisor();
                let poor = n.spawn(|| charge(150));
                let asks = supervisor.next();
                assert_eq!(poor.state(), TaskState::BudgetExhausted);
                supervisor.answer(asks.task.id, sched_tasks::Answer::Cancel);
                crate::support::until(|| poor.is_done());
                assert_eq!(poor.state(), TaskState::BudgetExhausted, "it ended so");
                let failed = n.try_spawn(|| Err::<(), _>(sched_tasks::TaskError::msg("no")));
                crate::support::until(|| failed.is_done());
                assert_eq!(failed.state(), TaskState::Completed);
                let long = n.spawn(|| sched_tasks::sleep(std::time::Duration::from_secs(3_600)));
                crate::support::until(|| long.state() == TaskState::Blocked);
                n.cancel();
                sched_tasks::shield(|| crate::support::until(|| long.is_done()));
                assert_eq!(long.state(), TaskState::Cancelled);
                assert_eq!(TaskState::Cancelled.to_string(), "Cancelled");
                Ok(())
            })
            .map(|()| unreachable!("it was cancelled"))
            .unwrap_or_else(|error: sched_tasks::TaskError| assert!(!error.is_panic(), "{error}"))
        })
        .unwrap();
}

#[test]
fn a_task_that_runs_says_so() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime
        .nursery(|n| {
            let go = std::sync::atomic::AtomicBool::new(false);
            let go = std::sync::Arc::new(go);
            let seen = go.clone();
            let task = n.spawn(move || crate::support::spin_until(|| seen.load(SeqCst)));
            crate::support::spin_until(|| task.state() == TaskState::Running);
            go.store(true, SeqCst);
            task.join()
        })
        .unwrap();
}

#[test]
fn every_use_of_a_capability_is_counted() {
    let ledger = Ledger::new();
    let spawn = ledger.grant(Grant::new(CapSpawn::new()).label("many"));
    let few = ledger.grant(Grant::new(CapSpawn::new().max_tasks(1_000)).label("few"));
    let channels = ledger.grant(CapChannel::new());
    let reserve = ledger.grant(CapBudget::new().limit(Budget::ops(100)));
    for (cap, tasks) in [(&spawn, 1_000), (&few, 777)] {
        let options = NurseryOptions::new().capability(cap).capability(&channels).capability(&reserve);
        nursery_with(options.task_budget(Budget::ops(10).spawns(1)), |n| {
            for _ in 0..tasks - 1 {
                n.spawn(|| ()).join()?;
            }
            n.spawn(|| {
                drop(channel::<()>(1));
                sched_tasks::recharge(Budget::ops(5)).unwrap();
            })
            .join()
        })
        .unwrap();
        assert_eq!(cap.uses(), tasks);
    }
    assert_eq!((channels.uses(), reserve.uses()), (2, 2));
    let mut told: Vec<_> = ledger.uses().into_iter().map(|one| (one.label, one.uses)).collect();
    told.sort();
    assert_eq!(told, [(None, 2), (None, 2), (Some("few".into()), 777), (Some("many".into()), 1_000)]);
    assert_eq!(ledger.audit_totals().used, 1_781);
    drop(few);
    spawn.revoke();
    assert_eq!(ledger.audit_totals().used, 1_781, "also of what is over");
}
