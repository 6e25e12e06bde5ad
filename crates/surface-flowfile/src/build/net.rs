//! Lines over TCP, in and out.
//!
//! Room: surface. Opens sockets.
//!
//! # Invariant
//! Coming in: at most [`CONNECTIONS`] are open, and none is read while the node takes nothing. Going out: a line is let go of when the kernel
//! has it; a connection that breaks is made anew, and its line sent again.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bursar::flow::{Message, NodeError, NodeResult, NodeSpec, Out, Produced, Source, Stage};
use bursar::net::{TcpListener, TcpStream};
use bursar::{nursery, sleep};
use serde_json::Value;

use super::line::{Lines, written};
use super::wire::{self, Drain, Feed, Intake, Next, Outlet};
use crate::action::Format;

/// Connections at one time; more wait in the kernel.
const CONNECTIONS: usize = 256;
const CHUNK: usize = 16 << 10;
/// From one attempt to connect to the next, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

struct In {
    address: SocketAddr,
    format: Format,
    intake: Option<Intake>,
}

pub(crate) fn tcp_in(address: SocketAddr, format: Format) -> NodeSpec {
    NodeSpec::source(In { address, format, intake: None })
}

impl Source for In {
    type Out = Value;

    fn on_start(&mut self, out: &mut Out<'_, Value>) -> NodeResult {
        let listener = TcpListener::bind(self.address).map_err(|error| {
            NodeError::msg(format!("cannot listen at {}: {error}; choose another address", self.address))
        })?;
        let (feed, intake) = wire::intake(out.waker());
        self.intake = Some(intake);
        let format = self.format;
        out.spawn(move || listen(&listener, format, &feed));
        Ok(())
    }

    fn produce(&mut self, out: &mut Out<'_, Value>) -> Result<Produced, NodeError> {
        let Some(intake) = &mut self.intake else { return Ok(Produced::End) };
        match intake.next() {
            Next::Item(item) => {
                out.emit(item.map_err(NodeError::msg)?);
                Ok(Produced::More)
            }
            Next::Nothing => Ok(Produced::Idle),
            Next::Over => Ok(Produced::End),
        }
    }
}

fn listen(listener: &TcpListener, format: Format, feed: &Feed) {
    let room = bursar::sync::Semaphore::new(CONNECTIONS);
    // Ends by cancellation, or if nobody takes what comes.
    let _ = nursery(|nursery| {
        loop {
            let permit = room.acquire();
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => {
                    if !feed.put(vec![Err(format!("a connection was not accepted: {error}"))]) {
                        return Ok(());
                    }
                    sleep(PAUSES.0); // out of handles, most likely
                    continue;
                }
            };
            let feed = feed.another();
            nursery.spawn(move || {
                read(stream, format, &feed);
                drop(permit);
            });
        }
    });
}

fn read(mut stream: TcpStream, format: Format, feed: &Feed) {
    let (mut lines, mut bytes) = (Lines::new(format), vec![0; CHUNK]);
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

struct To {
    address: SocketAddr,
    format: Format,
    outlet: Option<Outlet>,
    input_over: bool,
    sent: Arc<AtomicBool>,
}

pub(crate) fn tcp_out(address: SocketAddr, format: Format) -> NodeSpec {
    NodeSpec::stage(To { address, format, outlet: None, input_over: false, sent: Arc::default() })
}

impl To {
    fn close(&mut self) {
        if self.input_over && self.outlet.as_ref().is_some_and(Outlet::has_room) {
            self.outlet = None;
        }
    }
}

impl Stage for To {
    type In = Value;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_start(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        let (outlet, drain) = wire::outlet(out.waker());
        self.outlet = Some(outlet);
        let (address, sent, waker) = (self.address, Arc::clone(&self.sent), out.waker());
        out.spawn(move || {
            send(address, &drain);
            sent.store(true, Ordering::SeqCst);
            waker.wake();
        });
        Ok(())
    }

    fn on_message(&mut self, message: Message<Value>, _out: &mut Out<'_, ()>) -> NodeResult {
        let gone = || NodeError::msg("the task that sends has ended");
        let outlet = self.outlet.as_mut().ok_or_else(gone)?;
        outlet.put(written(&message.payload, self.format)).map_err(|_| gone())
    }

    fn on_wake(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        let pushed = self.outlet.as_mut().map_or(Ok(()), Outlet::push);
        self.close();
        pushed.map_err(|_| NodeError::msg("the task that sends has ended"))
    }

    fn on_end(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.input_over = true;
        self.close();
        Ok(())
    }

    fn accepts(&self) -> bool {
        self.outlet.as_ref().is_none_or(Outlet::has_room)
    }

    /// After the last message: whether the kernel has it.
    fn is_done(&self) -> bool {
        !self.input_over || self.sent.load(Ordering::SeqCst)
    }
}

/// Sends every line, over as many connections as it takes.
fn send(address: SocketAddr, drain: &Drain) {
    let mut open: Option<TcpStream> = None;
    while let Some(line) = drain.next() {
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
}
