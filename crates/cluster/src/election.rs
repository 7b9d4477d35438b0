//! Election of the owner with which a slot continues after all its owners have stopped. A pure
//! function of the extents of returned owners, and of the agreed views.
//!
//! ```text
//! term       epoch from which on the slot had the extent's primary: the views tell
//! longest    latest term; in it the primary itself, else the greatest position in its lane
//! enough     the primary of that term, or all but one of the owners in the extents' last view: one
//!            of them has each acknowledged change
//! ... and    nothing can have been acknowledged in a later view: its primary has returned without
//!            having served in it, or all its other owners have
//! ```
//!
//! If changes are acknowledged by their primary alone, it is awaited, or all owners are.

use crate::extents::{Extent, Extents};
use crate::mutation::{Mutation, is_broken};
use crate::slot::Slot;
use crate::slot_map::Node;
use crate::view::Identity;

/// A view's owners of a slot, the primary first.
#[derive(Clone, Debug)]
pub struct PastOwners {
    /// Epoch of the view.
    pub epoch: u64,
    /// The owners.
    pub owners: Vec<Identity>,
}

/// Result of an election.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Elected {
    /// No node has an extent of the slot.
    Unknown,
    /// The slot continues with the first of these nodes. The others follow in the order of their
    /// extents.
    Owner(Vec<Node>),
    /// The slot waits for the first node; the others that have returned follow.
    Waits(Node, Vec<Node>),
}

/// A node with an extent of the slot.
struct Candidate {
    node: Node,
    extent: Extent,
    term: u64,
    position: u64,
}

/// Elects the owner of a slot, from the extents of the nodes that have returned, and the last views
/// in their order. `by_two` tells whether changes were acknowledged by two owners.
pub fn elect(
    slot: Slot,
    returned: &[(Node, &Extents)],
    views: &[PastOwners],
    by_two: bool,
) -> Elected {
    let candidate = |&(node, extents): &(Node, &Extents)| {
        let extent = extents.get(slot)?;
        let term = match is_broken(Mutation::IgnoreTerms) {
            true => 0,
            false => term(extent, views),
        };
        Some(Candidate { node, extent, term, position: extents.position(slot) })
    };
    let mut known: Vec<Candidate> = returned.iter().filter_map(candidate).collect();
    if !is_broken(Mutation::ElectAny) {
        known.sort_by_key(|of| {
            std::cmp::Reverse((of.term, of.node == of.extent.primary.node, of.position))
        });
    }
    let nodes: Vec<Node> = known.iter().map(|of| of.node).collect();
    let Some(best) = known.first() else { return Elected::Unknown };
    let same_term = known.iter().filter(|of| of.term == best.term);
    let epoch = same_term.map(|of| of.extent.epoch).max().unwrap_or(0);
    match awaited(best, epoch, &nodes, (views, by_two)) {
        Some(awaited) => Elected::Waits(awaited, nodes),
        None => Elected::Owner(nodes),
    }
}

/// Epoch of the view from which on the slot had the primary of an extent without an interruption,
/// as far as views are known.
fn term(extent: Extent, views: &[PastOwners]) -> u64 {
    let end = views.partition_point(|view| view.epoch <= extent.epoch);
    let is_same = |view: &&PastOwners| view.owners.first() == Some(&extent.primary);
    let same = views[..end].iter().rev().take_while(is_same).last();
    same.map_or(extent.epoch, |view| view.epoch.min(extent.epoch))
}

/// The node that may have acknowledged changes which the best candidate lacks. `epoch` is that of
/// the last view in which an owner of its term has served.
fn awaited(
    best: &Candidate,
    epoch: u64,
    known: &[Node],
    (views, by_two): (&[PastOwners], bool),
) -> Option<Node> {
    let is_missing = |owner: &&Identity| !known.contains(&owner.node);
    let missing = |view: &PastOwners| view.owners.iter().filter(is_missing).count();
    let later = views.partition_point(|view| view.epoch <= epoch);
    let last = views[..later].last().filter(|view| view.epoch == epoch);
    let is_enough = match last {
        _ if best.node == best.extent.primary.node => true,
        Some(view) => missing(view) <= usize::from(by_two && view.owners.len() > 1),
        // No view of that time is known.
        None => views.iter().all(|view| missing(view) == 0),
    };
    if !is_enough && !is_broken(Mutation::ElectFew) {
        let primary = best.extent.primary.node;
        let owners = views.iter().flat_map(|view| &view.owners).filter(is_missing);
        let other = owners.map(|owner| owner.node).next();
        return Some(primary).filter(|primary| !known.contains(primary)).or(other);
    }
    let may_have_served = |view: &&PastOwners| {
        let Some(primary) = view.owners.first() else { return false };
        is_missing(&primary) && (!by_two || view.owners.len() == 1 || missing(view) > 1)
    };
    let served = views[later..].iter().rev().find(may_have_served);
    let served = served.filter(|_| !is_broken(Mutation::IgnoreLaterViews));
    served.and_then(|view| view.owners.first()).map(|primary| primary.node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::lane_of;

    fn id(node: u16) -> Identity {
        Identity { node: Node(node), incarnation: 1 }
    }

    fn view(epoch: u64, owners: &[u16]) -> PastOwners {
        PastOwners { epoch, owners: owners.iter().map(|&node| id(node)).collect() }
    }

    /// Extents of slot 5.
    fn upto(primary: u16, epoch: u64, position: u64) -> Extents {
        let mut lanes = [0; 16];
        lanes[lane_of(5)] = position;
        let extent = Extent { primary: id(primary), epoch };
        Extents::collect(|slot| (slot == 5).then_some(extent), &[(id(primary), lanes)].into())
    }

    fn elected(returned: &[(u16, &Extents)], views: &[PastOwners]) -> Elected {
        let returned: Vec<_> = returned.iter().map(|&(node, of)| (Node(node), of)).collect();
        elect(5, &returned, views, true)
    }

    fn owner(nodes: &[u16]) -> Elected {
        Elected::Owner(nodes.iter().copied().map(Node).collect())
    }

    #[test]
    fn the_primary_of_the_last_term_wins_then_the_longest_prefix() {
        let views = [view(3, &[0, 1, 2]), view(4, &[0, 1, 2])];
        let (primary, long, short) = (upto(0, 4, 0), upto(0, 4, 9), upto(0, 3, 8));
        let all = [(2, &short), (1, &long), (0, &primary)];
        assert_eq!(elected(&all, &views), owner(&[0, 1, 2]));
        assert_eq!(elected(&all[..2], &views), owner(&[1, 2]));
        // One of three owners may lack what another one has acknowledged.
        assert_eq!(elected(&all[..1], &views), Elected::Waits(Node(0), vec![Node(2)]));
        assert_eq!(elected(&[], &views), Elected::Unknown);
        // Acknowledged by the primary alone.
        let both = [(Node(2), &short), (Node(1), &long)];
        let waits = Elected::Waits(Node(0), vec![Node(1), Node(2)]);
        assert_eq!(elect(5, &both, &views, false), waits);
        let all = [both[0], both[1], (Node(0), &primary)];
        assert_eq!(elect(5, &all, &views, false), owner(&[0, 1, 2]));
    }

    #[test]
    fn a_later_term_wins_over_a_greater_position() {
        let views = [view(3, &[0, 1, 2]), view(4, &[1, 2, 0])];
        let (new, old) = (upto(1, 4, 1), upto(0, 3, 99));
        assert_eq!(elected(&[(0, &old), (2, &new)], &views), owner(&[2, 0]));
        // The same primary, with another one between: two terms.
        let views = [view(3, &[0, 1, 2]), view(4, &[1, 2, 0]), view(5, &[0, 1, 2])];
        let (new, old) = (upto(0, 5, 7), upto(0, 3, 99));
        assert_eq!(elected(&[(1, &old), (2, &new)], &views), owner(&[2, 1]));
    }

    #[test]
    fn a_view_in_which_a_missing_node_may_have_served_is_awaited() {
        let extents = upto(0, 3, 9);
        let both = [(0, &extents), (1, &extents)];
        // Node 2 may have been alone, or with node 3.
        for last in [&[2][..], &[2, 3]] {
            let views = [view(3, &[0, 1, 2]), view(4, last)];
            let waits = Elected::Waits(Node(2), vec![Node(0), Node(1)]);
            assert_eq!(elected(&both, &views), waits);
        }
        // Node 1 would have had to serve with it, and has not.
        let views = [view(3, &[0, 1, 2]), view(4, &[2, 1])];
        assert_eq!(elected(&both, &views), owner(&[0, 1]));
        // Views of that time are not known.
        let views = [view(8, &[0, 1]), view(9, &[1])];
        assert_eq!(elected(&both, &views), owner(&[0, 1]));
        assert_eq!(elected(&both[1..], &views), Elected::Waits(Node(0), vec![Node(1)]));
    }
}
