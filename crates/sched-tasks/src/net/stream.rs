//! A TCP connection.
//!
//! Room: interface.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    net::{Shutdown, SocketAddr, ToSocketAddrs},
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{AsyncTcpStream, resolve};
use crate::reactor::{Direction, Registered, charge, refuse_seeded};
use crate::time::Elapsed;

/// A connection. As [`std::net::TcpStream`], but waiting blocks only the task.
///
/// Reading and writing also work through `&TcpStream`, so one task may read while another writes.
///
/// ```
/// use std::io::{Read, Write};
/// use bursar::{net::{TcpListener, TcpStream}, nursery};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let stream = TcpStream::connect(listener.local_addr()?)?;
/// let (peer, _) = listener.accept()?;
/// nursery(|n| {
///     n.try_spawn(|| Ok((&stream).write_all(&[7; 100_000])?));
///     let mut got = vec![0; 100_000];
///     (&peer).read_exact(&mut got)?;
///     assert!(got.iter().all(|byte| *byte == 7));
///     Ok(())
/// }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TcpStream {
    pub(super) io: Registered<std::net::TcpStream>,
    read_limit: Limit,
    write_limit: Limit,
}

impl TcpStream {
    /// Connects to `address`, or to the first of its addresses that answers. Names are looked up without blocking a
    /// worker.
    pub fn connect(address: impl ToSocketAddrs + Send) -> io::Result<Self> {
        let mut failed = None;
        for address in resolve(address)? {
            match connect(address, None) {
                Ok(io) => return Ok(Self::of(io)),
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.expect("a name that was resolved has an address"))
    }

    /// Connects to `address` within `limit`; else the error is [`io::ErrorKind::TimedOut`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use sched_tasks::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let stream = TcpStream::connect_timeout(&listener.local_addr()?, Duration::from_secs(60))?;
    /// assert_eq!(stream.peer_addr()?, listener.local_addr()?);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn connect_timeout(address: &SocketAddr, limit: Duration) -> io::Result<Self> {
        refuse_seeded()?;
        charge();
        Ok(Self::of(connect(*address, Some(limit))?))
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().peer_addr()
    }

    /// The address of this end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// Ends reading, writing or both; also for tasks that wait in one.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        charge();
        self.io.get_ref().shutdown(how)
    }

    /// Sends small writes at once instead of gathering them.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.get_ref().set_nodelay(nodelay)
    }

    /// Whether small writes are sent at once.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.io.get_ref().nodelay()
    }

    /// Reads without taking: the next read gives the same bytes.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.reading(|io| io.peek(into))
    }

    /// The same connection with a descriptor of its own. Time limits are copied, not shared.
    ///
    /// ```
    /// use std::io::{Read, Write};
    /// use sched_tasks::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut stream = TcpStream::connect(listener.local_addr()?)?;
    /// let mut peer = listener.accept()?.0;
    /// stream.try_clone()?.write_all(b"hi")?;
    /// let mut got = [0; 2];
    /// peer.peek(&mut got)?;
    /// peer.read_exact(&mut got)?; // the same bytes: peeking takes nothing
    /// assert_eq!(&got, b"hi");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn try_clone(&self) -> io::Result<Self> {
        let clone = Self::try_from(self.io.get_ref().try_clone()?)?;
        clone.read_limit.0.store(self.read_limit.0.load(Relaxed), Relaxed);
        clone.write_limit.0.store(self.write_limit.0.load(Relaxed), Relaxed);
        Ok(clone)
    }

    /// How long a read may wait before it fails with [`io::ErrorKind::TimedOut`]. A limit of zero is an error, as in the standard library.
    ///
    /// ```
    /// use std::{io::{ErrorKind, Read}, time::Duration};
    /// use bursar::net::{TcpListener, TcpStream};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut stream = TcpStream::connect(listener.local_addr()?)?;
    /// stream.set_read_timeout(Some(Duration::from_millis(5)))?;
    /// let error = stream.read(&mut [0]).unwrap_err(); // the peer writes nothing
    /// assert_eq!(error.kind(), ErrorKind::TimedOut);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.read_limit.set(limit)
    }

    /// How long a read may wait.
    pub fn read_timeout(&self) -> Option<Duration> {
        self.read_limit.get()
    }

    /// How long a write may wait; see [`set_read_timeout`](Self::set_read_timeout).
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.write_limit.set(limit)
    }

    /// How long a write may wait.
    pub fn write_timeout(&self) -> Option<Duration> {
        self.write_limit.get()
    }

    /// The same connection for futures: it implements `futures::AsyncRead` and `AsyncWrite`. Time limits stay behind; see [`timeout`](crate::timeout).
    ///
    /// ```
    /// use futures::{AsyncReadExt, AsyncWriteExt};
    /// use sched_tasks::{block_on, net::{TcpListener, TcpStream}};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let mut stream = TcpStream::connect(listener.local_addr()?)?.into_async();
    /// let mut peer = listener.accept()?.0.into_async();
    /// let got = block_on(async {
    ///     stream.write_all(b"hi").await?;
    ///     stream.close().await?; // nothing more is written
    ///     let mut got = String::new();
    ///     peer.read_to_string(&mut got).await?;
    ///     Ok::<_, std::io::Error>(got)
    /// })?;
    /// assert_eq!(got, "hi");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_async(self) -> AsyncTcpStream {
        AsyncTcpStream::of(self.io)
    }

    /// A connection that does not block.
    pub(super) fn watched(stream: std::net::TcpStream) -> io::Result<Self> {
        Ok(Self::of(Registered::new(stream)?))
    }

    pub(super) fn of(io: Registered<std::net::TcpStream>) -> Self {
        Self { io, read_limit: Limit::default(), write_limit: Limit::default() }
    }

    fn reading<T>(&self, mut operation: impl FnMut(&std::net::TcpStream) -> io::Result<T>) -> io::Result<T> {
        let limit = self.read_limit.get();
        self.io.run(Direction::Read, limit, |io| operation(io)).map_err(|error| explained(error, limit))
    }

    fn writing<T>(&self, mut operation: impl FnMut(&std::net::TcpStream) -> io::Result<T>) -> io::Result<T> {
        let limit = self.write_limit.get();
        self.io.run(Direction::Write, limit, |io| operation(io)).map_err(|error| explained(error, limit))
    }
}

impl Read for &TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reading(|mut io| io.read(into))
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reading(|mut io| io.read_vectored(into))
    }
}

impl Write for &TcpStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.writing(|mut io| io.write(from))
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        self.writing(|mut io| io.write_vectored(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        charge();
        Ok(()) // nothing is buffered
    }
}

impl Read for TcpStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }

    fn read_vectored(&mut self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&*self).read_vectored(into)
    }
}

impl Write for TcpStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        (&*self).write_vectored(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

impl TryFrom<std::net::TcpStream> for TcpStream {
    type Error = io::Error;

    fn try_from(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Self::watched(stream)
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

/// Connects, within `limit`. The caller has paid.
fn connect(address: SocketAddr, limit: Option<Duration>) -> io::Result<Registered<std::net::TcpStream>> {
    let io = begin_connect(address)?;
    io.run_paid(Direction::Write, limit, is_connected).map_err(|error| explained(error, limit))?;
    Ok(io)
}

/// Says of a wait that was ended by its limit how long that was. The system has errors of the same kind, with numbers.
fn explained(error: io::Error, limit: Option<Duration>) -> io::Error {
    match limit {
        Some(after) if error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none() => {
            Elapsed { after }.into()
        }
        _ => error,
    }
}

/// Begins to connect: the socket is ready to be written when that has come to an end.
pub(super) fn begin_connect(address: SocketAddr) -> io::Result<Registered<std::net::TcpStream>> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Registered::new(std::net::TcpStream::from(socket))
}

/// Whether it has connected; it would block until then.
pub(super) fn is_connected(stream: &std::net::TcpStream) -> io::Result<()> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(error),
    }
}

/// How many nanoseconds an operation may wait; zero: for ever.
#[derive(Debug, Default)]
struct Limit(AtomicU64);

impl Limit {
    fn set(&self, limit: Option<Duration>) -> io::Result<()> {
        let nanos = match limit {
            None => 0,
            Some(Duration::ZERO) => {
                let message = "a time limit of zero lets nothing happen; use `None` for no limit";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            Some(limit) => u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX),
        };
        self.0.store(nanos, Relaxed);
        Ok(())
    }

    fn get(&self) -> Option<Duration> {
        match self.0.load(Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }
}
