//! The form of `BF.SCANDUMP` and `BF.LOADCHUNK`: a head, and pieces of the bits of all links, one
//! after another. Numbers are little-endian.
//!
//! ```text
//! u64 items, u32 links, options, expansion
//! per link: u64 bytes, bits, items, f64 error, bits per entry, u32 hashes, u64 entries,
//!           u8 exponent
//! ```
//!
//! The iterator is 0 before the head; then 1 + the number of bytes of bits before the piece.

use super::{Bloom, Facts, Link};
use crate::reader::Reader;

/// Bytes of a piece at most.
pub const PIECE_MAX: usize = 16 << 20;

/// Bytes of the head of one link.
const LINK_HEAD: usize = 53;

/// The reason for which a piece is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ChunkError {
    /// The iterator precedes the piece.
    Iterator,
    /// No link has such bits.
    NoLink,
    /// The piece extends beyond its link.
    TooLong,
}

impl Bloom {
    /// The head of a dump.
    pub fn head(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(20 + LINK_HEAD * self.links.len());
        out.extend_from_slice(&self.items.to_le_bytes());
        for number in [self.links.len() as u32, self.options, self.expansion] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for link in &self.links {
            let facts = link.facts();
            for number in [link.bytes() as u64, facts.bits, link.items()] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&facts.error.to_le_bytes());
            out.extend_from_slice(&facts.bits_per_entry.to_le_bytes());
            out.extend_from_slice(&facts.hashes.to_le_bytes());
            out.extend_from_slice(&facts.entries.to_le_bytes());
            out.push(facts.exponent);
        }
        out
    }

    /// Creates a filter from the head of a dump: all bits are 0. None if it contradicts itself.
    pub fn from_head(head: &[u8]) -> Option<Self> {
        let mut reader = Reader(head);
        let items = reader.u64()?;
        let [count, options, expansion] = [reader.u32()?, reader.u32()?, reader.u32()?];
        if reader.0.len() != usize::try_from(count).ok()?.checked_mul(LINK_HEAD)? {
            return None;
        }
        let mut links = Vec::new();
        while !reader.0.is_empty() {
            let [bytes, bits, items] = [reader.u64()?, reader.u64()?, reader.u64()?];
            let [error, bits_per_entry] = [reader.f64()?, reader.f64()?];
            let (hashes, entries) = (reader.u32()?, reader.u64()?);
            let exponent = reader.u8()?;
            let facts = Facts { entries, error, hashes, bits_per_entry, bits, exponent };
            let mut link = Link::new(facts).filter(|link| link.bytes() as u64 == bytes)?;
            if items > entries {
                return None;
            }
            link.set_items(items);
            links.push(link);
        }
        Bloom::from_links(links, items, options, expansion)
    }

    /// The link of a byte of all bits, and the byte's place in it.
    fn link_at(&self, mut offset: usize) -> Option<(usize, usize)> {
        for (i, link) in self.links.iter().enumerate() {
            match offset.checked_sub(link.bytes()) {
                Some(rest) => offset = rest,
                None => return Some((i, offset)),
            }
        }
        None
    }

    /// The piece at an iterator that is not 0, and the next iterator; none at the end.
    pub fn piece(&self, iterator: i64) -> Option<(i64, Vec<u8>)> {
        let offset = usize::try_from(iterator.checked_sub(1)?).ok()?;
        let (link, at) = self.link_at(offset)?;
        let mut piece = Vec::new();
        self.links[link].bits().read(at, PIECE_MAX, &mut piece);
        Some((iterator.checked_add_unsigned(piece.len() as u64)?, piece))
    }

    /// Overwrites the bits of the piece with which [`Bloom::piece`] returned this iterator.
    ///
    /// # Errors
    /// If there are no such bits; nothing has changed then.
    pub fn load_piece(&mut self, iterator: i64, piece: &[u8]) -> Result<(), ChunkError> {
        let after = usize::try_from(iterator).ok().filter(|&after| after > 0);
        let from = after.and_then(|after| after.checked_sub(piece.len()));
        let offset = from.ok_or(ChunkError::Iterator)?.checked_sub(1).ok_or(ChunkError::NoLink)?;
        let (i, at) = self.link_at(offset).ok_or(ChunkError::NoLink)?;
        let link = &mut self.links[i];
        let before = link.allocated();
        let fits = link.bits_mut().write(at, piece);
        self.allocated = self.allocated - before + link.allocated();
        if fits { Ok(()) } else { Err(ChunkError::TooLong) }
    }

    /// Upper bound of the growth of [`Bloom::allocated`] by loading this piece.
    pub fn piece_growth(&self, iterator: i64, len: usize) -> usize {
        let offset = usize::try_from(iterator).ok().and_then(|after| after.checked_sub(len + 1));
        let link = offset.and_then(|offset| self.link_at(offset));
        link.map_or(0, |(i, _)| self.links[i].bits().growth(2 + len / 4096))
    }
}
