//! What `CLUSTER INFO` and `CLUSTER NODES` say, in the words of Redis Cluster where it has them.

use super::{Figures, MemberInfo, State};
use petrel_cluster::SLOTS;
use petrel_commands::HeldFigures;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// The lines of `CLUSTER INFO`. A slot is in order if its primary is linked, or this member while
/// it holds its lease; a member that does not serve has none in order.
pub(super) fn info(state: &State, has_lease: bool, figures: &Figures, held: HeldFigures) -> String {
    let primaries = state.view.slots.primaries();
    let slots = |is_counted: &dyn Fn(u16) -> bool| {
        let counted = primaries.iter().filter(|(_, _, node)| is_counted(node.0));
        counted.map(|(first, last, _)| usize::from(last - first) + 1).sum::<usize>()
    };
    let reached: BTreeSet<u16> = state.linked.iter().map(|(peer, _)| peer.node.0).collect();
    let assigned = slots(&|_| true);
    let me = state.me.filter(|_| has_lease).map(|me| me.node.0);
    let in_order = slots(&|node| state.is_serving && (Some(node) == me || reached.contains(&node)));
    let is_whole = in_order == usize::from(SLOTS);
    let size = primaries.iter().map(|(_, _, node)| node.0).collect::<BTreeSet<u16>>().len();
    let lines: [(&str, String); 18] = [
        ("cluster_state", if is_whole { "ok" } else { "fail" }.into()),
        ("cluster_slots_assigned", assigned.to_string()),
        ("cluster_slots_ok", in_order.to_string()),
        ("cluster_slots_fail", (assigned - in_order).to_string()),
        ("cluster_known_nodes", state.members.len().to_string()),
        ("cluster_size", size.to_string()),
        ("cluster_current_epoch", state.view.epoch.to_string()),
        ("cluster_slots_held", held.slots.to_string()),
        ("cluster_slots_coming", held.slots_coming.to_string()),
        ("cluster_copies_taken", held.copies_taken.to_string()),
        ("cluster_copies_read", held.copies_read.to_string()),
        ("cluster_keys_shared", held.keys_shared.to_string()),
        ("cluster_commands_forwarded", figures.forwarded.load(Relaxed).to_string()),
        ("cluster_commands_served", figures.served.load(Relaxed).to_string()),
        ("cluster_bytes_sent", figures.sent.load(Relaxed).to_string()),
        ("cluster_bytes_received", figures.received.load(Relaxed).to_string()),
        ("cluster_answers_undelivered", figures.undelivered.load(Relaxed).to_string()),
        ("cluster_differences", figures.differences.load(Relaxed).to_string()),
    ];
    lines.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = write!(text, "{name}:{value}\r\n");
        text
    })
}

/// The lines of `CLUSTER NODES`.
pub(super) fn nodes(state: &State) -> String {
    state.members.iter().map(|member| line(member, state)).collect()
}

fn line(member: &MemberInfo, state: &State) -> String {
    let MemberInfo { identity, id, host, port, bus_port, .. } = member;
    let is_me = Some(*identity) == state.me;
    let flags = if is_me { "myself,master" } else { "master" };
    let is_linked = is_me || state.linked.iter().any(|(peer, _)| peer == identity);
    let link = if is_linked { "connected" } else { "disconnected" };
    let epoch = state.view.epoch;
    let mut line = format!("{id} {host}:{port}@{bus_port} {flags} - 0 0 {epoch} {link}");
    for (first, last, node) in state.view.slots.primaries() {
        if node == identity.node {
            let _ = match first == last {
                true => write!(line, " {first}"),
                false => write!(line, " {first}-{last}"),
            };
        }
    }
    line + "\n"
}
