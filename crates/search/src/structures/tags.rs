//! Tags of a TAG field: each with the rows that have it.

use crate::structures::id_set::IdSet;
use std::collections::BTreeMap;
use std::mem::size_of;
use std::ops::Bound;
use std::sync::Arc;

/// Number of a tag in its field.
pub type TagId = u32;

/// Bytes of a tag besides its text and its rows: the entry in the B-tree, of nodes three
/// quarters full, the header of the text, and the record.
const TAG_BYTES: usize = (size_of::<Arc<[u8]>>() + size_of::<TagId>()) * 4 / 3 + 16;

/// The tags of a field, with their rows.
#[derive(Debug, Default)]
pub struct Tags {
    by_text: BTreeMap<Arc<[u8]>, TagId>,
    tags: Vec<Tag>,
    free: Vec<TagId>,
    /// Pairs of a tag and a row.
    len: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Tag {
    text: Arc<[u8]>,
    rows: IdSet,
}

impl Tags {
    /// Number of different tags.
    pub fn count(&self) -> usize {
        self.by_text.len()
    }

    /// Number of pairs of a tag and a row.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no row has a tag.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.bytes
            + self.tags.capacity() * size_of::<Tag>()
            + self.free.capacity() * size_of::<TagId>()
    }

    /// The number of a tag; none if no row has it.
    pub fn find(&self, text: &[u8]) -> Option<TagId> {
        self.by_text.get(text).copied()
    }

    /// Adds a row to a tag, which is made if it does not exist. Returns the tag's number.
    pub fn insert(&mut self, text: &[u8], row: u32) -> TagId {
        let id = self.find(text).unwrap_or_else(|| self.make(text));
        let rows = &mut self.tags[id as usize].rows;
        let before = rows.footprint();
        self.len += usize::from(rows.insert(row));
        self.bytes = self.bytes + rows.footprint() - before;
        id
    }

    fn make(&mut self, text: &[u8]) -> TagId {
        let text: Arc<[u8]> = text.into();
        let id = self.free.pop().unwrap_or_else(|| {
            self.tags.push(Tag::default());
            self.tags.len() as TagId - 1
        });
        self.bytes += TAG_BYTES + text.len();
        self.tags[id as usize].text = text.clone();
        self.by_text.insert(text, id);
        id
    }

    /// Removes a row from a tag; the tag is removed with its last row.
    pub fn remove(&mut self, id: TagId, row: u32) {
        let Tag { text, rows } = &mut self.tags[id as usize];
        let before = rows.footprint();
        self.len -= usize::from(rows.remove(row));
        if !rows.is_empty() {
            self.bytes = self.bytes + rows.footprint() - before;
            return;
        }
        self.bytes -= before + TAG_BYTES + text.len();
        self.by_text.remove(&**text);
        self.tags[id as usize] = Tag::default();
        self.free.push(id);
    }

    /// The text of a tag.
    pub fn text(&self, id: TagId) -> &Arc<[u8]> {
        &self.tags[id as usize].text
    }

    /// The rows of a tag.
    pub fn rows(&self, id: TagId) -> &IdSet {
        &self.tags[id as usize].rows
    }

    /// All tags in the order of their bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], TagId)> {
        self.by_text.iter().map(|(text, &id)| (&**text, id))
    }

    /// Tags with a prefix, in the order of their bytes.
    pub fn with_prefix<'t>(&'t self, prefix: &'t [u8]) -> impl Iterator<Item = TagId> + 't {
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let tags = self.by_text.range::<[u8], _>(from);
        tags.take_while(move |(text, _)| text.starts_with(prefix)).map(|(_, &id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_and_go_with_their_rows() {
        let mut tags = Tags::default();
        let red = tags.insert(b"red", 1);
        assert_eq!(tags.insert(b"red", 2), red);
        let blue = tags.insert(b"blue", 2);
        tags.insert(b"rest", 3);
        assert_eq!((tags.count(), tags.len()), (3, 4));
        assert_eq!(
            tags.iter().map(|(text, _)| text).collect::<Vec<_>>(),
            [&b"blue"[..], b"red", b"rest"]
        );
        assert_eq!(tags.with_prefix(b"re").count(), 2);
        assert_eq!(tags.rows(red).iter().collect::<Vec<_>>(), [1, 2]);
        tags.remove(blue, 2);
        assert_eq!((tags.find(b"blue"), tags.count()), (None, 2));
        // The number is used again.
        assert_eq!(tags.insert(b"green", 9), blue);
        for (id, row) in [(red, 1), (red, 2), (2, 3), (blue, 9)] {
            tags.remove(id, row);
        }
        assert!(tags.is_empty());
        assert_eq!(tags.bytes, 0);
    }
}
