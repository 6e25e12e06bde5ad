//! hyper on this runtime: its executor, its connections, its timer.
//!
//! Room: interface.
//!
//! hyper brings no runtime of its own: it asks for something that spawns, for connections that it can poll, and for a timer. Here they are. What hyper spawns goes into a nursery, so no
//! connection outlives the scope that serves it, and a cancellation reaches all of them.
//!
//! ```
//! use bursar::{hyper::{Io, Timer}, net::{AsyncTcpStream, TcpListener}, prelude::*};
//! use http_body_util::{BodyExt, Full};
//! use hyper::{Request, Response, body::{Bytes, Incoming}, service::service_fn};
//!
//! async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
//!     Ok(Response::new(Full::from("hello")))
//! }
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?;
//! let answer = nursery(|n| {
//!     n.try_spawn(move || {
//!         let stream = listener.accept()?.0.into_async();
//!         let mut server = hyper::server::conn::http1::Builder::new();
//!         n.spawn_async(server.timer(Timer).serve_connection(Io::new(stream), service_fn(hello)));
//!         Ok(())
//!     });
//!     block_on(async {
//!         let stream = Io::new(AsyncTcpStream::connect(address).await?);
//!         let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await?;
//!         n.spawn_async(connection);
//!         let request = Request::get("/").header("host", "localhost").body(String::new())?;
//!         let response = sender.send_request(request).await?;
//!         Ok(response.into_body().collect().await?.to_bytes())
//!     })
//! })?;
//! assert_eq!(answer, "hello");
//! # Ok::<(), TaskError>(())
//! ```

use std::{
    cell::RefCell,
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures_io::{AsyncRead, AsyncWrite};
use hyper::rt::ReadBufCursor;
use sched_tasks::{Nursery, Sleep, sleep_async};

/// How much of a connection is read at a time.
const READ_BYTES: usize = 8 << 10;

thread_local! {
    /// What a connection is read into, before hyper has it: zeroed once, not for every read.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A connection as hyper reads and writes it: [`net::AsyncTcpStream`](crate::net::AsyncTcpStream), or any other that implements the traits of `futures`.
#[derive(Debug)]
pub struct Io<S>(S);

impl<S> Io<S> {
    /// For hyper.
    pub fn new(stream: S) -> Self {
        Self(stream)
    }

    /// The stream, for what hyper has no words for.
    pub fn get_ref(&self) -> &S {
        &self.0
    }

    /// The stream back: after an upgrade, for instance.
    pub fn into_inner(self) -> S {
        self.0
    }
}

impl<S: AsyncRead + Unpin> hyper::rt::Read for Io<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, mut into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        // Not while it is borrowed: the stream is foreign code, and may read another.
        let mut buffer = BUFFER.try_with(RefCell::take).unwrap_or_default();
        buffer.resize(READ_BYTES, 0);
        let most = into.remaining().min(READ_BYTES);
        let read = Pin::new(&mut self.0).poll_read(cx, &mut buffer[..most]);
        if let Poll::Ready(Ok(count)) = read {
            into.put_slice(&buffer[..count]);
            buffer[..count].fill(0); // another connection is read into it next
        }
        let _ = BUFFER.try_with(|of_thread| of_thread.replace(buffer));
        read.map_ok(|_| ())
    }
}

impl<S: AsyncWrite + Unpin> hyper::rt::Write for Io<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, from)
    }
}

/// Spawns for hyper into a nursery, as HTTP/2 needs it.
#[derive(Clone, Copy, Debug)]
pub struct Executor<'scope, 'env>(&'scope Nursery<'scope, 'env>);

impl<'scope, 'env> Executor<'scope, 'env> {
    /// What hyper spawns ends with this nursery.
    pub fn new(nursery: &'scope Nursery<'scope, 'env>) -> Self {
        Self(nursery)
    }
}

impl<'scope, F> hyper::rt::Executor<F> for Executor<'scope, '_>
where
    F: Future + Send + 'scope,
    F::Output: Send + 'scope,
{
    fn execute(&self, future: F) {
        self.0.spawn_async(future);
    }
}

/// The timer of this runtime, for hyper's timeouts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer;

/// A sleep as hyper wants it.
struct TimerSleep(Sleep);

impl Future for TimerSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl hyper::rt::Sleep for TimerSleep {}

impl hyper::rt::Timer for Timer {
    fn sleep(&self, time: Duration) -> Pin<Box<dyn hyper::rt::Sleep>> {
        Box::pin(TimerSleep(sleep_async(time)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn hyper::rt::Sleep>> {
        self.sleep(deadline.saturating_duration_since(sched_tasks::now()))
    }
}
