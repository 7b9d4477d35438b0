//! Postings: for each term ascending rows with frequency, fields and positions.
//!
//! ```text
//! list     16 bytes in the dictionary: last row, length, and the first of these that suffices:
//!   inline   up to 10 bytes of tail in the list itself
//!   short    a tail in a block of the pool
//!   long     groups of sealed blocks in the pool, and a tail
//! ```
//!
//! A tail becomes a sealed block at 128 rows or 4 KiB, so no addition copies more than that.

mod codec;
mod cursor;
#[cfg(test)]
mod tests;
mod vacuum;

pub use codec::{BLOCK_LEN, Posting};
pub use cursor::PostingCursor;

use super::paged::Paged;
use super::pool::{BlockAt, Pool};
use codec::{BlockHeader, Builder, Decoded, Form, put_in_tail};
use std::mem::size_of;

/// Bytes of a tail at most.
const TAIL_BYTES_MAX: usize = 4096;

/// Sealed blocks of a group.
const GROUP_LEN: usize = 32;

/// Rows of a group at most.
pub const GROUP_ROWS: usize = GROUP_LEN * BLOCK_LEN;

/// Bytes in the list itself.
const INLINE_BYTES: usize = 10;

/// Values of [`List::kind`] above the lengths of inline tails.
const SHORT: u8 = 254;
const LONG: u8 = 255;

/// Postings of a term; its blocks are in [`Postings`].
#[derive(Clone, Copy, Debug, Default)]
pub struct List {
    last: u32,
    /// Rows of the tail.
    count: u8,
    /// [`SHORT`], [`LONG`], or the number of inline bytes.
    kind: u8,
    /// Inline tail; or the address of the tail and its length; or the number of the long list.
    data: [u8; INLINE_BYTES],
}

impl List {
    fn reference(&self) -> u32 {
        let [a, b, c, d, ..] = self.data;
        u32::from_le_bytes([a, b, c, d])
    }

    fn tail_len(&self) -> usize {
        usize::from(u16::from_le_bytes([self.data[4], self.data[5]]))
    }

    fn refer(&mut self, kind: u8, reference: u32, tail_len: usize) {
        self.kind = kind;
        self.data[..4].copy_from_slice(&reference.to_le_bytes());
        self.data[4..6].copy_from_slice(&(tail_len as u16).to_le_bytes());
    }
}

/// A list with sealed blocks.
#[derive(Debug, Default)]
struct Long {
    groups: Vec<Group>,
    /// Number of rows, the tail included.
    len: u32,
    tail: BlockAt,
    tail_len: u32,
}

#[derive(Debug, Default)]
struct Group {
    last: u32,
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Block {
    header: BlockHeader,
    at: BlockAt,
}

/// Postings of all terms.
#[derive(Debug, Default)]
pub struct Postings {
    pool: Pool,
    longs: Paged<Long>,
    free_longs: Paged<u32>,
    /// Bytes of groups and of their blocks' headers.
    directory_bytes: usize,
    form: Form,
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    bytes: Vec<u8>,
    block: Vec<u8>,
    builder: Option<Box<Builder>>,
    decoded: Option<Box<Decoded>>,
}

impl Postings {
    /// Postings with or without positions.
    pub fn storing(positions: bool) -> Self {
        let form = if positions { Form::Positions } else { Form::NoPositions };
        Self { form, ..Self::default() }
    }

    /// Whether positions are stored.
    pub fn has_positions(&self) -> bool {
        self.form == Form::Positions
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.footprints().into_iter().sum()
    }

    /// Bytes of blocks, of directories of long lists, of scratch memory.
    pub fn footprints(&self) -> [usize; 3] {
        let directories =
            self.longs.footprint() + self.free_longs.footprint() + self.directory_bytes;
        let scratch = &self.scratch;
        let builder = scratch.builder.as_ref().map_or(0, |_| size_of::<Builder>());
        let decoded = scratch.decoded.as_ref().map_or(0, |_| size_of::<Decoded>());
        let scratch = scratch.bytes.capacity() + scratch.block.capacity() + builder + decoded;
        [self.pool.footprint(), directories, scratch]
    }

    /// Number of rows of a list, removed ones included.
    #[inline]
    pub fn len(&self, list: &List) -> usize {
        match list.kind {
            LONG => self.longs.get(list.reference() as usize).map_or(0, |long| long.len as usize),
            _ => usize::from(list.count),
        }
    }

    fn tail_len(&self, list: &List) -> usize {
        match list.kind {
            LONG => self.longs.get(list.reference() as usize).map_or(0, |l| l.tail_len as usize),
            SHORT => list.tail_len(),
            len => usize::from(len),
        }
    }

    /// The tail of a list.
    fn tail<'t>(&'t self, list: &'t List) -> &'t [u8] {
        match list.kind {
            LONG => match self.longs.get(list.reference() as usize) {
                Some(long) if list.count > 0 => {
                    self.pool.get(long.tail).get(..long.tail_len as usize).unwrap_or_default()
                }
                _ => &[],
            },
            SHORT => self.pool.get(list.reference()).get(..list.tail_len()).unwrap_or_default(),
            len => list.data.get(..usize::from(len)).unwrap_or_default(),
        }
    }

    fn groups(&self, list: &List) -> &[Group] {
        match list.kind {
            LONG => self.longs.get(list.reference() as usize).map_or(&[], |long| &long.groups),
            _ => &[],
        }
    }

    /// The last byte of a list's tail: reading those of several lists before additions to them lets
    /// the processor wait for all of them at once.
    #[inline]
    pub fn touch(&self, list: &List) -> u8 {
        let (at, len) = match list.kind {
            LONG => match self.longs.get(list.reference() as usize) {
                Some(long) => (long.tail, long.tail_len as usize),
                None => return 0,
            },
            SHORT => (list.reference(), list.tail_len()),
            _ => return 0,
        };
        self.pool.get(at).get(len.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// Adds a posting with a row above all others. False if there is no memory to address, or the
    /// row is not above: then nothing is changed.
    #[inline]
    pub fn push(&mut self, list: &mut List, posting: &Posting<'_>) -> bool {
        if (list.count > 0 || list.kind == LONG) && posting.row <= list.last {
            return false;
        }
        let distance = if list.count == 0 { 0 } else { posting.row - list.last };
        let mut bytes = std::mem::take(&mut self.scratch.bytes);
        bytes.clear();
        put_in_tail(&mut bytes, distance, posting, self.form);
        let fits = bytes.len() + self.tail_len(list) <= TAIL_BYTES_MAX;
        let is_pushed = if fits && usize::from(list.count) + 1 < BLOCK_LEN {
            self.extend_tail(list, &bytes)
        } else {
            self.push_and_seal(list, posting)
        };
        bytes.shrink_to(TAIL_BYTES_MAX);
        self.scratch.bytes = bytes;
        if is_pushed {
            list.last = posting.row;
            if list.kind == LONG
                && let Some(long) = self.longs.get_mut(list.reference() as usize)
            {
                long.len += 1;
            }
        }
        is_pushed
    }

    /// Appends the bytes of one posting to the tail.
    fn extend_tail(&mut self, list: &mut List, bytes: &[u8]) -> bool {
        let is_extended = match list.kind {
            LONG => {
                let number = list.reference() as usize;
                let Some(long) = self.longs.get_mut(number) else { return false };
                let len = long.tail_len as usize;
                let old = (list.count > 0).then_some(long.tail);
                let Some(at) = extend(&mut self.pool, old, len, bytes) else { return false };
                (long.tail, long.tail_len) = (at, (len + bytes.len()) as u32);
                true
            }
            SHORT => {
                let len = list.tail_len();
                match extend(&mut self.pool, Some(list.reference()), len, bytes) {
                    Some(at) => {
                        list.refer(SHORT, at, len + bytes.len());
                        true
                    }
                    None => false,
                }
            }
            len => {
                let len = usize::from(len);
                match list.data.get_mut(len..len + bytes.len()) {
                    Some(rest) => {
                        rest.copy_from_slice(bytes);
                        list.kind += bytes.len() as u8;
                        true
                    }
                    None => {
                        let Some(at) = self.pool.allocate(len + bytes.len()) else { return false };
                        let block = self.pool.get_mut(at);
                        block[..len].copy_from_slice(&list.data[..len]);
                        block[len..len + bytes.len()].copy_from_slice(bytes);
                        list.refer(SHORT, at, len + bytes.len());
                        true
                    }
                }
            }
        };
        list.count += u8::from(is_extended);
        is_extended
    }

    /// Adds a posting for which the tail has no room: the tail becomes a block.
    fn push_and_seal(&mut self, list: &mut List, posting: &Posting<'_>) -> bool {
        let mut builder = self.scratch.builder.take().unwrap_or_default();
        builder.clear();
        self.collect_tail(list, &mut builder, &mut |_| true);
        // Only a full block takes the posting too, unless it is large by itself.
        let is_full = builder.len() + 1 == BLOCK_LEN;
        if is_full {
            builder.add_posting(posting, self.form);
        }
        let mut is_pushed = builder.len() == 0 || self.seal(list, &mut builder);
        if is_pushed && !is_full {
            let mut bytes = Vec::new();
            put_in_tail(&mut bytes, 0, posting, self.form);
            is_pushed = if bytes.len() <= TAIL_BYTES_MAX {
                self.extend_tail(list, &bytes)
            } else {
                builder.clear();
                builder.add_posting(posting, self.form);
                self.seal(list, &mut builder)
            };
        }
        builder.clear();
        self.scratch.builder = Some(builder);
        is_pushed
    }

    /// Makes a block of the collected rows, and frees the tail.
    fn seal(&mut self, list: &mut List, builder: &mut Builder) -> bool {
        let Some(block) = self.add_block(builder) else { return false };
        if list.kind != LONG {
            let len = u32::from(list.count);
            let Some(number) = self.add_long(Long { len, ..Long::default() }) else {
                self.pool.free(block.at);
                return false;
            };
            if list.kind == SHORT {
                self.pool.free(list.reference());
            }
            list.refer(LONG, number, 0);
        } else if list.count > 0
            && let Some(long) = self.longs.get(list.reference() as usize)
        {
            self.pool.free(long.tail);
        }
        list.count = 0;
        if let Some(long) = self.longs.get_mut(list.reference() as usize) {
            long.tail_len = 0;
            self.directory_bytes += push_block(&mut long.groups, block);
        }
        true
    }

    fn add_block(&mut self, builder: &mut Builder) -> Option<Block> {
        let mut bytes = std::mem::take(&mut self.scratch.block);
        let header = builder.put_block(&mut bytes);
        let at = self.pool.allocate(bytes.len().max(1));
        if let Some(at) = at {
            self.pool.get_mut(at)[..bytes.len()].copy_from_slice(&bytes);
        }
        bytes.shrink_to(TAIL_BYTES_MAX);
        self.scratch.block = bytes;
        Some(Block { header, at: at? })
    }

    fn add_long(&mut self, long: Long) -> Option<u32> {
        if let Some(number) = self.free_longs.pop() {
            *self.longs.get_mut(number as usize)? = long;
            return Some(number);
        }
        self.longs.push(long);
        u32::try_from(self.longs.len() - 1).ok()
    }

    /// Adds the kept rows of a tail to a builder that has room for them. False if all were kept.
    fn collect_tail(
        &mut self,
        list: &List,
        builder: &mut Builder,
        kept: &mut dyn FnMut(u32) -> bool,
    ) -> bool {
        let mut decoded = self.scratch.decoded.take().unwrap_or_default();
        let bytes = self.tail(list);
        decoded.read_tail(bytes, usize::from(list.count), list.last, self.form);
        let is_changed = collect(&mut decoded, bytes, builder, kept, &mut |_| true);
        self.scratch.decoded = Some(decoded);
        is_changed
    }
}

/// Adds the kept rows to a builder; a full one is given to `full`, which empties it or returns
/// false. Returns whether rows were left out.
fn collect(
    decoded: &mut Decoded,
    bytes: &[u8],
    builder: &mut Builder,
    kept: &mut dyn FnMut(u32) -> bool,
    full: &mut dyn FnMut(&mut Builder) -> bool,
) -> bool {
    let mut is_changed = false;
    for at in 0..decoded.len {
        let row = decoded.rows[at];
        if !kept(row) {
            is_changed = true;
            continue;
        }
        let (details, mut reader, count) = decoded.details(at, bytes);
        let start = reader.at;
        reader.skip(count);
        let positions = bytes.get(start..reader.at).unwrap_or_default();
        builder.add(row, decoded.frequencies[at], details, positions);
        if builder.is_full() && !full(builder) {
            break;
        }
    }
    is_changed
}

/// Appends to the `len` bytes of a block, or begins one. Returns its address, which may be another.
fn extend(pool: &mut Pool, block: Option<BlockAt>, len: usize, bytes: &[u8]) -> Option<BlockAt> {
    if let Some(at) = block
        && let Some(rest) = pool.get_mut(at).get_mut(len..len + bytes.len())
    {
        rest.copy_from_slice(bytes);
        return Some(at);
    }
    let new = pool.allocate(len + bytes.len())?;
    if let Some(at) = block {
        pool.copy(at, new, len);
        pool.free(at);
    }
    pool.get_mut(new)[len..len + bytes.len()].copy_from_slice(bytes);
    Some(new)
}

/// Appends a block to groups. Returns the growth in bytes.
fn push_block(groups: &mut Vec<Group>, block: Block) -> usize {
    let mut grown = 0;
    if groups.last().is_none_or(|group| group.blocks.len() >= GROUP_LEN) {
        let before = groups.capacity();
        if groups.is_empty() {
            groups.reserve_exact(1);
        }
        groups.push(Group::default());
        grown += (groups.capacity() - before) * size_of::<Group>();
    }
    if let Some(group) = groups.last_mut() {
        let before = group.blocks.capacity();
        if group.blocks.len() == before {
            group.blocks.reserve_exact((before / 2).min(GROUP_LEN - before).max(1));
        }
        group.last = block.header.last;
        group.blocks.push(block);
        grown += (group.blocks.capacity() - before) * size_of::<Block>();
    }
    grown
}
