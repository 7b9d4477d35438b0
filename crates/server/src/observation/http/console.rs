//! The web console: its pages, and the rules for requests of browsers.
//!
//! A page of another site may send requests to this port from the browser of a user. It cannot
//! read the answers, but it could use a WebSocket. So `Origin` must be the address that the browser
//! has asked, and over plain HTTP this address must be a name of this machine: a name of the other
//! site could resolve to a loopback address (DNS rebinding).

use super::exchange::{Answer, Request};
use crate::config;
use std::borrow::Cow;
use std::net::IpAddr;

/// Subprotocol of the WebSocket: messages carry RESP, in any pieces.
pub const PROTOCOL: &str = "petrel.resp";

/// Path of the WebSocket.
pub const SOCKET: &str = "/console/ws";

/// A page may load only what this server serves, and may not be embedded.
const HEADERS: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; \
    img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n";

const NOT_HERE: &str = "over plain HTTP the console serves only this machine, at the name localhost; from elsewhere: \
    ssh -L 9121:localhost:PORT, PORT being http-port, and http://localhost:9121/console/, or set http-tls";

macro_rules! dist {
    ($name:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/console/dist/", $name))
    };
}

/// Returns a file of the console.
pub fn page(path: &str) -> Option<Answer> {
    let (kind, body): (_, Cow<'static, [u8]>) = match path {
        "/console" => return Some(Answer::moved("/console/")),
        "/console/" => ("text/html; charset=utf-8", dist!("index.html")[..].into()),
        "/console/app.js" => ("text/javascript; charset=utf-8", dist!("app.js")[..].into()),
        "/console/app.css" => ("text/css; charset=utf-8", dist!("app.css")[..].into()),
        "/console/icon.svg" => ("image/svg+xml", dist!("icon.svg")[..].into()),
        "/console/parameters.txt" => {
            ("text/plain; charset=utf-8", config::descriptions().into_bytes().into())
        }
        _ => return None,
    };
    Some(Answer::file(kind, HEADERS, body))
}

/// Returns why a request for the console from this address is refused.
pub fn refusal(request: &Request, peer: IpAddr, is_tls: bool) -> Option<&'static str> {
    let Some(host) = request.host.as_deref() else { return Some("the request names no host") };
    let is_local = peer.to_canonical().is_loopback() && is_this_machine(host);
    if !is_tls && !is_local {
        return Some(NOT_HERE);
    }
    let scheme = if is_tls { "https://" } else { "http://" };
    let is_own = |origin: &str| origin.strip_prefix(scheme).is_some_and(|origin| origin == host);
    match &request.origin {
        Some(origin) if !is_own(origin) => Some("the request comes from a page of another site"),
        None if request.path == SOCKET => Some("the request does not say which page it comes from"),
        _ => None,
    }
}

/// Whether a value of `Host` is a loopback address, or a name that resolves to one everywhere.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_sites_and_other_machines_are_refused() {
        let ask = |host: &str, origin: Option<&str>, peer: &str, is_tls| {
            let request = Request {
                is_head: false,
                is_open: false,
                path: SOCKET.into(),
                host: Some(host.into()),
                origin: origin.map(str::to_owned),
                websocket_key: None,
            };
            refusal(&request, peer.parse().unwrap(), is_tls).is_none()
        };
        for (host, is_known) in [
            ("localhost:1", true),
            ("LOCALHOST", true),
            ("127.0.0.1:1", true),
            ("127.1.2.3", true),
            ("[::1]:1", true),
            ("[::1]", true),
            ("localhost.evil.example:1", false),
            ("evil.example", false),
            ("10.0.0.1:1", false),
            ("[::2]:1", false),
            ("", false),
        ] {
            let own = format!("http://{host}");
            assert_eq!(ask(host, Some(&own), "127.0.0.1", false), is_known, "{host}");
            assert_eq!(ask(host, Some(&own), "::ffff:127.0.0.1", false), is_known, "{host}");
            assert!(!ask(host, Some(&own), "10.0.0.1", false), "{host}");
            assert!(!ask(host, Some("http://evil.example"), "127.0.0.1", false), "{host}");
            assert!(!ask(host, None, "127.0.0.1", false), "{host}");
        }
        assert!(ask("db.example", Some("https://db.example"), "10.0.0.1", true));
        for origin in [Some("http://db.example"), Some("https://evil.example"), Some("null"), None]
        {
            assert!(!ask("db.example", origin, "10.0.0.1", true), "{origin:?}");
        }
    }

    #[test]
    fn pages_are_part_of_the_program() {
        for path in ["/console/", "/console/app.js", "/console/app.css", "/console/icon.svg"] {
            assert!(page(path).is_some(), "{path}");
        }
        let parameters = page("/console/parameters.txt").unwrap().to_bytes(false);
        assert!(String::from_utf8(parameters).unwrap().contains("\nhttp-port\tTCP port of "));
        assert!(page("/console/../secret").is_none());
    }
}
