//! State transfer of single slots to a new owner, where members hold only some slots. The primary
//! keeps serving meanwhile; the importer queues changes that arrive before the data are loaded.
//!
//! ```text
//! importer                        primary
//!   FETCH_SLOTS ----------------->  once everything that earlier primaries ordered was applied:
//!   <-- SLOTS_BEGIN, in each lane   with the whole keyspace locked; a snapshot of the slots begins
//!   <-- SLOTS_FOLLOW, COPY ... COPY end
//!   loads them, and applies the records after SLOTS_BEGIN
//!   <-- SLOTS_KNOWN, in a lane      once all members have applied the records before SLOTS_BEGIN
//!   reports that; the next view names it as an owner
//! ```
//!
//! Records before `SLOTS_BEGIN` are contained in the data, so the importer drops them. If the
//! primary dies it cannot pass them on, which is why it becomes an owner only once no member lacks
//! them.
//!
//! A transfer that a broken link or a new view has interrupted is requested again, under a new
//! number.

use super::{Host, LinkError, Node};
use crate::holdings::Holdings;
use crate::mutation::{Mutation, is_broken};
use crate::slot::{SLOTS, Slot, SlotSet};
use crate::slot_map::{Node as Number, SlotMap, common_runs};
use crate::view::{Identity, NodeSet};
use crate::wire::positions::{
    Executed, put_executed, put_marks, put_slots, read_executed, read_slots,
};
use crate::wire::{Frame, LANES, Record, put_frame};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stage of an import.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// Requested.
    Asked,
    /// Arriving.
    Comes,
    /// Arrived completely, and being loaded.
    Loads,
    /// Loaded.
    Loaded,
}

/// Import of slots from their primary.
struct Arrival {
    from: Identity,
    number: u64,
    slots: SlotSet,
    stage: Stage,
    /// Lanes in which `SLOTS_BEGIN` was reached: a bit for each.
    begun: u16,
    /// Effects that wait until the data are loaded.
    waiting: Vec<Arc<[u8]>>,
    waiting_bytes: usize,
    /// `SLOTS_KNOWN` was reached.
    is_known: bool,
}

/// Export of slots to a new owner.
struct Departure {
    to: Identity,
    number: u64,
    slots: SlotSet,
    /// Positions of `SLOTS_BEGIN` by lane, once the transfer has begun.
    begun: Option<[u64; LANES]>,
    is_sent: bool,
    is_known: bool,
}

/// State of transfers.
#[derive(Default)]
pub(super) struct Transfers {
    /// Number of the last request.
    last: u64,
    /// The primary to which it was sent.
    asked: Option<Number>,
    arrival: Option<Arrival>,
    departures: Vec<Departure>,
    /// The host is loading data, even if the transfer was given up since.
    is_loading: bool,
}

/// Treatment of a received change.
pub(super) enum Use {
    Apply,
    /// Apply it to the copies of keys of this slot that are present.
    Copies(Slot),
    Wait,
    Drop,
}

impl Node {
    /// Whether this node has all data of a slot and no leftover; always true where every member
    /// holds all data.
    pub(super) fn holds(&self, slot: Slot) -> bool {
        self.holdings.as_ref().is_none_or(|holdings| holdings.holds(slot))
    }

    /// Whether clients may read all keys of a slot here: this node is an owner and has the data.
    pub(super) fn is_readable(&self, slot: Slot) -> bool {
        let is_owner = || self.view.slots.owners(slot).contains(&self.identity.node);
        if self.is_lent(slot) {
            return false;
        }
        self.holdings.as_ref().is_none_or(|holdings| holdings.holds(slot) && is_owner())
    }

    /// Slots that this node has imported, and of which a view is yet to name it as an owner.
    pub fn arrived(&self) -> SlotSet {
        let me = self.identity.node;
        let incoming = self.view.incoming.iter().flat_map(SlotMap::ranges);
        let to_here = incoming.filter(|range| range.owners.contains(&me));
        let slots = to_here.flat_map(|range| range.first..=range.last);
        slots.filter(|&slot| self.holds(slot)).collect()
    }

    /// Counter that changes with [`Node::arrived`] while the view stays the same.
    pub fn arrivals(&self) -> u64 {
        self.holdings.as_ref().map_or(0, Holdings::arrivals)
    }

    /// Whether members hold only the slots that they own.
    pub fn is_partial(&self) -> bool {
        self.holdings.is_some()
    }

    /// Number of slots that this node holds, and number of slots that it imports.
    pub fn slot_counts(&self) -> (usize, usize) {
        self.holdings.as_ref().map_or((SLOTS.into(), 0), Holdings::counts)
    }

    /// Marks the keys of a previous incarnation as leftover, except those of slots that this node
    /// holds: [`Node::sweep`] has to remove them before slots are imported.
    pub fn mark_other_slots(&mut self) {
        let view = &self.view;
        self.holdings.iter_mut().for_each(|holdings| holdings.mark_others_leftover(view));
        // They are not registered as copies, so they must not be read as such.
        self.update_slots();
    }

    /// Slots of which keys of a former incarnation may have to be removed, now or later.
    pub fn former_slots(&self) -> SlotSet {
        self.holdings.as_ref().map(Holdings::former).unwrap_or_default()
    }

    /// Whether keys of lost slots may still be present.
    pub fn has_leftover(&self) -> bool {
        self.holdings.as_ref().is_some_and(Holdings::has_leftover)
    }

    /// Scans about `count` keys and removes those of lost slots. False once none are left.
    pub fn sweep(&mut self, count: usize, host: &mut dyn Host) -> bool {
        // Keys being loaded cannot be distinguished from leftover ones.
        let Some(holdings) = self.holdings.as_mut().filter(|_| !self.transfers.is_loading) else {
            return false;
        };
        if !holdings.has_leftover() {
            return false;
        }
        let goes_on = holdings.sweep(host.handle(), count);
        if !goes_on {
            self.is_unblocked = true;
            self.update_slots();
            self.resume_pending(host);
        }
        goes_on
    }

    /// Requests slots that this node is to own from one of their primaries, unless another import
    /// is running.
    pub(super) fn ask_for_slots(&mut self) {
        let Some(holdings) = &self.holdings else { return };
        if self.transfers.arrival.is_some() || self.transfers.is_loading {
            return;
        }
        let mut wanted: BTreeMap<Number, SlotSet> = BTreeMap::new();
        for slot in holdings.awaited() {
            if let Some(primary) = self.view.slots.primary(slot) {
                wanted.entry(primary).or_default().insert(slot);
            }
        }
        // Records of an earlier primary would arrive after data that already contain them.
        let is_early = |slot: Slot| self.former.iter().any(|former| former.holds(slot));
        wanted.retain(|primary, slots| {
            self.links.contains_key(primary) && !slots.iter().any(is_early)
        });
        // Round robin, so that one unresponsive primary does not delay the others.
        let last = self.transfers.asked;
        let next = wanted.keys().find(|&&primary| Some(primary) > last).or(wanted.keys().next());
        let Some(primary) = next.copied() else { return };
        let (Some(slots), Some(from)) = (wanted.remove(&primary), self.view.member(primary)) else {
            return;
        };
        self.transfers.last += 1;
        self.transfers.asked = Some(primary);
        let (number, mut bytes) = (self.transfers.last, Vec::new());
        put_slots(&mut bytes, &slots);
        if let Some(link) = self.links.get_mut(&primary) {
            let frame = Frame::FetchSlots { number, slots: &bytes };
            put_frame(&mut link.first, 0, self.view.epoch, &frame);
        }
        self.transfers.arrival = Some(Arrival {
            from,
            number,
            slots,
            stage: Stage::Asked,
            begun: 0,
            waiting: Vec::new(),
            waiting_bytes: 0,
            is_known: false,
        });
    }

    /// Decides how to treat a change of a slot in a node's lane.
    pub(super) fn use_of(&self, from: Identity, lane: usize, slot: Slot) -> Use {
        if self.holds(slot) {
            return Use::Apply;
        }
        if self.takes_copies(slot) {
            return Use::Copies(slot);
        }
        let arrival = self.transfers.arrival.as_ref();
        let arrival = arrival.filter(|arrival| {
            arrival.from == from && arrival.slots.contains(slot) && arrival.begun >> lane & 1 != 0
        });
        match arrival.map(|arrival| arrival.stage) {
            Some(Stage::Loaded) => Use::Apply,
            Some(_) if is_broken(Mutation::DropWhileLoading) => Use::Drop,
            Some(_) => Use::Wait,
            None => Use::Drop,
        }
    }

    /// Queues a change until the data of its slot are loaded.
    pub(super) fn keep_waiting(&mut self, record: Arc<[u8]>) {
        let Some(arrival) = &mut self.transfers.arrival else { return };
        arrival.waiting_bytes += record.len() + size_of::<Arc<[u8]>>();
        arrival.waiting.push(record);
        if arrival.waiting_bytes > self.limits.waiting {
            self.give_up_arrival();
        }
    }

    /// Handles `SLOTS_BEGIN`: later records of the lane are not contained in the data.
    pub(super) fn on_slots_begin(&mut self, from: Identity, lane: usize, number: u64) {
        let arrival = self.transfers.arrival.as_mut();
        let is_meant = |arrival: &&mut Arrival| (arrival.from, arrival.number) == (from, number);
        if let Some(arrival) = arrival.filter(is_meant) {
            arrival.begun |= 1 << lane;
        }
    }

    /// Handles `SLOTS_KNOWN`: all members have applied the contents of the data.
    pub(super) fn on_slots_known(&mut self, from: Identity, number: u64) {
        let arrival = self.transfers.arrival.as_mut();
        let is_meant = |arrival: &&mut Arrival| (arrival.from, arrival.number) == (from, number);
        if let Some(arrival) = arrival.filter(is_meant) {
            arrival.is_known = true;
            self.finish_arrival();
        }
    }

    fn finish_arrival(&mut self) {
        let arrival = self.transfers.arrival.as_ref();
        let is_whole = |arrival: &&Arrival| arrival.stage == Stage::Loaded && arrival.is_known;
        if arrival.filter(is_whole).is_none() {
            return;
        }
        if let (Some(arrival), Some(holdings)) = (self.transfers.arrival.take(), &mut self.holdings)
        {
            holdings.arrive(&arrival.slots);
            self.is_unblocked = true;
        }
    }

    /// Gives up the running import.
    pub(super) fn give_up_arrival(&mut self) {
        let Some(arrival) = self.transfers.arrival.take() else { return };
        let has_loaded = matches!(arrival.stage, Stage::Loads | Stage::Loaded);
        if let Some(holdings) = self.holdings.as_mut().filter(|_| has_loaded) {
            holdings.give_up(&arrival.slots);
        }
        self.is_unblocked = true;
    }

    /// Whether received data have to be loaded by the host into the existing keyspace, which has no
    /// keys of their slots. [`Node::slots_loaded`] reports the result.
    pub fn has_slots_to_load(&self) -> bool {
        self.transfers.is_loading
    }

    /// Reports that the data were loaded, or could not be.
    pub fn slots_loaded(&mut self, is_whole: bool, host: &mut dyn Host) {
        if !std::mem::take(&mut self.transfers.is_loading) {
            return;
        }
        let arrival = self.transfers.arrival.as_mut();
        match arrival.filter(|arrival| arrival.stage == Stage::Loads) {
            Some(arrival) if is_whole => {
                arrival.stage = Stage::Loaded;
                arrival.waiting_bytes = 0;
                let (from, waiting) = (arrival.from, std::mem::take(&mut arrival.waiting));
                for record in waiting {
                    if let Ok(Record::Effects { tag, served, group, .. }) = Record::read(&record) {
                        self.apply(from, tag.into_iter().chain(served.iter()), group, host);
                    }
                }
                self.finish_arrival();
            }
            Some(_) => self.give_up_arrival(),
            None => {}
        }
        self.is_unblocked = true;
        self.resume_pending(host);
    }

    /// Gives up transfers that the new view has made useless: the sender is not the primary any
    /// more, or the receiver is not to own the slots.
    pub(super) fn review_transfers(&mut self) {
        let (me, view) = (self.identity, &self.view);
        if self.transfers.arrival.is_none() && self.transfers.departures.is_empty() {
            return;
        }
        let runs = common_runs(view.maps());
        let is_wanted = |primary: Identity, to: Identity, slots: &SlotSet| {
            let is_wanted = |slot: Slot| {
                view.primary(slot) == Some(primary) && view.incoming(slot).contains(&to.node)
            };
            let mut runs = runs.iter().filter(|run| !is_wanted(*run.start()));
            view.member(to.node) == Some(to)
                && !runs.any(|run| run.clone().any(|slot| slots.contains(slot)))
        };
        let arrival = self.transfers.arrival.as_ref();
        let is_pointless =
            arrival.is_some_and(|arrival| !is_wanted(arrival.from, me, &arrival.slots));
        let departures = &mut self.transfers.departures;
        departures.retain(|departure| is_wanted(me, departure.to, &departure.slots));
        if is_pointless {
            self.give_up_arrival();
        }
    }

    /// Gives up transfers over a link that has ended.
    pub(super) fn end_transfers(&mut self, node: Number) {
        self.transfers
            .departures
            .retain(|departure| departure.to.node != node || departure.is_sent);
        let is_lost = |arrival: &Arrival| {
            arrival.from.node == node && matches!(arrival.stage, Stage::Asked | Stage::Comes)
        };
        if self.transfers.arrival.as_ref().is_some_and(is_lost) {
            self.give_up_arrival();
        }
    }

    /// Handles a frame about transfers.
    pub(super) fn take_slots_frame(
        &mut self,
        from: Identity,
        frame: &Frame<'_>,
        host: &mut dyn Host,
    ) -> Result<(), LinkError> {
        let malformed = |_| LinkError::Malformed;
        match *frame {
            Frame::FetchSlots { number, slots } => {
                let slots = read_slots(slots).map_err(malformed)?;
                self.transfers.departures.retain(|departure| departure.to != from);
                let (begun, is_sent, is_known) = (None, false, false);
                let departure = Departure { to: from, number, slots, begun, is_sent, is_known };
                self.transfers.departures.push(departure);
                self.review_transfers();
            }
            Frame::SlotsFollow { number, executed } => {
                let [executed, marks] = read_executed(executed).map_err(malformed)?;
                let arrival = self.transfers.arrival.as_mut();
                let arrival = arrival.filter(|arrival| {
                    (arrival.from, arrival.number) == (from, number)
                        && arrival.stage == Stage::Asked
                });
                let Some(arrival) = arrival else { return Ok(()) };
                arrival.stage = Stage::Comes;
                host.copy_begins();
                for (identity, slot, oseq) in executed {
                    self.executed.record(identity, slot, oseq);
                }
                self.decisions.add_marks(&marks);
            }
            Frame::Copy { part, is_last } => {
                let arrival = self.transfers.arrival.as_mut();
                let Some(arrival) =
                    arrival.filter(|arrival| arrival.from == from && arrival.stage == Stage::Comes)
                else {
                    return Ok(());
                };
                host.copy(part, is_last);
                if is_last {
                    arrival.stage = Stage::Loads;
                    self.transfers.is_loading = true;
                }
            }
            _ => return Err(LinkError::Malformed),
        }
        Ok(())
    }

    /// The nodes to which requested slots can be sent now.
    pub fn slots_wanted(&self) -> Vec<Identity> {
        let wanted = self.transfers.departures.iter().filter(|departure| {
            departure.begun.is_none() && departure.slots.iter().all(|slot| self.may_order(&[slot]))
        });
        wanted.map(|departure| departure.to).collect()
    }

    /// Begins to send slots to a node. The whole keyspace is locked, and the data have the state of
    /// this moment. None if nothing can be sent now.
    pub fn begin_slots(&mut self, to: Identity) -> Option<SlotSet> {
        if !self.slots_wanted().contains(&to) {
            return None;
        }
        let [executed, marks]: [Vec<Executed>; 2] = {
            let departure =
                self.transfers.departures.iter().find(|departure| departure.to == to)?;
            let is_of = |slot: Slot| departure.slots.contains(slot);
            let marks = self.decisions.marks(|_, slot| is_of(slot));
            [self.executed.sorted(|_, slot| is_of(slot)), marks]
        };
        let departure = self.transfers.departures.iter_mut().find(|one| one.to == to)?;
        let (number, mut bytes) = (departure.number, Vec::new());
        let begin = Record::SlotsBegin { number };
        let push = |lane| self.lanes.push(lane, Some(NodeSet::of(to.node)), &begin);
        departure.begun = Some(std::array::from_fn(push));
        put_executed(&mut bytes, &executed);
        put_marks(&mut bytes, &marks);
        let frame = Frame::SlotsFollow { number, executed: &bytes };
        let link = self.links.get_mut(&to.node)?;
        put_frame(&mut link.first, 0, self.view.epoch, &frame);
        Some(departure.slots.clone())
    }

    /// Sends a part of a transfer. False if it was given up.
    pub fn send_slots(&mut self, to: Identity, part: &[u8], is_last: bool) -> bool {
        let mut departures = self.transfers.departures.iter_mut();
        let departure = departures.find(|departure| {
            departure.to == to && departure.begun.is_some() && !departure.is_sent
        });
        let (Some(departure), Some(link)) = (departure, self.links.get_mut(&to.node)) else {
            return false;
        };
        put_frame(&mut link.first, 0, self.view.epoch, &Frame::Copy { part, is_last });
        departure.is_sent = is_last;
        true
    }

    /// Sends `SLOTS_KNOWN` for a transfer once all members have applied its contents.
    pub(super) fn send_slots_known(&mut self) {
        for departure in &mut self.transfers.departures {
            let Some(begun) = departure.begun.filter(|_| !departure.is_known) else { continue };
            let mut lanes = (0..LANES).zip(begun);
            if lanes.all(|(lane, seq)| self.lanes.lane(lane).stable() >= seq) {
                departure.is_known = true;
                let known = Record::SlotsKnown { number: departure.number };
                self.lanes.push(0, Some(NodeSet::of(departure.to.node)), &known);
            }
        }
        self.transfers.departures.retain(|one| !one.is_sent || !one.is_known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Limits;
    use crate::view::View;

    #[test]
    fn keys_of_former_incarnations_are_not_read_as_copies() {
        let identity = |node| Identity { node: Number(node), incarnation: 1 };
        let view = View {
            epoch: 1,
            members: vec![identity(0), identity(1)],
            slots: SlotMap::collect(|_| &[Number(0)]),
            incoming: Some(SlotMap::collect(|_| &[])),
        };
        let mut node = Node::new(identity(1), view, Limits::default());
        let own = node.local_slots();
        assert!(own.has_copies(7) && node.may_read_copies(&[7]));
        node.mark_other_slots();
        assert!(!own.has_copies(7) && !node.may_read_copies(&[7]));
    }
}
