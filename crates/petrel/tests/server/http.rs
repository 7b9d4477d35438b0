//! The port for operators.

use crate::harness::*;
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::TcpStream;

with_each_backend!(
    metrics_count_what_happened,
    open_metrics_are_complete,
    health_and_readiness_are_told,
    what_is_no_request_is_refused,
);

fn start(backend: &str) -> (Server, u16) {
    let port = free_port();
    let server = Server::start(backend, &["--http-port", &port.to_string()]);
    // Its workers may not all have turned yet.
    await_ready(port);
    (server, port)
}

/// Sends bytes; everything that comes back.
pub fn ask(port: u16, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A request may be refused before all of it is written.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

pub fn get(port: u16, path: &str) -> (String, String) {
    let answer = ask(port, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn ping_asks_over_http_too() {
    let (server, port) = start("epoll");
    for (path, is_found) in [("/ready", true), ("/health", true), ("", true), ("/nosuch", false)] {
        let address = format!("http://127.0.0.1:{port}{path}");
        let output = run_to_end(&server.scratch, &["ping", &address]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), is_found, "{said}");
        assert_eq!(said.contains(": HTTP/1.1 404 "), !is_found, "{said}");
    }
}

#[test]
fn each_worker_shows_its_processor_time() {
    let (server, port) = start("epoll");
    let mut client = server.connect();
    eventually("workers have used the processor", || {
        let (_, metrics) = get(port, "/metrics");
        let line = |worker| {
            let name = format!("petrel_worker_cpu_seconds_total{{worker=\"{worker}\"}} ");
            metrics.lines().find_map(|line| line.strip_prefix(&name)?.parse::<f64>().ok()).unwrap()
        };
        line(0) > 0.0 && line(1) > 0.0
    });
    let threads = client.text(&["INFO", "threads"]);
    let first = threads.lines().find_map(|line| line.strip_prefix("io_thread_0:")).unwrap();
    let fields = first.split(',').filter_map(|field| field.split_once('='));
    let cpu = fields.filter(|(name, _)| name.starts_with("cpu_"));
    let times: Vec<f64> = cpu.map(|(_, value)| value.parse().unwrap()).collect();
    assert!(times.len() == 2 && times.iter().sum::<f64>() > 0.0, "{first}");
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
    assert!(sample("petrel_used_memory_bytes") > 0.0);
    assert!(sample("petrel_connected_clients") >= 1.0);
    assert!(sample("petrel_worker_turns_total{worker=\"1\"}") > 0.0);
    assert!(text.contains("# TYPE petrel_commands_processed_total counter\n"));
    assert!(text.contains("# TYPE petrel_system_memory_bytes gauge\n"));
    assert!(text.contains("# HELP petrel_used_memory_bytes Memory allocated.\n"));
    // Every number of INFO is a metric, apart from versions and identities.
    let metrics = documented_metrics();
    let info = client.text(&["INFO", "clients", "memory", "persistence", "stats", "replication"]);
    for (name, value) in info.lines().filter_map(|line| line.trim_end().split_once(':')) {
        let is_number = value.trim_end_matches('%').parse::<f64>().is_ok();
        if is_number && !name.starts_with("master_replid") {
            let metric = metrics.get(name).unwrap_or_else(|| panic!("{name} is no metric"));
            assert!(text.contains(&format!("# TYPE {metric} ")), "{name} is not shown");
        }
    }
    assert_described_once(&text);
}

/// Metrics by the fields of `INFO`, as docs/metrics.md lists them.
fn documented_metrics() -> HashMap<&'static str, &'static str> {
    let page = include_str!("../../../../docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `petrel_").map(|_| line));
    let cells = rows.map(|row| row.split('`').collect::<Vec<_>>());
    cells.map(|cells| (cells[3], cells[1])).collect()
}

/// Every line is a comment or a sample, and no family is described twice.
fn assert_described_once(text: &str) {
    let mut families = HashSet::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            assert!(families.insert(family.split(' ').next().unwrap().to_owned()), "{line}");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("petrel_") && value.parse::<f64>().is_ok(), "{line}");
        }
    }
}

fn open_metrics_are_complete(backend: &str) {
    let (server, port) = start(backend);
    server.connect().text(&["SET", "k", "v"]);
    let accept = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
    let request = format!("GET /metrics HTTP/1.1\r\nAccept: {accept}\r\n\r\n");
    let answer = ask(port, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0;"), "{head}");
    let body = body.strip_suffix("# EOF\n").expect("the last line");
    assert!(!body.contains("# EOF"));
    assert_described_once(body);
    // Samples of a family follow its description, and have its name with a suffix of its type.
    let (mut family, mut kind) = ("", "");
    for line in body.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            (family, kind) = described.split_once(' ').unwrap();
        } else if let Some(unit) = line.strip_prefix("# UNIT ") {
            let (of, unit) = unit.split_once(' ').unwrap();
            assert!(of == family && family.ends_with(&format!("_{unit}")), "{line}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().unwrap();
            let suffixes: &[&str] = match kind {
                "counter" => &["_total"],
                "info" => &["_info"],
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            let suffix = name.strip_prefix(family).unwrap_or_else(|| panic!("{line}: {family}"));
            assert!(suffixes.contains(&suffix), "{line} is no {kind}");
        }
    }
}

/// Metrics that a text names: words that begin with `petrel_`.
fn named(text: &str) -> HashSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("petrel_")).collect()
}

#[test]
fn the_dashboard_and_the_alerts_name_metrics_that_exist() {
    let (server, port) = start("epoll");
    server.connect().text(&["SET", "k", "v"]);
    server.connect().text(&["NOSUCH"]);
    let mut exist = get(port, "/metrics").1;
    // Those of replicas, backups, loading and clusters, and of links to members.
    exist.push_str(include_str!("../../../../docs/metrics.md"));
    exist.push_str(include_str!("../../../../docs/monitoring.md"));
    let exist = named(&exist);
    for file in [
        include_str!("../../../../packaging/monitoring/dashboard.json"),
        include_str!("../../../../packaging/monitoring/alerts.yaml"),
    ] {
        let missing: Vec<_> = named(file).difference(&exist).copied().collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
    let page = include_str!("../../../../docs/monitoring.md");
    let alerts = include_str!("../../../../packaging/monitoring/alerts.yaml").lines();
    let alerts = alerts.filter_map(|line| line.split_once("- alert: ").map(|(_, name)| name));
    let rows = |name| page.matches(&format!("| `{name}` | ")).count();
    let unexplained: Vec<_> = alerts.filter(|name| rows(*name) != 1).collect();
    assert!(unexplained.is_empty(), "{unexplained:?}");
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
    assert_eq!(server.connect().text(&["PING"]), "PONG");
}

/// More connections than the port holds at once.
const MANY: usize = 200;

/// Asks for `/health` while others hold connections, and before any of them has timed out.
fn assert_answered(port: u16, others: &mut [TcpStream]) {
    for _ in 0..3 {
        assert_eq!(get(port, "/health"), ("HTTP/1.1 200 OK".into(), "ok\n".into()));
        assert_eq!(get(port, "/ready").0, "HTTP/1.1 200 OK");
        assert_eq!(get(port, "/metrics").0, "HTTP/1.1 200 OK");
        for other in &mut *others {
            // A connection closed in favour of another may fail.
            let _ = other.write_all(b"x");
        }
    }
}

fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).unwrap()
}

#[test]
fn probes_are_answered_whatever_others_keep_open() {
    let (_server, port) = start("epoll");
    let silent: Vec<TcpStream> = (0..16).map(|_| connect(port)).collect();
    assert_answered(port, &mut []);
    // Headers that come byte by byte, and never end.
    let mut slow: Vec<TcpStream> = (0..MANY).map(|_| connect(port)).collect();
    for stream in &mut slow {
        let _ = stream.write_all(b"GET /health HTTP/1.1\r\nX-Slow: ");
    }
    assert_answered(port, &mut slow);
    // Requests with replies that are never read.
    let mut unread: Vec<TcpStream> = (0..MANY).map(|_| connect(port)).collect();
    for stream in &mut unread {
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
    }
    assert_answered(port, &mut unread);
    drop((silent, slow, unread));
    assert_answered(port, &mut []);
}

#[test]
fn a_connection_that_sends_no_request_is_closed() {
    let (_server, port) = start("epoll");
    let mut stream = connect(port);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.is_empty(), "there is no answer to half a request");
}

fn assert_unready(port: u16, why: &str) {
    eventually(why, || {
        let (status, body) = get(port, "/ready");
        status == "HTTP/1.1 503 Service Unavailable" && body.contains(why)
    });
    assert_eq!(get(port, "/health").0, "HTTP/1.1 200 OK", "not ready is no reason to restart");
}

pub fn await_ready(port: u16) {
    eventually("it is ready", || get(port, "/ready").0 == "HTTP/1.1 200 OK");
}

#[test]
fn a_server_is_not_ready_while_it_loads() {
    let mut server = Server::start("epoll", &["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    client.call(&["DEBUG", "POPULATE", "20000"]);
    assert_eq!(client.text(&["SAVE"]), "OK");
    client.send(&["SHUTDOWN", "NOSAVE"]);
    server.exit_code();
    let port = free_port().to_string();
    let args = ["--key-load-delay", "1000", "--http-port", &port];
    let server = Server::start_unready(server.into_scratch(), "epoll", &args);
    let port = port.parse().unwrap();
    eventually("its port is open", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert_unready(port, "loading the data");
    assert!(server.connect().text(&["PING"]).starts_with("LOADING "));
    assert_eq!(server.connect().text(&["CONFIG", "SET", "key-load-delay", "0"]), "OK");
    await_ready(port);
    assert_eq!(server.connect().text(&["PING"]), "PONG");
}

#[test]
fn a_replica_is_ready_once_it_has_had_the_primarys_data() {
    let (port, of_primary) = (free_port(), free_port().to_string());
    let http = port.to_string();
    let args = ["--http-port", &http, "--replicaof", "127.0.0.1", &of_primary];
    let replica = Server::start("epoll", &args);
    assert_unready(port, &format!("waiting for the data of the primary at 127.0.0.1:{of_primary}"));
    let primary = Server::start("epoll", &["--port", &of_primary]);
    await_ready(port);
    drop(primary);
    eventually("the link is down", || {
        replica.connect().text(&["INFO", "replication"]).contains("master_link_status:down")
    });
    assert_eq!(get(port, "/ready").0, "HTTP/1.1 200 OK", "old data is served");
    let mut client = replica.connect();
    assert_eq!(client.text(&["CONFIG", "SET", "replica-serve-stale-data", "no"]), "OK");
    assert_unready(port, "MASTERDOWN ");
    assert_eq!(client.text(&["REPLICAOF", "NO", "ONE"]), "OK");
    await_ready(port);
    assert_eq!(client.text(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    assert_unready(port, "waiting for the data of the primary at 127.0.0.1:1");
}

#[test]
fn a_server_whose_writes_fail_is_not_ready() {
    let port = free_port();
    let http = port.to_string();
    let saves = ["--save", "3600 1", "--enable-debug-command", "yes"];
    let args = [&["--http-port", &http, "--min-replicas-to-write", "1"], &saves[..]].concat();
    let server = Server::start("epoll", &args);
    await_ready(port);
    let mut client = server.connect();
    assert!(client.text(&["SET", "a", "1"]).starts_with("NOREPLICAS "), "reads are served");
    assert_eq!(client.text(&["CONFIG", "SET", "min-replicas-to-write", "0"]), "OK");
    client.call(&["DEBUG", "POPULATE", "5000", "key", "100"]);
    server.limit_files(Some(20_000));
    client.text(&["BGSAVE"]);
    assert_unready(port, "MISCONF ");
    assert!(client.text(&["PING"]).starts_with("MISCONF "));
    server.limit_files(None);
    client.text(&["BGSAVE"]);
    await_ready(port);
}
