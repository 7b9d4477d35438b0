//! The table of documents: their rows, found by key.

use crate::structures::column::{Column, PAGE};
use crate::structures::id_set::IdSet;
use hashbrown::HashTable;
use std::mem::size_of;

/// Tables by the upper bits of a key's hash, each of which grows by itself.
const TABLES: usize = 16;

/// A document.
#[derive(Debug, Default)]
pub struct Document {
    /// The key; empty if the row is free.
    pub key: Box<[u8]>,
    /// Hash of the key.
    pub hash: u64,
    /// Sequence number of the last change of the document.
    pub sequence: u64,
    /// Stamp of the last change that a query can see.
    pub stamp: u64,
    /// Expiry of the key in Unix milliseconds.
    pub expiry: Option<std::num::NonZeroI64>,
    /// Score, 0 to 1.
    pub score: f32,
    /// Number of the extension of the schema when all of the document was read.
    pub layout: u16,
    /// Whether the row is in use.
    pub is_used: bool,
    /// Whether no query may see it, because a field has a value that does not fit its type.
    pub is_hidden: bool,
}

impl Document {
    /// Whether the key has expired at a time in Unix milliseconds.
    #[inline]
    pub fn has_expired(&self, now_ms: i64) -> bool {
        self.expiry.is_some_and(|at| at.get() <= now_ms)
    }
}

/// Documents by row and by key.
#[derive(Debug)]
pub struct Documents {
    rows: Column<Document>,
    tables: Box<[HashTable<u32>]>,
    /// Number of rows ever used.
    next: u32,
    free: Vec<u32>,
    /// Number of used rows of each page, if new documents are put behind all others.
    ordered: Option<Vec<u16>>,
    /// Documents that ever got an expiry, a score of their own.
    has_expiries: bool,
    has_scores: bool,
    /// Documents that queries can see.
    visible: IdSet,
    len: usize,
    key_bytes: usize,
    /// Capacity of all tables.
    slots: usize,
}

impl Default for Documents {
    fn default() -> Self {
        Documents {
            rows: Column::default(),
            tables: (0..TABLES).map(|_| HashTable::new()).collect(),
            next: 0,
            free: Vec::new(),
            ordered: None,
            has_expiries: false,
            has_scores: false,
            visible: IdSet::default(),
            len: 0,
            key_bytes: 0,
            slots: 0,
        }
    }
}

fn table_of(hash: u64) -> usize {
    // The upper seven bits are the tags of a table.
    (hash >> 48) as usize % TABLES
}

impl Documents {
    /// No documents. Rows of a new document, or of a renewed one, are above all others if
    /// `is_ordered`; rows are not used again then.
    pub fn new(is_ordered: bool) -> Self {
        Documents { ordered: is_ordered.then(Vec::new), ..Documents::default() }
    }

    /// Puts new documents behind all others from now on.
    pub fn keep_order(&mut self) {
        let mut pages = vec![0; (self.next as usize).div_ceil(PAGE)];
        (0..self.next).filter(|&row| self.get(row).is_some()).for_each(|row| {
            pages[row as usize / PAGE] += 1;
        });
        self.ordered.get_or_insert(pages);
        self.free = Vec::new();
    }

    /// Whether no row of a page is used, and none will be.
    pub fn is_page_over(&self, page: usize) -> bool {
        let pages = self.ordered.as_ref();
        page < self.next as usize / PAGE && pages.is_some_and(|pages| pages.get(page) == Some(&0))
    }

    /// Number of documents, hidden ones included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Upper bound of the rows.
    pub fn end(&self) -> u32 {
        self.next
    }

    /// Rows that queries can see.
    pub fn visible(&self) -> &IdSet {
        &self.visible
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.rows.footprint()
            + self.free.capacity() * size_of::<u32>()
            + self.ordered.as_ref().map_or(0, |pages| pages.capacity() * size_of::<u16>())
            + self.visible.footprint()
            + self.key_bytes
            + TABLES * size_of::<HashTable<u32>>()
            // Tables are at most seven eighths full, and a slot has a control byte.
            + self.slots * (size_of::<u32>() + 1) * 8 / 7
    }

    /// The row of a key.
    #[inline]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is_key = |&row: &u32| self.get(row).is_some_and(|document| *document.key == *key);
        self.tables[table_of(hash)].find(hash, is_key).copied()
    }

    /// A document; none if the row is free.
    #[inline]
    pub fn get(&self, row: u32) -> Option<&Document> {
        self.rows.get(row).filter(|document| document.is_used)
    }

    /// A document, to be changed: not its key, nor whether it is hidden.
    #[inline]
    pub fn get_mut(&mut self, row: u32) -> &mut Document {
        self.rows.get_mut(row)
    }

    /// Adds a document of a new key, which is hidden at first; returns its row, none if there are
    /// too many.
    pub fn add(&mut self, hash: u64, key: &[u8]) -> Option<u32> {
        let row = self.new_row()?;
        self.len += 1;
        self.key_bytes += key.len();
        *self.rows.get_mut(row) = Document {
            key: key.into(),
            hash,
            is_used: true,
            is_hidden: true,
            score: 1.0,
            ..Document::default()
        };
        let rows = &self.rows;
        let hash_of = |&row: &u32| rows.get(row).map_or(0, |document| document.hash);
        let table = &mut self.tables[table_of(hash)];
        let before = table.capacity();
        table.insert_unique(hash, row, hash_of);
        self.slots = self.slots + table.capacity() - before;
        Some(row)
    }

    fn new_row(&mut self) -> Option<u32> {
        if let Some(row) = self.free.pop() {
            return Some(row);
        }
        let row = self.next;
        self.next = row.checked_add(1).filter(|&next| next < u32::MAX)?;
        if let Some(pages) = &mut self.ordered {
            let page = row as usize / PAGE;
            if pages.len() == page {
                pages.push(0);
            }
            pages[page] += 1;
        }
        Some(row)
    }

    /// Moves a document to a row above all others, which is hidden at first. Returns the row; none
    /// if there are too many. The old one is to be released.
    pub fn renew(&mut self, row: u32) -> Option<u32> {
        let new = self.new_row()?;
        self.hide(row, true);
        let document = std::mem::take(self.rows.get_mut(row));
        let mut found = self.tables[table_of(document.hash)]
            .find_entry(document.hash, |&other| other == row)
            .ok()?;
        *found.get_mut() = new;
        *self.rows.get_mut(new) = document;
        Some(new)
    }

    /// Gives a row back that has no document any more. Returns the number of a page of which no row
    /// is used, and none will be.
    pub fn release(&mut self, row: u32) -> Option<usize> {
        let Some(pages) = &mut self.ordered else {
            self.free.push(row);
            return None;
        };
        let page = row as usize / PAGE;
        pages[page] -= 1;
        let is_over = pages[page] == 0 && page < self.next as usize / PAGE;
        if is_over {
            self.rows.drop_page(page);
        }
        is_over.then_some(page)
    }

    /// Sets the expiry of a key in Unix milliseconds.
    pub fn set_expiry(&mut self, row: u32, expiry: Option<std::num::NonZeroI64>) {
        self.has_expiries |= expiry.is_some();
        self.rows.get_mut(row).expiry = expiry;
    }

    /// Sets the score of a document.
    pub fn set_score(&mut self, row: u32, score: f32) {
        self.has_scores = true;
        self.rows.get_mut(row).score = score;
    }

    /// Whether any document may expire.
    pub fn has_expiries(&self) -> bool {
        self.has_expiries
    }

    /// Whether documents may have scores that differ.
    pub fn has_scores(&self) -> bool {
        self.has_scores
    }

    /// Hides a document from queries, or shows it.
    pub fn hide(&mut self, row: u32, is_hidden: bool) {
        let document = self.rows.get_mut(row);
        if document.is_hidden != is_hidden {
            document.is_hidden = is_hidden;
            match is_hidden {
                true => self.visible.remove(row),
                false => self.visible.insert(row),
            };
        }
    }

    /// Removes a document. Its row is to be released.
    pub fn remove(&mut self, row: u32) {
        self.hide(row, true);
        let document = std::mem::take(self.rows.get_mut(row));
        if let Ok(found) =
            self.tables[table_of(document.hash)].find_entry(document.hash, |&other| other == row)
        {
            found.remove();
        }
        self.len -= 1;
        self.key_bytes -= document.key.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_found_by_key() {
        let mut documents = Documents::default();
        let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for n in 0..10_000u64 {
            let row = documents.add(hash(n), n.to_string().as_bytes()).unwrap();
            documents.hide(row, false);
        }
        assert_eq!((documents.len(), documents.visible().len()), (10_000, 10_000));
        for n in 0..10_000u64 {
            let row = documents.find(hash(n), n.to_string().as_bytes()).unwrap();
            if n % 2 == 0 {
                documents.remove(row);
                assert_eq!(documents.release(row), None);
            }
        }
        assert_eq!(documents.find(hash(2), b"2"), None);
        assert_eq!((documents.len(), documents.visible().len()), (5000, 5000));
        // Rows are used again.
        let row = documents.add(hash(2), b"2").unwrap();
        assert!(row < 10_000 && documents.end() == 10_000);
        assert!(documents.get(row).is_some_and(|document| document.is_hidden));
        let bytes = documents.footprint();
        documents.remove(row);
        assert!(documents.footprint() < bytes);
    }

    #[test]
    fn rows_of_ordered_documents_ascend() {
        let mut documents = Documents::new(true);
        let one = documents.add(1, b"one").unwrap();
        documents.hide(one, false);
        let new = documents.renew(one).unwrap();
        assert_eq!((one, new, documents.find(1, b"one")), (0, 1, Some(1)));
        assert!(documents.get(0).is_none() && documents.visible().is_empty());
        assert_eq!(documents.release(one), None);
        documents.hide(new, false);
        for n in 2..PAGE as u64 + 2 {
            documents.add(n, b"other").unwrap();
        }
        // The first page ends with its last row.
        for row in 1..PAGE as u32 {
            documents.remove(row);
            let released = documents.release(row);
            assert_eq!(released, (row == PAGE as u32 - 1).then_some(0));
        }
        assert_eq!((documents.len(), documents.visible().len()), (2, 0));
    }
}
