//! From the configuration and the files that it names to what handshakes go by.

use super::certificate::{Certificate, MAKE_VERSION_3};
use super::sessions::Sessions;
use super::suites;
use crate::config::{AuthClients, Config, Secret};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Files of a directory of authorities that are read.
const DIRECTORY_FILES_MAX: usize = 4096;

/// A certificate or key file is not longer.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// TLS settings of new connections, and their description for `INFO`.
pub struct Settings {
    /// Configuration of handshakes.
    pub handshake: Arc<ServerConfig>,
    /// The certificate that the server shows.
    pub server: Certificate,
    /// The certificate that it would show to other servers.
    pub client: Option<Certificate>,
    /// The trusted authority that expires first.
    pub authority: Option<Certificate>,
    /// State of the files when they were read.
    pub stamps: Stamps,
    /// Configured options that are not available, a line each.
    pub warnings: Vec<String>,
}

/// Error in a parameter of TLS.
#[derive(Debug, Eq, PartialEq)]
pub struct Trouble {
    /// The parameter.
    pub name: &'static str,
    /// Reason that the value cannot be used.
    pub reason: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TLS cannot be configured: {}: {}", self.name, self.reason)
    }
}

impl std::error::Error for Trouble {}

impl Trouble {
    pub(super) fn new(name: &'static str, reason: impl fmt::Display) -> Self {
        Trouble { name, reason: reason.to_string() }
    }
}

impl Settings {
    /// Reads the configured files.
    ///
    /// # Errors
    /// The invalid parameter and the reason.
    pub fn read(config: &Config) -> Result<Self, Trouble> {
        let tls = &config.tls;
        // Before they are read, so that a change meanwhile is found later.
        let stamps = Stamps::of(config);
        let mut warnings = Vec::new();
        let provider = Arc::new(provider(config, &mut warnings)?);
        let versions =
            chosen("tls-protocols", &mut warnings, suites::protocols(&tls.tls_protocols.lossy()))?;
        if tls.tls_dh_params_file.is_some() {
            warnings.push(
                "tls-dh-params-file is ignored: keys are exchanged over elliptic curves only"
                    .into(),
            );
        }
        let (shown, server) = own(config, Shown::ToClients, &provider)?;
        warnings.extend(old_version(config, Shown::ToClients, &server));
        let (authorities, authority) = authorities(config)?;
        let verifier = verifier(config, authorities, &provider)?;
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| Trouble::new("tls-protocols", error))?;
        let mut handshake = builder.with_client_cert_verifier(verifier).with_cert_resolver(shown);
        handshake.ignore_client_order = tls.tls_prefer_server_ciphers;
        if tls.tls_session_caching {
            let lifetime = Duration::from_secs(tls.tls_session_cache_timeout.max(0) as u64);
            handshake.session_storage =
                Sessions::new(tls.tls_session_cache_size.max(0) as usize, lifetime);
        } else {
            handshake.session_storage = Arc::new(NoServerSessionStorage {});
            handshake.send_tls13_tickets = 0;
        }
        let client = match &tls.tls_client_cert_file {
            None => None,
            file => {
                let name = "tls-client-cert-file";
                let client = facts((name, file), &chain(name, file.as_deref())?)?;
                warnings.extend(old_version(config, Shown::ToServers, &client));
                Some(client)
            }
        };
        Ok(Settings { handshake: Arc::new(handshake), server, client, authority, stamps, warnings })
    }
}

/// Lengths and times of the files that a configuration names, by which a change is found.
#[derive(Debug, Eq, PartialEq)]
pub struct Stamps(Vec<(PathBuf, Option<(u64, SystemTime)>)>);

impl Stamps {
    /// Reads the present state of the files.
    pub fn of(config: &Config) -> Self {
        let tls = &config.tls;
        let files = [
            &tls.tls_cert_file,
            &tls.tls_key_file,
            &tls.tls_client_cert_file,
            &tls.tls_ca_cert_file,
        ];
        let mut paths: Vec<PathBuf> = files.into_iter().flatten().cloned().collect();
        if let Some(Ok(entries)) = tls.tls_ca_cert_dir.as_ref().map(std::fs::read_dir) {
            paths.extend(entries.take(DIRECTORY_FILES_MAX).flatten().map(|entry| entry.path()));
        }
        paths.sort();
        let stamp = |path: PathBuf| {
            let about = std::fs::metadata(&path).ok();
            let stamp = about.and_then(|about| Some((about.len(), about.modified().ok()?)));
            (path, stamp)
        };
        Stamps(paths.into_iter().map(stamp).collect())
    }
}

pub(super) fn provider(
    config: &Config,
    warnings: &mut Vec<String>,
) -> Result<CryptoProvider, Trouble> {
    let tls = &config.tls;
    let newer = suites::ciphersuites(&tls.tls_ciphersuites.lossy());
    let mut cipher_suites = chosen("tls-ciphersuites", warnings, newer)?;
    let older = suites::ciphers(&tls.tls_ciphers.lossy());
    cipher_suites.extend(chosen("tls-ciphers", warnings, older)?);
    Ok(CryptoProvider { cipher_suites, ..ring::default_provider() })
}

fn chosen<T>(
    name: &'static str,
    warnings: &mut Vec<String>,
    choice: Result<suites::Choice<T>, String>,
) -> Result<Vec<T>, Trouble> {
    let choice = choice.map_err(|reason| Trouble::new(name, reason))?;
    let left_out = choice.left_out.iter();
    warnings.extend(left_out.map(|word| format!("{name}: {word} is not supported and is ignored")));
    Ok(choice.chosen)
}

fn read(name: &'static str, path: &Path) -> Result<Vec<u8>, Trouble> {
    let trouble = |reason: &dyn fmt::Display| {
        Trouble::new(name, format_args!("{}: {reason}", path.display()))
    };
    let about = std::fs::metadata(path).map_err(|error| trouble(&error))?;
    if !about.is_file() || about.len() > FILE_BYTES_MAX {
        return Err(trouble(&"it is not a file of certificates or keys"));
    }
    std::fs::read(path).map_err(|error| trouble(&error))
}

/// The certificates of a file, of which there is at least one.
pub(super) fn chain(
    name: &'static str,
    path: Option<&Path>,
) -> Result<Vec<CertificateDer<'static>>, Trouble> {
    let path = path.ok_or_else(|| Trouble::new(name, "it must be set where tls-port is"))?;
    let text = read(name, path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => {
            Err(Trouble::new(name, format_args!("{}: it holds no certificate", path.display())))
        }
        Err(error) => Err(Trouble::new(name, format_args!("{}: {error}", path.display()))),
    }
}

fn facts(
    (name, path): (&'static str, &Option<PathBuf>),
    chain: &[CertificateDer<'_>],
) -> Result<Certificate, Trouble> {
    let path = path.as_deref().unwrap_or(Path::new(""));
    let first = chain.first().and_then(Certificate::read);
    first.ok_or_else(|| {
        let reason = format_args!("{}: its first certificate cannot be read", path.display());
        Trouble::new(name, reason)
    })
}

/// The peers that a certificate of this server is shown to.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Shown {
    ToClients,
    ToServers,
}

/// A parameter, and the file that it names.
type Named<'a> = (&'static str, &'a Option<PathBuf>);

impl Shown {
    /// The parameters of the certificate and of its key.
    fn files(self, config: &Config) -> (Named<'_>, Named<'_>) {
        let tls = &config.tls;
        match self {
            Shown::ToServers if tls.tls_client_cert_file.is_some() => (
                ("tls-client-cert-file", &tls.tls_client_cert_file),
                ("tls-client-key-file", &tls.tls_client_key_file),
            ),
            _ => (("tls-cert-file", &tls.tls_cert_file), ("tls-key-file", &tls.tls_key_file)),
        }
    }
}

/// A certificate of this server with its key, and its contents. It may be of any version of X.509:
/// whether to trust it is its peers' decision.
pub(super) fn own(
    config: &Config,
    shown: Shown,
    provider: &CryptoProvider,
) -> Result<(Arc<SingleCertAndKey>, Certificate), Trouble> {
    let tls = &config.tls;
    let (certificate, key) = shown.files(config);
    let chain = chain(certificate.0, certificate.1.as_deref())?;
    let facts = facts(certificate, &chain)?;
    let password = match key.0 {
        "tls-client-key-file" => &tls.tls_client_key_file_pass,
        _ => &tls.tls_key_file_pass,
    };
    let private = key_of(key.0, key.1.as_deref(), password)?;
    let of = |(_, path): Named<'_>| path.as_deref().unwrap_or(Path::new("")).display().to_string();
    let signer = provider
        .key_provider
        .load_private_key(private)
        .map_err(|error| Trouble::new(key.0, format_args!("{}: {error}", of(key))))?;
    // rustls compares them too, but reads no certificate below version 3.
    if signer.public_key().is_some_and(|public| *public != facts.public_key[..]) {
        let reason = format_args!(
            "{}: it is not the key of the certificate in {} ({})",
            of(key),
            of(certificate),
            certificate.0
        );
        return Err(Trouble::new(key.0, reason));
    }
    Ok((Arc::new(CertifiedKey::new(chain, signer).into()), facts))
}

/// The warning about a certificate of this server that some peers refuse because of its version.
fn old_version(config: &Config, shown: Shown, facts: &Certificate) -> Option<String> {
    let (name, path) = shown.files(config).0;
    let peers = match shown {
        Shown::ToClients => "clients that check names, and those that use rustls",
        Shown::ToServers => "servers that use rustls, as Petrel does",
    };
    let path = path.as_deref()?.display();
    let version = facts.version;
    (version < 3).then(|| {
        format!(
            "{name}: {path} holds a certificate of X.509 version {version}, which {peers} refuse; {MAKE_VERSION_3}"
        )
    })
}

/// The private key of a file, decrypted if it has a password.
fn key_of(
    name: &'static str,
    path: Option<&Path>,
    password: &Secret,
) -> Result<PrivateKeyDer<'static>, Trouble> {
    let path = path.ok_or_else(|| Trouble::new(name, "it must be set where its certificate is"))?;
    let text = read(name, path)?;
    let trouble = |reason: &dyn fmt::Display| {
        Trouble::new(name, format_args!("{}: {reason}", path.display()))
    };
    let text = std::str::from_utf8(&text).map_err(|_| trouble(&"it is not a PEM file"))?;
    if text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") {
        return decrypted(name, text, password).map_err(|reason| trouble(&reason));
    }
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err(trouble(
            &"its form of encryption is obsolete: convert it with `openssl pkcs8 -topk8`",
        ));
    }
    PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| trouble(&error))
}

fn decrypted(name: &str, text: &str, password: &Secret) -> Result<PrivateKeyDer<'static>, String> {
    if !password.is_set() {
        return Err(format!("it is encrypted and {name}-pass is not set"));
    }
    let start = text.find("-----BEGIN ENCRYPTED").unwrap_or(0);
    let (_, der) =
        pkcs8::der::pem::decode_vec(text[start..].trim().as_bytes()).map_err(|e| e.to_string())?;
    let info = pkcs8::EncryptedPrivateKeyInfo::try_from(&der[..]).map_err(|e| e.to_string())?;
    let key = info.decrypt(password.bytes());
    let key = key.map_err(|_| format!("it cannot be decrypted with {name}-pass"))?;
    Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}

/// The authorities of the file and the directory, and the one that ends first.
pub(super) fn authorities(
    config: &Config,
) -> Result<(RootCertStore, Option<Certificate>), Trouble> {
    type Place = (&'static str, PathBuf);
    let mut found: HashMap<CertificateDer<'static>, Place> = HashMap::new();
    if let Some(path) = config.tls.tls_ca_cert_file.as_deref() {
        let place = || ("tls-ca-cert-file", path.to_owned());
        found.extend(chain("tls-ca-cert-file", Some(path))?.into_iter().map(|der| (der, place())));
    }
    if let Some(path) = config.tls.tls_ca_cert_dir.as_deref() {
        let trouble = |error: std::io::Error| {
            Trouble::new("tls-ca-cert-dir", format_args!("{}: {error}", path.display()))
        };
        for entry in std::fs::read_dir(path).map_err(trouble)?.take(DIRECTORY_FILES_MAX) {
            let path = entry.map_err(trouble)?.path();
            let place = || ("tls-ca-cert-dir", path.clone());
            // Other files may lie there too.
            let chain = chain("tls-ca-cert-dir", Some(&path)).unwrap_or_default();
            found.extend(chain.into_iter().map(|der| (der, place())));
        }
    }
    let mut roots = RootCertStore::empty();
    let mut first: Option<Certificate> = None;
    for (der, (name, path)) in found {
        let facts = Certificate::read(&der);
        let version = facts.as_ref().map_or(0, |facts| facts.version);
        if let Some(facts) = facts
            && first.as_ref().is_none_or(|first| facts.ends_at < first.ends_at)
        {
            first = Some(facts);
        }
        roots.add(der).map_err(|error| unusable_authority(name, &path, version, &error))?;
    }
    Ok((roots, first))
}

/// The reason why a certificate cannot be an authority. Those of versions 1 and 3 can.
fn unusable_authority(
    name: &'static str,
    path: &Path,
    version: u8,
    error: &rustls::Error,
) -> Trouble {
    let path = path.display();
    if version == 2 {
        let reason = format_args!(
            "{path}: a certificate of X.509 version 2 cannot be an authority; make one of version 3, for instance \
             `openssl req -x509 -newkey rsa:3072 -nodes -days 3650 -subj /CN=authority -keyout ca.key -out ca.crt`"
        );
        return Trouble::new(name, reason);
    }
    Trouble::new(name, format_args!("{path}: a certificate cannot be an authority: {error}"))
}

fn verifier(
    config: &Config,
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Trouble> {
    let auth = config.tls.tls_auth_clients;
    if auth == AuthClients::No {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    if roots.is_empty() {
        let reason =
            "it or tls-ca-cert-dir must name an authority while tls-auth-clients is not 'no'";
        return Err(Trouble::new("tls-ca-cert-file", reason));
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let builder = match auth {
        AuthClients::Optional => builder.allow_unauthenticated(),
        _ => builder,
    };
    builder.build().map_err(|error| Trouble::new("tls-ca-cert-file", error))
}
