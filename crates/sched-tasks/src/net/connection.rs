//! What connections of all kinds have in common: reading, writing, time limits; for tasks and for futures.
//!
//! Room: interface. Knows sockets that carry a stream of bytes; knows nothing of addresses.

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, BorrowedFd},
    task::{Context, Poll},
};

use super::{
    calls,
    limit::{Limit, explained},
};
use crate::reactor::{ByteStream, Direction, Registered};

/// A connection for tasks and threads.
#[derive(Debug)]
pub(super) struct Connection<T: AsFd> {
    io: Registered<T>,
    pub(super) read_limit: Limit,
    pub(super) write_limit: Limit,
}

impl<T: AsFd> Connection<T> {
    pub(super) fn of(io: Registered<T>) -> Self {
        Self { io, read_limit: Limit::default(), write_limit: Limit::default() }
    }

    pub(super) fn get_ref(&self) -> &T {
        self.io.get_ref()
    }

    pub(super) fn into_registered(self) -> Registered<T> {
        self.io
    }

    pub(super) fn copy_limits(&self, other: &Self) {
        self.read_limit.copy(&other.read_limit);
        self.write_limit.copy(&other.write_limit);
    }

    pub(super) fn reading<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        let limit = self.read_limit.get();
        self.io.run(Direction::Read, limit, |io| operation(io)).map_err(|error| explained(error, limit))
    }

    pub(super) fn writing<R>(&self, mut operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        let limit = self.write_limit.get();
        self.io.run(Direction::Write, limit, |io| operation(io)).map_err(|error| explained(error, limit))
    }

    pub(super) async fn reading_async<R>(&self, operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.io.run_async(Direction::Read, operation).await
    }

    pub(super) async fn writing_async<R>(&self, operation: impl FnMut(&T) -> io::Result<R>) -> io::Result<R> {
        self.io.run_async(Direction::Write, operation).await
    }
}

impl<T: AsFd + ByteStream> Connection<T> {
    pub(super) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        self.reading(|_| self.io.read_stream(into.len(), |io| calls::receive(io, into)))
    }

    pub(super) fn read_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.reading(|_| self.io.read_stream(total(into), |io| calls::receive_vectored(io, into)))
    }

    pub(super) fn write(&self, from: &[u8]) -> io::Result<usize> {
        self.writing(|io| calls::send(io, from))
    }

    pub(super) fn write_vectored(&self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        self.writing(|io| calls::send_vectored(io, from))
    }
}

impl<T: AsFd> AsFd for Connection<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

fn total(buffers: &[IoSliceMut<'_>]) -> usize {
    buffers.iter().map(|buffer| buffer.len()).sum()
}

/// A connection for futures.
#[derive(Debug)]
pub(super) struct AsyncConnection<T: AsFd> {
    io: Registered<T>,
    /// What a future that waits has paid for: a read, a write.
    paid: [bool; 2],
}

impl<T: AsFd> AsyncConnection<T> {
    pub(super) fn of(io: Registered<T>) -> Self {
        Self { io, paid: [false; 2] }
    }

    pub(super) fn get_ref(&self) -> &T {
        self.io.get_ref()
    }

    pub(super) fn into_registered(self) -> Registered<T> {
        self.io
    }

    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>
    where
        T: ByteStream,
    {
        let Self { io, paid } = self;
        io.poll(Direction::Read, cx, &mut paid[0], |_| io.read_stream(into.len(), |io| calls::receive(io, into)))
    }

    pub(super) fn poll_read_vectored(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>>
    where
        T: ByteStream,
    {
        let Self { io, paid } = self;
        io.poll(Direction::Read, cx, &mut paid[0], |_| {
            io.read_stream(total(into), |io| calls::receive_vectored(io, into))
        })
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.io.poll(Direction::Write, cx, &mut self.paid[1], |io| calls::send(io, from))
    }

    pub(super) fn poll_write_vectored(
        &mut self,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.io.poll(Direction::Write, cx, &mut self.paid[1], |io| calls::send_vectored(io, from))
    }
}

impl<T: AsFd> AsFd for AsyncConnection<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.as_fd()
    }
}

/// Implements `Read` and `Write` for a type that has a [`Connection`], and for references to it.
macro_rules! reads_and_writes {
    ($stream:ident) => {
        reads_and_writes!(@one $stream);
        reads_and_writes!(@one &$stream);
    };
    (@one $($stream:tt)+) => {
        impl std::io::Read for $($stream)+ {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                self.0.read(into)
            }

            fn read_vectored(&mut self, into: &mut [std::io::IoSliceMut<'_>]) -> std::io::Result<usize> {
                self.0.read_vectored(into)
            }
        }

        impl std::io::Write for $($stream)+ {
            fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
                self.0.write(from)
            }

            fn write_vectored(&mut self, from: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
                self.0.write_vectored(from)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                $crate::reactor::charge();
                Ok(()) // nothing is buffered
            }
        }
    };
}

/// Implements the traits of `futures` for a type that has an [`AsyncConnection`] and a method `shutdown`.
macro_rules! reads_and_writes_async {
    ($stream:ident) => {
        impl futures_io::AsyncRead for $stream {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                into: &mut [u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.0.poll_read(cx, into)
            }

            fn poll_read_vectored(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                into: &mut [std::io::IoSliceMut<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.0.poll_read_vectored(cx, into)
            }
        }

        impl futures_io::AsyncWrite for $stream {
            fn poll_write(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                from: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.0.poll_write(cx, from)
            }

            fn poll_write_vectored(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                from: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                self.0.poll_write_vectored(cx, from)
            }

            fn poll_flush(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(Ok(())) // nothing is buffered
            }

            fn poll_close(
                self: std::pin::Pin<&mut Self>,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::task::Poll::Ready(match self.shutdown(std::net::Shutdown::Write) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotConnected => Ok(()), // the peer was quicker
                    done => done,
                })
            }
        }
    };
}

pub(super) use reads_and_writes;
pub(super) use reads_and_writes_async;
