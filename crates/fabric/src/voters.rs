//! Who votes: the largest odd number of members, five at most, that may vote and have caught up.

use crate::state::VoterId;
use std::collections::BTreeSet;

/// Voters beyond these only slow agreement down.
const VOTERS_MAX: usize = 5;

/// The voters that there should be, of `able` members with nearly everything that was agreed on.
/// Those that vote already stay, the leader first of all, then those with the oldest disks.
pub(crate) fn choose(
    able: &BTreeSet<VoterId>,
    voters: &BTreeSet<VoterId>,
    leader: VoterId,
) -> BTreeSet<VoterId> {
    let count = able.len().min(VOTERS_MAX);
    let count = if count.is_multiple_of(2) { count.saturating_sub(1) } else { count };
    let mut ranked: Vec<VoterId> = able.iter().copied().collect();
    ranked.sort_by_key(|id| (*id != leader, !voters.contains(id), *id));
    ranked.into_iter().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[VoterId]) -> BTreeSet<VoterId> {
        ids.iter().copied().collect()
    }

    #[test]
    fn voters_are_an_odd_number_and_stay() {
        let choose = |able: &[VoterId], voters: &[VoterId], leader| {
            choose(&ids(able), &ids(voters), leader).into_iter().collect::<Vec<VoterId>>()
        };
        assert_eq!(choose(&[1], &[1], 1), [1]);
        assert_eq!(choose(&[1, 2], &[1], 1), [1]);
        assert_eq!(choose(&[1, 2, 3], &[1], 1), [1, 2, 3]);
        assert_eq!(choose(&[1, 2, 3, 4], &[1, 2, 4], 4), [1, 2, 4]);
        assert_eq!(choose(&[1, 2, 3, 4, 5, 6, 7], &[1, 6, 7], 6), [1, 2, 3, 6, 7]);
        // Of three, one has died: one of the others votes for both.
        assert_eq!(choose(&[2, 3], &[1, 2, 3], 3), [3]);
        // A leader that leaves.
        assert_eq!(choose(&[2], &[1], 1), [2]);
        assert!(choose(&[], &[1], 1).is_empty());
    }
}
