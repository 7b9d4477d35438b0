//! Function libraries shared by all members. A change replaces the whole list, and succeeds only if
//! the list has not changed since it was read (compare and swap).

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Maximum size of all libraries in bytes, as [`functions_len`] counts them: the Raft log holds a
/// copy for each of its last changes.
pub const FUNCTIONS_MAX: usize = 1 << 20;

/// Bytes counted for a library in addition to its text.
const LIBRARY_BYTES: usize = 64;

/// Number of recent changes with a known outcome.
const MARKS_MAX: usize = 64;

/// The agreed function libraries.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Functions {
    /// Incremented by each change; 0 before the first, when members have the libraries that they
    /// loaded.
    pub version: u64,
    /// Text of each library.
    pub sources: Vec<Vec<u8>>,
    /// Marks of the last changes, newest last.
    marks: VecDeque<u64>,
}

/// Proposed change of the function libraries.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FunctionsChange {
    /// Version that it is based on.
    pub from: u64,
    /// Random number by which the proposer finds the outcome.
    pub mark: u64,
    /// Text of each library after the change.
    pub sources: Vec<Vec<u8>>,
}

/// Outcome of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FunctionsOutcome {
    /// The change was made.
    Made,
    /// Another change came first; this one is never made.
    Lost,
    /// Not decided yet.
    Open,
    /// Too many changes were made since to tell.
    Unknown,
}

/// Size of libraries in bytes, including the constant part for each.
pub fn functions_len(sources: &[Vec<u8>]) -> usize {
    sources.iter().map(|source| source.len() + LIBRARY_BYTES).sum()
}

impl Functions {
    /// Outcome of a change, by its base version and its mark.
    pub fn outcome(&self, from: u64, mark: u64) -> FunctionsOutcome {
        let since = self.version.saturating_sub(from);
        match since {
            _ if self.marks.contains(&mark) => FunctionsOutcome::Made,
            0 => FunctionsOutcome::Open,
            _ if since <= MARKS_MAX as u64 => FunctionsOutcome::Lost,
            _ => FunctionsOutcome::Unknown,
        }
    }

    /// The libraries after a change; none if it does not apply.
    pub(crate) fn after(&self, change: FunctionsChange) -> Option<Functions> {
        let FunctionsChange { from, mark, sources } = change;
        if from != self.version || functions_len(&sources) > FUNCTIONS_MAX {
            return None;
        }
        let mut marks = self.marks.clone();
        marks.push_back(mark);
        if marks.len() > MARKS_MAX {
            marks.pop_front();
        }
        Some(Functions { version: self.version + 1, sources, marks })
    }
}
