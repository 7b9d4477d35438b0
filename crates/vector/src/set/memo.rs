//! Memoised results of filters, valid while an element's attributes do not change: two bits for
//! each element and filter.
//!
//! Searches record results under the set's read lock; changes discard them under the write lock. A
//! search that releases the lock has to look up the memo again, since it may have been replaced
//! meanwhile.

use super::Inner;
use super::lock::Mutex;
use crate::filter::Filter;
use crate::graph::CHUNK_LEN;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Number of filters memoised for a set, the most recent ones: at most 2.5 bytes per element, not
/// counted as the set's memory.
const MEMOS_MAX: usize = 8;

/// The memos of a set, most recently used first.
#[derive(Debug, Default)]
pub(super) struct Memos(Mutex<Vec<Arc<Memo>>>);

/// Results of one filter.
#[derive(Debug)]
pub(super) struct Memo {
    filter: Box<[u8]>,
    words: Box<[Word]>,
    known: AtomicUsize,
    passing: AtomicUsize,
}

/// Results for 64 nodes: which are known, and which of these pass.
#[derive(Debug, Default)]
struct Word {
    known: AtomicU64,
    passing: AtomicU64,
}

impl Memos {
    /// The memo of a filter, with room for nodes below `end`.
    pub fn of(&self, filter: &Filter, end: u32) -> Arc<Memo> {
        let mut memos = self.0.lock();
        let at = memos.iter().position(|memo| *memo.filter == *filter.text());
        let old = at.map(|at| memos.remove(at));
        let memo = match old {
            Some(memo) if memo.words.len() * 64 >= end as usize => memo,
            old => Arc::new(Memo::new(filter, end, old.as_deref())),
        };
        memos.insert(0, Arc::clone(&memo));
        memos.truncate(MEMOS_MAX);
        memo
    }

    /// Discards the results for a node that changes.
    pub fn forget(&self, node: u32) {
        self.0.lock().iter().for_each(|memo| memo.forget(node));
    }
}

impl Memo {
    fn new(filter: &Filter, end: u32, old: Option<&Memo>) -> Self {
        // Reserves a quarter for new nodes.
        let room = (end as usize / 4 * 5).next_multiple_of(CHUNK_LEN).max(CHUNK_LEN);
        let mut words: Box<[Word]> = (0..room / 64).map(|_| Word::default()).collect();
        for (word, old) in words.iter_mut().zip(old.iter().flat_map(|old| &old.words)) {
            *word.known.get_mut() = old.known.load(Relaxed);
            *word.passing.get_mut() = old.passing.load(Relaxed);
        }
        let count = |of: fn(&Memo) -> &AtomicUsize| old.map_or(0, |old| of(old).load(Relaxed));
        Memo {
            filter: filter.text().into(),
            words,
            known: AtomicUsize::new(count(|memo| &memo.known)),
            passing: AtomicUsize::new(count(|memo| &memo.passing)),
        }
    }

    /// Number of nodes with a known result.
    pub fn known(&self) -> usize {
        self.known.load(Relaxed)
    }

    /// Number of nodes known to pass.
    pub fn passing(&self) -> usize {
        self.passing.load(Relaxed)
    }

    /// Whether a node passes, if known.
    #[inline]
    pub fn known_of(&self, node: u32) -> Option<bool> {
        let (word, bit) = (self.words.get(node as usize / 64)?, 1 << (node % 64));
        let is_known = word.known.load(Relaxed) & bit != 0;
        is_known.then(|| word.passing.load(Relaxed) & bit != 0)
    }

    /// Evaluates the filter for a node and records the result.
    pub fn ask(&self, inner: &Inner, node: u32, filter: &Filter) -> bool {
        let passes = inner.passes(node, filter);
        let Some(word) = self.words.get(node as usize / 64) else { return passes };
        let bit = 1 << (node % 64);
        if passes && word.passing.fetch_or(bit, Relaxed) & bit == 0 {
            self.passing.fetch_add(1, Relaxed);
        }
        if word.known.fetch_or(bit, Relaxed) & bit == 0 {
            self.known.fetch_add(1, Relaxed);
        }
        passes
    }

    fn forget(&self, node: u32) {
        let Some(word) = self.words.get(node as usize / 64) else { return };
        let bit = 1 << (node % 64);
        if word.known.fetch_and(!bit, Relaxed) & bit != 0 {
            self.known.fetch_sub(1, Relaxed);
        }
        if word.passing.fetch_and(!bit, Relaxed) & bit != 0 {
            self.passing.fetch_sub(1, Relaxed);
        }
    }

    /// The next number from `at` on without a known result; it may be free.
    pub fn next_unknown(&self, at: u32) -> Option<u32> {
        self.next(at, |word| !word.known.load(Relaxed))
    }

    /// The next node from `at` on that is known to pass.
    pub fn next_passing(&self, at: u32) -> Option<u32> {
        self.next(at, |word| word.passing.load(Relaxed))
    }

    #[inline]
    fn next(&self, at: u32, bits: impl Fn(&Word) -> u64) -> Option<u32> {
        let first = at as usize / 64;
        let mut mask = u64::MAX << (at % 64);
        for (index, word) in self.words.iter().enumerate().skip(first) {
            let found = bits(word) & mask;
            if found != 0 {
                // There are fewer than 2^32 nodes.
                return Some((index * 64) as u32 + found.trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }
}
