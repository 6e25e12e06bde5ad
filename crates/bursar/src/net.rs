//! Sockets that block only the task: TCP, UDP, and those of the file system.
//!
//! Room: interface.
//!
//! The types look like those of [`std::net`] and [`std::os::unix::net`], and read and write like them. On a plain thread they block the thread. A cancellation interrupts a wait, never what was
//! read, written or accepted. For futures, `into_async` turns a socket into one that implements the traits of `futures`.
//!
//! ```
//! use std::io::{Read, Write};
//! use bursar::{net::{TcpListener, TcpStream}, prelude::*};
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
//! })?;
//! assert_eq!(answer, "hello, world");
//! # Ok::<(), TaskError>(())
//! ```

#[doc(inline)]
pub use sched_tasks::net::{
    AsyncTcpListener, AsyncTcpStream, AsyncUnixStream, Incoming, TcpListener, TcpStream, UdpSocket, UnixDatagram,
    UnixListener, UnixStream,
};
