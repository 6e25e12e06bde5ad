//! UDP.
//!
//! Room: interface.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use super::{connection::Connection, resolve};
use crate::reactor::{Registered, refuse_seeded};

/// A UDP socket. As [`std::net::UdpSocket`], but waiting blocks only the task.
///
/// All operations take `&self`, so one task may receive while another sends. Futures use the methods that end in `_async`.
///
/// ```
/// use bursar::{net::UdpSocket, nursery};
///
/// let socket = UdpSocket::bind("127.0.0.1:0")?;
/// let address = socket.local_addr()?;
/// nursery(|n| {
///     n.try_spawn(|| {
///         let mut message = [0; 64];
///         let (length, from) = socket.recv_from(&mut message)?;
///         socket.send_to(&message[..length], from)?; // an echo
///         Ok(())
///     });
///     let peer = UdpSocket::bind("127.0.0.1:0")?;
///     peer.connect(address)?;
///     peer.send(b"hello")?;
///     let mut answer = [0; 64];
///     let length = peer.recv(&mut answer)?;
///     assert_eq!(&answer[..length], b"hello");
///     Ok(())
/// }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct UdpSocket(Connection<std::net::UdpSocket>);

impl UdpSocket {
    /// A socket at `address`, or at the first of its addresses that is free. Port 0: the system chooses.
    pub fn bind(address: impl ToSocketAddrs + Send) -> io::Result<Self> {
        Self::try_from(std::net::UdpSocket::bind(&*resolve(address)?)?)
    }

    /// Sends to, and receives from, `address` only.
    pub fn connect(&self, address: impl ToSocketAddrs + Send) -> io::Result<()> {
        self.0.get_ref().connect(&*resolve(address)?)
    }

    /// Sends a datagram to the address it is connected to. Returns its length.
    pub fn send(&self, from: &[u8]) -> io::Result<usize> {
        self.0.writing(|io| io.send(from))
    }

    /// Receives a datagram from the address it is connected to. What does not fit into `into` is lost.
    pub fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.reading(|io| io.recv(into))
    }

    /// Sends a datagram. Returns its length.
    pub fn send_to(&self, from: &[u8], address: SocketAddr) -> io::Result<usize> {
        self.0.writing(|io| io.send_to(from, address))
    }

    /// Receives a datagram; returns its length and who sent it. What does not fit into `into` is lost.
    pub fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.reading(|io| io.recv_from(into))
    }

    /// Receives without taking: the next one that receives gets the same datagram.
    pub fn peek(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.reading(|io| io.peek(into))
    }

    /// The same, and who sent it.
    pub fn peek_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.reading(|io| io.peek_from(into))
    }

    /// As [`send`](Self::send), in a future.
    ///
    /// ```
    /// use bursar::{block_on, net::UdpSocket};
    ///
    /// let (one, two) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    /// one.connect(two.local_addr()?)?;
    /// let mut message = [0; 8];
    /// let (length, from) = block_on(async {
    ///     one.send_async(b"hi").await?;
    ///     two.recv_from_async(&mut message).await
    /// })?;
    /// assert_eq!((&message[..length], from), (&b"hi"[..], one.local_addr()?));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn send_async(&self, from: &[u8]) -> io::Result<usize> {
        self.0.writing_async(|io| io.send(from)).await
    }

    /// As [`recv`](Self::recv), in a future. If it is dropped before it is done, it has received nothing.
    pub async fn recv_async(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.reading_async(|io| io.recv(into)).await
    }

    /// As [`send_to`](Self::send_to), in a future.
    pub async fn send_to_async(&self, from: &[u8], address: SocketAddr) -> io::Result<usize> {
        self.0.writing_async(|io| io.send_to(from, address)).await
    }

    /// As [`recv_from`](Self::recv_from), in a future. If it is dropped before it is done, it has received nothing.
    pub async fn recv_from_async(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.reading_async(|io| io.recv_from(into)).await
    }

    /// The address of this socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// The address it is connected to.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }

    /// Whether it may send to addresses that all machines of a network hear.
    pub fn set_broadcast(&self, broadcast: bool) -> io::Result<()> {
        self.0.get_ref().set_broadcast(broadcast)
    }

    /// How many routers a datagram may pass.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.0.get_ref().set_ttl(ttl)
    }

    /// Receives what is sent to a multicast group, on this interface.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.0.get_ref().join_multicast_v4(group, interface)
    }

    /// The same for IPv6.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.0.get_ref().join_multicast_v6(group, interface)
    }

    /// The same socket with a descriptor of its own. Time limits are copied, not shared.
    pub fn try_clone(&self) -> io::Result<Self> {
        let clone = Self::try_from(self.0.get_ref().try_clone()?)?;
        clone.0.copy_limits(&self.0);
        Ok(clone)
    }

    /// How long a task may wait to receive before that fails with [`io::ErrorKind::TimedOut`]; futures use [`timeout`](crate::timeout). A limit of zero is an error.
    ///
    /// ```
    /// use std::{io::ErrorKind, time::Duration};
    /// use bursar::net::UdpSocket;
    ///
    /// let socket = UdpSocket::bind("127.0.0.1:0")?;
    /// socket.set_read_timeout(Some(Duration::from_millis(5)))?;
    /// assert_eq!(socket.recv_from(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn set_read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.read_limit.set(limit)
    }

    /// How long a task may wait to receive.
    pub fn read_timeout(&self) -> Option<Duration> {
        self.0.read_limit.get()
    }

    /// How long a task may wait to send.
    pub fn set_write_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.0.write_limit.set(limit)
    }

    /// How long a task may wait to send.
    pub fn write_timeout(&self) -> Option<Duration> {
        self.0.write_limit.get()
    }
}

impl TryFrom<std::net::UdpSocket> for UdpSocket {
    type Error = io::Error;

    fn try_from(socket: std::net::UdpSocket) -> io::Result<Self> {
        refuse_seeded()?;
        socket.set_nonblocking(true)?;
        Ok(Self(Connection::of(Registered::new(socket)?)))
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
