//! What a client and a keeper say to each other, and how it is put on a socket.
//!
//! Room: mechanism. Knows a stream socket; knows nothing of processes.
//!
//! # Invariant
//! A message arrives whole or not at all, no call here blocks, and nobody can make us hold more than [`MESSAGE_BYTES_MAX`] of an unfinished one. A
//! descriptor that belongs to a message is there when the message is.
//!
//! # Why it holds
//! A message is its length (4 bytes, little end first) and so many bytes of JSON. What the socket does not take stays in `out` until it
//! can be written; what has come of an unfinished message stays in `come`. A length over the bound is an error before it is room.
//! A descriptor travels with the first byte of its message, and the kernel delivers it with that byte or not at all. Few are held: a client that
//! sends more than [`FDS_MAX`] without a message that takes them is not one of ours.

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

use crate::launch::{End, Launch};

/// Twice what Linux takes as arguments and environment, 2 MiB: bytes that are not ASCII are two on the wire.
pub(crate) const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Descriptors that wait for the message they belong to.
const FDS_MAX: usize = 4;

/// After so long the system may have memory again for a message.
const SHORT_OF_MEMORY: Duration = Duration::from_millis(1);

/// A client to its keeper.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Run this. `fresh`: the ends recorded before are known to the client and may go. `given`: for which of the three standard streams a descriptor comes
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
    /// The client goes, and knows every end.
    Bye,
}

/// A keeper to its client.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// First word to a client that came later.
    Hello(Option<Alive>),
    /// Last word to a client that came while there was another: its process.
    Busy {
        client: i32,
    },
    /// Last word to a client that came later: an end of a command is known here, and not in the record.
    Unrecorded {
        why: String,
    },
    Started {
        pid: i32,
    },
    Paused,
    Resumed,
    Warning(String),
    Usage {
        rss_mb: u64,
    },
    Ended(End),
}

/// A command that still runs when a new client comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alive {
    pub(crate) run: u64,
    pub(crate) token: String,
    pub(crate) pid: i32,
    pub(crate) paused: bool,
    pub(crate) wall: Duration,
}

/// What has been said but not yet sent.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    out: Vec<u8>,
    /// Descriptors, those of one message together with its position in `out`.
    fds: VecDeque<(usize, Vec<OwnedFd>)>,
}

impl Outgoing {
    /// Queues a message.
    pub(crate) fn put(&mut self, message: &impl Serialize) -> io::Result<()> {
        let at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        serde_json::to_writer(&mut self.out, message)?;
        let bytes = self.out.len() - at - 4;
        if bytes > MESSAGE_BYTES_MAX {
            self.out.truncate(at);
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "the command, with arguments and environment, is {bytes} bytes; \
                     at most {MESSAGE_BYTES_MAX} can be sent: pass long input as a file"
                ),
            ));
        }
        let length = u32::try_from(bytes).expect("bounded above");
        self.out[at..at + 4].copy_from_slice(&length.to_le_bytes());
        Ok(())
    }

    /// Queues a message, with at most [`FDS_MAX`] descriptors that the other side gets copies of.
    pub(crate) fn put_with(&mut self, message: &impl Serialize, fds: Vec<OwnedFd>) -> io::Result<()> {
        debug_assert!(fds.len() <= FDS_MAX, "the other side holds no more");
        let at = self.out.len();
        self.put(message)?;
        if !fds.is_empty() {
            self.fds.push_back((at, fds));
        }
        Ok(())
    }

    /// Sends what the socket takes. `Ok(true)`: nothing is left.
    pub(crate) fn flush(&mut self, to: impl AsFd) -> io::Result<bool> {
        let mut sent = 0;
        while sent < self.out.len() {
            let carried = self.fds.front().is_some_and(|(at, _)| *at == sent);
            let until = self.fds.get(usize::from(carried)).map_or(self.out.len(), |(at, _)| *at);
            let piece = &self.out[sent..until];
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
                    // The system is short of memory, and sends no event when it has some again: the caller retries soon.
                    std::thread::sleep(SHORT_OF_MEMORY);
                    break;
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.out.drain(..sent);
        self.fds.iter_mut().for_each(|(at, _)| *at -= sent);
        Ok(self.out.is_empty())
    }

    /// Is something left to send?
    pub(crate) fn waits(&self) -> bool {
        !self.out.is_empty()
    }

    /// Bytes that wait; what need not be said is not added to a long queue.
    pub(crate) fn len(&self) -> usize {
        self.out.len()
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

/// What has come but is not yet read.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    come: Vec<u8>,
    read: usize,
    fds: VecDeque<OwnedFd>,
}

impl Incoming {
    /// Takes what the socket has. `Ok(false)`: the other side is gone.
    pub(crate) fn fill(&mut self, from: impl AsFd) -> io::Result<bool> {
        self.come.drain(..self.read);
        self.read = 0;
        let mut room = [0; 16 << 10];
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
            let mut more = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            match recvmsg(&from, &mut [IoSliceMut::new(&mut room)], &mut more, flags).map(|got| got.bytes) {
                Ok(0) => return Ok(false),
                Ok(bytes) => {
                    self.come.extend_from_slice(&room[..bytes]);
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

    /// The next whole message.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let rest = &self.come[self.read..];
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

/// Both directions, for whoever has the socket to himself.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) stream: UnixStream,
    pub(crate) out: Outgoing,
    pub(crate) come: Incoming,
}

impl Link {
    pub(crate) fn new(stream: UnixStream) -> Link {
        Link { stream, out: Outgoing::default(), come: Incoming::default() }
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
            let mut out = Outgoing::default();
            for message in &sent {
                out.put(message).unwrap();
            }
            let mut come = Incoming::default();
            let mut got = Vec::new();
            for piece in out.out.chunks(cut) {
                come.come.extend_from_slice(piece);
                while let Some(message) = come.next::<Request>().unwrap() {
                    got.push(message);
                }
            }
            prop_assert_eq!(&got[..], &sent[..]);
        }

        #[test]
        fn noise_is_refused_or_waits_for_more_but_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut come = Incoming { come: noise, ..Incoming::default() };
            while let Ok(Some(_)) = come.next::<Request>() {}
        }
    }

    #[test]
    fn a_message_that_claims_to_be_huge_is_an_error_at_once() {
        let mut come = Incoming { come: vec![0xff; 4], ..Incoming::default() };
        let error = come.next::<Request>().unwrap_err();
        assert!(error.to_string().contains("4294967295 bytes"), "{error}");
    }

    #[test]
    fn descriptors_arrive_with_their_message_whatever_waits_before_it() {
        use std::io::{Read, Write};
        let (near, far) = UnixStream::pair().unwrap();
        let (mut theirs, ours) = UnixStream::pair().unwrap();
        let (mut reads, writes) = io::pipe().unwrap();
        let mut out = Outgoing::default();
        out.put(&Reply::Warning("x".repeat(1 << 20))).unwrap();
        out.put_with(&Request::Bye, vec![ours.into(), writes.into()]).unwrap();
        out.put(&Reply::Paused).unwrap();
        let mut come = Incoming::default();
        let mut read = |come: &mut Incoming| loop {
            out.flush(&near).unwrap();
            assert!(come.fill(&far).unwrap());
            if let Some(message) = come.next::<serde_json::Value>().unwrap() {
                return message;
            }
        };
        assert!(read(&mut come).get("Warning").is_some());
        assert_eq!(read(&mut come), "Bye");
        let mut fd = UnixStream::from(come.take_fd().expect("its descriptor"));
        let mut pipe = io::PipeWriter::from(come.take_fd().expect("the second"));
        assert!(come.take_fd().is_none());
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
        let mut out = Outgoing::default();
        let text = "x".repeat(3 << 20);
        out.put(&Reply::Warning(text.clone())).unwrap();
        assert!(!out.flush(&near).unwrap());
        let mut come = Incoming::default();
        let got = loop {
            assert!(come.fill(&far).unwrap());
            out.flush(&near).unwrap();
            if let Some(message) = come.next::<Reply>().unwrap() {
                break message;
            }
        };
        assert_eq!(got, Reply::Warning(text));
    }
}
