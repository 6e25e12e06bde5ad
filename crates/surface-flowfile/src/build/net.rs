//! Lines over TCP, in and out.
//!
//! Room: surface. Opens sockets.
//!
//! # Invariant
//! Coming in: at most [`CONNECTIONS`] are open, and none is read while the node takes nothing. Going out: a line is let go of when the kernel
//! has it; a connection that breaks is made anew, and its line sent again.
//!
//! # Why not the scheduler's own nodes
//! They carry texts. A node in between, to make messages of them, would change the ids of edges people write.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use bursar::flow::{NodeError, NodeResult, NodeSpec, Out, Produced, Source, to_task};
use bursar::net::{TcpListener, TcpStream};
use bursar::{Receiver, nursery, sleep};
use serde_json::Value;

use super::line::{Messages, written};
use super::wire::{self, Feed, Intake, Next};
use crate::action::{Format, Reading};

/// Connections at one time; more wait in the kernel.
const CONNECTIONS: usize = 256;
/// Messages that wait to be sent.
const WAITING: usize = 256;
const CHUNK: usize = 16 << 10;
/// From one attempt to connect to the next, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

struct In {
    address: SocketAddr,
    reading: Reading,
    intake: Option<Intake>,
}

pub(crate) fn tcp_in(address: SocketAddr, reading: Reading) -> NodeSpec {
    NodeSpec::source(In { address, reading, intake: None })
}

impl Source for In {
    type Out = Value;

    fn on_start(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        let listener = TcpListener::bind(self.address).map_err(|error| {
            NodeError::msg(format!("cannot listen at {}: {error}; choose another address", self.address))
        })?;
        let (feed, intake) = wire::intake(out.waker());
        self.intake = Some(intake);
        let reading = self.reading;
        out.spawn(move || listen(&listener, reading, &feed));
        Ok(())
    }

    fn produce(&mut self, out: &mut Out<'_, Value>) -> Result<Produced, NodeError> {
        let Some(intake) = &mut self.intake else { return Ok(Produced::End) };
        match intake.next() {
            Next::Item(item) => {
                out.emit(item?);
                Ok(Produced::More)
            }
            Next::Nothing => Ok(Produced::Idle),
            Next::Over => Ok(Produced::End),
        }
    }
}

fn listen(listener: &TcpListener, reading: Reading, feed: &Feed) {
    let room = bursar::sync::Semaphore::new(CONNECTIONS);
    // Ends by cancellation, or if nobody takes what comes.
    let _ = nursery(|nursery| {
        loop {
            let permit = room.acquire(1);
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    if !feed
                        .put(vec![Err(NodeError::msg(format!("a connection was not accepted: {error}")).of_record())])
                    {
                        return Ok(());
                    }
                    sleep(PAUSES.0); // out of handles, most likely
                    continue;
                }
            };
            let feed = feed.another();
            nursery.spawn(move || {
                read(stream, reading, &feed);
                drop(permit);
            });
        }
    });
}

fn read(mut stream: TcpStream, reading: Reading, feed: &Feed) {
    let (mut lines, mut bytes) = (Messages::new(reading), vec![0; CHUNK]);
    loop {
        let mut items = Vec::new();
        let count = match stream.read(&mut bytes) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => 0, // a peer that is gone is an end like any other
        };
        lines.feed(&bytes[..count], &mut items);
        if count == 0 {
            lines.end(&mut items);
        }
        if !feed.put(items) || count == 0 {
            return;
        }
    }
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
