//! One request and its answer.

use super::metrics;
use crate::server::Server;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Bytes of a request up to the empty line.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

/// Time for a request to arrive, and for its answer to be taken.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Workers turn at least once a second; one that does not for so long is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(3);

const NOT_ALLOWED: &str = "405 Method Not Allowed";

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is asked for.
struct Request {
    is_head: bool,
    path: String,
}

/// What is answered.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

/// Answers one request.
///
/// # Errors
/// What the socket says.
pub fn serve(server: &Server, mut stream: TcpStream) -> io::Result<()> {
    stream.set_write_timeout(Some(TIME_MAX))?;
    let (is_head, answer) = match read(&mut stream)? {
        Ok(request) => (request.is_head, answer(server, &request.path)),
        Err(status) => (false, Answer { status, kind: TEXT, body: format!("{status}\n") }),
    };
    let Answer { status, kind, body } = answer;
    let length = body.len();
    let allow = if status == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
    let mut text = format!(
        "HTTP/1.1 {status}\r\n{allow}Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    if !is_head {
        text.push_str(&body);
    }
    stream.write_all(text.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)
}

/// Reads a request; the status if it is none that is answered.
fn read(stream: &mut TcpStream) -> io::Result<Result<Request, &'static str>> {
    let due = Instant::now() + TIME_MAX;
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    loop {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&chunk[..count]);
        if let Some(parsed) = parse(&head) {
            return Ok(parsed);
        }
        if head.len() > HEAD_BYTES_MAX {
            return Ok(Err("431 Request Header Fields Too Large"));
        }
    }
}

/// `None` if more is to come.
fn parse(head: &[u8]) -> Option<Result<Request, &'static str>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) => return None,
        Ok(httparse::Status::Complete(_)) => {}
        Err(_) => return Some(Err("400 Bad Request")),
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Some(Err(NOT_ALLOWED)),
    };
    let target = request.path.unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default().to_owned();
    Some(Ok(Request { is_head, path }))
}

fn answer(server: &Server, path: &str) -> Answer {
    let text = |status, body: String| Answer { status, kind: TEXT, body };
    match path {
        "/metrics" => Answer { status: "200 OK", kind: METRICS, body: metrics::text(server) },
        "/health" => match stuck(server) {
            None => text("200 OK", "ok\n".into()),
            Some(worker) => text("503 Service Unavailable", format!("worker {worker} is stuck\n")),
        },
        "/ready" if server.is_stopping() => text("503 Service Unavailable", "stopping\n".into()),
        "/ready" => text("200 OK", "ready\n".into()),
        _ => text("404 Not Found", "there are /metrics, /health and /ready\n".into()),
    }
}

/// A worker whose loop does not turn.
fn stuck(server: &Server) -> Option<usize> {
    let turns = || server.traffic().map(|traffic| traffic.turns.load(Relaxed)).collect::<Vec<_>>();
    let (before, due) = (turns(), Instant::now() + STUCK_AFTER);
    loop {
        let mut pairs = turns().into_iter().zip(&before);
        let stuck = pairs.position(|(now, before)| now == *before)?;
        if Instant::now() > due {
            return Some(stuck);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_or_refused() {
        let path =
            |head: &str| parse(head.as_bytes()).map(|parsed| parsed.map(|r| (r.is_head, r.path)));
        assert_eq!(
            path("GET /metrics?a=b HTTP/1.1\r\nHost: x\r\n\r\n"),
            Some(Ok((false, "/metrics".into())))
        );
        assert_eq!(path("HEAD / HTTP/1.0\r\n\r\n"), Some(Ok((true, "/".into()))));
        assert_eq!(path("GET /metrics HTTP/1.1\r\nHost"), None);
        assert_eq!(path("POST / HTTP/1.1\r\n\r\n"), Some(Err(NOT_ALLOWED)));
        assert_eq!(path("\u{1}\u{2}\r\n\r\n"), Some(Err("400 Bad Request")));
    }
}
