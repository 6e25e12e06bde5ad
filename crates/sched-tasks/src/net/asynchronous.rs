//! The same sockets for futures.
//!
//! Room: interface.

use std::{
    io,
    net::{Shutdown, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
};

use super::{
    TcpListener, TcpStream,
    connection::{AsyncConnection, reads_and_writes_async},
    listener::accept,
};
use crate::reactor::{Direction, Registered, charge, refuse_seeded};

/// A connection for futures: `futures::AsyncRead` and `AsyncWrite`. Made by [`TcpStream::into_async`].
///
/// An operation takes a turn and is charged like that of a fiber, so a peer that is always ready does not keep other tasks waiting. Closing shuts down the side that writes.
#[derive(Debug)]
pub struct AsyncTcpStream(AsyncConnection<std::net::TcpStream>);

impl AsyncTcpStream {
    pub(super) fn of(io: Registered<std::net::TcpStream>) -> Self {
        Self(AsyncConnection::of(io))
    }

    /// Connects to `address`.
    ///
    /// ```
    /// use bursar::{block_on, net::{AsyncTcpStream, TcpListener}};
    ///
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let address = listener.local_addr()?;
    /// let stream = block_on(AsyncTcpStream::connect(address))?;
    /// assert_eq!(stream.peer_addr()?, address);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn connect(address: SocketAddr) -> io::Result<Self> {
        refuse_seeded()?;
        let io = super::stream::begin_connect(address)?;
        io.run_async(Direction::Write, super::stream::is_connected).await?;
        Ok(Self::of(io))
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

    /// Sends small writes at once instead of gathering them.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.get_ref().set_nodelay(nodelay)
    }

    /// The same connection for fibers and threads.
    pub fn into_blocking(self) -> TcpStream {
        TcpStream::of(self.0.into_registered())
    }
}

reads_and_writes_async!(AsyncTcpStream);

impl AsFd for AsyncTcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A socket that accepts connections, for futures. Made by [`TcpListener::into_async`]. Several tasks may accept at a time.
#[derive(Debug)]
pub struct AsyncTcpListener {
    pub(super) io: Registered<std::net::TcpListener>,
}

impl AsyncTcpListener {
    /// Waits for a connection; returns it and the address of the peer.
    pub async fn accept(&self) -> io::Result<(AsyncTcpStream, SocketAddr)> {
        let (stream, peer) = self.io.run_async(Direction::Read, accept).await?;
        Ok((AsyncTcpStream::of(Registered::new(stream)?), peer))
    }

    /// The address at which it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// The same socket for fibers and threads.
    pub fn into_blocking(self) -> TcpListener {
        TcpListener { io: self.io }
    }
}

impl AsFd for AsyncTcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}
