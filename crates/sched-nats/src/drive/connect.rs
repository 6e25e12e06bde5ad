//! A connection to a broker, and the stream of an edge.
//!
//! Room: driver. Knows async-nats; knows nothing of packs.
//!
//! # Invariant
//! The stream of an edge is bounded and refuses what does not fit, so that a slow receiver holds up the sender and does not fill the broker. It keeps a message until that is acknowledged, and no longer.

use std::error::Error;
use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use tokio::sync::mpsc;

use crate::edge::Edge;
use crate::error::NatsError;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer of JetStream may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Backoff between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How long the broker remembers the names of packs.
const REMEMBERS: Duration = Duration::from_secs(120);

/// A connection, and what happens to it.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) context: Context,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
}

/// The pause before an attempt to connect.
pub(crate) fn backoff(attempt: usize) -> Duration {
    BACKOFF.0.saturating_mul(1 << attempt.min(8)).min(BACKOFF.1)
}

/// Connects, or says why not. A connection that is lost later is made again, for ever.
pub(crate) async fn connect(edge: &Edge) -> Result<Link, NatsError> {
    let broker = edge.address().broker();
    let (tell, events) = mpsc::unbounded_channel();
    let options = options(edge)?.event_callback(move |event| {
        let _ = tell.send(event);
        async {}
    });
    let client = options.connect(broker.as_str()).await.map_err(|error| refusal(edge, &error))?;
    if !client.server_info().jetstream {
        return Err(NatsError::NoJetStream { broker });
    }
    let context = jetstream::ContextBuilder::new().timeout(ANSWER).build(client.clone());
    Ok(Link { client, context, events })
}

fn options(edge: &Edge) -> Result<ConnectOptions, NatsError> {
    let login = edge.login_ref();
    let mut options = ConnectOptions::new()
        .name("bursar")
        .connection_timeout(CONNECT)
        .reconnect_delay_callback(backoff)
        .require_tls(edge.address().is_tls());
    if let Some((user, password)) = &login.user {
        options = options.user_and_password(user.clone(), password.clone());
    }
    if let Some(token) = &login.token {
        options = options.token(token.clone());
    }
    if let Some(file) = &login.credentials {
        let bad = |why: String| NatsError::BadLogin {
            problem: format!("the file of credentials {} cannot be used: {why}; correct NATS_CREDS", file.display()),
        };
        let text = std::fs::read_to_string(file).map_err(|error| bad(error.to_string()))?;
        // What the reader says of the text may quote it.
        options = options.credentials(&text).map_err(|_| bad("it is not one of `nsc`".to_owned()))?;
    }
    if let Some(roots) = &login.roots {
        options = options.add_root_certificates(roots.clone());
    }
    if let Some((certificate, key)) = &login.certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options)
}

fn refusal(edge: &Edge, error: &async_nats::ConnectError) -> NatsError {
    let broker = edge.address().broker();
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            NatsError::Refused { broker, login: edge.login_ref().said() }
        }
        ConnectErrorKind::Tls => NatsError::Tls { broker, why: innermost(error) },
        // What TLS says of a certificate comes as an error of the connection.
        ConnectErrorKind::Io if innermost(error).contains("certificate") => {
            NatsError::Tls { broker, why: innermost(error) }
        }
        ConnectErrorKind::TimedOut => NatsError::Unreachable { broker, why: format!("no answer within {CONNECT:?}") },
        _ => NatsError::Unreachable { broker, why: innermost(error) },
    }
}

/// The subject on which a receiver tells its sender how far it is. No stream keeps it.
pub(crate) fn reports(edge: &Edge) -> String {
    format!("_BURSAR.{}", edge.address().subject())
}

/// The cause of an error without the layers around it.
pub(crate) fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// The stream of the edge, made if it is not there.
pub(crate) async fn stream(link: &Link, edge: &Edge) -> Result<Stream, NatsError> {
    let name = edge.address().stream();
    let foreign = |why: &str| NatsError::ForeignStream {
        address: edge.address().to_string(),
        stream: name.clone(),
        why: why.to_owned(),
    };
    if let Ok(stream) = link.context.get_stream(&name).await {
        let config = &stream.cached_info().config;
        return if config.retention != RetentionPolicy::WorkQueue || config.discard != DiscardPolicy::New {
            Err(foreign("it is not one of an edge"))
        } else if !config.subjects.iter().any(|subject| subject == edge.address().subject()) {
            Err(foreign("it has another subject"))
        } else {
            Ok(stream)
        };
    }
    let config = Config {
        name: name.clone(),
        description: Some("an edge of a flow of Bursar".to_owned()),
        subjects: vec![edge.address().subject().to_owned()],
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        max_bytes: i64::try_from(edge.stream_bytes()).unwrap_or(i64::MAX),
        duplicate_window: REMEMBERS,
        ..Config::default()
    };
    link.context.create_stream(config).await.map_err(|error| match error.kind() {
        jetstream::context::CreateStreamErrorKind::JetStream(said) => match said.error_code() {
            ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
                NatsError::NoJetStream { broker: edge.address().broker() }
            }
            ErrorCode::STREAM_SUBJECT_OVERLAP => foreign("another stream keeps that subject"),
            _ => NatsError::NoStream {
                address: edge.address().to_string(),
                bytes: edge.stream_bytes(),
                why: said.to_string(),
            },
        },
        _ => NatsError::NoStream {
            address: edge.address().to_string(),
            bytes: edge.stream_bytes(),
            why: innermost(&error),
        },
    })
}
