//! An edge over a broker, as users describe it.
//!
//! Room: interface.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::address::Address;
use crate::login::Login;

/// Messages that may be on their way.
const MESSAGES: u64 = 16_384;
/// Bytes that may be on their way.
const BYTES: u64 = 8 << 20;
/// Bytes that the broker keeps for an edge.
const STREAM: u64 = 256 << 20;

/// An edge between two processes: its address, who we are there, and how much may be on its way.
///
/// ```
/// use bursar::flow::nats::{Edge, Login};
///
/// let edge = Edge::new("nats://127.0.0.1/imu".parse()?).login(Login::from_env()?).window(1024, 1 << 20);
/// assert_eq!(edge.address().subject(), "imu");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Edge {
    address: Address,
    login: Login,
    messages: u64,
    bytes: u64,
    stream_bytes: u64,
}

impl Edge {
    /// An edge without a login: 16,384 messages and 8 MiB on their way, and 256 MiB at the broker.
    pub fn new(address: Address) -> Self {
        Self { address, login: Login::default(), messages: MESSAGES, bytes: BYTES, stream_bytes: STREAM }
    }

    /// Who we are at the broker.
    #[must_use]
    pub fn login(mut self, login: Login) -> Self {
        self.login = login;
        self
    }

    /// The credit: so many messages, and so many bytes, may be sent and not acknowledged, or received and not handled. At least one message always may.
    #[must_use]
    pub fn window(mut self, messages: u64, bytes: u64) -> Self {
        (self.messages, self.bytes) = (messages.max(1), bytes.max(1));
        self
    }

    /// How many bytes the broker keeps at most. When it has so many the sender waits. It counts for a stream that is not there yet.
    #[must_use]
    pub fn at_the_broker(mut self, bytes: u64) -> Self {
        self.stream_bytes = bytes.max(1 << 20);
        self
    }

    /// Where it leads.
    pub fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn login_ref(&self) -> &Login {
        &self.login
    }

    /// Credit in messages and in bytes.
    pub(crate) fn credit(&self) -> (u64, u64) {
        (self.messages, self.bytes)
    }

    pub(crate) fn stream_bytes(&self) -> u64 {
        self.stream_bytes
    }
}

/// A number that no other process, and nothing else in this one, has got.
pub(crate) fn number() -> u64 {
    // The keys of a `RandomState` come from the system and differ each time.
    RandomState::new().build_hasher().finish()
}
