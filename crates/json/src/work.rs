//! The budget of steps of one command: searches, comparisons and patterns take steps from it, so
//! that no path and no document occupies a thread for long.

use std::fmt;

/// Steps that one command may take, over all its documents and paths. A step is 5 to 20
/// nanoseconds: all of them take half a second or so. A document of 150 MB is searched with `..`.
pub const WORK_MAX: u64 = 1 << 25;

/// Steps that any search may take, as far as the command has them left.
const SEARCH_MIN: u64 = 1 << 20;

/// Steps that a search may take in addition, for each byte of the document.
const SEARCH_PER_BYTE: u64 = 32;

/// Nested calls of a search and of the filters within it: bounds the stack. No more than 127
/// containers and 256 parts of a path are below each other; only filters that begin at the root
/// again and again reach this.
const LEVELS_MAX: u32 = 600;

/// Steps for waiting for memory when a value is passed, at most: a short one is on the cache line
/// of the one before it.
const PASSING_MAX: u64 = 3;

/// Steps for passing a value of this many bytes, beside those for looking at it.
#[inline]
pub(crate) fn passing(bytes: usize) -> u64 {
    (bytes as u64 / 64).min(PASSING_MAX)
}

/// Reasons for ending a search.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SearchError {
    /// More than [`WORK_MAX`] steps of a command, or more than 600 nested filters.
    TooMuchWork,
    /// Pattern of a filter that is too long or takes too much memory.
    Pattern,
}

impl fmt::Display for SearchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SearchError::TooMuchWork => "the path matches too much: use fewer '..' and '*'",
            SearchError::Pattern => "a pattern of the path is too large: use a simpler one",
        })
    }
}

impl std::error::Error for SearchError {}

/// Steps that are left.
#[derive(Debug)]
pub struct Work {
    left: u64,
    /// Part of the remaining steps that the current search may not take.
    kept: u64,
    levels: u32,
}

impl Default for Work {
    fn default() -> Self {
        Work { left: WORK_MAX, kept: 0, levels: 0 }
    }
}

impl Work {
    /// A budget without an end, for work that no client asked for.
    pub fn unlimited() -> Self {
        Work { left: u64::MAX, kept: 0, levels: 0 }
    }

    /// Steps that are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Takes steps.
    ///
    /// # Errors
    /// If fewer are left.
    #[inline]
    pub fn spend(&mut self, steps: u64) -> Result<(), SearchError> {
        match self.left.checked_sub(steps) {
            Some(left) if left >= self.kept => {
                self.left = left;
                Ok(())
            }
            _ => Err(SearchError::TooMuchWork),
        }
    }

    /// Takes steps for going over this many bytes in a copy or a comparison.
    ///
    /// # Errors
    /// If fewer are left.
    #[inline]
    pub fn spend_bytes(&mut self, bytes: usize) -> Result<(), SearchError> {
        self.spend(bytes as u64 / 64)
    }

    /// Calls `search` with the share of one search of a document of this many bytes.
    pub(crate) fn for_search<T>(
        &mut self,
        document_bytes: usize,
        search: impl FnOnce(&mut Work) -> T,
    ) -> T {
        let share = SEARCH_MIN + SEARCH_PER_BYTE * document_bytes as u64;
        let kept = std::mem::replace(&mut self.kept, self.left.saturating_sub(share));
        let result = search(self);
        self.kept = kept;
        result
    }

    /// Calls outside of the current search, without using its share.
    #[inline]
    pub(crate) fn beside_search<T>(&mut self, call: impl FnOnce(&mut Work) -> T) -> T {
        let (left, kept) = (self.left, std::mem::take(&mut self.kept));
        let result = call(self);
        self.kept = kept.saturating_sub(left - self.left);
        result
    }

    /// Calls one level deeper.
    #[inline]
    pub(crate) fn nested<T, E: From<SearchError>>(
        &mut self,
        call: impl FnOnce(&mut Work) -> Result<T, E>,
    ) -> Result<T, E> {
        if self.levels == LEVELS_MAX {
            return Err(SearchError::TooMuchWork.into());
        }
        self.levels += 1;
        let result = call(self);
        self.levels -= 1;
        result
    }
}
