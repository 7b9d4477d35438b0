//! Members that have reached their memory limits. The primaries of their slots evict keys of these
//! slots, or refuse commands that add data to them: a backup cannot refuse a change.

use super::Node;
use crate::slot_map::Node as Number;
use crate::view::NodeSet;

impl Node {
    /// Other members that have reached their memory limits.
    pub fn full(&self) -> NodeSet {
        self.full.without(self.identity.node)
    }

    /// Whether this node has reached its memory limit, as the others know.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Sets whether this node has reached its memory limit; the others learn it with the next
    /// frames. If it `evicts` keys then, its own changes of slots with other owners evict as much
    /// as theirs do.
    pub fn set_full(&mut self, is_full: bool, evicts: bool) {
        self.is_full = is_full;
        self.note_full(self.identity.node, is_full && evicts);
    }

    /// Records whether a member has reached its memory limit.
    pub(super) fn note_full(&mut self, node: Number, is_full: bool) {
        if self.full.contains(node) != is_full {
            self.full = if is_full { self.full.with(node) } else { self.full.without(node) };
            self.update_full();
        }
    }

    /// Forgets former members after a change of the view.
    pub(super) fn forget_full(&mut self) {
        let members = self.view.members.iter().map(|member| member.node);
        self.full.0 &= members.collect::<NodeSet>().0;
        self.update_full();
    }

    /// Updates the slots with changes that need memory at a member without any.
    pub(super) fn update_full(&self) {
        let (me, full) = (self.identity.node, self.full.0);
        self.local_slots.set_full(|slot| {
            let others = || Some(self.lanes.owners_of(slot)).filter(|others| others.0 != 0);
            full != 0
                && self.primaries.of_slot(slot) == Some(me)
                && others().is_some_and(|others| others.with(me).0 & full != 0)
        });
    }
}
