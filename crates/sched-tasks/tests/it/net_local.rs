//! UDP, and sockets of the file system.

use std::{
    io::{ErrorKind, Read, Write},
    net::Shutdown,
    os::unix::net as std_unix,
    path::PathBuf,
    time::Duration,
};

use futures::{AsyncReadExt, AsyncWriteExt};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use sched_tasks::{
    NurseryOptions, Reason, Runtime, TaskError, block_on,
    net::{AsyncUnixStream, UdpSocket, UnixDatagram, UnixListener, UnixStream},
    nursery, nursery_with, run, sleep, timeout,
};

const MOMENT: Duration = Duration::from_millis(5);

/// A path that is not used, for as long as this is there.
struct TempPath(PathBuf);

impl TempPath {
    fn new(name: &str) -> Self {
        let place = Self(std::env::temp_dir().join(format!("bursar-{name}-{}", std::process::id())));
        let _ = std::fs::remove_file(&place.0); // of a process before us that had our number
        place
    }
}

impl Drop for TempPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn udp_pair() -> (UdpSocket, UdpSocket) {
    let (one, two) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    one.connect(two.local_addr().unwrap()).unwrap();
    two.connect(one.local_addr().unwrap()).unwrap();
    (one, two)
}

#[test]
fn datagrams_go_to_and_fro() {
    let check = || {
        let (one, two) = udp_pair();
        nursery(|n| {
            n.try_spawn(|| {
                for _ in 0..1000 {
                    let mut number = [0; 4];
                    assert_eq!(two.recv(&mut number)?, 4);
                    two.send(&number)?;
                }
                Ok(())
            });
            for number in 0..1000_u32 {
                one.send(&number.to_ne_bytes())?;
                let mut answer = [0; 4];
                assert_eq!((one.peek(&mut answer)?, one.recv(&mut answer)?), (4, 4));
                assert_eq!(u32::from_ne_bytes(answer), number);
            }
            Ok(())
        })
        .unwrap();
    };
    check();
    run(check).unwrap();
}

#[test]
fn a_datagram_tells_who_sent_it() {
    let (one, two) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (here, there) = (one.local_addr().unwrap(), two.local_addr().unwrap());
    one.send_to(b"hello", there).unwrap();
    let mut got = [0; 16];
    assert_eq!(two.peek_from(&mut got).unwrap(), (5, here));
    assert_eq!(two.recv_from(&mut got).unwrap(), (5, here));
    block_on(two.send_to_async(b"bye", here)).unwrap();
    assert_eq!(block_on(one.recv_from_async(&mut got)).unwrap(), (3, there));
    one.set_broadcast(true).unwrap();
    one.set_ttl(3).unwrap();
    assert_eq!(one.try_clone().unwrap().local_addr().unwrap(), here);
}

#[test]
fn a_wait_for_a_datagram_is_limited_cancelled_and_dropped() {
    run(|| {
        let (one, two) = udp_pair();
        one.set_read_timeout(Some(MOMENT)).unwrap();
        assert_eq!(one.recv(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(one.set_read_timeout(Some(Duration::ZERO)).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert!(block_on(timeout(MOMENT, one.recv_async(&mut [0]))).is_err());
        let cut = nursery_with(NurseryOptions::new().timeout(MOMENT), |n| {
            n.spawn(|| two.recv(&mut [0]));
            Ok(())
        });
        assert!(matches!(cut.unwrap_err().reason(), Reason::DeadlineExceeded { .. }));
        // Whatever was cut off took nothing.
        one.send(b"x").unwrap();
        assert_eq!(two.recv(&mut [0]).unwrap(), 1);
    })
    .unwrap();
}

#[test]
fn a_connection_of_the_file_system_carries_bytes_both_ways() {
    let place = TempPath::new("stream");
    let check = || {
        let _ = std::fs::remove_file(&place.0);
        let listener = UnixListener::bind(&place.0).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(&*place.0));
        let echo = || -> Result<(), TaskError> {
            let (mut stream, _) = listener.accept()?;
            let mut all = Vec::new();
            stream.read_to_end(&mut all)?;
            Ok(stream.write_all(&all)?)
        };
        let stream = UnixStream::connect(&place.0).unwrap();
        let got = nursery(|n| {
            n.try_spawn(echo);
            n.try_spawn(|| {
                (&stream).write_all(&vec![7; 1_000_000])?;
                Ok(stream.shutdown(Shutdown::Write)?)
            });
            let mut got = Vec::new();
            (&stream).read_to_end(&mut got)?;
            Ok(got)
        });
        assert_eq!(got.unwrap(), vec![7; 1_000_000]);
    };
    check();
    run(check).unwrap();
}

#[test]
fn a_connection_of_the_file_system_is_for_futures_too() {
    let place = TempPath::new("futures");
    let listener = UnixListener::bind(&place.0).unwrap();
    run(|| {
        nursery(|n| {
            n.try_spawn_async(async {
                let (mut stream, _) = listener.accept_async().await?;
                let mut got = [0; 5];
                stream.read_exact(&mut got).await?;
                stream.write_all(&got).await?;
                Ok(stream.close().await?)
            });
            n.try_spawn_async(async {
                let mut stream = AsyncUnixStream::connect(&place.0).await?;
                assert_eq!(stream.peer_addr()?.as_pathname(), Some(&*place.0));
                stream.write_all(b"hello").await?;
                let mut got = String::new();
                stream.read_to_string(&mut got).await?;
                assert_eq!(got, "hello");
                let mut blocking = stream.into_blocking();
                assert_eq!(blocking.read(&mut [0])?, 0);
                Ok(())
            });
            Ok(())
        })
    })
    .unwrap()
    .unwrap();
}

/// A listener with room for one connection, and connections that fill it.
fn full(place: &TempPath) -> (std_unix::UnixListener, Vec<std_unix::UnixStream>) {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(&place.0).unwrap()).unwrap();
    rustix::net::listen(&socket, 0).unwrap();
    let listener = std_unix::UnixListener::from(socket);
    let waiting = vec![std_unix::UnixStream::connect(&place.0).unwrap()];
    (listener, waiting)
}

#[test]
fn a_listener_without_room_is_waited_for() {
    run(|| {
        let place = TempPath::new("full");
        let (listener, waiting) = full(&place);
        let error = UnixStream::connect_timeout(&place.0, MOMENT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains("5ms"), "{error}");
        assert!(block_on(timeout(MOMENT, AsyncUnixStream::connect(&place.0))).is_err());
        let cut = nursery_with(NurseryOptions::new().timeout(MOMENT), |n| {
            n.spawn(|| UnixStream::connect(&place.0));
            Ok(())
        });
        assert!(matches!(cut.unwrap_err().reason(), Reason::DeadlineExceeded { .. }));
        nursery(|n| {
            let later = n.spawn(|| UnixStream::connect(&place.0));
            sleep(MOMENT);
            listener.accept()?;
            later.join()??;
            Ok(())
        })
        .unwrap();
        drop(waiting);
    })
    .unwrap();
}

#[test]
fn datagrams_of_the_file_system_come_whole_and_wait_for_room() {
    let place = TempPath::new("datagram");
    run(|| {
        let receiver = UnixDatagram::bind(&place.0).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        sender.connect(&place.0).unwrap();
        nursery(|n| {
            n.try_spawn(|| {
                (0..5000_u32).try_for_each(|number| sender.send(&number.to_ne_bytes()).map(drop))?; // more than the system keeps
                Ok(())
            });
            for number in 0..5000_u32 {
                let mut message = [0; 8];
                assert_eq!(receiver.recv(&mut message)?, 4);
                assert_eq!(message[..4], number.to_ne_bytes());
            }
            Ok(())
        })
        .unwrap();
        assert!(block_on(timeout(MOMENT, receiver.recv_async(&mut [0]))).is_err());
        receiver.set_read_timeout(Some(MOMENT)).unwrap();
        assert_eq!(receiver.recv_from(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    })
    .unwrap();
}

#[test]
fn what_is_not_there_is_an_error_of_the_system() {
    let place = TempPath::new("missing");
    assert_eq!(UnixStream::connect(&place.0).unwrap_err().kind(), ErrorKind::NotFound);
    drop(UnixListener::bind(&place.0).unwrap());
    assert_eq!(UnixStream::connect(&place.0).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(UnixListener::bind(&place.0).unwrap_err().kind(), ErrorKind::AddrInUse);
    assert!(UnixStream::connect("x".repeat(200)).is_err());
}

#[test]
fn a_seeded_run_has_none_of_them() {
    let place = TempPath::new("seeded");
    let runtime = Runtime::builder().workers(1).seeded(1).build().unwrap();
    let refused = runtime.run(|| {
        [
            UdpSocket::bind("127.0.0.1:0").unwrap_err(),
            UnixListener::bind(&place.0).unwrap_err(),
            UnixStream::connect(&place.0).unwrap_err(),
            UnixStream::pair().unwrap_err(),
            UnixDatagram::bind(&place.0).unwrap_err(),
            UnixDatagram::pair().unwrap_err(),
        ]
    });
    assert!(refused.unwrap().iter().all(|error| error.kind() == ErrorKind::Unsupported));
    assert!(!place.0.exists(), "nothing was made");
}

#[test]
fn who_receives_datagrams_hears_that_receiving_was_shut_down() {
    for before in [true, false] {
        let received = run(|| {
            let (one, other) = UnixDatagram::pair()?;
            let one = &one;
            nursery_with(NurseryOptions::new().timeout(Duration::from_secs(20)), |n| {
                other.send(b"last")?;
                let mut into = [0; 8];
                assert_eq!(one.recv(&mut into)?, 4);
                if before {
                    one.shutdown(Shutdown::Both)?;
                }
                let tasks = [
                    n.try_spawn(move || Ok(one.recv(&mut [0; 8])?)),
                    n.try_spawn(move || Ok(one.recv_from(&mut [0; 8])?.0)),
                    n.task().on_thread().try_spawn(move || Ok(one.recv(&mut [0; 8])?)),
                    n.try_spawn_async(async move { Ok(one.recv_async(&mut [0; 8]).await?) }),
                ];
                sleep(MOMENT);
                one.shutdown(Shutdown::Both)?;
                tasks.into_iter().map(|task| task.join()).collect::<Result<Vec<_>, _>>()
            })
        });
        assert_eq!(received.unwrap().unwrap(), [0; 4]);
    }
}
