//! Leases: which members are down, as pure functions of the leader's observations.
//!
//! A member is down when its lease has expired and failure detection reports it down, or when it
//! has not renewed its lease for twice as long. A new leader counts from its election, so leases
//! granted by the previous leader have expired before it removes a member.

use crate::state::VoterId;
use petrel_cluster::Identity;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Leases granted during one leadership.
#[derive(Debug)]
pub(crate) struct Leases {
    lease: Duration,
    since: Instant,
    has_looked: bool,
    renewed: BTreeMap<Identity, Instant>,
    /// Times of renewals with this leader.
    confirmed: BTreeMap<Identity, Instant>,
}

impl Leases {
    /// Creates the leases of a leader elected `now`.
    pub fn new(lease: Duration, now: Instant) -> Self {
        let (renewed, confirmed) = Default::default();
        Leases { lease, since: now, has_looked: false, renewed, confirmed }
    }

    /// Renews a member's lease.
    pub fn renew(&mut self, member: Identity, now: Instant) {
        self.renewed.insert(member, now);
        self.confirmed.insert(member, now);
    }

    /// Time of a member's last renewal with this leader, not counting the election.
    pub fn confirmed(&self, member: Identity) -> Option<Instant> {
        self.confirmed.get(&member).copied()
    }

    /// Time of a member's last renewal with this leader.
    pub fn renewed(&self, member: Identity) -> Option<Instant> {
        self.renewed.get(&member).copied()
    }

    /// The members that are down; `is_alive` is the result of failure detection.
    pub fn down(
        &mut self,
        now: Instant,
        members: &[(VoterId, Identity)],
        is_alive: impl Fn(VoterId, Identity) -> bool,
    ) -> Vec<Identity> {
        let is_member = |identity: &Identity| members.iter().any(|(_, member)| member == identity);
        self.renewed.retain(|identity, _| is_member(identity));
        self.confirmed.retain(|identity, _| is_member(identity));
        let mut down = Vec::new();
        for &(id, member) in members {
            // A new member's lease begins with its admission; that of a member from before this
            // leadership, with the election.
            let first = if self.has_looked { now } else { self.since };
            let silent = now.duration_since(*self.renewed.entry(member).or_insert(first));
            if silent > self.lease * 2 || silent > self.lease && !is_alive(id, member) {
                down.push(member);
            }
        }
        self.has_looked = true;
        down
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_cluster::Node;

    const NONE: [u16; 0] = [];
    const LEASE: Duration = Duration::from_secs(3);

    fn member(number: u16) -> (VoterId, Identity) {
        (number.into(), Identity { node: Node(number), incarnation: 1 })
    }

    fn numbers(down: Vec<Identity>) -> Vec<u16> {
        down.into_iter().map(|identity| identity.node.0).collect()
    }

    #[test]
    fn a_silent_member_is_down_once_its_lease_is_over_and_gossip_has_lost_it() {
        let start = Instant::now();
        let mut leases = Leases::new(LEASE, start);
        let members = [member(1), member(2), member(3)];
        let only_two = |id: VoterId, _| id == 2;
        assert_eq!(numbers(leases.down(start, &members, only_two)), NONE);
        leases.renew(members[0].1, start + LEASE);
        assert_eq!(numbers(leases.down(start + LEASE, &members, only_two)), NONE);
        let later = start + LEASE + Duration::from_millis(1);
        assert_eq!(numbers(leases.down(later, &members, only_two)), [3]);
        // A member that does not renew its lease is removed eventually, even if failure detection
        // finds it.
        let later = start + 2 * LEASE + Duration::from_millis(1);
        assert_eq!(numbers(leases.down(later, &members, |_, _| true)), [2, 3]);
        assert_eq!(numbers(leases.down(later, &members, |_, _| false)), [1, 2, 3]);
    }

    #[test]
    fn a_new_leader_waits_one_lease_and_a_new_member_has_one() {
        let start = Instant::now();
        let mut leases = Leases::new(LEASE, start);
        let nobody = |_, _| false;
        assert_eq!(numbers(leases.down(start + LEASE, &[member(1)], nobody)), NONE);
        let later = start + LEASE + Duration::from_secs(1);
        let members = [member(1), member(2)];
        assert_eq!(numbers(leases.down(later, &members, nobody)), [1]);
        assert_eq!(numbers(leases.down(later + LEASE, &members, nobody)), [1]);
        let later = later + LEASE + Duration::from_millis(1);
        assert_eq!(numbers(leases.down(later, &members, nobody)), [1, 2]);
    }
}
