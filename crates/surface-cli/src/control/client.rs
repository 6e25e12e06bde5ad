//! The other commands' side of the socket.

use std::io::{self, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

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
    /// The connection broke.
    Io(io::Error),
}

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(refusal) => f.write_str(&refusal.message),
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

    fn reply<A: DeserializeOwned>(&mut self) -> Result<Reply<A>, AskError> {
        let mut line = Vec::new();
        match read_line(&mut self.stream, &mut line, REPLY_BYTES_MAX)? {
            Line::Whole => Ok(serde_json::from_slice(&line).map_err(io::Error::from)?),
            Line::End => Err(AskError::Gone),
            Line::TooLong => {
                Err(AskError::Io(io::Error::new(ErrorKind::InvalidData, "a reply of more than a gigabyte")))
            }
        }
    }
}
