//! A request and its answer, as text.

/// Bytes of a request up to the empty line.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

const OK: &str = "200 OK";
const UNAVAILABLE: &str = "503 Service Unavailable";
const NOT_ALLOWED: &str = "405 Method Not Allowed";
pub const TOO_LARGE: &str = "431 Request Header Fields Too Large";

const TEXT: &str = "text/plain; charset=utf-8";
const PLAIN_METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A request that has been read.
#[derive(Debug, Eq, PartialEq)]
pub struct Request {
    /// Only the head of the answer is wanted.
    pub is_head: bool,
    /// Metrics are wanted in OpenMetrics's format.
    pub is_open: bool,
    /// The path, without a query.
    pub path: String,
}

/// An answer.
pub struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Answer {
    /// 200 with one line.
    pub fn ok(line: &str) -> Self {
        Answer { status: OK, kind: TEXT, body: format!("{line}\n") }
    }

    /// 503 with the reason.
    pub fn unavailable(why: &str) -> Self {
        Answer { status: UNAVAILABLE, kind: TEXT, body: format!("{why}\n") }
    }

    /// Metrics, in OpenMetrics's format or Prometheus's.
    pub fn metrics(body: String, is_open: bool) -> Self {
        let kind = if is_open { OPEN_METRICS } else { PLAIN_METRICS };
        Answer { status: OK, kind, body }
    }

    /// For a path that is not served.
    pub fn not_found() -> Self {
        let body = "there are /metrics, /health and /ready\n".into();
        Answer { status: "404 Not Found", kind: TEXT, body }
    }

    /// For a request that is not served.
    pub fn refused(status: &'static str) -> Self {
        Answer { status, kind: TEXT, body: format!("{status}\n") }
    }

    /// The bytes of the answer.
    pub fn to_bytes(&self, is_head: bool) -> Vec<u8> {
        let Answer { status, kind, body } = self;
        let length = body.len();
        let allow = if *status == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
        let mut text = format!(
            "HTTP/1.1 {status}\r\n{allow}Content-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        if !is_head {
            text.push_str(body);
        }
        text.into_bytes()
    }
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
    let accept = request.headers.iter().find(|one| one.name.eq_ignore_ascii_case("accept"));
    let accept = accept.and_then(|one| str::from_utf8(one.value).ok()).unwrap_or_default();
    Some(Ok(Request { is_head, is_open: wants_open(accept), path }))
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
}
