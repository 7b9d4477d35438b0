//! Destination of backups: a store, and a prefix of their names.

use crate::error::Error;
use crate::manifest::MANIFEST_BYTES_MAX;
use crate::name::Name;
use crate::place::Place;
use bytes::Bytes;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, ObjectStore, ObjectStoreExt, ObjectStoreScheme, RetryConfig,
};
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// A store and a prefix.
#[derive(Clone)]
pub struct Target {
    pub store: Arc<dyn ObjectStore>,
    prefix: Path,
    /// The directory, if it is one.
    place: Option<Place>,
}

/// A backup to restore: `URL`, `URL@latest` or `URL@NAME`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Source {
    /// Address of the store.
    pub url: String,
    /// Name of the backup; the newest if none.
    pub name: Option<Name>,
}

/// Longest time for a request with its answer, unless the environment says otherwise (`AWS_TIMEOUT`
/// and so on).
const REQUEST_TIME: &str = "120 seconds";
const CONNECT_TIME: &str = "10 seconds";
/// Maximum number of repetitions of a request before the whole file is retried later.
const REQUEST_RETRIES: usize = 3;
const RETRY_TIME: Duration = Duration::from_secs(150);
const BACKOFF: BackoffConfig = BackoffConfig {
    init_backoff: Duration::from_millis(100),
    max_backoff: Duration::from_secs(5),
    base: 2.0,
};

/// Builds a store of the kind from the environment and the address. Timeouts set in the environment
/// take precedence.
macro_rules! build {
    ($builder:ty, $key:ident, $url:expr) => {{
        let retry = RetryConfig {
            backoff: BACKOFF,
            max_retries: REQUEST_RETRIES,
            retry_timeout: RETRY_TIME,
        };
        let mut builder = <$builder>::from_env().with_url($url).with_retry(retry);
        for (key, value) in [
            (ClientConfigKey::Timeout, REQUEST_TIME),
            (ClientConfigKey::ConnectTimeout, CONNECT_TIME),
        ] {
            let variable = format!("{}_{}", $key::PREFIX, key.as_ref().to_uppercase());
            if std::env::var_os(variable).is_none() {
                builder = builder.with_config($key::Client(key), value);
            }
        }
        builder.build().map(|store| Arc::new(store) as Arc<dyn ObjectStore>)
    }};
}

/// Prefix of the environment variables of a store.
trait Variables {
    const PREFIX: &'static str;
}

impl Variables for AmazonS3ConfigKey {
    const PREFIX: &'static str = "AWS";
}

impl Variables for GoogleConfigKey {
    const PREFIX: &'static str = "GOOGLE";
}

impl Variables for AzureConfigKey {
    const PREFIX: &'static str = "AZURE";
}

impl Target {
    /// The store at an address: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`,
    /// `az://CONTAINER/PREFIX`, `file:///DIRECTORY`. Sends no request.
    ///
    /// # Errors
    /// If the address is none of these, or the environment lacks what the store needs.
    pub fn open(text: &str) -> Result<Self, Error> {
        let refuse = |why: String| Error::Address { url: text.to_owned(), why };
        let url = Url::parse(text).map_err(|error| {
            refuse(format!("{error}; it begins with s3://, gs://, az:// or file:///"))
        })?;
        if url.password().is_some() {
            let why = "credentials belong in the server's environment, not in the address";
            return Err(Error::Address { url: "(hidden)".into(), why: why.into() });
        }
        // Fails if there is one already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (scheme, prefix) =
            ObjectStoreScheme::parse(&url).map_err(|error| refuse(error.to_string()))?;
        let mut place = None;
        let store = match scheme {
            ObjectStoreScheme::Local => {
                let path = url.to_file_path();
                place = Some(Place::new(path.map_err(|()| refuse("it is no local path".into()))?));
                Ok(Arc::new(LocalFileSystem::new().with_fsync(true)) as Arc<dyn ObjectStore>)
            }
            ObjectStoreScheme::AmazonS3 => build!(AmazonS3Builder, AmazonS3ConfigKey, text),
            ObjectStoreScheme::GoogleCloudStorage => {
                build!(GoogleCloudStorageBuilder, GoogleConfigKey, text)
            }
            ObjectStoreScheme::MicrosoftAzure => {
                build!(MicrosoftAzureBuilder, AzureConfigKey, text)
            }
            _ => {
                return Err(refuse("it begins with s3://, gs://, az:// or file:///".into()));
            }
        };
        let store = store.map_err(|error| {
            let where_to_look =
                "look at the settings in the server's environment (AWS_*, GOOGLE_*, AZURE_*)";
            refuse(format!("{error}; {where_to_look}"))
        })?;
        Ok(Target { store, prefix, place })
    }

    /// Checks that a directory is there to read from.
    pub fn exists(&self) -> Result<(), Error> {
        self.place.as_ref().map_or(Ok(()), Place::exists)
    }

    /// Checks that a directory is there to write to, and the one that it was.
    pub fn is_ready(&self) -> Result<(), Error> {
        self.place.as_ref().map_or(Ok(()), Place::is_ready)
    }

    /// Location of the objects of a backup.
    pub fn backup(&self, name: Name) -> Path {
        self.prefix.clone().join(name.to_string())
    }

    /// An object of a backup.
    pub fn object(&self, name: Name, object: &str) -> Path {
        self.backup(name).join(object)
    }

    /// Common prefix of all names.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The bytes of a small object; none if it is not there.
    pub async fn small(&self, path: &Path) -> Result<Option<Bytes>, Error> {
        let doing = || format!("reading {path}");
        let found = match self.store.get(path).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(Error::store(doing(), error)),
        };
        if found.meta.size > MANIFEST_BYTES_MAX {
            let what =
                format!("{}: {} bytes are too many for a manifest", doing(), found.meta.size);
            return Err(Error::Missing { what });
        }
        found.bytes().await.map(Some).map_err(|error| Error::store(doing(), error))
    }
}

impl Source {
    /// Reads `URL[@NAME]`; the `@` is looked for behind the authority, which may have one of its
    /// own.
    ///
    /// # Errors
    /// If the name is none.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let path = text.find("://").map_or(0, |at| at + 3);
        let path = text[path..].find('/').map_or(text.len(), |at| path + at);
        let Some((before, name)) = text[path..].rsplit_once('@') else {
            return Ok(Source { url: text.to_owned(), name: None });
        };
        let url = text[..path + before.len()].to_owned();
        match name {
            "latest" => Ok(Source { url, name: None }),
            _ => match Name::parse(name) {
                Some(name) => Ok(Source { url, name: Some(name) }),
                None => Err(Error::Address {
                    url: text.to_owned(),
                    why: format!(
                        "'{name}' is no name of a backup: one looks like 20261121T200301.123Z, `petrel backups URL` lists them"
                    ),
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_stands_behind_the_path() {
        let name = "20261121T200301.123Z";
        for (text, url, which) in [
            ("s3://bucket/a/b", "s3://bucket/a/b", None),
            ("s3://bucket/a/b@latest", "s3://bucket/a/b", None),
            ("az://container@account/p", "az://container@account/p", None),
            ("az://container@account/p@latest", "az://container@account/p", None),
            ("file:///x@20261121T200301.123Z", "file:///x", Some(name)),
        ] {
            let which = which.and_then(Name::parse);
            let source = Source::parse(text).unwrap();
            assert_eq!(source, Source { url: url.into(), name: which }, "{text}");
        }
        assert!(Source::parse("file:///x@yesterday").is_err());
    }

    #[test]
    fn addresses_that_cannot_be_used_say_why() {
        for (text, why) in [
            ("/var/backups", "it begins with s3://"),
            ("ftp://host/x", "Unable to recognise URL"),
            ("http://host/x", "it begins with s3://"),
            ("s3://key:secret@bucket/x", "credentials belong in the server's environment"),
        ] {
            let error = Target::open(text).err().unwrap().to_string();
            assert!(error.contains(why) && !error.contains("secret@"), "{text}: {error}");
        }
    }
}
