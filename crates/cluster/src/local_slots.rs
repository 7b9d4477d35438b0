//! Placement of hash slots as seen by all threads of a node: each slot's primary, and whether it
//! may be read here.

use crate::evicted::{DbKey, Evicted};
use crate::lanes::FROM_PEERS;
use crate::slot::{SLOTS, Slot, SlotSet, slot_of};
use crate::slot_map::Node;
use crate::view::NODES_MAX;
use petrel_keyspace::{Origin, Ownership};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Value in place of a slot's primary: it has none now.
const NO_PRIMARY: u32 = u16::MAX as u32;
/// Flag in a slot's word: clients may read all its keys here.
const READABLE: u32 = 1 << 16;
/// Flag in a slot's word: clients may read those keys that are present, as copies.
const COPIED: u32 = 1 << 17;
/// Flag in a slot's word: this node is its primary, and the slot is on loan.
const LENT: u32 = 1 << 18;

/// Placement of all hash slots as one member knows it, over all its incarnations.
///
/// A thread's view of it is stable until the thread leaves its batch of commands: views are adopted
/// while no other thread is in a batch.
pub struct LocalSlots {
    /// This node's number.
    me: AtomicU16,
    /// Whether every member holds all data.
    holds_all: AtomicBool,
    /// Whether clients are served, and keys expired and evicted.
    is_serving: AtomicBool,
    /// By slot: its primary, and the flags.
    slots: Box<[AtomicU32]>,
    /// Whether there may be copies.
    any_copied: AtomicBool,
    /// Number of copies received.
    taken: AtomicU64,
    /// Copies that were evicted and not reported yet.
    evicted: Evicted,
    /// Whether a slot has an owner without memory.
    any_full: AtomicBool,
    /// A bit for each slot: this node is its primary, and an owner has reached its memory limit.
    full: Box<[AtomicU64]>,
    /// By node number: the epoch of the last view that the node is known to have adopted.
    adopted: Box<[AtomicU64]>,
}

/// Placement of one slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placement {
    /// The primary; none while it is changing or the slot is on loan.
    pub primary: Option<Node>,
    pub is_readable: bool,
    pub has_copies: bool,
    /// This node is the primary, and the slot is on loan.
    pub is_lent: bool,
}

impl Default for LocalSlots {
    /// Placement of a node that serves no clients.
    fn default() -> Self {
        LocalSlots {
            me: AtomicU16::new(u16::MAX),
            holds_all: AtomicBool::new(true),
            is_serving: AtomicBool::new(false),
            slots: (0..SLOTS).map(|_| AtomicU32::new(NO_PRIMARY)).collect(),
            any_copied: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            evicted: Evicted::default(),
            any_full: AtomicBool::new(false),
            full: (0..SLOTS / 64).map(|_| AtomicU64::new(0)).collect(),
            adopted: (0..NODES_MAX).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl LocalSlots {
    /// Resets all slots when the node joins under a new incarnation.
    pub(crate) fn begin(&self, me: Node, holds_all: bool) {
        self.me.store(me.0, Relaxed);
        self.holds_all.store(holds_all, Relaxed);
        self.slots.iter().for_each(|slot| slot.store(NO_PRIMARY, Relaxed));
        self.any_copied.store(false, Relaxed);
        self.evicted.clear();
        self.adopted.iter().for_each(|adopted| adopted.store(0, Relaxed));
    }

    /// Records that a node has adopted the view of this epoch.
    pub(crate) fn note_adopted(&self, node: Node, epoch: u64) {
        if let Some(adopted) = self.adopted.get(usize::from(node.0)) {
            adopted.fetch_max(epoch, Relaxed);
        }
    }

    /// Whether another node is known to have adopted the view that this node has adopted.
    pub fn has_adopted(&self, node: Node) -> bool {
        let epoch = |node: Node| {
            self.adopted.get(usize::from(node.0)).map_or(0, |adopted| adopted.load(Relaxed))
        };
        epoch(node) >= epoch(self.me())
    }

    /// Lets clients read these slots here while the node is no member, and no other slots. No other
    /// thread is in a batch.
    pub fn read_alone(&self, holds_all: bool, slots: &SlotSet) {
        self.holds_all.store(holds_all, Relaxed);
        for slot in 0..SLOTS {
            let is_readable = slots.contains(slot);
            self.set(slot, Placement { is_readable, ..Placement::default() });
        }
        self.serve(true);
    }

    /// Whether some slot of this primary has an owner that has reached its memory limit.
    pub fn has_full_owners(&self) -> bool {
        self.any_full.load(Relaxed)
    }

    /// Whether this node is the primary of a slot, and an owner of it has reached its memory limit.
    pub fn has_full_owner(&self, slot: Slot) -> bool {
        self.has_full_owners()
            && self.full[usize::from(slot / 64)].load(Relaxed) >> (slot % 64) & 1 != 0
    }

    /// Sets the slots of this primary with owners that have reached their memory limits.
    pub(crate) fn set_full(&self, is_full: impl Fn(Slot) -> bool) {
        let mut any = false;
        for (word, first) in self.full.iter().zip((0..SLOTS).step_by(64)) {
            let bit = |bits, slot: Slot| bits | u64::from(is_full(first + slot)) << slot;
            let bits = (0..64).fold(0, bit);
            word.store(bits, Relaxed);
            any |= bits != 0;
        }
        self.any_full.store(any, Relaxed);
    }

    pub(crate) fn take_evicted(&self, count: usize, bytes: usize) -> Vec<DbKey> {
        self.evicted.take(count, bytes)
    }

    pub(crate) fn has_evicted(&self) -> bool {
        self.evicted.has_any()
    }

    /// Sets whether clients are served. No other thread is in a batch.
    pub fn serve(&self, is_serving: bool) {
        self.is_serving.store(is_serving, Relaxed);
    }

    fn slot(&self, slot: Slot) -> u32 {
        match self.is_serving.load(Relaxed) {
            true => self.slots[usize::from(slot)].load(Relaxed),
            false => NO_PRIMARY,
        }
    }

    /// The primary of a slot; none while it is changing.
    pub fn primary(&self, slot: Slot) -> Option<Node> {
        let primary = self.slot(slot) & NO_PRIMARY;
        (primary != NO_PRIMARY).then_some(Node(primary as u16))
    }

    /// Whether this node is the primary of a slot, and it is on loan.
    pub fn is_lent(&self, slot: Slot) -> bool {
        self.slot(slot) & LENT != 0
    }

    /// Like [`LocalSlots::primary`], also while the slot is on loan.
    pub fn assigned_primary(&self, slot: Slot) -> Option<Node> {
        if self.is_lent(slot) { Some(self.me()) } else { self.primary(slot) }
    }

    /// Whether every member holds all data.
    pub fn holds_all(&self) -> bool {
        self.holds_all.load(Relaxed)
    }

    /// Whether clients may read all keys of a slot here.
    pub fn is_readable(&self, slot: Slot) -> bool {
        self.slot(slot) & READABLE != 0
    }

    /// Whether keys of a slot that are present may be read here as copies. Only meaningful if the
    /// slot is not [readable](LocalSlots::is_readable). A key's presence is stable while its stripe
    /// is locked.
    pub fn has_copies(&self, slot: Slot) -> bool {
        self.slot(slot) & COPIED != 0
    }

    /// Number of copies of keys received.
    pub fn copies_taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    pub(crate) fn record_copy(&self) {
        self.taken.fetch_add(1, Relaxed);
        self.any_copied.store(true, Relaxed);
    }

    /// This node's number.
    pub fn me(&self) -> Node {
        Node(self.me.load(Relaxed))
    }

    pub(crate) fn set(&self, slot: Slot, placement: Placement) {
        let Placement { primary, is_readable, has_copies, is_lent } = placement;
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        let primary = primary.map_or(NO_PRIMARY, |primary| primary.0.into());
        let flags = flag(is_readable, READABLE) | flag(has_copies, COPIED) | flag(is_lent, LENT);
        let word = primary | flags;
        self.slots[usize::from(slot)].store(word, Relaxed);
    }
}

impl Ownership for LocalSlots {
    fn is_primary(&self, key: &[u8]) -> bool {
        self.primary(slot_of(key)) == Some(self.me())
    }

    fn copies(&self) -> Option<Origin> {
        self.any_copied.load(Relaxed).then_some(FROM_PEERS)
    }

    fn note_no_copies(&self) {
        self.any_copied.store(false, Relaxed);
    }

    fn is_copy(&self, key: &[u8]) -> bool {
        self.has_copies(slot_of(key))
    }

    fn has_full_owner(&self, key: &[u8]) -> bool {
        self.has_full_owners() && LocalSlots::has_full_owner(self, slot_of(key))
    }

    fn note_evicted(&self, db: u16, key: &[u8]) {
        self.evicted.add(db, key);
    }
}
