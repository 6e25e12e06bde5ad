//! The client side of the control socket.
//!
//! Room: driver.

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

/// A connection to an active run or flow.
pub(crate) struct Client {
    /// Its name in messages: `run r-7f3a`.
    of: String,
    stream: BufReader<UnixStream>,
}

/// A request that failed.
#[derive(Debug)]
pub(crate) struct AskError {
    /// The run or flow: `run r-7f3a`.
    pub(crate) of: String,
    pub(crate) why: Unanswered,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// It refused.
    Refused(Refusal),
    /// It ended, or closed the connection, before it answered.
    Gone,
    /// Its process is stopped, and will not answer before it is continued.
    Stopped(Pid),
    /// The connection broke.
    Io(io::Error),
}

/// How long to wait for an answer before checking whether the other process is stopped.
const PEER_CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = &self.of;
        match &self.why {
            Unanswered::Refused(refusal) => write!(f, "{of}: {}", refusal.message),
            Unanswered::Stopped(pid) => {
                write!(f, "process {pid} of {of} is stopped (Ctrl-Z); `kill -CONT {pid}` continues it")
            }
            Unanswered::Gone => write!(f, "{of} ended before it answered; try again"),
            Unanswered::Io(error) => write!(f, "the connection to {of} broke: {error}; try again"),
        }
    }
}

impl AskError {
    /// It was asked for, and Slurm has not done it yet.
    pub(crate) fn is_unpaused(&self) -> bool {
        matches!(&self.why, Unanswered::Refused(refusal) if refusal.kind == "not_paused")
    }
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Failure {
        let exit = match &error.why {
            Unanswered::Refused(refusal) => match refusal.kind.as_str() {
                "unknown_job" | "unknown_node" | "unknown_edge" => Exit::NotFound,
                "ambiguous" | "bad_value" => Exit::Usage,
                "not_paused" => Exit::SlurmSilent,
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
    /// Connects to the run or flow in `folder`, called `of` in messages. `None` if no process serves it.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn connect(folder: &Path, of: impl Into<String>) -> io::Result<Option<Client>> {
        Client::connect_at(&socket::socket_path(folder), of)
    }

    /// The same, by the path of the socket.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn connect_at(path: &Path, of: impl Into<String>) -> io::Result<Option<Client>> {
        let of = of.into();
        Ok(socket::connect(path)?.map(|stream| Client { of, stream: BufReader::new(stream) }))
    }

    /// Sends a request, and waits until it is done and answered.
    ///
    /// # Errors
    /// If the other side refuses, or is gone.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Answer, AskError> {
        self.answer(request).map_err(|why| AskError { of: self.of.clone(), why })
    }

    fn answer(&mut self, request: Request) -> Result<Answer, Unanswered> {
        let mut line = serde_json::to_vec(&RequestLine { v: VERSION, request }).map_err(io::Error::from)?;
        line.push(b'\n');
        self.check_peer()?; // otherwise it would do later what was given up
        self.stream.get_mut().write_all(&line)?;
        let line = self.line()?;
        let reply: Reply = serde_json::from_slice(&line).map_err(io::Error::from)?;
        match (reply.ok, reply.error) {
            (Some(answer), _) => Ok(answer),
            (None, Some(refusal)) => Err(Unanswered::Refused(refusal)),
            (None, None) => Err(Unanswered::Gone),
        }
    }

    /// The next event, after `Subscribe`. `None` when the run has ended. For programs; no command of ours subscribes.
    #[cfg(test)]
    pub(crate) fn event(&mut self) -> Option<serde_json::Value> {
        serde_json::from_slice(&self.line().ok()?).ok()
    }

    /// Waits until there is something to read. Fails if the other process is stopped.
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
                let error = io::Error::new(ErrorKind::InvalidData, "the reply is longer than 1 GiB");
                Err(Unanswered::Io(error))
            }
        }
    }
}

/// Whether a process is stopped by a signal.
pub(crate) fn is_stopped(pid: impl std::fmt::Display) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After the name, which may contain anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}
