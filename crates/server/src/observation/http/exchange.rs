//! A request and its answer, as text.

use data_encoding::BASE64;
use httparse::Header;
use sha1_smol::Sha1;
use std::borrow::Cow;

/// Bytes of a request up to the empty line.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

const OK: &str = "200 OK";
const SWITCHING: &str = "101 Switching Protocols";
const UNAVAILABLE: &str = "503 Service Unavailable";
const NOT_ALLOWED: &str = "405 Method Not Allowed";
pub const TOO_LARGE: &str = "431 Request Header Fields Too Large";

const TEXT: &str = "text/plain; charset=utf-8";
const PLAIN_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Appended to the key of a WebSocket before it is hashed (RFC 6455, section 1.3).
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A request that has been read.
#[derive(Debug, Eq, PartialEq)]
pub struct Request {
    /// Only the head of the answer is wanted.
    pub is_head: bool,
    /// Metrics are wanted in OpenMetrics's format.
    pub is_open: bool,
    /// The path, without a query.
    pub path: String,
    /// Header `Host`.
    pub host: Option<String>,
    /// Header `Origin`: the page that sends the request.
    pub origin: Option<String>,
    /// Key of a request to continue as a WebSocket of version 13.
    pub websocket_key: Option<String>,
}

/// An answer.
pub struct Answer {
    status: &'static str,
    kind: Cow<'static, str>,
    /// Further headers, each ended by CR LF.
    headers: Cow<'static, str>,
    body: Cow<'static, [u8]>,
}

impl Answer {
    fn new(status: &'static str, kind: &'static str, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Answer { status, kind: kind.into(), headers: "".into(), body: body.into() }
    }

    fn line(status: &'static str, line: &str) -> Self {
        Answer::new(status, TEXT, format!("{line}\n").into_bytes())
    }

    /// Returns 200 with one line.
    pub fn ok(line: &str) -> Self {
        Answer::line(OK, line)
    }

    /// Returns 503 with the reason.
    pub fn unavailable(why: &str) -> Self {
        Answer::line(UNAVAILABLE, why)
    }

    /// Returns 403 with the reason.
    pub fn forbidden(why: &str) -> Self {
        Answer::line("403 Forbidden", why)
    }

    /// Returns metrics, in OpenMetrics's format or Prometheus's.
    pub fn metrics(body: String, is_open: bool) -> Self {
        let kind = if is_open { OPEN_METRICS } else { PLAIN_METRICS };
        Answer::new(OK, kind, body.into_bytes())
    }

    /// Returns a file of the program.
    pub fn file(
        kind: &'static str,
        headers: &'static str,
        body: impl Into<Cow<'static, [u8]>>,
    ) -> Self {
        Answer { headers: headers.into(), ..Answer::new(OK, kind, body) }
    }

    /// Returns 308 to another path.
    pub fn moved(path: &str) -> Self {
        let headers = format!("Location: {path}\r\n").into();
        Answer { headers, ..Answer::line("308 Permanent Redirect", path) }
    }

    /// Returns 404.
    pub fn not_found() -> Self {
        Answer::line("404 Not Found", "there are /metrics, /health, /ready and /console/")
    }

    /// Refuses a request.
    pub fn refused(status: &'static str) -> Self {
        let allow = if status == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
        Answer { headers: allow.into(), ..Answer::line(status, status) }
    }

    /// Returns the bytes of the answer.
    pub fn to_bytes(&self, is_head: bool) -> Vec<u8> {
        let Answer { status, kind, headers, body } = self;
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\n{headers}Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        if !is_head {
            bytes.extend_from_slice(body);
        }
        bytes
    }
}

/// Returns the answer that turns a connection into a WebSocket.
pub fn switch_to_websocket(key: &str, protocol: &str) -> String {
    let digest = Sha1::from([key, WEBSOCKET_GUID].concat()).digest().bytes();
    let accept = BASE64.encode(&digest);
    format!(
        "HTTP/1.1 {SWITCHING}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\
         Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
    )
}

/// Parses the head of a request; the status if it is refused, `None` if more is to come.
pub fn parse(head: &[u8]) -> Option<Result<Request, &'static str>> {
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
    let [host, origin] = ["host", "origin"].map(|name| value(request.headers, name));
    let websocket_key = websocket_key(request.headers);
    let accept = request.headers.iter().find(|one| one.name.eq_ignore_ascii_case("accept"));
    let accept = accept.and_then(|one| str::from_utf8(one.value).ok()).unwrap_or_default();
    let is_open = wants_open(accept);
    Some(Ok(Request { is_head, is_open, path, host, origin, websocket_key }))
}

/// Returns the value of a header that is there once.
fn value(headers: &[Header<'_>], name: &str) -> Option<String> {
    let mut found = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    let (header, None) = (found.next()?, found.next()) else { return None };
    Some(str::from_utf8(header.value).ok()?.trim().to_owned())
}

fn websocket_key(headers: &[Header<'_>]) -> Option<String> {
    let names = |name, wanted: &str| {
        let list = value(headers, name).unwrap_or_default();
        list.split(',').any(|item| item.trim().eq_ignore_ascii_case(wanted))
    };
    let is_wanted = names("upgrade", "websocket")
        && names("connection", "upgrade")
        && names("sec-websocket-version", "13");
    value(headers, "sec-websocket-key").filter(|_| is_wanted)
}

/// Whether a header `Accept` prefers OpenMetrics to plain text.
fn wants_open(accept: &str) -> bool {
    let quality = |kind: &str| {
        let options = accept.split(',').filter_map(|option| {
            let mut words = option.split(';').map(str::trim);
            words.next().filter(|name| name.eq_ignore_ascii_case(kind))?;
            let quality = words.find_map(|word| word.strip_prefix("q=")?.parse().ok());
            Some(quality.unwrap_or(1.0))
        });
        options.fold(0.0, f64::max)
    };
    let open = quality("application/openmetrics-text");
    open > 0.0 && open >= quality("text/plain")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_format_is_chosen() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let request = |accept: &str| {
            let head = format!("GET /metrics HTTP/1.1\r\naccept: {accept}\r\n\r\n");
            parse(head.as_bytes()).unwrap().unwrap().is_open
        };
        assert!(request(prometheus) && request("application/openmetrics-text"));
        for plain in
            ["", "*/*", "text/plain", "text/plain, application/openmetrics-text; q=0.9", "a;q=x"]
        {
            assert!(!request(plain), "{plain}");
        }
        assert!(!request("application/openmetrics-text;q=0"));
    }

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

    /// The example of RFC 6455, section 1.3.
    #[test]
    fn websockets_are_asked_for_and_accepted() {
        let head = "GET /chat HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://example.com\r\nSec-WebSocket-Version: 13\r\n\r\n";
        let request = parse(head.as_bytes()).unwrap().unwrap();
        assert_eq!(request.host.as_deref(), Some("example.com"));
        assert_eq!(request.origin.as_deref(), Some("http://example.com"));
        let key = request.websocket_key.unwrap();
        assert!(
            switch_to_websocket(&key, "p").contains("Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n")
        );
        for (from, to) in [("Version: 13", "Version: 8"), ("keep-alive, Upgrade", "close")] {
            let other = parse(head.replace(from, to).as_bytes()).unwrap().unwrap();
            assert_eq!(other.websocket_key, None);
        }
        let twice = head.replace("Host: example.com", "Host: a\r\nHost: b");
        assert_eq!(parse(twice.as_bytes()).unwrap().unwrap().host, None);
    }
}
