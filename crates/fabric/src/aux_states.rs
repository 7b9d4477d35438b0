//! Auxiliary state shared by all members: function libraries, and other state that is no key, by
//! name. A change replaces whole states, and succeeds only if none has changed since they were read
//! (compare and swap).

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Maximum size of all states in bytes, as [`AuxStates::len`] counts them: the Raft log holds a
/// copy for each of its last changes.
pub const AUX_MAX: usize = 1 << 20;

/// Bytes counted for a library or another state in addition to its content.
const PART_BYTES: usize = 64;

/// Number of recent changes with a known outcome.
const MARKS_MAX: usize = 64;

/// The agreed states.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct AuxStates {
    /// Incremented by each change; 0 before the first, when members have the states that they
    /// loaded.
    pub version: u64,
    /// Text of each function library.
    pub sources: Vec<Vec<u8>>,
    /// Marks of the last changes, newest last.
    marks: VecDeque<u64>,
    /// Whole forms of all other states, by name; none is empty.
    #[serde(skip)]
    pub others: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Proposed change of the function libraries only, for versions without other states.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct FunctionsChange {
    pub from: u64,
    pub mark: u64,
    pub sources: Vec<Vec<u8>>,
}

/// Proposed change.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct AuxChange {
    /// Version that it is based on.
    pub from: u64,
    /// Random number by which the proposer finds the outcome.
    pub mark: u64,
    /// Text of each library after the change, if it changes libraries.
    pub sources: Option<Vec<Vec<u8>>>,
    /// Other states that it changes: whole forms by name; an empty form removes the state.
    pub others: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl From<FunctionsChange> for AuxChange {
    fn from(FunctionsChange { from, mark, sources }: FunctionsChange) -> Self {
        AuxChange { from, mark, sources: Some(sources), others: BTreeMap::new() }
    }
}

impl AuxChange {
    /// The change in the form of versions that know function libraries only, if it changes no other
    /// state.
    pub(crate) fn functions_only(self) -> Result<FunctionsChange, Self> {
        match self {
            AuxChange { from, mark, sources: Some(sources), others } if others.is_empty() => {
                Ok(FunctionsChange { from, mark, sources })
            }
            change => Err(change),
        }
    }
}

/// Outcome of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AuxOutcome {
    /// The change was made.
    Made,
    /// Another change came first; this one is never made.
    Lost,
    /// Not decided yet.
    Open,
    /// Too many changes were made since to tell.
    Unknown,
}

impl AuxStates {
    /// Size of all states in bytes, including the constant part for each.
    pub fn len(&self) -> usize {
        let libraries = self.sources.iter().map(|source| source.len() + PART_BYTES);
        let others = self.others.iter().map(|(name, form)| name.len() + form.len() + PART_BYTES);
        libraries.chain(others).sum()
    }

    /// Whether there are no states.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty() && self.others.is_empty()
    }

    /// Outcome of a change, by its base version and its mark.
    pub fn outcome(&self, from: u64, mark: u64) -> AuxOutcome {
        let since = self.version.saturating_sub(from);
        match since {
            _ if self.marks.contains(&mark) => AuxOutcome::Made,
            0 => AuxOutcome::Open,
            _ if since <= MARKS_MAX as u64 => AuxOutcome::Lost,
            _ => AuxOutcome::Unknown,
        }
    }

    /// The states after a change, whatever version it is based on.
    pub fn with(&self, change: &AuxChange) -> Self {
        let mut after = self.clone();
        after.version += 1;
        after.marks.push_back(change.mark);
        if after.marks.len() > MARKS_MAX {
            after.marks.pop_front();
        }
        if let Some(sources) = &change.sources {
            after.sources.clone_from(sources);
        }
        after.others.extend(change.others.clone());
        after.others.retain(|_, form| !form.is_empty());
        after
    }

    /// The states after a change; none if it does not apply.
    pub(crate) fn after(&self, change: &AuxChange) -> Option<Self> {
        let after = (change.from == self.version).then(|| self.with(change))?;
        (after.len() <= AUX_MAX).then_some(after)
    }
}
