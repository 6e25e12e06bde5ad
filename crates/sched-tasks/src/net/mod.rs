//! Sockets that block only the task: TCP, UDP, and those of the file system.
//!
//! Room: interface.
//!
//! The types look like those of [`std::net`] and [`std::os::unix::net`], and read and write like them. On a plain thread they block the thread.
//!
//! # Invariant
//! A cancellation loses no byte and no connection: it interrupts a wait, never what was read, written or accepted.
//!
//! # Why it holds
//! By `reactor/source.rs`: an operation is tried; if it would block, the task waits until the socket may be ready and tries again.
//!
//! ```
//! use std::io::{Read, Write};
//! use bursar::{net::{TcpListener, TcpStream}, nursery};
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let answer = nursery(|n| {
//!     n.try_spawn(|| {
//!         let (mut stream, _) = listener.accept()?;
//!         let mut name = String::new();
//!         stream.read_to_string(&mut name)?;
//!         write!(stream, "hello, {name}")?;
//!         Ok(())
//!     });
//!     let mut stream = TcpStream::connect(address)?;
//!     stream.write_all(b"world")?;
//!     stream.shutdown(std::net::Shutdown::Write)?;
//!     let mut answer = String::new();
//!     stream.read_to_string(&mut answer)?;
//!     Ok(answer)
//! }).unwrap();
//! assert_eq!(answer, "hello, world");
//! # Ok::<(), std::io::Error>(())
//! ```

mod asynchronous;
mod calls;
mod connection;
mod limit;
mod listener;
mod stream;
mod udp;
mod unix;
mod unix_datagram;

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
};

pub use asynchronous::{AsyncTcpListener, AsyncTcpStream};
pub use listener::{Incoming, TcpListener};
pub use stream::TcpStream;
pub use udp::UdpSocket;
pub use unix::{AsyncUnixStream, UnixListener, UnixStream};
pub use unix_datagram::UnixDatagram;

use crate::{reactor::refuse_seeded, unblock};

/// The addresses of the name `address`. The system may have to ask a name server, and blocks a thread meanwhile. The
/// task is charged here, also for the operation that needs the addresses.
fn resolve(address: impl ToSocketAddrs + Send) -> io::Result<Vec<SocketAddr>> {
    refuse_seeded()?;
    let found = unblock(move || address.to_socket_addrs().map(|found| found.collect::<Vec<_>>()))?;
    match found.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::InvalidInput, "the name stands for no address; check its spelling")),
        false => Ok(found),
    }
}
