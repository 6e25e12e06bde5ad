//! Where slurmrestd is, and who asks it.
//!
//! Room: values.
//!
//! # Invariant
//! A token is never printed: nothing here shows it, and no error has it.

use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;

/// Where slurmrestd listens: `unix:/path`, or `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// A socket on this machine.
    Unix(PathBuf),
    /// A host and a port.
    Tcp(String),
}

/// The port that slurmrestd has unless it is told another.
const PORT: u16 = 6820;

impl FromStr for Location {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = PathBuf::from(path);
            return if path.is_absolute() { Ok(Self::Unix(path)) } else { Err("write `unix:` and an absolute path") };
        }
        if text.starts_with("https:") {
            return Err("slurmrestd speaks no TLS; write `http://` and the host of a tunnel, or `unix:` and a path");
        }
        let host = text.strip_prefix("http://").ok_or("write `unix:/path/of/the.sock` or `http://host:port`")?;
        let host = host.strip_suffix('/').unwrap_or(host);
        if host.contains('@') {
            return Err("it cannot have a user; set SLURM_USER_NAME and SLURM_JWT");
        }
        let is_bad = |letter: char| letter == '/' || letter.is_whitespace() || letter.is_control();
        if host.is_empty() || host.starts_with(':') || host.contains(is_bad) {
            return Err("write `http://host:port`");
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let is_bare = !has_port && (!host.contains(':') || host.ends_with(']'));
        match (has_port, is_bare) {
            (true, _) => Ok(Self::Tcp(host.to_owned())),
            (_, true) => Ok(Self::Tcp(format!("{host}:{PORT}"))),
            _ => Err("its port is no number from 0 to 65535"),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(host) => write!(f, "http://{host}"),
        }
    }
}

/// A user name and a token. Without a token slurmrestd decides by the owner of the connection.
#[derive(Clone, Default)]
pub struct Credentials {
    /// The name of the user.
    pub user: Option<String>,
    /// What proves it.
    pub token: Option<String>,
}

impl Credentials {
    /// Those of the environment: `SLURM_JWT`, and `SLURM_USER_NAME` or `USER`.
    pub fn of_env() -> Self {
        let known = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self { user: known("SLURM_USER_NAME").or_else(|| known("USER")), token: known("SLURM_JWT") }
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = if self.token.is_some() { "set" } else { "not set" };
        f.debug_struct("Credentials").field("user", &self.user).field("token", &token).finish()
    }
}

/// Whose jobs are ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Owner {
    /// Those of the user of the token.
    Name(String),
    /// Those of the user of this process: slurmrestd refuses the connections of others, except root's.
    Id(u32),
}
