//! The form of `CF.SCANDUMP` and `CF.LOADCHUNK`: a head, and pieces of all sub-filters, one after
//! another. Numbers are little-endian.
//!
//! ```text
//! u64 items, buckets, deletes, filters, u16 bucket size, iterations, expansion
//! ```
//!
//! The iterator is 0 before the head; then 1 + the number of bytes before the piece.

use super::table::Table;
use super::{BUCKET_MAX, Cuckoo, FILTERS_MAX, Shape};
use crate::reader::Reader;

/// Bytes of a piece at most.
pub const PIECE_MAX: usize = 16 << 20;

/// Bytes of a head.
pub const HEAD_LEN: usize = 38;

/// Place of the number of sub-filters in a head.
const FILTERS_AT: usize = 24;

/// No sub-filter has such bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct LoadChunkError;

impl Cuckoo {
    /// The head of a dump.
    pub fn head(&self) -> Vec<u8> {
        let Shape { buckets, bucket_size, iterations, expansion } = self.shape;
        let mut out = Vec::with_capacity(HEAD_LEN);
        for number in [self.items, buckets, self.deletes, self.tables.len() as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for number in [u16::from(bucket_size), iterations, expansion] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    /// Creates a filter from the head of a dump: all places are free. None if it contradicts
    /// itself.
    pub fn from_head(head: &[u8]) -> Option<Self> {
        let mut reader = Reader(head);
        let [items, buckets, deletes] = [reader.u64()?, reader.u64()?, reader.u64()?];
        let filters = usize::try_from(reader.u64()?).ok()?;
        let [size, iterations, expansion] = [reader.u16()?, reader.u16()?, reader.u16()?];
        if !reader.0.is_empty() || u64::from(size) > BUCKET_MAX {
            return None;
        }
        let shape = Shape { buckets, bucket_size: size as u8, iterations, expansion };
        Cuckoo::with_items(shape, filters, items, deletes)
    }

    /// Upper bound of the bytes that the filter of a dump's head occupies; 0 if the head is broken.
    pub fn head_growth(head: &[u8]) -> usize {
        let filters = head.get(FILTERS_AT..).and_then(|rest| Reader(rest).u64()).unwrap_or(0);
        let filters = usize::try_from(filters).ok().filter(|&filters| filters <= FILTERS_MAX);
        2 * filters.unwrap_or(0) * size_of::<Table>()
    }

    /// The sub-filter of a byte of all, and the byte's place in it.
    fn table_at(&self, mut offset: usize) -> Option<(usize, usize)> {
        for (i, table) in self.tables.iter().enumerate() {
            match offset.checked_sub(table.cells().len()) {
                Some(rest) => offset = rest,
                None => return Some((i, offset)),
            }
        }
        None
    }

    /// The piece at an iterator that is not 0, and the next iterator; none at the end.
    pub fn piece(&self, iterator: i64) -> Option<(i64, Vec<u8>)> {
        let offset = usize::try_from(iterator.checked_sub(1)?).ok()?;
        let (i, at) = self.table_at(offset)?;
        let mut piece = Vec::new();
        self.tables[i].cells().read(at, PIECE_MAX, &mut piece);
        Some((iterator.checked_add_unsigned(piece.len() as u64)?, piece))
    }

    fn place_of(&self, iterator: i64, len: usize) -> Option<(usize, usize)> {
        let offset = usize::try_from(iterator).ok()?.checked_sub(1)?.checked_sub(len)?;
        self.table_at(offset)
    }

    /// Overwrites the bytes of the piece with which [`Cuckoo::piece`] returned this iterator.
    ///
    /// # Errors
    /// If there are no such bytes, or no piece; nothing has changed then.
    pub fn load_piece(&mut self, iterator: i64, piece: &[u8]) -> Result<(), LoadChunkError> {
        if piece.is_empty() {
            return Err(LoadChunkError);
        }
        let (i, at) = self.place_of(iterator, piece.len()).ok_or(LoadChunkError)?;
        let fits = self.in_table(i, |table| table.cells_mut().write(at, piece));
        if fits { Ok(()) } else { Err(LoadChunkError) }
    }

    /// Upper bound of the growth of [`Cuckoo::allocated`] by loading this piece.
    pub fn piece_growth(&self, iterator: i64, len: usize) -> usize {
        let table = self.place_of(iterator, len);
        table.map_or(0, |(i, _)| self.tables[i].cells().growth(2 + len / 4096))
    }
}
