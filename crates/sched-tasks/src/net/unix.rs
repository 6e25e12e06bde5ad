//! Sockets of the file system: connections within one machine.
//!
//! Room: interface.

use std::{
    io,
    net::Shutdown,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::{self as std_unix, SocketAddr},
    },
    path::Path,
    time::{Duration, Instant},
};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::connection::{AsyncConnection, Connection, reads_and_writes, reads_and_writes_async};
use crate::{
    kernel::clock,
    reactor::{Direction, Registered, charge, refuse_seeded},
    sleep, sleep_async,
    time::Elapsed,
};

/// How long to wait at first, and at last, for a listener that has no room for a connection: of that the system tells nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LAST_PAUSE: Duration = Duration::from_millis(64);

/// A connection within one machine. As [`std::os::unix::net::UnixStream`], but waiting blocks only the task.
///
/// Reading and writing also work through `&UnixStream`, so one task may read while another writes.
///
/// ```
/// use std::io::{Read, Write};
/// use bursar::{net::UnixStream, nursery};
///
/// let (one, two) = UnixStream::pair()?;
/// nursery(|n| {
///     n.try_spawn(|| Ok((&one).write_all(&[7; 300_000])?));
///     let mut got = vec![0; 300_000];
///     (&two).read_exact(&mut got)?;
///     assert!(got.iter().all(|byte| *byte == 7));
///     Ok(())
/// }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct UnixStream(Connection<std_unix::UnixStream>);

/// The same for futures: `futures::AsyncRead` and `AsyncWrite`. Made by [`UnixStream::into_async`]. Closing shuts down the side that writes.
#[derive(Debug)]
pub struct AsyncUnixStream(AsyncConnection<std_unix::UnixStream>);

/// A socket of the file system that accepts connections. As [`std::os::unix::net::UnixListener`], but waiting blocks only the task.
///
/// The file stays when it is dropped, as with the standard library: remove it before the next one listens there.
///
/// ```
/// use std::io::{Read, Write};
/// use bursar::{net::{UnixListener, UnixStream}, nursery};
///
/// let path = std::env::temp_dir().join(format!("bursar-doc-{}", std::process::id()));
/// let listener = UnixListener::bind(&path)?;
/// nursery(|n| {
///     n.try_spawn(|| Ok(listener.accept()?.0.write_all(b"hello")?));
///     let mut got = String::new();
///     UnixStream::connect(&path)?.read_to_string(&mut got)?;
///     assert_eq!(got, "hello");
///     Ok(())
/// }).unwrap();
/// std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct UnixListener {
    io: Registered<std_unix::UnixListener>,
}

impl UnixStream {
    /// Connects to the socket at `path`. Waits while its listener has no room.
    pub fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        connect_until(path.as_ref(), None).map(Self::of)
    }

    /// The same within `limit`; else the error is [`io::ErrorKind::TimedOut`].
    pub fn connect_timeout(path: impl AsRef<Path>, limit: Duration) -> io::Result<Self> {
        connect_until(path.as_ref(), Some(limit)).map(Self::of)
    }

    /// Two ends of one connection.
    pub fn pair() -> io::Result<(Self, Self)> {
        refuse_seeded()?;
        charge();
        let (one, two) = std_unix::UnixStream::pair()?;
        Ok((Self::try_from(one)?, Self::try_from(two)?))
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

    /// The same connection with a descriptor of its own. Time limits are copied, not shared.
    pub fn try_clone(&self) -> io::Result<Self> {
        let clone = Self::try_from(self.0.get_ref().try_clone()?)?;
        clone.0.copy_limits(&self.0);
        Ok(clone)
    }

    /// How long a read may wait before it fails with [`io::ErrorKind::TimedOut`]. A limit of zero is an error.
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.read_limit.set(limit)
    }

    /// How long a read may wait.
    pub fn read_timeout(&self) -> Option<Duration> {
        self.0.read_limit.get()
    }

    /// How long a write may wait.
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.write_limit.set(limit)
    }

    /// How long a write may wait.
    pub fn write_timeout(&self) -> Option<Duration> {
        self.0.write_limit.get()
    }

    /// The same connection for futures. Time limits stay behind; see [`timeout`](crate::timeout).
    ///
    /// ```
    /// use futures::{AsyncReadExt, AsyncWriteExt};
    /// use bursar::{block_on, net::UnixStream};
    ///
    /// let (one, two) = UnixStream::pair()?;
    /// let (mut one, mut two) = (one.into_async(), two.into_async());
    /// let got = block_on(async {
    ///     one.write_all(b"hi").await?;
    ///     one.close().await?; // nothing more is written
    ///     let mut got = String::new();
    ///     two.read_to_string(&mut got).await?;
    ///     Ok::<_, std::io::Error>(got)
    /// })?;
    /// assert_eq!(got, "hi");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_async(self) -> AsyncUnixStream {
        AsyncUnixStream::of(self.0.into_registered())
    }

    fn of(io: Registered<std_unix::UnixStream>) -> Self {
        Self(Connection::of(io))
    }
}

reads_and_writes!(UnixStream);

impl AsyncUnixStream {
    /// Connects to the socket at `path`. Waits while its listener has no room.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        let mut pause = FIRST_PAUSE;
        loop {
            charge();
            if let Some(io) = begin_connect(path.as_ref())? {
                return Ok(Self::of(io));
            }
            sleep_async(pause).await;
            pause = (2 * pause).min(LAST_PAUSE);
        }
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }

    /// The address of this end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// Ends reading, writing or both.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        charge();
        self.0.get_ref().shutdown(how)
    }

    /// The same connection for fibers and threads.
    pub fn into_blocking(self) -> UnixStream {
        UnixStream::of(self.0.into_registered())
    }

    fn of(io: Registered<std_unix::UnixStream>) -> Self {
        Self(AsyncConnection::of(io))
    }
}

reads_and_writes_async!(AsyncUnixStream);

impl UnixListener {
    /// Listens at `path`, where no file may be.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        refuse_seeded()?;
        charge();
        Self::try_from(std_unix::UnixListener::bind(path)?)
    }

    /// Waits for a connection; returns it and the address of the peer.
    pub fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, peer) = self.io.run(Direction::Read, None, std_unix::UnixListener::accept)?;
        Ok((UnixStream::try_from(stream)?, peer))
    }

    /// The same in a future. Several tasks may accept at a time.
    ///
    /// ```
    /// use bursar::{block_on, net::{AsyncUnixStream, UnixListener}, nursery};
    ///
    /// let path = std::env::temp_dir().join(format!("bursar-doc-async-{}", std::process::id()));
    /// let listener = UnixListener::bind(&path)?;
    /// nursery(|n| {
    ///     let accepted = n.spawn_async(listener.accept_async());
    ///     block_on(AsyncUnixStream::connect(&path))?;
    ///     accepted.join()??;
    ///     Ok(())
    /// }).unwrap();
    /// std::fs::remove_file(path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn accept_async(&self) -> io::Result<(AsyncUnixStream, SocketAddr)> {
        let (stream, peer) = self.io.run_async(Direction::Read, std_unix::UnixListener::accept).await?;
        Ok((UnixStream::try_from(stream)?.into_async(), peer))
    }

    /// The address at which it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }
}

/// Connects, trying again while the listener has no room.
fn connect_until(path: &Path, limit: Option<Duration>) -> io::Result<Registered<std_unix::UnixStream>> {
    let deadline = limit.map(clock::due);
    let mut pause = FIRST_PAUSE;
    loop {
        charge();
        if let Some(io) = begin_connect(path)? {
            return Ok(io);
        }
        let left = deadline.map_or(pause, |deadline: Instant| deadline.saturating_duration_since(clock::now()));
        if left.is_zero() {
            return Err(limit.map_or(io::ErrorKind::TimedOut.into(), |after| Elapsed { after }.into()));
        }
        sleep(pause.min(left));
        pause = (2 * pause).min(LAST_PAUSE);
    }
}

/// Connects, which the system does at once. None if the listener has no room.
fn begin_connect(path: &Path) -> io::Result<Option<Registered<std_unix::UnixStream>>> {
    refuse_seeded()?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    loop {
        match rustix::net::connect(&socket, &SocketAddrUnix::new(path)?) {
            Ok(()) => return Registered::new(std_unix::UnixStream::from(socket)).map(Some),
            Err(rustix::io::Errno::AGAIN) => return Ok(None),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl TryFrom<std_unix::UnixStream> for UnixStream {
    type Error = io::Error;

    fn try_from(stream: std_unix::UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::of(Registered::new(stream)?))
    }
}

impl TryFrom<std_unix::UnixListener> for UnixListener {
    type Error = io::Error;

    fn try_from(listener: std_unix::UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(listener)? })
    }
}

impl AsFd for UnixStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for AsyncUnixStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for UnixListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}
