//! The cluster as Redis Cluster's protocol shows it to clients: nodes, their addresses and hash
//! slots. The server implements it; replies are in `server/cluster`, redirections in
//! `admit/redis_cluster.rs`.

use crate::cluster::HashSlot;
use crate::fail::{Fail, Outcome};

/// Type of the addresses that clients get: `cluster-preferred-endpoint-type`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EndpointType {
    /// The IP address.
    #[default]
    Ip,
    /// The host name, `?` if the node has announced none.
    Hostname,
    /// None: the client uses the address that it has connected to.
    Unknown,
}

/// Properties of a connection that decide which addresses it is shown.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Viewer {
    /// Type of the addresses.
    pub endpoints: EndpointType,
    /// Whether the connection is encrypted.
    pub is_tls: bool,
    /// IP address of the server's end, shown for nodes that announce none; empty if there is none.
    pub local_ip: String,
}

/// State of a node.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeHealth {
    /// Serves its slots.
    Online,
    /// Has not received the cluster's data yet.
    Loading,
    /// Was removed as failed, and has not returned.
    Failed,
}

impl NodeHealth {
    /// Redis's word in `CLUSTER SHARDS`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NodeHealth::Online => "online",
            NodeHealth::Loading => "loading",
            NodeHealth::Failed => "fail",
        }
    }
}

/// A node that owns hash slots, or may.
#[derive(Clone, Debug)]
pub struct ClusterNode {
    /// Node id: 40 hexadecimal digits.
    pub id: String,
    /// IP address for clients; empty if it is not known.
    pub ip: String,
    /// Announced host name; empty if there is none.
    pub hostname: String,
    /// Port for clients without TLS; 0 if there is none.
    pub port: u16,
    /// Port for clients with TLS; 0 if there is none.
    pub tls_port: u16,
    /// Port of the cluster bus.
    pub bus_port: u16,
    /// Whether it is this node.
    pub is_me: bool,
    /// Whether this node has a link to it, or is it.
    pub is_linked: bool,
    /// Unix time in milliseconds at which it was last heard; 0 for this node and unlinked ones.
    pub heard_ms: i64,
    /// Epoch of its configuration.
    pub epoch: u64,
    /// State of the node.
    pub health: NodeHealth,
    /// Ranges of slots of which it is the primary, ascending: the first and the last of each.
    pub slots: Vec<(HashSlot, HashSlot)>,
}

impl ClusterNode {
    /// Id of its shard, which no other node belongs to.
    pub(crate) fn shard_id(&self) -> String {
        self.id.chars().rev().collect()
    }

    /// The IP address that a connection is shown.
    pub(crate) fn ip_for<'a>(&'a self, viewer: &'a Viewer) -> &'a str {
        if self.ip.is_empty() { &viewer.local_ip } else { &self.ip }
    }

    /// The port that a connection is shown.
    pub(crate) fn port_for(&self, viewer: &Viewer) -> u16 {
        let (first, second) = match viewer.is_tls {
            true => (self.tls_port, self.port),
            false => (self.port, self.tls_port),
        };
        if first == 0 { second } else { first }
    }

    /// The address that a connection is shown; `None` if it is to use the one it has.
    pub(crate) fn endpoint_for<'a>(&'a self, viewer: &'a Viewer) -> Option<&'a str> {
        match viewer.endpoints {
            EndpointType::Ip => Some(self.ip_for(viewer)),
            EndpointType::Hostname if self.hostname.is_empty() => Some("?"),
            EndpointType::Hostname => Some(&self.hostname),
            EndpointType::Unknown => None,
        }
    }

    /// Error that redirects a client to this node.
    pub(crate) fn moved(&self, slot: HashSlot, viewer: &Viewer) -> Fail {
        let endpoint = self.endpoint_for(viewer).unwrap_or_default();
        Fail::new(format!("MOVED {slot} {endpoint}:{}", self.port_for(viewer)))
    }
}

/// The nodes that own hash slots, for clients of Redis Cluster (`cluster-enabled yes`).
pub trait Topology: Send + Sync {
    /// All nodes that own slots, or may, and those of them that have failed.
    fn nodes(&self) -> Vec<ClusterNode>;

    /// The node of this number ([`Primary::At`](crate::Primary::At)), without its slots.
    fn node(&self, number: u16) -> Option<ClusterNode>;

    /// Whether no node owns a slot, so that waiting for its primary is in vain.
    fn is_unserved(&self, slot: HashSlot) -> bool;

    /// Epoch of the present configuration.
    fn epoch(&self) -> u64;

    /// The reply of `CLUSTER INFO`: lines that end with CRLF.
    fn info(&self) -> String;

    /// Lets all nodes forget a failed node, by its id.
    ///
    /// # Errors
    /// Returns an error if no failed node has this id.
    fn forget(&self, id: &[u8]) -> Outcome;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node() -> ClusterNode {
        ClusterNode {
            id: "0a".repeat(20),
            ip: "10.0.0.1".into(),
            hostname: String::new(),
            port: 7001,
            tls_port: 7101,
            bus_port: 17001,
            is_me: false,
            is_linked: true,
            heard_ms: 0,
            epoch: 1,
            health: NodeHealth::Online,
            slots: Vec::new(),
        }
    }

    fn text(fail: &Fail) -> String {
        String::from_utf8(fail.text().to_vec()).unwrap()
    }

    #[test]
    fn redirections_have_the_preferred_address() {
        let viewer = |endpoints, is_tls| Viewer { endpoints, is_tls, ..Viewer::default() };
        let named = ClusterNode { hostname: "a.example".into(), ..node() };
        for (node, endpoints, is_tls, address) in [
            (node(), EndpointType::Ip, false, "10.0.0.1:7001"),
            (node(), EndpointType::Ip, true, "10.0.0.1:7101"),
            (node(), EndpointType::Hostname, false, "?:7001"),
            (named.clone(), EndpointType::Hostname, false, "a.example:7001"),
            (named, EndpointType::Unknown, true, ":7101"),
            (ClusterNode { port: 0, ..node() }, EndpointType::Ip, false, "10.0.0.1:7101"),
            (ClusterNode { tls_port: 0, ..node() }, EndpointType::Ip, true, "10.0.0.1:7001"),
        ] {
            let moved = node.moved(9, &viewer(endpoints, is_tls));
            assert_eq!(text(&moved), format!("MOVED 9 {address}"));
        }
        let nameless = ClusterNode { ip: String::new(), ..node() };
        let viewer = Viewer { local_ip: "::1".into(), ..Viewer::default() };
        assert_eq!(text(&nameless.moved(1, &viewer)), "MOVED 1 ::1:7001");
    }
}
