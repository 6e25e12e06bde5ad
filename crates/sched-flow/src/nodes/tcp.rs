//! TCP connections as ends of a graph, a message for each line.
//!
//! Room: interface.
//!
//! # Invariant
//! [`tcp_in`]: the number of connections, the length of lines and the number of lines that wait for the graph are bounded; above that, peers wait. [`tcp_out`]: a line leaves the memory of the node when
//! all of it was written to the socket.
//!
//! # Why it holds
//! A connection is accepted only with a permit, and reads on only when its line was taken. [`SendBuffer`] counts the written bytes; after a failure
//! it begins again with the first line that was not written completely.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr},
    sync::Arc,
    time::Duration,
};

use sched_tasks::{
    Receiver, Semaphore, Sender,
    net::{TcpListener, TcpStream},
};

use super::{
    lines::{LONGEST, Line, Lines, NotUtf8},
    task::{from_reporting_task, to_holding_task},
};
use crate::{
    error::{NodeError, NodeResult, Retry},
    in_flight::InFlight,
    message::Payload,
    node::NodeSpec,
};

/// Bytes that are read or written at a time.
const CHUNK: usize = 16 << 10;
/// The capacity in lines between the network and the graph.
const AHEAD: usize = 1024;
/// The backoff after an error of the listener, which may last: there may be no file descriptors left.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Listens at an address; every line of every connection is a message, a `String`.
///
/// A line that is too long, or no UTF-8 text, is an error of the node, and the connection goes on; a connection that breaks is an error too. The source does not
/// end by itself.
///
/// ```
/// use bursar::flow::{Harness, tcp_in_on};
/// use std::{io::Write, net::{TcpListener, TcpStream}};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let address = listener.local_addr()?;
/// let mut node = Harness::new(tcp_in_on(listener)); // or `tcp_in("0.0.0.0:7000")`
/// TcpStream::connect(address)?.write_all(b"hello\n")?;
/// assert_eq!(node.collect::<String>("out", 1), ["hello"]);
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn tcp_in(address: impl Into<String>) -> TcpIn<String> {
    TcpIn::at(Endpoint::Address(address.into()))
}

/// As [`tcp_in`], with a listening socket.
pub fn tcp_in_on(listener: std::net::TcpListener) -> TcpIn<String> {
    TcpIn::at(Endpoint::Listener(listener))
}

enum Endpoint {
    Address(String),
    Listener(std::net::TcpListener),
}

/// Lines that come by TCP; made by [`tcp_in`] and [`tcp_in_on`].
pub struct TcpIn<T> {
    endpoint: Endpoint,
    longest: usize,
    connections: usize,
    read: ReadFrom<T>,
}

/// Makes a message, nothing, or an error of a line of a peer.
type ReadFrom<T> = Arc<dyn Fn(SocketAddr, Line) -> Result<Option<T>, NodeError> + Send + Sync>;

impl TcpIn<String> {
    fn at(endpoint: Endpoint) -> Self {
        let read: ReadFrom<String> = Arc::new(|_, line| line.text(NotUtf8::Error).map(Some));
        Self { endpoint, longest: LONGEST, connections: 256, read }
    }

    /// What a line that is not UTF-8 becomes; an error by default.
    pub fn not_utf8(self, otherwise: NotUtf8) -> Self {
        self.read_with(move |_, line| line.text(otherwise).map(Some))
    }

    /// Messages are the bytes of the lines, UTF-8 or not.
    pub fn bytes(self) -> TcpIn<Vec<u8>> {
        self.read_with(|_, line| Ok(Some(line.bytes)))
    }

    /// Messages are `(SocketAddr, String)`: the peer and its line.
    pub fn with_peers(self) -> TcpIn<(SocketAddr, String)> {
        self.read_with(|peer, line| Ok(Some((peer, line.text(NotUtf8::Error)?))))
    }
}

impl<T: Payload> TcpIn<T> {
    /// Sets a function that makes a message of each line of each peer; `None` skips it. An error should be one [with the record](NodeError::with_record).
    pub fn read_with<U: Payload>(
        self,
        read: impl Fn(SocketAddr, Line) -> Result<Option<U>, NodeError> + Send + Sync + 'static,
    ) -> TcpIn<U> {
        let Self { endpoint, longest, connections, .. } = self;
        TcpIn { endpoint, longest, connections, read: Arc::new(read) }
    }

    /// The limit of bytes of a line; 1 MiB by default.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn longest_line(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "lines of at most 0 bytes say nothing; allow at least 1");
        self.longest = bytes;
        self
    }

    /// The limit of connections at a time; 256 by default. Others wait until one ends.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn connections(mut self, limit: usize) -> Self {
        assert!(limit > 0, "with 0 connections no line is ever read; allow at least 1");
        self.connections = limit;
        self
    }

    /// The node, to change the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        from_reporting_task(AHEAD, move |lines| self.listen(&lines))
    }

    fn listen(self, to: &Sender<Result<T, NodeError>>) -> NodeResult {
        let Self { endpoint, longest, connections, read } = self;
        let listener = match endpoint {
            Endpoint::Listener(listener) => TcpListener::try_from(listener)?,
            Endpoint::Address(address) => TcpListener::bind(&*address).map_err(|error| {
                NodeError::msg(format!("cannot listen at {address}: {error}; choose another address"))
            })?,
        };
        let permits = Semaphore::new(connections);
        let result = sched_tasks::nursery(|nursery| {
            loop {
                let permit = permits.acquire(1);
                match listener.accept() {
                    Ok((stream, peer)) => {
                        let read = Arc::clone(&read);
                        nursery.spawn(move || {
                            let _permit = permit;
                            read_connection(&stream, peer, longest, &*read, to);
                        });
                    }
                    Err(error) => {
                        // Open connections are still read.
                        let error = NodeError::msg(format!("cannot accept a connection: {error}")).of_record();
                        if to.send(Err(error)).is_err() {
                            return Ok(());
                        }
                        sched_tasks::sleep(ACCEPT_BACKOFF);
                    }
                }
            }
        });
        result.map_err(|error| NodeError::msg(error.to_string()))
    }
}

impl<T: Payload> From<TcpIn<T>> for NodeSpec {
    fn from(tcp: TcpIn<T>) -> NodeSpec {
        tcp.spec()
    }
}

/// Reads one connection until it ends, or the node is gone.
fn read_connection<T>(
    mut stream: &TcpStream,
    peer: SocketAddr,
    longest: usize,
    read: &(dyn Fn(SocketAddr, Line) -> Result<Option<T>, NodeError> + Send + Sync),
    to: &Sender<Result<T, NodeError>>,
) {
    let mut lines = Lines::at_most(longest);
    let mut chunk = vec![0; CHUNK];
    let mut take = |line: Result<Line, NodeError>| match line.and_then(|line| read(peer, line)).transpose() {
        Some(message) => to.send(message.map_err(|error| error.said_of(peer))).map_err(drop),
        None => Ok(()),
    };
    loop {
        let taken = match stream.read(&mut chunk) {
            Ok(0) => {
                let _ = lines.finish(&mut take);
                return;
            }
            Ok(bytes) => lines.feed(&chunk[..bytes], &mut take),
            Err(error) => {
                let _ = take(Err(NodeError::from(error).of_record()));
                return;
            }
        };
        if taken.is_err() {
            return;
        }
    }
}

/// Writes every `String` as a line to a TCP connection. If there is none, or it breaks, it reconnects after a backoff; meanwhile lines wait, and so does the graph.
///
/// A line is finished when all of it is written to the socket. If the connection breaks before, the line is sent again, from its beginning. Bytes that were written and did not reach the
/// peer are lost with the connection, as always with TCP.
///
/// ```
/// use bursar::flow::{Harness, tcp_out};
/// use std::{io::Read, net::TcpListener};
///
/// let listener = TcpListener::bind("127.0.0.1:0")?;
/// let mut node = Harness::new(tcp_out(listener.local_addr()?.to_string()));
/// node.send("in", "hello".to_string())?;
/// node.end();
/// let mut got = String::new();
/// listener.accept()?.0.read_to_string(&mut got)?;
/// assert_eq!(got, "hello\n");
/// # Ok::<(), bursar::flow::NodeError>(())
/// ```
pub fn tcp_out(address: impl Into<String>) -> TcpOut {
    let reconnect = Retry::times(u32::MAX).backoff(Duration::from_millis(50)).at_most(Duration::from_secs(5));
    TcpOut { address: address.into(), reconnect }
}

/// Lines that go by TCP; made by [`tcp_out`].
#[derive(Debug, Clone)]
pub struct TcpOut {
    address: String,
    reconnect: Retry,
}

impl TcpOut {
    /// Sets how often it tries to connect in a row, and the pauses; by default for ever, with pauses of 50 ms to 5 s. When it gives up, that is an error of the
    /// node, and so is every later message.
    pub fn reconnect(mut self, how: Retry) -> Self {
        self.reconnect = how;
        self
    }

    /// The node, to change the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        to_holding_task(AHEAD, move |lines, in_flight| self.deliver(&lines, in_flight))
    }

    fn deliver(self, lines: &Receiver<String>, in_flight: &InFlight) -> NodeResult {
        let mut buffer = SendBuffer::default();
        let mut stream = None;
        let mut failed = 0;
        loop {
            if buffer.is_empty() {
                let Ok(line) = lines.recv() else { break };
                buffer.add(&line);
                while buffer.rest().len() < CHUNK
                    && let Ok(line) = lines.try_recv()
                {
                    buffer.add(&line);
                }
                in_flight.set(buffer.lines());
            }
            match write_some(&mut stream, &self.address, buffer.rest()) {
                Ok(bytes) => {
                    failed = 0;
                    buffer.add_written(bytes);
                    in_flight.set(buffer.lines());
                }
                Err(error) => {
                    stream = None;
                    buffer.begin_again();
                    failed += 1;
                    if failed > self.reconnect.times {
                        return Err(NodeError::msg(format!(
                            "cannot send to {} after {failed} tries: {error}; is a server listening there?",
                            self.address
                        )));
                    }
                    sched_tasks::sleep(self.reconnect.pause(failed));
                }
            }
        }
        if let Some(stream) = stream {
            stream.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}

impl From<TcpOut> for NodeSpec {
    fn from(tcp: TcpOut) -> NodeSpec {
        tcp.spec()
    }
}

/// Writes some bytes. Connects first, if there is no connection.
fn write_some(stream: &mut Option<TcpStream>, address: &str, bytes: &[u8]) -> io::Result<usize> {
    let stream = match stream {
        Some(stream) => stream,
        None => stream.insert(TcpStream::connect(address)?),
    };
    match stream.write(bytes)? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        bytes => Ok(bytes),
    }
}

/// Lines that are being sent.
#[derive(Default)]
struct SendBuffer {
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: VecDeque<usize>,
    written: usize,
}

impl SendBuffer {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn add(&mut self, line: &str) {
        self.bytes.extend_from_slice(line.as_bytes());
        self.bytes.push(b'\n');
        self.ends.push_back(self.bytes.len());
    }

    /// The number of lines that were not written completely.
    fn lines(&self) -> usize {
        self.ends.len() - self.ends.partition_point(|end| *end <= self.written)
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    fn add_written(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written == self.bytes.len() {
            *self = SendBuffer { bytes: std::mem::take(&mut self.bytes), ..SendBuffer::default() };
            self.bytes.clear();
        }
    }

    /// The connection broke: begins again with the first line that was not written completely.
    fn begin_again(&mut self) {
        let mut whole = 0;
        while let Some(end) = self.ends.pop_front_if(|end| *end <= self.written) {
            whole = end;
        }
        self.bytes.drain(..whole);
        self.ends.iter_mut().for_each(|end| *end -= whole);
        self.written = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_again_with_the_first_line_that_is_not_whole() {
        let mut buffer = SendBuffer::default();
        buffer.add("ab");
        buffer.add("cd");
        buffer.add("ef");
        buffer.add_written(3);
        buffer.begin_again();
        assert_eq!(buffer.rest(), b"cd\nef\n");
        buffer.add_written(5);
        buffer.begin_again();
        assert_eq!(buffer.rest(), b"ef\n", "half a line is sent again");
        buffer.begin_again();
        buffer.add_written(2);
        assert_eq!(buffer.rest(), b"\n");
        buffer.add_written(1);
        assert!(buffer.is_empty());
    }
}
