//! Addresses of a member for clients, as the members announce them to each other:
//! `host:port[,tls-port=PORT][,hostname=NAME][,nodename=NAME]`. What older versions do not announce
//! is left out.

use super::settings::address;
use std::fmt::Write;

/// Addresses at which clients reach a member.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClientAddress {
    /// IP address, or the announced name.
    pub host: String,
    /// Port; that for TLS if there is no other.
    pub port: u16,
    /// Port for TLS; 0 if there is none.
    pub tls_port: u16,
    /// Announced host name; empty if there is none.
    pub hostname: String,
    /// Name in logs; empty if there is none.
    pub nodename: String,
}

impl ClientAddress {
    /// The text that is announced.
    pub fn announced(&self) -> String {
        let mut text = address(&self.host, self.port);
        let tls_port = if self.tls_port == 0 { String::new() } else { self.tls_port.to_string() };
        for (name, value) in
            [("tls-port", &tls_port), ("hostname", &self.hostname), ("nodename", &self.nodename)]
        {
            if !value.is_empty() {
                let _ = write!(text, ",{name}={value}");
            }
        }
        text
    }

    /// Parses an announced text. Unknown and invalid parts are ignored.
    pub fn parse(text: &str) -> Self {
        let mut parts = text.split(',');
        let (host, port) = split(parts.next().unwrap_or_default());
        let mut parsed = ClientAddress { host, port, ..ClientAddress::default() };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name {
                "tls-port" => parsed.tls_port = value.parse().unwrap_or(0),
                "hostname" => parsed.hostname = value.into(),
                "nodename" => parsed.nodename = value.into(),
                _ => {}
            }
        }
        parsed
    }

    /// `host:port`.
    pub fn main(&self) -> String {
        address(&self.host, self.port)
    }
}

/// Splits `host:port`.
pub(super) fn split(address: &str) -> (String, u16) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    (host.to_owned(), port.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_addresses_are_parsed() {
        let plain = ClientAddress { host: "10.0.0.1".into(), port: 7001, ..Default::default() };
        assert_eq!(plain.announced(), "10.0.0.1:7001");
        let full = ClientAddress {
            host: "::1".into(),
            tls_port: 7101,
            hostname: "a.example".into(),
            nodename: "first".into(),
            ..plain.clone()
        };
        assert_eq!(full.announced(), "[::1]:7001,tls-port=7101,hostname=a.example,nodename=first");
        for address in [plain, full.clone()] {
            assert_eq!(ClientAddress::parse(&address.announced()), address);
        }
        assert_eq!(full.main(), "[::1]:7001");
        let odd = ClientAddress::parse("h:x,tls-port=,later=1,hostname");
        assert_eq!(odd, ClientAddress { host: "h".into(), ..Default::default() });
        assert_eq!(ClientAddress::parse(""), ClientAddress::default());
    }
}
