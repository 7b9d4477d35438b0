//! Fields that the server itself reads from certificates. rustls decides whether to trust one.

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate as X509;
use x509_cert::der::asn1::{PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The attribute `commonName` (RFC 4519).
const COMMON_NAME: &str = "2.5.4.3";

/// Names longer than this are taken for none.
const NAME_BYTES_MAX: usize = 1024;

/// Serial number, end and names of a certificate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Certificate {
    /// In hexadecimal digits, upper case.
    pub serial: String,
    /// Unix time in seconds at which it ends.
    pub ends_at: i64,
    /// The common name of its subject; none if it holds a zero byte, which others might take for
    /// its end.
    pub common_name: Option<String>,
    /// URIs among its alternative names.
    pub uris: Vec<String>,
    /// The version of X.509, from 1 to 3. One below 3 has no extensions: no alternative names, no
    /// constraints.
    pub version: u8,
    /// The public key of a certificate, as `SubjectPublicKeyInfo` in DER.
    pub public_key: Vec<u8>,
}

/// The OpenSSL command that makes a certificate of version 3.
pub const MAKE_VERSION_3: &str = "sign the request again with an extension, for instance \
     `openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -extfile extensions.cnf -out \
     server.crt`, where extensions.cnf holds the line `subjectAltName=DNS:server.example.com`";

impl Certificate {
    /// Reads a certificate; `None` if it is none.
    pub fn read(der: &CertificateDer<'_>) -> Option<Self> {
        let certificate = X509::from_der(der).ok()?;
        let body = &certificate.tbs_certificate;
        let digits = body.serial_number.as_bytes().iter().map(|byte| format!("{byte:02X}"));
        Some(Certificate {
            serial: digits.collect(),
            ends_at: body.validity.not_after.to_unix_duration().as_secs() as i64,
            common_name: common_name(&certificate),
            uris: uris(&certificate),
            version: body.version as u8 + 1,
            public_key: body.subject_public_key_info.to_der().ok()?,
        })
    }
}

fn common_name(certificate: &X509) -> Option<String> {
    let mut parts = certificate.tbs_certificate.subject.0.iter().flat_map(|part| part.0.iter());
    let name = parts.rfind(|part| part.oid.to_string() == COMMON_NAME)?;
    let text = |name: &str| name.to_owned();
    let value = &name.value;
    let name = Utf8StringRef::try_from(value).map(|name| text(name.as_str()));
    let name = name.or_else(|_| PrintableStringRef::try_from(value).map(|n| text(n.as_str())));
    let name = name.or_else(|_| TeletexStringRef::try_from(value).map(|n| text(n.as_str())));
    name.ok().filter(|name| is_name(name))
}

fn uris(certificate: &X509) -> Vec<String> {
    let Ok(Some((_, names))) = certificate.tbs_certificate.get::<SubjectAltName>() else {
        return Vec::new();
    };
    let uris = names.0.iter().filter_map(|name| match name {
        GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_str().to_owned()),
        _ => None,
    });
    uris.filter(|name| is_name(name)).collect()
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains('\0')
}
