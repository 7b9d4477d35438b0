//! The libraries of functions that all members have. A change replaces the whole list, and counts
//! only if the list is still the one that it was made from.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Bytes that all libraries have together at most, as [`functions_len`] counts them: the log of
/// consensus has a copy for each of its last changes.
pub const FUNCTIONS_MAX: usize = 1 << 20;

/// Bytes that a library counts for besides its text.
const LIBRARY_BYTES: usize = 64;

/// Changes of which it is known that they were made.
const MARKS_MAX: usize = 64;

/// The libraries, as they were agreed on.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Functions {
    /// Grows by 1 with each change; 0 before the first: members have what they have loaded.
    pub version: u64,
    /// The text of each.
    pub sources: Vec<Vec<u8>>,
    /// The marks of the last changes, the last one at the end.
    marks: VecDeque<u64>,
}

/// A change of the libraries.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FunctionsChange {
    /// The version that it was made from.
    pub from: u64,
    /// Drawn for it, so that its maker finds out whether it was made.
    pub mark: u64,
    /// The text of each library that there is then.
    pub sources: Vec<Vec<u8>>,
}

/// What has become of a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FunctionsOutcome {
    /// It was made.
    Made,
    /// Another was made in its place: it is never made.
    Lost,
    /// Nothing yet.
    Open,
    /// So many changes were made since that it is not known.
    Unknown,
}

/// The bytes that libraries count for together.
pub fn functions_len(sources: &[Vec<u8>]) -> usize {
    sources.iter().map(|source| source.len() + LIBRARY_BYTES).sum()
}

impl Functions {
    /// What has become of a change, by its version and its mark.
    pub fn outcome(&self, from: u64, mark: u64) -> FunctionsOutcome {
        let since = self.version.saturating_sub(from);
        match since {
            _ if self.marks.contains(&mark) => FunctionsOutcome::Made,
            0 => FunctionsOutcome::Open,
            _ if since <= MARKS_MAX as u64 => FunctionsOutcome::Lost,
            _ => FunctionsOutcome::Unknown,
        }
    }

    /// The libraries after a change; none if it does not count.
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
