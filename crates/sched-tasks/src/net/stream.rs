//! A TCP connection.
//!
//! Room: interface.

use std::{
    io,
    net::{Shutdown, SocketAddr, ToSocketAddrs},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::{
    AsyncTcpStream,
    connection::{Connection, reads_and_writes},
    limit::explained,
    resolve,
};
use crate::reactor::{Direction, Registered, charge, refuse_seeded};

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
pub struct TcpStream(Connection<std::net::TcpStream>);

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
        self.0.get_ref().peer_addr()
    }

    /// The address of this end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// Ends reading, writing or both; also for tasks that wait in one.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        charge();
        self.0.get_ref().shutdown(how)
    }

    /// Sends small writes at once instead of gathering them.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.get_ref().set_nodelay(nodelay)
    }

    /// Whether small writes are sent at once.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.0.get_ref().nodelay()
    }

    /// Reads without taking: the next read gives the same bytes.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.reading(|io| io.peek(into))
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
        let clone = Self::try_from(self.0.get_ref().try_clone()?)?;
        clone.0.copy_limits(&self.0);
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
        self.0.read_limit.set(limit)
    }

    /// How long a read may wait.
    pub fn read_timeout(&self) -> Option<Duration> {
        self.0.read_limit.get()
    }

    /// How long a write may wait; see [`set_read_timeout`](Self::set_read_timeout).
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.write_limit.set(limit)
    }

    /// How long a write may wait.
    pub fn write_timeout(&self) -> Option<Duration> {
        self.0.write_limit.get()
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
        AsyncTcpStream::of(self.0.into_registered())
    }

    /// A connection that does not block.
    pub(super) fn watched(stream: std::net::TcpStream) -> io::Result<Self> {
        Ok(Self::of(Registered::new(stream)?))
    }

    pub(super) fn of(io: Registered<std::net::TcpStream>) -> Self {
        Self(Connection::of(io))
    }
}

reads_and_writes!(TcpStream);

impl TryFrom<std::net::TcpStream> for TcpStream {
    type Error = io::Error;

    fn try_from(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Self::watched(stream)
    }
}

impl AsFd for TcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Connects, within `limit`. The caller has paid.
fn connect(address: SocketAddr, limit: Option<Duration>) -> io::Result<Registered<std::net::TcpStream>> {
    let io = begin_connect(address)?;
    io.run_paid(Direction::Write, limit, is_connected).map_err(|error| explained(error, limit))?;
    Ok(io)
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
