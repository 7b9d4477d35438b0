//! Selection of voters: the largest odd number, at most five, of members that may vote and have
//! caught up.

use crate::state::VoterId;
use std::collections::BTreeSet;

/// Maximum number of voters; more would only slow down commits.
const VOTERS_MAX: usize = 5;

/// Number of voters among `able` members that may vote.
pub(crate) fn count(able: usize) -> usize {
    let count = able.min(VOTERS_MAX);
    if count.is_multiple_of(2) { count.saturating_sub(1) } else { count }
}

/// Selects the voters among `able` members, which have almost the whole log. Present voters are
/// preferred, the leader first, then those with the lowest ids.
pub(crate) fn choose(
    able: &BTreeSet<VoterId>,
    voters: &BTreeSet<VoterId>,
    leader: VoterId,
) -> BTreeSet<VoterId> {
    let mut ranked: Vec<VoterId> = able.iter().copied().collect();
    ranked.sort_by_key(|id| (*id != leader, !voters.contains(id), *id));
    ranked.into_iter().take(count(able.len())).collect()
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
        // One of three has died: one of the others gets the only vote.
        assert_eq!(choose(&[2, 3], &[1, 2, 3], 3), [3]);
        // A leader that leaves.
        assert_eq!(choose(&[2], &[1], 1), [2]);
        assert!(choose(&[], &[1], 1).is_empty());
    }
}
