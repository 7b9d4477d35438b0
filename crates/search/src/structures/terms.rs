//! The dictionary of an index: each term once, by number, with a value.
//!
//! ```text
//! arena     bytes of terms
//! records   address of the bytes and value, by number
//! table     numbers by the hash of the bytes
//! ```

use super::arena::{Arena, TermAt};
use super::hash_table::NumberTable;
use super::paged::Paged;
use foldhash::fast::RandomState;
use std::hash::BuildHasher;

/// The number of a term. That of a removed term is given to another.
pub type TermId = u32;

/// Address of a removed term.
const REMOVED: TermAt = TermAt::MAX;

/// Terms, interned.
#[derive(Debug)]
pub struct Terms<V> {
    arena: Arena,
    records: Paged<Record<V>>,
    free: Paged<TermId>,
    table: NumberTable,
    len: usize,
    hasher: RandomState,
}

#[derive(Debug)]
struct Record<V> {
    text: TermAt,
    value: V,
}

impl<V> Default for Terms<V> {
    fn default() -> Self {
        Self {
            arena: Arena::default(),
            records: Paged::default(),
            free: Paged::default(),
            table: NumberTable::default(),
            len: 0,
            hasher: RandomState::default(),
        }
    }
}

impl<V: Default> Terms<V> {
    /// Number of terms.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Upper bound of the numbers.
    pub fn end(&self) -> usize {
        self.records.len()
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.footprints().into_iter().sum()
    }

    /// Bytes of texts, of records, of the hash table.
    pub fn footprints(&self) -> [usize; 3] {
        let records = self.records.footprint() + self.free.footprint();
        [self.arena.footprint(), records, self.table.footprint()]
    }

    fn live(&self, id: TermId) -> Option<&Record<V>> {
        self.records.get(id as usize).filter(|record| record.text != REMOVED)
    }

    /// The term of a number; empty for an unknown one.
    pub fn text(&self, id: TermId) -> &[u8] {
        self.live(id).map_or(&[], |record| self.arena.text(record.text))
    }

    /// The value of a term.
    #[inline]
    pub fn value(&self, id: TermId) -> Option<&V> {
        Some(&self.live(id)?.value)
    }

    /// The value of a term, to be changed.
    #[inline]
    pub fn value_mut(&mut self, id: TermId) -> Option<&mut V> {
        let record = self.records.get_mut(id as usize)?;
        (record.text != REMOVED).then_some(&mut record.value)
    }

    /// The number of a term.
    #[inline]
    pub fn find(&self, term: &[u8]) -> Option<TermId> {
        self.find_hashed(term, self.hasher.hash_one(term))
    }

    #[inline]
    fn find_hashed(&self, term: &[u8], hash: u64) -> Option<TermId> {
        let is_term = |id: TermId| {
            self.records.get(id as usize).is_some_and(|record| self.arena.is(record.text, term))
        };
        self.table.find(hash, is_term)
    }

    /// Finds terms that are most likely there, by hash: an unknown number for others. The steps of
    /// a lookup are made for all of them at once, since each of them waits for memory.
    pub fn likely(&self, hashes: &[u64], ids: &mut Vec<TermId>) {
        ids.clear();
        let candidate = |&hash: &u64| self.table.candidate(hash).unwrap_or(TermId::MAX);
        ids.extend(hashes.iter().map(candidate));
        let texts = ids.iter().filter_map(|&id| self.records.get(id as usize));
        let touched = texts.fold(0, |sum, record| sum ^ record.text);
        std::hint::black_box(touched);
        let texts = ids.iter().filter_map(|&id| self.records.get(id as usize));
        let touched = texts.fold(0, |sum, record| sum ^ self.arena.first_byte(record.text));
        std::hint::black_box(touched);
    }

    /// The hash of a term.
    #[inline]
    pub fn hash(&self, term: &[u8]) -> u64 {
        self.hasher.hash_one(term)
    }

    /// Like [`Self::insert`], for a term of which the hash is known, and a number that it may have.
    #[inline]
    pub fn insert_likely(&mut self, term: &[u8], hash: u64, id: TermId) -> Option<TermId> {
        let record = self.records.get(id as usize);
        if record.is_some_and(|record| self.arena.is(record.text, term)) {
            return Some(id);
        }
        match self.find_hashed(term, hash) {
            Some(id) => Some(id),
            None => self.add(term, hash),
        }
    }

    /// The number of a term, which is added if it is new: then true comes with it. `None` if the
    /// dictionary is full or the term contains a NUL.
    #[inline]
    pub fn insert(&mut self, term: &[u8]) -> Option<(TermId, bool)> {
        let hash = self.hasher.hash_one(term);
        match self.find_hashed(term, hash) {
            Some(id) => Some((id, false)),
            None => Some((self.add(term, hash)?, true)),
        }
    }

    fn add(&mut self, term: &[u8], hash: u64) -> Option<TermId> {
        if self.free.is_empty() && self.records.len() >= TermId::MAX as usize {
            return None;
        }
        let record = Record { text: self.arena.add(term)?, value: V::default() };
        let id = match self.free.pop() {
            Some(id) => {
                *self.records.get_mut(id as usize)? = record;
                id
            }
            None => {
                self.records.push(record);
                (self.records.len() - 1) as TermId
            }
        };
        self.len += 1;
        let (records, arena, hasher) = (&self.records, &self.arena, &self.hasher);
        if self.table.insert(hash, id, |id| hash_of(id, records, arena, hasher)) {
            return Some(id);
        }
        self.remove(id);
        None
    }

    /// Removes a term. Its number may be given to another.
    pub fn remove(&mut self, id: TermId) -> Option<V> {
        let text = self.live(id)?.text;
        let (records, arena, hasher) = (&self.records, &self.arena, &self.hasher);
        let rehash = |id| hash_of(id, records, arena, hasher);
        self.table.remove(rehash(id), id, rehash);
        self.arena.remove(text);
        let record = self.records.get_mut(id as usize)?;
        record.text = REMOVED;
        let value = std::mem::take(&mut record.value);
        self.len -= 1;
        self.free.push(id);
        if self.len == 0 {
            *self = Self::default();
        }
        Some(value)
    }

    /// Number of pages of texts, for [`Self::compact_page`].
    pub fn pages(&self) -> usize {
        self.arena.pages()
    }

    /// Moves the terms of a page of texts to others, if a third of it is of removed terms.
    pub fn compact_page(&mut self, page: usize) {
        if !self.arena.is_sparse(page) {
            return;
        }
        let terms = self.arena.terms_of(page);
        let live: Vec<_> = terms.filter_map(|(at, range)| Some((self.at(at)?, range))).collect();
        let bytes = self.arena.take_page(page);
        for (id, range) in live {
            if let (Some(term), Some(record)) =
                (bytes.get(range), self.records.get_mut(id as usize))
                && let Some(at) = self.arena.add(term)
            {
                record.text = at;
            }
        }
    }

    /// Terms that contain `infix`.
    pub fn containing<'t>(&'t self, infix: &'t [u8]) -> impl Iterator<Item = TermId> + 't {
        self.arena.containing(infix).filter_map(|at| self.at(at))
    }

    /// Terms that begin with `prefix`.
    pub fn with_prefix<'t>(&'t self, prefix: &[u8]) -> impl Iterator<Item = TermId> + 't {
        self.arena.with_prefix(prefix).filter_map(|at| self.at(at))
    }

    /// The number of the term at an address; none if it was removed.
    fn at(&self, at: TermAt) -> Option<TermId> {
        let term = self.arena.text(at);
        let hash = self.hasher.hash_one(term);
        let is_there =
            |id: TermId| self.records.get(id as usize).is_some_and(|record| record.text == at);
        self.table.find(hash, is_there)
    }

    /// All terms, by number.
    pub fn iter(&self) -> impl Iterator<Item = (TermId, &[u8])> {
        (0..self.records.len()).filter_map(|id| {
            let id = TermId::try_from(id).ok()?;
            Some((id, self.arena.text(self.live(id)?.text)))
        })
    }
}

fn hash_of<V>(id: TermId, records: &Paged<Record<V>>, arena: &Arena, hasher: &RandomState) -> u64 {
    let text = records.get(id as usize).map_or(&[][..], |record| arena.text(record.text));
    hasher.hash_one(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_interned_once() {
        let mut terms = Terms::<u32>::default();
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
        assert_eq!(terms.insert(b"a\0b"), None);
        assert!(terms.footprint() > 5000 * 8);
    }

    #[test]
    fn parts_are_found_by_one_search() {
        let mut terms = Terms::<u32>::default();
        let words = ["apple", "pineapple", "ple", "lead", "p", "papaya", ""];
        for word in words {
            terms.insert(word.as_bytes());
        }
        for part in ["p", "ple", "app", "apple", "el", "eplea", "x", "aya", ""] {
            let found: Vec<_> = terms.containing(part.as_bytes()).collect();
            let expected: Vec<_> = (0..7).filter(|&id| words[id as usize].contains(part)).collect();
            assert_eq!(found, expected, "{part}");
            let found: Vec<_> = terms.with_prefix(part.as_bytes()).collect();
            let expected: Vec<_> =
                (0..7).filter(|&id| words[id as usize].starts_with(part)).collect();
            assert_eq!(found, expected, "{part}");
        }
        assert_eq!(terms.containing(b"p\0p").next(), None);
    }

    #[test]
    fn removed_terms_leave_no_bytes() {
        let mut terms = Terms::<u32>::default();
        let long = "long".repeat(8000);
        terms.insert(long.as_bytes());
        let mut footprints = Vec::new();
        for round in 0..6u32 {
            let term = |number: u32| format!("word{}", number + round * 7000);
            for number in 0..20_000 {
                let (id, _) = terms.insert(term(number).as_bytes()).unwrap();
                *terms.value_mut(id).unwrap() = number + round * 7000;
            }
            footprints.push(terms.footprint());
            for number in 0..20_000 {
                if number % 50 != 0 {
                    let id = terms.find(term(number).as_bytes()).unwrap();
                    assert_eq!(terms.remove(id), Some(number + round * 7000));
                    assert_eq!(
                        (terms.find(term(number).as_bytes()), terms.text(id)),
                        (None, &b""[..])
                    );
                }
            }
            (0..terms.pages()).for_each(|page| terms.compact_page(page));
            assert_eq!(terms.text(terms.find(long.as_bytes()).unwrap()), long.as_bytes());
            for (id, term) in terms.iter().filter(|(_, term)| term.starts_with(b"w")) {
                assert_eq!(term, format!("word{}", terms.value(id).unwrap()).as_bytes());
                assert_eq!(terms.find(term), Some(id));
            }
            assert_eq!(terms.with_prefix(b"word").count(), terms.len() - 1);
        }
        assert!(footprints[5] < footprints[0] * 11 / 10, "{footprints:?}");
        let ids: Vec<_> = terms.iter().map(|(id, _)| id).collect();
        for id in ids {
            assert!(terms.remove(id).is_some());
        }
        assert_eq!((terms.footprint(), terms.len()), (0, 0));
    }
}
