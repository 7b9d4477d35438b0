//! Parameters of TLS, with the names and values of Redis and Valkey; lists of ciphers use OpenSSL's
//! names.

use std::path::PathBuf;

use super::params::{Config, I32_MAX, parameters};
use super::table::{Group, Mutability::*, Param};
use super::types::{AuthClients, IdentityField, PeerNames, Text};
use super::value::{Rule::*, Secret, Value};

parameters! {
/// Parameters of TLS.
Tls, TLS, |config| config.tls;

Tls {
    tls_port: u16 = "tls-port", Number { min: 0, max: 65535 }, "0", Runtime,
        "TCP port to listen on for TLS, on the addresses of bind; 0 turns it off";
    tls_cert_file: Option<PathBuf> = "tls-cert-file", Path, "", Reloads,
        "PEM file of the server's certificate and its chain; setting it, even to the same path, reads it again";
    tls_key_file: Option<PathBuf> = "tls-key-file", Path, "", Reloads,
        "PEM file of the certificate's private key";
    tls_key_file_pass: Secret = "tls-key-file-pass", Password, "", Reloads,
        "Password of the private key, if it is encrypted (PKCS #8)";
    tls_client_cert_file: Option<PathBuf> = "tls-client-cert-file", Path, "", Reloads,
        "Certificate for connections to other servers: to the primary with tls-replication";
    tls_client_key_file: Option<PathBuf> = "tls-client-key-file", Path, "", Reloads, "Private key of tls-client-cert-file";
    tls_client_key_file_pass: Secret = "tls-client-key-file-pass", Password, "", Reloads, "Password of tls-client-key-file";
    tls_ca_cert_file: Option<PathBuf> = "tls-ca-cert-file", Path, "", Reloads,
        "PEM file of the authorities trusted to sign clients' certificates";
    tls_ca_cert_dir: Option<PathBuf> = "tls-ca-cert-dir", Path, "", Reloads,
        "Directory of such files";
    tls_dh_params_file: Option<PathBuf> = "tls-dh-params-file", Path, "", Reloads,
        "Ignored with a warning: keys are exchanged over elliptic curves only";
    tls_auth_clients: AuthClients = "tls-auth-clients", OneOf(AuthClients::NAMES), "yes", Runtime,
        "Whether clients must present a certificate, may present one, or are not asked";
    tls_auth_clients_user: IdentityField = "tls-auth-clients-user", OneOf(IdentityField::NAMES), "off", Runtime,
        "Field of a client's certificate with the name of its user";
    tls_expected_peer_name: PeerNames = "tls-expected-peer-name", Names, "", Runtime,
        "Names of which the primary's certificate must have one, separated by spaces; empty accepts any name";
    tls_auto_reload_interval: i64 = "tls-auto-reload-interval", Number { min: 0, max: I32_MAX }, "0", Runtime,
        "Seconds between checks whether the files have changed, to read them again; 0 never checks";
    tls_protocols: Text = "tls-protocols", AnyText, "", Reloads,
        "Versions, of TLSv1.2 and TLSv1.3; empty is both";
    tls_ciphers: Text = "tls-ciphers", AnyText, "", Reloads,
        "Ciphers of TLS 1.2 in OpenSSL's syntax, among those with ECDHE and AES-GCM or ChaCha20-Poly1305; empty is all";
    tls_ciphersuites: Text = "tls-ciphersuites", AnyText, "", Reloads,
        "Cipher suites of TLS 1.3; empty is all";
    tls_prefer_server_ciphers: bool = "tls-prefer-server-ciphers", YesNo, "no", Runtime,
        "Choose ciphers by this server's order instead of the client's";
    tls_session_caching: bool = "tls-session-caching", YesNo, "yes", Runtime, "Let clients resume sessions";
    tls_session_cache_size: i64 = "tls-session-cache-size", Number { min: 0, max: I32_MAX }, "20480", Runtime,
        "Number of sessions to keep; 0 is a million";
    tls_session_cache_timeout: i64 = "tls-session-cache-timeout", Number { min: 0, max: I32_MAX }, "300", Runtime,
        "Seconds for which a session is kept";
}
}
