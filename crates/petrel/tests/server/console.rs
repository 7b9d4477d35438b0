//! The web console: its pages, and WebSockets as connections of clients.

use crate::harness::*;
use crate::http::{ask, await_ready};
use crate::tls;
use std::io::{Read, Write};
use std::net::TcpStream;
use tungstenite::Message;
use tungstenite::protocol::{Role, WebSocket};

with_each_backend!(
    a_websocket_is_the_connection_of_a_client,
    replies_of_every_size_arrive,
    a_console_logs_in,
    the_end_of_either_side_ends_the_other,
);

fn start(backend: &str, args: &[&str]) -> (Server, u16) {
    let port = free_port();
    let server = Server::start(backend, &[&["--http-port", &port.to_string()], args].concat());
    await_ready(port);
    (server, port)
}

/// A browser's end of a WebSocket.
struct Browser<Stream> {
    socket: WebSocket<Stream>,
    /// Bytes that have arrived and not been asked for.
    unread: Vec<u8>,
}

impl Browser<TcpStream> {
    fn open(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Browser::upgrade(stream, &format!("localhost:{port}"), "http")
    }
}

impl<Stream: Read + Write> Browser<Stream> {
    fn upgrade(mut stream: Stream, host: &str, scheme: &str) -> Self {
        stream.write_all(handshake(host, &format!("{scheme}://{host}")).as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        assert!(
            head.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
            "{head}"
        );
        let socket = WebSocket::from_raw_socket(stream, Role::Client, None);
        Browser { socket, unread: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.socket.send(Message::Binary(bytes.to_vec().into())).unwrap();
    }

    fn receive(&mut self, len: usize) -> Vec<u8> {
        while self.unread.len() < len {
            match self.socket.read().unwrap() {
                Message::Binary(bytes) => self.unread.extend(bytes),
                other => panic!("{other:?}"),
            }
        }
        self.unread.drain(..len).collect()
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(self.receive(1));
        }
        String::from_utf8(line).unwrap()
    }

    fn expect(&mut self, request: &[u8], reply: &str) {
        self.send(request);
        let got = self.receive(reply.len());
        assert_eq!(String::from_utf8_lossy(&got), reply);
    }

    /// Returns the reason with which the server closes the WebSocket.
    fn end(mut self) -> String {
        loop {
            match self.socket.read() {
                Ok(Message::Close(frame)) => {
                    return frame.map(|frame| frame.reason.to_string()).unwrap_or_default();
                }
                Ok(_) => {}
                Err(error) => return error.to_string(),
            }
        }
    }
}

fn handshake(host: &str, origin: &str) -> String {
    format!(
        "GET /console/ws HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: petrel.resp\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

#[test]
fn pages_are_served_to_this_machine_alone() {
    let (_server, port) = start("epoll", &[]);
    let get = |path: &str, host: &str| {
        ask(port, format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
    };
    for path in ["/console/", "/console/app.js", "/console/app.css", "/console/icon.svg"] {
        let answer = get(path, "localhost");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {answer}");
        assert!(answer.contains("\r\nContent-Security-Policy: default-src 'none'; "), "{path}");
        assert!(get(path, "evil.example").starts_with("HTTP/1.1 403 "), "{path}");
    }
    assert!(get("/console", "localhost").contains("\r\nLocation: /console/\r\n"));
    assert!(get("/console/other", "localhost").starts_with("HTTP/1.1 404 "));
    assert!(get("/console/ws", "localhost").starts_with("HTTP/1.1 403 "), "it has no Origin");
    let ask = |host: &str, origin: &str| ask(port, handshake(host, origin).as_bytes());
    let own = format!("localhost:{port}");
    assert!(ask(&own, "http://evil.example").starts_with("HTTP/1.1 403 "));
    assert!(ask("evil.example", "http://evil.example").starts_with("HTTP/1.1 403 "));
    let no_websocket =
        handshake(&own, &format!("http://{own}")).replace("Version: 13", "Version: 8");
    assert!(super::http::ask(port, no_websocket.as_bytes()).starts_with("HTTP/1.1 426 "));
}

fn a_websocket_is_the_connection_of_a_client(backend: &str) {
    let (server, port) = start(backend, &[]);
    let mut browser = Browser::open(port);
    browser.expect(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\n\0\xff\n\r\n", "+OK\r\n");
    assert_eq!(server.connect().call(&["GET", "k"]).as_bytes(), Some(&b"\0\xff\n"[..]));
    // A command in pieces, and several in one message.
    browser.send(b"*2\r\n$6\r\nSTRL");
    browser.expect(b"EN\r\n$1\r\nk\r\nPING\r\nPING\r\n", ":3\r\n+PONG\r\n+PONG\r\n");
    let address = browser.socket.get_ref().local_addr().unwrap();
    let clients = server.connect().text(&["CLIENT", "LIST"]);
    assert!(clients.contains(&format!(" addr={address} ")), "{clients}");
    // Messages arrive without being asked for.
    let channel = "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n";
    browser.expect(b"SUBSCRIBE ch\r\n", channel);
    assert_eq!(server.connect().text(&["PUBLISH", "ch", "hello"]), "1");
    let message = "*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$5\r\nhello\r\n";
    assert_eq!(browser.receive(message.len()), message.as_bytes());
}

fn replies_of_every_size_arrive(backend: &str) {
    let (server, port) = start(backend, &[]);
    let mut browser = Browser::open(port);
    for len in [0, 1, 16_383, 16_384, 65_536, 3_000_000] {
        let value: String = (0..len).map(|i| char::from(b'a' + (i % 23) as u8)).collect();
        assert_eq!(server.connect().text(&["SET", "k", &value]), "OK");
        browser.expect(b"GET k\r\n", &format!("${len}\r\n{value}\r\n"));
    }
    // Requests that are more than both sockets hold are answered as they are read.
    let value = "v".repeat(60_000);
    let request = format!("*2\r\n$4\r\nECHO\r\n${}\r\n{value}\r\n", value.len());
    let reply = format!("${}\r\n{value}\r\n", value.len());
    for _ in 0..100 {
        browser.expect(request.as_bytes(), &reply);
    }
}

fn a_console_logs_in(backend: &str) {
    let (server, port) = start(backend, &["--requirepass", "secret"]);
    let mut browser = Browser::open(port);
    browser.expect(b"GET k\r\n", "-NOAUTH Authentication required.\r\n");
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    browser.expect(b"AUTH wrong\r\n", wrong);
    browser.expect(b"AUTH secret\r\n", "+OK\r\n");
    browser.expect(b"GET k\r\n", "$-1\r\n");
    let mut admin = server.connect();
    assert_eq!(admin.text(&["AUTH", "secret"]), "OK");
    assert_eq!(admin.text(&["ACL", "SETUSER", "reader", "on", ">r", "~a*", "+get"]), "OK");
    browser.expect(b"AUTH reader r\r\n", "+OK\r\n");
    browser.expect(b"GET a\r\n", "$-1\r\n");
    let refused = "-NOPERM No permissions to access a key\r\n";
    browser.expect(b"GET k\r\n", refused);
}

fn the_end_of_either_side_ends_the_other(backend: &str) {
    let (server, port) = start(backend, &["--maxclients", "50"]);
    let mut browser = Browser::open(port);
    browser.expect(b"PING\r\n", "+PONG\r\n");
    let address = browser.socket.get_ref().local_addr().unwrap().to_string();
    assert_eq!(server.connect().text(&["CLIENT", "KILL", "ADDR", &address]), "1");
    assert_eq!(browser.end(), "the server closed the connection");
    let others = server.info("connected_clients");
    let mut browser = Browser::open(port);
    browser.expect(b"PING\r\n", "+PONG\r\n");
    drop(browser);
    eventually("its connection is closed", || server.info("connected_clients") == others);
    let mut browser = Browser::open(port);
    browser.socket.send(Message::text("PING")).unwrap();
    assert_eq!(browser.end(), "RESP is binary");
    let mut browser = Browser::open(port);
    browser.socket.send(Message::Binary(vec![0; 100_000].into())).unwrap();
    let reason = browser.end();
    assert!(reason.starts_with("a message has more than 64 KiB"), "{reason}");
    eventually("all are closed", || server.info("connected_clients") == others);
    // Connections that have ended are counted until their workers have seen it.
    let mut only = server.connect();
    eventually("there is one connection", || {
        only.text(&["INFO", "clients"]).contains("connected_clients:1\r\n")
    });
    assert_eq!(only.text(&["CONFIG", "SET", "maxclients", "1"]), "OK");
    assert_eq!(Browser::open(port).end(), "max number of clients reached");
    assert_eq!(only.text(&["PING"]), "PONG");
}

#[test]
fn no_more_consoles_are_open_than_the_port_serves() {
    let (server, port) = start("epoll", &[]);
    let mut browsers: Vec<_> = (0..32).map(|_| Browser::open(port)).collect();
    browsers.iter_mut().for_each(|browser| browser.expect(b"PING\r\n", "+PONG\r\n"));
    assert_eq!(Browser::open(port).end(), "too many consoles are open");
    assert_eq!(super::http::get(port, "/health").1, "ok\n");
    drop(browsers);
    eventually("they are closed", || server.info("connected_clients") == 1);
    Browser::open(port).expect(b"PING\r\n", "+PONG\r\n");
}

#[test]
fn the_console_works_over_tls() {
    let http = free_port();
    let text = http.to_string();
    let args = ["--http-port", &text, "--http-tls", "yes", "--tls-auth-clients", "no"];
    let fixture = tls::Fixture::start("epoll", &args);
    let config = fixture.client(None);
    // Elsewhere than on this machine the name would be another.
    let host = "db.example:9121";
    let mut browser = Browser::upgrade(tls::connect(http, &config), host, "https");
    browser.expect(b"PING\r\n", "+PONG\r\n");
    let value = "v".repeat(3_000_000);
    assert_eq!(fixture.server.connect().text(&["SET", "k", &value]), "OK");
    browser.expect(b"GET k\r\n", &format!("$3000000\r\n{value}\r\n"));
    let mut stream = tls::connect(http, &config);
    stream.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\nok\n"), "{answer}");
    let answer = ask(http, b"GET /health HTTP/1.1\r\n\r\n");
    assert!(!answer.contains("HTTP/1.1"), "it is not served without TLS");
}

const CONTINUATION: u8 = 0;
const BINARY: u8 = 2;
const PING: u8 = 9;
const LAST: u8 = 0x80;
const MASKED: u8 = 0x80;

/// Returns a frame of a browser, with a mask of zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let len = u8::try_from(payload.len()).unwrap();
    assert!(len < 126);
    [&[first, MASKED | len, 0, 0, 0, 0], payload].concat()
}

#[test]
fn malformed_frames_end_their_console_alone() {
    let (server, port) = start("epoll", &[]);
    let mut other = Browser::open(port);
    other.expect(b"PING\r\n", "+PONG\r\n");
    let claim = |len: u64| [&[LAST | BINARY, MASKED | 127][..], &len.to_be_bytes()].concat();
    let fragments = [frame(BINARY, b"x"), frame(CONTINUATION, &[b'x'; 125]).repeat(1_000)].concat();
    let malformed = [
        ("no mask", vec![LAST | BINARY, 1, b'x']),
        ("reserved bits", frame(LAST | 0x70 | BINARY, b"x")),
        ("an unknown type", frame(LAST | 3, b"x")),
        ("an unknown control frame", frame(LAST | 0xb, b"x")),
        ("a ping in pieces", frame(PING, b"x")),
        (
            "a ping that is too long",
            [&[LAST | PING, MASKED | 126, 1, 0, 0, 0, 0, 0][..], &[0; 256]].concat(),
        ),
        ("a continuation of nothing", frame(LAST | CONTINUATION, b"x")),
        ("a message within another", [frame(BINARY, b"x"), frame(LAST | BINARY, b"x")].concat()),
        ("text that is no UTF-8", frame(LAST | 1, b"\xff")),
        ("a code of one byte", frame(LAST | 8, b"x")),
        ("a frame of 100,000 bytes", [claim(100_000), vec![0; 100_004]].concat()),
        ("a frame of 2^63 bytes", [claim(1 << 63), vec![0; 100_004]].concat()),
        ("a frame of 2^64 - 1 bytes", [claim(u64::MAX), vec![0; 100_004]].concat()),
        ("a message of too many pieces", fragments),
    ];
    for (what, bytes) in malformed {
        let mut browser = Browser::open(port);
        // The server may close before it has read all of it.
        let _ = browser.socket.get_mut().write_all(&bytes);
        let mut rest = Vec::new();
        let ended = browser.socket.get_mut().read_to_end(&mut rest);
        let is_timeout = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!ended.as_ref().is_err_and(is_timeout), "{what}: {ended:?}");
        other.expect(b"PING\r\n", "+PONG\r\n");
    }
    let only = "connected_clients";
    eventually("their connections are closed", || server.info(only) == 2);
}

/// A message in pieces without end, and pings, must not keep the port from its other work.
#[test]
fn a_flood_of_frames_leaves_the_port_alive() {
    let (_server, port) = start("epoll", &[]);
    let floods = [frame(CONTINUATION, b""), frame(LAST | PING, b"")];
    let sockets: Vec<_> = floods
        .iter()
        .map(|flood| {
            let mut browser = Browser::open(port);
            browser.socket.get_mut().write_all(&frame(BINARY, b"P")).unwrap();
            // A ping may come between the pieces.
            let mut stream = browser.socket.get_ref().try_clone().unwrap();
            let flood = flood.repeat(10_000);
            std::thread::spawn(move || while stream.write_all(&flood).is_ok() {});
            browser
        })
        .collect();
    for _ in 0..20 {
        assert_eq!(super::http::get(port, "/health").1, "ok\n");
        Browser::open(port).expect(b"PING\r\n", "+PONG\r\n");
    }
    for browser in sockets {
        browser.socket.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
    }
}

#[test]
fn requests_that_never_end_do_not_keep_consoles_out() {
    let (_server, port) = start("epoll", &[]);
    let host = format!("localhost:{port}");
    let whole = handshake(&host, &format!("http://{host}"));
    let half = &whole[..whole.len() - 2];
    let open = |_| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _ = stream.write_all(half.as_bytes());
        stream
    };
    let _unfinished: Vec<_> = (0..200).map(open).collect();
    Browser::open(port).expect(b"PING\r\n", "+PONG\r\n");
}

/// Commands beyond the rights of an ACL user are refused as on any other connection.
#[test]
fn a_console_has_the_rights_of_its_user() {
    let (server, port) = start("epoll", &[]);
    let mut admin = server.connect();
    assert_eq!(admin.text(&["ACL", "SETUSER", "none", "on", ">n", "resetkeys", "-@all"]), "OK");
    assert_eq!(admin.text(&["ACL", "SETUSER", "default", "off"]), "OK");
    let mut browser = Browser::open(port);
    for request in ["PING", "CONFIG GET *", "HELLO 3", "MULTI", "SUBSCRIBE c"] {
        browser.send(format!("{request}\r\n").as_bytes());
        let line = browser.line();
        assert!(line.starts_with("-NOAUTH "), "{request}: {line}");
    }
    browser.expect(b"AUTH none n\r\n", "+OK\r\n");
    let refused = "-NOPERM User none has no permissions to run the 'config|get' command\r\n";
    browser.expect(b"CONFIG GET *\r\n", refused);
}
