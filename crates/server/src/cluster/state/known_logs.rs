//! Known state of other members' logs (`logs.rs`).

use parking_lot::Mutex;
use petrel_cluster::wire::LANES;
use petrel_cluster::{Lanes, Node, NodeSet, SlotOwners};

/// Whether the local log has it, and how many others do: the least over the slots that `me` orders,
/// if they have owners of their own.
pub(in crate::cluster) fn count(
    own: &SlotOwners,
    me: Node,
    asked: Node,
    durable: NodeSet,
) -> (i64, i64) {
    let of = |owners: NodeSet, local: Node| {
        let others = NodeSet(owners.0 & durable.0).without(local);
        (i64::from(durable.contains(local)), i64::from(others.0.count_ones()))
    };
    let counts =
        own.sets().map(|owners| of(owners, if owners.contains(asked) { asked } else { me }));
    let least =
        |(local, others): (i64, i64), more: (i64, i64)| (local.min(more.0), others.min(more.1));
    counts.reduce(least).unwrap_or_else(|| of(NodeSet(u64::MAX), asked))
}

/// Known state of the other members' logs, for transactions, which do not wait.
#[derive(Default)]
pub(in crate::cluster) struct KnownLogs(pub(in crate::cluster) Mutex<Known>);

#[derive(Default)]
pub(in crate::cluster) struct Known {
    /// The last question, in this life of the member; 0 if it says nothing any more.
    pub(in crate::cluster) number: u64,
    /// The epoch of the view in which it was asked: another may have other members.
    pub(in crate::cluster) epoch: u64,
    /// Positions of the lanes at the time of the request, which covers the changes before them.
    pub(in crate::cluster) positions: [u64; LANES],
    /// Members that have answered it.
    pub(in crate::cluster) durable: NodeSet,
    /// A newer request is wanted.
    pub(in crate::cluster) is_wanted: bool,
}

impl KnownLogs {
    /// Number of other members that have the present changes on their disks, counted like
    /// `WAITAOF`. If that was not requested yet, the number is 0, and a request is scheduled.
    pub fn count(&self, me: Node, lanes: &Lanes, wake: impl FnOnce()) -> usize {
        let mut known = self.0.lock();
        let changed = lanes.changed_positions();
        let is_asked =
            known.number > 0 && changed.iter().zip(known.positions).all(|(at, to)| *at <= to);
        if !is_asked {
            if !std::mem::replace(&mut known.is_wanted, true) {
                wake();
            }
            return 0;
        }
        count(&lanes.slot_owners(), me, me, known.durable).1 as usize
    }

    /// A life of the member begins: its lanes are others.
    pub fn begin(&self) {
        *self.0.lock() = Known::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_cluster::{Identity, SlotMap, View};

    fn set(nodes: &[u16]) -> NodeSet {
        nodes.iter().map(|&node| Node(node)).collect()
    }

    #[test]
    fn each_disk_counts_once() {
        let identity = |node| Identity { node: Node(node), incarnation: 1 };
        let slots = SlotMap::collect(|slot| match slot {
            0..8192 => &[Node(0), Node(1)],
            _ => &[Node(0), Node(2)],
        });
        let members = (0..4).map(identity).collect();
        let few = View { epoch: 1, members, slots, incoming: Some(SlotMap::collect(|_| &[])) };
        let few = SlotOwners::of(Node(0), &few);
        let all = SlotOwners::default();
        let (owner, other, none) = (Node(0), Node(1), Node(3));
        for (durable, asked, of_few, of_all) in [
            (&[0, 1, 2, 3][..], owner, (1, 1), (1, 3)),
            (&[0, 1, 2, 3], other, (1, 1), (1, 3)),
            (&[0, 1, 2, 3], none, (1, 1), (1, 3)),
            (&[0, 1], owner, (1, 0), (1, 1)),
            (&[1, 2], owner, (0, 1), (0, 2)),
            (&[1, 2], other, (0, 0), (1, 1)),
            (&[3], none, (0, 0), (1, 0)),
            (&[], none, (0, 0), (0, 0)),
        ] {
            assert_eq!(count(&few, owner, asked, set(durable)), of_few, "{durable:?} {asked:?}");
            assert_eq!(count(&all, owner, asked, set(durable)), of_all, "{durable:?} {asked:?}");
        }
    }
}
