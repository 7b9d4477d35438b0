//! Postings of a term: ascending rows with frequency, fields and positions.
//!
//! ```text
//! sealed block   128 rows: deltas bit-packed, frequencies bit-packed, then per row the details
//! tail           up to 127 rows: per row delta, frequency (varints) and the details
//! details        mask of fields (varint, if the index has several), length of the positions in
//!                bytes (varint), positions as deltas (varints)
//! ```

use bitpacking::{BitPacker, BitPacker4x};
use std::mem::size_of;

/// Rows of a sealed block.
pub const BLOCK_LEN: usize = 128;

/// A document of a term.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Posting<'p> {
    /// The row.
    pub row: u32,
    /// Number of occurrences, each counted as often as the weight of its field.
    pub frequency: u32,
    /// Fields that contain the term.
    pub mask: u128,
    /// Positions, ascending.
    pub positions: &'p [u32],
}

/// Postings of a term.
#[derive(Clone, Debug, Default)]
pub struct Postings {
    /// Boxed, since most terms have no sealed block.
    #[allow(clippy::box_collection)]
    sealed: Option<Box<Vec<Block>>>,
    tail: Vec<u8>,
    tail_len: u8,
    last: u32,
    len: u32,
}

#[derive(Clone, Debug)]
struct Block {
    first: u32,
    last: u32,
    row_bits: u8,
    frequency_bits: u8,
    bytes: Box<[u8]>,
}

impl Postings {
    /// Number of documents, removed ones included.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        let sealed = self.sealed.as_ref().map_or(0, |blocks| {
            size_of::<Vec<Block>>()
                + blocks.capacity() * size_of::<Block>()
                + blocks.iter().map(|block| block.bytes.len()).sum::<usize>()
        });
        sealed + self.tail.capacity()
    }

    /// Adds a document with a row above all others. Returns the growth in bytes.
    pub fn push(&mut self, posting: &Posting<'_>, has_masks: bool) -> isize {
        debug_assert!(self.is_empty() || posting.row > self.last);
        let before = self.footprint_of_tail();
        let base = if self.tail_len == 0 { 0 } else { self.last };
        self.make_room(posting);
        put_varint(&mut self.tail, posting.row - base);
        put_varint(&mut self.tail, posting.frequency);
        put_details(&mut self.tail, posting, has_masks);
        self.last = posting.row;
        self.len += 1;
        self.tail_len += 1;
        let mut grown = 0;
        if usize::from(self.tail_len) == BLOCK_LEN {
            grown = self.seal(has_masks);
        }
        grown + self.footprint_of_tail() as isize - before as isize
    }

    fn footprint_of_tail(&self) -> usize {
        self.tail.capacity()
    }

    /// Grows the tail by a quarter at least: most tails stay small.
    fn make_room(&mut self, posting: &Posting<'_>) {
        let needed = 32 + 5 * posting.positions.len();
        let estimate = if posting.positions.len() < 4 { 12 } else { needed };
        if self.tail.capacity() - self.tail.len() < estimate {
            let extra = estimate.max(self.tail.len() / 4);
            self.tail.reserve_exact(extra);
        }
    }

    fn seal(&mut self, has_masks: bool) -> isize {
        let mut decoded = Decoded::default();
        decoded.read_tail(self, has_masks);
        let (rows, frequencies) = (&decoded.rows, &decoded.frequencies);
        let first = rows[0];
        let packer = BitPacker4x::new();
        let row_bits = packer.num_bits_sorted(first, rows);
        let frequency_bits = packer.num_bits(frequencies);
        let packed = packed_len(row_bits) + packed_len(frequency_bits);
        let mut bytes = vec![0; packed];
        packer.compress_sorted(first, rows, &mut bytes, row_bits);
        packer.compress(frequencies, &mut bytes[packed_len(row_bits)..], frequency_bits);
        let mut reader = Reader { bytes: &self.tail, at: 0 };
        for _ in 0..BLOCK_LEN {
            reader.varint();
            reader.varint();
            let start = reader.at;
            reader.skip_details(has_masks);
            bytes.extend_from_slice(&self.tail[start..reader.at]);
        }
        let blocks = self.sealed.get_or_insert_default();
        let before = blocks.capacity();
        let is_first = before == 0;
        if blocks.len() == blocks.capacity() {
            blocks.reserve_exact(1 + blocks.len() / 4);
        }
        let bytes = bytes.into_boxed_slice();
        let mut grown = bytes.len() + (blocks.capacity() - before) * size_of::<Block>();
        if is_first {
            grown += size_of::<Vec<Block>>();
        }
        blocks.push(Block { first, last: self.last, row_bits, frequency_bits, bytes });
        self.tail = Vec::new();
        self.tail_len = 0;
        grown as isize
    }

    /// Copies postings without masks of fields into ones with masks.
    pub fn with_masks(&self) -> Self {
        let mut with = Postings::default();
        let mut cursor = PostingCursor::new(self, false);
        let mut positions = Vec::new();
        while let Some(row) = cursor.current() {
            cursor.positions(&mut positions);
            let frequency = cursor.frequency();
            with.push(&Posting { row, frequency, mask: 1, positions: &positions }, true);
            cursor.advance();
        }
        with
    }

    /// Removes the rows that are not `kept`. Returns the number of rows left.
    pub fn retain(&mut self, has_masks: bool, mut kept: impl FnMut(u32) -> bool) -> usize {
        let mut left = Postings::default();
        let mut cursor = PostingCursor::new(self, has_masks);
        let mut positions = Vec::new();
        while let Some(row) = cursor.current() {
            if kept(row) {
                cursor.positions(&mut positions);
                let posting = Posting {
                    row,
                    frequency: cursor.frequency(),
                    mask: cursor.mask(),
                    positions: &positions,
                };
                left.push(&posting, has_masks);
            }
            cursor.advance();
        }
        left.tail.shrink_to_fit();
        *self = left;
        self.len()
    }

    fn blocks(&self) -> &[Block] {
        self.sealed.as_ref().map_or(&[], |blocks| blocks)
    }
}

/// Rows and frequencies of a block, or of the tail.
#[derive(Clone)]
struct Decoded {
    rows: [u32; BLOCK_LEN],
    frequencies: [u32; BLOCK_LEN],
    len: usize,
}

impl Default for Decoded {
    fn default() -> Self {
        Self { rows: [0; BLOCK_LEN], frequencies: [0; BLOCK_LEN], len: 0 }
    }
}

impl Decoded {
    fn read_block(&mut self, block: &Block) {
        let packer = BitPacker4x::new();
        let packed = packed_len(block.row_bits);
        packer.decompress_sorted(block.first, &block.bytes, &mut self.rows, block.row_bits);
        packer.decompress(&block.bytes[packed..], &mut self.frequencies, block.frequency_bits);
        self.len = BLOCK_LEN;
    }

    fn read_tail(&mut self, postings: &Postings, has_masks: bool) {
        let mut reader = Reader { bytes: &postings.tail, at: 0 };
        let mut row = 0;
        self.len = usize::from(postings.tail_len);
        for at in 0..self.len {
            row += reader.varint();
            self.rows[at] = row;
            self.frequencies[at] = reader.varint();
            reader.skip_details(has_masks);
        }
    }
}

fn packed_len(bits: u8) -> usize {
    usize::from(bits) * BLOCK_LEN / 8
}

/// A walk over postings in ascending order of rows.
pub struct PostingCursor<'p> {
    postings: &'p Postings,
    has_masks: bool,
    /// Index of the current block; that after the last sealed block is the tail.
    block: usize,
    at: usize,
    decoded: Box<Decoded>,
    /// Entry and offset up to which details were skipped.
    details: (usize, usize),
}

impl<'p> PostingCursor<'p> {
    /// A cursor at the first posting.
    pub fn new(postings: &'p Postings, has_masks: bool) -> Self {
        let mut cursor =
            Self { postings, has_masks, block: 0, at: 0, decoded: Box::default(), details: (0, 0) };
        cursor.load(0);
        cursor
    }

    /// The current row; none at the end.
    #[inline]
    pub fn current(&self) -> Option<u32> {
        (self.at < self.decoded.len).then(|| self.decoded.rows[self.at])
    }

    /// Steps to the next row.
    #[inline]
    pub fn advance(&mut self) {
        self.at += 1;
        if self.at >= self.decoded.len && self.block < self.postings.blocks().len() {
            self.load(self.block + 1);
        }
    }

    /// Steps to the first row that is not below `row`; never backwards.
    pub fn seek(&mut self, row: u32) {
        if self.current().is_none_or(|current| current >= row) {
            return;
        }
        let blocks = self.postings.blocks();
        if self.block < blocks.len() && blocks[self.block].last < row {
            let next = self.block + 1;
            let skipped = blocks[next..].partition_point(|block| block.last < row);
            self.load(next + skipped);
        }
        let rows = &self.decoded.rows[self.at..self.decoded.len];
        // Most seeks end close by.
        let near = rows.iter().take(8).position(|&found| found >= row);
        self.at += near.unwrap_or_else(|| rows.partition_point(|&found| found < row));
        debug_assert!(self.at < self.decoded.len || self.block == blocks.len());
    }

    /// Occurrences in the current document, weighted.
    #[inline]
    pub fn frequency(&self) -> u32 {
        self.decoded.frequencies[self.at.min(BLOCK_LEN - 1)]
    }

    /// Fields of the current document that contain the term.
    pub fn mask(&mut self) -> u128 {
        if !self.has_masks {
            return 1;
        }
        self.reader().mask()
    }

    /// Positions in the current document, ascending.
    pub fn positions(&mut self, positions: &mut Vec<u32>) {
        let has_masks = self.has_masks;
        let mut reader = self.reader();
        if has_masks {
            reader.mask();
        }
        let len = reader.varint() as usize;
        let end = (reader.at + len).min(reader.bytes.len());
        positions.clear();
        let mut position = 0u32;
        while reader.at < end {
            position = position.wrapping_add(reader.varint());
            positions.push(position);
        }
    }

    fn load(&mut self, block: usize) {
        self.block = block;
        self.at = 0;
        match self.postings.blocks().get(block) {
            Some(sealed) => {
                self.decoded.read_block(sealed);
                let packed = packed_len(sealed.row_bits) + packed_len(sealed.frequency_bits);
                self.details = (0, packed);
            }
            None => {
                self.decoded.read_tail(self.postings, self.has_masks);
                self.details = (0, 0);
            }
        }
    }

    /// A reader at the details of the current posting.
    fn reader(&mut self) -> Reader<'p> {
        let sealed = self.postings.blocks().get(self.block);
        let bytes = sealed.map_or(&self.postings.tail[..], |block| &block.bytes);
        let mut reader = Reader { bytes, at: self.details.1 };
        for _ in self.details.0..self.at {
            if sealed.is_none() {
                reader.varint();
                reader.varint();
            }
            reader.skip_details(self.has_masks);
        }
        self.details = (self.at, reader.at);
        if sealed.is_none() {
            reader.varint();
            reader.varint();
        }
        reader
    }
}

struct Reader<'p> {
    bytes: &'p [u8],
    at: usize,
}

impl Reader<'_> {
    #[inline]
    fn varint(&mut self) -> u32 {
        let mut value = 0u32;
        let mut shift = 0;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            value |= u32::from(byte & 127) << shift;
            if byte < 128 || shift >= 28 {
                break;
            }
            shift += 7;
        }
        value
    }

    fn mask(&mut self) -> u128 {
        let mut mask = 0u128;
        let mut shift = 0;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            mask |= u128::from(byte & 127) << shift;
            if byte < 128 || shift >= 126 {
                break;
            }
            shift += 7;
        }
        mask
    }

    fn skip_details(&mut self, has_masks: bool) {
        if has_masks {
            self.mask();
        }
        let len = self.varint() as usize;
        self.at += len;
    }
}

#[inline]
fn put_varint(bytes: &mut Vec<u8>, mut value: u32) {
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn put_mask(bytes: &mut Vec<u8>, mut mask: u128) {
    while mask >= 128 {
        bytes.push(mask as u8 | 128);
        mask >>= 7;
    }
    bytes.push(mask as u8);
}

fn varint_len(value: u32) -> usize {
    (38 - value.leading_zeros() as usize).max(7) / 7
}

fn put_details(bytes: &mut Vec<u8>, posting: &Posting<'_>, has_masks: bool) {
    if has_masks {
        put_mask(bytes, posting.mask);
    }
    let deltas = || {
        let mut previous = 0;
        posting.positions.iter().map(move |&position| {
            let delta = position - previous;
            previous = position;
            delta
        })
    };
    put_varint(bytes, deltas().map(varint_len).sum::<usize>() as u32);
    for delta in deltas() {
        put_varint(bytes, delta);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(number: u32, has_masks: bool) -> (u32, u32, u128, Vec<u32>) {
        let row = number * 3 + number % 2;
        let mask = if has_masks { 1 << (number % 128) } else { 1 };
        let positions = (0..number % 5 + 1).map(|at| at * 100 + number).collect();
        (row, number % 7 + 1, mask, positions)
    }

    fn build(count: u32, has_masks: bool) -> Postings {
        let mut postings = Postings::default();
        let mut bytes = 0;
        for number in 0..count {
            let (row, frequency, mask, positions) = sample(number, has_masks);
            let posting = Posting { row, frequency, mask, positions: &positions };
            bytes += postings.push(&posting, has_masks);
        }
        assert_eq!(bytes as usize, postings.footprint());
        postings
    }

    #[test]
    fn postings_are_read_as_written() {
        for (count, has_masks) in
            [(0, true), (1, false), (127, true), (128, true), (129, false), (1000, true)]
        {
            let postings = build(count, has_masks);
            let mut cursor = PostingCursor::new(&postings, has_masks);
            let mut read = Vec::new();
            for number in 0..count {
                let (row, frequency, mask, positions) = sample(number, has_masks);
                assert_eq!((cursor.current(), cursor.frequency()), (Some(row), frequency));
                if number % 3 != 0 {
                    cursor.positions(&mut read);
                    assert_eq!((&read, cursor.mask()), (&positions, mask));
                }
                cursor.advance();
            }
            assert_eq!(cursor.current(), None);
            cursor.advance();
            assert_eq!(cursor.current(), None);
        }
    }

    #[test]
    fn seeks_find_the_next_row() {
        for count in [0, 5, 128, 1000] {
            let postings = build(count, true);
            for step in [1, 2, 3, 10, 127, 400, 1200] {
                let mut cursor = PostingCursor::new(&postings, true);
                for target in (0..count * 3 + 10).step_by(step) {
                    cursor.seek(target);
                    let next = (0..count).map(|number| sample(number, true).0);
                    assert_eq!(cursor.current(), next.into_iter().find(|&row| row >= target));
                    if let Some(row) = cursor.current() {
                        let mut positions = Vec::new();
                        cursor.positions(&mut positions);
                        assert_eq!(positions, sample(row / 3, true).3);
                    }
                }
            }
        }
    }

    #[test]
    fn removed_rows_leave_no_bytes() {
        let mut postings = build(1000, true);
        let before = postings.footprint();
        let left = (0..1000).filter(|&number| sample(number, true).0.is_multiple_of(9)).count();
        assert_eq!(postings.retain(true, |row| row.is_multiple_of(9)), left);
        assert!(postings.footprint() < before / 4);
        let mut cursor = PostingCursor::new(&postings, true);
        let mut positions = Vec::new();
        while let Some(row) = cursor.current() {
            assert_eq!(row % 9, 0);
            cursor.positions(&mut positions);
            assert_eq!(positions, sample(row / 3, true).3);
            cursor.advance();
        }
        assert_eq!(postings.retain(true, |_| false), 0);
        assert_eq!(postings.footprint(), 0);
    }

    #[test]
    fn varints_have_the_length_that_is_computed() {
        for value in [0, 1, 127, 128, 16_383, 16_384, 1 << 21, 1 << 28, u32::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(bytes.len(), varint_len(value), "{value}");
        }
    }
}
