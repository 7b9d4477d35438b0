//! Sources of serialised bytes.

use super::Error;
use std::collections::HashMap;
use std::sync::Arc;

/// Field names of compact hashes, by the numbers that a file gives them.
pub type Templates = HashMap<u64, Template>;

/// Field names, as many as values of a hash and in their order.
pub type Template = Arc<[Box<[u8]>]>;

/// Bytes that are read once, from front to back.
pub trait Source {
    /// The next `len` bytes. Nothing is allocated for bytes that never come.
    fn take(&mut self, len: usize) -> Result<&[u8], Error>;

    /// An upper bound of the bytes that are left.
    fn left(&self) -> usize;

    /// Called for each compressed text that is skipped, with the length that it claims.
    #[inline]
    fn note_compressed(&mut self, _len: u64) {}

    /// Field names to which a value refers by this number.
    fn template(&self, _number: u64) -> Option<Template> {
        None
    }

    /// The next byte.
    #[inline]
    fn byte(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    /// The next `N` bytes.
    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        self.take(N)?.try_into().map_err(|_| Error::Truncated)
    }
}

/// Bytes in memory.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    bytes: &'a [u8],
    templates: Option<&'a Templates>,
}

impl<'a> Slice<'a> {
    /// A source of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Slice { bytes, templates: None }
    }

    /// A source of these bytes of a file with these field names.
    pub fn with_templates(bytes: &'a [u8], templates: &'a Templates) -> Self {
        Slice { bytes, templates: Some(templates) }
    }

    /// The next `len` bytes, for as long as the memory lives.
    #[inline]
    pub(super) fn cut(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(Error::Truncated)?;
        self.bytes = rest;
        Ok(taken)
    }
}

impl Source for Slice<'_> {
    #[inline]
    fn take(&mut self, len: usize) -> Result<&[u8], Error> {
        self.cut(len)
    }

    #[inline]
    fn left(&self) -> usize {
        self.bytes.len()
    }

    fn template(&self, number: u64) -> Option<Template> {
        self.templates?.get(&number).cloned()
    }
}
