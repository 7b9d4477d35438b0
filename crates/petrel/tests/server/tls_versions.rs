//! Certificates of X.509 version 1, made by OpenSSL.

use crate::harness::*;
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs OpenSSL in a directory; returns its output if it succeeds.
fn openssl(scratch: &Scratch, args: &str) -> Option<String> {
    let mut command = Command::new("openssl");
    let command = command.current_dir(scratch.path(".")).args(args.split(' '));
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// An authority and a server's certificate, both of version 1, and a client's, of version 1 and
/// of version 3; none where OpenSSL is missing, or makes no certificates of version 1.
fn certificates() -> Option<Scratch> {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("extensions.cnf"), "subjectAltName=DNS:server.example.com\n")
        .unwrap();
    let made = ["ca", "server", "client"].iter().all(|name| {
        let request = format!("req -new -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr");
        let sign = match *name {
            "ca" => "x509 -req -in ca.csr -signkey ca.key -days 30 -out ca.crt".to_owned(),
            _ => format!("x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out {name}.crt"),
        };
        let text = format!("x509 -in {name}.crt -noout -text");
        openssl(&scratch, &request).is_some()
            && openssl(&scratch, &sign).is_some()
            && openssl(&scratch, &text).is_some_and(|text| text.contains("Version: 1 (0x0)"))
    });
    let newer = "x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile extensions.cnf -out client3.crt";
    let made = made && openssl(&scratch, newer).is_some();
    if !made {
        println!("skipped: there is no openssl that makes certificates of version 1");
    }
    made.then_some(scratch)
}

/// Reply to OpenSSL as a client that verifies the server, and presents a certificate if it has one.
fn ping(server: &Server, port: &str, shown: &str) -> String {
    let mut command = Command::new("openssl");
    let args = format!(
        "s_client -connect 127.0.0.1:{port} -CAfile ca.crt -verify_return_error -quiet {shown}"
    );
    command
        .current_dir(server.scratch.path("."))
        .args(args.split(' ').filter(|arg| !arg.is_empty()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // It may have ended by then.
    let _ = input.write_all(b"PING\r\nQUIT\r\n");
    let output = child.wait_with_output().unwrap();
    drop(input);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const OWN: &str = "--tls-cert-file server.crt --tls-key-file server.key --tls-ca-cert-file ca.crt";

fn start(scratch: Scratch, port: &str, more: &str) -> Server {
    let args = format!("--tls-port {port} {OWN} {more}");
    Server::start_in(scratch, "epoll", &args.split_whitespace().collect::<Vec<_>>())
}

#[test]
fn a_server_shows_a_certificate_of_version_1_and_says_how_to_make_a_newer_one() {
    let Some(scratch) = certificates() else { return };
    let port = free_port().to_string();
    let server = start(scratch, &port, "--tls-auth-clients no");
    assert!(ping(&server, &port, "").contains("+PONG"), "{}", server.output());
    let output = server.output();
    let warning = "tls-cert-file: server.crt holds a certificate of X.509 version 1";
    assert_eq!(output.matches(warning).count(), 1, "{output}");
    assert!(server.connect().text(&["INFO", "tls"]).contains("tls_server_cert_serial:"));
    // The command in the warning works, with the files that it names.
    let recipe = output.split('`').find(|part| part.starts_with("openssl x509")).unwrap();
    assert!(output.contains("`subjectAltName=DNS:server.example.com`"), "{output}");
    let made = openssl(&server.scratch, recipe.strip_prefix("openssl ").unwrap());
    assert!(made.is_some(), "{recipe}");
    let mut client = server.connect();
    assert_eq!(client.text(&["CONFIG", "SET", "tls-cert-file", "server.crt"]), "OK");
    assert!(ping(&server, &port, "").contains("+PONG"), "{}", server.output());
    assert_eq!(server.output().matches(warning).count(), 1, "no warning about the new one");
}

#[test]
fn clients_need_version_3_and_their_authority_does_not() {
    let Some(scratch) = certificates() else { return };
    let port = free_port().to_string();
    let server = start(scratch, &port, "");
    assert!(ping(&server, &port, "-cert client3.crt -key client.key").contains("+PONG"));
    assert!(!ping(&server, &port, "-cert client.crt -key client.key").contains("+PONG"));
    eventually("the log says why", || {
        server.output().contains("a client was refused: its certificate is of X.509 version 1 or 2")
    });
}

#[test]
fn a_replica_names_the_certificate_that_it_cannot_verify() {
    let Some(scratch) = certificates() else { return };
    let files = ["ca.crt", "client.key", "client3.crt"];
    let own = Scratch::new();
    for name in files {
        std::fs::copy(scratch.path(name), own.path(name)).unwrap();
    }
    let port = free_port().to_string();
    let _primary = start(scratch, &port, "--tls-auth-clients no");
    let args = format!(
        "--tls-replication yes --tls-ca-cert-file ca.crt --tls-cert-file client3.crt --tls-key-file client.key \
         --replicaof 127.0.0.1 {port}"
    );
    let replica = Server::start_in(own, "epoll", &args.split(' ').collect::<Vec<_>>());
    eventually("the log says why", || {
        replica
            .output()
            .contains("the certificate of the primary (its tls-cert-file) is of X.509 version 1")
    });
}

#[test]
fn a_key_of_another_certificate_is_named() {
    let Some(scratch) = certificates() else { return };
    let args = "--port 0 --tls-port 1 --tls-cert-file server.crt --tls-key-file client.key --tls-ca-cert-file ca.crt";
    let output = run_to_end(&scratch, &args.split(' ').collect::<Vec<_>>());
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let says = "tls-key-file: client.key: it is not the key of the certificate in server.crt (tls-cert-file)";
    assert!(!output.status.success() && text.contains(says), "{text}");
}
