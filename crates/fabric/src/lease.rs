//! Who may be taken for dead: pure functions of what the leader has seen.
//!
//! A member is down when its lease has run out and failure detection says so, or when it has not
//! renewed its lease for twice as long, whatever that says. A new leader counts from its election,
//! so a lease that the one before had granted is over before any member is taken for dead.

use crate::state::VoterId;
use petrel_cluster::Identity;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The leases of one leader's time.
#[derive(Debug)]
pub(crate) struct Leases {
    lease: Duration,
    since: Instant,
    has_looked: bool,
    renewed: BTreeMap<Identity, Instant>,
}

impl Leases {
    /// Those of a leader that was elected `now`.
    pub fn new(lease: Duration, now: Instant) -> Self {
        Leases { lease, since: now, has_looked: false, renewed: BTreeMap::new() }
    }

    /// A member has renewed its lease.
    pub fn renew(&mut self, member: Identity, now: Instant) {
        self.renewed.insert(member, now);
    }

    /// When a member has last renewed its lease with this leader.
    pub fn renewed(&self, member: Identity) -> Option<Instant> {
        self.renewed.get(&member).copied()
    }

    /// Which of the members are down; `is_alive` is what failure detection says.
    pub fn down(
        &mut self,
        now: Instant,
        members: &[(VoterId, Identity)],
        is_alive: impl Fn(VoterId, Identity) -> bool,
    ) -> Vec<Identity> {
        let is_member = |identity: &Identity| members.iter().any(|(_, member)| member == identity);
        self.renewed.retain(|identity, _| is_member(identity));
        let mut down = Vec::new();
        for &(id, member) in members {
            // A member that is new has a lease from its admission on; one that the leader before
            // had admitted, from the election on.
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

    const NOBODY: [u16; 0] = [];
    const LEASE: Duration = Duration::from_secs(3);

    fn member(number: u16) -> (VoterId, Identity) {
        (number.into(), Identity { node: Node(number), incarnation: 1 })
    }

    fn numbers(down: Vec<Identity>) -> Vec<u16> {
        down.into_iter().map(|identity| identity.node.0).collect()
    }

    #[test]
    fn a_silent_member_is_down_once_its_lease_is_over_and_nobody_hears_of_it() {
        let start = Instant::now();
        let mut leases = Leases::new(LEASE, start);
        let members = [member(1), member(2), member(3)];
        let only_two = |id: VoterId, _| id == 2;
        assert_eq!(numbers(leases.down(start, &members, only_two)), NOBODY);
        leases.renew(members[0].1, start + LEASE);
        assert_eq!(numbers(leases.down(start + LEASE, &members, only_two)), NOBODY);
        let later = start + LEASE + Duration::from_millis(1);
        assert_eq!(numbers(leases.down(later, &members, only_two)), [3]);
        // A member that renews no lease is removed in the end, even if failure detection finds it.
        let later = start + 2 * LEASE + Duration::from_millis(1);
        assert_eq!(numbers(leases.down(later, &members, |_, _| true)), [2, 3]);
        assert_eq!(numbers(leases.down(later, &members, |_, _| false)), [1, 2, 3]);
    }

    #[test]
    fn a_new_leader_waits_one_lease_and_a_new_member_has_one() {
        let start = Instant::now();
        let mut leases = Leases::new(LEASE, start);
        let nobody = |_, _| false;
        assert_eq!(numbers(leases.down(start + LEASE, &[member(1)], nobody)), NOBODY);
        let later = start + LEASE + Duration::from_secs(1);
        let members = [member(1), member(2)];
        assert_eq!(numbers(leases.down(later, &members, nobody)), [1]);
        assert_eq!(numbers(leases.down(later + LEASE, &members, nobody)), [1]);
        let later = later + LEASE + Duration::from_millis(1);
        assert_eq!(numbers(leases.down(later, &members, nobody)), [1, 2]);
    }
}
