//! Parameters with which a server is started.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Transport from clients to the server.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Transport {
    /// A Unix-domain socket.
    #[default]
    Unix,
    /// TCP on 127.0.0.1.
    Tcp,
    /// TLS over that.
    Tls,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Transport::Unix => "Unix socket",
            Transport::Tcp => "TCP on 127.0.0.1",
            Transport::Tls => "TLS on 127.0.0.1",
        })
    }
}

/// Parameters of a server's start.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Threads.
    pub threads: usize,
    /// Transport of the load.
    pub transport: Transport,
    /// Connections that it must accept.
    pub connections: usize,
    /// Largest value that will be stored, bytes.
    pub value_max: u32,
    /// Size of the value that a bare loop answers to GET, bytes.
    pub reply_size: u32,
    /// Nodes of a cluster that hold data.
    pub nodes: u16,
    /// Number of nodes that hold each hash slot of a cluster of Petrels; `None` is all.
    pub copies: Option<u16>,
    /// Near caches: nodes of a cluster beside those, with copies of keys that are read there.
    pub caches: u16,
    /// Limit of memory in megabytes, at which it evicts, and the policy.
    pub limit: Option<(u64, &'static str)>,
    /// Delay of a round trip between the nodes of a cluster. If it is set, bytes are counted.
    pub relay: Option<Duration>,
    /// Filled in at start: path of the Unix socket.
    pub socket: PathBuf,
    /// Filled in at start: a free TCP port.
    pub port: u16,
    /// Filled in at start: a directory of its own.
    pub directory: PathBuf,
}

impl Setting {
    /// Makes a setting without paths and port; they are filled in at start.
    pub fn new(threads: usize, transport: Transport, connections: usize) -> Setting {
        Setting { threads, transport, connections, nodes: 1, ..Setting::default() }
    }
}

/// Reads the number of nodes that hold each key; `None` is all.
pub fn parse_copies(text: &str) -> Result<Option<u16>, String> {
    match text.parse() {
        _ if text == "all" => Ok(None),
        Ok(copies @ 1..=64) => Ok(Some(copies)),
        _ => Err(format!("copies {text}: all, or a number from 1 to 64")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_all_or_a_number_of_nodes() {
        assert_eq!((parse_copies("all"), parse_copies("2")), (Ok(None), Ok(Some(2))));
        for text in ["0", "65", "some", ""] {
            assert!(parse_copies(text).is_err(), "{text}");
        }
    }
}
