//! Parts of decisions on transactions of several primaries, in this node's lanes.
//!
//! A part is a commit with the whole decision, so that each member that has a part can let the
//! others have all of them. Every slot of the transaction has one, also if nothing changes there.

use super::{Lanes, SlotGroup};
use crate::slot::Slot;
use crate::view::NodeSet;
use crate::wire::Tags;
use std::cell::RefCell;
use std::sync::Arc;

/// Parts of a decision that get their places.
pub(crate) struct Part {
    /// The decision.
    pub decision: Arc<[u8]>,
    /// Slots of the parts.
    pub slots: Vec<Slot>,
    /// Members that receive them, besides the owners of these slots.
    pub to: NodeSet,
}

/// Lanes and positions of a commit.
pub(crate) type Positions = Vec<(usize, u64)>;

thread_local! {
    /// Parts that the next commit of this thread consists of.
    static PART: RefCell<Option<Part>> = const { RefCell::new(None) };
    /// Positions of that commit.
    static POSITIONS: RefCell<Positions> = const { RefCell::new(Vec::new()) };
}

/// Takes the parts of which this thread's commit consists, if it is such a commit.
pub(super) fn take() -> Option<Part> {
    PART.take()
}

/// Whether this thread's commit consists of parts.
pub(super) fn is_any() -> bool {
    PART.with_borrow(Option::is_some)
}

/// Records the positions of the commit.
pub(super) fn placed(positions: Positions) {
    POSITIONS.set(positions);
}

impl Lanes {
    /// Gives parts of a decision their places: `apply` makes their changes, in one commit.
    pub(crate) fn append_part(&self, part: Part, apply: impl FnOnce()) -> Positions {
        POSITIONS.take();
        PART.set(Some(part));
        apply();
        // Nothing has changed.
        if let Some(part) = PART.take() {
            let group = |&slot: &Slot| SlotGroup::new(slot);
            let mut groups: Vec<SlotGroup> = part.slots.iter().map(group).collect();
            groups.sort_unstable_by_key(|group| group.slot);
            let positions =
                self.append_commit(&groups, Tags::default(), Some(&part), &mut Vec::new());
            placed(positions);
            self.wake_agent();
        }
        POSITIONS.take()
    }
}
