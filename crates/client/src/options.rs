//! [`Options`]: where a server is and how to speak to it; URLs.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::error::{Error, ErrorKind, Result};

const PORT: u16 = 6379;

/// Address of a server.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Address {
    /// A host name or address, and a port.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// TCP with TLS; the certificate must be valid for the host (feature `tls`).
    Tls {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } | Self::Tls { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A secret that is never printed.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Pause before a reconnection: doubled after each failure, with jitter, so that the clients of a
/// restarting server do not return at the same time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Backoff {
    /// Before the second attempt; the first is made at once.
    pub first: Duration,
    /// At most, before the jitter of up to a half is added.
    pub max: Duration,
}

impl Default for Backoff {
    /// 10 ms, up to 2 s.
    fn default() -> Self {
        Self { first: Duration::from_millis(10), max: Duration::from_secs(2) }
    }
}

impl Backoff {
    /// Pause after `failures` consecutive failures.
    pub(crate) fn delay(&self, failures: u32) -> Duration {
        let factor = 2u32.saturating_pow(failures.saturating_sub(1));
        let base = self.first.saturating_mul(factor).min(self.max);
        base + base.mul_f64(fastrand::f64() * 0.5)
    }
}

/// Address of a server, and options of the connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address.
    pub address: Address,
    /// User name; the default user if there is none.
    pub username: Option<String>,
    /// Password.
    pub password: Option<Secret>,
    /// Database.
    pub database: u32,
    /// Name of the connections, shown by `CLIENT LIST`.
    pub name: Option<String>,
    /// Connections that share the commands of all callers. One is best unless replies are long:
    /// the more commands share one, the fewer system calls each of them costs.
    pub connections: usize,
    /// Speaks RESP2 even if the server speaks RESP3.
    pub force_resp2: bool,
    /// Timeout of a connection attempt, including authentication.
    pub connect_timeout: Duration,
    /// Timeout of a command, including the wait for a connection; `None`: no limit. It is accurate
    /// to an eighth of itself. Blocking commands have no limit but their own.
    pub timeout: Option<Duration>,
    /// Number of retries of a command that only reads, after a lost connection.
    pub retries: u32,
    /// Pauses between reconnections.
    pub backoff: Backoff,
    /// Bytes of commands that wait for replies, after which callers wait before they send. One
    /// command may go beyond.
    pub bytes_in_flight_max: usize,
    /// Bytes of one string in a reply, at most.
    pub reply_string_max: usize,
    /// Root certificates for TLS in PEM; those of the system if there are none.
    pub tls_roots_pem: Option<Vec<u8>>,
}

impl Options {
    /// Options for a server at an address, everything else by default: 10 s to connect and for a
    /// command, two retries of reads, 64 MiB in flight, strings of 512 MiB.
    pub fn new(address: Address) -> Self {
        Self {
            address,
            username: None,
            password: None,
            database: 0,
            name: None,
            connections: 1,
            force_resp2: false,
            connect_timeout: Duration::from_secs(10),
            timeout: Some(Duration::from_secs(10)),
            retries: 2,
            backoff: Backoff::default(),
            bytes_in_flight_max: 64 * 1024 * 1024,
            reply_string_max: 512 * 1024 * 1024,
            tls_roots_pem: None,
        }
    }

    /// Reads a URL:
    ///
    /// ```text
    /// redis://[user[:password]@]host[:port][/database][?option=value&...]
    /// rediss://...                                        the same with TLS
    /// unix://[user[:password]@]/path/to/socket[?db=N&...]
    /// ```
    ///
    /// Options: `db`, `protocol` (2 or 3), `name`, `timeout_ms` (0: none), `connect_timeout_ms`,
    /// `connections`, `retries`, `bytes_in_flight_max`. Others are refused, since a misspelt one
    /// would go unnoticed. No error repeats the URL, which may have a password in it.
    pub fn from_url(text: &str) -> Result<Self> {
        let url = Url::parse(text).map_err(|error| wrong(format!("not a URL: {error}")))?;
        let host = || match url.host_str() {
            Some(host) if !host.is_empty() => Ok(host.trim_matches(['[', ']']).to_owned()),
            _ => Err(wrong("the URL has no host")),
        };
        let port = url.port().unwrap_or(PORT);
        let is_unix = matches!(url.scheme(), "unix" | "redis+unix");
        let address = match url.scheme() {
            "redis" => Address::Tcp { host: host()?, port },
            "rediss" => Address::Tls { host: host()?, port },
            _ if is_unix => Address::Unix(decoded(url.path())?.into()),
            scheme => {
                let scheme = scheme.escape_default();
                return Err(wrong(format!(
                    "the scheme is `{scheme}`, which should be redis, rediss or unix"
                )));
            }
        };
        let mut options = Self::new(address);
        if !url.username().is_empty() {
            options.username = Some(decoded(url.username())?);
        }
        if let Some(password) = url.password() {
            options.password = Some(decoded(password)?.into());
        }
        let database = url.path().trim_start_matches('/');
        if !is_unix && !database.is_empty() {
            options.database = number("database", database)?;
        }
        for (name, value) in url.query_pairs() {
            options.set(&name, &value)?;
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let milliseconds = || Ok::<_, Error>(Duration::from_millis(number(name, value)?));
        match name {
            "db" => self.database = number(name, value)?,
            "protocol" | "version" => {
                self.force_resp2 = match value {
                    "2" | "resp2" => true,
                    "3" | "resp3" => false,
                    _ => return Err(wrong("`protocol` in the URL should be 2 or 3")),
                }
            }
            "name" => self.name = Some(value.to_owned()),
            "timeout_ms" => {
                let timeout = milliseconds()?;
                self.timeout = (!timeout.is_zero()).then_some(timeout);
            }
            "connect_timeout_ms" => self.connect_timeout = milliseconds()?,
            "connections" => self.connections = number(name, value)?,
            "retries" => self.retries = number(name, value)?,
            "bytes_in_flight_max" => self.bytes_in_flight_max = number(name, value)?,
            _ => return Err(wrong(format!("the URL's option `{name}` is not known"))),
        }
        Ok(())
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| wrong(format!("`{name}` in the URL should be a number")))
}

fn decoded(text: &str) -> Result<String> {
    let text = percent_decode_str(text).decode_utf8();
    Ok(text.map_err(|_| wrong("a part of the URL is not UTF-8"))?.into_owned())
}

fn wrong(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Configuration(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let options = Options::from_url("redis://me:p%40ss@db.example:7000/3?name=web&retries=0");
        let options = options.unwrap();
        let host = "db.example".to_owned();
        assert_eq!(options.address, Address::Tcp { host, port: 7000 });
        assert_eq!(options.username.as_deref(), Some("me"));
        assert_eq!(options.password.as_ref().unwrap().expose(), "p@ss");
        assert_eq!((options.database, options.retries), (3, 0));
        assert_eq!(options.name.as_deref(), Some("web"));
        assert!(!format!("{options:?}").contains("p@ss"));

        let options = Options::from_url("unix:///tmp/a%20b.sock?db=2&timeout_ms=0").unwrap();
        assert_eq!(options.address, Address::Unix("/tmp/a b.sock".into()));
        assert_eq!((options.database, options.timeout), (2, None));

        let options = Options::from_url("rediss://[::1]").unwrap();
        assert_eq!(options.address, Address::Tls { host: "::1".into(), port: PORT });
    }

    #[test]
    fn wrong_urls_are_refused_without_their_secrets() {
        for url in [
            "redis://:hunter2@host/x",
            "http://:hunter2@host",
            "redis://:hunter2@host?no=1",
            "redis://:hunter2@host?timeout_ms=soon",
            "redis://:hunter2@:1",
            "hunter2",
        ] {
            let error = Options::from_url(url).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn backoff_grows_to_its_limit() {
        let backoff = Backoff::default();
        for failures in 1..100 {
            let delay = backoff.delay(failures);
            assert!(delay >= backoff.first && delay <= backoff.max.mul_f64(1.5));
        }
        assert!(backoff.delay(50) >= backoff.max);
    }
}
