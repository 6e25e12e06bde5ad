//! Lines over TCP, in and out.
//!
//! Room: surface. Opens sockets.
//!
//! # Invariant
//! Coming in: what the node of the library keeps. Going out: a line is let go of when the kernel has it; a connection that breaks is made anew, and its
//! line sent again. Until then it is in the custody of the node, and not delivered. Each outage is told once, as an error of the node.

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
    NodeSpec::stage(TcpOut { address, format, outlet: None, outage: Arc::default(), input_over: false })
}

/// What the task tells its node.
#[derive(Default)]
struct Told {
    /// Why nothing can be sent, if the node has not said so yet.
    outage: Option<String>,
    /// Everything was sent.
    is_over: bool,
}

struct TcpOut {
    address: SocketAddr,
    format: Format,
    outlet: Option<Outlet>,
    outage: Arc<Mutex<Told>>,
    input_over: bool,
}

impl TcpOut {
    /// After the last line: the task sees it when what waits was put.
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
            custody: out.in_flight().clone(),
            told: Arc::clone(&self.outage),
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
        // What found no room stays in the custody of the node if the task is gone.
        let _ = self.outlet.as_mut().map(Outlet::push);
        self.close();
        let outage = self.outage.lock().unwrap_or_else(PoisonError::into_inner).outage.take();
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
        !self.input_over || self.outage.lock().unwrap_or_else(PoisonError::into_inner).is_over
    }
}

/// The task that sends.
struct Sending {
    address: SocketAddr,
    /// What it waits for if the peer takes nothing.
    slow: Arc<str>,
    stream: Option<TcpStream>,
    custody: InFlight,
    told: Arc<Mutex<Told>>,
    waker: Waker,
}

impl Sending {
    fn send_all(&mut self, drain: &Drain) {
        while let Some(line) = drain.next() {
            let mut pause = PAUSES.0;
            while let Err(error) = self.send(&line) {
                let address = self.address;
                if pause == PAUSES.0 {
                    let outage =
                        format!("cannot send to {address}: {error}; it tries again until something listens there");
                    self.told.lock().unwrap_or_else(PoisonError::into_inner).outage = Some(outage);
                    self.waker.wake_by_ref();
                }
                self.custody
                    .waits_for(Some(format!("it cannot send to {address}: {error}; it tries again every few seconds")));
                sleep(pause);
                pause = (pause * 2).min(PAUSES.1);
            }
            self.custody.waits_for(None);
            self.custody.remove(1);
        }
        self.told.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
        self.waker.wake_by_ref();
    }

    /// Sends a line; a connection that breaks is forgotten.
    fn send(&mut self, line: &str) -> std::io::Result<()> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect(self.address)?,
        };
        self.custody.may_wait_for(&self.slow);
        stream.write_all(line.as_bytes())?;
        self.stream = Some(stream);
        Ok(())
    }
}
