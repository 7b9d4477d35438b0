//! The dictionary of an index: each term once, by number.

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use memchr::memmem;
use std::hash::BuildHasher;
use std::mem::size_of;
use std::ops::Range;

/// The number of a term.
pub type TermId = u32;

/// Terms, interned.
#[derive(Debug, Default)]
pub struct Terms {
    /// Bytes of all terms, each after a NUL: searched as one text.
    arena: Vec<u8>,
    /// Offset of each term.
    starts: Vec<u32>,
    table: HashTable<TermId>,
    hasher: FixedState,
}

impl Terms {
    /// Number of terms.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        // Tables are at most seven eighths full, and a slot has a control byte.
        self.arena.capacity()
            + self.starts.capacity() * size_of::<u32>()
            + self.table.capacity() * (size_of::<TermId>() + 1) * 8 / 7
    }

    /// The term of a number; empty for an unknown one.
    pub fn text(&self, id: TermId) -> &[u8] {
        self.arena.get(self.range(id)).unwrap_or_default()
    }

    fn range(&self, id: TermId) -> Range<usize> {
        let id = id as usize;
        let Some(&start) = self.starts.get(id) else { return 0..0 };
        let end = self.starts.get(id + 1).map_or(self.arena.len(), |&next| next as usize - 1);
        start as usize..end
    }

    /// The number of a term.
    #[inline]
    pub fn find(&self, term: &[u8]) -> Option<TermId> {
        let hash = self.hasher.hash_one(term);
        self.table.find(hash, |&id| self.text(id) == term).copied()
    }

    /// The number of a term, which is added if it is new: then true comes with it. `None` if the
    /// dictionary is full.
    #[inline]
    pub fn insert(&mut self, term: &[u8]) -> Option<(TermId, bool)> {
        if let Some(id) = self.find(term) {
            return Some((id, false));
        }
        let id = TermId::try_from(self.starts.len()).ok()?;
        let start = u32::try_from(self.arena.len() + 1).ok()?;
        u32::try_from(self.arena.len() + 1 + term.len()).ok()?;
        self.arena.push(0);
        self.arena.extend_from_slice(term);
        self.starts.push(start);
        let hash = self.hasher.hash_one(term);
        let (arena, starts, hasher) = (&self.arena, &self.starts, &self.hasher);
        let text = |id: TermId| {
            let end = starts.get(id as usize + 1).map_or(arena.len(), |&next| next as usize - 1);
            &arena[starts[id as usize] as usize..end]
        };
        self.table.insert_unique(hash, id, |&id| hasher.hash_one(text(id)));
        Some((id, true))
    }

    /// Terms that contain `infix`, by number: the arena is searched as one text.
    pub fn containing<'t>(&'t self, infix: &'t [u8]) -> impl Iterator<Item = TermId> + 't {
        let mut last = None;
        let found = memmem::find_iter(&self.arena, infix);
        found.filter_map(move |at| {
            let id = self.starts.partition_point(|&start| start as usize <= at).checked_sub(1)?;
            let id = TermId::try_from(id).ok()?;
            let is_inside = self.range(id).end >= at + infix.len();
            (is_inside && last.replace(id) != Some(id)).then_some(id)
        })
    }

    /// Terms that begin with `prefix`, by number.
    pub fn with_prefix<'t>(&'t self, prefix: &[u8]) -> impl Iterator<Item = TermId> + 't {
        // Every term stands after a NUL, which is in none.
        let marked = [b"\0", prefix].concat();
        let len = marked.len();
        let finder = memmem::Finder::new(&marked).into_owned();
        let mut at = 0;
        std::iter::from_fn(move || {
            let found = at + finder.find(self.arena.get(at..)?)?;
            at = found + len;
            let start = u32::try_from(found + 1).ok()?;
            self.starts.binary_search(&start).ok().and_then(|id| TermId::try_from(id).ok())
        })
    }

    /// All terms, by number.
    pub fn iter(&self) -> impl Iterator<Item = (TermId, &[u8])> {
        (0..self.starts.len()).filter_map(|id| {
            let id = TermId::try_from(id).ok()?;
            Some((id, self.text(id)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_interned_once() {
        let mut terms = Terms::default();
        for round in 0..2 {
            for number in 0..5000u32 {
                let term = format!("term{number}");
                assert_eq!(terms.insert(term.as_bytes()), Some((number, round == 0)));
            }
        }
        assert_eq!(terms.len(), 5000);
        assert_eq!(terms.text(4999), b"term4999");
        assert_eq!(terms.text(5000), b"");
        assert_eq!(terms.find(b"term77"), Some(77));
        assert_eq!(terms.find(b"term"), None);
        assert!(terms.footprint() > 5000 * 8);
    }

    #[test]
    fn parts_are_found_by_one_search() {
        let mut terms = Terms::default();
        let words = ["apple", "pineapple", "ple", "lead", "p", "papaya", ""];
        for word in words {
            terms.insert(word.as_bytes());
        }
        for part in ["p", "ple", "app", "apple", "el", "eplea", "x", "aya"] {
            let found: Vec<_> = terms.containing(part.as_bytes()).collect();
            let expected: Vec<_> = (0..7).filter(|&id| words[id as usize].contains(part)).collect();
            assert_eq!(found, expected, "{part}");
            let found: Vec<_> = terms.with_prefix(part.as_bytes()).collect();
            let expected: Vec<_> =
                (0..7).filter(|&id| words[id as usize].starts_with(part)).collect();
            assert_eq!(found, expected, "{part}");
        }
    }
}
