//! Layout of an entry in its block.

use crate::structures::hash::schema::Schema;
use crate::structures::large::Large;
use crate::structures::stamp::STAMP;
use bytes::Bytes;
use std::cell::Cell;

pub(super) const KIND_MASK: u8 = 0b0000_0111;
pub(super) const EXPIRY: u8 = 0b0000_1000;
pub(super) const WIDE: u8 = 0b0001_0000;
/// Flag of a string made by `APPEND` or `SETRANGE`.
pub(super) const RAW: u8 = 0b0010_0000;
/// Bits for a collection's [form](crate::structures::form::Form) or a string's flags.
pub(super) const SUB_MASK: u8 = 0b1110_0000;
pub(super) const SUB_SHIFT: u32 = 5;

/// First word of every entry.
#[repr(C)]
pub(super) struct Head {
    /// Kind and flags in the lowest byte, the access field above it.
    pub(super) word: Cell<u32>,
    /// Bytes of the key, if 16 bits hold them.
    pub(super) key_len: Cell<u16>,
    /// Bytes of the inline value, and the stamp.
    pub(super) val_len: Cell<u16>,
}

pub(super) const HEADER: usize = size_of::<Head>();
const _: () = assert!(HEADER == 8);

/// Representation of a value in its entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Kind {
    /// A string shorter than [`BLOB_MIN`](super::BLOB_MIN), inline after the key.
    Str = 0,
    /// A string that is the canonical decimal form of an `i64`.
    Int = 1,
    /// A string of [`BLOB_MIN`](super::BLOB_MIN) bytes or more.
    Blob = 2,
    /// A small collection: packed items inline after the key.
    Packed = 3,
    /// A packed collection that has passed the thresholds of `OBJECT ENCODING` although it is
    /// small.
    PackedBeyond = 4,
    /// A large collection, in an allocation of its own.
    Large = 5,
    /// A hash with its field names in a schema: packed values inline after the key.
    Compact = 6,
    /// A [`Kind::Compact`] that has passed the thresholds of `OBJECT ENCODING`.
    CompactBeyond = 7,
}

impl Kind {
    pub(super) const fn fixed(self) -> usize {
        match self {
            Kind::Str | Kind::Packed | Kind::PackedBeyond => 0,
            Kind::Int => 8,
            Kind::Blob => size_of::<Bytes>(),
            Kind::Large => size_of::<*mut Large>(),
            Kind::Compact | Kind::CompactBeyond => size_of::<*const Schema>(),
        }
    }

    /// Whether the value is a string.
    pub fn is_string(self) -> bool {
        matches!(self, Kind::Str | Kind::Int | Kind::Blob)
    }

    pub(super) const fn of(meta: u8) -> Self {
        match meta & KIND_MASK {
            0 => Kind::Str,
            1 => Kind::Int,
            2 => Kind::Blob,
            3 => Kind::Packed,
            4 => Kind::PackedBeyond,
            5 => Kind::Large,
            6 => Kind::Compact,
            _ => Kind::CompactBeyond,
        }
    }
}

/// Offset of the key by the low five bits of the meta byte: kind, expiry, wide.
pub(super) const KEY_AT: [u8; 32] = {
    let mut table = [0u8; 32];
    let mut meta = 0;
    while meta < 32 {
        let fixed = Kind::of(meta as u8).fixed();
        let wide = if meta as u8 & WIDE != 0 { 8 } else { 0 };
        let expiry = if meta as u8 & EXPIRY != 0 { 8 } else { 0 };
        table[meta] = (HEADER + wide + expiry + fixed) as u8;
        meta += 1;
    }
    table
};

// Fixed parts, expiries and wide lengths are words at multiples of 8. The bits of the first byte do
// not overlap.
const _: () = {
    let mut meta = 0;
    while meta < KEY_AT.len() {
        assert!(KEY_AT[meta].is_multiple_of(8) && KEY_AT[meta] as usize >= HEADER);
        meta += 1;
    }
    assert!(
        KIND_MASK | EXPIRY | WIDE | SUB_MASK == u8::MAX && SUB_MASK.trailing_zeros() == SUB_SHIFT
    );
    assert!(KIND_MASK & EXPIRY == 0 && (KIND_MASK | EXPIRY) & WIDE == 0 && RAW & !SUB_MASK == 0);
};

/// Properties that determine the size and layout of an entry.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) kind: Kind,
    /// The bits of [`SUB_MASK`].
    pub(super) sub: u8,
    pub(super) key_len: usize,
    pub(super) inline_len: usize,
    pub(super) expiry: bool,
}

impl Shape {
    pub(super) fn is_wide(self) -> bool {
        self.key_len > usize::from(u16::MAX)
    }

    pub(super) fn head(self, access: u32, stamp: u16) -> Head {
        debug_assert!(access >> 24 == 0 && self.inline_len & !usize::from(!STAMP) == 0);
        Head {
            word: Cell::new(u32::from(self.meta()) | access << 8),
            key_len: Cell::new(self.key_len as u16),
            val_len: Cell::new(self.inline_len as u16 | stamp),
        }
    }

    pub(super) fn meta(self) -> u8 {
        let wide = if self.is_wide() { WIDE } else { 0 };
        let expiry = if self.expiry { EXPIRY } else { 0 };
        self.kind as u8 | self.sub | wide | expiry
    }

    pub(super) fn size(self) -> usize {
        usize::from(KEY_AT[usize::from(self.meta() & !SUB_MASK)]) + self.key_len + self.inline_len
    }
}

/// The fixed part of entries of one kind.
pub(super) trait Fixed {
    const KIND: Kind;
}

impl Fixed for i64 {
    const KIND: Kind = Kind::Int;
}

impl Fixed for Bytes {
    const KIND: Kind = Kind::Blob;
}

impl Fixed for *mut Large {
    const KIND: Kind = Kind::Large;
}
