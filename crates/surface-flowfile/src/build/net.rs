//! Lines over TCP, in and out.
//!
//! Room: surface. Opens sockets.
//!
//! # Invariant
//! Coming in: what the node of the library keeps. Going out: a line is let go of when the kernel has it; a connection that breaks is made anew, and its
//! line sent again.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use bursar::flow::{NodeError, NodeSpec, to_task};
use bursar::net::TcpStream;
use bursar::{Receiver, sleep};
use serde_json::Value;

use super::line::{message, written};
use crate::action::{Format, Reading};

/// Messages that wait to be sent.
const WAITING: usize = 256;
/// From one attempt to connect to the next, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

pub(crate) fn tcp_in(address: SocketAddr, reading: Reading) -> NodeSpec {
    bursar::flow::tcp_in(address.to_string())
        .longest_line(reading.longest_line)
        .read_with(move |_, line| message(line, reading).transpose())
        .spec()
}

/// Sends every line, over as many connections as it takes.
pub(crate) fn tcp_out(address: SocketAddr, format: Format) -> NodeSpec {
    to_task(WAITING, move |messages: Receiver<Value>| {
        let mut open: Option<TcpStream> = None;
        for message in messages {
            let line = written(&message, format);
            let mut pause = PAUSES.0;
            loop {
                let sent = match open.take().map_or_else(|| TcpStream::connect(address), Ok) {
                    Ok(mut stream) => stream.write_all(line.as_bytes()).map(|()| open = Some(stream)),
                    Err(error) => Err(error),
                };
                if sent.is_ok() {
                    break;
                }
                sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
            }
        }
        Ok::<(), NodeError>(())
    })
}
