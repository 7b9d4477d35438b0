//! Extents: how far a node's data go in the order of each slot. Stored in its log and in snapshots;
//! after a stop of all owners of a slot theirs are compared ([`elect`](crate::elect)).
//!
//! ```text
//! count, each: first slot, slots behind it, primary's node and incarnation, epoch
//! count, each: node, incarnation, its position in each of 16 lanes
//! ```
//!
//! Numbers have variable length. Between two whole forms the log has positions in the lanes of
//! single primaries.

use crate::lanes::lane_of;
use crate::slot::{SLOTS, Slot};
use crate::slot_map::Node;
use crate::view::{Identity, NODES_MAX};
use crate::wire::LANES;
use crate::wire::codecs::{put_identity, take_identity, take_list, take_slot};
use petrel_persistence::log::Malformed;
use petrel_persistence::log::number::{Bytes, put};
use std::collections::BTreeMap;

/// Name of the whole form in logs and snapshots.
pub const EXTENTS: &[u8] = b"cluster-extents";

/// First bytes of the names of positions: the primary's node follows, and a lane for one position.
const POSITION: &[u8] = b"@";

/// Extent of a node's data in the order of a slot: up to the position in the primary's lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Extent {
    /// The slot's last primary of which the node has changes, or may have them.
    pub primary: Identity,
    /// Epoch of the last view with that primary in which the node had everything that former
    /// primaries had ordered.
    pub epoch: u64,
}

/// Extents of a node's data in the orders of all slots.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Extents {
    /// First and last slot, in order; slots without data are missing.
    runs: Vec<(Slot, Slot, Extent)>,
    /// By primary: the position up to which each of its lanes was applied.
    positions: BTreeMap<Identity, [u64; LANES]>,
}

impl Extents {
    /// Collects the extents of all slots; positions of primaries that they do not name are dropped.
    pub fn collect(
        of: impl Fn(Slot) -> Option<Extent>,
        positions: &BTreeMap<Identity, [u64; LANES]>,
    ) -> Self {
        let mut runs: Vec<(Slot, Slot, Extent)> = Vec::new();
        for slot in 0..SLOTS {
            let Some(extent) = of(slot) else { continue };
            match runs.last_mut() {
                Some((_, last, same)) if *last + 1 == slot && *same == extent => *last = slot,
                _ => runs.push((slot, slot, extent)),
            }
        }
        let position = |primary| positions.get(&primary).copied().unwrap_or_default();
        let primaries = runs.iter().map(|(_, _, extent)| extent.primary);
        let positions = primaries.map(|primary| (primary, position(primary))).collect();
        Extents { runs, positions }
    }

    /// The extent of a slot, if there are data of it.
    pub fn get(&self, slot: Slot) -> Option<Extent> {
        let at = self.runs.partition_point(|(_, last, _)| *last < slot);
        let (first, _, extent) = self.runs.get(at)?;
        (*first <= slot).then_some(*extent)
    }

    /// The position up to which the changes of the slot's last primary are there.
    pub fn position(&self, slot: Slot) -> u64 {
        let lanes = self.get(slot).and_then(|extent| self.positions.get(&extent.primary));
        lanes.map_or(0, |lanes| lanes[lane_of(slot)])
    }

    /// Runs of slots with the same extent, each by first and last slot.
    pub fn runs(&self) -> impl Iterator<Item = (Slot, Slot)> {
        self.runs.iter().map(|&(first, last, _)| (first, last))
    }

    /// Whether no slot has data.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The positions in primaries' lanes.
    pub(crate) fn positions(&self) -> &BTreeMap<Identity, [u64; LANES]> {
        &self.positions
    }

    /// The positions in the lanes of the primaries that some extent names.
    pub(crate) fn positions_mut(&mut self) -> impl Iterator<Item = (Identity, &mut [u64; LANES])> {
        self.positions.iter_mut().map(|(primary, lanes)| (*primary, lanes))
    }

    /// Copies the positions in lanes that are in both.
    pub fn copy_positions(&mut self, from: &Extents) {
        for (primary, lanes) in self.positions_mut() {
            from.positions.get(&primary).into_iter().for_each(|of| lanes.clone_from(of));
        }
    }

    /// Encodes all extents.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, self.runs.len() as u64);
        for (first, last, extent) in &self.runs {
            put(&mut out, (*first).into());
            put(&mut out, (last - first).into());
            put_identity(&mut out, extent.primary);
            put(&mut out, extent.epoch);
        }
        put(&mut out, self.positions.len() as u64);
        for (primary, lanes) in &self.positions {
            put_identity(&mut out, *primary);
            lanes.iter().for_each(|position| put(&mut out, *position));
        }
        out
    }

    /// Decodes what [`Extents::encode`] has written.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub fn read(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut bytes = Bytes(bytes);
        let mut free = 0;
        let runs = take_list(&mut bytes, SLOTS.into(), |bytes| {
            let first = take_slot(bytes)?;
            let more = Slot::try_from(bytes.number()?).map_err(|_| Malformed)?;
            let last = first.checked_add(more).filter(|last| *last < SLOTS).ok_or(Malformed)?;
            let (primary, epoch) = (take_identity(bytes)?, bytes.number()?);
            let is_next = first >= std::mem::replace(&mut free, last + 1);
            is_next.then_some((first, last, Extent { primary, epoch })).ok_or(Malformed)
        })?;
        let most = u64::from(SLOTS).max(NODES_MAX.into());
        let positions = take_list(&mut bytes, most, |bytes| {
            let primary = take_identity(bytes)?;
            let mut lanes = [0; LANES];
            for position in &mut lanes {
                *position = bytes.number()?;
            }
            Ok((primary, lanes))
        })?;
        let positions = positions.into_iter().collect();
        let is_whole = bytes.0.is_empty();
        is_whole.then_some(Extents { runs, positions }).ok_or(Malformed)
    }

    /// Name and form of the position in a lane of a primary, or of those in all lanes.
    pub fn position_form(&self, primary: Identity, lane: Option<usize>) -> (Vec<u8>, Vec<u8>) {
        let mut name = POSITION.to_vec();
        name.push(primary.node.0 as u8);
        let mut form = Vec::new();
        put(&mut form, primary.incarnation.into());
        let lanes = self.positions.get(&primary).map(|lanes| &lanes[..]).unwrap_or_default();
        let lanes = match lane {
            Some(lane) => {
                name.push(lane as u8);
                lanes.get(lane..=lane).unwrap_or_default()
            }
            None => lanes,
        };
        lanes.iter().for_each(|position| put(&mut form, *position));
        (name, form)
    }

    /// Whether a name is one of [`Extents::position_form`].
    pub fn is_position(name: &[u8]) -> bool {
        let behind = name.strip_prefix(POSITION);
        behind.is_some_and(|behind| (1..=2).contains(&behind.len()))
    }

    /// Takes positions that were logged after these extents.
    pub fn advance(&mut self, name: &[u8], form: &[u8]) {
        let (node, lane) = match name.strip_prefix(POSITION) {
            Some([node]) => (*node, 0),
            Some([node, lane]) => (*node, usize::from(*lane)),
            _ => return,
        };
        let mut form = Bytes(form);
        let Ok(Ok(incarnation)) = form.number().map(u32::try_from) else { return };
        let primary = Identity { node: Node(node.into()), incarnation };
        let lanes = self.positions.get_mut(&primary).and_then(|lanes| lanes.get_mut(lane..));
        for known in lanes.into_iter().flatten() {
            let Ok(position) = form.number() else { return };
            *known = position.max(*known);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(node: u16, epoch: u64) -> Extent {
        Extent { primary: Identity { node: Node(node), incarnation: 7 }, epoch }
    }

    fn some() -> Extents {
        let positions = [3, 4, 5].map(|node| {
            let lanes = std::array::from_fn(|lane| lane as u64 * 1000 + u64::from(node));
            (extent(node, 0).primary, lanes)
        });
        let of = |slot| match slot {
            0..=99 => Some(extent(3, 9)),
            200..=240 if slot % 2 == 0 => Some(extent(4, 8)),
            _ => None,
        };
        Extents::collect(of, &positions.into())
    }

    #[test]
    fn extents_are_read_as_they_were_written_and_nothing_else_is() {
        let extents = some();
        assert_eq!((extents.get(99), extents.get(100)), (Some(extent(3, 9)), None));
        assert_eq!((extents.get(200), extents.get(201)), (Some(extent(4, 8)), None));
        assert_eq!((extents.position(99), extents.position(204)), (3003, 12_004));
        assert_eq!((extents.position(101), extents.positions.len()), (0, 2));
        let bytes = extents.encode();
        assert_eq!(Extents::read(&bytes), Ok(extents));
        for len in 0..bytes.len() {
            assert!(Extents::read(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
        }
        assert!(Extents::read(&[&bytes[..], &[0]].concat()).is_err());
        // Overlapping, beyond the last.
        assert!(Extents::read(&[2, 1, 3, 0, 1, 1, 4, 0, 0, 1, 1, 0]).is_err());
        assert!(Extents::read(&[1, 1, 0xff, 0xff, 1, 0, 1, 1, 0]).is_err());
        assert_eq!(Extents::read(&Extents::default().encode()), Ok(Extents::default()));
    }

    #[test]
    fn single_positions_advance_extents() {
        let (mut before, mut after) = (some(), some());
        let primary = extent(3, 9).primary;
        after.positions.get_mut(&primary).unwrap()[3] = 70_000;
        let (name, form) = after.position_form(primary, Some(3));
        assert!(Extents::is_position(&name) && !Extents::is_position(EXTENTS));
        before.advance(&name, &form);
        assert_eq!(before, after);
        let (older, one) = (some().position_form(primary, None), Extents::default());
        before.advance(&older.0, &older.1);
        assert_eq!(
            (before.clone(), one.position_form(primary, Some(3)).1),
            (after.clone(), vec![7])
        );
        after.positions.get_mut(&primary).unwrap()[15] = 80_000;
        let (all, forms) = after.position_form(primary, None);
        assert!(Extents::is_position(&all));
        before.advance(&all, &forms);
        assert_eq!(before, after);
        // Of another incarnation, without a lane, torn.
        before.advance(&name, &[8, 99]);
        before.advance(&[b'@', 3, 16], &[7, 99]);
        before.advance(&name, &form[..1]);
        assert_eq!(before, after);
    }
}
