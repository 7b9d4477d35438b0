//! A key with its value: a single heap block, contiguous, without unused fields.
//!
//! ```text
//!  0        1            4          6          8
//! +--------+------------+----------+----------+---------+----------+---------+-----+--------+
//! | kind   | access     | key_len  | val_len  | [wide]  | [expiry] | [fixed] | key | inline |
//! | + flags| (24 bits)  | u16      | u16      | u64     | i64 ms   | 8 / 32  |     | value  |
//! +--------+------------+----------+----------+---------+----------+---------+-----+--------+
//! ```
//!
//! The highest bit of `val_len` is the entry's stamp (`image.rs`). `wide` holds the key's length
//! where 16 bits do not; `expiry` is there only with a TTL; `fixed` is the integer of
//! an [`Kind::Int`], the reference-counted [`Bytes`] of a [`Kind::Blob`], the pointer of a
//! [`Kind::Large`] or the reference to the schema of a [`Kind::Compact`]; an inline string, or a
//! small collection's packed items, follow the key. The flags of a collection name its [`Form`].

mod compact;
mod layout;

pub use layout::Kind;

use crate::structures::block::Block;
use crate::structures::bucket::{Bucket, Item};
use crate::structures::custom::{Held, TypeNumber};
use crate::structures::form::{Form, Type};
use crate::structures::large::Large;
use crate::structures::sizes::{BLOB_MIN, PACKED_MAX, blob_bytes};
use crate::structures::stamp::{STAMP, Stamp};
use crate::structures::table::Table;
use crate::structures::value::{StrRef, Value};
use bytes::Bytes;
use layout::{
    EXPIRY, Fixed, HEADER, Head, KEY_AT, KIND_MASK, RAW, SUB_MASK, SUB_SHIFT, Shape, WIDE,
};
use petrel_heap::{Cache, are_alike, usable};
use std::cell::Cell;
use std::ptr;

/// The table of a database in one stripe.
pub(crate) type EntryTable = Table<Entry>;

/// Longest string whose `OBJECT ENCODING` is `embstr`.
const EMBSTR_MAX: usize = 44;

/// A pointer to a live entry.
///
/// Invariant of every method: the calling thread holds the entry's stripe (or no other thread can
/// reach the entry), and the returned references are not used after the entry is replaced or freed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Entry(Block);

impl Entry {
    /// Builds an entry. `access` is the 24-bit access field.
    pub fn new(
        cache: &mut Cache,
        key: &[u8],
        value: Value<'_>,
        expiry: Option<i64>,
        access: u32,
    ) -> Self {
        let (inline, sub) = match &value {
            Value::Bytes(b) if b.len() < BLOB_MIN => (*b, 0),
            Value::Blob(b) if b.len() < BLOB_MIN => (&b[..], 0),
            Value::Raw(b) if b.len() < BLOB_MIN => (&b[..], RAW),
            _ => {
                return match value {
                    Value::Int(n) => Self::with_fixed(cache, key, 0, n, expiry, access),
                    Value::Bytes(b) => {
                        let blob = Bytes::copy_from_slice(b);
                        Self::with_fixed(cache, key, 0, blob, expiry, access)
                    }
                    Value::Blob(b) | Value::Raw(b) => {
                        Self::with_fixed(cache, key, 0, b, expiry, access)
                    }
                };
            }
        };
        Self::build(cache, key, Kind::Str, sub, inline, expiry, access).0
    }

    /// Builds an entry with its value in the fixed part.
    fn with_fixed<F: Fixed>(
        cache: &mut Cache,
        key: &[u8],
        sub: u8,
        value: F,
        expiry: Option<i64>,
        access: u32,
    ) -> Self {
        let (entry, fixed) = Self::build(cache, key, F::KIND, sub, &[], expiry, access);
        // SAFETY: the block has a fixed part of the kind's type, 8-byte aligned and not initialised
        // yet.
        unsafe { fixed.cast::<F>().write(value) };
        entry
    }

    /// Builds the entry of a small collection from its packed items, at most [`PACKED_MAX`] bytes.
    /// `beyond`: it has passed the thresholds of `OBJECT ENCODING`.
    pub fn packed_collection(
        cache: &mut Cache,
        key: &[u8],
        form: Form,
        beyond: bool,
        items: &[u8],
        expiry: Option<i64>,
        access: u32,
    ) -> Self {
        debug_assert!(items.len() <= PACKED_MAX);
        let kind = if beyond { Kind::PackedBeyond } else { Kind::Packed };
        Self::build(cache, key, kind, form.packed_bits() << SUB_SHIFT, items, expiry, access).0
    }

    /// Builds the entry of a large collection.
    pub fn large_collection(
        cache: &mut Cache,
        key: &[u8],
        large: Box<Large>,
        expiry: Option<i64>,
        access: u32,
    ) -> Self {
        let sub = large.form().large_bits() << SUB_SHIFT;
        Self::with_fixed(cache, key, sub, Box::into_raw(large), expiry, access)
    }

    /// Allocates and fills an entry except for its fixed part, to which the pointer leads.
    fn build(
        cache: &mut Cache,
        key: &[u8],
        kind: Kind,
        sub: u8,
        inline: &[u8],
        expiry: Option<i64>,
        access: u32,
    ) -> (Self, *mut u8) {
        let shape = Shape {
            kind,
            sub,
            key_len: key.len(),
            inline_len: inline.len(),
            expiry: expiry.is_some(),
        };
        let entry = Entry(Block::new(cache.alloc(shape.size())));
        // SAFETY: the block is fresh, `shape.size()` bytes long and 8-byte aligned; every write
        // below lies inside it by the definition of `Shape::size`, and the fixed part
        // begins at a multiple of 8.
        unsafe {
            let base = entry.base();
            base.cast::<Head>().write(shape.head(access, Stamp::through(cache).now()));
            if shape.is_wide() {
                base.add(HEADER).cast::<u64>().write(shape.key_len as u64);
            }
            if let Some(at) = expiry {
                base.add(entry.expiry_at()).cast::<i64>().write(at);
            }
            let key_at = entry.key_at();
            ptr::copy_nonoverlapping(key.as_ptr(), base.add(key_at), key.len());
            ptr::copy_nonoverlapping(inline.as_ptr(), base.add(key_at + key.len()), inline.len());
            (entry, base.add(key_at - kind.fixed()))
        }
    }

    /// Overwrites the value in place if the new one fits the same block; false if not.
    #[inline]
    pub fn overwrite(self, value: &Value<'_>, expiry: Option<i64>, access: u32) -> bool {
        let (inline, raw) = match value {
            Value::Bytes(b) if b.len() < BLOB_MIN => (*b, false),
            Value::Raw(b) if b.len() < BLOB_MIN => (&b[..], true),
            _ => return false,
        };
        let meta = self.meta();
        // The key must keep its offset: moving it would need a buffer.
        if Kind::of(meta) != Kind::Str || (meta & EXPIRY != 0) != expiry.is_some() {
            return false;
        }
        let value_at = self.key_at() + self.key_len();
        if !are_alike(value_at + inline.len(), value_at + self.inline_len()) {
            return false;
        }
        let meta = meta & !SUB_MASK | if raw { RAW } else { 0 };
        // SAFETY: same block size, same layout before the inline value, so all writes stay inside
        // the block.
        unsafe {
            self.head().word.set(u32::from(meta) | access << 8);
            self.write_inline_len(inline.len());
            if let Some(at) = expiry {
                self.base().add(self.expiry_at()).cast::<i64>().write(at);
            }
            let to = self.base().add(value_at);
            ptr::copy_nonoverlapping(inline.as_ptr(), to, inline.len());
        }
        true
    }

    /// This entry with another expiry, in a new block if the layout changes. The old block is then
    /// released with [`Entry::release_block`].
    pub fn with_expiry(self, cache: &mut Cache, expiry: Option<i64>) -> Self {
        if let (Some(field), Some(at)) = (self.expiry_field(), expiry) {
            field.set(at);
            return self;
        }
        if !self.has_expiry() && expiry.is_none() {
            return self;
        }
        let shape = Shape {
            kind: self.kind(),
            sub: self.meta() & SUB_MASK,
            key_len: self.key_len(),
            inline_len: self.inline_len(),
            expiry: expiry.is_some(),
        };
        let new = Entry(Block::new(cache.alloc(shape.size())));
        // SAFETY: both blocks hold fixed part, key and inline value contiguously and of the same
        // length.
        unsafe {
            let base = new.base();
            base.cast::<Head>().write(shape.head(self.access(), Stamp::through(cache).now()));
            if shape.is_wide() {
                base.add(HEADER).cast::<u64>().write(shape.key_len as u64);
            }
            if let Some(at) = expiry {
                new.base().add(new.expiry_at()).cast::<i64>().write(at);
            }
            let fixed = shape.kind.fixed();
            let len = fixed + shape.key_len + shape.inline_len;
            ptr::copy_nonoverlapping(
                self.base().add(self.key_at() - fixed),
                new.base().add(new.key_at() - fixed),
                len,
            );
        }
        new
    }

    /// This value and expiry at another key, in a new block. The old block is then released with
    /// [`Entry::release_block`].
    pub fn with_key(self, cache: &mut Cache, key: &[u8]) -> Self {
        let (kind, sub) = (self.kind(), self.meta() & SUB_MASK);
        let (expiry, access) = (self.expiry(), self.access());
        let (new, fixed) = Self::build(cache, key, kind, sub, self.inline(), expiry, access);
        // SAFETY: the fixed parts are of the same kind, and the old one is no longer used.
        unsafe {
            let from = self.base().add(self.key_at() - kind.fixed());
            ptr::copy_nonoverlapping(from, fixed, kind.fixed());
        }
        new
    }

    /// A copy of the value at another key; a blob is shared, everything else copied.
    pub fn duplicate(self, cache: &mut Cache, key: &[u8], expiry: Option<i64>) -> Self {
        let access = self.access();
        if let Some(large) = self.large() {
            let large = large.duplicate(cache);
            return Self::large_collection(cache, key, large, expiry, access);
        }
        if let Some(schema) = self.schema() {
            let (beyond, values) = (self.is_beyond(), self.inline());
            return Self::compact_hash(cache, key, schema, beyond, values, expiry, access);
        }
        let (kind, sub) = (self.kind(), self.meta() & SUB_MASK);
        match self.string() {
            Some(StrRef::Int(n)) => Self::with_fixed(cache, key, sub, n, expiry, access),
            Some(StrRef::Blob(blob)) => {
                Self::with_fixed(cache, key, sub, blob.clone(), expiry, access)
            }
            _ => Self::build(cache, key, kind, sub, self.inline(), expiry, access).0,
        }
    }

    /// This entry moved to a new block (to leave a sparse slab). The old block is then released
    /// with [`Entry::release_block`].
    pub fn relocate(self, cache: &mut Cache) -> Self {
        let size = self.size();
        let new = Entry(Block::new(cache.alloc(size)));
        // SAFETY: two distinct blocks of at least `size` bytes.
        unsafe { ptr::copy_nonoverlapping(self.base(), new.base(), size) };
        new
    }

    /// Frees the entry with its value.
    pub fn release(self, cache: &mut Cache) {
        match self.kind() {
            // SAFETY: a blob entry holds an initialised, aligned `Bytes`; it is dropped once, here.
            Kind::Blob => unsafe { ptr::drop_in_place(self.blob_ptr()) },
            Kind::Large => {
                if let Some(large) = self.take_large(cache) {
                    large.release(cache);
                }
                return;
            }
            Kind::Compact | Kind::CompactBeyond => self.release_schema(),
            _ => {}
        }
        self.release_block(cache);
    }

    /// Frees the entry except for its large collection, which is returned.
    pub fn take_large(self, cache: &mut Cache) -> Option<Box<Large>> {
        // SAFETY: the pointer came from a box and is dropped with the entry.
        let large =
            (self.kind() == Kind::Large).then(|| unsafe { Box::from_raw(self.large_ptr()) });
        self.release_block(cache);
        large
    }

    /// Frees the block of an entry after its value was moved to another block.
    pub fn release_block(self, cache: &mut Cache) {
        // SAFETY: the block came from this heap with this size, and its only pointer is dropped
        // here.
        unsafe { cache.free(self.0.get(), self.size()) };
    }

    pub fn kind(self) -> Kind {
        Kind::of(self.meta())
    }

    /// The string; none if the value is of another type.
    #[inline]
    pub fn string<'a>(self) -> Option<StrRef<'a>> {
        // SAFETY: each kind's value lies where `build` and `new` wrote it.
        unsafe {
            match self.kind() {
                Kind::Str => Some(StrRef::Bytes(self.inline())),
                Kind::Int => Some(StrRef::Int(*self.int_ptr())),
                Kind::Blob => Some(StrRef::Blob(&*self.blob_ptr())),
                _ => None,
            }
        }
    }

    /// The packed items of a small collection.
    #[inline]
    pub fn packed<'a>(self) -> Option<&'a [u8]> {
        matches!(self.kind(), Kind::Packed | Kind::PackedBeyond).then(|| self.inline())
    }

    /// Packed items, to be changed without a change of their length.
    pub fn packed_mut<'a>(self) -> Option<&'a mut [u8]> {
        self.packed().map(|_| self.inline_bytes_mut())
    }

    /// The large collection.
    #[inline]
    pub fn large<'a>(self) -> Option<&'a Large> {
        // SAFETY: a large entry holds a pointer to a live box, which the caller's lock guards.
        (self.kind() == Kind::Large).then(|| unsafe { &*self.large_ptr() })
    }

    /// The large collection, to be changed in place; the caller keeps one reference at a time.
    #[inline]
    pub fn large_mut<'a>(self) -> Option<&'a mut Large> {
        // SAFETY: as above; the caller holds the stripe, so no other thread reads it.
        (self.kind() == Kind::Large).then(|| unsafe { &mut *self.large_ptr() })
    }

    /// Form of a collection; meaningless for a string.
    #[inline]
    pub fn form(self) -> Form {
        let bits = self.meta() >> SUB_SHIFT;
        match self.kind() {
            Kind::Large => Form::from_large_bits(bits),
            _ => Form::from_packed_bits(bits),
        }
    }

    /// The type of the value.
    #[inline]
    pub fn type_of(self) -> Type {
        if self.kind().is_string() {
            return Type::String;
        }
        match self.form() {
            Form::List => Type::List,
            Form::Set | Form::Intset => Type::Set,
            Form::SortedSet => Type::SortedSet,
            Form::Hash | Form::ExpiringHash => Type::Hash,
            Form::Stream => Type::Stream,
            Form::Json => Type::JSON,
            Form::Custom => Type::Custom(self.custom_number()),
        }
    }

    /// The number of the value type, of a value that has one.
    #[inline(never)]
    fn custom_number(self) -> TypeNumber {
        match (self.large(), self.packed()) {
            (Some(Large::Custom(custom)), _) => custom.number(),
            (_, Some(&[number, ..])) => TypeNumber(number),
            _ => TypeNumber(0),
        }
    }

    /// The value, of a value type.
    #[inline]
    pub fn held<'a>(self) -> Option<Held<'a>> {
        match self.large() {
            Some(Large::Custom(custom)) => return Some(custom.held()),
            Some(_) => return None,
            None => {}
        }
        let packed = self.packed()?;
        match self.form() {
            Form::Json => Some(Held::Packed(packed)),
            Form::Custom => packed.get(1..).map(Held::Packed),
            _ => None,
        }
    }

    /// The form of a collection's packed items; none of other values.
    #[inline]
    pub fn packed_form(self) -> Option<Form> {
        self.packed().map(|_| self.form())
    }

    /// Whether a small collection has passed the thresholds of `OBJECT ENCODING`.
    pub fn is_beyond(self) -> bool {
        matches!(self.kind(), Kind::PackedBeyond | Kind::CompactBeyond)
    }

    /// Replaces `remove` bytes of a small collection's items, from `at` on, with `insert`. If the
    /// block does not fit, the entry moves to another: the old block is then released with
    /// [`Entry::release_block`].
    pub fn splice<const N: usize>(
        self,
        cache: &mut Cache,
        at: usize,
        remove: usize,
        insert: [&[u8]; N],
    ) -> Self {
        debug_assert!(self.packed().is_some() || self.is_compact());
        debug_assert!(at + remove <= self.inline_len());
        let (old_len, head) = (self.inline_len(), self.key_at() + self.key_len() + at);
        let inserted: usize = insert.iter().map(|part| part.len()).sum();
        let (size, len) = (head - at + old_len, old_len - remove + inserted);
        let new_size = size - remove + inserted;
        debug_assert!(len <= PACKED_MAX);
        let tail = old_len - at - remove;
        let in_place = are_alike(new_size, size);
        let new = if in_place { self } else { Entry(Block::new(cache.alloc(new_size))) };
        // SAFETY: both blocks hold what their sizes say, `inserted` bytes more and `remove` fewer
        // in the new one; the tail may overlap itself only where the block is the same, and
        // `copy` allows for that.
        unsafe {
            let (from, to) = (self.base(), new.base());
            ptr::copy(from.add(head + remove), to.add(head + inserted), tail);
            let mut end = head;
            for part in insert {
                ptr::copy_nonoverlapping(part.as_ptr(), to.add(end), part.len());
                end += part.len();
            }
            if !in_place {
                ptr::copy_nonoverlapping(from, to, head);
            }
            new.write_inline_len(len);
        }
        new
    }

    /// Marks a small collection as beyond the thresholds of `OBJECT ENCODING`, or sets its form.
    pub fn set_packed_form(self, form: Form, beyond: bool) {
        debug_assert!(self.packed().is_some());
        let kind = if beyond { Kind::PackedBeyond } else { Kind::Packed };
        let meta =
            self.meta() & !(KIND_MASK | SUB_MASK) | kind as u8 | form.packed_bits() << SUB_SHIFT;
        // Both kinds have the same layout.
        self.set_meta(meta);
    }

    /// Sets another form of the same type for a large collection.
    pub fn set_large_form(self, form: Form) {
        debug_assert!(self.kind() == Kind::Large && form != Form::Custom);
        let meta = self.meta() & !SUB_MASK | form.large_bits() << SUB_SHIFT;
        self.set_meta(meta);
    }

    /// Replaces the number of a [`Kind::Int`] entry.
    pub fn set_int(self, n: i64) {
        debug_assert_eq!(self.kind(), Kind::Int);
        // SAFETY: an integer entry holds an aligned i64 before its key.
        unsafe { self.int_ptr().write(n) };
    }

    /// The blob, to be changed in place.
    pub fn blob_mut<'a>(self) -> Option<&'a mut Bytes> {
        // SAFETY: as in `value`; the caller holds the stripe, so no other thread reads it.
        (self.kind() == Kind::Blob).then(|| unsafe { &mut *self.blob_ptr() })
    }

    /// The inline bytes, to be changed in place; marks the string as `raw`.
    pub fn inline_mut<'a>(self) -> Option<&'a mut [u8]> {
        if self.kind() != Kind::Str {
            return None;
        }
        self.set_meta(self.meta() | RAW);
        Some(self.inline_bytes_mut())
    }

    /// The bytes after the key, to be changed in place; the caller keeps one reference at a time.
    fn inline_bytes_mut<'a>(self) -> &'a mut [u8] {
        // SAFETY: they are the block's own, initialised, and the caller holds the stripe, so no
        // other thread reads them.
        unsafe { std::slice::from_raw_parts_mut(self.inline_at(), self.inline_len()) }
    }

    /// Address of the bytes after the key.
    #[inline]
    fn inline_at(self) -> *mut u8 {
        self.base().wrapping_add(self.key_at() + self.key_len())
    }

    /// The bytes after the key.
    #[inline]
    fn inline<'a>(self) -> &'a [u8] {
        // SAFETY: they lie behind the key, initialised; see the type's invariant for the lifetime.
        unsafe { std::slice::from_raw_parts(self.inline_at(), self.inline_len()) }
    }

    /// Grows or shrinks the inline value within the block; false if it does not fit. New bytes are
    /// zero.
    pub fn resize_inline(self, len: usize) -> bool {
        let shape = Shape {
            kind: Kind::Str,
            sub: self.meta() & SUB_MASK,
            key_len: self.key_len(),
            inline_len: len,
            expiry: self.has_expiry(),
        };
        if self.kind() != Kind::Str
            || len >= BLOB_MIN
            || usable(shape.size()) != usable(self.size())
        {
            return false;
        }
        let old = self.inline_len();
        // SAFETY: the block is `usable(size)` bytes long and the new size maps to the same figure.
        unsafe {
            self.write_inline_len(len);
            if len > old {
                let at = self.base().add(self.key_at() + self.key_len() + old);
                ptr::write_bytes(at, 0, len - old);
            }
        }
        true
    }

    /// Whether the key has an expiry.
    #[inline]
    pub fn has_expiry(self) -> bool {
        self.meta() & EXPIRY != 0
    }

    /// Whether elements of the collection have an expiry of their own.
    #[inline]
    pub fn elements_expire(self) -> bool {
        self.meta() & SUB_MASK == (Form::ExpiringHash as u8) << SUB_SHIFT
            && (self.kind() == Kind::Large || self.earliest_field_expiry() != i64::MAX)
    }

    /// Expiry as Unix time in milliseconds.
    pub fn expiry(self) -> Option<i64> {
        self.expiry_field().map(Cell::get)
    }

    #[inline]
    fn expiry_field<'a>(self) -> Option<&'a Cell<i64>> {
        let at = self.base().wrapping_add(self.expiry_at()).cast::<Cell<i64>>();
        // SAFETY: the field exists when the flag is set, aligned to 8 bytes.
        self.has_expiry().then(|| unsafe { &*at })
    }

    /// The 24-bit access field, interpreted by the eviction policy.
    pub fn access(self) -> u32 {
        self.head().word.get() >> 8
    }

    pub fn set_access(self, access: u32) {
        self.head().word.set(u32::from(self.meta()) | access << 8);
    }

    /// `OBJECT ENCODING` of the value.
    pub fn encoding(self) -> &'static str {
        match self.kind() {
            Kind::Int => "int",
            Kind::Str if self.meta() & RAW == 0 && self.inline_len() <= EMBSTR_MAX => "embstr",
            Kind::Str | Kind::Blob => "raw",
            Kind::Packed | Kind::PackedBeyond => self.form().encoding(self.is_beyond()),
            Kind::Large => self.large().map_or("", Large::encoding),
            Kind::Compact => "template-listpack",
            Kind::CompactBeyond => "template-array",
        }
    }

    /// Bytes of the entry: its block, rounded as the heap rounds, and its blob.
    #[inline]
    pub fn footprint(self) -> usize {
        let block = usable(self.size());
        if self.is_one_block() { block } else { block + self.footprint_behind() }
    }

    #[inline(never)]
    fn footprint_behind(self) -> usize {
        match self.string() {
            Some(StrRef::Blob(blob)) => blob_bytes(blob.len()),
            _ => self.large().map_or(0, Large::footprint),
        }
    }

    /// Whether the whole value is in the entry's block.
    #[inline]
    pub fn is_one_block(self) -> bool {
        matches!(self.kind(), Kind::Str | Kind::Int | Kind::Packed | Kind::PackedBeyond)
    }

    #[inline]
    fn size(self) -> usize {
        self.key_at() + self.key_len() + self.inline_len()
    }

    fn base(self) -> *mut u8 {
        self.0.as_ptr()
    }

    #[inline]
    fn head<'a>(self) -> &'a Head {
        // SAFETY: every block begins with an aligned and initialised head, which is never borrowed
        // mutably; see the type's invariant for the lifetime.
        unsafe { self.0.get().cast().as_ref() }
    }

    #[inline]
    fn meta(self) -> u8 {
        self.head().word.get() as u8
    }

    fn set_meta(self, meta: u8) {
        self.head().word.set(self.access() << 8 | u32::from(meta));
    }

    fn key_at(self) -> usize {
        usize::from(KEY_AT[usize::from(self.meta() & !SUB_MASK)])
    }

    fn expiry_at(self) -> usize {
        if self.meta() & WIDE != 0 { HEADER + 8 } else { HEADER }
    }

    fn key_len(self) -> usize {
        if self.meta() & WIDE != 0 {
            // SAFETY: a wide entry has its length in the next word.
            unsafe { self.base().add(HEADER).cast::<u64>().read() as usize }
        } else {
            usize::from(self.head().key_len.get())
        }
    }

    fn inline_len(self) -> usize {
        usize::from(self.head().val_len.get() & !STAMP)
    }

    /// Sets the length of the inline value; the stamp stays.
    fn write_inline_len(self, len: usize) {
        self.head().val_len.set(len as u16 | self.stamp());
    }

    /// The stamp, which tells whether a snapshot has taken the entry.
    #[inline]
    pub fn stamp(self) -> u16 {
        self.head().val_len.get() & STAMP
    }

    /// Sets the entry's stamp.
    pub fn set_stamp(self, stamp: u16) {
        self.head().val_len.set(self.inline_len() as u16 | stamp);
    }

    /// Address of the fixed part of a kind, which ends at the key.
    #[inline]
    fn fixed_at(self, kind: Kind) -> *mut u8 {
        self.base().wrapping_add(self.key_at() - kind.fixed())
    }

    fn int_ptr(self) -> *mut i64 {
        self.fixed_at(Kind::Int).cast()
    }

    fn blob_ptr(self) -> *mut Bytes {
        self.fixed_at(Kind::Blob).cast()
    }

    fn large_ptr(self) -> *mut Large {
        // SAFETY: the fixed part of a large entry is one aligned, initialised pointer.
        unsafe { self.fixed_at(Kind::Large).cast::<*mut Large>().read() }
    }
}

impl Item for Entry {
    type Line = Bucket;

    #[inline]
    unsafe fn from_slot(block: Block, _: bool) -> Self {
        Entry(block)
    }

    #[inline]
    fn address(self) -> usize {
        self.0.address()
    }

    #[inline]
    fn key<'a>(self) -> &'a [u8] {
        // SAFETY: the key lies at `key_at`, initialised, `key_len` long; see the type's invariant
        // for the lifetime.
        unsafe { std::slice::from_raw_parts(self.base().add(self.key_at()), self.key_len()) }
    }

    #[inline]
    fn flag(self) -> bool {
        self.has_expiry() || self.elements_expire()
    }
}
