//! Encoding of postings.
//!
//! ```text
//! tail     per row: distance from the row before << 1 | extended (the first row has distance 0);
//!          if extended: frequency << 2 | has_count << 1 | has_mask, mask, count; then positions
//! block    distances of rows, frequencies - 1 (both bit-packed, 128 each); masks and counts of all
//!          rows, if one of them needs it; positions of all rows
//! ```
//!
//! Numbers are varints, positions distances from the one before. Frequency and mask of fields are 1
//! unless stated, the number of positions is the frequency. Lists without positions leave them out.

use bitpacking::{BitPacker, BitPacker4x};

/// Rows of a full block.
pub const BLOCK_LEN: usize = 128;

/// Flags of a block.
const MASKS: u8 = 1;
const COUNTS: u8 = 2;

const EXTENDED: u64 = 1;
const HAS_MASK: u64 = 1;
const HAS_COUNT: u64 = 2;

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

/// Header of a sealed block.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockHeader {
    /// First row.
    pub first: u32,
    /// Last row.
    pub last: u32,
    row_bits: u8,
    frequency_bits: u8,
    flags: u8,
    /// Number of rows.
    pub count: u8,
}

/// Details of a posting besides row and frequency.
#[derive(Clone, Copy, Debug, Default)]
pub struct Details {
    /// Fields that contain the term.
    pub mask: u128,
    /// Number of positions.
    pub count: u32,
}

impl Details {
    fn of(posting: &Posting<'_>, form: Form) -> Self {
        let count = match form {
            Form::Positions => posting.positions.len() as u32,
            Form::NoPositions => posting.frequency,
        };
        Self { mask: posting.mask, count }
    }
}

/// Whether positions are stored.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Form {
    #[default]
    Positions,
    NoPositions,
}

impl Form {
    /// The number of positions that follow.
    #[inline]
    pub fn stored(self, details: Details) -> u64 {
        if self == Form::Positions { u64::from(details.count) } else { 0 }
    }

    fn put_positions(self, bytes: &mut Vec<u8>, positions: &[u32]) {
        if self == Form::Positions {
            put_positions(bytes, positions);
        }
    }
}

/// Reads numbers from bytes. Reads beyond the end give 0.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'b> {
    pub bytes: &'b [u8],
    pub at: usize,
}

impl Reader<'_> {
    #[inline]
    pub fn varint(&mut self) -> u64 {
        let mut value = 0u64;
        let mut shift = 0;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 || shift >= 56 {
                break;
            }
            shift += 7;
        }
        value
    }

    #[inline]
    pub fn number(&mut self) -> u32 {
        self.varint() as u32
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

    /// Skips numbers: each ends with a byte below 128.
    #[inline]
    pub fn skip(&mut self, mut count: u64) {
        const HIGH: u64 = 0x8080_8080_8080_8080;
        while count >= 8 {
            let Some(word) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk()) else {
                break;
            };
            let ends = (!u64::from_le_bytes(*word) & HIGH).count_ones();
            count -= u64::from(ends);
            self.at += 8;
        }
        while count > 0 && self.at < self.bytes.len() {
            count -= u64::from(self.bytes[self.at] < 128);
            self.at += 1;
        }
    }
}

#[inline]
pub fn put_varint(bytes: &mut Vec<u8>, mut value: u64) {
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

fn put_positions(bytes: &mut Vec<u8>, positions: &[u32]) {
    let mut previous = 0;
    for &position in positions {
        put_varint(bytes, u64::from(position.wrapping_sub(previous)));
        previous = position;
    }
}

/// Appends a posting to a tail.
#[inline]
pub fn put_in_tail(bytes: &mut Vec<u8>, distance: u32, posting: &Posting<'_>, form: Form) {
    put_head(bytes, distance, posting.frequency, Details::of(posting, form));
    form.put_positions(bytes, posting.positions);
}

#[inline]
fn put_head(bytes: &mut Vec<u8>, distance: u32, frequency: u32, details: Details) {
    let has_mask = details.mask != 1;
    let has_count = details.count != frequency;
    let distance = u64::from(distance) << 1;
    if frequency == 1 && !has_mask && !has_count {
        put_varint(bytes, distance);
        return;
    }
    put_varint(bytes, distance | EXTENDED);
    let flags = (u64::from(has_mask) * HAS_MASK) | (u64::from(has_count) * HAS_COUNT);
    put_varint(bytes, u64::from(frequency) << 2 | flags);
    if has_mask {
        put_mask(bytes, details.mask);
    }
    if has_count {
        put_varint(bytes, u64::from(details.count));
    }
}

/// Reads the head of a posting in a tail: distance, frequency, details.
#[inline]
pub fn take_head(reader: &mut Reader<'_>) -> (u32, u32, Details) {
    let head = reader.varint();
    let distance = (head >> 1) as u32;
    if head & EXTENDED == 0 {
        return (distance, 1, Details { mask: 1, count: 1 });
    }
    let flags = reader.varint();
    let frequency = (flags >> 2) as u32;
    let mask = if flags & HAS_MASK != 0 { reader.mask() } else { 1 };
    let count = if flags & HAS_COUNT != 0 { reader.number() } else { frequency };
    (distance, frequency, Details { mask, count })
}

/// Collects the rows of a block or of a tail.
#[derive(Clone, Debug)]
pub struct Builder {
    rows: [u32; BLOCK_LEN],
    frequencies: [u32; BLOCK_LEN],
    details: [Details; BLOCK_LEN],
    positions: Vec<u8>,
    len: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            rows: [0; BLOCK_LEN],
            frequencies: [0; BLOCK_LEN],
            details: [Details::default(); BLOCK_LEN],
            positions: Vec::new(),
            len: 0,
        }
    }
}

/// Bytes of positions for which memory is kept.
const KEPT_BYTES: usize = 1 << 14;

impl Builder {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no row can be added.
    pub fn is_full(&self) -> bool {
        self.len == BLOCK_LEN
    }

    /// The last row.
    pub fn last(&self) -> u32 {
        self.len.checked_sub(1).map_or(0, |at| self.rows[at])
    }

    fn add_row(&mut self, row: u32, frequency: u32, details: Details) {
        if !self.is_full() {
            self.rows[self.len] = row;
            self.frequencies[self.len] = frequency;
            self.details[self.len] = details;
            self.len += 1;
        }
    }

    /// Adds a row with its encoded positions. There must be room for it.
    pub fn add(&mut self, row: u32, frequency: u32, details: Details, positions: &[u8]) {
        self.add_row(row, frequency, details);
        self.positions.extend_from_slice(positions);
    }

    /// Adds a posting. There must be room for it.
    pub fn add_posting(&mut self, posting: &Posting<'_>, form: Form) {
        self.add_row(posting.row, posting.frequency, Details::of(posting, form));
        form.put_positions(&mut self.positions, posting.positions);
    }

    /// Adds the rows of another builder. There must be room for them.
    pub fn append(&mut self, other: &Builder) {
        for at in 0..other.len {
            self.add_row(other.rows[at], other.frequencies[at], other.details[at]);
        }
        self.positions.extend_from_slice(&other.positions);
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.len = 0;
        self.positions.clear();
        self.positions.shrink_to(KEPT_BYTES);
    }

    /// Encodes the rows as a block.
    pub fn put_block(&mut self, bytes: &mut Vec<u8>) -> BlockHeader {
        let len = self.len.max(1);
        let (first, last) = (self.rows[0], self.rows[len - 1]);
        self.rows[len..].fill(last);
        self.frequencies[len..].fill(1);
        for frequency in &mut self.frequencies {
            *frequency = frequency.wrapping_sub(1);
        }
        let packer = BitPacker4x::new();
        let row_bits = packer.num_bits_sorted(first, &self.rows);
        let frequency_bits = packer.num_bits(&self.frequencies);
        let (rows, packed) =
            (packed_len(row_bits), packed_len(row_bits) + packed_len(frequency_bits));
        bytes.clear();
        bytes.resize(packed, 0);
        packer.compress_sorted(first, &self.rows, bytes, row_bits);
        packer.compress(&self.frequencies, &mut bytes[rows..], frequency_bits);
        let details = &self.details[..self.len];
        let mut flags = 0;
        if details.iter().any(|details| details.mask != 1) {
            flags |= MASKS;
            details.iter().for_each(|details| put_mask(bytes, details.mask));
        }
        let mut counts = details.iter().zip(&self.frequencies);
        if counts.any(|(details, frequency)| details.count != frequency.wrapping_add(1)) {
            flags |= COUNTS;
            details.iter().for_each(|details| put_varint(bytes, u64::from(details.count)));
        }
        bytes.extend_from_slice(&self.positions);
        BlockHeader { first, last, row_bits, frequency_bits, flags, count: self.len as u8 }
    }

    /// Encodes the rows as a tail.
    pub fn put_tail(&self, bytes: &mut Vec<u8>, form: Form) {
        bytes.clear();
        let mut positions = Reader { bytes: &self.positions, at: 0 };
        for at in 0..self.len {
            let distance = at.checked_sub(1).map_or(0, |before| self.rows[at] - self.rows[before]);
            put_head(bytes, distance, self.frequencies[at], self.details[at]);
            let start = positions.at;
            positions.skip(form.stored(self.details[at]));
            bytes.extend_from_slice(&self.positions[start..positions.at]);
        }
    }
}

fn packed_len(bits: u8) -> usize {
    usize::from(bits) * BLOCK_LEN / 8
}

/// Rows and frequencies of a block or of a tail, and where the rest is.
#[derive(Clone, Debug)]
pub struct Decoded {
    pub rows: [u32; BLOCK_LEN],
    pub frequencies: [u32; BLOCK_LEN],
    pub len: usize,
    form: Form,
    flags: u8,
    is_tail: bool,
    /// Places of the postings of a tail.
    places: [u16; BLOCK_LEN],
    /// Row and places up to which masks, counts and positions of a block were skipped.
    skipped: usize,
    masks: usize,
    counts: usize,
    positions: usize,
}

impl Default for Decoded {
    fn default() -> Self {
        Self {
            rows: [0; BLOCK_LEN],
            frequencies: [0; BLOCK_LEN],
            len: 0,
            form: Form::default(),
            flags: 0,
            is_tail: false,
            places: [0; BLOCK_LEN],
            skipped: 0,
            masks: 0,
            counts: 0,
            positions: 0,
        }
    }
}

impl Decoded {
    /// Reads a block.
    pub fn read_block(&mut self, header: &BlockHeader, bytes: &[u8], form: Form) {
        let packer = BitPacker4x::new();
        let rows = packed_len(header.row_bits);
        let packed = rows + packed_len(header.frequency_bits);
        let len = usize::from(header.count).min(BLOCK_LEN);
        (self.is_tail, self.form, self.flags, self.skipped) = (false, form, header.flags, 0);
        let (Some(row_bytes), Some(frequency_bytes)) = (bytes.get(..rows), bytes.get(rows..packed))
        else {
            self.len = 0;
            return;
        };
        packer.decompress_sorted(header.first, row_bytes, &mut self.rows, header.row_bits);
        packer.decompress(frequency_bytes, &mut self.frequencies, header.frequency_bits);
        for frequency in &mut self.frequencies {
            *frequency = frequency.wrapping_add(1);
        }
        self.len = len;
        let mut reader = Reader { bytes, at: packed };
        self.masks = reader.at;
        if self.flags & MASKS != 0 {
            reader.skip(len as u64);
        }
        self.counts = reader.at;
        if self.flags & COUNTS != 0 {
            reader.skip(len as u64);
        }
        self.positions = reader.at;
    }

    /// Reads a tail of `len` rows, of which `last` is the last.
    pub fn read_tail(&mut self, bytes: &[u8], len: usize, last: u32, form: Form) {
        let mut reader = Reader { bytes, at: 0 };
        (self.is_tail, self.form) = (true, form);
        self.len = len.min(BLOCK_LEN);
        let mut row = 0u32;
        for at in 0..self.len {
            self.places[at] = reader.at as u16;
            let (distance, frequency, details) = take_head(&mut reader);
            row = row.wrapping_add(distance);
            self.rows[at] = row;
            self.frequencies[at] = frequency;
            reader.skip(form.stored(details));
        }
        let first = last.wrapping_sub(row);
        for row in &mut self.rows[..self.len] {
            *row = row.wrapping_add(first);
        }
    }

    /// Details of a row, and a reader at its positions, and the number of stored ones.
    /// Rows are asked for in ascending order.
    pub fn details<'b>(&mut self, at: usize, bytes: &'b [u8]) -> (Details, Reader<'b>, u64) {
        if self.is_tail {
            let place = self.places.get(at).copied().unwrap_or(u16::MAX);
            let mut reader = Reader { bytes, at: usize::from(place) };
            let (_, _, details) = take_head(&mut reader);
            return (details, reader, self.form.stored(details));
        }
        while self.skipped < at {
            let details = self.step(bytes);
            let mut reader = Reader { bytes, at: self.positions };
            reader.skip(self.form.stored(details));
            self.positions = reader.at;
        }
        let (masks, counts) = (self.masks, self.counts);
        let details = self.step(bytes);
        (self.masks, self.counts, self.skipped) = (masks, counts, at);
        (details, Reader { bytes, at: self.positions }, self.form.stored(details))
    }

    /// Reads mask and count of the row after the skipped ones.
    fn step(&mut self, bytes: &[u8]) -> Details {
        let mut details = Details { mask: 1, count: self.frequencies[self.skipped.min(127)] };
        if self.flags & MASKS != 0 {
            let mut reader = Reader { bytes, at: self.masks };
            details.mask = reader.mask();
            self.masks = reader.at;
        }
        if self.flags & COUNTS != 0 {
            let mut reader = Reader { bytes, at: self.counts };
            details.count = reader.number();
            self.counts = reader.at;
        }
        self.skipped += 1;
        details
    }
}
