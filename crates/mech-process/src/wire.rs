//! The protocol between a client and a keeper, and its framing on a socket.
//!
//! Room: mechanism. Knows a stream socket; knows nothing of processes.
//!
//! # Invariant
//! A message arrives complete or not at all. No function here blocks. No peer can make us buffer more than [`MESSAGE_BYTES_MAX`] of an incomplete
//! message. A descriptor that belongs to a message has arrived when the message has.
//!
//! # Why it holds
//! A message is its length (4 bytes, little-endian) and that many bytes of JSON. Bytes that the socket does not take stay in [`Outgoing`] until it
//! can be written; an incomplete message stays in [`Incoming`]. A length over the limit is an error before memory is allocated for it.
//! A descriptor travels with the first byte of its message, and the kernel delivers it with that byte or not at all. At most [`FDS_MAX`] are kept:
//! our clients send no more without a message that takes them.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, send, sendmsg,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::in_force::InForce;
use crate::launch::{End, Launch};

/// Above twice the 2 MiB that Linux accepts as arguments and environment: a byte that is not ASCII is two bytes on the wire.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Descriptors that are kept for the message they belong to.
const FDS_MAX: usize = 4;

/// How long to wait when the kernel has no memory for a message.
const SHORT_OF_MEMORY: Duration = Duration::from_millis(1);

/// From a client to its keeper.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Start a command. `fresh`: the client knows all recorded ends, so the record can be cleared. `given`: for which of the three standard streams a descriptor comes
    /// with the message.
    Start {
        run: u64,
        fresh: bool,
        given: [bool; 3],
        launch: Box<Launch>,
    },
    Pause {
        run: u64,
    },
    Resume {
        run: u64,
    },
    Cancel {
        run: u64,
        grace: Duration,
    },
    /// The client disconnects, and knows every end.
    Bye,
}

/// From a keeper to its client.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The first message to a client that connected later.
    Hello(Option<Alive>),
    /// The only message to a client that connected while there was another: the pid of that one.
    Busy {
        client: i32,
    },
    /// The only message to a client that connected while the keeper knows an end that it cannot record.
    Unrecorded {
        why: String,
    },
    Started {
        pid: i32,
    },
    InForce(Box<InForce>),
    Paused,
    Resumed,
    Warning(String),
    Usage {
        rss_mb: u64,
    },
    Ended(End),
}

/// A command that still runs when a new client connects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alive {
    pub(crate) run: u64,
    pub(crate) token: String,
    pub(crate) pid: i32,
    pub(crate) paused: bool,
    pub(crate) wall: Duration,
    #[serde(default)]
    pub(crate) in_force: Option<Box<InForce>>,
}

/// Queued messages that are not yet sent.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    buffer: Vec<u8>,
    /// Descriptors, those of one message together with its offset in `buffer`.
    fds: VecDeque<(usize, Vec<OwnedFd>)>,
}

impl Outgoing {
    /// Queues a message.
    pub(crate) fn put(&mut self, message: &impl Serialize) -> io::Result<()> {
        let at = self.buffer.len();
        self.buffer.extend_from_slice(&[0; 4]);
        serde_json::to_writer(&mut self.buffer, message)?;
        let bytes = self.buffer.len() - at - 4;
        if bytes > MESSAGE_BYTES_MAX {
            self.buffer.truncate(at);
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "the command, with arguments and environment, is {bytes} bytes; \
                     at most {MESSAGE_BYTES_MAX} can be sent: pass long input as a file"
                ),
            ));
        }
        let length = u32::try_from(bytes).expect("bounded above");
        self.buffer[at..at + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    /// Queues a message, with at most [`FDS_MAX`] descriptors that the other side gets copies of.
    pub(crate) fn put_with(&mut self, message: &impl Serialize, fds: Vec<OwnedFd>) -> io::Result<()> {
        debug_assert!(fds.len() <= FDS_MAX, "the other side holds no more");
        let at = self.buffer.len();
        self.put(message)?;
        if !fds.is_empty() {
            self.fds.push_back((at, fds));
        }
        Ok(())
    }

    /// Sends as much as the socket takes. `Ok(true)`: nothing is left.
    pub(crate) fn flush(&mut self, to: impl AsFd) -> io::Result<bool> {
        let mut sent = 0;
        while sent < self.buffer.len() {
            let carried = self.fds.front().is_some_and(|(at, _)| *at == sent);
            let until = self.fds.get(usize::from(carried)).map_or(self.buffer.len(), |(at, _)| *at);
            let piece = &self.buffer[sent..until];
            let taken = match self.fds.front().filter(|_| carried) {
                Some((_, fds)) => send_with(&to, piece, fds),
                None => send(&to, piece, SEND),
            };
            match taken {
                Ok(bytes) => {
                    sent += bytes;
                    if carried {
                        self.fds.pop_front();
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::NOBUFS | rustix::io::Errno::NOMEM) => {
                    // The kernel is out of memory and sends no event when it has some again: the caller retries soon.
                    std::thread::sleep(SHORT_OF_MEMORY);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.buffer.drain(..sent);
        self.fds.iter_mut().for_each(|(at, _)| *at -= sent);
        Ok(self.buffer.is_empty())
    }

    /// Is something left to send?
    pub(crate) fn is_pending(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// The number of queued bytes.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }
}

const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// Sends some of `bytes`, at least one, and `fds` with the first.
fn send_with(to: impl AsFd, bytes: &[u8], fds: &[OwnedFd]) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut more = SendAncillaryBuffer::new(&mut space);
    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let fits = more.push(SendAncillaryMessage::ScmRights(&fds));
    debug_assert!(fits, "there is space for all");
    sendmsg(to, &[IoSlice::new(bytes)], &mut more, SEND)
}

/// Received bytes that are not yet read as messages.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    buffer: Vec<u8>,
    read: usize,
    fds: VecDeque<OwnedFd>,
}

impl Incoming {
    /// Reads what the socket has. `Ok(false)`: the other side is gone.
    pub(crate) fn fill(&mut self, from: impl AsFd) -> io::Result<bool> {
        self.buffer.drain(..self.read);
        self.read = 0;
        let mut room = [0; 16 << 10];
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
            let mut more = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            match recvmsg(&from, &mut [IoSliceMut::new(&mut room)], &mut more, flags).map(|got| got.bytes) {
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    self.buffer.extend_from_slice(&room[..bytes]);
                    for message in more.drain() {
                        if let RecvAncillaryMessage::ScmRights(fds) = message {
                            self.fds.extend(fds);
                        }
                    }
                    self.fds.truncate(FDS_MAX);
                    return Ok(true);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::NOBUFS | rustix::io::Errno::NOMEM) => {
                    return Ok(true);
                }
                Err(rustix::io::Errno::CONNRESET) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next descriptor that came with the message just read. Only for messages that bring some.
    pub(crate) fn take_fd(&mut self) -> Option<OwnedFd> {
        self.fds.pop_front()
    }

    /// The next complete message.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let rest = &self.buffer[self.read..];
        let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a message says it is {length} bytes, more than the {MESSAGE_BYTES_MAX} allowed"),
            ));
        }
        let Some(bytes) = rest.get(..length) else { return Ok(None) };
        let message = serde_json::from_slice(bytes)?;
        self.read += 4 + length;
        Ok(Some(message))
    }
}

/// A socket with both its buffers, for one owner.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stream: UnixStream,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
}

impl Link {
    pub(crate) fn new(stream: UnixStream) -> Link {
        Link { stream, outgoing: Outgoing::default(), incoming: Incoming::default() }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn word() -> impl Strategy<Value = OsString> {
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(OsString::from_vec)
    }

    proptest! {
        #[test]
        fn any_bytes_arrive_as_they_were_sent_however_they_are_cut(
            argv in proptest::collection::vec(word(), 0..5),
            env in proptest::collection::vec((word(), word()), 0..5),
            cwd in proptest::option::of(word()),
            cut in 1_usize..50,
        ) {
            let mut launch = Launch::new("a", argv, "log");
            launch.env = env;
            launch.cwd = cwd.map(Into::into);
            let sent = [Request::Start { run: 1, fresh: true, given: [false; 3], launch: Box::new(launch) }, Request::Bye];
            let mut outgoing = Outgoing::default();
            for message in &sent {
                outgoing.put(message).unwrap();
            }
            let mut incoming = Incoming::default();
            let mut got = Vec::new();
            for piece in outgoing.buffer.chunks(cut) {
                incoming.buffer.extend_from_slice(piece);
                while let Some(message) = incoming.next::<Request>().unwrap() {
                    got.push(message);
                }
            }
            prop_assert_eq!(&got[..], &sent[..]);
        }

        #[test]
        fn noise_is_refused_or_waits_for_more_but_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut incoming = Incoming { buffer: noise, ..Incoming::default() };
            while let Ok(Some(_)) = incoming.next::<Request>() {}
        }
    }

    #[test]
    fn a_message_that_claims_to_be_huge_is_an_error_at_once() {
        let mut incoming = Incoming { buffer: vec![0xff; 4], ..Incoming::default() };
        let error = incoming.next::<Request>().unwrap_err();
        assert!(error.to_string().contains("4294967295 bytes"), "{error}");
    }

    #[test]
    fn descriptors_arrive_with_their_message_whatever_waits_before_it() {
        use std::io::{Read, Write};
        let (near, far) = UnixStream::pair().unwrap();
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let (mut reads, writes) = io::pipe().unwrap();
        let mut outgoing = Outgoing::default();
        outgoing.put(&Reply::Warning("x".repeat(1 << 20))).unwrap();
        outgoing.put_with(&Request::Bye, vec![ours.into(), writes.into()]).unwrap();
        outgoing.put(&Reply::Paused).unwrap();
        let mut incoming = Incoming::default();
        let mut read = |incoming: &mut Incoming| loop {
            outgoing.flush(&near).unwrap();
            assert!(incoming.fill(&far).unwrap());
            if let Some(message) = incoming.next::<serde_json::Value>().unwrap() {
                return message;
            }
        };
        assert!(read(&mut incoming).get("Warning").is_some());
        assert_eq!(read(&mut incoming), "Bye");
        let mut fd = UnixStream::from(incoming.take_fd().expect("its descriptor"));
        let mut pipe = io::PipeWriter::from(incoming.take_fd().expect("the second"));
        assert!(incoming.take_fd().is_none());
        fd.write_all(b"hello").unwrap();
        let mut got = [0; 5];
        theirs.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"hello");
        pipe.write_all(b"world").unwrap();
        drop(pipe);
        let mut rest = Vec::new();
        reads.read_to_end(&mut rest).unwrap(); // it ends, so the sender has kept no copy
        assert_eq!(rest, b"world");
        assert!(rustix::io::fcntl_getfd(&fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn what_the_socket_does_not_take_is_sent_later_and_nothing_blocks() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut outgoing = Outgoing::default();
        let text = "x".repeat(3 << 20);
        outgoing.put(&Reply::Warning(text.clone())).unwrap();
        assert!(!outgoing.flush(&near).unwrap());
        let mut incoming = Incoming::default();
        let got = loop {
            assert!(incoming.fill(&far).unwrap());
            outgoing.flush(&near).unwrap();
            if let Some(message) = incoming.next::<Reply>().unwrap() {
                break message;
            }
        };
        assert_eq!(got, Reply::Warning(text));
    }
}
