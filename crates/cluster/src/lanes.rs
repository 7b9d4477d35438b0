//! The lanes of a node, and the sink that puts what its threads commit into them.
//!
//! ```text
//! execute - mutators - record(effect) ... - committed, the stripes still held - lanes of its keys locked, in order
//!                                                                             - one lane:  effects
//!                                                                             - several:   effects in the first, a part in the others
//! answers to commands that had waited for these changes: behind them
//! ```

use crate::directory::Directory;
use crate::lane::Lane;
use crate::own_homes::OwnHomes;
use crate::shorten::Arguments;
use crate::slot::{SLOTS, Slot, slot_of};
use crate::slot_map::{Node, common_runs};
use crate::view::{Identity, NodeSet, View};
use crate::wire::{LANES, Parts, Record, Tag, Tags, put_record};
use parking_lot::{Mutex, MutexGuard, RwLock};
use petrel_keyspace::{Effect, EffectHead, EffectSink, Origin, Published, SinkSource};
use petrel_persistence::effects::GroupWriter;
use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The mark of changes that came from another node: they are in its lanes already.
pub const FROM_PEERS: Origin = Origin(1);

/// Bytes of effects that are sent to members which have copies; of a larger change they hear that
/// their copies are of no use.
const UPDATE_MAX: usize = 512;

/// Keys that a commit has changed last among which one is looked for that it changes again: that
/// it stands there twice costs a little, but not for each of thousands.
const KEYS_COMPARED: usize = 16;

/// The lane of a slot.
#[inline]
pub fn lane_of(slot: Slot) -> usize {
    usize::from(slot) % LANES
}

/// All lanes of a node, shared by its threads.
pub struct Lanes {
    lanes: [Mutex<Lane>; LANES],
    /// There are other members, to whom commits are sent.
    has_others: AtomicBool,
    /// By slot: who hears of its changes. None where all members do.
    audience: Option<Box<[AtomicU64]>>,
    /// The homes of the slots that this node orders; without any where all members hold all.
    own_homes: RwLock<Arc<OwnHomes>>,
    /// Who has copies, beside those who hear of a slot's changes.
    directory: Directory,
    /// Effects that no lane could take.
    unsent: AtomicU64,
    /// The thread that sends has nothing to send, and is to be woken when there is something.
    is_idle: AtomicBool,
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Too much would have to be kept for a member.
pub(crate) struct CutOff;

thread_local! {
    /// The forwarded command that this thread executes.
    static TAG: Cell<Option<Tag>> = const { Cell::new(None) };
    /// The longest of that command's arguments.
    static ARGUMENTS: RefCell<Option<Arguments>> = const { RefCell::new(None) };
    /// Commands that had waited here for other nodes and were executed by what this thread commits
    /// next.
    static SERVED: RefCell<Vec<Served>> = const { RefCell::new(Vec::new()) };
}

/// A forwarded command that had waited and was executed.
pub struct Served {
    /// Its name.
    pub tag: Tag,
    /// The slots of its keys.
    pub slots: Box<[Slot]>,
    /// Its reply.
    pub reply: Vec<u8>,
}

/// A forwarded command that had waited is executed by what this thread is about to commit, which
/// has to follow: its answer goes out behind that.
pub fn note_served(served: Served) {
    SERVED.with_borrow_mut(|all| all.push(served));
}

/// Positions of the other lanes that an answer in the lane of the first slot has to wait for.
pub(crate) fn positions_seen(lanes: &Lanes, slots: &[Slot]) -> Vec<(usize, u64)> {
    let Some(&first) = slots.first() else { return Vec::new() };
    let mut others: Vec<usize> = slots.iter().map(|&slot| lane_of(slot)).collect();
    others.sort_unstable();
    others.dedup();
    others.retain(|&lane| lane != lane_of(first));
    others.into_iter().map(|lane| (lane, lanes.lane(lane).seq())).collect()
}

/// Executes a forwarded command: what it commits on this thread carries the tag, and goes back to
/// where the command came from without its longest arguments.
pub(crate) fn tagged<T>(tag: Tag, arguments: Option<Arguments>, execute: impl FnOnce() -> T) -> T {
    TAG.set(Some(tag));
    ARGUMENTS.set(arguments);
    let executed = execute();
    TAG.set(None);
    ARGUMENTS.set(None);
    executed
}

/// The record for the node that has forwarded the command which this thread executes.
fn shorten_for_origin(effects: &[u8]) -> Option<(Node, Box<[u8]>)> {
    let origin = TAG.get()?.origin.node;
    ARGUMENTS.with_borrow(|arguments| Some((origin, arguments.as_ref()?.shorten(effects)?)))
}

impl Lanes {
    /// Those of a node that begins with a view, in which `members` are the others.
    pub(crate) fn new(me: Identity, view: &View, members: NodeSet, bytes_max: usize) -> Arc<Self> {
        let bytes = Arc::new(AtomicUsize::new(0));
        let lane = |_| Mutex::new(Lane::new(members, bytes.clone(), bytes_max));
        let none = |_| AtomicU64::new(0);
        let audience = view.incoming.as_ref().map(|_| (0..SLOTS).map(none).collect());
        let lanes = Lanes {
            lanes: std::array::from_fn(lane),
            has_others: AtomicBool::new(members != NodeSet::default()),
            audience,
            own_homes: RwLock::default(),
            directory: Directory::default(),
            unsent: AtomicU64::new(0),
            is_idle: AtomicBool::new(false),
            waker: OnceLock::new(),
        };
        lanes.adopt(me, view, &common_runs(view.maps()));
        Arc::new(lanes)
    }

    /// Takes the homes of a view over, which says something else of these runs than the one before.
    /// Everything is held, or no thread commits yet.
    pub(crate) fn adopt(&self, me: Identity, view: &View, runs: &[RangeInclusive<Slot>]) {
        let Some(audience) = &self.audience else { return };
        for run in runs {
            let of_run = view.audience(*run.start()).without(me.node).0;
            let of_slots = &audience[usize::from(*run.start())..=usize::from(*run.end())];
            of_slots.iter().for_each(|of_slot| of_slot.store(of_run, Relaxed));
        }
        *self.own_homes.write() = Arc::new(OwnHomes::of(me.node, view));
    }

    /// The homes of the slots that this node orders, where members hold only some.
    pub fn own_homes(&self) -> Arc<OwnHomes> {
        self.own_homes.read().clone()
    }

    /// The copies that other members have.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Appends what one commit has changed of a slot, for those who hear of that. The stripes of
    /// its keys are held.
    fn append_slot(&self, of_slot: &SlotGroup, served: Tags<'_>, room: &mut Vec<u8>) {
        let (slot, group) = (of_slot.slot, of_slot.group.bytes());
        let audience = self.audience.as_ref();
        let mut to = audience.map(|audience| NodeSet(audience[usize::from(slot)].load(Relaxed)));
        let homes = to.map_or(u64::MAX, |to| to.0);
        let are_told = group.len() <= UPDATE_MAX;
        if are_told && let Some(to) = &mut to {
            of_slot.copied.iter().for_each(|copied| to.0 |= copied.holders.0);
        }
        room.clear();
        let (tag, parts) = (TAG.get(), Parts::default());
        put_record(room, &Record::Effects { tag, parts, served, group });
        let origin = tag.filter(|tag| to.is_none_or(|to| to.contains(tag.origin.node)));
        let short = origin.and_then(|_| shorten_for_origin(room));
        self.lane(lane_of(slot)).push_change(to, room, short);
        for Copied { db, key, holders, is_removed } in &of_slot.copied {
            let others = NodeSet(holders.0 & !homes);
            if !are_told {
                self.push(lane_of(slot), Some(others), &Record::Changed { db: *db, key });
            }
            if !are_told || *is_removed {
                self.directory.remove(slot, self.directory.name_of(*db, key), others);
            }
        }
    }

    /// Lets `wake` be called by a thread that commits something while the one that sends
    /// [rests](Lanes::rest). Said once.
    pub fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(wake));
    }

    /// The thread that sends is going to look for the last time whether there is something, and to
    /// wait then; or no longer.
    pub fn rest(&self, rests: bool) {
        self.is_idle.store(rests, Relaxed);
    }

    /// Something was committed. Whoever has looked into the lanes before that, under their locks,
    /// has said before that it rests.
    fn note_commit(&self) {
        if self.is_idle.load(Relaxed)
            && self.is_idle.swap(false, Relaxed)
            && let Some(wake) = self.waker.get()
        {
            wake();
        }
    }

    pub(crate) fn lane(&self, lane: usize) -> MutexGuard<'_, Lane> {
        self.lanes[lane].lock()
    }

    /// These are the other members from now on. No thread executes a command meanwhile.
    pub(crate) fn set_members(&self, members: NodeSet) {
        self.has_others.store(members != NodeSet::default(), Relaxed);
        for lane in &self.lanes {
            lane.lock().set_members(members);
        }
    }

    /// How many keys other members have copies of, whose changes this node orders.
    pub fn keys_shared(&self) -> usize {
        self.directory.len()
    }

    /// The members that hear of the changes of a key since they have copies of it, and perhaps
    /// others, if its slot is one that this node orders.
    pub fn sharers(&self, db: u16, key: &[u8]) -> NodeSet {
        self.directory.holders(slot_of(key), self.directory.name_of(db, key))
    }

    /// Bytes that are kept until all members have applied them.
    pub fn bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.lock().bytes()).sum()
    }

    /// The last positions of all lanes.
    pub fn positions(&self) -> [u64; LANES] {
        std::array::from_fn(|lane| self.lane(lane).seq())
    }

    /// The last positions of what was changed here.
    pub fn changed_positions(&self) -> [u64; LANES] {
        std::array::from_fn(|lane| self.lane(lane).changed())
    }

    /// How many positions of all lanes a member has not applied.
    pub fn lag_of(&self, node: Node) -> u64 {
        self.lanes.iter().map(|lane| lane.lock().lag_of(node)).sum()
    }

    /// How many members, besides this one, have applied everything up to these positions. Where
    /// members hold only some slots, those that are homes of a slot: the fewest of all slots that
    /// this node orders.
    pub fn members_at(&self, positions: &[u64; LANES]) -> usize {
        let applied = std::array::from_fn(|lane| self.members_at_lane(lane, positions[lane]));
        self.own_homes().fewest(&applied).unwrap_or_else(|| {
            applied.iter().fold(u64::MAX, |all, of_lane| all & of_lane.0).count_ones() as usize
        })
    }

    /// The members, besides this one, that have applied a lane up to a position.
    pub fn members_at_lane(&self, lane: usize, position: u64) -> NodeSet {
        self.lane(lane).members_at(position)
    }

    /// Members that were cut off, since they would not keep up.
    pub fn cut_off(&self) -> NodeSet {
        NodeSet(self.lanes.iter().fold(0, |all, lane| all | lane.lock().cut_off().0))
    }

    /// Effects of whole databases and of functions, which have no slot: they are not sent.
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Relaxed)
    }

    pub(crate) fn push(&self, lane: usize, to: Option<NodeSet>, record: &Record<'_>) -> u64 {
        let mut bytes = Vec::new();
        put_record(&mut bytes, record);
        self.lane(lane).push(to, &bytes)
    }

    /// Appends what one commit has changed. The stripes of its keys are held, so that commits of a
    /// key are in the order in which they happened. `which` has a bit for each lane.
    fn append_group(&self, which: u16, served: Tags<'_>, group: &[u8], room: &mut Vec<u8>) {
        let tag = TAG.get();
        let lanes = || (0..LANES).filter(|lane| which >> lane & 1 != 0);
        if which.is_power_of_two() {
            room.clear();
            put_record(room, &Record::Effects { tag, parts: Parts::default(), served, group });
            let short = shorten_for_origin(room);
            self.lane(which.trailing_zeros() as usize).push_change(None, room, short);
            return;
        }
        // Ascending, as everybody locks them.
        let mut locked: Vec<_> = lanes().map(|lane| (lane, self.lane(lane))).collect();
        let mut positions = Vec::new();
        let next = locked.iter().map(|(lane, locked)| (*lane, locked.seq() + 1));
        let parts = Parts::of(&mut positions, next);
        for (at, (_, lane)) in locked.iter_mut().enumerate() {
            room.clear();
            let record = match at {
                0 => Record::Effects { tag, parts, served, group },
                _ => Record::Part { parts },
            };
            put_record(room, &record);
            let short = if at == 0 { shorten_for_origin(room) } else { None };
            lane.push_change(None, room, short);
        }
    }

    /// Says that the wait of a command has ended, to its origin; without a reply it was not
    /// executed.
    pub(crate) fn push_woken(&self, tag: Tag, slots: &[Slot], reply: Option<&[u8]>) {
        let mut room = Vec::new();
        let waits = Parts::of(&mut room, positions_seen(self, slots).into_iter());
        let woken = Record::Woken { slot: tag.slot, oseq: tag.oseq, waits, reply };
        self.push(lane_of(tag.slot), Some(NodeSet::of(tag.origin.node)), &woken);
    }

    /// Appends a batch of what there is to be sent to a member, as [`Lane::put_batch`] does; an
    /// error if it was cut off.
    pub(crate) fn put_batch(
        &self,
        (number, to): (usize, Node),
        news: (Option<u64>, bool),
        budget: usize,
        out: &mut Vec<u8>,
    ) -> Result<bool, CutOff> {
        let mut lane = self.lane(number);
        match lane.cut_off().contains(to) {
            true => Err(CutOff),
            false => Ok(lane.put_batch((number as u8, to), news, budget, out)),
        }
    }
}

/// Gives every thread a sink into the lanes of a node.
pub struct LaneSource(pub Arc<Lanes>);

impl SinkSource for LaneSource {
    fn sink(&self) -> Box<dyn EffectSink> {
        Box::new(LaneSink {
            lanes: self.0.clone(),
            group: GroupWriter::default(),
            which: 0,
            slots: Vec::new(),
            slots_used: 0,
            messages: Vec::new(),
            room: Vec::new(),
        })
    }
}

/// A key that was changed and that others have copies of.
struct Copied {
    db: u16,
    key: Box<[u8]>,
    holders: NodeSet,
    /// It was removed, if only for a moment: who applies that has no copy.
    is_removed: bool,
}

/// What a commit has changed of a slot.
struct SlotGroup {
    slot: Slot,
    group: GroupWriter,
    copied: Vec<Copied>,
}

/// Puts what one thread commits into lanes.
struct LaneSink {
    lanes: Arc<Lanes>,
    group: GroupWriter,
    /// Lanes of the keys of the group.
    which: u16,
    /// Where not all hear of all slots: a group for each, of which the first so many are in use.
    slots: Vec<SlotGroup>,
    slots_used: usize,
    /// Messages that go out behind it, with their lanes.
    messages: Vec<(usize, Vec<u8>)>,
    room: Vec<u8>,
}

impl LaneSink {
    fn touch(&mut self, key: &[u8]) {
        self.which |= 1 << lane_of(slot_of(key));
    }

    /// The group of a slot.
    fn group_of(&mut self, slot: Slot) -> &mut SlotGroup {
        let used = self.slots[..self.slots_used].iter();
        let at = used.rev().position(|of_slot| of_slot.slot == slot);
        let at = at.map_or(self.slots_used, |at| self.slots_used - 1 - at);
        if at == self.slots_used {
            self.slots_used += 1;
            match self.slots.get_mut(at) {
                Some(of_slot) => of_slot.slot = slot,
                None => {
                    let (group, copied) = Default::default();
                    self.slots.push(SlotGroup { slot, group, copied });
                }
            }
        }
        &mut self.slots[at]
    }

    /// Notes who has copies of a key that was changed.
    #[cold]
    fn note_copies(&mut self, slot: Slot, db: u16, key: &[u8], is_removed: bool) {
        let directory = &self.lanes.directory;
        let holders = directory.holders(slot, directory.name_of(db, key));
        if holders == NodeSet::default() {
            return;
        }
        let copied = &mut self.group_of(slot).copied;
        let is_same = |copied: &&mut Copied| (copied.db, &copied.key[..]) == (db, key);
        match copied.iter_mut().rev().take(KEYS_COMPARED).find(is_same) {
            Some(known) => known.is_removed |= is_removed,
            None => copied.push(Copied { db, key: key.into(), holders, is_removed }),
        }
    }
}

impl EffectSink for LaneSink {
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
        if head.origin == FROM_PEERS || !self.lanes.has_others.load(Relaxed) {
            return;
        }
        let Some(key) = effect.key() else {
            self.lanes.unsent.fetch_add(1, Relaxed);
            return;
        };
        if self.lanes.audience.is_some() {
            let slot = slot_of(key);
            if self.lanes.directory.has_any(slot) {
                let is_removed = matches!(effect, Effect::Remove { .. });
                self.note_copies(slot, head.db, key, is_removed);
            }
            return self.group_of(slot).group.add(head.db, effect);
        }
        self.touch(key);
        // The value is that of the other key at this place in both lanes.
        if let Some((_, from)) = effect.source() {
            self.touch(from);
        }
        self.group.add(head.db, effect);
    }

    fn message(&mut self, message: &Published<'_>) -> bool {
        let &Published { is_sharded, channel, payload, .. } = message;
        let mut record = Vec::new();
        put_record(&mut record, &Record::Message { is_sharded, channel, payload });
        self.messages.push((lane_of(slot_of(channel)), record));
        true
    }

    fn committed(&mut self, _: u64, _: bool) {
        let served = SERVED.with_borrow_mut(std::mem::take);
        let has_changes = self.which != 0 || self.slots_used != 0;
        if !has_changes && self.messages.is_empty() && served.is_empty() {
            return;
        }
        let mut names = Vec::new();
        for of_slot in &mut self.slots[..std::mem::take(&mut self.slots_used)] {
            let tags = served.iter().map(|served| served.tag);
            let names = Tags::of(&mut names, tags.filter(|tag| tag.slot == of_slot.slot));
            self.lanes.append_slot(of_slot, names, &mut self.room);
            of_slot.group.clear();
            of_slot.copied.clear();
        }
        if self.which != 0 {
            let names = Tags::of(&mut names, served.iter().map(|served| served.tag));
            self.lanes.append_group(self.which, names, self.group.bytes(), &mut self.room);
            self.which = 0;
            self.group.clear();
        }
        for Served { tag, slots, reply } in served {
            self.lanes.push_woken(tag, &slots, Some(&reply));
        }
        for (lane, message) in self.messages.drain(..) {
            self.lanes.lane(lane).push(None, &message);
        }
        self.lanes.note_commit();
    }
}
