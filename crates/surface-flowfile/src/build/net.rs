//! Lines over TCP, in and out.
//!
//! Room: driver. Knows sockets; knows nothing of processes.
//!
//! # Invariant
//! In: the invariant of the library's node. Out: a line counts as delivered when the kernel has it; after a broken connection a new one is made, and the
//! line is sent again. Until then the node holds it. Each outage is reported once, as an error of the node.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use bursar::flow::{InFlight, Message, NodeError, NodeResult, NodeSpec, Out, Stage};
use bursar::net::TcpStream;
use bursar::sleep;
use serde_json::Value;

use super::line::{message, written};
use super::wire::{self, Drain, Outlet};
use crate::action::{Format, Reading};

/// Backoff between two attempts to connect: the first pause and the limit.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

pub(crate) fn tcp_in(address: SocketAddr, reading: Reading) -> NodeSpec {
    bursar::flow::tcp_in(address.to_string())
        .longest_line(reading.longest_line)
        .read_with(move |_, line| message(line, reading).transpose())
        .spec()
}

/// Sends every line, over as many connections as it takes.
pub(crate) fn tcp_out(address: SocketAddr, format: Format) -> NodeSpec {
    NodeSpec::stage(TcpOut { address, format, outlet: None, state: Arc::default(), input_over: false })
}

/// What the task reports to its node.
#[derive(Default)]
struct SendState {
    /// Why nothing can be sent, if the node has not reported it yet.
    outage: Option<String>,
    /// Everything was sent.
    is_over: bool,
}

struct TcpOut {
    address: SocketAddr,
    format: Format,
    outlet: Option<Outlet>,
    state: Arc<Mutex<SendState>>,
    input_over: bool,
}

impl TcpOut {
    /// Closes the channel after the last line, when no line waits for room.
    fn close(&mut self) {
        if self.input_over && self.outlet.as_ref().is_some_and(Outlet::has_room) {
            self.outlet = None;
        }
    }
}

impl Stage for TcpOut {
    type In = Value;
    type Out = ();

    fn outputs(&self) -> Vec<String> {
        Vec::new()
    }

    fn on_start(&mut self, out: &mut Out<'_, ()>) -> NodeResult {
        let (outlet, drain) = wire::outlet(out.waker());
        self.outlet = Some(outlet);
        let mut sending = Sending {
            address: self.address,
            slow: format!("{} does not read what it is sent", self.address).into(),
            stream: None,
            in_flight: out.in_flight().clone(),
            state: Arc::clone(&self.state),
            waker: out.waker(),
        };
        out.spawn(move || sending.send_all(&drain));
        Ok(())
    }

    fn on_message(&mut self, message: Message<Value>, out: &mut Out<'_, ()>) -> NodeResult {
        let gone = || NodeError::msg("the task that sends has ended; end the flow and start it again");
        let outlet = self.outlet.as_mut().ok_or_else(gone)?;
        out.in_flight().add(1);
        outlet.put(written(&message.payload, self.format)).map_err(|_| {
            out.in_flight().remove(1);
            gone()
        })
    }

    fn on_wake(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        // If the task is gone, the node still holds a line that found no room.
        let _ = self.outlet.as_mut().map(Outlet::push);
        self.close();
        let outage = self.state.lock().unwrap_or_else(PoisonError::into_inner).outage.take();
        outage.map_or(Ok(()), |why| Err(NodeError::msg(why)))
    }

    fn on_end(&mut self, _out: &mut Out<'_, ()>) -> NodeResult {
        self.input_over = true;
        self.close();
        Ok(())
    }

    fn accepts(&self) -> bool {
        self.outlet.as_ref().is_none_or(Outlet::has_room)
    }

    fn is_done(&self) -> bool {
        !self.input_over || self.state.lock().unwrap_or_else(PoisonError::into_inner).is_over
    }
}

/// The task that sends.
struct Sending {
    address: SocketAddr,
    /// What it waits for if the peer does not read.
    slow: Arc<str>,
    stream: Option<TcpStream>,
    in_flight: InFlight,
    state: Arc<Mutex<SendState>>,
    waker: Waker,
}

impl Sending {
    fn send_all(&mut self, drain: &Drain) {
        while let Some(line) = drain.next() {
            let mut pause = BACKOFF.0;
            while let Err(error) = self.send(&line) {
                let address = self.address;
                if pause == BACKOFF.0 {
                    let outage =
                        format!("cannot send to {address}: {error}; it is tried again until a server listens there");
                    self.state.lock().unwrap_or_else(PoisonError::into_inner).outage = Some(outage);
                    self.waker.wake_by_ref();
                }
                self.in_flight.waits_for(Some(format!(
                    "it cannot send to {address}: {error}; it is tried again every few seconds"
                )));
                sleep(pause);
                pause = (pause * 2).min(BACKOFF.1);
            }
            self.in_flight.waits_for(None);
            self.in_flight.remove(1);
        }
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.waker.wake_by_ref();
    }

    /// Sends a line; a broken connection is dropped.
    fn send(&mut self, line: &str) -> std::io::Result<()> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.address)?,
        };
        self.in_flight.may_wait_for(&self.slow);
        stream.write_all(line.as_bytes())?;
        self.stream = Some(stream);
        Ok(())
    }
}
