//! Who we are at a broker: a user and password, a token, or a file of credentials; and TLS.
//!
//! Room: driver.
//!
//! Only `from_env` has effects: it reads the environment, and the files that it names.
//!
//! # Invariant
//! A secret is never printed: `Debug` leaves it out, and no error carries one.

use std::env;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use crate::error::NatsError;

/// What a broker asks for. Without any of it, a connection without a name.
///
/// ```
/// use bursar::flow::nats::Login;
///
/// let login = Login::default().user("robot", "hunter2");
/// assert!(!format!("{login:?}").contains("hunter2"));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Login {
    pub(crate) user: Option<(String, String)>,
    pub(crate) token: Option<String>,
    pub(crate) credentials: Option<PathBuf>,
    pub(crate) roots: Option<PathBuf>,
    pub(crate) certificate: Option<(PathBuf, PathBuf)>,
}

impl Login {
    /// A user and a password.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// A token.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// A file of credentials, as `nsc` writes it.
    #[must_use]
    pub fn credentials(mut self, file: impl Into<PathBuf>) -> Self {
        self.credentials = Some(file.into());
        self
    }

    /// A file of certificates (PEM) that a broker's certificate is checked against, besides those of the system.
    #[must_use]
    pub fn roots(mut self, file: impl Into<PathBuf>) -> Self {
        self.roots = Some(file.into());
        self
    }

    /// Our own certificate and its key (PEM), for a broker that asks for one.
    #[must_use]
    pub fn certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.certificate = Some((certificate.into(), key.into()));
        self
    }

    /// What the environment says: `NATS_USER` and `NATS_PASSWORD`, `NATS_TOKEN`, `NATS_CREDS`; `NATS_CA`, `NATS_CERT` and `NATS_KEY`. `NATS_PASSWORD_FILE` and `NATS_TOKEN_FILE` name files that hold
    /// the secret in their first line.
    ///
    /// # Errors
    /// If a file cannot be read, or half of a pair is missing.
    pub fn from_env() -> Result<Self, NatsError> {
        Self::from_lookup(|name| env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn from_lookup(variable: impl Fn(&str) -> Option<String>) -> Result<Self, NatsError> {
        let secret = |name: &str| {
            let file = format!("{name}_FILE");
            match (variable(name), variable(&file)) {
                (Some(value), _) => Ok(Some(value)),
                (None, None) => Ok(None),
                (None, Some(path)) => match fs::read_to_string(&path) {
                    Ok(text) => Ok(Some(text.lines().next().unwrap_or_default().to_owned())),
                    Err(error) => Err(NatsError::BadLogin {
                        problem: format!("{path}, which {file} names, cannot be read: {error}"),
                    }),
                },
            }
        };
        let pair = |first: &str, second: &str, a: Option<String>, b: Option<String>| match (a, b) {
            (Some(a), Some(b)) => Ok(Some((a, b))),
            (None, None) => Ok(None),
            (Some(_), None) => {
                Err(NatsError::BadLogin { problem: format!("{first} is set and {second} is not; set both") })
            }
            (None, Some(_)) => {
                Err(NatsError::BadLogin { problem: format!("{second} is set and {first} is not; set both") })
            }
        };
        let user = pair("NATS_USER", "NATS_PASSWORD", variable("NATS_USER"), secret("NATS_PASSWORD")?)?;
        let certificate = pair("NATS_CERT", "NATS_KEY", variable("NATS_CERT"), variable("NATS_KEY"))?;
        Ok(Self {
            user,
            token: secret("NATS_TOKEN")?,
            credentials: variable("NATS_CREDS").map(PathBuf::from),
            roots: variable("NATS_CA").map(PathBuf::from),
            certificate: certificate.map(|(certificate, key)| (certificate.into(), key.into())),
        })
    }

    /// What it is, for errors: never the secret.
    pub(crate) fn said(&self) -> String {
        match (&self.user, &self.token, &self.credentials) {
            (Some((user, _)), ..) => format!("user `{user}`"),
            (_, Some(_), _) => "a token".to_owned(),
            (_, _, Some(file)) => format!("the credentials in {}", file.display()),
            _ => "no login".to_owned(),
        }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("as", &self.said()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Login, NatsError> {
        Login::from_lookup(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn the_environment_says_who_we_are() {
        assert_eq!(read(&[]).unwrap(), Login::default());
        let login = read(&[("NATS_USER", "robot"), ("NATS_PASSWORD", "hunter2"), ("NATS_CA", "/ca.pem")]).unwrap();
        assert_eq!(login, Login::default().user("robot", "hunter2").roots("/ca.pem"));
        assert_eq!(read(&[("NATS_TOKEN", "t")]).unwrap(), Login::default().token("t"));
    }

    #[test]
    fn half_of_a_pair_and_a_missing_file_are_named() {
        for (set, part) in [
            (&[("NATS_USER", "robot")][..], "NATS_PASSWORD is not; set both"),
            (&[("NATS_PASSWORD", "hunter2")], "NATS_USER is not; set both"),
            (&[("NATS_CERT", "c.pem")], "NATS_KEY is not"),
            (&[("NATS_TOKEN_FILE", "/no/such/file")], "/no/such/file, which NATS_TOKEN_FILE names"),
        ] {
            let error = read(set).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn no_secret_is_printed() {
        let login = Login::default().user("robot", "hunter2").token("hunter2");
        assert!(!format!("{login:?}").contains("hunter2"));
        assert!(format!("{login:?}").contains("robot"));
    }
}
