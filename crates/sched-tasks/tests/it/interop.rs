//! Futures, streams and channels of other crates run here as they do at home.

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::{Duration, Instant},
};

use async_io::{Async, Timer};
use futures::{
    AsyncReadExt, AsyncWriteExt, FutureExt, SinkExt, StreamExt,
    future::{join_all, select, try_join_all},
    stream::{self, FuturesUnordered},
};
use sched_tasks::{Runtime, block_on, nursery, run, sleep_async};

#[test]
fn join_all_waits_for_tasks_and_futures() {
    let squares = nursery(|n| {
        let tasks: Vec<_> = (0..100_u64).map(|i| n.spawn_async(async move { i * i })).collect();
        n.spawn_async(async move { join_all(tasks).await.into_iter().map(|task| task.unwrap()).sum::<u64>() }).join()
    });
    assert_eq!(squares.unwrap(), 328_350);
}

#[test]
fn try_join_all_stops_at_an_error() {
    let outcome: Result<Vec<u32>, &str> = block_on(try_join_all((0..10).map(|i| async move {
        futures_lite::future::yield_now().await;
        if i == 7 { Err("seven") } else { Ok(i) }
    })));
    assert_eq!(outcome, Err("seven"));
}

#[test]
fn select_and_race_take_the_first() {
    run(|| {
        let never = std::future::pending::<u32>();
        let soon = sleep_async(Duration::from_millis(1)).map(|()| 1);
        let (first, _other) = block_on(select(Box::pin(never), Box::pin(soon))).factor_first();
        assert_eq!(first, 1);
        let raced = block_on(futures_lite::future::race(std::future::pending(), async {
            Timer::after(Duration::from_millis(1)).await;
            2
        }));
        assert_eq!(raced, 2);
    })
    .unwrap();
}

#[test]
fn futures_unordered_gives_results_as_they_come() {
    let order = nursery(|n| {
        n.spawn_async(async {
            let mut sleeps: FuturesUnordered<_> = [20_u64, 1, 10]
                .into_iter()
                .map(|millis| sleep_async(Duration::from_millis(millis)).map(move |()| millis))
                .collect();
            let mut order = Vec::new();
            while let Some(millis) = sleeps.next().await {
                order.push(millis);
            }
            order
        })
        .join()
    });
    assert_eq!(order.unwrap(), [1, 10, 20]);
}

#[test]
fn streams_buffer_and_forward() {
    let (tx, rx) = futures::channel::mpsc::channel::<Result<u64, _>>(4);
    let sum = nursery(|n| {
        n.spawn_async(async move {
            let numbers = stream::iter(0..1_000_u64).map(|i| async move { i }).buffered(16);
            numbers.map(Ok).map(Ok).forward(tx.sink_map_err(|_| ())).await
        });
        n.spawn_async(rx.map(Result::<_, ()>::unwrap).fold(0, |sum, i| async move { sum + i })).join()
    });
    assert_eq!(sum.unwrap(), 499_500);
}

#[test]
fn channels_of_other_crates_join_fibers_futures_and_threads() {
    const EACH: u64 = 2_000;
    let (tx, rx) = async_channel::bounded(8);
    let (back, returned) = flume::bounded(8);
    let thread = {
        let tx = tx.clone();
        std::thread::spawn(move || (0..EACH).for_each(|i| block_on(tx.send(i)).unwrap()))
    };
    let sum = nursery(|n| {
        let fiber = tx.clone();
        n.spawn(move || (0..EACH).for_each(|i| block_on(fiber.send(i)).unwrap()));
        n.spawn_async(async move {
            for i in 0..EACH {
                tx.send(i).await.unwrap();
            }
        });
        for _ in 0..3 {
            let (rx, back) = (rx.clone(), back.clone());
            n.spawn_async(async move {
                while let Ok(i) = rx.recv().await {
                    back.send_async(i).await.unwrap();
                }
            });
        }
        drop(back);
        let mut sum = 0;
        while let Ok(i) = block_on(returned.recv_async()) {
            sum += i;
        }
        Ok(sum)
    });
    thread.join().unwrap();
    assert_eq!(sum.unwrap(), 3 * (EACH * (EACH - 1) / 2));
}

#[test]
fn a_oneshot_from_a_plain_thread_wakes_a_future() {
    nursery(|n| {
        for i in 0..200 {
            let (tx, rx) = futures::channel::oneshot::channel();
            let task = n.spawn_async(rx);
            let thread = std::thread::spawn(move || tx.send(i).unwrap());
            assert_eq!(task.join()?, Ok(i));
            thread.join().unwrap();
        }
        Ok(())
    })
    .unwrap();
}

#[test]
fn timers_of_async_io_work_here() {
    let begun = Instant::now();
    nursery(|n| {
        (0..50).for_each(|_| drop(n.spawn_async(Timer::after(Duration::from_millis(10)))));
        n.spawn(|| block_on(Timer::after(Duration::from_millis(10))));
        Ok(())
    })
    .unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(10));
}

#[test]
fn sockets_of_async_io_talk_to_fibers() {
    let listener = sched_tasks::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    nursery(|n| {
        let server = n.spawn_async(async move {
            let (mut stream, _) = listener.into_async().accept().await?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            stream.write_all(text.to_uppercase().as_bytes()).await
        });
        let client = n.spawn_async(async move {
            let mut stream = Async::<std::net::TcpStream>::connect(address).await?;
            stream.write_all(b"loud").await?;
            stream.get_ref().shutdown(std::net::Shutdown::Write)?;
            let mut text = String::new();
            stream.read_to_string(&mut text).await?;
            Ok::<_, std::io::Error>(text)
        });
        assert_eq!(client.join()??, "LOUD");
        Ok(server.join()??)
    })
    .unwrap();
}

#[test]
fn a_future_borrows_from_around_its_nursery() {
    let words = ["alpha".to_string(), "beta".to_string()];
    let total = AtomicU32::new(0);
    nursery(|n| {
        for word in &words {
            let total = &total;
            n.spawn_async(async move {
                sleep_async(Duration::from_millis(1)).await;
                total.fetch_add(word.len() as u32, SeqCst);
            });
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(total.into_inner(), 9);
}

sched_tasks::fiber_local! {
    static POLLS: Cell<u32> = Cell::new(0);
}

#[test]
fn locals_belong_to_the_future_not_to_the_worker() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime
        .nursery(|n| {
            let tasks: Vec<_> = (0..50)
                .map(|_| {
                    n.spawn_async(async {
                        for turn in 0..20 {
                            assert_eq!(POLLS.get(), turn);
                            POLLS.set(turn + 1);
                            futures_lite::future::yield_now().await;
                        }
                        POLLS.get()
                    })
                })
                .collect();
            let fibers: Vec<_> = (0..50).map(|_| n.spawn(|| POLLS.get())).collect();
            assert!(tasks.into_iter().all(|task| task.join().unwrap() == 20));
            assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap() == 0), "a fiber saw a future's value");
            Ok(())
        })
        .unwrap();
}
