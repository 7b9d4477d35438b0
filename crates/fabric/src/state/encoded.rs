//! Bytes of the replicated state in snapshots. Fields that older versions do not know are encoded
//! apart, before the rest, so that a state without them is read by all versions.

use super::{Keeping, State};
use crate::aux_states::AuxStates;
use crate::placement::{Range, Sparse};
use crate::settings::Copies;
use crate::wire::{decode, encode};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// First byte of an encoded state with few owners per slot. A state without begins with 0 or 1,
/// whether the cluster was founded.
const SPARSE: u8 = 2;

/// First byte of an encoded state with function libraries; the state without them follows.
pub(super) const WITH_FUNCTIONS: u8 = 3;

/// First byte of an encoded state with auxiliary state other than function libraries; that state by
/// name and the state without it follow.
pub(super) const WITH_AUX: u8 = 5;

/// First byte of an encoded state with nodes that have left; their uuids and the state without them
/// follow.
const WITH_LEAVERS: u8 = 4;

/// First byte of an encoded state with a [`Keeping`]; that and the state without it follow.
const WITH_KEEPING: u8 = 6;

impl State {
    /// Encodes the state. Without few owners and auxiliary state, all versions can read it.
    pub fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let rest = self.bytes_without_keeping()?;
        let mut keeping = self.keeping.clone();
        if let Some(sparse) = &self.sparse {
            keeping.former.clone_from(&sparse.former);
            keeping.with_data.clone_from(&sparse.with_data);
        }
        if keeping == Keeping::default() {
            return Ok(rest);
        }
        let mut bytes = vec![WITH_KEEPING];
        bytes.extend(encode(&(keeping, rest))?);
        Ok(bytes)
    }

    fn bytes_without_keeping(&self) -> io::Result<Vec<u8>> {
        let rest = self.bytes_without_leavers()?;
        if self.leavers.is_empty() {
            return Ok(rest);
        }
        let mut bytes = vec![WITH_LEAVERS];
        bytes.extend(encode(&(&self.leavers, rest))?);
        Ok(bytes)
    }

    fn bytes_without_leavers(&self) -> io::Result<Vec<u8>> {
        let rest = self.bytes_with_functions()?;
        if self.aux.others.is_empty() {
            return Ok(rest);
        }
        let mut bytes = vec![WITH_AUX];
        bytes.extend(encode(&(&self.aux.others, rest))?);
        Ok(bytes)
    }

    fn bytes_with_functions(&self) -> io::Result<Vec<u8>> {
        let rest = self.bytes_of_members()?;
        if self.aux.version == 0 {
            return Ok(rest);
        }
        let mut bytes = vec![WITH_FUNCTIONS];
        bytes.extend(encode(&(&*self.aux, rest))?);
        Ok(bytes)
    }

    fn bytes_of_members(&self) -> io::Result<Vec<u8>> {
        let Some(sparse) = &self.sparse else { return encode(self) };
        let incoming: Vec<&Option<Vec<Range>>> =
            self.history.iter().map(|past| &past.incoming).collect();
        let mut bytes = vec![SPARSE];
        bytes.extend(encode(&(self, sparse, incoming))?);
        Ok(bytes)
    }

    /// Decodes a state.
    pub fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        let Some(bytes) = bytes.strip_prefix(&[WITH_KEEPING]) else {
            return Self::from_bytes_without_keeping(bytes);
        };
        let (mut keeping, rest): (Keeping, Vec<u8>) = decode(bytes)?;
        let mut state = Self::from_bytes_without_keeping(&rest)?;
        let former = std::mem::take(&mut keeping.former);
        let with_data = std::mem::take(&mut keeping.with_data);
        if let Some(sparse) = &mut state.sparse {
            (sparse.former, sparse.with_data) = (former, with_data);
        }
        Ok(State { keeping, ..state })
    }

    fn from_bytes_without_keeping(bytes: &[u8]) -> io::Result<Self> {
        let Some(bytes) = bytes.strip_prefix(&[WITH_LEAVERS]) else {
            return Self::from_bytes_without_leavers(bytes);
        };
        let (leavers, rest): (BTreeSet<u128>, Vec<u8>) = decode(bytes)?;
        Ok(State { leavers, ..Self::from_bytes_without_leavers(&rest)? })
    }

    fn from_bytes_without_leavers(bytes: &[u8]) -> io::Result<Self> {
        let Some(bytes) = bytes.strip_prefix(&[WITH_AUX]) else {
            return Self::from_bytes_with_functions(bytes);
        };
        let (others, rest): (BTreeMap<Vec<u8>, Vec<u8>>, Vec<u8>) = decode(bytes)?;
        let mut state = Self::from_bytes_with_functions(&rest)?;
        Arc::make_mut(&mut state.aux).others = others;
        Ok(state)
    }

    fn from_bytes_with_functions(bytes: &[u8]) -> io::Result<Self> {
        let Some(bytes) = bytes.strip_prefix(&[WITH_FUNCTIONS]) else {
            return Self::from_bytes_of_members(bytes);
        };
        let (aux, rest): (AuxStates, Vec<u8>) = decode(bytes)?;
        Ok(State { aux: Arc::new(aux), ..Self::from_bytes_of_members(&rest)? })
    }

    fn from_bytes_of_members(bytes: &[u8]) -> io::Result<Self> {
        let Some(bytes) = bytes.strip_prefix(&[SPARSE]) else {
            let mut state: State = decode(bytes)?;
            // An older version appointed owners without importing first.
            if let Some(Copies::Of(_)) = state.copies {
                state.sparse = Some(Sparse::wanting(state.ranges.clone()));
                state.history.iter_mut().for_each(|past| past.incoming = Some(Vec::new()));
            }
            return Ok(state);
        };
        type Parts = (State, Sparse, Vec<Option<Vec<Range>>>);
        let (mut state, sparse, incoming): Parts = decode(bytes)?;
        state.sparse = Some(sparse);
        for (past, incoming) in state.history.iter_mut().zip(incoming) {
            past.incoming = incoming;
        }
        Ok(state)
    }
}
