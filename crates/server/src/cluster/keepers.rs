//! Members that may keep the changes of their commands for hash slots that they do not own, so
//! that they are answered without waiting for another owner.
//!
//! A member on this member's host may not: both would be lost together. With `appendfsync always`
//! none may: if all members stop, a slot continues with an owner's log. Nor may any keep changes of
//! slots with silent other owners: if this member and the origin are cut off together, changes
//! acknowledged within [`SILENCE_MAX`] are lost.

use super::agent::Agent;
use super::transport::MemberInfo;
use petrel_cluster::NodeSet;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Time without an acknowledgement, though there are changes to acknowledge, after which an owner
/// is silent. It bounds the loss; a delay below it costs each write a round trip.
const SILENCE_MAX: Duration = Duration::from_millis(100);

impl Agent {
    /// Looks which owners keep up.
    pub(super) fn note_answering(&mut self) {
        if self.membership.acknowledge < 2 {
            return;
        }
        let linked = self.linked.values().map(|linked| linked.link.peer.node);
        let lanes = self.node.lanes();
        let answering = self.answering.of(lanes, linked, SILENCE_MAX, Instant::now());
        // The log of an owner is to have everything that was acknowledged.
        let is_strict = self.machine.exec.ks.is_strict();
        let keepers = if is_strict { NodeSet::default() } else { self.elsewhere };
        lanes.set_keepers(keepers, answering);
    }

    /// Looks which members are on other hosts.
    pub(super) fn note_hosts(&mut self) {
        let members = self.membership.state.lock().members.clone();
        let own = members.iter().find(|member| member.identity == self.identity());
        let is_elsewhere = |member: &&MemberInfo| own.is_some_and(|own| !is_same_host(own, member));
        let elsewhere = members.iter().filter(is_elsewhere);
        self.elsewhere = elsewhere.map(|member| member.identity.node).collect::<NodeSet>();
    }
}

/// Whether two members are on one host, as far as their addresses tell.
fn is_same_host(one: &MemberInfo, other: &MemberInfo) -> bool {
    let is_loopback =
        |member: &MemberInfo| member.client.host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    one.client.host == other.client.host || is_loopback(one) && is_loopback(other)
}
