//! What all threads of a node know of hash slots: whose home they are, and what may be read here.

use crate::evicted::{DbKey, Evicted};
use crate::lanes::FROM_PEERS;
use crate::slot::{SLOTS, Slot, slot_of};
use crate::slot_map::Node;
use petrel_keyspace::{Homes, Origin};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// In a slot's word, in the place of its home: it has none at the moment.
const NO_HOME: u32 = u16::MAX as u32;
/// In a slot's word, above its home: clients may read it here.
const READABLE: u32 = 1 << 16;
/// In a slot's word: clients may read the keys that are here, though not all are.
const COPIED: u32 = 1 << 17;

/// The homes of all hash slots as one member knows them, in all its lives.
///
/// What it says stays so until the calling thread has left its batch of commands: views are adopted
/// while no other thread is in one.
pub struct OwnSlots {
    /// This node.
    me: AtomicU16,
    /// Every member holds all data.
    holds_all: AtomicBool,
    /// Clients are served, and keys removed by themselves.
    is_serving: AtomicBool,
    /// By slot: the number of its home, and what may be read.
    slots: Box<[AtomicU32]>,
    /// Whether there may be copies.
    any_copied: AtomicBool,
    /// How many copies were taken.
    taken: AtomicU64,
    /// Copies that were evicted.
    evicted: Evicted,
}

impl Default for OwnSlots {
    /// Those of a node that serves no client.
    fn default() -> Self {
        OwnSlots {
            me: AtomicU16::new(u16::MAX),
            holds_all: AtomicBool::new(true),
            is_serving: AtomicBool::new(false),
            slots: (0..SLOTS).map(|_| AtomicU32::new(NO_HOME)).collect(),
            any_copied: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            evicted: Evicted::default(),
        }
    }
}

impl OwnSlots {
    /// Another life begins.
    pub(crate) fn begin(&self, me: Node, holds_all: bool) {
        self.me.store(me.0, Relaxed);
        self.holds_all.store(holds_all, Relaxed);
        self.slots.iter().for_each(|slot| slot.store(NO_HOME, Relaxed));
        self.any_copied.store(false, Relaxed);
        self.evicted.clear();
    }

    pub(crate) fn take_evicted(&self, count: usize, bytes: usize) -> Vec<DbKey> {
        self.evicted.take(count, bytes)
    }

    pub(crate) fn has_evicted(&self) -> bool {
        self.evicted.has_any()
    }

    /// Clients are served from now on, or no longer; no other thread is in a batch.
    pub fn serve(&self, is_serving: bool) {
        self.is_serving.store(is_serving, Relaxed);
    }

    fn slot(&self, slot: Slot) -> u32 {
        match self.is_serving.load(Relaxed) {
            true => self.slots[usize::from(slot)].load(Relaxed),
            false => NO_HOME,
        }
    }

    /// The node that orders the changes of a slot; none while its primary is changing.
    pub fn home(&self, slot: Slot) -> Option<Node> {
        let home = self.slot(slot) & NO_HOME;
        (home != NO_HOME).then_some(Node(home as u16))
    }

    /// Whether every member holds all data.
    pub fn holds_all(&self) -> bool {
        self.holds_all.load(Relaxed)
    }

    /// Whether clients may read all keys of a slot here.
    pub fn is_readable(&self, slot: Slot) -> bool {
        self.slot(slot) & READABLE != 0
    }

    /// Whether clients may read the keys of a slot that are here, if it is not
    /// [readable](OwnSlots::is_readable): those that are not may be elsewhere. What is here of a
    /// key stays so as long as its stripe is held.
    pub fn has_copies(&self, slot: Slot) -> bool {
        self.slot(slot) & COPIED != 0
    }

    /// How many copies of keys were taken here.
    pub fn copies_taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    pub(crate) fn note_copy(&self) {
        self.taken.fetch_add(1, Relaxed);
        self.any_copied.store(true, Relaxed);
    }

    /// The node that this is.
    pub fn me(&self) -> Node {
        Node(self.me.load(Relaxed))
    }

    pub(crate) fn set(&self, slot: Slot, home: Option<Node>, is_readable: bool, has_copies: bool) {
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        let home = home.map_or(NO_HOME, |home| home.0.into());
        let word = home | flag(is_readable, READABLE) | flag(has_copies, COPIED);
        self.slots[usize::from(slot)].store(word, Relaxed);
    }
}

impl Homes for OwnSlots {
    fn is_home(&self, key: &[u8]) -> bool {
        self.home(slot_of(key)) == Some(self.me())
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

    fn note_evicted(&self, db: u16, key: &[u8]) {
        self.evicted.add(db, key);
    }
}
