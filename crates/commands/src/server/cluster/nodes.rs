//! Replies of CLUSTER SLOTS, SHARDS, NODES and LINKS.
//!
//! Each node is shown as a primary without replicas: it is a backup of other nodes' slots, too, and
//! clients keep one role for each node.

use crate::cluster::{ClusterLink, HashSlot};
use crate::ctx::Ctx;
use crate::topology::{ClusterNode, EndpointType, NodeHealth, Topology, Viewer};
use petrel_resp::Reply;
use std::fmt::Write;

/// `CLUSTER SLOTS`
pub(super) fn slots(ctx: &mut Ctx<'_>, topology: &dyn Topology) {
    let (nodes, viewer) = (topology.nodes(), ctx.host.viewer());
    let ranges = |node| move |&(first, last): &(HashSlot, HashSlot)| (first, last, node);
    let mut all: Vec<(HashSlot, HashSlot, &ClusterNode)> =
        nodes.iter().flat_map(|node| node.slots.iter().map(ranges(node))).collect();
    all.sort_unstable_by_key(|&(first, ..)| first);
    ctx.reply.array(all.len());
    for (first, last, node) in all {
        ctx.reply.array(3);
        ctx.reply.integer(first.into());
        ctx.reply.integer(last.into());
        networking(node, &viewer, ctx.reply);
    }
}

/// A node in the reply of `CLUSTER SLOTS`: address, port, id, and its other addresses.
fn networking(node: &ClusterNode, viewer: &Viewer, reply: &mut dyn Reply) {
    reply.array(4);
    match node.endpoint_for(viewer) {
        Some(endpoint) => reply.bulk(endpoint.as_bytes()),
        None => reply.null(),
    }
    reply.integer(node.port_for(viewer).into());
    reply.bulk(node.id.as_bytes());
    let ip = Some(("ip", node.ip_for(viewer))).filter(|_| viewer.endpoints != EndpointType::Ip);
    let is_named = !node.hostname.is_empty() && viewer.endpoints != EndpointType::Hostname;
    let hostname = Some(("hostname", &*node.hostname)).filter(|_| is_named);
    let others = || ip.iter().chain(&hostname);
    reply.map(others().count());
    for (name, address) in others() {
        reply.bulk(name.as_bytes());
        reply.bulk(address.as_bytes());
    }
}

/// `CLUSTER SHARDS`
pub(super) fn shards(ctx: &mut Ctx<'_>, topology: &dyn Topology) {
    let (nodes, viewer) = (topology.nodes(), ctx.host.viewer());
    ctx.reply.array(nodes.len());
    for node in &nodes {
        ctx.reply.map(2);
        ctx.reply.bulk(b"slots");
        ctx.reply.array(2 * node.slots.len());
        for &(first, last) in &node.slots {
            ctx.reply.integer(first.into());
            ctx.reply.integer(last.into());
        }
        ctx.reply.bulk(b"nodes");
        ctx.reply.array(1);
        shard_node(node, &viewer, ctx.reply);
    }
}

/// A value of a node in the reply of `CLUSTER SHARDS`.
enum Field<'a> {
    Text(&'a str),
    Number(i64),
}

fn shard_node(node: &ClusterNode, viewer: &Viewer, reply: &mut dyn Reply) {
    let mut fields = vec![("id", Field::Text(&node.id))];
    for (name, port) in [("port", node.port), ("tls-port", node.tls_port)] {
        fields.extend((port != 0).then_some((name, Field::Number(port.into()))));
    }
    fields.push(("ip", Field::Text(node.ip_for(viewer))));
    fields.push(("endpoint", Field::Text(node.endpoint_for(viewer).unwrap_or_default())));
    let is_named = !node.hostname.is_empty();
    fields.extend(is_named.then_some(("hostname", Field::Text(&node.hostname))));
    fields.push(("role", Field::Text("master")));
    // Redis counts bytes of the replication stream, of which there is none.
    fields.push(("replication-offset", Field::Number(0)));
    fields.push(("health", Field::Text(node.health.name())));
    reply.map(fields.len());
    for (name, value) in fields {
        reply.bulk(name.as_bytes());
        match value {
            Field::Text(text) => reply.bulk(text.as_bytes()),
            Field::Number(number) => reply.integer(number),
        }
    }
}

/// `CLUSTER NODES`
pub(super) fn nodes(ctx: &mut Ctx<'_>, topology: &dyn Topology) {
    let viewer = ctx.host.viewer();
    let lines: String = topology.nodes().iter().map(|node| line(node, &viewer) + "\n").collect();
    ctx.reply.verbatim(b"txt", lines.as_bytes());
}

/// `id ip:port@bus-port[,hostname] flags - ping pong epoch link slot...`
fn line(node: &ClusterNode, viewer: &Viewer) -> String {
    let ClusterNode { id, bus_port, hostname, epoch, heard_ms, .. } = node;
    let (ip, port) = (node.ip_for(viewer), node.port_for(viewer));
    let comma = if hostname.is_empty() { "" } else { "," };
    let flags = match node.health {
        NodeHealth::Failed => "master,fail",
        _ if node.is_me => "myself,master",
        _ => "master",
    };
    let link = if node.is_linked { "connected" } else { "disconnected" };
    let mut line = format!(
        "{id} {ip}:{port}@{bus_port}{comma}{hostname} {flags} - 0 {heard_ms} {epoch} {link}"
    );
    for (first, last) in &node.slots {
        let _ = match first == last {
            true => write!(line, " {first}"),
            false => write!(line, " {first}-{last}"),
        };
    }
    line
}

/// `CLUSTER LINKS`. Links carry both directions: each is shown as the two of Redis.
pub(super) fn links(links: &[ClusterLink], reply: &mut dyn Reply) {
    reply.array(2 * links.len());
    for (link, direction) in links.iter().flat_map(|link| [(link, "to"), (link, "from")]) {
        let is_sending = direction == "to" && link.queued > 0;
        let queued = if direction == "to" { link.queued as i64 } else { 0 };
        reply.map(6);
        for (name, value) in [("direction", direction), ("node", &*link.node)] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"create-time");
        reply.integer(link.since_ms);
        reply.bulk(b"events");
        reply.bulk(if is_sending { b"rw" } else { b"r" });
        for (name, value) in [("send-buffer-allocated", queued), ("send-buffer-used", queued)] {
            reply.bulk(name.as_bytes());
            reply.integer(value);
        }
    }
}
