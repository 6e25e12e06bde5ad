//! TCP connections as ends of a graph, a message for each line.
//!
//! # Invariant
//! [`tcp_in`]: so many connections, of lines so long, and so many lines that wait for the graph; then peers wait. [`tcp_out`]: a line leaves the node's memory when
//! all of it was handed to the system.
//!
//! # Why it holds
//! A connection is accepted only with a seat, and reads on only when its line was taken. [`Parcel`] counts what was handed over; after a failure
//! it begins again with the first line that was not handed over whole.

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
    message::Payload,
    node::{Custody, NodeSpec},
};

/// So much is read or written at a time.
const CHUNK: usize = 16 << 10;
/// So many lines wait between the network and the graph.
const AHEAD: usize = 1024;
/// After an error of the listener, which may last: there may be no descriptors left.
const BREATH: Duration = Duration::from_millis(100);

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
    TcpIn::at(Place::Address(address.into()))
}

/// As [`tcp_in`], with a socket that listens already.
pub fn tcp_in_on(listener: std::net::TcpListener) -> TcpIn<String> {
    TcpIn::at(Place::Listener(listener))
}

enum Place {
    Address(String),
    Listener(std::net::TcpListener),
}

/// Lines that come by TCP; made by [`tcp_in`] and [`tcp_in_on`].
pub struct TcpIn<T> {
    place: Place,
    longest: usize,
    connections: usize,
    read: ReadFrom<T>,
}

/// What a line of a peer becomes: a message, nothing, or an error.
type ReadFrom<T> = Arc<dyn Fn(SocketAddr, Line) -> Result<Option<T>, NodeError> + Send + Sync>;

impl TcpIn<String> {
    fn at(place: Place) -> Self {
        let read: ReadFrom<String> = Arc::new(|_, line| line.text(NotUtf8::Error).map(Some));
        Self { place, longest: LONGEST, connections: 256, read }
    }

    /// What becomes of a line that is not UTF-8; an error, unless told otherwise.
    pub fn not_utf8(self, otherwise: NotUtf8) -> Self {
        self.read_with(move |_, line| line.text(otherwise).map(Some))
    }

    /// Messages are the bytes of the lines, UTF-8 or not.
    pub fn bytes(self) -> TcpIn<Vec<u8>> {
        self.read_with(|_, line| Ok(Some(line.bytes)))
    }

    /// Messages are `(SocketAddr, String)`: who sent the line, and the line.
    pub fn with_peers(self) -> TcpIn<(SocketAddr, String)> {
        self.read_with(|peer, line| Ok(Some((peer, line.text(NotUtf8::Error)?))))
    }
}

impl<T: Payload> TcpIn<T> {
    /// Messages are what this makes of each line of each peer; `None` makes none of it. An error should be one [with the record](NodeError::with_record).
    pub fn read_with<U: Payload>(
        self,
        read: impl Fn(SocketAddr, Line) -> Result<Option<U>, NodeError> + Send + Sync + 'static,
    ) -> TcpIn<U> {
        let Self { place, longest, connections, .. } = self;
        TcpIn { place, longest, connections, read: Arc::new(read) }
    }

    /// Lines are at most so many bytes long; 1 MiB unless told otherwise.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn longest_line(mut self, bytes: usize) -> Self {
        assert!(bytes > 0, "lines of at most 0 bytes say nothing; allow at least 1");
        self.longest = bytes;
        self
    }

    /// So many connections at a time; 256 unless told otherwise. Others wait until one ends.
    ///
    /// # Panics
    /// If it is 0.
    #[track_caller]
    pub fn connections(mut self, most: usize) -> Self {
        assert!(most > 0, "with 0 connections nobody is heard; allow at least 1");
        self.connections = most;
        self
    }

    /// The node, to give it the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        from_reporting_task(AHEAD, move |lines| self.listen(&lines))
    }

    fn listen(self, to: &Sender<Result<T, NodeError>>) -> NodeResult {
        let Self { place, longest, connections, read } = self;
        let listener = match place {
            Place::Listener(listener) => TcpListener::try_from(listener)?,
            Place::Address(address) => TcpListener::bind(&*address).map_err(|error| {
                NodeError::msg(format!("cannot listen at {address}: {error}; choose another address"))
            })?,
        };
        let seats = Semaphore::new(connections);
        let heard = sched_tasks::nursery(|nursery| {
            loop {
                let seat = seats.acquire(1);
                match listener.accept() {
                    Ok((stream, peer)) => {
                        let read = Arc::clone(&read);
                        nursery.spawn(move || {
                            let _seat = seat;
                            hear(&stream, peer, longest, &*read, to);
                        });
                    }
                    Err(error) => {
                        // Those that are connected are heard meanwhile.
                        let error = NodeError::msg(format!("cannot take a connection: {error}")).of_record();
                        if to.send(Err(error)).is_err() {
                            return Ok(());
                        }
                        sched_tasks::sleep(BREATH);
                    }
                }
            }
        });
        heard.map_err(|error| NodeError::msg(error.to_string()))
    }
}

impl<T: Payload> From<TcpIn<T>> for NodeSpec {
    fn from(tcp: TcpIn<T>) -> NodeSpec {
        tcp.spec()
    }
}

/// Listens to one connection until it ends, or nobody wants to know.
fn hear<T>(
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
        let heard = match stream.read(&mut chunk) {
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
        if heard.is_err() {
            return;
        }
    }
}

/// Writes every `String` as a line to a TCP connection. If there is none, or it breaks, it connects again after a while; meanwhile lines wait, and so does the graph.
///
/// A line is forgotten when the system has taken all of it. If the connection breaks before, the line is sent again, from its beginning; what the system had taken and the
/// peer never got is lost with the connection, as TCP has it.
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
    /// How often it tries to connect in a row, and after which pauses: for ever, after 50 ms up to 5 s, unless told otherwise. When it gives up, that is an error of the
    /// node, and so is every message that comes then.
    pub fn reconnect(mut self, how: Retry) -> Self {
        self.reconnect = how;
        self
    }

    /// The node, to give it the settings that every node has.
    pub fn spec(self) -> NodeSpec {
        to_holding_task(AHEAD, move |lines, custody| self.deliver(&lines, custody))
    }

    fn deliver(self, lines: &Receiver<String>, custody: &Custody) -> NodeResult {
        let mut parcel = Parcel::default();
        let mut stream = None;
        let mut failed = 0;
        loop {
            if parcel.is_empty() {
                let Ok(line) = lines.recv() else { break };
                parcel.add(&line);
                while parcel.rest().len() < CHUNK
                    && let Ok(line) = lines.try_recv()
                {
                    parcel.add(&line);
                }
                custody.set(parcel.lines());
            }
            match hand_over(&mut stream, &self.address, parcel.rest()) {
                Ok(bytes) => {
                    failed = 0;
                    parcel.handed_over(bytes);
                    custody.set(parcel.lines());
                }
                Err(error) => {
                    stream = None;
                    parcel.begin_again();
                    failed += 1;
                    if failed > self.reconnect.times {
                        return Err(NodeError::msg(format!(
                            "cannot send to {} after {failed} tries: {error}; is anybody listening there?",
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

/// Writes some of it, to a connection that is there or is made.
fn hand_over(stream: &mut Option<TcpStream>, address: &str, bytes: &[u8]) -> io::Result<usize> {
    let stream = match stream {
        Some(stream) => stream,
        None => stream.insert(TcpStream::connect(address)?),
    };
    match stream.write(bytes)? {
        0 => Err(io::ErrorKind::WriteZero.into()),
        written => Ok(written),
    }
}

/// Lines on their way.
#[derive(Default)]
struct Parcel {
    bytes: Vec<u8>,
    /// Where each line ends.
    ends: VecDeque<usize>,
    handed_over: usize,
}

impl Parcel {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn add(&mut self, line: &str) {
        self.bytes.extend_from_slice(line.as_bytes());
        self.bytes.push(b'\n');
        self.ends.push_back(self.bytes.len());
    }

    /// How many were not handed over whole.
    fn lines(&self) -> usize {
        self.ends.len() - self.ends.partition_point(|end| *end <= self.handed_over)
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.handed_over..]
    }

    fn handed_over(&mut self, bytes: usize) {
        self.handed_over += bytes;
        if self.handed_over == self.bytes.len() {
            *self = Parcel { bytes: std::mem::take(&mut self.bytes), ..Parcel::default() };
            self.bytes.clear();
        }
    }

    /// The connection broke: the first line that was not handed over whole is sent again.
    fn begin_again(&mut self) {
        let mut whole = 0;
        while let Some(end) = self.ends.pop_front_if(|end| *end <= self.handed_over) {
            whole = end;
        }
        self.bytes.drain(..whole);
        self.ends.iter_mut().for_each(|end| *end -= whole);
        self.handed_over = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parcel_begins_again_with_the_first_line_that_is_not_whole() {
        let mut parcel = Parcel::default();
        parcel.add("ab");
        parcel.add("cd");
        parcel.add("ef");
        parcel.handed_over(3);
        parcel.begin_again();
        assert_eq!(parcel.rest(), b"cd\nef\n");
        parcel.handed_over(5);
        parcel.begin_again();
        assert_eq!(parcel.rest(), b"ef\n", "half a line is no line");
        parcel.begin_again();
        parcel.handed_over(2);
        assert_eq!(parcel.rest(), b"\n");
        parcel.handed_over(1);
        assert!(parcel.is_empty());
    }
}
