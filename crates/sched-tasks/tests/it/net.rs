//! Sockets: what is sent arrives, and a cancellation leaks nothing.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::Shutdown,
    path::{Path, PathBuf},
    sync::{
        Mutex, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use futures_lite::{AsyncReadExt, AsyncWriteExt};
use sched_tasks::{Runtime, TaskError, net::TcpListener, net::TcpStream, nursery, run, unblock, yield_now};
use test_support::{proc_count, resident_bytes};

/// Descriptors are counted for the whole process, so a test that counts them runs alone among the tests of this file.
static DESCRIPTORS: RwLock<()> = RwLock::new(());

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

fn echo(mut stream: &TcpStream) -> Result<(), TaskError> {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            got => stream.write_all(&buffer[..got])?,
        }
    }
}

#[test]
fn an_echo_server_serves_a_hundred_fibers() {
    let _shared = DESCRIPTORS.read();
    const CLIENTS: usize = 100;
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let served = AtomicUsize::new(0);
    runtime
        .run(|| {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let address = listener.local_addr()?;
            nursery(|n| {
                let served = &served;
                n.try_spawn(move || {
                    nursery(|connections| {
                        for stream in listener.incoming().take(CLIENTS) {
                            let stream = stream?;
                            connections.try_spawn(move || echo(&stream));
                        }
                        Ok(())
                    })
                });
                for client in 0..CLIENTS {
                    n.try_spawn(move || {
                        let mut stream = TcpStream::connect(address)?;
                        stream.set_nodelay(true)?;
                        for round in 0..20 {
                            let message = format!("client {client}, round {round}");
                            stream.write_all(message.as_bytes())?;
                            let mut answer = vec![0; message.len()];
                            stream.read_exact(&mut answer)?;
                            assert_eq!(answer, message.as_bytes());
                        }
                        served.fetch_add(1, SeqCst);
                        Ok(())
                    });
                }
                Ok(())
            })
        })
        .unwrap()
        .unwrap();
    assert_eq!(served.into_inner(), CLIENTS);
}

#[test]
fn a_half_closed_connection_still_answers() {
    let _shared = DESCRIPTORS.read();
    let (mut client, server) = pair();
    nursery(|n| {
        n.try_spawn(move || {
            let mut everything = Vec::new();
            (&server).read_to_end(&mut everything)?;
            (&server).write_all(&everything)?;
            Ok(())
        });
        let sent: Vec<u8> = (0..1_000_000_u32).map(|i| i as u8).collect();
        client.write_all(&sent)?;
        client.shutdown(Shutdown::Write)?;
        let mut got = Vec::new();
        client.read_to_end(&mut got)?;
        assert!(got == sent, "{} bytes came back of {}", got.len(), sent.len());
        assert_eq!(client.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        Ok(())
    })
    .unwrap();
}

#[test]
fn two_fibers_share_a_connection() {
    let _shared = DESCRIPTORS.read();
    let (client, server) = pair();
    run(|| {
        nursery(|n| {
            n.try_spawn(|| {
                echo(&server)?;
                Ok(server.shutdown(Shutdown::Write)?)
            });
            n.try_spawn(|| {
                (&client).write_all(&[7; 300_000])?;
                Ok(client.shutdown(Shutdown::Write)?)
            });
            let mut got = Vec::new();
            (&client).read_to_end(&mut got)?;
            assert_eq!(got.len(), 300_000);
            Ok(())
        })
    })
    .unwrap()
    .unwrap();
}

#[test]
fn a_blocked_accept_is_cancelled() {
    let _shared = DESCRIPTORS.read();
    let begun = Instant::now();
    let outcome = run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        nursery(|n| {
            n.spawn(|| listener.accept().map(drop));
            yield_now();
            n.cancel();
            Ok(())
        })
    })
    .unwrap();
    assert!(outcome.unwrap_err().is_cancelled());
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_cancelled_write_ends_and_a_plain_thread_is_interrupted_too() {
    let _shared = DESCRIPTORS.read();
    let (client, _server) = pair(); // the peer does not read
    let outcome = nursery(|n| {
        n.timeout(Duration::from_millis(20));
        loop {
            (&client).write_all(&[0; 65536])?;
        }
        #[allow(unreachable_code)]
        Ok(())
    });
    assert!(outcome.is_err());
}

#[test]
fn cancelled_readers_lose_no_bytes() {
    let _shared = DESCRIPTORS.read();
    const BYTES: usize = 20_000;
    let (client, server) = pair();
    let seen = Mutex::new(Vec::new());
    run(|| {
        nursery(|n| {
            n.try_spawn(|| {
                client.set_nodelay(true)?;
                for i in 0..BYTES {
                    (&client).write_all(&[i as u8])?;
                    if i % 16 == 0 {
                        yield_now();
                    }
                }
                Ok(client.shutdown(Shutdown::Write)?)
            });
            let ended = AtomicUsize::new(0);
            while ended.load(SeqCst) == 0 {
                let _ = nursery(|readers| {
                    readers.try_spawn(|| {
                        let mut buffer = [0; 64];
                        loop {
                            let got = (&server).read(&mut buffer)?;
                            if got == 0 {
                                ended.store(1, SeqCst);
                                return Ok(());
                            }
                            seen.lock().unwrap().extend_from_slice(&buffer[..got]);
                        }
                    });
                    yield_now();
                    readers.cancel();
                    Ok(())
                });
            }
            Ok(())
        })
    })
    .unwrap()
    .unwrap();
    let seen = seen.into_inner().unwrap();
    assert_eq!(seen.len(), BYTES);
    assert!(seen.iter().enumerate().all(|(i, byte)| *byte == i as u8), "bytes came in another order");
}

#[test]
fn time_limits_are_per_direction() {
    let _shared = DESCRIPTORS.read();
    let (client, server) = pair();
    run(|| {
        server.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        assert_eq!((&server).read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(server.read_timeout(), Some(Duration::from_millis(10)));
        (&client).write_all(b"x").unwrap();
        assert_eq!((&server).read(&mut [0]).unwrap(), 1); // still in order afterwards
        client.set_write_timeout(Some(Duration::from_millis(10))).unwrap();
        let full = loop {
            if let Err(error) = (&client).write(&[0; 65536]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::TimedOut);
        assert!(client.set_read_timeout(Some(Duration::ZERO)).is_err());
    })
    .unwrap();
}

#[test]
fn a_clone_is_the_same_connection() {
    let _shared = DESCRIPTORS.read();
    let (client, mut server) = pair();
    let mut clone = client.try_clone().unwrap();
    drop(client);
    clone.write_all(b"still here").unwrap();
    drop(clone);
    let mut text = String::new();
    server.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
}

#[test]
fn a_refused_connection_is_an_error() {
    let _shared = DESCRIPTORS.read();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let within = TcpStream::connect_timeout(&address, Duration::from_secs(60));
    assert_eq!(within.unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert!(run(|| TcpStream::connect("no port here").is_err()).unwrap());
    assert!(TcpStream::connect(&[][..]).is_err());
}

#[test]
fn ten_thousand_cancels_leak_nothing() {
    let _alone = DESCRIPTORS.write();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    runtime
        .run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let round = |tasks: usize| {
                // A connection with a reader that waits, one of its own for each second task, and an acceptor.
                let (client, server) = pair();
                let _ = nursery(|n| {
                    for i in 0..tasks {
                        let (server, listener) = (&server, &listener);
                        match i % 4 {
                            0 => drop(n.spawn(move || listener.accept().map(drop))),
                            1 => drop(n.spawn(move || {
                                let clone = server.try_clone()?;
                                (&clone).read(&mut [0])
                            })),
                            _ => drop(n.spawn(move || (&*server).read(&mut [0]))),
                        }
                    }
                    yield_now();
                    n.cancel();
                    Ok(())
                });
                drop(client);
            };
            (0..20).for_each(|_| round(100)); // warm
            let (descriptors, bytes) = (proc_count("fd"), resident_bytes());
            (0..100).for_each(|_| round(100));
            let (descriptors_after, bytes_after) = (proc_count("fd"), resident_bytes());
            // Other tests of this binary may open a few, too.
            assert!(
                descriptors_after < descriptors + 50,
                "{descriptors} descriptors before, {descriptors_after} after"
            );
            assert!(bytes_after < bytes + (16 << 20), "{bytes} bytes before, {bytes_after} bytes after");
        })
        .unwrap();
}

/// The CPU time of this process.
fn cpu_time() -> Duration {
    // SAFETY: the call writes the value that it is given.
    let time = unsafe {
        let mut time = std::mem::zeroed::<libc::timespec>();
        assert_eq!(libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time), 0);
        time
    };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn connections_that_wait_use_no_cpu() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let begun = &AtomicUsize::new(0);
    let used = runtime.run(|| {
        let pairs: Vec<_> = (0..100).map(|_| pair()).collect();
        nursery(|n| {
            for (client, _) in &pairs {
                n.spawn(move || {
                    let mut client = client;
                    begun.fetch_add(1, SeqCst);
                    assert_eq!(client.read(&mut [0]).unwrap(), 0);
                });
            }
            while begun.load(SeqCst) < pairs.len() {
                yield_now();
            }
            let before = cpu_time();
            sched_tasks::sleep(Duration::from_millis(500));
            let used = cpu_time() - before;
            for (_, server) in &pairs {
                server.shutdown(Shutdown::Both)?;
            }
            Ok(used)
        })
    });
    let used = used.unwrap().unwrap();
    // Other tests of this process may run beside it only where they share one: nextest gives each its own.
    assert!(used < Duration::from_millis(250) || std::env::var_os("NEXTEST").is_none(), "{used:?} in half a second");
}

#[test]
fn a_thread_hears_of_its_socket_while_every_worker_is_busy() {
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let (over, begun) = (&std::sync::atomic::AtomicBool::new(false), &std::sync::Barrier::new(2));
    std::thread::scope(|threads| {
        threads.spawn(move || {
            runtime.run(|| {
                begun.wait();
                while !over.load(SeqCst) {
                    std::hint::spin_loop(); // without a checkpoint
                }
            })
        });
        begun.wait();
        let (mut client, mut server) = pair();
        threads.spawn(move || {
            std::thread::sleep(Duration::from_millis(30)); // so that the other one waits
            server.write_all(b"x").unwrap();
        });
        let mut got = [0];
        client.read_exact(&mut got).unwrap();
        over.store(true, SeqCst);
        assert_eq!(&got, b"x");
    });
}

/// How often the thread that polls where no worker does has slept, so far.
fn sleeps_of_the_monitor() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|thread| thread.unwrap().path());
    let is_it = |thread: &PathBuf| std::fs::read_to_string(thread.join("comm")).unwrap_or_default() == "bursar-io\n";
    threads.filter(is_it).map(|thread| voluntary_switches(&thread)).sum()
}

fn voluntary_switches(thread: &Path) -> u64 {
    let status = std::fs::read_to_string(thread.join("status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

/// Beside a worker that never has nothing to run, the monitor takes over when that was busy for long, and told each event for itself from then on, for ever.
#[test]
fn a_busy_worker_polls_by_itself_again_after_the_monitor_did() {
    const ROUNDS: u32 = 1000;
    let runtime = Runtime::builder().workers(1).build().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let over = AtomicBool::new(false);
    let outcome = runtime.run(|| {
        nursery(|n| {
            n.spawn_async(async {
                while !over.load(SeqCst) {
                    futures_lite::future::yield_now().await;
                }
            });
            n.spawn_async(async {
                let mut server = server.into_async();
                let mut got = [0];
                while let Ok(1) = server.read(&mut got).await {
                    server.write_all(&got).await.unwrap();
                }
            });
            let counted = unblock(|| {
                std::thread::sleep(Duration::from_millis(50));
                let (before, began) = (sleeps_of_the_monitor(), Instant::now());
                for _ in 0..ROUNDS {
                    client.write_all(&[1])?;
                    client.read_exact(&mut [0])?;
                }
                over.store(true, SeqCst);
                drop(client);
                Ok::<_, io::Error>((sleeps_of_the_monitor() - before, began.elapsed()))
            })?;
            Ok(counted)
        })
    });
    let (sleeps, took) = outcome.unwrap().unwrap();
    // It looks once in 10 ms.
    let looks = took.as_millis() as u64 / 10;
    assert!(sleeps < looks * 2 + u64::from(ROUNDS) / 4, "{sleeps} sleeps for {ROUNDS} rounds in {took:?}");
}
