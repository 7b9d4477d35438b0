//! The nodes as clients of Redis Cluster see them (`cluster-enabled yes`): the data members of the
//! cluster, or the server alone. Caches and witnesses are hidden, because they own no hash slots.

use super::client_address::ClientAddress;
use super::settings::clients_end;
use super::state::membership::{Membership, State};
use super::transport::{MemberInfo, Role};
use crate::config::{Config, SharedConfig};
use crate::server::unix_ms;
use petrel_cluster::{Node, SLOTS};
use petrel_commands::topology::{ClusterNode, NodeHealth, Topology};
use petrel_commands::{Cluster, Fail, HashSlot, Outcome};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// From a port for clients to the one shown as that of the bus, which a server alone does not have.
const BUS_OFFSET: u16 = 10_000;

impl Topology for Membership {
    fn nodes(&self) -> Vec<ClusterNode> {
        let state = self.state();
        let mut slots: BTreeMap<Node, Vec<(HashSlot, HashSlot)>> = BTreeMap::new();
        for (first, last, node) in state.view.slots.primaries() {
            slots.entry(node).or_default().push((first, last));
        }
        let shown = |member: &MemberInfo| {
            let slots = slots.remove(&member.identity.node).unwrap_or_default();
            ClusterNode { slots, ..node(member, &state) }
        };
        let data = |member: &&MemberInfo| member.role == Role::Data;
        let mut nodes: Vec<_> = state.members.iter().filter(data).map(shown).collect();
        let failed = self.failed();
        nodes.extend(failed.iter().filter(data).map(|member| ClusterNode {
            is_linked: false,
            heard_ms: 0,
            health: NodeHealth::Failed,
            ..node(member, &state)
        }));
        nodes
    }

    fn node(&self, number: u16) -> Option<ClusterNode> {
        let state = self.state();
        let found = state.members.iter().find(|member| member.identity.node.0 == number)?;
        Some(node(found, &state))
    }

    fn is_unserved(&self, slot: HashSlot) -> bool {
        let state = self.state.lock();
        state.is_serving && state.view.primary(slot).is_none()
    }

    fn epoch(&self) -> u64 {
        self.state.lock().view.epoch
    }

    fn info(&self) -> String {
        let (own, known) = (Cluster::info(self), Topology::nodes(self).len());
        redis_lines(&own, known)
    }

    fn forget(&self, id: &[u8]) -> Outcome {
        Cluster::forget(self, id)
    }
}

/// A member without its slots.
fn node(member: &MemberInfo, state: &State) -> ClusterNode {
    let is_me = Some(member.identity) == state.me;
    let is_linked = is_me || state.linked.iter().any(|(peer, _)| *peer == member.identity);
    let ClientAddress { host, port, tls_port, hostname, .. } = member.client.clone();
    ClusterNode {
        id: member.id.clone(),
        ip: host,
        hostname,
        // Members without another port announce that for TLS.
        port: if port == tls_port { 0 } else { port },
        tls_port,
        bus_port: member.bus_port,
        is_me,
        is_linked,
        heard_ms: if is_me || !is_linked { 0 } else { unix_ms() },
        epoch: state.view.epoch,
        health: if member.holds_slots { NodeHealth::Online } else { NodeHealth::Loading },
        slots: Vec::new(),
    }
}

/// Lines of `CLUSTER INFO` in Redis's order, from those of the default mode, which the others
/// follow.
fn redis_lines(own: &str, known: usize) -> String {
    let fields: Vec<(&str, &str)> =
        own.split("\r\n").filter_map(|line| line.split_once(':')).collect();
    let value = |name: &str| {
        let found = fields.iter().find(|(field, _)| *field == name);
        found.map_or_else(|| "0".to_owned(), |(_, value)| (*value).to_owned())
    };
    let epoch = value("cluster_current_epoch");
    let lines = [
        ("cluster_state", value("cluster_state")),
        ("cluster_slots_assigned", value("cluster_slots_assigned")),
        ("cluster_slots_ok", value("cluster_slots_ok")),
        ("cluster_slots_pfail", "0".into()),
        ("cluster_slots_fail", value("cluster_slots_fail")),
        ("cluster_known_nodes", known.to_string()),
        ("cluster_size", value("cluster_size")),
        ("cluster_current_epoch", epoch.clone()),
        ("cluster_my_epoch", epoch),
        ("cluster_stats_messages_sent", value("cluster_commands_forwarded")),
        ("cluster_stats_messages_received", value("cluster_commands_served")),
        ("total_cluster_links_buffer_limit_exceeded", "0".into()),
    ];
    let mut text = String::new();
    for (name, value) in &lines {
        let _ = write!(text, "{name}:{value}\r\n");
    }
    let is_new = |(name, _): &&(&str, &str)| lines.iter().all(|(line, _)| line != name);
    for (name, value) in fields.iter().filter(is_new) {
        let _ = write!(text, "{name}:{value}\r\n");
    }
    text
}

/// A server that is part of no cluster, and so owns all hash slots.
pub(super) struct Alone {
    id: String,
    config: Arc<SharedConfig>,
}

impl Alone {
    /// `id`: 40 hexadecimal digits.
    pub fn new(id: String, config: Arc<SharedConfig>) -> Self {
        Alone { id, config }
    }
}

impl Topology for Alone {
    fn nodes(&self) -> Vec<ClusterNode> {
        let config: &Config = &self.config.snapshot();
        let host = config.cluster.announce_ip.lossy();
        let client = clients_end(config, &host).unwrap_or_default();
        vec![ClusterNode {
            id: self.id.clone(),
            ip: client.host,
            hostname: client.hostname,
            port: if client.port == client.tls_port { 0 } else { client.port },
            tls_port: client.tls_port,
            bus_port: client.port.saturating_add(BUS_OFFSET),
            is_me: true,
            is_linked: true,
            heard_ms: 0,
            epoch: 1,
            health: NodeHealth::Online,
            slots: vec![(0, SLOTS - 1)],
        }]
    }

    fn node(&self, _: u16) -> Option<ClusterNode> {
        None
    }

    fn is_unserved(&self, _: HashSlot) -> bool {
        false
    }

    fn epoch(&self) -> u64 {
        1
    }

    fn info(&self) -> String {
        let slots = SLOTS;
        let own = format!(
            "cluster_state:ok\r\ncluster_slots_assigned:{slots}\r\ncluster_slots_ok:{slots}\r\ncluster_size:1\r\n\
             cluster_current_epoch:1\r\n"
        );
        redis_lines(&own, 1)
    }

    fn forget(&self, id: &[u8]) -> Outcome {
        if self.id.as_bytes().eq_ignore_ascii_case(id) {
            return Err(Fail::FORGET_ME);
        }
        Err(Fail::new([b"ERR Unknown node ", id].concat()))
    }
}
