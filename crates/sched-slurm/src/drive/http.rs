//! One HTTP exchange, on the thread of the caller.
//!
//! Room: driver. Knows sockets; knows nothing of Slurm.
//!
//! # Invariant
//! An exchange ends in time, whether the server accepts no connection, never answers, or sends a byte a minute.
//!
//! # Why it holds
//! The socket never blocks. The thread waits for it in one place, for what is left until one deadline, which covers connecting, sending and reading to the last byte.
//!
//! # Rejected
//! Keeping connections: a request over one that the server closes at that moment fails without saying whether it was taken. A new one costs far less than a call of slurmctld.

use std::cell::Cell;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Instant;

use hyper::Request;
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::rt::ReadBufCursor;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

use super::access::Location;

/// The answer to a request. Its body is read as it arrives.
pub(super) struct Answer {
    pub(super) status: u16,
    body: Incoming,
    /// What has arrived and is not read yet.
    part: Bytes,
    exchange: Exchange,
    /// The connection ends when it is dropped.
    _sender: SendRequest<String>,
}

/// Sends a request, and waits until an answer begins.
///
/// # Errors
/// If there is none in time. The request may have been taken nevertheless.
pub(super) fn send(place: &Location, request: Request<String>, deadline: Instant) -> io::Result<Answer> {
    let socket = match place {
        Location::Unix(path) => connect_unix(path)?,
        Location::Tcp(address) => connect_tcp(address, deadline)?,
    };
    let socket = Rc::new(Socket { fd: socket, is_full: Cell::new(false) });
    let woken = Arc::new(Woken(AtomicBool::new(false)));
    let mut exchange = Exchange { socket: Rc::clone(&socket), connection: None, woken, deadline };
    let mut handshake = pin!(http1::handshake(Stream(socket)));
    let (mut sender, connection) = exchange.run(|context| handshake.as_mut().poll(context))?.map_err(of_hyper)?;
    exchange.connection = Some(connection);
    let mut answer = pin!(sender.send_request(request));
    let answer = exchange.run(|context| answer.as_mut().poll(context))?.map_err(of_hyper)?;
    let status = answer.status().as_u16();
    Ok(Answer { status, body: answer.into_body(), part: Bytes::new(), exchange, _sender: sender })
}

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self { body, part, exchange, .. } = self;
        while part.is_empty() {
            match exchange.run(|context| Pin::new(&mut *body).poll_frame(context))? {
                // A body that ends before its length is an error here.
                Some(frame) => *part = frame.map_err(of_hyper)?.into_data().unwrap_or_default(),
                None => return Ok(0),
            }
        }
        let count = part.len().min(buffer.len());
        buffer[..count].copy_from_slice(&part.split_to(count));
        Ok(count)
    }
}

/// A connection, and until when.
struct Exchange {
    socket: Rc<Socket>,
    /// `None` before it begins and after it has ended.
    connection: Option<http1::Connection<Stream, String>>,
    woken: Arc<Woken>,
    deadline: Instant,
}

impl Exchange {
    /// Drives the connection until `step` is ready.
    fn run<T>(&mut self, mut step: impl FnMut(&mut Context<'_>) -> Poll<T>) -> io::Result<T> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let mut context = Context::from_waker(&waker);
        loop {
            self.woken.0.store(false, Ordering::Relaxed);
            // Why it ended is said by `step`, too.
            if let Some(connection) = &mut self.connection
                && Pin::new(connection).poll(&mut context).is_ready()
            {
                self.connection = None;
            }
            if let Poll::Ready(done) = step(&mut context) {
                return Ok(done);
            }
            if self.woken.0.load(Ordering::Relaxed) {
                continue;
            }
            if self.connection.is_none() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.wait()?;
        }
    }

    /// Waits for the socket.
    fn wait(&self) -> io::Result<()> {
        let left = left(self.deadline)?;
        let most = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        let flags = if self.socket.is_full.get() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        match poll(&mut [PollFd::new(&self.socket.fd, flags)], Some(&most)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Its cause says more than it does.
fn of_hyper(error: hyper::Error) -> io::Error {
    use std::error::Error;
    let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
    io::Error::other(format!("{error}{cause}"))
}

/// What is left until the deadline.
fn left(deadline: Instant) -> io::Result<std::time::Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The parts of `hyper` wake each other.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed); // one thread sets and reads it
    }
}

struct Socket {
    fd: OwnedFd,
    /// It took no more bytes when it was last written to.
    is_full: Cell<bool>,
}

/// The socket as `hyper` wants it.
struct Stream(Rc<Socket>);

impl hyper::rt::Read for Stream {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0_u8; 16 * 1024];
        let most = into.remaining().min(bytes.len());
        match retry(|| rustix::io::read(&self.0.fd, &mut bytes[..most])) {
            Ok(count) => {
                into.put_slice(&bytes[..count]);
                Poll::Ready(Ok(()))
            }
            Err(Errno::AGAIN) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = retry(|| net::send(&self.0.fd, bytes, SendFlags::NOSIGNAL));
        self.0.is_full.set(sent == Err(Errno::AGAIN));
        match sent {
            Err(Errno::AGAIN) => Poll::Pending,
            sent => Poll::Ready(sent.map_err(io::Error::from)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // it is closed when it is dropped
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// A server that accepts nothing makes this fail at once, not wait.
fn connect_unix(path: &Path) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn connect_tcp(address: &str, deadline: Instant) -> io::Result<OwnedFd> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
    for address in resolve(address.to_owned(), deadline)? {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => {
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                return Ok(stream.into());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The addresses of a name. The system has no time limit for that, so another thread asks it.
fn resolve(address: String, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
    let (send, receive) = mpsc::channel();
    thread::Builder::new().name("bursar-resolve".to_owned()).spawn(move || {
        let _ = send.send(address.to_socket_addrs().map(Iterator::collect)); // the caller may not wait any more
    })?;
    receive.recv_timeout(left(deadline)?).map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}
