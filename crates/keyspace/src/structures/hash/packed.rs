//! Small hashes: fields, each followed by its value, and by its expiry if fields of the hash may
//! expire.

use crate::structures::form::Form;
use crate::structures::packed::{self, Item, Parts, packed_len, unpack};

/// Bytes of the earliest expiry, which precede the fields of a hash in the form with expiries.
pub(crate) const EARLIEST_LEN: usize = 8;

/// A field with its offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<'a> {
    /// Offset of the field's name.
    pub at: usize,
    /// Offset of its value.
    pub value_at: usize,
    /// Offset of the next field.
    pub end: usize,
    pub name: Item<'a>,
    pub value: Item<'a>,
    pub expiry: Option<i64>,
}

impl Located<'_> {
    #[inline]
    pub fn is_alive(&self, now_ms: i64) -> bool {
        self.expiry.is_none_or(|at| at > now_ms)
    }
}

/// The fields of a small hash, walked forwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    items: &'a [u8],
    at: usize,
    expiring: bool,
}

impl<'a> Fields<'a> {
    /// The fields in the items of either form of a small hash.
    #[inline]
    pub fn new(form: Form, items: &'a [u8]) -> Self {
        let expiring = form == Form::ExpiringHash;
        Fields { items, at: if expiring { EARLIEST_LEN } else { 0 }, expiring }
    }

    /// Lower bound of the fields' expiries.
    #[inline]
    pub fn earliest(&self) -> i64 {
        match self.items.first_chunk() {
            Some(bytes) if self.expiring => i64::from_le_bytes(*bytes),
            _ => i64::MAX,
        }
    }

    /// Finds a field; if absent, returns the number of fields.
    #[inline]
    pub fn named(&self, name: &Parts<'_>) -> Result<Located<'a>, usize> {
        let at = packed::find(&self.items[self.at..], name, self.stride())?;
        Ok(self.locate(self.at + at))
    }

    /// Items of a field.
    #[inline]
    fn stride(&self) -> usize {
        if self.expiring { 3 } else { 2 }
    }

    /// The field with its name at offset `at`.
    #[inline]
    fn locate(&self, at: usize) -> Located<'a> {
        let value_at = at + packed_len(&self.items[at..]);
        let (name, _) = unpack(&self.items[at..]);
        let (value, mut rest) = unpack(&self.items[value_at..]);
        let mut expiry = None;
        if self.expiring {
            let (item, behind) = unpack(rest);
            rest = behind;
            expiry = if let Item::Int(at) = item
                && at != 0
            {
                Some(at)
            } else {
                None
            };
        }
        Located { at, value_at, end: self.items.len() - rest.len(), name, value, expiry }
    }

    /// True if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.at >= self.items.len()
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Located<'a>;

    #[inline]
    fn next(&mut self) -> Option<Located<'a>> {
        if self.is_empty() {
            return None;
        }
        let located = self.locate(self.at);
        self.at = located.end;
        Some(located)
    }

    /// Skips `n` fields without reading them, and returns the next.
    #[inline]
    fn nth(&mut self, n: usize) -> Option<Located<'a>> {
        self.at += packed::skip(&self.items[self.at..], n * self.stride());
        self.next()
    }

    #[inline]
    fn count(self) -> usize {
        packed::count(&self.items[self.at..]) / self.stride()
    }
}

/// Appends a field's value, and its expiry in the form with expiries.
#[inline]
pub(crate) fn pack_value(out: &mut Vec<u8>, form: Form, value: &[u8], expiry: Option<i64>) {
    Item::from_text(value).pack(out);
    if form == Form::ExpiringHash {
        Item::Int(expiry.unwrap_or(0)).pack(out);
    }
}

/// Converts the items of a small hash to the form with expiries.
pub(crate) fn with_expiries(items: &[u8]) -> Vec<u8> {
    let fields = Fields::new(Form::Hash, items);
    let mut triples = Vec::with_capacity(EARLIEST_LEN + items.len() + items.len() / 2);
    triples.extend_from_slice(&i64::MAX.to_le_bytes());
    for field in fields {
        triples.extend_from_slice(&items[field.at..field.end]);
        Item::Int(0).pack(&mut triples);
    }
    triples
}
