//! The port for operators.

use crate::harness::*;
use std::io::{Read, Write};
use std::net::TcpStream;

with_each_backend!(
    metrics_count_what_happened,
    health_and_readiness_are_told,
    what_is_no_request_is_refused,
);

fn start(backend: &str) -> (Server, u16) {
    let port = free_port();
    (Server::start(backend, &["--http-port", &port.to_string()]), port)
}

/// Sends bytes; everything that comes back.
fn ask(port: u16, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // What is refused may be refused before all of it is written.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(port: u16, path: &str) -> (String, String) {
    let answer = ask(port, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

fn metrics_count_what_happened(backend: &str) {
    let (server, port) = start(backend);
    let mut client = server.connect();
    for i in 0..10 {
        client.text(&["SET", &format!("k{i}"), "v"]);
    }
    client.text(&["EXPIRE", "k1", "1000"]);
    client.text(&["LPUSH", "k1", "not a list"]);
    let (status, text) = get(port, "/metrics");
    assert_eq!(status, "HTTP/1.1 200 OK");
    let sample = |name: &str| {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name} in {text}")).parse::<f64>().unwrap()
    };
    assert_eq!(sample("petrel_command_calls_total{command=\"set\"}"), 10.0);
    assert_eq!(sample("petrel_command_duration_seconds_count{command=\"set\"}"), 10.0);
    let all = "petrel_command_duration_seconds_bucket{command=\"set\",le=\"+Inf\"}";
    assert_eq!(sample(all), 10.0);
    assert_eq!(sample("petrel_command_errors_total{command=\"lpush\",kind=\"failed\"}"), 1.0);
    assert_eq!(sample("petrel_errors_total{error=\"WRONGTYPE\"}"), 1.0);
    assert_eq!(sample("petrel_db_keys{db=\"0\"}"), 10.0);
    assert_eq!(sample("petrel_db_keys_expiring{db=\"0\"}"), 1.0);
    assert!(sample("petrel_used_memory") > 0.0 && sample("petrel_connected_clients") >= 1.0);
    assert!(sample("petrel_worker_turns_total{worker=\"1\"}") > 0.0);
    assert!(text.contains("# TYPE petrel_total_commands_processed counter\n"));
    assert!(text.contains("# TYPE petrel_total_system_memory gauge\n"));
    // Every line is a comment or a sample, and no family is described twice.
    let mut families = std::collections::HashSet::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(family.split(' ').next().unwrap().to_owned()), "{line}");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("petrel_") && value.parse::<f64>().is_ok(), "{line}");
        }
    }
}

fn health_and_readiness_are_told(backend: &str) {
    let (_server, port) = start(backend);
    assert_eq!(get(port, "/health"), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
    assert_eq!(get(port, "/ready"), ("HTTP/1.1 200 OK".into(), "ready\n".into()));
    assert_eq!(get(port, "/nothing").0, "HTTP/1.1 404 Not Found");
    assert!(ask(port, b"HEAD /ready HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
}

fn what_is_no_request_is_refused(backend: &str) {
    let (server, port) = start(backend);
    assert!(ask(port, b"*1\r\n$4\r\nPING\r\n").starts_with("HTTP/1.1 400 "));
    assert!(ask(port, b"DELETE /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    let endless = ["GET / HTTP/1.1\r\nHost: ".as_bytes(), &[b'x'; 20_000]].concat();
    let answer = ask(port, &endless);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    // Connections that say nothing take all places; those behind them are closed, and workers serve
    // on.
    let silent: Vec<_> =
        (0..16).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    eventually("the places are taken", || ask(port, b"GET /ready HTTP/1.1\r\n\r\n").is_empty());
    assert_eq!(server.connect().text(&["PING"]), "PONG");
    drop(silent);
    eventually("they are free again", || !ask(port, b"GET /ready HTTP/1.1\r\n\r\n").is_empty());
}
