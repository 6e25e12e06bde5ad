//! The other commands' side of the socket.

use std::io::{self, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::place;
use super::wire::{Answer, Asked, Happened, Line, REPLY_BYTES_MAX, Refusal, Reply, Request, VERSION, read_line};

/// A connection to a run that goes on.
pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The run said no.
    Refused(Refusal),
    /// The run ended, or hung up, before it answered.
    Gone,
    /// Its process is stopped, and will not answer before it is continued.
    Stopped(Pid),
    /// The connection broke.
    Io(io::Error),
}

/// How long an answer may take before it is looked whether the other side is stopped.
const SILENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(refusal) => f.write_str(&refusal.message),
            Self::Stopped(pid) => {
                write!(
                    f,
                    "process {pid}, which has the run, is stopped, as by Ctrl-Z; `kill -CONT {pid}` lets it go on"
                )
            }
            Self::Gone => f.write_str("the run ended before it answered; look with `bursar runs`"),
            Self::Io(error) => write!(f, "the connection to the run broke: {error}; look with `bursar runs`"),
        }
    }
}

impl From<io::Error> for AskError {
    fn from(error: io::Error) -> AskError {
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => AskError::Gone,
            _ => AskError::Io(error),
        }
    }
}

impl Client {
    /// Connects to the run in `folder`. `None` if no process serves it.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn connect(folder: &Path) -> io::Result<Option<Client>> {
        Ok(place::connect(folder)?.map(|stream| Client { stream: BufReader::new(stream) }))
    }

    /// Asks, and waits for the answer: as long as the run takes to do it.
    ///
    /// # Errors
    /// If the run says no, or is gone.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer, AskError> {
        self.ask_for(request)
    }

    /// Asks in other words than those of runs.
    ///
    /// # Errors
    /// If the other side says no, or is gone.
    pub(crate) fn ask_for<A: DeserializeOwned>(&mut self, request: impl Serialize) -> Result<A, AskError> {
        let mut line = serde_json::to_vec(&Asked { v: VERSION, request }).map_err(io::Error::from)?;
        line.push(b'\n');
        self.check_peer()?; // else it would do later what was given up
        self.stream.get_mut().write_all(&line)?;
        let reply = self.reply::<A>()?;
        match (reply.ok, reply.error) {
            (Some(answer), _) => Ok(answer),
            (None, Some(refusal)) => Err(AskError::Refused(refusal)),
            (None, None) => Err(AskError::Gone),
        }
    }

    /// The next event, after `Subscribe`. `None` when the run is over.
    ///
    /// # Errors
    /// If the connection breaks.
    #[cfg_attr(not(test), allow(dead_code, reason = "for programs; no command of ours listens"))]
    pub(crate) fn event(&mut self) -> Result<Option<Happened>, AskError> {
        match self.reply::<Answer>() {
            Ok(reply) => Ok(reply.event),
            Err(AskError::Gone) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until there is something to read; not for a process that cannot write.
    fn await_reply(&self) -> Result<(), AskError> {
        if !self.stream.buffer().is_empty() {
            return Ok(());
        }
        let stream = self.stream.get_ref();
        loop {
            let mut polled = [PollFd::new(stream, PollFlags::IN)];
            match poll(&mut polled, Some(&SILENCE)) {
                Ok(0) => {}
                Err(Errno::INTR) => continue,
                _ => return Ok(()), // an error shows when it is read
            }
            self.check_peer()?;
        }
    }

    fn check_peer(&self) -> Result<(), AskError> {
        let peer = socket_peercred(self.stream.get_ref()).map_err(io::Error::from)?.pid;
        if is_stopped(peer) { Err(AskError::Stopped(peer)) } else { Ok(()) }
    }

    fn reply<A: DeserializeOwned>(&mut self) -> Result<Reply<A>, AskError> {
        let mut line = Vec::new();
        self.await_reply()?;
        match read_line(&mut self.stream, &mut line, REPLY_BYTES_MAX)? {
            Line::Whole => Ok(serde_json::from_slice(&line).map_err(io::Error::from)?),
            Line::End => Err(AskError::Gone),
            Line::TooLong => {
                Err(AskError::Io(io::Error::new(ErrorKind::InvalidData, "a reply of more than a gigabyte")))
            }
        }
    }
}

/// Whether a process runs no instruction until it is continued.
pub(crate) fn is_stopped(pid: impl std::fmt::Display) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may hold anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}
