//! Texts of `CLUSTER INFO` and `CLUSTER NODES`, in Redis Cluster's format where it has one.

use super::client_address::ClientAddress;
use super::state::membership::{Figures, State};
use super::transport::{MemberInfo, Role};
use petrel_cluster::SLOTS;
use petrel_commands::{HeldFigures, UnservedFigures};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Nodes that are missing, and how many copies of the data there should be.
pub(super) struct Redundancy {
    /// Nodes that have failed.
    pub failed: usize,
    /// Members that vote.
    pub voters: usize,
    /// Slots without owners, by the node that they wait for.
    pub unserved: Vec<UnservedFigures>,
    /// Votes that the members could have beside these.
    pub missing_voters: usize,
    /// Number of members that are to hold each slot; none: all data members.
    pub copies: Option<usize>,
}

/// Number of missing copies of slots.
fn under_replicated(state: &State, copies: Option<usize>) -> usize {
    if state.me.is_none() {
        return 0;
    }
    let data_members = || state.members.iter().filter(|member| member.role == Role::Data).count();
    let wanted = copies.unwrap_or_else(data_members);
    let ranges = state.view.slots.ranges().iter();
    let whole = ranges.filter(|range| range.owners.len() >= wanted);
    let whole: usize = whole.map(|range| usize::from(range.last - range.first) + 1).sum();
    usize::from(SLOTS) - whole
}

/// The lines of `CLUSTER INFO`. A slot is in order if its primary is linked, or this member while
/// it holds its lease; a member that does not serve has none in order.
pub(super) fn info(
    state: &State,
    has_lease: bool,
    figures: &Figures,
    held: HeldFigures,
    redundancy: Redundancy,
) -> String {
    let Redundancy { failed, voters, missing_voters, unserved, copies } = redundancy;
    let unserved: usize = unserved.iter().map(|of| of.slots).sum();
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
    let lines: [(&str, String); 23] = [
        ("cluster_state", if is_whole { "ok" } else { "fail" }.into()),
        ("cluster_slots_assigned", assigned.to_string()),
        ("cluster_slots_ok", in_order.to_string()),
        ("cluster_slots_fail", (assigned - in_order).to_string()),
        ("cluster_slots_unserved", unserved.to_string()),
        ("cluster_slots_under_replicated", under_replicated(state, copies).to_string()),
        ("cluster_known_nodes", (state.members.len() + failed).to_string()),
        ("cluster_failed_nodes", failed.to_string()),
        ("cluster_voters", voters.to_string()),
        ("cluster_voters_missing", missing_voters.to_string()),
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

/// The lines of `CLUSTER NODES`: members, then nodes that have failed.
pub(super) fn nodes(state: &State, failed: &[MemberInfo]) -> String {
    let members = state.members.iter().map(|member| line(member, state));
    members.chain(failed.iter().map(|node| failed_line(node, state))).collect()
}

/// Redis's word where it has one: a member that holds data is a primary of some slots.
fn word(role: Role) -> &'static str {
    match role {
        Role::Data => "master",
        Role::Cache => "cache",
        Role::Witness => "witness",
    }
}

fn line(member: &MemberInfo, state: &State) -> String {
    let MemberInfo { identity, id, client, bus_port, role, .. } = member;
    let ClientAddress { host, port, .. } = client;
    let is_me = Some(*identity) == state.me;
    let (myself, role) = (if is_me { "myself," } else { "" }, word(*role));
    let is_linked = is_me || state.linked.iter().any(|(peer, _)| peer == identity);
    let link = if is_linked { "connected" } else { "disconnected" };
    let epoch = state.view.epoch;
    let mut line = format!("{id} {host}:{port}@{bus_port} {myself}{role} - 0 0 {epoch} {link}");
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

fn failed_line(node: &MemberInfo, state: &State) -> String {
    let MemberInfo { id, client, bus_port, role, .. } = node;
    let ClientAddress { host, port, .. } = client;
    let (role, epoch) = (word(*role), state.view.epoch);
    format!("{id} {host}:{port}@{bus_port} {role},fail - 0 0 {epoch} disconnected\n")
}
