//! Authentication: nodes present certificates of the cluster's authority. Its private key is
//! derived from the passphrase.
//!
//! ```text
//! passphrase, cluster name --Argon2id--> secret --HKDF--> Ed25519 key of the authority
//! node.key    generated once per directory; its certificate is issued at each start, and daily
//! ```
//!
//! Both sides of each connection present a certificate and verify the other's, against the current
//! or the previous passphrase. A node presents the one that the other side requests, so that
//! passphrases can be changed one node after another. Certificates contain no host names: a node is
//! identified by its public key, which the cluster has bound to its uuid.
//!
//! A recorded handshake allows guessing passphrases offline, at 64 MiB and three passes of Argon2id
//! each: passphrases should be long.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use ring::{digest, hkdf};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use zeroize::Zeroizing;

/// KiB of memory and passes of Argon2id.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// DER prefix of a PKCS #8 Ed25519 key; the 32 bytes of the seed follow (RFC 8410).
const PKCS8_ED25519: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Error of making keys or certificates.
#[derive(Debug)]
pub struct TrustError(String);

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TrustError {}

fn because(what: &str) -> impl Fn(rcgen::Error) -> TrustError {
    move |error| TrustError(format!("{what}: {error}"))
}

/// Authority that signs the certificates for one passphrase.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

/// Keys of a node.
pub(crate) struct Trust {
    name: String,
    uuid: u128,
    leaf: KeyPair,
    /// SHA-256 of the public key, which the cluster binds to the uuid.
    pub key: [u8; 32],
    /// For the current passphrase, then the previous one.
    authorities: Vec<Authority>,
}

/// TLS configurations for connections.
pub(crate) struct Credentials {
    pub client: Arc<ClientConfig>,
    pub server: Arc<ServerConfig>,
}

impl Trust {
    /// Loads the keys of a node from its directory; generates a node key if there is none.
    ///
    /// # Errors
    /// If the key can neither be read nor generated.
    pub fn new<'a>(
        name: &str,
        uuid: u128,
        directory: &Path,
        passphrases: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, TrustError> {
        let leaf = node_key(&directory.join("node.key"))?;
        let authority = |passphrase| Authority::of(name, passphrase);
        let authorities: Result<Vec<Authority>, _> =
            passphrases.into_iter().map(authority).collect();
        let authorities = authorities?;
        let mut trust = Trust { name: name.into(), uuid, leaf, key: [0; 32], authorities };
        let first = trust.authorities.first();
        let first = first.ok_or_else(|| TrustError("there is no passphrase".into()))?;
        let certificate = trust.certificate(first, SystemTime::now())?;
        trust.key = key_of(&certificate)
            .ok_or_else(|| TrustError("node.key makes no readable certificate".into()))?;
        Ok(trust)
    }

    fn certificate(
        &self,
        authority: &Authority,
        now: SystemTime,
    ) -> Result<CertificateDer<'static>, TrustError> {
        let failed = "the node's certificate cannot be made";
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, format!("{:032x}", self.uuid));
        let uri = format!("petrel://{}/{:032x}", hex(self.name.as_bytes()), self.uuid);
        let uri = uri.try_into().map_err(because(failed))?;
        params.subject_alt_names.push(SanType::URI(uri));
        // Clocks of nodes may differ.
        params.not_before = (now - DAY).into();
        params.not_after = (now + 30 * DAY).into();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let signed = params.signed_by(&self.leaf, &authority.issuer);
        Ok(signed.map_err(because(failed))?.der().clone())
    }

    /// Issues certificates valid now, and builds the TLS configurations.
    ///
    /// # Errors
    /// If that fails.
    pub fn mint(&self, now: SystemTime) -> Result<Credentials, TrustError> {
        let refused = |error: &dyn fmt::Display| TrustError(format!("TLS: {error}"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        let mut shown = Vec::new();
        for authority in &self.authorities {
            roots.add(authority.certificate.clone()).map_err(|error| refused(&error))?;
            let key = PrivatePkcs8KeyDer::from(self.leaf.serialize_der());
            let key = provider.key_provider.load_private_key(PrivateKeyDer::Pkcs8(key));
            let key = key.map_err(|error| refused(&error))?;
            let certificate = self.certificate(authority, now)?;
            shown.push(Arc::new(CertifiedKey::new(vec![certificate], key)));
        }
        let subjects = roots.subjects();
        let shown = subjects.iter().cloned().zip(shown).collect();
        let shown = Arc::new(NodeCertificates(shown));
        let roots = Arc::new(roots);
        let clients = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
        let clients = clients.build().map_err(|error| refused(&error))?;
        let versions = [&rustls::version::TLS13];
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| refused(&error))?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(shown.clone());
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let servers = Arc::new(ClusterVerifier { roots, subjects, provider: provider.clone() });
        let mut client = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| refused(&error))?
            .dangerous()
            .with_custom_certificate_verifier(servers)
            .with_client_cert_resolver(shown);
        client.resumption = Resumption::disabled();
        Ok(Credentials { client: Arc::new(client), server: Arc::new(server) })
    }
}

impl Authority {
    fn of(name: &str, passphrase: &str) -> Result<Self, TrustError> {
        let seed = authority_seed(name, passphrase)?;
        let mut document = Zeroizing::new(PKCS8_ED25519.to_vec());
        document.extend_from_slice(&*seed);
        let failed = "the cluster's authority cannot be made";
        let key = KeyPair::try_from(document.as_slice()).map_err(because(failed))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        // The other side is asked for this name, so it distinguishes passphrases.
        let mark = digest::digest(&digest::SHA256, key.public_key_raw());
        let subject = format!("petrel {}", hex(&mark.as_ref()[..16]));
        params.distinguished_name.push(DnType::CommonName, subject);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).map_err(because(failed))?.der().clone();
        Ok(Authority { issuer: Issuer::new(params, key), certificate })
    }
}

fn authority_seed(name: &str, passphrase: &str) -> Result<Zeroizing<[u8; 32]>, TrustError> {
    let failed = |error: &dyn fmt::Display| TrustError(format!("the passphrase: {error}"));
    let salt = digest::digest(&digest::SHA256, name.as_bytes());
    let params = argon2::Params::new(MEMORY_KIB, PASSES, 1, Some(32));
    let params = params.map_err(|error| failed(&error))?;
    let argon2 = argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
    let mut secret = Zeroizing::new([0; 32]);
    argon2
        .hash_password_into(passphrase.as_bytes(), salt.as_ref(), &mut *secret)
        .map_err(|error| failed(&error))?;
    let mut seed = Zeroizing::new([0; 32]);
    let key = hkdf::Salt::new(hkdf::HKDF_SHA256, b"petrel cluster").extract(&*secret);
    key.expand(&[b"authority, Ed25519"], hkdf::HKDF_SHA256)
        .and_then(|material| material.fill(&mut *seed))
        .map_err(|error| failed(&error))?;
    Ok(seed)
}

/// Loads the key from a file readable only by its owner; generates it if the file does not exist.
fn node_key(path: &Path) -> Result<KeyPair, TrustError> {
    let failed = |error: &dyn fmt::Display| TrustError(format!("{}: {error}", path.display()));
    match File::open(path) {
        Ok(mut file) => {
            let mut text = Zeroizing::new(String::new());
            file.read_to_string(&mut text).map_err(|error| failed(&error))?;
            KeyPair::from_pem(&text).map_err(|error| failed(&error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let key = KeyPair::generate_for(&rcgen::PKCS_ED25519);
            let key = key.map_err(|error| failed(&error))?;
            let text = Zeroizing::new(key.serialize_pem());
            let draft = path.with_extension("key.new");
            let write = || {
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(true).mode(0o600);
                let mut file = options.open(&draft)?;
                file.write_all(text.as_bytes())?;
                file.sync_all()?;
                std::fs::rename(&draft, path)
            };
            write().map_err(|error| failed(&error))?;
            Ok(key)
        }
        Err(error) => Err(failed(&error)),
    }
}

/// SHA-256 of a certificate's public key.
pub(crate) fn key_of(certificate: &CertificateDer<'_>) -> Option<[u8; 32]> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let key = parsed.subject_public_key_info();
    digest::digest(&digest::SHA256, key.as_ref()).as_ref().try_into().ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The node's certificates, by their authority.
struct NodeCertificates(Vec<(DistinguishedName, Arc<CertifiedKey>)>);

impl NodeCertificates {
    fn for_authorities(&self, wanted: &[&[u8]]) -> Option<Arc<CertifiedKey>> {
        let fits = |(subject, _): &&(DistinguishedName, _)| wanted.contains(&subject.as_ref());
        // A peer that requests another authority gets this one, and reports the mismatch.
        let key = self.0.iter().find(fits).or(self.0.first());
        key.map(|(_, key)| key.clone())
    }
}

impl fmt::Debug for NodeCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeCertificates")
    }
}

impl ResolvesClientCert for NodeCertificates {
    fn resolve(&self, hints: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.for_authorities(hints)
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl ResolvesServerCert for NodeCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let wanted = hello.certificate_authorities().unwrap_or_default();
        let wanted: Vec<&[u8]> = wanted.iter().map(AsRef::as_ref).collect();
        self.for_authorities(&wanted)
    }
}

/// Verifies certificates of the cluster's authorities, regardless of host names.
#[derive(Debug)]
struct ClusterVerifier {
    roots: Arc<RootCertStore>,
    subjects: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ClusterVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            self.provider.signature_verification_algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 only".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }

    fn root_hint_subjects(&self) -> Option<&[DistinguishedName]> {
        Some(&self.subjects)
    }
}
