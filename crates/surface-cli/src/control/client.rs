//! The other commands' side of the socket.

use std::io::{self, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;

use super::socket;
use super::wire::{Answer, Line, REPLY_BYTES_MAX, Refusal, Reply, Request, RequestLine, VERSION, read_line};
use crate::exit::{Exit, Failure};

/// A connection to a run or a flow that goes on.
pub(crate) struct Client {
    /// As people call it: `run r-7f3a`.
    of: String,
    stream: BufReader<UnixStream>,
}

/// A request without the answer that was hoped for.
#[derive(Debug)]
pub(crate) struct AskError {
    /// Who was asked: `run r-7f3a`.
    pub(crate) of: String,
    pub(crate) why: Unanswered,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It said no.
    Refused(Refusal),
    /// It ended, or hung up, before it answered.
    Gone,
    /// Its process is stopped, and will not answer before it is continued.
    Stopped(Pid),
    /// The connection broke.
    Io(io::Error),
}

/// How long an answer may take before it is looked whether the other side is stopped.
const PEER_CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = &self.of;
        match &self.why {
            Unanswered::Refused(refusal) => write!(f, "{of}: {}", refusal.message),
            Unanswered::Stopped(pid) => {
                write!(f, "process {pid}, which has {of}, is stopped, as by Ctrl-Z; `kill -CONT {pid}` lets it go on")
            }
            Unanswered::Gone => write!(f, "{of} ended before it answered; ask again"),
            Unanswered::Io(error) => write!(f, "the connection to {of} broke: {error}; ask again"),
        }
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Failure {
        let exit = match &error.why {
            Unanswered::Refused(refusal) => match refusal.kind.as_str() {
                "unknown_job" | "unknown_node" | "unknown_edge" => Exit::NotFound,
                "ambiguous" | "bad_value" => Exit::Usage,
                _ => Exit::Failed,
            },
            _ => Exit::Failed,
        };
        Failure::new(exit, error.to_string())
    }
}

impl From<io::Error> for Unanswered {
    fn from(error: io::Error) -> Unanswered {
        match error.kind() {
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => Unanswered::Gone,
            _ => Unanswered::Io(error),
        }
    }
}

impl Client {
    /// Connects to the run or flow in `folder`, which people call `of`. `None` if no process serves it.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn connect(folder: &Path, of: impl Into<String>) -> io::Result<Option<Client>> {
        let of = of.into();
        Ok(socket::connect(folder)?.map(|stream| Client { of, stream: BufReader::new(stream) }))
    }

    /// Asks, and waits for the answer: as long as it takes to do it.
    ///
    /// # Errors
    /// If the other side says no, or is gone.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer, AskError> {
        self.answer(request).map_err(|why| AskError { of: self.of.clone(), why })
    }

    fn answer(&mut self, request: Request) -> Result<Answer, Unanswered> {
        let mut line = serde_json::to_vec(&RequestLine { v: VERSION, request }).map_err(io::Error::from)?;
        line.push(b'\n');
        self.check_peer()?; // else it would do later what was given up
        self.stream.get_mut().write_all(&line)?;
        let line = self.line()?;
        let reply: Reply = serde_json::from_slice(&line).map_err(io::Error::from)?;
        match (reply.ok, reply.error) {
            (Some(answer), _) => Ok(answer),
            (None, Some(refusal)) => Err(Unanswered::Refused(refusal)),
            (None, None) => Err(Unanswered::Gone),
        }
    }

    /// The next event, after `Subscribe`. `None` when the run is over. For programs; no command of ours listens.
    #[cfg(test)]
    pub(crate) fn event(&mut self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.line().ok()?).ok()
    }

    /// Waits until there is something to read; not for a process that cannot write.
    fn await_reply(&self) -> Result<(), Unanswered> {
        if !self.stream.buffer().is_empty() {
            return Ok(());
        }
        let stream = self.stream.get_ref();
        loop {
            let mut polled = [PollFd::new(stream, PollFlags::IN)];
            match poll(&mut polled, Some(&PEER_CHECK_INTERVAL)) {
                Ok(0) => {}
                Err(Errno::INTR) => continue,
                _ => return Ok(()), // an error shows when it is read
            }
            self.check_peer()?;
        }
    }

    fn check_peer(&self) -> Result<(), Unanswered> {
        let peer = socket_peercred(self.stream.get_ref()).map_err(io::Error::from)?.pid;
        if is_stopped(peer) { Err(Unanswered::Stopped(peer)) } else { Ok(()) }
    }

    fn line(&mut self) -> Result<Vec<u8>, Unanswered> {
        let mut line = Vec::new();
        self.await_reply()?;
        match read_line(&mut self.stream, &mut line, REPLY_BYTES_MAX)? {
            Line::Whole => Ok(line),
            Line::End => Err(Unanswered::Gone),
            Line::TooLong => {
                let error = io::Error::new(ErrorKind::InvalidData, "a reply of more than a gigabyte");
                Err(Unanswered::Io(error))
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
