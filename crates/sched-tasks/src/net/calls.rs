//! The calls that move bytes of a stream.
//!
//! Room: driver.
//!
//! Not those of the C library: in a process with threads each of them is a point where a thread of POSIX can be cancelled, for which it changes shared state before and after (60 instructions, and two locked ones). The
//! sockets of a runtime do not block, and its threads are not cancelled.

use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::AsFd,
};

use rustix::net::{RecvFlags, SendFlags};

pub(super) fn receive(socket: impl AsFd, into: &mut [u8]) -> io::Result<usize> {
    let (received, _) = rustix::net::recv(socket, into, RecvFlags::empty())?;
    Ok(received)
}

pub(super) fn receive_vectored(socket: impl AsFd, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    Ok(rustix::io::readv(socket, into)?)
}

/// If the other side has closed: an error, and no signal.
pub(super) fn send(socket: impl AsFd, from: &[u8]) -> io::Result<usize> {
    Ok(rustix::net::send(socket, from, SendFlags::NOSIGNAL)?)
}

pub(super) fn send_vectored(socket: impl AsFd, from: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(socket, from)?)
}
