//! TCP that blocks only the task.
//!
//! Room: interface.
//!
//! The types look like those of [`std::net`], and read and write like them. On a plain thread they block the thread.
//!
//! # Invariant
//! A cancellation loses no byte and no connection: it interrupts a wait, never what was read, written or accepted.
//!
//! # Why it holds
//! Sockets do not block. An operation is tried; if it would block, the task waits until the socket is ready and tries
//! again. Only the wait, and the moment before the first try, is a checkpoint; the result of an operation is returned
//! at once.
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

mod listener;
mod stream;

use std::{
    future::Future,
    io,
    net::{SocketAddr, ToSocketAddrs},
    time::Duration,
};

pub use async_io::Async;
pub use listener::{Incoming, TcpListener};
pub use stream::TcpStream;

use crate::{
    block_on,
    kernel::clock,
    strand::{self, Strand},
    time::{Elapsed, timeout},
    unblock,
};

/// Every operation on a socket begins here: the one function that charges the task for it.
#[inline]
fn charge() {
    strand::with(Strand::charge_syscall);
}

/// Tries `operation` until it does not say that it would block; in between waits until it is `ready`, but no longer
/// than `limit`.
fn try_until<T, F>(
    limit: Option<Duration>,
    mut operation: impl FnMut() -> io::Result<T>,
    ready: impl Fn() -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<()>>,
{
    charge();
    refuse_seeded()?;
    take_turns();
    let mut deadline = None;
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            done => return done,
        }
        match limit {
            None => block_on(ready())?,
            Some(limit) => {
                let deadline = *deadline.get_or_insert_with(|| clock::due(limit));
                let left = deadline.saturating_duration_since(clock::now());
                block_on(timeout(left, ready())).map_err(|_| Elapsed { after: limit })??;
            }
        }
    }
}

/// A checkpoint, and now and then a yield: a peer that is always ready must not keep the worker busy. It counts as two
/// operations, because it calls the system.
fn take_turns() {
    strand::with(|strand| {
        strand.turn.count();
        strand.checkpoint(); // the operation is paid already
    });
}

/// Refuses a seeded run: a seed cannot reproduce what comes from outside.
fn refuse_seeded() -> io::Result<()> {
    match strand::with(Strand::shared).is_some_and(|shared| shared.seeded.is_some()) {
        true => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a seeded run has no sockets, since no seed could repeat what the network does; use a channel in their place",
        )),
        false => Ok(()),
    }
}

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
