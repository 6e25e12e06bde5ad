//! Listening for TCP connections.
//!
//! Room: interface.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    os::fd::{AsFd, BorrowedFd},
};

use rustix::net::SocketFlags;

use super::{AsyncTcpListener, TcpStream, resolve};
use crate::reactor::{Direction, Registered};

/// A socket that accepts connections. As [`std::net::TcpListener`], but waiting blocks only the task.
///
/// ```
/// use bursar::{net::{TcpListener, TcpStream}, nursery};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// nursery(|n| {
///     n.try_spawn(|| {
///         for _ in 0..3 {
///             TcpStream::connect(address)?;
///         }
///         Ok(())
///     });
///     for stream in listener.incoming().take(3) {
///         assert_eq!(stream?.local_addr()?, address);
///     }
///     Ok(())
/// }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TcpListener {
    pub(super) io: Registered<std::net::TcpListener>,
}

impl TcpListener {
    /// Listens at `address`, or at the first of its addresses that is free. Port 0: the system chooses.
    pub fn bind(address: impl ToSocketAddrs + Send) -> io::Result<Self> {
        Self::try_from(std::net::TcpListener::bind(&*resolve(address)?)?)
    }

    /// Waits for a connection; returns it and the address of the peer.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.io.run(Direction::Read, None, accept)?;
        Ok((TcpStream::watched(stream)?, peer))
    }

    /// All connections, without end. See [`TcpListener`] for an example.
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming { listener: self }
    }

    /// The address at which it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// The same socket for futures.
    ///
    /// ```
    /// use bursar::{block_on, net::{TcpListener, TcpStream}, nursery};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let address = listener.local_addr()?;
    /// let listener = listener.into_async();
    /// nursery(|n| {
    ///     let accepted = n.spawn_async(listener.accept());
    ///     let stream = TcpStream::connect(address)?;
    ///     assert_eq!(accepted.join()??.1, stream.local_addr()?);
    ///     Ok(())
    /// }).unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn into_async(self) -> AsyncTcpListener {
        AsyncTcpListener { io: self.io }
    }
}

/// Takes a connection, which does not block from the beginning: that saves a system call.
pub(super) fn accept(listener: &std::net::TcpListener) -> io::Result<(std::net::TcpStream, SocketAddr)> {
    let (stream, peer) = rustix::net::acceptfrom_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    let peer = peer.ok_or(io::ErrorKind::NotConnected)?.try_into()?;
    Ok((stream.into(), peer))
}

impl TryFrom<std::net::TcpListener> for TcpListener {
    type Error = io::Error;

    fn try_from(listener: std::net::TcpListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { io: Registered::new(listener)? })
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

/// Connections, one by one; made by [`TcpListener::incoming`]. Never ends.
#[derive(Debug)]
pub struct Incoming<'a> {
    listener: &'a TcpListener,
}

impl Iterator for Incoming<'_> {
    type Item = io::Result<TcpStream>;

    fn next(&mut self) -> Option<io::Result<TcpStream>> {
        Some(self.listener.accept().map(|(stream, _)| stream))
    }
}
