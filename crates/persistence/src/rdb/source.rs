//! Sources of serialised bytes.

use super::Error;

/// Bytes that are read once, from front to back.
pub trait Source {
    /// The next `len` bytes. Nothing is allocated for bytes that never come.
    fn take(&mut self, len: usize) -> Result<&[u8], Error>;

    /// An upper bound of the bytes that are left.
    fn left(&self) -> usize;

    /// Called for each compressed text that is skipped, with the length that it claims.
    #[inline]
    fn note_compressed(&mut self, _len: u64) {}

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
pub struct Slice<'a>(&'a [u8]);

impl<'a> Slice<'a> {
    /// A source of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Slice(bytes)
    }

    /// The next `len` bytes, for as long as the memory lives.
    #[inline]
    pub(super) fn cut(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Error::Truncated)?;
        self.0 = rest;
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
        self.0.len()
    }
}
