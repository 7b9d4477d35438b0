//! All lanes of a node, and the sink that appends the commits of its threads.
//!
//! ```text
//! execute - mutators - record(effect) ... - committed, stripes locked - lock lanes, ascending
//!                                         one lane:       effects
//!                                         several lanes:  effects in the first, parts in others
//!                                         several slots of few owners each: `commit.rs`
//! answers of blocked commands that the commit served: appended after it
//! ```

mod commit;
mod part;

pub use commit::{note_more_slots, note_slots};
pub(crate) use part::Part;

use crate::directory::Directory;
use crate::elide_args::Arguments;
use crate::lane::{ForOrigin, Keep, Lane, Put};
use crate::mutation::{Mutation, is_broken};
use crate::safe::{Need, Safe};
use crate::slot::{SLOTS, Slot, slot_of};
use crate::slot_map::{Node, common_runs};
use crate::slot_owners::SlotOwners;
use crate::view::{Identity, NodeSet, View};
#[cfg(doc)]
use crate::wire::Exec;
use crate::wire::{KeptHead, LANES, Parts, Record, Tag, Tags, Texts, put_exec_record, put_record};
use parking_lot::{Mutex, MutexGuard, RwLock};
use petrel_keyspace::{
    Call, Effect, EffectHead, EffectSink, Encoded, Origin, Published, SinkSource,
};
use petrel_persistence::effects::GroupWriter;
use std::cell::{Cell, RefCell};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Origin of changes applied from other nodes: they are not appended to this node's lanes.
pub const FROM_PEERS: Origin = Origin(1);

/// Maximum size of effects sent to holders of copies, in bytes. For a larger change they are sent
/// an invalidation.
const UPDATE_MAX: usize = 512;

/// Bytes kept in all lanes from which on origins wait for another owner instead of keeping their
/// changes: a bound of the loss if origin and primary are cut off together.
const UNSAFE_MAX: usize = 1 << 20;

/// Number of recently changed keys of a commit that are searched for a duplicate. A duplicate costs
/// little; searching thousands of keys for each change would not.
const KEYS_COMPARED: usize = 16;

/// The lane of a slot.
#[inline]
pub fn lane_of(slot: Slot) -> usize {
    usize::from(slot) % LANES
}

/// All lanes of a node, shared by its threads.
pub struct Lanes {
    lanes: [Mutex<Lane>; LANES],
    /// The other members.
    members: AtomicU64,
    /// By slot: the members that receive its changes. None where every member holds all data.
    receivers: Option<Box<[AtomicU64]>>,
    /// The owners of the slots of which this node is primary; empty where every member holds all.
    slot_owners: RwLock<Arc<SlotOwners>>,
    /// Holders of copies, in addition to the receivers of each slot's changes.
    directory: Directory,
    /// Changes that another owner has applied.
    safe: Safe,
    /// Bytes kept in all lanes.
    bytes: Arc<AtomicUsize>,
    /// Number of effects without a key, which no lane can carry.
    unsent: AtomicU64,
    /// The agent thread has nothing to send, and wants `waker` to be called after the next commit.
    is_idle: AtomicBool,
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// Error: the member was cut off, since too much would have to be kept for it.
pub(crate) struct CutOff;

thread_local! {
    /// The forwarded command that this thread executes.
    static TAG: Cell<Option<Tag>> = const { Cell::new(None) };
    /// The longest arguments of that command.
    static ARGUMENTS: RefCell<Option<Arguments>> = const { RefCell::new(None) };
    /// Forwarded blocked commands that were executed as part of this thread's next commit.
    static SERVED: RefCell<Vec<Served>> = const { RefCell::new(Vec::new()) };
    /// Room for the record that this thread encodes.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Capacity kept of [`ROOM`], in bytes.
const ROOM_MAX: usize = 64 << 10;

/// Encodes a record in this thread's room and passes it on.
fn encoded<T>(put: impl FnOnce(&mut Vec<u8>), pass: impl FnOnce(&[u8]) -> T) -> T {
    let mut room = ROOM.take();
    room.clear();
    put(&mut room);
    let passed = pass(&room);
    room.shrink_to(ROOM_MAX);
    ROOM.set(room);
    passed
}

/// A forwarded blocked command that was executed.
pub struct Served {
    /// Identifies the command.
    pub tag: Tag,
    /// The slots of its keys.
    pub slots: Box<[Slot]>,
    /// Reply to the command.
    pub reply: Vec<u8>,
}

/// Records that the next commit of this thread executes a forwarded blocked command. Its answer is
/// appended after the commit.
pub fn record_served(served: Served) {
    SERVED.with_borrow_mut(|all| all.push(served));
}

/// Last positions of the other lanes of the slots: an answer in the first slot's lane waits for
/// them.
pub(crate) fn positions_seen(lanes: &Lanes, slots: &[Slot]) -> Vec<(usize, u64)> {
    let [first, _, ..] = *slots else { return Vec::new() };
    let mut others: Vec<usize> = slots.iter().map(|&slot| lane_of(slot)).collect();
    others.sort_unstable();
    others.dedup();
    others.retain(|&lane| lane != lane_of(first));
    others.into_iter().map(|lane| (lane, lanes.lane(lane).seq())).collect()
}

/// Executes a forwarded command: its commits on this thread carry the tag, and return to the origin
/// without its longest arguments.
pub(crate) fn tagged<T>(tag: Tag, arguments: Option<Arguments>, execute: impl FnOnce() -> T) -> T {
    TAG.set(Some(tag));
    ARGUMENTS.set(arguments);
    let executed = execute();
    TAG.set(None);
    ARGUMENTS.set(None);
    executed
}

/// Variant of the effects for the origin of the command that this thread executes, without some
/// arguments.
fn elide_for_origin(effects: &[u8]) -> Option<ForOrigin> {
    let to = TAG.get()?.origin.node;
    let short = ARGUMENTS.with_borrow(|arguments| arguments.as_ref()?.elide(effects))?;
    Some(ForOrigin { to, short: Some(short), kept: None })
}

impl Lanes {
    /// Creates the lanes for a node's first view; `members` are the other members, `bytes_max` is
    /// the limit of all lanes. With `is_acknowledged` replies wait until changes are safe.
    pub(crate) fn new(
        me: Identity,
        view: &View,
        members: NodeSet,
        (bytes_max, is_acknowledged): (usize, bool),
    ) -> Arc<Self> {
        let bytes = Arc::new(AtomicUsize::new(0));
        let lane = |_| Mutex::new(Lane::new(members, bytes.clone(), bytes_max));
        let none = |_| AtomicU64::new(0);
        let receivers = view.incoming.as_ref().map(|_| (0..SLOTS).map(none).collect());
        let lanes = Lanes {
            lanes: std::array::from_fn(lane),
            members: AtomicU64::new(members.0),
            receivers,
            slot_owners: RwLock::default(),
            directory: Directory::default(),
            safe: Safe::new(is_acknowledged),
            bytes: bytes.clone(),
            unsent: AtomicU64::new(0),
            is_idle: AtomicBool::new(false),
            waker: OnceLock::new(),
        };
        lanes.adopt(me, view, &common_runs(view.maps()));
        Arc::new(lanes)
    }

    /// Applies a view that differs from the last one in these runs of slots. Either the whole
    /// keyspace is locked, or no thread commits yet.
    pub(crate) fn adopt(&self, me: Identity, view: &View, runs: &[RangeInclusive<Slot>]) {
        for run in runs {
            let owners = view.slots.owners(*run.start()).iter().copied().collect::<NodeSet>();
            run.clone().for_each(|slot| self.safe.set_owners(slot, owners.without(me.node)));
        }
        let Some(receivers) = &self.receivers else { return };
        for run in runs {
            let of_run = view.receivers(*run.start()).without(me.node).0;
            let of_slots = &receivers[usize::from(*run.start())..=usize::from(*run.end())];
            of_slots.iter().for_each(|of_slot| of_slot.store(of_run, Relaxed));
        }
        *self.slot_owners.write() = Arc::new(SlotOwners::of(me.node, view));
    }

    /// The owners of the slots of which this node is primary, where members hold only some slots.
    pub fn slot_owners(&self) -> Arc<SlotOwners> {
        self.slot_owners.read().clone()
    }

    /// The other owners of a slot.
    pub(crate) fn owners_of(&self, slot: Slot) -> NodeSet {
        self.safe.owners(slot)
    }

    /// The copies of keys that other members have.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Appends a commit's changes of one slot, for the receivers of that slot. The stripes of its
    /// keys are locked.
    fn append_slot(&self, of_slot: &SlotGroup, served: Tags<'_>, room: &mut Vec<u8>) {
        let (slot, group) = (of_slot.slot, of_slot.group.bytes());
        let receivers = self.receivers.as_ref();
        let mut to = receivers.map(|receivers| NodeSet(receivers[usize::from(slot)].load(Relaxed)));
        let owners = to.map_or(u64::MAX, |to| to.0);
        let are_sent = group.len() <= UPDATE_MAX;
        let (tag, parts) = (TAG.get(), Parts::default());
        let keeper = tag.map(|tag| tag.origin.node).filter(|&node| self.is_keeper(slot, node));
        // A keeper is sent the effects, whatever their size.
        let kept = keeper.map_or(0, |node| NodeSet::of(node).0);
        let is_sent_later = |copied: &Copied| copied.holders.0 & !owners & !kept != 0;
        let has_holders = of_slot.copied.iter().any(is_sent_later);
        if let Some(to) = &mut to {
            to.0 |= kept;
            if are_sent {
                of_slot.copied.iter().for_each(|copied| to.0 |= copied.holders.0);
            }
        }
        room.clear();
        put_record(room, &Record::Effects { tag, parts, served, group });
        let origin = tag.filter(|tag| to.is_none_or(|to| to.contains(tag.origin.node)));
        let mut for_origin = origin.and_then(|_| elide_for_origin(room));
        let mut lane = self.lane(lane_of(slot));
        let need = Need { slot, position: lane.seq() + 1 };
        if let Some(to) = keeper {
            let head = KeptHead::new(self.safe.distance(need));
            let needs = self.safe.need_of_others(slot, to);
            let needs = needs.filter(|_| !is_broken(Mutation::OvertakeOthers));
            let needs = needs.into_iter().collect();
            let short = for_origin.and_then(|variant| variant.short);
            for_origin = Some(ForOrigin { to, short, kept: Some(Keep { head, needs }) });
        }
        let needs = || match has_holders && self.safe.is_required() {
            true => Box::from([need]),
            false => Box::default(),
        };
        let position = lane.push_change(to, room, for_origin, needs());
        self.safe.record_change(slot, position, keeper);
        drop(lane);
        for Copied { db, key, holders, is_removed } in &of_slot.copied {
            let others = NodeSet(holders.0 & !owners);
            let name = || self.directory.name_of(*db, key);
            if !are_sent {
                let invalidate = Record::Invalidate { db: *db, key };
                let invalidated = NodeSet(others.0 & !kept);
                self.push_later(lane_of(slot), invalidated, &invalidate, needs());
                self.directory.remove(slot, name(), invalidated);
            }
            if *is_removed {
                self.directory.remove(slot, name(), others);
            }
        }
    }

    /// Whether the origin of a command is sent its changes of a slot to keep them until another
    /// owner has applied them.
    fn is_keeper(&self, slot: Slot, node: Node) -> bool {
        self.receivers.is_some()
            && NodeSet(self.members.load(Relaxed)).contains(node)
            && self.bytes.load(Relaxed) < UNSAFE_MAX
            && self.safe.may_keep(slot, node)
    }

    /// Sets which members may keep changes of their commands for slots that they do not own, and
    /// which owners have acknowledged changes of late. A change is not kept by its origin alone
    /// while all other owners are silent: if origin and primary are cut off together, it is lost.
    pub fn set_keepers(&self, keepers: NodeSet, answering: NodeSet) {
        self.safe.set_keepers(keepers, answering);
    }

    /// Number of acknowledgements of a member with a new position.
    pub fn acknowledgements(&self, node: Node) -> u64 {
        self.safe.acknowledgements(node)
    }

    /// Sets the function that a committing thread calls while the agent thread is
    /// [idle](Lanes::rest). Later calls have no effect.
    pub fn wake_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.waker.set(Box::new(wake));
    }

    /// Sets whether the agent thread is idle. It sets this before it checks the lanes for the last
    /// time, and clears it after it was woken.
    pub fn rest(&self, rests: bool) {
        self.is_idle.store(rests, Relaxed);
    }

    /// Wakes the agent thread after a commit. The agent sets `is_idle` before it checks the lanes
    /// under their locks, so no wake-up is lost.
    fn wake_agent(&self) {
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

    /// Sets the other members. No thread executes a command meanwhile.
    pub(crate) fn set_members(&self, members: NodeSet) {
        self.members.store(members.0, Relaxed);
        for (number, lane) in self.lanes.iter().enumerate() {
            let mut lane = lane.lock();
            for node in lane.set_members(members).iter() {
                self.safe.begin(number, node, lane.seq());
            }
        }
    }

    /// Handles an acknowledgement, as [`Lane::acknowledge`] does.
    pub(crate) fn acknowledge(&self, lane: usize, node: Node, applied: u64) -> bool {
        let is_possible = self.lane(lane).acknowledge(node, applied);
        if is_possible {
            self.safe.acknowledge(lane, node, applied);
        }
        is_possible
    }

    /// Whether replies wait until another owner has applied the changes that they depend on.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.safe.is_required()
    }

    /// Whether another owner of its slot has applied a change, if that is required.
    pub fn is_safe(&self, need: Need) -> bool {
        self.safe.is_safe(need)
    }

    /// The last changes of these slots that are not safe: the reply to a command that has seen
    /// them waits for them.
    pub fn needs_of(&self, slots: &[Slot]) -> Box<[Need]> {
        self.safe.needs_of(slots)
    }

    /// Like [`Lanes::needs_of`], for every slot.
    pub fn needs_of_all(&self) -> Box<[Need]> {
        (0..SLOTS).filter_map(|slot| self.safe.need_of(slot)).collect()
    }

    /// Appends a record for a member that depends on the last changes of these slots.
    pub(crate) fn push_shown(&self, lane: usize, to: Node, slots: &[Slot], record: &Record<'_>) {
        let needs = self.needs_of_member(slots, to);
        self.push_later(lane, NodeSet::of(to), record, needs);
    }

    /// The last changes of slots that are not safe, except those of slots that a member owns, since
    /// it has received them before, and except those kept by it.
    fn needs_of_member(&self, slots: &[Slot], node: Node) -> Box<[Need]> {
        if !self.safe.is_required() {
            return Box::default();
        }
        let foreign = slots.iter().filter(|&&slot| !self.safe.owners(slot).contains(node));
        let need = |&slot: &Slot| {
            let _lane = self.lane(lane_of(slot));
            self.safe.need_of_others(slot, node)
        };
        foreign.filter_map(need).collect()
    }

    fn push_later(&self, lane: usize, to: NodeSet, record: &Record<'_>, needs: Box<[Need]>) {
        encoded(
            |room| put_record(room, record),
            |bytes| {
                self.lane(lane).push_later(to, bytes, needs);
            },
        );
    }

    /// The last changes of slots that no other owner has.
    pub(crate) fn has_unreplicated(&self, slots: &[Slot]) -> bool {
        slots.iter().any(|&slot| {
            let _lane = self.lane(lane_of(slot));
            self.safe.unreplicated(slot).is_some()
        })
    }

    /// Members that receive the changes of any of these slots.
    pub(crate) fn receivers_of(&self, slots: impl Iterator<Item = Slot>) -> NodeSet {
        let all = NodeSet(self.members.load(Relaxed));
        let Some(receivers) = &self.receivers else { return all };
        NodeSet(slots.fold(0, |set, slot| set | receivers[usize::from(slot)].load(Relaxed)))
    }

    /// Number of keys that other members have copies of, in slots of which this node is primary.
    pub fn keys_shared(&self) -> usize {
        self.directory.len()
    }

    /// Members that may have a copy of a key and are sent its changes, if this node is its primary.
    pub fn copy_holders(&self, db: u16, key: &[u8]) -> NodeSet {
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

    /// Last positions of changes made here, by lane.
    pub fn changed_positions(&self) -> [u64; LANES] {
        std::array::from_fn(|lane| self.lane(lane).changed())
    }

    /// Number of positions in all lanes that a member has not applied.
    pub fn lag_of(&self, node: Node) -> u64 {
        self.lanes.iter().map(|lane| lane.lock().lag_of(node)).sum()
    }

    /// Number of other members that have applied everything up to these positions. Where members
    /// hold only some slots: the minimum over all slots of this primary, counting only owners.
    pub fn members_at(&self, positions: &[u64; LANES]) -> usize {
        let applied = std::array::from_fn(|lane| self.members_at_lane(lane, positions[lane]));
        self.slot_owners().fewest(&applied).unwrap_or_else(|| {
            applied.iter().fold(u64::MAX, |all, of_lane| all & of_lane.0).count_ones() as usize
        })
    }

    /// Other members that have applied a lane up to a position.
    pub fn members_at_lane(&self, lane: usize, position: u64) -> NodeSet {
        self.lane(lane).members_at(position)
    }

    /// Members that were cut off because they lagged too far behind.
    pub fn cut_off(&self) -> NodeSet {
        NodeSet(self.lanes.iter().fold(0, |all, lane| all | lane.lock().cut_off().0))
    }

    /// Number of effects that were not sent since they have no slot: those of whole databases and
    /// of function libraries.
    pub fn unsent(&self) -> u64 {
        self.unsent.load(Relaxed)
    }

    pub(crate) fn push(&self, lane: usize, to: Option<NodeSet>, record: &Record<'_>) -> u64 {
        encoded(|room| put_record(room, record), |bytes| self.lane(lane).push(to, bytes))
    }

    /// Tells a member that a key changed which its clients track, unless it owns the slot and
    /// `is_broadcast`: then it has the change itself. `writer`: its client that made it, if known.
    pub fn push_changed(
        &self,
        to: Node,
        is_broadcast: bool,
        writer: Option<u64>,
        (db, key): (u16, &[u8]),
    ) {
        let slot = slot_of(key);
        if !is_broadcast || !self.safe.owners(slot).contains(to) {
            let changed = Record::Changed { is_broadcast, writer, db, key };
            self.push(lane_of(slot), Some(NodeSet::of(to)), &changed);
            self.wake_agent();
        }
    }

    /// Tells members of a keyspace event.
    pub fn push_event<'f>(
        &self,
        to: NodeSet,
        (db, name, key): (u16, &[u8], &[u8]),
        fields: impl Iterator<Item = &'f [u8]>,
    ) {
        let mut room = Vec::new();
        let event = Record::Event { db, name, key, fields: Texts::of(&mut room, fields) };
        self.push(lane_of(slot_of(key)), Some(to), &event);
        self.wake_agent();
    }

    /// Appends a forwarded command, with the sequence numbers and the tenure of [`Exec`].
    pub(crate) fn push_exec(
        &self,
        lane: usize,
        to: Option<NodeSet>,
        numbers: (u64, u64, u64),
        call: &Call,
    ) -> u64 {
        let put = |room: &mut Vec<u8>| put_exec_record(room, numbers, call);
        encoded(put, |bytes| self.lane(lane).push(to, bytes))
    }

    /// Appends the changes of one commit. The stripes of its keys are locked, so commits of a key
    /// are in the order in which they were executed. `which` has a bit for each lane.
    fn append_group(
        &self,
        (which, slots): (u16, &[Slot]),
        served: Tags<'_>,
        group: &[u8],
        room: &mut Vec<u8>,
    ) {
        let tag = TAG.get();
        let record_changes = |number, position| {
            let of_lane = slots.iter().filter(|slot| lane_of(**slot) == number);
            of_lane.for_each(|&slot| self.safe.record_change(slot, position, None));
        };
        let lanes = || (0..LANES).filter(|lane| which >> lane & 1 != 0);
        if which.is_power_of_two() {
            room.clear();
            put_record(room, &Record::Effects { tag, parts: Parts::default(), served, group });
            let short = elide_for_origin(room);
            let number = which.trailing_zeros() as usize;
            let mut lane = self.lane(number);
            let position = lane.seq() + 1;
            let needs = self.needs_of_members(slots.iter().map(|&slot| Need { slot, position }));
            lane.push_change(None, room, short, needs);
            record_changes(number, position);
            return;
        }
        // Ascending, like every thread that locks several lanes.
        let mut locked: Vec<_> = lanes().map(|lane| (lane, self.lane(lane))).collect();
        let mut positions = Vec::new();
        let next = locked.iter().map(|(lane, locked)| (*lane, locked.seq() + 1));
        let needs = slots.iter().filter_map(|&slot| {
            let (_, lane) = locked.iter().find(|(number, _)| *number == lane_of(slot))?;
            Some(Need { slot, position: lane.seq() + 1 })
        });
        let needs = self.needs_of_members(needs);
        let parts = Parts::of(&mut positions, next);
        for (at, (number, lane)) in locked.iter_mut().enumerate() {
            room.clear();
            let record = match at {
                0 => Record::Effects { tag, parts, served, group },
                _ => Record::Part { parts },
            };
            put_record(room, &record);
            let short = if at == 0 { elide_for_origin(room) } else { None };
            let position = lane.push_change(None, room, short, needs.clone());
            record_changes(*number, position);
        }
    }

    /// The needs of a commit that is sent to all members, if some are not owners of its slots.
    fn needs_of_members(&self, needs: impl Iterator<Item = Need>) -> Box<[Need]> {
        if !self.safe.is_required() {
            return Box::default();
        }
        let members = NodeSet(self.members.load(Relaxed));
        needs.filter(|need| !self.safe.owners(need.slot).includes(members)).collect()
    }

    /// Sends the end of a command's wait to its origin. Without a reply it was not executed.
    pub(crate) fn push_woken(&self, tag: Tag, slots: &[Slot], reply: Option<&[u8]>) {
        let mut room = Vec::new();
        let waits = Parts::of(&mut room, positions_seen(self, slots).into_iter());
        let woken = Record::Woken { slot: tag.slot, oseq: tag.oseq, waits, reply };
        self.push_shown(lane_of(tag.slot), tag.origin.node, slots, &woken);
    }

    /// Appends the next batch for a member, as [`Lane::put_batch`] does.
    pub(crate) fn put_batch(
        &self,
        (number, to): (usize, Node),
        news: (Option<u64>, bool),
        budget: usize,
        out: &mut Vec<u8>,
    ) -> Result<Put, CutOff> {
        let mut lane = self.lane(number);
        match lane.cut_off().contains(to) {
            true => Err(CutOff),
            false => {
                let is_held = |needs: &[Need]| needs.iter().any(|need| self.is_held(*need, to));
                Ok(lane.put_batch((number as u8, to), news, is_held, budget, out))
            }
        }
    }
}

impl Lanes {
    /// Whether a record with this need may not be sent to a member yet. An owner of the slot has
    /// been sent its changes before.
    fn is_held(&self, need: Need, to: Node) -> bool {
        let is_owner = self.safe.owners(need.slot).contains(to);
        !is_owner && !is_broken(Mutation::ShowUnsafe) && !self.safe.is_replicated(need)
    }
}

/// Gives every thread a sink that appends to the lanes of a node.
pub struct LaneSource(pub Arc<Lanes>);

impl SinkSource for LaneSource {
    fn sink(&self) -> Box<dyn EffectSink> {
        Box::new(LaneSink {
            lanes: self.0.clone(),
            group: GroupWriter::default(),
            which: 0,
            touched: Vec::new(),
            slots: Vec::new(),
            slots_used: 0,
            is_atomic: false,
            messages: Vec::new(),
            room: Vec::new(),
        })
    }
}

/// A changed key of which other members have copies.
struct Copied {
    db: u16,
    key: Box<[u8]>,
    holders: NodeSet,
    /// The commit removed the key at some point, so holders that apply the commit lose their copy.
    is_removed: bool,
}

/// Changes of one slot in a commit.
struct SlotGroup {
    slot: Slot,
    group: GroupWriter,
    copied: Vec<Copied>,
}

impl SlotGroup {
    fn new(slot: Slot) -> Self {
        let (group, copied) = Default::default();
        SlotGroup { slot, group, copied }
    }
}

/// Appends the commits of one thread to the lanes.
struct LaneSink {
    lanes: Arc<Lanes>,
    group: GroupWriter,
    /// Lanes of the keys of the group, one bit each.
    which: u16,
    /// Slots of these keys.
    touched: Vec<Slot>,
    /// A group for each slot, where members hold only some slots. The first `slots_used` are in
    /// use.
    slots: Vec<SlotGroup>,
    slots_used: usize,
    /// The commit has other changes than removals of expired and evicted keys, each of which may be
    /// a commit of its own.
    is_atomic: bool,
    /// Published messages, appended after the effects, with their lanes.
    messages: Vec<(usize, Vec<u8>)>,
    room: Vec<u8>,
}

impl LaneSink {
    fn touch(&mut self, key: &[u8]) {
        let slot = slot_of(key);
        self.which |= 1 << lane_of(slot);
        if self.touched.last() != Some(&slot) {
            self.touched.push(slot);
        }
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
                None => self.slots.push(SlotGroup::new(slot)),
            }
        }
        &mut self.slots[at]
    }

    /// Records the holders of copies of a changed key.
    #[cold]
    fn record_copies(&mut self, slot: Slot, db: u16, key: &[u8], is_removed: bool) {
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
        self.record_encoded(head, effect, None);
    }

    fn record_encoded<'s>(
        &'s mut self,
        head: EffectHead,
        effect: &Effect<'_>,
        encoded: Option<Encoded<'s>>,
    ) -> Option<Encoded<'s>> {
        if head.origin == FROM_PEERS || self.lanes.members.load(Relaxed) == 0 {
            return encoded;
        }
        let Some(key) = effect.key() else {
            self.lanes.unsent.fetch_add(1, Relaxed);
            return encoded;
        };
        if self.lanes.receivers.is_some() || part::is_any() {
            let slot = slot_of(key);
            if self.lanes.directory.has_any(slot) {
                let is_removed = matches!(effect, Effect::Remove { .. });
                self.record_copies(slot, head.db, key, is_removed);
            }
            self.is_atomic |= !commit::is_upkeep(effect);
            if let Effect::CopyFrom { key, from, value: Some(value), .. } = *effect
                && slot_of(from) != slot
            {
                // A receiver may lack the other key.
                let store = Effect::Store { key, value, expiry: value.expiry() };
                self.group_of(slot).group.add_encoded(head.db, &store, None);
                return encoded;
            }
            return Some(self.group_of(slot).group.add_encoded(head.db, effect, encoded));
        }
        self.touch(key);
        // The source key's value is the one at this position of both lanes.
        if let Some((_, from)) = effect.source() {
            self.touch(from);
        }
        Some(self.group.add_encoded(head.db, effect, encoded))
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
        if self.slots_used != 0 {
            self.append_slots(&served);
        }
        if self.which != 0 {
            let names = Tags::of(&mut names, served.iter().map(|served| served.tag));
            let places = (self.which, &self.touched[..]);
            self.lanes.append_group(places, names, self.group.bytes(), &mut self.room);
            self.which = 0;
            self.touched.clear();
            self.group.clear();
        }
        for Served { tag, slots, reply } in served {
            self.lanes.push_woken(tag, &slots, Some(&reply));
        }
        for (lane, message) in self.messages.drain(..) {
            self.lanes.lane(lane).push(None, &message);
        }
        self.lanes.wake_agent();
    }
}
