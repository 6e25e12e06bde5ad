//! The same sockets for futures.
//!
//! Room: interface.

use std::{
    io::{self, IoSlice, IoSliceMut, Read, Write},
    net::{Shutdown, SocketAddr},
    os::fd::{AsFd, BorrowedFd},
    pin::Pin,
    task::{Context, Poll},
};

use futures_io::{AsyncRead, AsyncWrite};

use super::{TcpListener, TcpStream, listener::accept};
use crate::reactor::{Direction, Registered};

/// A connection for futures: `futures::AsyncRead` and `AsyncWrite`. Made by [`TcpStream::into_async`].
///
/// An operation takes a turn and is charged like that of a fiber, so a peer that is always ready does not keep other tasks waiting. Closing shuts down the side that writes.
#[derive(Debug)]
pub struct AsyncTcpStream {
    io: Registered<std::net::TcpStream>,
    /// What a future that waits has paid for: a read, a write.
    paid: [bool; 2],
}

impl AsyncTcpStream {
    pub(super) fn of(io: Registered<std::net::TcpStream>) -> Self {
        Self { io, paid: [false; 2] }
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
        crate::reactor::refuse_seeded()?;
        let io = super::stream::begin_connect(address)?;
        io.run_async(Direction::Write, super::stream::is_connected).await?;
        Ok(Self::of(io))
    }

    /// The address of the other end.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().peer_addr()
    }

    /// The address of this end.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// Ends reading, writing or both.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        crate::reactor::charge();
        self.io.get_ref().shutdown(how)
    }

    /// Sends small writes at once instead of gathering them.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.io.get_ref().set_nodelay(nodelay)
    }

    /// The same connection for fibers and threads.
    pub fn into_blocking(self) -> TcpStream {
        TcpStream::of(self.io)
    }

    fn poll_reading<R>(
        &mut self,
        cx: &mut Context<'_>,
        operation: impl FnMut(&std::net::TcpStream) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.io.poll(Direction::Read, cx, &mut self.paid[0], operation)
    }

    fn poll_writing<R>(
        &mut self,
        cx: &mut Context<'_>,
        operation: impl FnMut(&std::net::TcpStream) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.io.poll(Direction::Write, cx, &mut self.paid[1], operation)
    }
}

impl AsyncRead for AsyncTcpStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_reading(cx, |mut io| io.read(into))
    }

    fn poll_read_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_reading(cx, |mut io| io.read_vectored(into))
    }
}

impl AsyncWrite for AsyncTcpStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |mut io| io.write(from))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |mut io| io.write_vectored(from))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(())) // nothing is buffered
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match self.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()), // the peer was quicker
            done => done,
        })
    }
}

impl AsFd for AsyncTcpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
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
