//! Datagrams within one machine.
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
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection::Connection;
use crate::reactor::{Registered, charge, refuse_seeded};

/// A socket of the file system for datagrams, which come whole and in order. As [`std::os::unix::net::UnixDatagram`], but waiting blocks only the task.
///
/// All operations take `&self`, so one task may receive while another sends. Futures use the methods that end in `_async`. A task that sends waits while the receiver has no room.
///
/// ```
/// use bursar::{net::UnixDatagram, nursery};
///
/// let (one, two) = UnixDatagram::pair()?;
/// nursery(|n| {
///     n.try_spawn(|| (0..1000_u32).try_for_each(|i| one.send(&i.to_ne_bytes()).map(drop)).map_err(Into::into));
///     let mut message = [0; 4];
///     for i in 0..1000_u32 {
///         two.recv(&mut message)?;
///         assert_eq!(u32::from_ne_bytes(message), i);
///     }
///     Ok(())
/// }).unwrap();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct UnixDatagram(Connection<std_unix::UnixDatagram>);

impl UnixDatagram {
    /// A socket at `path`, where no file may be. The file stays when the socket is dropped.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        refuse_seeded()?;
        charge();
        Self::try_from(std_unix::UnixDatagram::bind(path)?)
    }

    /// A socket without a path: others cannot send to it.
    pub fn unbound() -> io::Result<Self> {
        refuse_seeded()?;
        charge();
        Self::try_from(std_unix::UnixDatagram::unbound()?)
    }

    /// Two sockets that send to each other.
    pub fn pair() -> io::Result<(Self, Self)> {
        refuse_seeded()?;
        charge();
        let (one, two) = std_unix::UnixDatagram::pair()?;
        Ok((Self::try_from(one)?, Self::try_from(two)?))
    }

    /// Sends to `path` only, and receives from there only.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        charge();
        self.0.get_ref().connect(path)
    }

    /// Sends a datagram to the socket it is connected to. Returns its length.
    pub fn send(&self, from: &[u8]) -> io::Result<usize> {
        self.0.writing(|io| io.send(from))
    }

    /// Receives a datagram. What does not fit into `into` is lost.
    pub fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.reading(|io| or_end(io, io.recv(into)))
    }

    /// Receives a datagram; returns its length and who sent it. What does not fit into `into` is lost.
    pub fn recv_from(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.reading(|io| or_end_from(io, io.recv_from(into)))
    }

    /// As [`send`](Self::send), in a future.
    pub async fn send_async(&self, from: &[u8]) -> io::Result<usize> {
        self.0.writing_async(|io| io.send(from)).await
    }

    /// As [`recv`](Self::recv), in a future. If it is dropped before it is done, it has received nothing.
    pub async fn recv_async(&self, into: &mut [u8]) -> io::Result<usize> {
        self.0.reading_async(|io| or_end(io, io.recv(into))).await
    }

    /// As [`recv_from`](Self::recv_from), in a future. If it is dropped before it is done, it has received nothing.
    pub async fn recv_from_async(&self, into: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.reading_async(|io| or_end_from(io, io.recv_from(into))).await
    }

    /// The address of this socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// The address it is connected to.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }

    /// Ends receiving, sending or both; also for tasks that wait in one. Who receives then gets nothing, of length 0.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        charge();
        self.0.get_ref().shutdown(how)
    }

    /// How long a task may wait to receive before that fails with [`io::ErrorKind::TimedOut`]; futures use [`timeout`](crate::timeout). A limit of zero is an error.
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

/// A socket that does not block says that it would, for ever, also when receiving was shut down; one that blocks returns with nothing.
fn or_end(io: &std_unix::UnixDatagram, received: io::Result<usize>) -> io::Result<usize> {
    match received {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && is_shut_down(io)? => Ok(0),
        received => received,
    }
}

fn or_end_from(
    io: &std_unix::UnixDatagram,
    received: io::Result<(usize, SocketAddr)>,
) -> io::Result<(usize, SocketAddr)> {
    match received {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock && is_shut_down(io)? => {
            Ok((0, SocketAddr::from_pathname("")?)) // without a sender
        }
        received => received,
    }
}

fn is_shut_down(io: &std_unix::UnixDatagram) -> io::Result<bool> {
    let mut asked = [PollFd::new(io, PollFlags::RDHUP)];
    poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    Ok(asked[0].revents().contains(PollFlags::RDHUP))
}

impl TryFrom<std_unix::UnixDatagram> for UnixDatagram {
    type Error = io::Error;

    fn try_from(socket: std_unix::UnixDatagram) -> io::Result<Self> {
        refuse_seeded()?;
        socket.set_nonblocking(true)?;
        Ok(Self(Connection::of(Registered::new(socket)?)))
    }
}

impl AsFd for UnixDatagram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
