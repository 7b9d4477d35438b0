//! A run of entries in one allocation, each stored as the difference to its predecessor.
//!
//! ```text
//!  chunk   number of fields | their names | entry | entry | ...
//!  entry   length of what follows | head | [head's number] | [sequence] | [number of fields] |
//!          values, or pairs
//!
//!  head    7 6 5 4 3 2 1 0
//!          | +-+ +-------+
//!          |  |      number; 31: that and a number behind the head
//!          |  id: 0  time as before, sequence greater by the number
//!          |      1  time greater by the number, sequence 0
//!          |      2  time greater by the number, the sequence behind it
//!          the fields are named as those of the chunk, so only values follow
//! ```
//!
//! Lengths and numbers are in LEB128, fields and values are items of `packed.rs`. The first entry
//! defines the chunk's field names and is stored as the difference to `base`.

use crate::structures::packed::{Item, Items};
use crate::structures::stream::id::StreamId;
use crate::structures::stream::nominal;

const SAME_FIELDS: u8 = 0b1000_0000;
const FORM_AT: u8 = 5;
const FORM_SEQ: u8 = 0;
const FORM_MS: u8 = 1;
const FORM_MS_SEQ: u8 = 2;
const NUMBER_MAX: u8 = 0b0001_1111;

/// Minimum growth of a chunk's allocation in bytes.
const GROWTH_MIN: usize = 64;
/// Bytes of deleted entries that may stay at the front of a chunk: chunks of the usual size are
/// never rewritten.
const RECLAIMED_MIN: usize = 16 * 1024;
/// Maximum size of a node, whatever the configuration allows.
const NODE_BYTES_MAX: usize = 1 << 30;

/// Limits of a chunk, from `stream-node-max-bytes` and `stream-node-max-entries`; 0 for no limit.
#[derive(Clone, Copy, Debug)]
pub struct NodeLimits {
    /// Size of the equivalent listpack in Redis.
    pub bytes: usize,
    /// Entries, deleted ones included.
    pub entries: u64,
}

impl NodeLimits {
    /// Limits from the values of the two settings.
    pub fn new(bytes: i64, entries: i64) -> Self {
        let bytes = usize::try_from(bytes).unwrap_or(0);
        NodeLimits {
            bytes: if bytes == 0 { NODE_BYTES_MAX } else { bytes.min(NODE_BYTES_MAX) },
            entries: u64::try_from(entries).unwrap_or(0),
        }
    }
}

/// An entry in its chunk.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    /// ID of the entry.
    pub id: StreamId,
    /// Fields with their values, in order.
    pub fields: Fields<'a>,
}

/// The fields of an entry: an iterator over names and values.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    /// The chunk's names, if the entry has the same.
    names: Option<Items<'a>>,
    items: Items<'a>,
    left: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (Item<'a>, Item<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let name = match &mut self.names {
            Some(names) => names.next()?,
            None => self.items.next()?,
        };
        Some((name, self.items.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// A run of entries with ascending IDs.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    /// Base of the first entry's ID: not above it, and above those of earlier chunks.
    base: StreamId,
    /// The last entry's ID.
    last: StreamId,
    /// The greatest ID that an entry of the chunk ever had.
    top: StreamId,
    /// Offset of the first entry.
    start: u32,
    /// Entries in the chunk, and deleted from it.
    live: u32,
    deleted: u32,
    /// Size of the listpack in which Redis would hold the entries, including deleted ones.
    nominal: u32,
    bytes: Vec<u8>,
}

/// Position of an entry in a chunk.
#[derive(Clone, Copy, Debug)]
struct EntryPlace {
    id: StreamId,
    /// Offset of the entry.
    at: usize,
    /// Offset of the part after the ID.
    body: usize,
    end: usize,
    same_fields: bool,
}

impl Chunk {
    /// A chunk of one entry; `fields` are names and values in turn.
    pub fn new(id: StreamId, fields: &[&[u8]]) -> Self {
        let mut bytes = Vec::new();
        put_number(&mut bytes, (fields.len() / 2) as u64);
        for name in fields.iter().step_by(2) {
            Item::from_text(name).pack(&mut bytes);
        }
        let names = fields.iter().step_by(2);
        let mut chunk = Chunk {
            base: id,
            last: id,
            top: id,
            start: bytes.len() as u32,
            live: 0,
            deleted: 0,
            nominal: nominal::chunk_len(names) as u32,
            bytes,
        };
        chunk.push(id, fields);
        chunk
    }

    /// Appends an entry with an ID above all others, unless the chunk is full.
    #[inline]
    pub fn append(&mut self, id: StreamId, fields: &[&[u8]], limits: NodeLimits) -> bool {
        let text: usize = fields.iter().map(|text| text.len()).sum();
        let entries = u64::from(self.live) + u64::from(self.deleted);
        if self.nominal as usize + text >= limits.bytes
            || limits.entries != 0 && entries >= limits.entries
        {
            return false;
        }
        self.push(id, fields);
        true
    }

    fn push(&mut self, id: StreamId, fields: &[&[u8]]) {
        let text: usize = fields.iter().map(|text| text.len()).sum();
        self.reserve(text + 6 * fields.len() + 32);
        let same = self.has_names(fields);
        let (at, tail) = (self.bytes.len(), self.tail());
        put_head(&mut self.bytes, tail, id, same);
        if same {
            for value in fields.iter().skip(1).step_by(2) {
                Item::from_text(value).pack(&mut self.bytes);
            }
        } else {
            put_number(&mut self.bytes, (fields.len() / 2) as u64);
            for item in fields {
                Item::from_text(item).pack(&mut self.bytes);
            }
        }
        put_length_before(&mut self.bytes, at);
        let nominal = self.nominal as usize + nominal::entry_len(self.base, id, fields, same);
        self.nominal = u32::try_from(nominal).unwrap_or(u32::MAX);
        (self.last, self.top) = (id, id);
        self.live += 1;
    }

    /// The ID to which the next appended entry is stored as a difference.
    fn tail(&self) -> StreamId {
        if self.live == 0 { self.base } else { self.last }
    }

    /// Makes room for `len` more bytes, with little to spare.
    fn reserve(&mut self, len: usize) {
        if self.bytes.capacity() - self.bytes.len() < len {
            let spare = (self.bytes.len() / 4).max(GROWTH_MIN);
            self.bytes.reserve_exact(len.max(spare));
        }
    }

    /// Frees the space reserved for further entries.
    pub fn seal(&mut self) {
        self.bytes.shrink_to_fit();
    }

    fn has_names(&self, fields: &[&[u8]]) -> bool {
        let (count, mut names) = self.names();
        count * 2 == fields.len()
            && fields.iter().step_by(2).all(|name| match names.next() {
                Some(Item::Text(text)) => text == *name,
                Some(item) => Item::from_text(name) == item,
                None => false,
            })
    }

    fn names(&self) -> (usize, Items<'_>) {
        let (count, at) = number(&self.bytes, 0);
        (count as usize, Items::new(&self.bytes[at..]))
    }

    /// A lower bound of the IDs of the entries, above those of earlier chunks.
    pub fn base(&self) -> StreamId {
        self.base
    }

    /// The last entry's ID.
    pub fn last(&self) -> StreamId {
        self.last
    }

    /// The greatest ID that an entry of the chunk ever had.
    pub fn top(&self) -> StreamId {
        self.top
    }

    /// Number of entries.
    pub fn live(&self) -> u64 {
        self.live.into()
    }

    /// Bytes of the allocation.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The entries from the first one on.
    pub fn entries(&self) -> Entries<'_> {
        Entries { chunk: self, at: self.start as usize, id: self.base }
    }

    /// Collects the positions of all entries, for a walk backwards.
    pub fn places(&self, places: &mut Vec<(StreamId, u32)>) {
        places.clear();
        let mut entries = self.entries();
        while let Some(place) = entries.place() {
            places.push((place.id, place.at as u32));
        }
    }

    /// The entry at a position from [`Chunk::places`].
    pub fn entry_at(&self, (id, at): (StreamId, u32)) -> EntryRef<'_> {
        let place = self.place(at as usize, StreamId::MIN);
        self.entry(EntryPlace { id, ..place })
    }

    /// Deletes the entry with this ID; false if there is none.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let mut entries = self.entries();
        let mut before = self.base;
        let found = loop {
            match entries.place() {
                Some(place) if place.id < id => before = place.id,
                Some(place) if place.id == id => break place,
                _ => return false,
            }
        };
        let next = entries.place();
        if found.at == self.start as usize && next.is_some() {
            self.base = id;
            self.start = found.end as u32;
            self.reclaim();
        } else if let Some(next) = next {
            self.cut(found, next, before);
        } else {
            self.bytes.truncate(found.at);
            self.last = before;
        }
        self.live -= 1;
        self.deleted += 1;
        true
    }

    /// Deletes the first `count` entries; there are more than that.
    pub fn delete_first(&mut self, count: u64) {
        debug_assert!(count < self.live());
        let mut entries = self.entries();
        for _ in 0..count {
            entries.place();
        }
        let (start, base) = (entries.at as u32, entries.id);
        self.start = start;
        self.base = base;
        self.live -= count as u32;
        self.deleted += count as u32;
        self.reclaim();
    }

    /// Frees the space of entries deleted from the front, once they are most of a large chunk.
    fn reclaim(&mut self) {
        let start = self.start as usize;
        if start < RECLAIMED_MIN || start < self.bytes.len() / 2 {
            return;
        }
        let (count, mut names) = self.names();
        names.skip_items(count);
        let names_end = number(&self.bytes, 0).1 + names.offset();
        self.bytes.drain(names_end..start);
        self.bytes.shrink_to_fit();
        self.start = names_end as u32;
    }

    /// Removes the bytes of an entry between others: the next one is re-encoded as the difference
    /// to its new predecessor.
    fn cut(&mut self, cut: EntryPlace, next: EntryPlace, before: StreamId) {
        let mut head = Vec::with_capacity(32);
        put_head(&mut head, before, next.id, next.same_fields);
        let mut length = Vec::with_capacity(10);
        put_number(&mut length, (head.len() + next.end - next.body) as u64);
        length.extend_from_slice(&head);
        self.bytes.splice(cut.at..next.body, length);
    }

    fn place(&self, at: usize, before: StreamId) -> EntryPlace {
        let (len, head_at) = number(&self.bytes, at);
        let head = self.bytes[head_at];
        let mut body = head_at + 1;
        let mut by = u64::from(head & NUMBER_MAX);
        if by == u64::from(NUMBER_MAX) {
            let (more, after) = number(&self.bytes, body);
            by = by.wrapping_add(more);
            body = after;
        }
        let id = match head >> FORM_AT & 0b11 {
            FORM_SEQ => StreamId::new(before.ms, before.seq.wrapping_add(by)),
            FORM_MS => StreamId::new(before.ms.wrapping_add(by), 0),
            _ => {
                let (seq, after) = number(&self.bytes, body);
                body = after;
                StreamId::new(before.ms.wrapping_add(by), seq)
            }
        };
        let end = head_at + len as usize;
        EntryPlace { id, at, body, end, same_fields: head & SAME_FIELDS != 0 }
    }

    fn entry(&self, place: EntryPlace) -> EntryRef<'_> {
        let fields = if place.same_fields {
            let (left, names) = self.names();
            Fields { names: Some(names), items: Items::new(&self.bytes[place.body..]), left }
        } else {
            let (left, at) = number(&self.bytes, place.body);
            Fields { names: None, items: Items::new(&self.bytes[at..]), left: left as usize }
        };
        EntryRef { id: place.id, fields }
    }
}

/// Iterates over the entries of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entries<'a> {
    chunk: &'a Chunk,
    at: usize,
    /// The entry before `at`.
    id: StreamId,
}

impl<'a> Entries<'a> {
    #[inline]
    fn place(&mut self) -> Option<EntryPlace> {
        if self.at == self.chunk.bytes.len() {
            return None;
        }
        let place = self.chunk.place(self.at, self.id);
        self.at = place.end;
        self.id = place.id;
        Some(place)
    }

    /// Skips the entries below `from`.
    pub fn skip_below(&mut self, from: StreamId) {
        let mut ahead = *self;
        while ahead.place().is_some_and(|place| place.id < from) {
            *self = ahead;
        }
    }

    /// The next entry's ID.
    pub fn next_id(&mut self) -> Option<StreamId> {
        self.place().map(|place| place.id)
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = EntryRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<EntryRef<'a>> {
        let place = self.place()?;
        Some(self.chunk.entry(place))
    }
}

/// Appends the head of an entry, with its ID as the difference to the previous one.
fn put_head(out: &mut Vec<u8>, before: StreamId, id: StreamId, same_fields: bool) {
    let (form, by) = if id.ms == before.ms {
        (FORM_SEQ, id.seq - before.seq)
    } else if id.seq == 0 {
        (FORM_MS, id.ms - before.ms)
    } else {
        (FORM_MS_SEQ, id.ms - before.ms)
    };
    let number = by.min(NUMBER_MAX.into());
    let same = if same_fields { SAME_FIELDS } else { 0 };
    out.push(same | form << FORM_AT | number as u8);
    if number == u64::from(NUMBER_MAX) {
        put_number(out, by - number);
    }
    if form == FORM_MS_SEQ {
        put_number(out, id.seq);
    }
}

/// Inserts the length of the bytes from `at` to the end.
fn put_length_before(bytes: &mut Vec<u8>, at: usize) {
    let len = bytes.len() - at;
    if len < 0x80 {
        bytes.insert(at, len as u8);
        return;
    }
    let mut length = Vec::with_capacity(10);
    put_number(&mut length, len as u64);
    bytes.splice(at..at, length);
}

fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// The number at `at`, and the offset after it.
#[inline]
fn number(bytes: &[u8], mut at: usize) -> (u64, usize) {
    let (mut n, mut shift) = (0, 0);
    loop {
        let byte = bytes[at];
        at += 1;
        n |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return (n, at);
        }
        shift += 7;
    }
}
