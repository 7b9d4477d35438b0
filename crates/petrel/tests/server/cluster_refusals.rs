//! Servers that cannot become or remain a member of a cluster: they are refused or wait, a log line
//! says what to change, and the members lose nothing. `cluster.rs` tests a wrong passphrase.

use crate::cluster::{FOUND, await_line, await_service, call, join, scratch, start};
use crate::faults::{fail, faulty, library, repair, started};
use crate::harness::{Scratch, Server, eventually};
use rcgen::{CertificateParams, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// A founder with key `a` set to 1, and the address of its bus.
fn founder() -> (Server, String) {
    let founder = start(scratch("secret"), FOUND);
    let mut client = await_service(&founder);
    assert_eq!(call(&mut client, "SET a 1"), "OK");
    let bus = join(&founder);
    let bus = bus.split(' ').skip_while(|word| *word != "--cluster-join").nth(1).unwrap();
    let bus = bus.to_owned();
    (founder, bus)
}

/// Asserts that exactly these members form the cluster, and serve their data.
fn are_well(members: &[&Server]) {
    for member in members {
        let mut client = await_service(member);
        let count = members.len();
        eventually("all are members", || {
            let nodes = call(&mut client, "CLUSTER NODES");
            nodes.lines().filter(|line| !line.contains("fail")).count() == count
        });
        eventually("a key is there", || call(&mut client, "GET a") == "1");
    }
}

fn killed(mut server: Server) -> Scratch {
    server.signal(libc::SIGKILL);
    server.exit_code();
    let _ = std::fs::remove_file(server.socket());
    server.into_scratch()
}

/// Trusts any server.
#[derive(Debug)]
struct Any;

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// Speaks TLS to a bus, with a certificate of its own if `shows_one`; whether it was let in.
fn is_let_in(bus: &str, shows_one: bool) -> bool {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Any));
    let config = if shows_one {
        let key = KeyPair::generate().unwrap();
        let own =
            CertificateParams::new(vec!["stranger".into()]).unwrap().self_signed(&key).unwrap();
        let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        builder.with_client_auth_cert(vec![own.der().clone()], key).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    let mut socket = TcpStream::connect(bus).unwrap();
    socket.write_all(b"C").unwrap();
    let name = ServerName::try_from("petrel.cluster").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, socket);
    let _ = stream.write_all(&[0; 64]);
    matches!(stream.read(&mut [0; 1]), Ok(len) if len > 0)
}

#[test]
fn strangers_on_the_bus_are_turned_away() {
    let (founder, bus) = founder();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0xa5; 5000]] {
        let mut stranger = TcpStream::connect(&bus).unwrap();
        let _ = stranger.write_all(garbage);
        assert!(!matches!(stranger.read(&mut [0; 1]), Ok(len) if len > 0));
    }
    await_line(&founder, "this port is the cluster bus, clients connect to `port` or `tls-port`");
    assert!(!is_let_in(&bus, false));
    await_line(
        &founder,
        "check cluster-passphrase-file and cluster-name (peer sent no certificates)",
    );
    assert!(!is_let_in(&bus, true));
    await_line(&founder, "cluster-name (invalid peer certificate");
    are_well(&[&founder]);
}

#[test]
fn data_of_another_cluster_stay_where_they_are() {
    let (founder, _) = founder();
    let (other, _) = self::founder();
    let flags = format!("{} --appendonly yes", join(&other));
    let member = start(scratch("secret"), &flags);
    are_well(&[&other, &member]);
    let scratch = killed(member);
    drop(other);
    let stray = start(scratch, &format!("{} --appendonly yes", join(&founder)));
    await_line(&stray, "belongs to another cluster: start it with another dir, or remove");
    let mut client = stray.connect();
    assert!(call(&mut client, "GET a").starts_with("LOADING "));
    are_well(&[&founder]);
}

#[test]
fn a_node_is_alive_once() {
    let (founder, _) = founder();
    let flags = join(&founder);
    let member = start(scratch("secret"), &flags);
    are_well(&[&founder, &member]);
    let first = killed(member);
    let copy = scratch("secret");
    std::fs::create_dir(copy.path("cluster")).unwrap();
    for file in std::fs::read_dir(first.path("cluster")).unwrap() {
        let file = file.unwrap();
        let to = copy.path("cluster").join(file.file_name());
        std::fs::copy(file.path(), to).unwrap();
    }
    let member = start(first, &flags);
    are_well(&[&founder, &member]);
    let twin = start(copy, &flags);
    await_line(&twin, "the same node is alive at 127.0.0.1:");
    await_line(&twin, "its directory was copied: remove `cluster` from the copy");
    are_well(&[&founder, &member]);
}

#[test]
fn a_name_that_does_not_resolve_is_asked_for_again() {
    let flags = FOUND.replace("--cluster-create", "--cluster-join no-such-host.invalid:7000");
    let lost = start(scratch("secret"), &flags);
    await_line(&lost, "no connection to no-such-host.invalid:7000: the name does not resolve: ");
    let mut client = lost.connect();
    assert!(call(&mut client, "CLUSTER INFO").starts_with("cluster_state:fail\r\n"));
    assert!(call(&mut client, "GET a").starts_with("LOADING "));
}

#[test]
fn a_clock_that_is_an_hour_off_is_named() {
    let (founder, bus) = founder();
    let Some(place) = library("clock") else { return };
    std::fs::write(place.path("passphrase"), "secret").unwrap();
    let (clock, flags) = (place.path("clock.so"), join(&founder));
    let variables = [("LD_PRELOAD", clock.to_str().unwrap()), ("PETREL_CLOCK", "-3600")];
    let flags: Vec<&str> = flags.split(' ').collect();
    let late = Server::start_with(place, "epoll", &flags, &variables);
    await_line(&late, &format!("the clock of {bus} is 3600 s ahead of this one's: "));
    await_line(&founder, "s behind this one's: synchronise them");
    are_well(&[&founder, &late]);
    // It does not become a difference of data.
    let mut clients = [founder.connect(), late.connect()];
    assert_eq!(call(&mut clients[0], "SET b 1 EX 100000"), "OK");
    assert_eq!(call(&mut clients[1], "SET c 1 EX 100000"), "OK");
    for client in &mut clients {
        for key in ["b", "c"] {
            eventually("both have it", || call(client, &format!("GET {key}")) == "1");
        }
    }
}

#[test]
fn a_full_disk_under_what_members_agree_on_is_named() {
    let (founder, _) = founder();
    let Some(place) = faulty() else { return };
    std::fs::write(place.path("passphrase"), "secret").unwrap();
    let flags = join(&founder);
    let args: Vec<&str> = flags.split(' ').collect();
    let Some(full) = started(place, &args) else { return };
    are_well(&[&founder, &full]);
    fail(&full, "full", "raft.redb");
    // The next agreed entries cannot be written there.
    let third = start(scratch("secret"), &flags);
    await_service(&third);
    await_line(
        &full,
        "raft.redb cannot be written: I/O error: No space left on device (os error 28); free space",
    );
    let mut client = await_service(&founder);
    assert_eq!(call(&mut client, "INCR n"), "1");
    repair(&full);
    eventually("it is a member again", || {
        let nodes = call(&mut client, "CLUSTER NODES");
        nodes.lines().filter(|line| !line.contains("fail")).count() == 3
    });
    are_well(&[&founder, &full, &third]);
}
