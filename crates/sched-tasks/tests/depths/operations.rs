//! The public operations: what each needs is made before, so that only the operation itself is done with little stack.
#![allow(clippy::unit_arg, reason = "a table of one-liners")]

use std::{
    future::{poll_fn, ready},
    io::{Read, Write},
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    pin::Pin,
    sync::{Arc, Mutex as StdMutex},
    time::Duration,
};

use futures::AsyncRead;
use sched_actors::{self as actor, Child, Strategy, Supervisor};
use sched_tasks::{
    Budget, CapSpawn, Condvar, Fuel, Ledger, Mutex, NurseryOptions, OnFailure, OpenNursery, Priority, Profile, Runtime,
    RwLock, RwLockWriteGuard, Select, Semaphore, TaskError, after, block_on, broadcast, budget_left, channel, charge,
    checkpoint, current_task, current_worker, fiber_local, fs, is_cancelled, join, net, now, nursery, nursery_with,
    oneshot, recharge, run, select, shield, sleep, sleep_async, ticker, timeout, try_channel, unblock, unblock_async,
    unbounded, watch, yield_now,
};

use crate::Operation;

fiber_local! {
    static LOCAL: StdMutex<Vec<u32>> = StdMutex::new(Vec::new());
}

/// Short, and not over at once.
const SHORT: Duration = Duration::from_micros(20);

fn of(operation: impl FnMut() + Send + 'static) -> Operation {
    Box::new(operation)
}

/// Takes something once.
fn once<T: Send + 'static>(thing: T, operation: impl Fn(T) + Send + 'static) -> Operation {
    let mut thing = Some(thing);
    Box::new(move || operation(thing.take().expect("done once")))
}

fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("bursar-depths-{}-{name}", std::process::id()))
}

fn connected() -> (net::TcpStream, net::TcpStream) {
    let listener = net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = net::TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    let (far, _) = listener.accept().expect("the other end");
    (near, far)
}

/// Makes what an operation needs.
pub(crate) type Prepare = fn() -> Operation;

/// Each has a name, and how it is prepared.
pub(crate) const ALL: &[(&str, Prepare)] = &[
    // ---- tasks ----
    ("nursery", || of(|| nursery(|_| Ok(())).unwrap())),
    ("nursery_with a name and a deadline", || {
        of(|| nursery_with(NurseryOptions::new().name("deep").timeout(Duration::from_secs(60)), |_| Ok(())).unwrap())
    }),
    ("spawn, forgotten", || of(|| nursery(|n| Ok(drop(n.spawn(|| ())))).unwrap())),
    ("spawn and join", || of(|| nursery(|n| n.spawn(|| 1).join()).map(drop).unwrap())),
    ("spawn, which waits", || of(|| nursery(|n| n.spawn(yield_now).join()).unwrap())),
    ("spawn with all that a builder can say", || {
        of(|| {
            nursery(|n| n.task().name("deep").priority(Priority::High).stack_bytes(1 << 20).spawn(|| ()).join())
                .unwrap();
        })
    }),
    ("an open nursery, a task in it, and its end", || {
        of(|| {
            let tasks = OpenNursery::open().unwrap();
            tasks.spawn(yield_now).unwrap().join().unwrap();
            tasks.wait_all().unwrap();
        })
    }),
    ("an open nursery that is dropped with a task in it", || {
        of(|| {
            let tasks = OpenNursery::open().unwrap();
            drop(tasks.task().name("deep").try_spawn(|| Ok(sleep(Duration::from_secs(3600)))).unwrap());
        })
    }),
    ("an open nursery that is left to the end of the task", || {
        of(|| std::mem::forget(OpenNursery::with(NurseryOptions::new().name("left")).unwrap()))
    }),
    ("try_spawn", || of(|| nursery(|n| n.try_spawn(|| Ok(1)).join()).map(drop).unwrap())),
    ("spawn_async", || of(|| nursery(|n| n.spawn_async(ready(1)).join()).map(drop).unwrap())),
    ("a failed child", || {
        of(|| {
            let options = NurseryOptions::new().on_failure(OnFailure::WaitAll);
            let outcome =
                nursery_with(options, |n| Ok(drop(n.try_spawn(|| Err::<(), _>(TaskError::msg("on purpose"))))));
            assert!(outcome.is_err());
        })
    }),
    ("cancel", || {
        of(|| {
            let outcome = nursery(|n| {
                n.spawn(|| sleep(Duration::from_secs(3600)));
                n.canceller().cancel();
                Ok(())
            });
            assert!(outcome.unwrap_err().is_cancelled());
        })
    }),
    ("dismiss", || {
        of(|| {
            nursery(|n| {
                n.spawn(|| sleep(Duration::from_secs(3600)));
                n.dismiss();
                Ok(())
            })
            .unwrap();
        })
    }),
    ("deadline", || of(|| nursery(|n| Ok(n.timeout(Duration::from_secs(60)))).unwrap())),
    ("join", || of(|| assert_eq!(join(|| 1, || 2), (1, 2)))),
    ("yield_now", || of(yield_now)),
    ("checkpoint", || of(checkpoint)),
    ("sleep", || of(|| sleep(SHORT))),
    ("now", || of(|| assert!(now() <= now()))),
    ("shield", || of(|| shield(yield_now))),
    ("is_cancelled", || of(|| assert!(!is_cancelled()))),
    ("current_task and current_worker", || of(|| assert!(current_task().is_some() && current_worker().is_some()))),
    ("run", || of(|| assert_eq!(run(|| 1).unwrap(), 1))),
    ("a runtime", || of(|| drop(Runtime::builder().workers(1).max_fibers(64).build().unwrap()))),
    ("a run of another runtime", || {
        let runtime = Runtime::builder().workers(1).max_fibers(64).build().unwrap();
        of(move || assert_eq!(runtime.run(|| 1).unwrap(), 1))
    }),
    ("fiber_local", || of(|| LOCAL.with(|local| local.lock().unwrap().push(1)))),
    // ---- channels ----
    ("channel", || of(|| drop(channel::<u32>(4)))),
    ("try_channel", || of(|| drop(try_channel::<u32>(4).unwrap()))),
    ("unbounded", || of(|| drop(unbounded::<u32>()))),
    ("bounded: send and recv", || {
        let (tx, rx) = channel(4);
        of(move || {
            tx.send(1).unwrap();
            rx.recv().unwrap();
        })
    }),
    ("bounded: send that waits", || {
        let (tx, rx) = channel(1);
        tx.send(0).unwrap();
        of(move || assert!(tx.send_timeout(1, SHORT).is_err() && !rx.is_empty()))
    }),
    ("bounded: recv that waits", || {
        let (tx, rx) = channel::<u32>(1);
        of(move || assert!(rx.recv_timeout(SHORT).is_err() && !tx.is_closed()))
    }),
    ("bounded: try_send and try_recv", || {
        let (tx, rx) = channel(4);
        of(move || {
            tx.try_send(1).unwrap();
            rx.try_recv().unwrap();
        })
    }),
    ("bounded: len, capacity, is_closed, close", || {
        let (tx, rx) = channel::<u32>(4);
        of(move || {
            assert_eq!((tx.len(), rx.capacity(), tx.is_closed()), (0, Some(4), false));
            rx.close();
        })
    }),
    ("bounded: clone and drop", || {
        let (tx, rx) = channel::<u32>(4);
        of(move || drop((tx.clone(), rx.clone())))
    }),
    ("unbounded: send and recv", || {
        let (tx, rx) = unbounded();
        of(move || {
            tx.send(1).unwrap();
            rx.recv().unwrap();
        })
    }),
    ("unbounded: send, try_recv, len", || {
        let (tx, rx) = unbounded();
        of(move || {
            tx.send(1).unwrap();
            assert_eq!(rx.len(), 1);
            rx.try_recv().unwrap();
        })
    }),
    ("unbounded: recv that waits", || {
        let (tx, rx) = unbounded::<u32>();
        of(move || assert!(rx.recv_timeout(SHORT).is_err() && !tx.is_closed()))
    }),
    ("rendezvous: both sides wait", || {
        let (tx, rx) = channel::<u32>(0);
        of(move || assert!(rx.recv_timeout(SHORT).is_err() && tx.send_timeout(1, SHORT).is_err()))
    }),
    ("rendezvous: try, len", || {
        let (tx, rx) = channel::<u32>(0);
        of(move || assert!(rx.try_recv().is_err() && tx.try_send(1).is_err() && rx.is_empty()))
    }),
    ("send_async and recv_async", || {
        let (tx, rx) = channel(4);
        of(move || {
            block_on(tx.send_async(1)).unwrap();
            block_on(rx.recv_async()).unwrap();
        })
    }),
    ("oneshot", || {
        of(|| {
            let (tx, rx) = oneshot::channel();
            tx.send(1).unwrap();
            assert_eq!(rx.recv(), Ok(1));
        })
    }),
    ("oneshot: recv that waits", || {
        once(oneshot::channel::<u32>(), |(tx, mut rx)| {
            assert!(rx.recv_timeout(SHORT).is_err() && rx.try_recv().is_err() && !tx.is_closed());
        })
    }),
    ("after and ticker: made and dropped", || of(|| drop((after(SHORT), ticker(SHORT))))),
    ("after and ticker: recv that waits, try_recv, len", || {
        let ticks = ticker(SHORT);
        of(move || {
            assert!(after(SHORT).recv().is_ok() && ticks.recv().is_ok());
            assert!(ticks.try_recv().is_ok() || ticks.len() < 2);
        })
    }),
    ("after: recv_async", || of(|| assert!(block_on(after(SHORT).recv_async()).is_ok()))),
    ("ticker: close", || {
        let ticks = ticker(Duration::from_secs(3600));
        of(move || assert!(ticks.recv_timeout(SHORT).is_err() && ticks.close()))
    }),
    ("select! with a timer", || {
        of(|| {
            let (slow, soon) = (ticker(Duration::from_secs(3600)), after(SHORT));
            select! {
                _tick = recv(slow) => unreachable!("not for an hour"),
                at = recv(soon) => assert!(at.is_ok()),
            }
        })
    }),
    ("watch: channel, subscribe, clone and drop", || {
        of(|| {
            let (tx, rx) = watch::channel(1);
            drop((tx.subscribe(), rx.clone()));
            assert_eq!((tx.receivers(), rx.is_closed()), (1, false));
        })
    }),
    ("watch: send, modify, replace, changed, latest", || {
        let (tx, rx) = watch::channel(1);
        of(move || {
            tx.send(2).unwrap();
            tx.send_modify(|value| *value += 1);
            assert!(!tx.send_if_modified(|_| false));
            assert!(rx.has_changed() && rx.changed().is_ok() && *rx.latest() == *tx.latest());
            tx.send_replace(4);
            assert_eq!(*rx.mark_seen(), 4);
        })
    }),
    ("watch: changed that waits", || {
        let (tx, rx) = watch::channel(1);
        of(move || assert!(rx.changed_timeout(SHORT).is_err() && !tx.is_closed()))
    }),
    ("watch: wait_for, closed", || {
        once(watch::channel(1), |(tx, rx)| {
            assert!(rx.wait_for(|value| *value == 1).is_ok());
            drop(rx);
            tx.closed();
        })
    }),
    ("watch: futures", || {
        once(watch::channel(1), |(tx, rx)| {
            tx.send(2).unwrap();
            assert!(block_on(rx.changed_async()).is_ok() && block_on(rx.wait_for_async(|value| *value == 2)).is_ok());
            assert!(block_on(timeout(SHORT, rx.changed_async())).is_err());
            drop(rx);
            block_on(tx.closed_async());
        })
    }),
    ("broadcast: channel, subscribe, clone and drop", || {
        of(|| {
            let (tx, rx) = broadcast::channel(4);
            drop((tx.subscribe(), rx.resubscribe(), tx.clone()));
            tx.send(1).unwrap();
            assert_eq!((tx.receivers(), rx.len(), rx.is_closed()), (1, 1, false));
        })
    }),
    ("broadcast: send, recv, try_recv, lag", || {
        let (tx, rx) = broadcast::channel(1);
        of(move || {
            tx.send(1).unwrap();
            assert_eq!(rx.recv(), Ok(1));
            tx.send(2).unwrap();
            tx.send(3).unwrap();
            assert!(rx.try_recv().is_err() && rx.try_recv() == Ok(3));
        })
    }),
    ("broadcast: recv that waits", || {
        let (tx, rx) = broadcast::channel::<u32>(1);
        of(move || assert!(rx.recv_timeout(SHORT).is_err() && tx.receivers() == 1))
    }),
    ("broadcast: recv_async", || {
        let (tx, rx) = broadcast::channel(1);
        of(move || {
            tx.send(1).unwrap();
            assert_eq!(block_on(rx.recv_async()), Ok(1));
            assert!(block_on(timeout(SHORT, rx.recv_async())).is_err());
        })
    }),
    ("select! with watch and broadcast", || {
        let ((watch, watched), (broadcast, news)) = (watch::channel(1), broadcast::channel::<u32>(1));
        of(move || {
            select! {
                _value = recv(watched) => unreachable!("nothing was sent"),
                _value = recv(news) => unreachable!("nothing was sent"),
                timeout(SHORT) => assert!(!watch.is_closed() && broadcast.receivers() == 1),
            }
        })
    }),
    ("select! with a default", || {
        let (tx, rx) = channel::<u32>(1);
        of(move || {
            select! {
                _value = recv(rx) => unreachable!("nothing was sent"),
                default => assert!(!tx.is_closed()),
            }
        })
    }),
    ("select! with a timeout", || {
        let (tx, rx) = channel::<u32>(1);
        of(move || {
            select! {
                _value = recv(rx) => unreachable!("nothing was sent"),
                timeout(SHORT) => assert!(!tx.is_closed()),
            }
        })
    }),
    ("select! that is biased", || {
        let (tx, rx) = channel::<u32>(1);
        of(move || {
            select! {
                biased;
                _value = recv(rx) => unreachable!("nothing was sent"),
                timeout(SHORT) => assert!(!tx.is_closed()),
            }
        })
    }),
    ("Select", || {
        let (tx, rx) = channel::<u32>(1);
        of(move || {
            let mut case = rx.case();
            assert_eq!(Select::new().with(&mut case).wait_timeout(SHORT), None);
            assert!(!tx.is_closed());
        })
    }),
    // ---- locks ----
    ("Mutex: lock, try_lock", || {
        let lock = Mutex::new(0);
        of(move || {
            *lock.lock() += 1;
            *lock.try_lock().unwrap() += 1;
        })
    }),
    ("Mutex: lock_timeout that waits", || {
        let lock = Mutex::new(0);
        of(move || {
            let _held = lock.lock();
            assert!(lock.lock_timeout(SHORT).is_none());
        })
    }),
    ("Condvar: wait_timeout, notify", || {
        let (lock, changed) = (Mutex::new(0), Condvar::new());
        of(move || {
            let mut guard = lock.lock();
            changed.wait_timeout(&mut guard, SHORT);
            changed.notify_one();
            changed.notify_all();
        })
    }),
    ("Semaphore: acquire, try_acquire, add_permits", || {
        let permits = Semaphore::new(2);
        of(move || {
            drop(permits.acquire(1));
            drop(permits.try_acquire(2).unwrap());
            permits.add_permits(1);
            assert!(permits.acquire_timeout(1000, SHORT).is_none());
        })
    }),
    ("Semaphore: acquire_async", || {
        let permits = Semaphore::new(2);
        of(move || drop(block_on(permits.acquire_async(1))))
    }),
    ("RwLock: read, write, try, downgrade", || {
        let lock = RwLock::new(0);
        of(move || {
            assert!(*lock.read() == 0 && lock.try_read().is_some());
            *lock.write() += 1;
            *lock.try_write().unwrap() -= 1;
            drop(RwLockWriteGuard::downgrade(lock.write_uninterrupted()));
            assert!(!lock.is_locked());
        })
    }),
    ("RwLock: both sides wait", || {
        let lock = RwLock::new(0);
        of(move || {
            let held = lock.read();
            assert!(lock.write_timeout(SHORT).is_none());
            drop(held);
            let _held = lock.write();
            assert!(lock.read_timeout(SHORT).is_none());
        })
    }),
    ("RwLock: read_async and write_async", || {
        let lock = RwLock::new(0);
        of(move || {
            drop(block_on(lock.read_async()));
            drop(block_on(lock.write_async()));
        })
    }),
    // ---- futures ----
    ("block_on, ready", || of(|| assert_eq!(block_on(ready(1)), 1))),
    ("block_on a sleep", || of(|| block_on(sleep_async(SHORT)))),
    ("timeout", || of(|| assert!(block_on(timeout(SHORT, std::future::pending::<()>())).is_err()))),
    ("block_on a foreign channel", || {
        let (tx, rx) = async_channel::bounded(1);
        of(move || {
            block_on(tx.send(1)).unwrap();
            assert_eq!(block_on(rx.recv()), Ok(1));
        })
    }),
    // ---- the world ----
    ("unblock", || of(|| assert_eq!(unblock(|| 1), 1))),
    ("unblock_async", || of(|| assert_eq!(block_on(unblock_async(|| 1)), 1))),
    ("fs: write, read, metadata, remove", || {
        once(file("fs"), |path| {
            fs::write(&path, "deep").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "deep");
            assert_eq!(fs::metadata(&path).unwrap().len(), 4);
            fs::remove_file(&path).unwrap();
        })
    }),
    ("fs: File", || {
        once(file("file"), |path| {
            let mut file = fs::File::create(&path).unwrap();
            file.write_all(b"deep").unwrap();
            file.sync_data().unwrap();
            let mut text = String::new();
            fs::File::open(&path).unwrap().read_to_string(&mut text).unwrap();
            assert_eq!(text, "deep");
            fs::remove_file(&path).unwrap();
        })
    }),
    ("net: bind", || of(|| drop(net::TcpListener::bind("127.0.0.1:0").unwrap()))),
    ("net: connect and accept", || {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        of(move || {
            let near = net::TcpStream::connect(address).unwrap();
            drop((near, listener.accept().unwrap()));
        })
    }),
    ("net: read and write", || {
        once(connected(), |(mut near, mut far)| {
            near.write_all(b"deep").unwrap();
            let mut bytes = [0; 4];
            far.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"deep");
        })
    }),
    ("net: read that waits", || {
        once(connected(), |(near, mut far)| {
            far.set_read_timeout(Some(SHORT)).unwrap();
            assert!(far.read(&mut [0; 4]).is_err());
            drop(near);
        })
    }),
    ("net: a future that reads and waits", || {
        let (near, far) = connected();
        let mut far = far.into_async();
        of(move || {
            let mut bytes = [0; 4];
            let read = poll_fn(|cx| Pin::new(&mut far).poll_read(cx, &mut bytes));
            assert!(block_on(timeout(SHORT, read)).is_err() && near.peer_addr().is_ok());
        })
    }),
    ("udp: bind, connect, send and recv", || {
        of(|| {
            let (near, far) =
                (net::UdpSocket::bind("127.0.0.1:0").unwrap(), net::UdpSocket::bind("127.0.0.1:0").unwrap());
            near.connect(far.local_addr().unwrap()).unwrap();
            near.send(b"deep").unwrap();
            assert_eq!(far.recv_from(&mut [0; 4]).unwrap().0, 4);
        })
    }),
    ("udp: recv that waits, in a task and in a future", || {
        let socket = net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(SHORT)).unwrap();
        of(move || {
            assert!(socket.recv(&mut [0; 4]).is_err());
            assert!(block_on(timeout(SHORT, socket.recv_async(&mut [0; 4]))).is_err());
        })
    }),
    ("unix: bind, connect, accept, read and write", || {
        of(|| {
            let path = file("socket");
            let _ = std::fs::remove_file(&path); // of an attempt that unwound
            let listener = net::UnixListener::bind(&path).unwrap();
            let mut near = net::UnixStream::connect(&path).unwrap();
            near.write_all(b"deep").unwrap();
            let mut bytes = [0; 4];
            listener.accept().unwrap().0.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"deep");
        })
    }),
    ("unix: pair, clone, read that waits, drop", || {
        of(|| {
            let (near, far) = net::UnixStream::pair().unwrap();
            let mut clone = near.try_clone().unwrap();
            clone.set_read_timeout(Some(SHORT)).unwrap();
            assert!(clone.read(&mut [0; 4]).is_err() && far.peer_addr().is_ok());
        })
    }),
    ("unix: datagrams", || {
        of(|| {
            let (near, far) = net::UnixDatagram::pair().unwrap();
            near.send(b"deep").unwrap();
            assert_eq!(far.recv(&mut [0; 4]).unwrap(), 4);
            far.set_read_timeout(Some(SHORT)).unwrap();
            assert!(far.recv(&mut [0; 4]).is_err());
        })
    }),
    // ---- tenants ----
    ("charge", || of(|| charge(1))),
    ("budget_left", || of(|| assert!(budget_left().ops > 0))),
    ("recharge, refused", || of(|| drop(recharge(Budget::ops(1))))),
    ("Fuel", || of(|| Fuel::enter().tick())),
    ("a nursery with a budget", || {
        of(|| {
            let options = NurseryOptions::new().budget(Budget::ops(1000).spawns(4).channel_ops(4));
            nursery_with(options, |n| n.spawn(|| charge(10)).join()).unwrap();
        })
    }),
    ("a budget that is spent", || {
        of(|| {
            let options = NurseryOptions::new().task_budget(Budget::ops(10));
            assert!(nursery_with(options, |n| n.spawn(|| charge(100)).join()).is_err());
        })
    }),
    ("a capability, its use and its end", || {
        let root = Ledger::new().grant(CapSpawn::new());
        of(move || {
            let tenant = root.attenuate(CapSpawn::new().max_tasks(2)).unwrap();
            nursery_with(NurseryOptions::new().capability(&tenant), |n| n.spawn(|| ()).join()).unwrap();
            tenant.revoke();
        })
    }),
    ("a runtime with a profile", || {
        let runtime = Runtime::builder().workers(1).max_fibers(64).profile(Profile::Service).build().unwrap();
        of(move || assert!(runtime.run(|| budget_left().ops).unwrap() > 0))
    }),
    // ---- actors ----
    ("an actor: send and ask", || {
        of(|| {
            nursery(|n| {
                let echo = actor::spawn(n, "echo", actor::from_fn(|reply: oneshot::Sender<u32>, _| Ok(reply.send(1)?)));
                assert_eq!(echo.ask(|reply| reply).unwrap(), 1);
                n.dismiss();
                Ok(())
            })
            .unwrap();
        })
    }),
    ("a supervisor", || {
        of(|| {
            nursery(|n| {
                let child = Child::task("child", || Ok(sleep(Duration::from_secs(3600))));
                let supervisor = Supervisor::new(Strategy::OneForOne).child(child).start(n)?;
                supervisor.restart_child("child")?;
                supervisor.stop()
            })
            .unwrap();
        })
    }),
    // ---- seeds ----
    ("a seeded run", || {
        let runtime = Runtime::builder().workers(2).max_fibers(64).seeded(1).build().unwrap();
        of(move || assert_eq!(runtime.run(|| nursery(|n| n.spawn(|| 1).join()).unwrap()).unwrap(), 1))
    }),
    // ---- what is caught ----
    ("catch_unwind round a send", || {
        let (tx, rx) = channel(1000);
        let shared = Arc::new((tx, rx));
        of(move || {
            let inner = shared.clone();
            let _ = catch_unwind(AssertUnwindSafe(|| inner.0.send(1).unwrap()));
        })
    }),
];
