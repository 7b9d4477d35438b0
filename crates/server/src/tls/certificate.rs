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
    /// DNS names among its alternative names.
    pub dns_names: Vec<String>,
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
            uris: alternative_names(&certificate, |name| match name {
                GeneralName::UniformResourceIdentifier(uri) => Some(uri.as_str()),
                _ => None,
            }),
            dns_names: alternative_names(&certificate, |name| match name {
                GeneralName::DnsName(name) => Some(name.as_str()),
                _ => None,
            }),
            version: body.version as u8 + 1,
            public_key: body.subject_public_key_info.to_der().ok()?,
        })
    }

    /// Whether the certificate has one of these names among its DNS names; if it has no DNS name,
    /// its common name counts.
    pub fn has_name<'n>(&self, mut wanted: impl Iterator<Item = &'n str>) -> bool {
        let common_name = self.common_name.as_slice();
        let names = if self.dns_names.is_empty() { common_name } else { &self.dns_names };
        wanted.any(|wanted| names.iter().any(|name| stands_for(name, wanted)))
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

fn alternative_names(
    certificate: &X509,
    text: impl Fn(&GeneralName) -> Option<&str>,
) -> Vec<String> {
    let Ok(Some((_, names))) = certificate.tbs_certificate.get::<SubjectAltName>() else {
        return Vec::new();
    };
    let names = names.0.iter().filter_map(text).map(str::to_owned);
    names.filter(|name| is_name(name)).collect()
}

/// Whether a name of a certificate stands for the wanted one: both are equal, in any case, or the
/// first label is `*`.
fn stands_for(name: &str, wanted: &str) -> bool {
    if name.eq_ignore_ascii_case(wanted) {
        return true;
    }
    let parent = name.strip_prefix("*.").filter(|parent| parent.contains('.'));
    let wanted = wanted.split_once('.').filter(|(label, _)| !label.is_empty());
    parent.zip(wanted).is_some_and(|(parent, (_, wanted))| parent.eq_ignore_ascii_case(wanted))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_label() {
        let cases = [
            ("redis.local", "Redis.LOCAL", true),
            ("redis.local", "redis.locals", false),
            ("*.example.com", "a.example.com", true),
            ("*.example.com", "a.b.example.com", false),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("*.com", "example.com", false),
            ("a*.example.com", "ab.example.com", false),
            ("*", "a", false),
        ];
        for (name, wanted, expected) in cases {
            assert_eq!(stands_for(name, wanted), expected, "{name} {wanted}");
        }
    }
}
