//! What is wrong with an address, and with a broker.
//!
//! Room: values.
//!
//! # Invariant
//! No error carries a secret.

use std::error::Error;
use std::fmt;

/// An address that is not one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressError {
    /// It begins with neither `nats://` nor `tls://`.
    NoScheme,
    /// A user or password stands in it.
    HasSecret,
    /// It ends after the broker.
    NoSubject,
    /// The host is not one.
    BadHost {
        /// What stands there.
        host: String,
    },
    /// The port is not one.
    BadPort {
        /// What stands there.
        port: String,
    },
    /// The subject is not one.
    BadSubject {
        /// What stands there.
        subject: String,
        /// Bytes of the longest.
        longest: usize,
    },
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoScheme => f.write_str("the address of a broker is written `nats://host:4222/subject`, or `tls://…`"),
            Self::HasSecret => f.write_str(
                "a user or password does not belong into an address, where others read it; set NATS_USER and NATS_PASSWORD, NATS_TOKEN or NATS_CREDS, and remove what stands before the `@`",
            ),
            Self::NoSubject => f.write_str("the address has no subject; write `nats://host:4222/subject`"),
            Self::BadHost { host } => write!(f, "`{host}` is not a host; write `nats://host:4222/subject`"),
            Self::BadPort { port } => write!(f, "`{port}` is not a port; use 1 to 65535, or leave it out for 4222"),
            Self::BadSubject { subject, longest } => write!(
                f,
                "`{subject}` is not a subject of one edge: words of letters, digits, `-` and `_` with dots between, no `_` at the beginning, {longest} bytes at most"
            ),
        }
    }
}

impl Error for AddressError {}

/// Why a broker cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NatsError {
    /// The login is not complete, or its file cannot be read.
    BadLogin {
        /// What is wrong.
        problem: String,
    },
    /// No broker answers there.
    Unreachable {
        /// The broker.
        broker: String,
        /// What the system says.
        why: String,
    },
    /// It refuses the login.
    Refused {
        /// The broker.
        broker: String,
        /// Who we said we are.
        login: String,
    },
    /// The connection could not be encrypted.
    Tls {
        /// The broker.
        broker: String,
        /// What TLS says.
        why: String,
    },
    /// It does not speak TLS.
    NotTls {
        /// The broker.
        broker: String,
    },
    /// Its JetStream gives no answer.
    JetStreamSilent {
        /// The broker.
        broker: String,
    },
    /// It runs without JetStream.
    NoJetStream {
        /// The broker.
        broker: String,
    },
    /// It does not make the stream: a limit of the account or of the disk.
    NoStream {
        /// The edge.
        address: String,
        /// Bytes that were asked for.
        bytes: u64,
        /// What it says.
        why: String,
    },
    /// There is a stream of that name or subject, made by someone else.
    ForeignStream {
        /// The edge.
        address: String,
        /// The stream.
        stream: String,
        /// How it differs.
        why: String,
    },
    /// It does not permit what an edge needs.
    Forbidden {
        /// The broker.
        broker: String,
        /// Who we said we are.
        login: String,
        /// What it says.
        why: String,
    },
    /// Another process sends to the subject.
    AnotherSender {
        /// The edge.
        address: String,
        /// The other, as far as it is known.
        who: String,
    },
    /// Another process receives from the subject.
    AnotherReceiver {
        /// The edge.
        address: String,
        /// The other, as far as it is known.
        who: String,
    },
    /// A consumer that is none of an edge takes messages from the stream.
    ForeignConsumer {
        /// The edge.
        address: String,
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
    },
    /// This thread could not be started.
    NoThread {
        /// What the system says.
        why: String,
    },
}

impl fmt::Display for NatsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadLogin { problem } => f.write_str(problem),
            Self::Unreachable { broker, why } => {
                write!(
                    f,
                    "no broker answers at {broker}: {why}; start it, as with `nats-server -js`, or correct `over`"
                )
            }
            Self::Refused { broker, login } => write!(
                f,
                "the broker {broker} refuses {login}; set NATS_USER and NATS_PASSWORD, NATS_TOKEN or NATS_CREDS to a login that it knows"
            ),
            Self::Tls { broker, why } => write!(
                f,
                "the connection to {broker} cannot be encrypted: {why}; name the certificates to trust in NATS_CA, and our own in NATS_CERT and NATS_KEY"
            ),
            Self::NotTls { broker } => write!(
                f,
                "the connection to {broker} cannot be encrypted: what answers there does not speak TLS; write `nats://`, or enable TLS at the broker"
            ),
            Self::JetStreamSilent { broker } => write!(
                f,
                "JetStream of the broker {broker} gives no answer; its log says why: its disk may be full, or it still reads its files"
            ),
            Self::NoJetStream { broker } => write!(
                f,
                "the broker {broker} has no JetStream for this login, and without it messages would be lost; start it with `nats-server -js`, or enable JetStream for the account"
            ),
            Self::NoStream { address, bytes, why } => write!(
                f,
                "the broker does not make a stream of {} MiB for {address}: {why}; raise the limit of the account or of `max_file_store`",
                bytes >> 20
            ),
            Self::ForeignStream { address, stream, why } => write!(
                f,
                "the stream {stream} is in the way of {address}: {why}; remove it with `nats stream rm {stream}`, or use another subject"
            ),
            Self::Forbidden { broker, login, why } => write!(
                f,
                "the broker {broker} does not permit {login} what an edge needs: {why}; permit the subject of the edge, `_BURSAR.>`, `_INBOX.>`, `$JS.API.>` and `$JS.ACK.>`"
            ),
            Self::AnotherSender { address, who } => {
                write!(f, "another process sends to {address} ({who}); end it, or give this edge a subject of its own")
            }
            Self::AnotherReceiver { address, who } => write!(
                f,
                "another process receives from {address} ({who}); end it, or give this edge a subject of its own"
            ),
            Self::ForeignConsumer { address, stream, consumer } => write!(
                f,
                "the consumer `{consumer}`, which is none of ours, takes the messages of {address}; remove it with `nats consumer rm {stream} {consumer}`"
            ),
            Self::NoThread { why } => {
                write!(f, "no thread for the connections to brokers: {why}; raise the limit of threads")
            }
        }
    }
}

impl NatsError {
    /// Whether the broker can be used, and the end of the edge belongs to another.
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::AnotherSender { .. } | Self::AnotherReceiver { .. } | Self::ForeignConsumer { .. })
    }
}

impl Error for NatsError {}
