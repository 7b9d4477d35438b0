//! Data of slots that get another home, where not every member holds all: their primary sends them
//! while it goes on, and what it numbers meanwhile waits at the receiver.
//!
//! ```text
//! to become a home                 primary
//!   FETCH_SLOTS ----------------->  once all that an earlier primary has numbered was applied:
//!   <-- SLOTS_BEGIN, in each lane   with everything held; an image of the slots begins
//!   <-- SLOTS_FOLLOW, COPY ... COPY end
//!   loads them, and applies what stands behind SLOTS_BEGIN
//!   <-- SLOTS_KNOWN, in a lane      once all members have applied what stands before it
//!   says so: the next view names it as a home
//! ```
//!
//! What stands in a lane before `SLOTS_BEGIN` is in the data, and is dropped. It is not there to be
//! handed on if the primary dies, which is why the receiver counts as a home no earlier than when
//! no member lacks it.
//!
//! What a link loses, or a view makes pointless, is asked for anew, with another number.

use super::{Host, LinkError, Node};
use crate::holdings::Holdings;
use crate::mutation::{Mutation, is_broken};
use crate::slot::{SLOTS, Slot, SlotSet};
use crate::slot_map::{Node as Number, SlotMap, common_runs};
use crate::view::{Identity, NodeSet};
use crate::wire::positions::{Executed, put_executed, put_slots, read_executed, read_slots};
use crate::wire::{Frame, LANES, Record, put_frame};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far the data have come that a node gets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// They were asked for.
    Asked,
    /// They are coming.
    Comes,
    /// They are here, and being loaded.
    Loads,
    /// They were loaded.
    Loaded,
}

/// Data of slots that come from their primary.
struct Arrival {
    from: Identity,
    number: u64,
    slots: SlotSet,
    stage: Stage,
    /// Lanes in which what is not in the data has begun: a bit for each.
    begun: u16,
    /// Effects that wait for the data.
    waiting: Vec<Arc<[u8]>>,
    waiting_bytes: usize,
    /// All members have applied what the data hold.
    is_known: bool,
}

/// Data of slots that go to a node.
struct Departure {
    to: Identity,
    number: u64,
    slots: SlotSet,
    /// Where they stand in each lane, once they have begun.
    begun: Option<[u64; LANES]>,
    is_sent: bool,
    is_known: bool,
}

/// What a node knows of data on their way.
#[derive(Default)]
pub(super) struct Transfers {
    /// The last question.
    last: u64,
    /// Whom it went to.
    asked: Option<Number>,
    arrival: Option<Arrival>,
    departures: Vec<Departure>,
    /// The host is loading data, even if they are of no use any more.
    is_loading: bool,
}

/// What becomes of a change of a slot.
pub(super) enum Use {
    Apply,
    /// It is applied to the copies that are here of this slot.
    Copies(Slot),
    Wait,
    Drop,
}

impl Node {
    /// Whether everything of a slot is here, and nothing of it is to be removed; always so where
    /// every member holds all data.
    pub(super) fn holds(&self, slot: Slot) -> bool {
        self.holdings.as_ref().is_none_or(|holdings| holdings.holds(slot))
    }

    /// Whether clients may read a slot here: as one of its homes.
    pub(super) fn is_readable(&self, slot: Slot) -> bool {
        let is_home = || self.view.slots.homes(slot).contains(&self.identity.node);
        self.holdings.as_ref().is_none_or(|holdings| holdings.holds(slot) && is_home())
    }

    /// Slots that this node has the data of since it has asked for them, and of which a view is to
    /// name it as a home.
    pub fn arrived(&self) -> SlotSet {
        let me = self.identity.node;
        let incoming = self.view.incoming.iter().flat_map(SlotMap::ranges);
        let to_here = incoming.filter(|range| range.homes.contains(&me));
        let slots = to_here.flat_map(|range| range.first..=range.last);
        slots.filter(|&slot| self.holds(slot)).collect()
    }

    /// Changes with [`Node::arrived`] where no view has changed.
    pub fn arrivals(&self) -> u64 {
        self.holdings.as_ref().map_or(0, Holdings::arrivals)
    }

    /// Whether nodes hold the data of the slots alone that they are homes of.
    pub fn is_partial(&self) -> bool {
        self.holdings.is_some()
    }

    /// How many slots' data this node has, and of how many slots they are on their way.
    pub fn slot_counts(&self) -> (usize, usize) {
        self.holdings.as_ref().map_or((SLOTS.into(), 0), Holdings::counts)
    }

    /// The node begins with keys, of former lives of it: those of slots whose data it does not have
    /// are to be removed ([`Node::sweep`]) before it is sent any.
    pub fn leave_other_slots(&mut self) {
        self.holdings.iter_mut().for_each(Holdings::leave_others);
        // What is here of them is no copy that a primary knows of: it is not read meanwhile.
        self.tell_removers();
    }

    /// Whether keys may be here of slots that this node has lost.
    pub fn has_leftover(&self) -> bool {
        self.holdings.as_ref().is_some_and(Holdings::has_leftover)
    }

    /// Looks through about `count` keys for those of slots that this node has lost, and removes
    /// them. False once there are none.
    pub fn sweep(&mut self, count: usize, host: &mut dyn Host) -> bool {
        // What is being loaded would come behind.
        let Some(holdings) = self.holdings.as_mut().filter(|_| !self.transfers.is_loading) else {
            return false;
        };
        if !holdings.has_leftover() {
            return false;
        }
        let goes_on = holdings.sweep(host.handle(), count);
        if !goes_on {
            self.is_unblocked = true;
            self.tell_removers();
            self.go_on(host);
        }
        goes_on
    }

    /// Asks a primary for the data of slots that this node is to become a home of, if it waits for
    /// no others.
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
        // What an earlier primary has numbered would come behind the data that hold it.
        let is_early = |slot: Slot| self.leaving.iter().any(|leaving| leaving.holds(slot));
        wanted.retain(|primary, slots| {
            self.links.contains_key(primary) && !slots.iter().any(is_early)
        });
        // By turns, so that no slot waits for a primary that does not answer.
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

    /// What becomes of a change that a node has numbered of a slot, in this lane.
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

    /// A change waits for the data that it belongs to.
    pub(super) fn keep_waiting(&mut self, record: Arc<[u8]>) {
        let Some(arrival) = &mut self.transfers.arrival else { return };
        arrival.waiting_bytes += record.len() + size_of::<Arc<[u8]>>();
        arrival.waiting.push(record);
        if arrival.waiting_bytes > self.limits.waiting {
            self.give_up_arrival();
        }
    }

    /// From here on a lane of the primary holds what its data do not.
    pub(super) fn note_slots_begin(&mut self, from: Identity, lane: usize, number: u64) {
        let arrival = self.transfers.arrival.as_mut();
        let is_meant = |arrival: &&mut Arrival| (arrival.from, arrival.number) == (from, number);
        if let Some(arrival) = arrival.filter(is_meant) {
            arrival.begun |= 1 << lane;
        }
    }

    /// All members have applied what the data hold.
    pub(super) fn note_slots_known(&mut self, from: Identity, number: u64) {
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

    /// Data that were on their way are of no use.
    pub(super) fn give_up_arrival(&mut self) {
        let Some(arrival) = self.transfers.arrival.take() else { return };
        let has_loaded = matches!(arrival.stage, Stage::Loads | Stage::Loaded);
        if let Some(holdings) = self.holdings.as_mut().filter(|_| has_loaded) {
            holdings.give_up(&arrival.slots);
        }
        self.is_unblocked = true;
    }

    /// Whether data are here that the host is to load, beside what it has: it has no key of their
    /// slots. [`Node::slots_loaded`] says that it has.
    pub fn has_slots_to_load(&self) -> bool {
        self.transfers.is_loading
    }

    /// The data were loaded, or could not be.
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
        self.go_on(host);
    }

    /// The view has changed: data that come from a node that is the primary no longer, or are of
    /// slots that this node is not to have, are of no use.
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

    /// The link to a node has ended, and what it has not delivered is lost.
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

    /// A node asks for data of slots, or sends them.
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
                let executed = read_executed(executed).map_err(malformed)?;
                let arrival = self.transfers.arrival.as_mut();
                let arrival = arrival.filter(|arrival| {
                    (arrival.from, arrival.number) == (from, number)
                        && arrival.stage == Stage::Asked
                });
                let Some(arrival) = arrival else { return Ok(()) };
                arrival.stage = Stage::Comes;
                host.copy_begins();
                for (identity, slot, oseq) in executed {
                    self.executed.note(identity, slot, oseq);
                }
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

    /// The nodes that have asked for data of slots, and may be sent them now.
    pub fn slots_wanted(&self) -> Vec<Identity> {
        let wanted = self.transfers.departures.iter().filter(|departure| {
            departure.begun.is_none() && departure.slots.iter().all(|slot| self.may_number(&[slot]))
        });
        wanted.map(|departure| departure.to).collect()
    }

    /// Begins to send a node the data of these slots; everything is held, and they are of this
    /// moment. None if it is not to be sent any now.
    pub fn begin_slots(&mut self, to: Identity) -> Option<SlotSet> {
        if !self.slots_wanted().contains(&to) {
            return None;
        }
        let executed: Vec<Executed> = {
            let departure =
                self.transfers.departures.iter().find(|departure| departure.to == to)?;
            let is_of = |slot: Slot| departure.slots.contains(slot);
            self.executed.sorted(|_, slot| is_of(slot))
        };
        let departure = self.transfers.departures.iter_mut().find(|one| one.to == to)?;
        let (number, mut bytes) = (departure.number, Vec::new());
        let begin = Record::SlotsBegin { number };
        let push = |lane| self.lanes.push(lane, Some(NodeSet::of(to.node)), &begin);
        departure.begun = Some(std::array::from_fn(push));
        put_executed(&mut bytes, &executed);
        let frame = Frame::SlotsFollow { number, executed: &bytes };
        let link = self.links.get_mut(&to.node)?;
        put_frame(&mut link.first, 0, self.view.epoch, &frame);
        Some(departure.slots.clone())
    }

    /// Sends a part of data that were begun. False if they are of no use any more.
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

    /// Tells nodes that all members have applied what the data hold that they were sent.
    pub(super) fn tell_known(&mut self) {
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
    fn keys_of_former_lives_are_not_read_as_copies() {
        let identity = |node| Identity { node: Number(node), incarnation: 1 };
        let view = View {
            epoch: 1,
            members: vec![identity(0), identity(1)],
            slots: SlotMap::collect(|_| &[Number(0)]),
            incoming: Some(SlotMap::collect(|_| &[])),
        };
        let mut node = Node::new(identity(1), view, Limits::default());
        let own = node.own_slots();
        assert!(own.has_copies(7) && node.may_read_copies(&[7]));
        node.leave_other_slots();
        assert!(!own.has_copies(7) && !node.may_read_copies(&[7]));
    }
}
