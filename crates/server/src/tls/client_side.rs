//! TLS of connections that this server makes: to the primary that it follows.

use super::certificate::{Certificate, MAKE_VERSION_3};
use super::settings::{Shown, Trouble, authorities, own, provider};
use super::suites;
use crate::config::{Config, PeerNames};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// Settings of connections to other servers: the certificate to present, and the authorities to
/// trust.
///
/// # Errors
/// The invalid parameter and the reason.
pub(crate) fn client_settings(config: &Config) -> Result<ClientConfig, Trouble> {
    let tls = &config.tls;
    let mut warnings = Vec::new();
    let provider = Arc::new(provider(config, &mut warnings)?);
    let versions = suites::protocols(&tls.tls_protocols.lossy());
    let versions = versions.map_err(|reason| Trouble::new("tls-protocols", reason))?.chosen;
    let (roots, _) = authorities(config)?;
    if roots.is_empty() {
        let reason = "it or tls-ca-cert-dir must name the authority of the primary's certificate";
        return Err(Trouble::new("tls-ca-cert-file", reason));
    }
    let names = tls.tls_expected_peer_name.clone();
    let verifier = Arc::new(ByAuthority { roots, provider: provider.clone(), names });
    let provider_of_keys = provider.clone();
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&versions)
        .map_err(|error| Trouble::new("tls-protocols", error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    if tls.tls_client_cert_file.is_none() && tls.tls_cert_file.is_none() {
        return Ok(builder.with_no_client_auth());
    }
    let (shown, _) = own(config, Shown::ToServers, &provider_of_keys)?;
    Ok(builder.with_client_cert_resolver(shown))
}

/// Accepts a server's certificate if a trusted authority has signed it and it has one of the
/// expected names, if there are some. The address is not compared with the names: it may come from
/// others, such as a sentinel.
#[derive(Debug)]
struct ByAuthority {
    roots: RootCertStore,
    provider: Arc<CryptoProvider>,
    names: PeerNames,
}

impl ByAuthority {
    fn check_name(&self, certificate: &CertificateDer<'_>) -> Result<(), Error> {
        let facts = Certificate::read(certificate);
        let mut names = self.names.names().peekable();
        if names.peek().is_none() || facts.is_some_and(|facts| facts.has_name(names)) {
            return Ok(());
        }
        Err(Error::General(
            "certificate verify failed: the primary's certificate has none of the names of \
             tls-expected-peer-name"
                .into(),
        ))
    }
}

impl ServerCertVerifier for ByAuthority {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity).map_err(|error| {
            match Certificate::read(end_entity) {
                Some(facts) if facts.version < 3 => Error::General(format!(
                    "the certificate of the primary (its tls-cert-file) is of X.509 version {}, which cannot be \
                     verified; {MAKE_VERSION_3}",
                    facts.version
                )),
                _ => error,
            }
        })?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        self.check_name(end_entity)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
