//! Errors of backups, with advice for the operator.

use crate::name::Name;
use std::error::Error as _;
use std::fmt;
use std::io;

/// Errors of shipping, listing and restoring.
#[derive(Debug)]
pub enum Error {
    /// The address of the store cannot be used.
    Address {
        /// As it was given.
        url: String,
        /// Fault of the address.
        why: String,
    },
    /// The store refused, or could not be reached.
    Store {
        /// Operation that failed.
        doing: String,
        /// Error of the store.
        source: object_store::Error,
    },
    /// A local file.
    File {
        /// Operation that failed.
        doing: String,
        /// Error of the system.
        source: io::Error,
    },
    /// A backup that does not match its manifest.
    Corrupt {
        /// Name of the backup.
        name: Name,
        /// The difference.
        why: String,
    },
    /// No backup was found.
    Missing {
        /// The wanted backup and the place searched.
        what: String,
    },
}

/// Longest text of a store's answer that is passed on, in bytes.
const SAID_BYTES_MAX: usize = 400;
/// Hosts from which machines in clouds get the credentials of their role.
const METADATA_SERVICES: [&str; 3] =
    ["169.254.169.254", "169.254.170.2", "metadata.google.internal"];

impl Error {
    pub(crate) fn file(doing: impl Into<String>, source: io::Error) -> Self {
        Error::File { doing: doing.into(), source }
    }

    pub(crate) fn store(doing: impl Into<String>, source: object_store::Error) -> Self {
        Error::Store { doing: doing.into(), source }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Address { url, why } => {
                write!(f, "the backup store '{url}' cannot be used: {why}")
            }
            Error::Store { doing, source } => {
                let said = said(source);
                write!(f, "{doing}: {said}; {}", advice(source, &said))
            }
            Error::File { doing, source } => write!(f, "{doing}: {source}"),
            Error::Corrupt { name, why } => write!(
                f,
                "the backup {name} is damaged: {why}; `petrel backups URL` lists the others"
            ),
            Error::Missing { what } => f.write_str(what),
        }
    }
}

/// Text of a store's error, on one line of limited length.
fn said(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    // The transport's own words, which the outer errors leave out.
    let mut inner = error.source();
    while let Some(source) = inner {
        let words = source.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        inner = source.source();
    }
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.len() > SAID_BYTES_MAX {
        let end = (0..=SAID_BYTES_MAX).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(end.unwrap_or(0));
        text.push_str(" ...");
    }
    text
}

/// Advice for the operator. `object_store` has no variant of its own for some answers of stores, so
/// the text is examined too.
fn advice(error: &object_store::Error, said: &str) -> &'static str {
    use object_store::Error::*;
    let answered = |status: &str| said.contains(status);
    if METADATA_SERVICES.iter().any(|address| answered(address)) {
        // Where a store's client looks that was given none.
        "no credentials were found: set those of the store in the server's environment (AWS_*, GOOGLE_*, AZURE_*)"
    } else if matches!(error, PermissionDenied { .. }) || answered("403 Forbidden") {
        "the credentials must allow to list, read, write and delete below the prefix"
    } else if matches!(error, Unauthenticated { .. }) || answered("401 Unauthorized") {
        "look at the credentials in the server's environment (AWS_*, GOOGLE_*, AZURE_*)"
    } else if matches!(error, NotFound { .. }) || answered("404 Not Found") {
        "look at the name of the bucket or container, and at the prefix"
    } else {
        "look at the address, the network, and the settings in the server's environment (AWS_*, GOOGLE_*, AZURE_*)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_says_is_one_short_line() {
        let body = format!("<Error>\n  <Code>AccessDenied</Code>\n{}</Error>", "é".repeat(1000));
        let source =
            object_store::Error::PermissionDenied { path: "a/b".into(), source: body.into() };
        let text = Error::store("shipping dump.rdb", source).to_string();
        assert!(text.starts_with("shipping dump.rdb: ") && text.contains("AccessDenied"), "{text}");
        assert!(text.contains("credentials must allow"), "{text}");
        assert!(text.len() < 600 && !text.contains('\n'), "{text}");
    }

    #[test]
    fn credentials_that_are_missing_are_called_so() {
        let said = "Error performing PUT http://169.254.169.254/latest/api/token: 403 Forbidden";
        let source = object_store::Error::Generic { store: "S3", source: said.into() };
        let text = Error::store("listing backups", source).to_string();
        assert!(text.contains("no credentials were found"), "{text}");
    }
}
