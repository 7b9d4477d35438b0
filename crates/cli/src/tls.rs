//! TLS of a connection.

use std::io;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

use crate::options::TlsOptions;

/// Default time limit of a handshake: a port without TLS may never answer it.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Makes the handshake with a server; its certificate must be for `name`.
///
/// # Errors
/// Names the file, or the reason of the handshake's failure.
pub fn client(
    options: &TlsOptions,
    name: &str,
    mut stream: TcpStream,
    timeout: Option<Duration>,
) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
    let config = config(options)?;
    let name = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
    let mut session =
        ClientConnection::new(Arc::new(config), name).map_err(|error| error.to_string())?;
    let limit = timeout.unwrap_or(HANDSHAKE_TIMEOUT);
    stream.set_read_timeout(Some(limit)).map_err(|error| error.to_string())?;
    while session.is_handshaking() {
        session.complete_io(&mut stream).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                "no answer in time: is it a port with TLS?".to_owned()
            }
            _ => error.to_string(),
        })?;
    }
    stream.set_read_timeout(None).map_err(|error| error.to_string())?;
    Ok(StreamOwned::new(session, stream))
}

fn config(options: &TlsOptions) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if options.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(Insecure(provider)))
    } else {
        builder.with_root_certificates(roots(options)?)
    };
    match (&options.cert, &options.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(cert), Some(key)) => {
            let chain = certificates(cert)?;
            let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| at(key, error))?;
            builder.with_client_auth_cert(chain, key_der).map_err(|error| at(key, error))
        }
        _ => Err("--cert and --key are given together".into()),
    }
}

/// The trusted certificates: of the files named, or the system's.
fn roots(options: &TlsOptions) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = &options.cacert {
        for certificate in certificates(file)? {
            roots.add(certificate).map_err(|error| at(file, error))?;
        }
    }
    if let Some(dir) = &options.cacertdir {
        for entry in std::fs::read_dir(dir).map_err(|error| at(dir, error))? {
            let path = entry.map_err(|error| at(dir, error))?.path();
            // Other files may lie there.
            roots.add_parsable_certificates(certificates(&path).unwrap_or_default());
        }
        if roots.is_empty() {
            return Err(at(dir, "no file there is a certificate"));
        }
    }
    if options.cacert.is_none() && options.cacertdir.is_none() {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("this system trusts no certificates: give --cacert or --cacertdir".into());
        }
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).map_err(|error| at(file, error))?.collect();
    let all = all.map_err(|error| at(file, error))?;
    if all.is_empty() { Err(at(file, "no certificate in PEM form")) } else { Ok(all) }
}

fn at(path: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// Accepts any certificate: `--insecure`.
#[derive(Debug)]
struct Insecure(Arc<CryptoProvider>);

impl ServerCertVerifier for Insecure {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
