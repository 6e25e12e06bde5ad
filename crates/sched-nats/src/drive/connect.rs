//! A connection to a broker, and the stream of an edge.
//!
//! Room: driver. Knows async-nats; knows nothing of packs.
//!
//! # Invariant
//! The stream of an edge is bounded and refuses what does not fit, so that a slow receiver holds up the sender and does not fill the broker. It keeps a message until that is acknowledged, and no longer.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{CreateStreamError, CreateStreamErrorKind};
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType, Stream};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, ClientError, ConnectErrorKind, ConnectOptions, Event};
use tokio::sync::{Notify, mpsc};
use tokio::time::sleep;

use crate::edge::Edge;
use crate::error::NatsError;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long an answer of JetStream may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Backoff between two attempts to connect.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How long a broker may take to remove the files of a stream.
const REMOVING: Duration = Duration::from_secs(1);
/// How often it is looked again for a stream that another process makes.
const LOOKED: usize = 4;
/// How long the broker remembers the names of packs.
const REMEMBERS: Duration = Duration::from_secs(120);

/// A connection, and what happens to it.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) context: Context,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
    /// What the broker said last that it does not permit.
    forbidden: Arc<Forbidden>,
}

#[derive(Default)]
struct Forbidden {
    why: Mutex<Option<String>>,
    said: Notify,
}

impl Link {
    /// What the broker does not permit us, if it said so. It says it of the connection, and leaves the question without an answer.
    pub(crate) fn forbidden(&self, edge: &Edge) -> Option<NatsError> {
        let why = self.forbidden.why.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(NatsError::Forbidden { broker: edge.address().broker(), login: edge.login_ref().said(), why })
    }

    /// The same, as soon as it says so.
    pub(crate) async fn until_forbidden(&self, edge: &Edge) -> NatsError {
        loop {
            self.forbidden.said.notified().await;
            if let Some(error) = self.forbidden(edge) {
                return error;
            }
        }
    }
}

/// The pause before an attempt to connect.
pub(crate) fn backoff(attempt: usize) -> Duration {
    BACKOFF.0.saturating_mul(1 << attempt.min(8)).min(BACKOFF.1)
}

/// Connects, or says why not. A connection that is lost later is made again, for ever.
pub(crate) async fn connect(edge: &Edge) -> Result<Link, NatsError> {
    let broker = edge.address().broker();
    let (tell, events) = mpsc::unbounded_channel();
    let forbidden = Arc::<Forbidden>::default();
    let notes = Arc::clone(&forbidden);
    let options = options(edge)?.event_callback(move |event| {
        if let Event::ServerError(error) = &event
            && error.to_string().to_ascii_lowercase().contains("permissions violation")
        {
            *notes.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
            notes.said.notify_one();
        }
        let _ = tell.send(event);
        async {}
    });
    let client = options.connect(broker.as_str()).await.map_err(|error| refusal(edge, &error))?;
    if !client.server_info().jetstream {
        return Err(NatsError::NoJetStream { broker });
    }
    let context = jetstream::ContextBuilder::new().timeout(ANSWER).build(client.clone());
    Ok(Link { client, context, events, forbidden })
}

fn options(edge: &Edge) -> Result<ConnectOptions, NatsError> {
    let login = edge.login_ref();
    let mut options = ConnectOptions::new()
        .name("bursar")
        .connection_timeout(CONNECT)
        // It waits before each attempt, also before the very first.
        .reconnect_delay_callback(|attempt| attempt.checked_sub(2).map_or(Duration::ZERO, backoff))
        .require_tls(edge.address().is_tls());
    let (certificate, key) = login.certificate.clone().unzip();
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
    let files = [("NATS_CA", &login.roots), ("NATS_CERT", &certificate), ("NATS_KEY", &key)];
    for (name, file) in files.into_iter().filter_map(|(name, file)| Some((name, file.as_ref()?))) {
        // Or an error of the connection says that some file is missing.
        std::fs::File::open(file).map_err(|error| NatsError::BadLogin {
            problem: format!("{} cannot be read: {error}; correct {name}", file.display()),
        })?;
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
        // What TLS says of a certificate comes as an error of the connection, and so does an answer that is not TLS.
        ConnectErrorKind::Io if innermost(error).contains("certificate") => {
            NatsError::Tls { broker, why: innermost(error) }
        }
        ConnectErrorKind::Io if innermost(error).contains("InvalidContentType") => NatsError::NotTls { broker },
        ConnectErrorKind::TimedOut => NatsError::Unreachable { broker, why: format!("no answer within {CONNECT:?}") },
        _ => NatsError::Unreachable { broker, why: innermost(error) },
    }
}

/// The subject on which a receiver tells its sender how far it is. No stream keeps it.
pub(crate) fn reports(edge: &Edge) -> String {
    format!("_BURSAR.report.{}", edge.address().subject())
}

/// Why a lost connection is not made again, if the error says more than that it is not.
pub(crate) fn why_not(error: &ClientError) -> Option<String> {
    let text = error.to_string();
    let why = text.strip_prefix("nats: ").unwrap_or(&text);
    (why != "IO error").then(|| why.to_owned())
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
    match get_or_make(link, config(edge)).await {
        Ok((stream, false)) => suits(&stream.cached_info().config, edge).map(|()| stream),
        Ok((stream, true)) => Ok(stream),
        Err(error) if is_overlap(&error) => {
            let keeper = link.context.stream_by_subject(edge.address().subject()).await;
            let (stream, why) = (keeper.unwrap_or_default(), "it keeps that subject".to_owned());
            Err(NatsError::ForeignStream { address: edge.address().to_string(), stream, why })
        }
        Err(error) => Err(no_stream(link, edge, edge.stream_bytes(), &error)),
    }
}

/// A stream, made if it is not there; and whether it was made now. While another process makes the same, the broker says that its subject is taken: so it is looked again.
pub(crate) async fn get_or_make(link: &Link, config: Config) -> Result<(Stream, bool), CreateStreamError> {
    let mut attempt = 0;
    loop {
        if let Ok(stream) = link.context.get_stream(&config.name).await {
            return Ok((stream, false));
        }
        match link.context.create_stream(config.clone()).await {
            Ok(stream) => return Ok((stream, true)),
            Err(error) if is_overlap(&error) && attempt < LOOKED => sleep(backoff(attempt)).await,
            Err(error) => return Err(error),
        }
        attempt += 1;
    }
}

fn is_overlap(error: &CreateStreamError) -> bool {
    matches!(error.kind(), CreateStreamErrorKind::JetStream(said)
        if [ErrorCode::STREAM_SUBJECT_OVERLAP, ErrorCode::STREAM_NAME_EXIST].contains(&said.error_code()))
}

/// Why a stream of so many bytes was not made.
pub(crate) fn no_stream(link: &Link, edge: &Edge, bytes: u64, error: &CreateStreamError) -> NatsError {
    let (address, broker) = (edge.address().to_string(), edge.address().broker());
    match error.kind() {
        CreateStreamErrorKind::JetStreamUnavailable => NatsError::NoJetStream { broker },
        CreateStreamErrorKind::TimedOut if link.client.connection_state() != State::Connected => {
            NatsError::Unreachable { broker, why: "the connection was lost".to_owned() }
        }
        CreateStreamErrorKind::TimedOut => NatsError::JetStreamSilent { broker },
        CreateStreamErrorKind::JetStream(said) => match said.error_code() {
            ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT => {
                NatsError::NoJetStream { broker }
            }
            _ => NatsError::NoStream { address, bytes, why: said.to_string() },
        },
        _ => NatsError::NoStream { address, bytes, why: innermost(error) },
    }
}

/// The stream of an edge that had one. If it was removed, the broker may still be removing its files, and those of a new one with them; so it is made after a pause.
pub(crate) async fn stream_again(link: &Link, edge: &Edge) -> Result<Stream, NatsError> {
    if link.context.get_stream(edge.address().stream()).await.is_err() {
        sleep(REMOVING).await;
    }
    stream(link, edge).await
}

fn config(edge: &Edge) -> Config {
    Config {
        name: edge.address().stream(),
        description: Some("an edge of a flow of Bursar".to_owned()),
        subjects: vec![edge.address().subject().to_owned()],
        retention: RetentionPolicy::WorkQueue,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        max_bytes: i64::try_from(edge.stream_bytes()).unwrap_or(i64::MAX),
        duplicate_window: REMEMBERS,
        // What is not acknowledged is lost if it is purged, and the receiver could not tell.
        deny_purge: true,
        deny_delete: true,
        ..Config::default()
    }
}

/// Whether a stream that is there already keeps all messages until they are acknowledged.
fn suits(config: &Config, edge: &Edge) -> Result<(), NatsError> {
    let subject = edge.address().subject();
    let problem = if config.retention != RetentionPolicy::WorkQueue {
        "it is not a work queue"
    } else if config.discard != DiscardPolicy::New {
        "it drops old messages when it is full"
    } else if config.subjects != [subject] {
        "it has other subjects"
    } else if !config.max_age.is_zero() {
        "it drops messages after a time (`max_age`)"
    } else if config.storage != StorageType::File {
        "it keeps messages in memory, not in a file"
    } else if config.max_message_size > 0 {
        "it limits the size of a message (`max_msg_size`)"
    } else if config.max_messages_per_subject > 0 {
        "it limits the messages of a subject (`max_msgs_per_subject`)"
    } else if config.sealed || config.no_ack {
        "it is sealed, or does not acknowledge (`no_ack`)"
    } else {
        return Ok(());
    };
    let (address, stream) = (edge.address().to_string(), edge.address().stream());
    Err(NatsError::ForeignStream { address, stream, why: problem.to_owned() })
}
