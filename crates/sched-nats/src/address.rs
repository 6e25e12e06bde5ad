//! Where an edge leads: a broker and a subject.
//!
//! Room: values.
//!
//! # Invariant
//! An address holds no secret, so it can be printed. The subject has no wildcard, and two subjects have two streams.

use std::fmt;
use std::str::FromStr;

use crate::error::AddressError;

/// Bytes of the longest subject: a stream has its name from it, and a broker keeps that as the name of a folder.
const SUBJECT: usize = 120;
const PORT: u16 = 4222;

/// A broker and a subject: `nats://host:4222/subject`, or `tls://…` for a connection that must be encrypted.
///
/// ```
/// use bursar::flow::nats::Address;
///
/// let address: Address = "nats://127.0.0.1/robot.imu".parse()?;
/// assert_eq!(address.to_string(), "nats://127.0.0.1:4222/robot.imu");
/// assert!("nats://me:secret@127.0.0.1/imu".parse::<Address>().is_err()); // secrets come from the environment
/// # Ok::<(), bursar::flow::nats::AddressError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    tls: bool,
    host: String,
    port: u16,
    subject: String,
}

impl Address {
    /// The subject.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The broker, without the subject.
    pub fn broker(&self) -> String {
        let scheme = if self.tls { "tls" } else { "nats" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }

    /// Whether the connection must be encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The name of the stream that keeps its messages.
    pub fn stream(&self) -> String {
        // No subject has a `=`, so no two subjects have one name.
        format!("BURSAR_{}", self.subject.replace('.', "="))
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (tls, rest) = match (text.strip_prefix("nats://"), text.strip_prefix("tls://")) {
            (Some(rest), _) => (false, rest),
            (_, Some(rest)) => (true, rest),
            _ => return Err(AddressError::NoScheme),
        };
        // Before anything of it is shown: what stands before an `@` may be a secret.
        if rest.contains('@') {
            return Err(AddressError::HasSecret);
        }
        let (place, subject) = rest.split_once('/').ok_or(AddressError::NoSubject)?;
        let (host, port) = match place.rsplit_once(':') {
            // An address of IPv6 without a port has its last colon within brackets.
            Some((host, port)) if !port.ends_with(']') => {
                let number = port.parse().ok().filter(|port| *port > 0);
                (host, number.ok_or_else(|| AddressError::BadPort { port: port.to_owned() })?)
            }
            _ => (place, PORT),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(AddressError::BadHost { host: host.to_owned() });
        }
        let is_token =
            |token: &str| !token.is_empty() && token.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        // `_INBOX` and `_BURSAR` are for answers.
        if subject.len() > SUBJECT || subject.starts_with('_') || !subject.split('.').all(is_token) {
            return Err(AddressError::BadSubject { subject: subject.to_owned(), longest: SUBJECT });
        }
        Ok(Self { tls, host: host.to_owned(), port, subject: subject.to_owned() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.broker(), self.subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Address, AddressError> {
        text.parse()
    }

    #[test]
    fn an_address_is_a_broker_and_a_subject() {
        let address = parsed("tls://broker.example:4443/a.b-c").unwrap();
        assert_eq!((address.subject(), address.broker().as_str()), ("a.b-c", "tls://broker.example:4443"));
        assert!(address.is_tls());
        assert_eq!(parsed("nats://[::1]/x").unwrap().to_string(), "nats://[::1]:4222/x");
        assert_eq!(parsed("nats://[::1]:7/x").unwrap().to_string(), "nats://[::1]:7/x");
    }

    #[test]
    fn what_is_no_address_says_how_to_write_one_and_shows_no_secret() {
        for (text, part) in [
            ("127.0.0.1/x", "nats://host:4222/subject"),
            ("nats://127.0.0.1", "no subject"),
            ("nats://:4222/x", "host"),
            ("nats://h:0/x", "port"),
            ("nats://h:99999/x", "port"),
            ("nats://h/a.*", "subject"),
            ("nats://h/a b", "subject"),
            ("nats://h/a..b", "subject"),
            ("nats://h/", "subject"),
            ("nats://h/_INBOX.x", "subject"),
            ("nats://h/_BURSAR.report.x", "subject"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        let error = parsed("nats://me:hunter2@h/x").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("NATS_PASSWORD"), "{error}");
    }

    #[test]
    fn no_two_subjects_share_a_stream() {
        let stream = |subject: &str| parsed(&format!("nats://h/{subject}")).unwrap().stream();
        assert_eq!(stream("a.b"), "BURSAR_a=b");
        assert_ne!(stream("a.b"), stream("a_b"));
    }
}
