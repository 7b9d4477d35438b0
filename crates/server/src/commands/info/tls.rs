//! The certificates in use, as Valkey shows them.

use super::Report;
use crate::tls::Certificate;
use crate::unix_time::unix_ms;

pub(super) fn tls(report: &mut Report<'_>) {
    let settings = report.server.tls.lock().clone();
    let settings = settings.as_deref();
    certificate(report, "server", settings.map(|settings| &settings.server));
    certificate(report, "client", settings.and_then(|settings| settings.client.as_ref()));
    certificate(report, "ca", settings.and_then(|settings| settings.authority.as_ref()));
}

fn certificate(report: &mut Report<'_>, whose: &str, certificate: Option<&Certificate>) {
    let serial = certificate.map_or("none", |certificate| &certificate.serial);
    report.field(&format!("tls_{whose}_cert_serial"), serial);
    let left = certificate.map_or(0, |certificate| certificate.ends_at - unix_ms() / 1000);
    report.field(&format!("tls_{whose}_cert_expires_in_seconds"), left);
}
