//! The TLS port, with rustls as a client, and with peers that send garbage.

use crate::harness::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::Arc;

with_each_backend!(
    commands_of_every_size_in_both_versions,
    clients_show_a_certificate_of_an_authority_that_is_trusted,
    certificates_are_read_again_and_bad_ones_refused,
    versions_and_ciphers_are_as_configured,
    what_is_no_tls_closes_that_connection_only,
    a_peer_that_has_ended_its_side_gets_all_of_its_answers,
    a_reader_that_does_not_read_is_closed,
    what_is_withheld_waits,
    the_port_opens_and_closes_at_runtime,
    info_tells_of_the_certificates,
    a_certificate_may_say_who_the_client_is,
    redis_8_10_1_common_names_with_a_zero_byte,
    files_that_change_are_found,
    a_replica_expects_names_of_its_primary,
    a_handshake_is_not_waited_for_without_end,
);

/// An authority and the certificates that it has signed: `server` and `client`, in files of their
/// own.
pub struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub fn new(scratch: &Scratch, name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(scratch.path(&format!("{name}.crt")), certificate.pem()).unwrap();
        let authority =
            Authority { certificate: certificate.der().clone(), issuer: Issuer::new(params, key) };
        authority.sign(scratch, "server");
        authority.sign(scratch, "client");
        authority
    }

    /// Writes `name.crt` and `name.key`.
    fn sign(&self, scratch: &Scratch, name: &str) {
        self.sign_as(scratch, name, name);
    }

    /// Signs a certificate with another common name.
    fn sign_as(&self, scratch: &Scratch, name: &str, common_name: &str) {
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(scratch.path(&format!("{name}.crt")), certificate.pem()).unwrap();
        std::fs::write(scratch.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
}

fn identity(
    scratch: &Scratch,
    name: &str,
) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let read = |path: &Path| CertificateDer::from_pem_file(path).unwrap();
    let key = PrivateKeyDer::from_pem_file(scratch.path(&format!("{name}.key"))).unwrap();
    (vec![read(&scratch.path(&format!("{name}.crt")))], key)
}

/// Settings of a client that trusts `authority` and presents the certificate `shown`.
fn client(
    authority: &Authority,
    scratch: &Scratch,
    shown: Option<&str>,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[version]).unwrap().with_root_certificates(roots);
    Arc::new(match shown.map(|name| identity(scratch, name)) {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key).unwrap(),
        None => builder.with_no_client_auth(),
    })
}

pub type Stream = StreamOwned<ClientConnection, TcpStream>;

pub fn connect(port: u16, config: &Arc<ClientConfig>) -> Stream {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config.clone(), name).unwrap(), socket)
}

/// Sends a request and reads `len` bytes of the reply.
fn exchange(stream: &mut Stream, request: &[u8], len: usize) -> std::io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let mut answer = vec![0; len];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn ping(port: u16, config: &Arc<ClientConfig>) -> std::io::Result<()> {
    let answer = exchange(&mut connect(port, config), b"PING\r\n", 7)?;
    assert_eq!(answer, b"+PONG\r\n");
    Ok(())
}

pub struct Fixture {
    pub server: Server,
    authority: Authority,
    port: u16,
}

impl Fixture {
    pub fn start(backend: &str, args: &[&str]) -> Self {
        let scratch = Scratch::new();
        let authority = Authority::new(&scratch, "ca");
        let port = free_port();
        let text = port.to_string();
        let mut all = vec!["--tls-port", &text, "--tls-cert-file", "server.crt"];
        all.extend(["--tls-key-file", "server.key", "--tls-ca-cert-file", "ca.crt"]);
        all.extend(args);
        let server = Server::start_in(scratch, backend, &all);
        Fixture { server, authority, port }
    }

    pub fn client(&self, shown: Option<&str>) -> Arc<ClientConfig> {
        client(&self.authority, &self.server.scratch, shown, &TLS13)
    }

    fn set(&self, pairs: &[&str]) -> String {
        self.server.connect().text(&[&["CONFIG", "SET"], pairs].concat())
    }
}

fn commands_of_every_size_in_both_versions(backend: &str) {
    let fixture = Fixture::start(backend, &[]);
    for version in [&TLS12, &TLS13] {
        let config = client(&fixture.authority, &fixture.server.scratch, Some("client"), version);
        let mut stream = connect(fixture.port, &config);
        for len in [0, 1, 1000, 16_383, 16_384, 16_385, 50_000, 1_000_000, 3_000_000] {
            let value: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
            let mut request = encode(&[b"SET", b"key", &value]);
            request.extend(encode(&[b"PING"]));
            assert_eq!(exchange(&mut stream, &request, 12).unwrap(), b"+OK\r\n+PONG\r\n");
            let wanted = [format!("${len}\r\n").as_bytes(), &value, b"\r\n"].concat().repeat(2);
            let got = exchange(&mut stream, &encode(&[b"GET", b"key"]).repeat(2), wanted.len());
            assert!(got.unwrap() == wanted, "{len}");
        }
        let pipeline: Vec<u8> =
            (0..10_000).flat_map(|i| format!("SET {i} {i}\r\nGET {i}\r\n").into_bytes()).collect();
        let wanted: String = (0..10_000)
            .map(|i: i32| format!("+OK\r\n${}\r\n{i}\r\n", i.to_string().len()))
            .collect();
        let got = exchange(&mut stream, &pipeline, wanted.len()).unwrap();
        assert!(got == wanted.as_bytes());
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        let mut rest = Vec::new();
        assert_eq!(stream.read_to_end(&mut rest).unwrap(), 0, "the end is announced");
    }
    eventually("all are forgotten", || fixture.server.info("connected_clients") == 1);
}

fn clients_show_a_certificate_of_an_authority_that_is_trusted(backend: &str) {
    let fixture = Fixture::start(backend, &[]);
    let others = Scratch::new();
    let other = Authority::new(&others, "other");
    let strange = client(&fixture.authority, &others, Some("client"), &TLS13);
    assert!(ping(fixture.port, &fixture.client(Some("client"))).is_ok());
    assert!(ping(fixture.port, &fixture.client(None)).is_err(), "a certificate is asked for");
    assert!(ping(fixture.port, &strange).is_err(), "it must be signed by the authority");
    assert_eq!(fixture.set(&["tls-auth-clients", "optional"]), "OK");
    assert!(ping(fixture.port, &fixture.client(None)).is_ok());
    assert!(ping(fixture.port, &strange).is_err());
    assert_eq!(fixture.set(&["tls-auth-clients", "no"]), "OK");
    assert!(ping(fixture.port, &fixture.client(None)).is_ok());
    let distrusting = client(&other, &fixture.server.scratch, None, &TLS13);
    assert!(ping(fixture.port, &distrusting).is_err(), "a client that trusts others refuses");
    assert_eq!(fixture.set(&["tls-auth-clients", "yes"]), "OK");
    let mut both = connect(fixture.port, &fixture.client(Some("client")));
    assert_eq!(exchange(&mut both, b"PING\r\n", 7).unwrap(), b"+PONG\r\n");
}

fn certificates_are_read_again_and_bad_ones_refused(backend: &str) {
    let fixture = Fixture::start(backend, &["--tls-auth-clients", "no"]);
    let scratch = &fixture.server.scratch;
    let before = fixture.client(None);
    let mut old = connect(fixture.port, &before);
    assert!(exchange(&mut old, b"PING\r\n", 7).is_ok());
    // Another authority signs the same names; the old connection goes on.
    let others = Scratch::new();
    let other = Authority::new(&others, "other");
    std::fs::copy(others.path("server.crt"), scratch.path("server.crt")).unwrap();
    let refused = fixture.set(&["tls-cert-file", "server.crt"]);
    let text = "Unable to update TLS configuration. Check server logs.";
    assert!(refused.contains(text), "the key is another's: {refused}");
    assert!(ping(fixture.port, &before).is_ok());
    std::fs::copy(others.path("server.key"), scratch.path("server.key")).unwrap();
    let after = client(&other, scratch, None, &TLS13);
    assert!(ping(fixture.port, &after).is_err());
    assert_eq!(fixture.set(&["tls-cert-file", "server.crt", "tls-key-file", "server.key"]), "OK");
    assert!(ping(fixture.port, &after).is_ok() && ping(fixture.port, &before).is_err());
    assert!(exchange(&mut old, b"PING\r\n", 7).is_ok());
    std::fs::write(scratch.path("bad.crt"), "no certificate").unwrap();
    for bad in ["missing.crt", "bad.crt", "/", "server.key"] {
        assert!(fixture.set(&["tls-cert-file", bad]).contains(text), "{bad}");
    }
    for list in ["DEFAULT:NO-SUCH-CIPHER", "AES128-SHA256"] {
        assert!(fixture.set(&["tls-ciphers", list]).contains(text), "{list}");
    }
    assert!(fixture.server.output().contains("NO-SUCH-CIPHER"), "the log says what is wrong");
    assert!(ping(fixture.port, &after).is_ok());
    assert_eq!(fixture.server.connect().text(&["CONFIG", "GET", "tls-ciphers"]), "[tls-ciphers ]");
}

fn versions_and_ciphers_are_as_configured(backend: &str) {
    let fixture =
        Fixture::start(backend, &["--tls-auth-clients", "no", "--tls-protocols", "TLSv1.2"]);
    let with = |version| client(&fixture.authority, &fixture.server.scratch, None, version);
    assert!(
        ping(fixture.port, &with(&TLS12)).is_ok() && ping(fixture.port, &with(&TLS13)).is_err()
    );
    assert_eq!(fixture.set(&["tls-protocols", "TLSv1.3"]), "OK");
    assert!(
        ping(fixture.port, &with(&TLS12)).is_err() && ping(fixture.port, &with(&TLS13)).is_ok()
    );
    assert!(fixture.set(&["tls-protocols", "TLSv1"]).starts_with("ERR CONFIG SET failed"));
    let suites = ["tls-protocols", "", "tls-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"];
    let ciphers = ["tls-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256"];
    assert_eq!(fixture.set(&[&suites[..], &ciphers].concat()), "OK");
    for (version, wanted) in [
        (&TLS12, rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
        (&TLS13, rustls::CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ] {
        let mut stream = connect(fixture.port, &with(version));
        assert!(exchange(&mut stream, b"PING\r\n", 7).is_ok());
        assert_eq!(stream.conn.negotiated_cipher_suite().unwrap().suite(), wanted);
    }
}

fn what_is_no_tls_closes_that_connection_only(backend: &str) {
    let fixture = Fixture::start(backend, &[]);
    let config = fixture.client(Some("client"));
    let mut good = connect(fixture.port, &config);
    assert!(exchange(&mut good, b"PING\r\n", 7).is_ok());
    let mut plain = Client::tcp(fixture.port);
    plain.send(&["PING"]);
    assert_eq!(plain.read_to_end(), "", "plaintext gets no answer");
    for len in [0usize, 1, 50, 16_384, 65_535] {
        for first in [1, 2, 20] {
            let mut socket = TcpStream::connect(("127.0.0.1", fixture.port)).unwrap();
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
            let garbage: Vec<u8> = (0..40_000).map(|i| (i * 31 + first) as u8).collect();
            let head = [22, 3, 1, (len >> 8) as u8, len as u8, first as u8];
            // The server may close before all of it is written.
            let _ = socket.write_all(&[&head, &garbage[..]].concat());
            let _ = socket.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            let _ = socket.read_to_end(&mut answer);
            assert!(answer.len() < 100, "at most an alert");
        }
    }
    // What comes behind a handshake must be records too.
    let mut bad = connect(fixture.port, &config);
    assert!(exchange(&mut bad, b"PING\r\n", 7).is_ok());
    bad.sock.write_all(&[23, 3, 3, 0, 32]).and_then(|()| bad.sock.write_all(&[7; 32])).unwrap();
    assert!(bad.read(&mut [0; 10]).is_err());
    assert!(exchange(&mut good, b"PING\r\n", 7).is_ok());
    eventually("they are forgotten", || fixture.server.info("connected_clients") == 2);
}

fn a_peer_that_has_ended_its_side_gets_all_of_its_answers(backend: &str) {
    let fixture = Fixture::start(backend, &["--tls-auth-clients", "no"]);
    let value = vec![b'v'; 2_000_000];
    for says_so in [true, false] {
        let mut stream = connect(fixture.port, &fixture.client(None));
        let mut request = encode(&[b"SET", b"key", &value]);
        request.extend(encode(&[b"GET", b"key"]).repeat(4));
        stream.write_all(&request).unwrap();
        if says_so {
            stream.conn.send_close_notify();
            stream.flush().unwrap();
        }
        stream.sock.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        assert_eq!(stream.read_to_end(&mut got).is_ok(), says_so, "an end is answered by an end");
        assert_eq!(got.len(), 5 + 4 * (10 + value.len() + 2));
    }
}

fn a_reader_that_does_not_read_is_closed(backend: &str) {
    let args = ["--client-output-buffer-limit", "normal 2mb 0 0", "--tls-auth-clients", "no"];
    let fixture = Fixture::start(backend, &args);
    let mut stream = connect(fixture.port, &fixture.client(None));
    let value = "x".repeat(100_000);
    fixture.server.connect().text(&["SET", "k", &value]);
    stream.write_all(&encode(&[b"GET", b"k"]).repeat(400)).unwrap();
    eventually("it is closed", || {
        fixture.server.info("client_output_buffer_limit_disconnections") == 1
    });
    let mut got = Vec::new();
    assert!(stream.read_to_end(&mut got).is_err(), "the end is not announced");
    assert!(got.len() < 30_000_000);
}

fn what_is_withheld_waits(backend: &str) {
    let args = ["--tls-auth-clients", "no", "--enable-debug-command", "yes"];
    let fixture = Fixture::start(backend, &args);
    let mut stream = connect(fixture.port, &fixture.client(None));
    exchange(&mut stream, b"CLIENT SETNAME reader\r\n", 5).unwrap();
    let mut other = fixture.server.connect();
    other.text(&["SET", "k", &"x".repeat(300_000)]);
    assert_eq!(other.text(&["DEBUG", "FORCE-TLS-WRITE-ERROR", "1"]), "OK");
    stream.write_all(&encode(&[b"GET", b"k"])).unwrap();
    eventually("it waits", || {
        let list = other.text(&["CLIENT", "LIST"]);
        let line = list.lines().find(|line| line.contains(" name=reader ")).unwrap();
        line.contains(" omem=300011 ")
    });
    assert_eq!(other.text(&["DEBUG", "FORCE-TLS-WRITE-ERROR", "0"]), "OK");
    let mut answer = vec![0; 300_011];
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"$300000\r\nxx"));
}

fn the_port_opens_and_closes_at_runtime(backend: &str) {
    let fixture = Fixture::start(backend, &["--tls-auth-clients", "no"]);
    let config = fixture.client(None);
    let port = fixture.port.to_string();
    assert_eq!(fixture.set(&["tls-port", "0", "port", &port]), "OK");
    assert_eq!(Client::tcp(fixture.port).text(&["PING"]), "PONG");
    assert_eq!(fixture.set(&["port", "0", "tls-port", &port]), "OK");
    assert!(ping(fixture.port, &config).is_ok());
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let other = taken.local_addr().unwrap().port().to_string();
    assert!(fixture.set(&["tls-port", &other]).contains("Unable to listen on this port"));
    assert!(ping(fixture.port, &config).is_ok());
}

fn info_tells_of_the_certificates(backend: &str) {
    let fixture = Fixture::start(backend, &[]);
    let read = |field: &str| {
        let text = fixture.server.connect().text(&["INFO", "tls"]);
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.map(str::to_owned).unwrap_or_else(|| panic!("{field} in {text}"))
    };
    assert!(read("tls_server_cert_serial").len() >= 16);
    assert!(read("tls_ca_cert_expires_in_seconds").parse::<i64>().unwrap() > 1_000_000);
    assert_eq!(read("tls_client_cert_serial"), "none");
    assert_eq!(fixture.set(&["tls-port", "0"]), "OK");
    assert_eq!(read("tls_server_cert_serial"), "none");
    assert_eq!(read("tls_server_cert_expires_in_seconds"), "0");
}

/// Reply of `ACL WHOAMI` to a client with its certificate.
fn whoami(fixture: &Fixture) -> String {
    let mut stream = connect(fixture.port, &fixture.client(Some("client")));
    stream.write_all(b"ACL WHOAMI\r\n").unwrap();
    let mut answer = Vec::new();
    while answer.iter().filter(|byte| **byte == b'\n').count() < 2 {
        let mut chunk = [0; 100];
        let count = stream.read(&mut chunk).unwrap();
        answer.extend_from_slice(&chunk[..count]);
    }
    String::from_utf8(answer).unwrap().lines().nth(1).unwrap().to_owned()
}

fn a_certificate_may_say_who_the_client_is(backend: &str) {
    let fixture = Fixture::start(backend, &[]);
    let mut admin = fixture.server.connect();
    assert_eq!(whoami(&fixture), "default");
    assert_eq!(fixture.set(&["tls-auth-clients-user", "CN"]), "OK");
    assert_eq!(whoami(&fixture), "default", "there is no such user");
    assert_eq!(fixture.server.info("acl_access_denied_tls_cert"), 1);
    assert!(admin.text(&["ACL", "LOG"]).contains("tls-cert"));
    assert_eq!(admin.text(&["ACL", "SETUSER", "client", "on", "+acl|whoami"]), "OK");
    assert_eq!(whoami(&fixture), "client");
    let mut stream = connect(fixture.port, &fixture.client(Some("client")));
    let refused = exchange(&mut stream, b"PING\r\n", 7).unwrap();
    assert_eq!(refused, b"-NOPERM", "it may do no more than its user");
    assert_eq!(admin.text(&["ACL", "SETUSER", "client", "off"]), "OK");
    assert_eq!(whoami(&fixture), "default", "the user may not log in");
    assert_eq!(fixture.set(&["tls-auth-clients-user", "URI"]), "OK");
    assert_eq!(admin.text(&["ACL", "SETUSER", "client", "on"]), "OK");
    assert_eq!(whoami(&fixture), "default", "the certificate has no URI");
}

/// Redis 8.10.1, Valkey 9.0.6: what stands before a zero byte was taken for the whole name.
fn redis_8_10_1_common_names_with_a_zero_byte(backend: &str) {
    let fixture = Fixture::start(backend, &[]);
    let mut admin = fixture.server.connect();
    assert_eq!(admin.text(&["ACL", "SETUSER", "client", "on", "+acl|whoami"]), "OK");
    assert_eq!(fixture.set(&["tls-auth-clients-user", "CN"]), "OK");
    assert_eq!(whoami(&fixture), "client");
    for common_name in ["client\0", "client\0.example.net", "\0client", "client "] {
        fixture.authority.sign_as(&fixture.server.scratch, "client", common_name);
        assert_eq!(whoami(&fixture), "default", "{common_name:?}");
    }
}

fn a_replica_expects_names_of_its_primary(backend: &str) {
    let fixture = Fixture::start(backend, &["--tls-auth-clients", "no"]);
    let authority = fixture.server.scratch.path("ca.crt").display().to_string();
    let port = fixture.port.to_string();
    let of_primary = ["--tls-replication", "yes", "--tls-ca-cert-file", &authority];
    // The common name does not count beside an alternative name.
    let names = ["--tls-expected-peer-name", "wrong.example.com server"];
    let address = ["--replicaof", "127.0.0.1", &port];
    let replica = Server::start(backend, &[&of_primary[..], &names, &address].concat());
    eventually("the log says why", || {
        replica.output().contains("has none of the names of tls-expected-peer-name")
    });
    let mut client = replica.connect();
    let is_up = |client: &mut Client| {
        client.text(&["INFO", "replication"]).contains("master_link_status:up")
    };
    assert!(!is_up(&mut client));
    let mut set = |names| client.text(&["CONFIG", "SET", "tls-expected-peer-name", names]);
    assert!(set("  ").contains("contains no usable name"));
    assert!(set("a\tb").contains("must not contain whitespace"));
    assert_eq!(set("wrong.example.com LOCALHOST"), "OK");
    eventually("the replica follows", || is_up(&mut client));
}

fn files_that_change_are_found(backend: &str) {
    let args = ["--tls-auth-clients", "no", "--tls-auto-reload-interval", "1"];
    let fixture = Fixture::start(backend, &args);
    let scratch = &fixture.server.scratch;
    let others = Scratch::new();
    let other = Authority::new(&others, "other");
    let after = client(&other, scratch, None, &TLS13);
    assert!(ping(fixture.port, &after).is_err());
    for name in ["server.key", "server.crt"] {
        std::fs::copy(others.path(name), scratch.path(name)).unwrap();
    }
    eventually("the new certificate is shown", || ping(fixture.port, &after).is_ok());
    assert!(fixture.server.output().contains("TLS materials reloaded successfully"));
}

fn a_handshake_is_not_waited_for_without_end(backend: &str) {
    let fixture = Fixture::start(backend, &[]);
    let mut slow = TcpStream::connect(("127.0.0.1", fixture.port)).unwrap();
    slow.write_all(&[22, 3, 1, 1, 0, 1, 0, 0, 252]).unwrap();
    slow.set_read_timeout(Some(PATIENCE * 3)).unwrap();
    assert_eq!(slow.read(&mut [0; 10]).unwrap(), 0);
    eventually("it is forgotten", || fixture.server.info("connected_clients") == 1);
}
