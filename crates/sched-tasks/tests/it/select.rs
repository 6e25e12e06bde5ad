//! Select completes one case, the right one, and fairly.

use std::{
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use sched_tasks::{
    RecvError, Runtime, Select, SendError, TryRecvError, channel, explore, nursery, run, select, yield_now,
};

const MOMENT: Duration = Duration::from_millis(2);
const AGES: Duration = Duration::from_secs(60);

#[test]
fn of_two_busy_channels_each_is_served() {
    let check = || {
        let (tx1, rx1) = channel(1);
        let (tx2, rx2) = channel(1);
        let mut served = [0, 0];
        for _ in 0..10_000 {
            _ = (tx1.try_send(()), tx2.try_send(()));
            select! {
                recv(rx1) => served[0] += 1,
                recv(rx2) => served[1] += 1,
            }
        }
        assert!(served.iter().all(|&times| (3500..=6500).contains(&times)), "{served:?}");
    };
    check();
    run(check).unwrap();
}

#[test]
#[allow(unused_braces, reason = "they are what is tested")]
fn a_body_may_be_a_block_with_or_without_a_comma() {
    let (tx, rx) = channel(2);
    let mut got = Vec::new();
    for _ in 0..2 {
        select! {
            sent = send(tx, 1) => { sent.unwrap() }, // a comma
            timeout(AGES) => { unreachable!("there is room") },
        }
        select! {
            value = recv(rx) => { got.push(value.unwrap()) } // none
            default => { unreachable!("it is there") }
        }
    }
    assert_eq!(got, [1, 1]);
}

#[test]
fn a_channel_may_be_any_expression() {
    let (tx, rx) = channel(1);
    let got = select! {
        sent = send(tx.clone(), 5) => sent.is_ok(),
        timeout(Duration::ZERO) => false,
    };
    assert!(got);
    let ends = [rx];
    let got = select! {
        value = recv(ends[0].clone()) => value,
        timeout(Duration::ZERO) => Ok(0),
    };
    assert_eq!(got, Ok(5));
}

#[test]
fn a_select_may_have_thirty_arms() {
    let (tx, rx) = channel(1);
    for _ in 0..30 {
        tx.send(()).unwrap();
        select! {
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
            recv(rx) => {}
        }
        assert!(rx.try_recv().is_err(), "one arm was taken");
    }
}

#[test]
fn idle_cases_do_not_tip_the_balance() {
    let (tx1, rx1) = channel(1);
    let (tx2, rx2) = channel(1);
    let (_idle, rx3) = channel::<()>(1);
    let mut served = [0, 0];
    for _ in 0..10_000 {
        _ = (tx1.try_send(()), tx2.try_send(()));
        select! {
            recv(rx1) => served[0] += 1,
            recv(rx2) => served[1] += 1,
            recv(rx3) => unreachable!(),
        }
    }
    assert!(served.iter().all(|&times| (4500..=5500).contains(&times)), "{served:?}");
}

#[test]
fn time_runs_out_for_fibers_and_threads() {
    let check = || {
        let (_tx, rx) = channel::<u8>(0);
        let (tx, _rx) = channel(0);
        let begun = Instant::now();
        let timed_out = select! {
            recv(rx) => false,
            send(tx, 1u8) => false,
            timeout(MOMENT) => true,
        };
        assert!(timed_out && begun.elapsed() >= MOMENT);
    };
    check();
    run(check).unwrap();
}

#[test]
fn default_is_for_now() {
    let (tx, rx) = channel(1);
    let poll = || {
        select! {
            value = recv(rx) => value.ok(),
            default => None,
        }
    };
    assert_eq!(poll(), None);
    tx.send(5).unwrap();
    assert_eq!(poll(), Some(5));
    drop(tx);
    assert_eq!(poll(), None);
}

#[test]
fn a_closed_channel_is_ready() {
    let (tx, rx) = channel::<u8>(1);
    let (tx2, rx2) = channel(0);
    drop((tx, rx2));
    let (mut recv, mut send) = (rx.case(), tx2.case("back"));
    assert_eq!(Select::new().with(&mut recv).wait(), Some(0));
    assert_eq!(recv.take(), Err(RecvError));
    assert_eq!(Select::new().with(&mut send).wait_timeout(AGES), Some(0));
    assert_eq!(send.take(), Err(SendError("back")));
}

#[test]
fn closing_wakes_a_select() {
    for capacity in [0, 1] {
        let (tx, rx) = channel::<u8>(capacity);
        let (_other, quiet) = channel::<u8>(capacity);
        nursery(|n| {
            let closed = n.spawn(|| {
                select! {
                    value = recv(rx) => value.is_err(),
                    recv(quiet) => false,
                }
            });
            yield_now();
            tx.close();
            assert!(closed.join()?);
            Ok(())
        })
        .unwrap();
    }
}

#[test]
fn a_case_that_was_not_chosen_keeps_its_value() {
    let (tx, _rx) = channel(0);
    let (ready, rx) = channel(1);
    ready.send(()).unwrap();
    let (mut send, mut recv) = (tx.case(String::from("kept")), rx.case());
    assert_eq!(Select::new().with(&mut send).with(&mut recv).wait(), Some(1));
    assert_eq!(recv.take(), Ok(()));
    assert_eq!(send.into_value().as_deref(), Some("kept"));
}

#[test]
fn several_offers_at_one_rendezvous_keep_their_values_apart() {
    let (tx, rx) = channel(0);
    for _ in 0..200 {
        let (mut one, mut two) = (tx.case(1), tx.case(2));
        assert_eq!(Select::new().with(&mut one).with(&mut two).wait_timeout(Duration::ZERO), None);
        assert_eq!((one.into_value(), two.into_value()), (Some(1), Some(2)));
    }
    let (mut one, mut two) = (tx.case(1), tx.case(2));
    thread::scope(|s| {
        let got = s.spawn(|| rx.recv().unwrap());
        let chosen = Select::new().with(&mut one).with(&mut two).wait().unwrap();
        assert_eq!(got.join().unwrap(), chosen + 1);
    });
}

#[test]
fn a_select_does_not_meet_itself() {
    let (tx, rx) = channel(0);
    let alone = select! {
        recv(rx) => false,
        send(tx, 1) => false,
        timeout(MOMENT) => true,
    };
    assert!(alone);
    assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn selects_meet_selects_without_a_buffer() {
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let (tx1, rx1) = channel::<u32>(0);
        let (tx2, rx2) = channel::<u32>(0);
        let sum = AtomicU64::new(0);
        runtime
            .nursery(|n| {
                n.spawn(|| {
                    for i in 0..3000 {
                        select! {
                            sent = send(tx1, i) => sent.unwrap(),
                            sent = send(tx2, i) => sent.unwrap(),
                        }
                    }
                });
                n.spawn(|| {
                    for _ in 0..3000 {
                        let value = select! {
                            value = recv(rx2) => value.unwrap(),
                            value = recv(rx1) => value.unwrap(),
                        };
                        sum.fetch_add(u64::from(value), SeqCst);
                    }
                });
                Ok(())
            })
            .unwrap();
        assert_eq!(sum.into_inner(), (0..3000).sum::<u64>());
    }
}

#[test]
fn eight_fibers_select_and_lose_nothing() {
    for (workers, capacity) in [(1, 0), (2, 0), (1, 1), (2, 1), (2, 8)] {
        let runtime = Runtime::builder().workers(workers).build().unwrap();
        let channels: Vec<_> = (0..3).map(|_| channel::<u64>(capacity)).collect();
        let (done, all_done) = channel::<()>(0);
        let received = Mutex::new(Vec::new());
        runtime
            .nursery(|n| {
                let senders: Vec<_> = (0..4u64)
                    .map(|sender| {
                        let channels = &channels;
                        n.spawn(move || {
                            for i in 0..500 {
                                let value = sender * 1000 + i;
                                select! {
                                    sent = send(channels[0].0, value) => sent.unwrap(),
                                    sent = send(channels[1].0, value) => sent.unwrap(),
                                    sent = send(channels[2].0, value) => sent.unwrap(),
                                }
                            }
                        })
                    })
                    .collect();
                for _ in 0..4 {
                    n.spawn(|| {
                        loop {
                            let value = select! {
                                value = recv(channels[0].1) => value.unwrap(),
                                value = recv(channels[1].1) => value.unwrap(),
                                value = recv(channels[2].1) => value.unwrap(),
                                recv(all_done) => break,
                            };
                            received.lock().unwrap().push(value);
                        }
                    });
                }
                for sender in senders {
                    sender.join()?;
                }
                while channels.iter().any(|(tx, _)| !tx.is_empty()) {
                    yield_now();
                }
                done.close();
                Ok(())
            })
            .unwrap();
        let received = received.into_inner().unwrap();
        let distinct: HashSet<_> = received.iter().collect();
        assert_eq!((received.len(), distinct.len()), (2000, 2000), "{workers} workers, capacity {capacity}");
    }
}

#[test]
fn cancelled_selects_lose_nothing() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    for round in 0..300u64 {
        let (tx1, rx1) = channel::<u64>((round % 3) as usize);
        let (tx2, rx2) = channel::<u64>((round % 2) as usize);
        let (next, sent, received) = (AtomicU64::new(0), Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let outcome = runtime.run(|| {
            nursery(|n| {
                for _ in 0..2 {
                    n.spawn(|| {
                        loop {
                            let value = next.fetch_add(1, SeqCst);
                            select! {
                                done = send(tx1, value) => done.unwrap(),
                                done = send(tx2, value) => done.unwrap(),
                            }
                            sent.lock().unwrap().push(value);
                        }
                    });
                    n.spawn(|| {
                        loop {
                            let value = select! {
                                value = recv(rx1) => value.unwrap(),
                                value = recv(rx2) => value.unwrap(),
                                timeout(Duration::from_micros(200)) => continue,
                            };
                            received.lock().unwrap().push(value);
                        }
                    });
                }
                (0..round % 40).for_each(|_| yield_now());
                n.cancel();
                Ok(())
            })
        });
        assert!(outcome.unwrap().unwrap_err().is_cancelled());
        let mut out = received.into_inner().unwrap();
        out.extend(rx1.try_iter().chain(rx2.try_iter()));
        let mut sent = sent.into_inner().unwrap();
        out.sort_unstable();
        sent.sort_unstable();
        assert_eq!(out, sent, "round {round}");
    }
}

#[test]
fn a_value_that_was_not_sent_comes_back_to_the_arm_that_was_taken() {
    for capacity in [0, 1] {
        let (tx, rx) = channel::<String>(capacity);
        (0..capacity).for_each(|_| tx.send("full".into()).unwrap());
        let (other, values) = channel::<u32>(1);
        let text = || String::from("mine");

        let value = text();
        let back = select! {
            send(tx, value) => None,
            default => Some(value),
        };
        assert_eq!(back, Some(text()));

        let value = text();
        let back = select! {
            send(tx, value) => None,
            timeout(Duration::from_millis(1)) => Some(value),
        };
        assert_eq!(back, Some(text()));

        other.send(7).unwrap();
        let (value, second) = (text(), String::from("mine, too"));
        let back = select! {
            sent = send(tx, value) => panic!("{sent:?} {second}"),
            got = recv(values) => (got, value, second),
            sent = send(tx, second) => panic!("{sent:?} {value}"),
        };
        assert_eq!(back, (Ok(7), text(), String::from("mine, too")));

        // An expression has a name if it is given one; a name of the pattern goes before it.
        let mut queue = vec![text()];
        other.send(8).unwrap();
        let back = select! {
            send(tx, next = queue.pop().unwrap()) => panic!("sent"),
            got = recv(values) => {
                queue.push(next);
                got
            }
        };
        assert_eq!((back, &queue[..]), (Ok(8), &[text()][..]));
        other.send(9).unwrap();
        let value = text();
        let back = select! {
            send(tx, value) => panic!("sent"),
            value = recv(values) => value,
        };
        assert_eq!(back, Ok(9));

        // What is handed over does not come back; what is given back by a closed channel is in the error.
        drop(rx);
        let (value, unsent) = (text(), String::from("unsent"));
        let outcome = select! {
            sent = send(tx, value) => sent.map_err(|SendError(value)| (value, unsent)),
            timeout(Duration::from_secs(60)) => panic!("{value} {unsent}"),
        };
        assert_eq!(outcome.unwrap_err(), (text(), String::from("unsent")));
    }
}

#[test]
fn no_value_is_lost_by_a_select_that_is_asked_again_and_again() {
    const VALUES: u64 = 1_000;
    const EMPTY: Option<u64> = None; // what is written like a variable and is none
    for capacity in [0, 1, 4] {
        let (tx, rx) = channel::<Box<u64>>(capacity);
        let (noise, noises) = channel::<()>(1);
        let (ends, end) = channel::<Option<u64>>(1);
        let received = nursery(|n| {
            n.spawn(move || while noise.send(()).is_ok() {});
            n.try_spawn(move || {
                for i in 0..VALUES {
                    let mut value = Box::new(i);
                    loop {
                        value = select! {
                            sent = send(tx, value) => break sent?,
                            recv(noises) => value,
                            default => {
                                yield_now();
                                value
                            }
                        };
                    }
                }
                select! { send(ends, EMPTY) => Ok(()) }
            });
            let received: Vec<u64> = rx.iter().map(|value| *value).collect();
            assert_eq!(end.recv(), Ok(None));
            Ok(received)
        });
        assert!(received.unwrap().into_iter().eq(0..VALUES));
    }
}

#[test]
fn a_biased_select_takes_the_first_arm_that_can_be_taken() {
    let check = || {
        let (tx1, rx1) = channel(1);
        let (tx2, rx2) = channel(1);
        for round in 0..200 {
            tx2.send(()).unwrap();
            if round % 3 > 0 {
                tx1.send(()).unwrap();
            }
            let first = select! {
                biased;
                recv(rx1) => true,
                recv(rx2) => false,
            };
            assert_eq!(first, round % 3 > 0);
            _ = (rx1.try_recv(), rx2.try_recv());
        }
        let kept = String::from("kept");
        let got = select! {
            biased;
            recv(rx1) => None,
            sent = send(tx2, 1.to_string().pop().map(drop).unwrap()) => sent.ok().map(|()| kept),
            default => None,
        };
        assert_eq!(got.as_deref(), Some("kept"));
    };
    check();
    run(check).unwrap();
    explore(0..50, check);
}

#[test]
fn a_biased_select_that_waits_takes_what_comes_first() {
    explore(0..200, || {
        let (stop, stopped) = channel::<()>(0);
        let (work, jobs) = channel::<u32>(0);
        nursery(|n| {
            let jobs_done = n.spawn(|| {
                let mut sum = 0;
                loop {
                    select! {
                        biased;
                        recv(stopped) => break sum,
                        job = recv(jobs) => sum += job.unwrap(),
                        timeout(AGES) => unreachable!("the body sends"),
                    }
                }
            });
            (1..=3).try_for_each(|job| work.send(job))?;
            stop.send(())?;
            assert_eq!(jobs_done.join()?, 6);
            Ok(())
        })
    });
}

#[test]
fn biased_selects_meet_without_a_buffer_though_they_name_the_channels_in_opposite_orders() {
    let (tx1, rx1) = channel::<u32>(0);
    let (tx2, rx2) = channel::<u32>(0);
    let meet = |rounds| {
        nursery(|n| {
            n.spawn(|| {
                for i in 0..rounds {
                    select! {
                        biased;
                        sent = send(tx1, i) => sent.unwrap(),
                        sent = send(tx2, i) => sent.unwrap(),
                    }
                }
            });
            for _ in 0..rounds {
                select! {
                    biased;
                    value = recv(rx2) => _ = value?,
                    value = recv(rx1) => _ = value?,
                }
            }
            Ok(())
        })
        .unwrap();
    };
    Runtime::builder().workers(2).build().unwrap().run(|| meet(3000)).unwrap();
    explore(0..100, || meet(5));
}
