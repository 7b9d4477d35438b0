//! Options of commands as values: for each syntax line with tokens an enum, made by the build
//! script, with a variant per token. Lines with the same `options:` share one, whose variants hold
//! the operands that the token has in all of them.
//!
//! `SET key value [NX | XX ...] [GET] [EX seconds ...]` becomes
//! `SET key value [NX | XX ...] [GET] [EX seconds ...]` becomes `enum SetOption<'a> { Nx, Xx, Get,
//! Ex(&'a [u8]) }`. A variant holds the operands that always follow its token: `LIMIT offset count`
//! is `Limit(offset, count)`. Where a list follows, the variant holds the operands before the list
//! (`FIELDS numfields field...` is `Fields(numfields)`), and the list is [taken](Reader::words)
//! from the reader. Positions (`<LEFT | RIGHT>` that must be given) and signs (`=`, `*`) have no
//! variants.
//!
//! Operands are not parsed, so that a handler decides whether a bad number is reported before
//! or after bad syntax.

use std::marker::PhantomData;

include!(concat!(env!("OUT_DIR"), "/options.rs"));

/// A word that is read as no option.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unread<'a> {
    /// The command has no such option.
    Unknown(&'a [u8]),
    /// Operands are missing behind it.
    Incomplete(&'a [u8]),
}

impl<'a> Unread<'a> {
    /// The word.
    pub const fn word(self) -> &'a [u8] {
        match self {
            Self::Unknown(word) | Self::Incomplete(word) => word,
        }
    }
}

/// The options of a command.
pub trait Options<'a>: Copy {
    /// The option that `first` begins, and how many of the words `behind` it are its operands.
    ///
    /// # Errors
    /// If it begins none, or operands are missing.
    fn read(first: &'a [u8], behind: &'a [&'a [u8]]) -> Result<(Self, usize), Unread<'a>>;
}

/// Reads options from the words of a call. An iterator over all of them; a word that is none is an
/// error, and passed over.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a, O> {
    left: &'a [&'a [u8]],
    options: PhantomData<O>,
}

impl<'a, O: Options<'a>> Reader<'a, O> {
    /// Reads from `words` on.
    pub const fn new(words: &'a [&'a [u8]]) -> Self {
        Self { left: words, options: PhantomData }
    }

    /// The next option where a word may be something else: none, and nothing taken, if it is, or if
    /// operands are missing.
    #[inline(always)]
    pub fn leading(&mut self) -> Option<O> {
        let (first, behind) = self.left.split_first()?;
        let (option, operands) = O::read(first, behind).ok()?;
        self.left = behind.get(operands..).unwrap_or_default();
        Some(option)
    }

    /// The next option with its first word.
    pub fn spelled(&mut self) -> Option<(&'a [u8], Result<O, Unread<'a>>)> {
        let word = *self.left.first()?;
        Some((word, self.next()?))
    }

    /// The words that are not read yet.
    pub const fn rest(&self) -> &'a [&'a [u8]] {
        self.left
    }

    /// The next word, whatever it is.
    pub fn word(&mut self) -> Option<&'a [u8]> {
        let (word, left) = self.left.split_first()?;
        self.left = left;
        Some(word)
    }

    /// Number of unread words.
    pub const fn left(&self) -> usize {
        self.left.len()
    }

    /// The next `count` words, such as a list behind a token: none, and nothing taken, if there are
    /// not as many.
    pub fn words(&mut self, count: usize) -> Option<&'a [&'a [u8]]> {
        let (words, left) = self.left.split_at_checked(count)?;
        self.left = left;
        Some(words)
    }
}

impl<'a, O: Options<'a>> Iterator for Reader<'a, O> {
    type Item = Result<O, Unread<'a>>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let (first, behind) = self.left.split_first()?;
        let read = O::read(first, behind);
        let operands = read.map_or(0, |(_, operands)| operands);
        self.left = behind.get(operands..).unwrap_or_default();
        Some(read.map(|(option, _)| option))
    }
}

/// Words of up to 8 bytes are compared as one number, in upper case; longer ones as two.
const SHORT: usize = 8;

/// A word of `L` bytes, at most [`SHORT`], in upper case as a number; the caller knows its length.
#[inline(always)]
fn short<const L: usize>(word: &[u8]) -> u64 {
    let mut bytes = [0; SHORT];
    if let Some(word) = word.first_chunk::<L>() {
        bytes[..L].copy_from_slice(word);
    }
    upper(u64::from_le_bytes(bytes))
}

/// A word of `L` bytes, more than [`SHORT`] and at most twice as many, in upper case as a number.
#[inline(always)]
fn long<const L: usize>(word: &[u8]) -> u128 {
    let (first, rest) = word.split_at(SHORT.min(word.len()));
    let mut bytes = [0; SHORT];
    if let Some(rest) = rest.get(..L - SHORT) {
        bytes[..L - SHORT].copy_from_slice(rest);
    }
    u128::from(short::<SHORT>(first)) | u128::from(upper(u64::from_le_bytes(bytes))) << 64
}

/// Eight bytes in upper case, all at once: the letters among them lose the bit that makes them
/// small.
#[inline(always)]
pub(crate) const fn upper(bytes: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    let low = bytes & (0x7f * ONES);
    let from_a = low + (0x80 - b'a' as u64) * ONES;
    let past_z = low + (0x7f - b'z' as u64) * ONES;
    let letters = from_a & !past_z & !bytes & (0x80 * ONES);
    bytes - (letters >> 2)
}

/// The first option of some words as text, and how many are left; or why there is none.
#[cfg(test)]
pub(crate) type Shown = for<'a> fn(&'a [&'a [u8]]) -> Result<(String, usize), Unread<'a>>;

#[cfg(test)]
fn shown<'a, O: Options<'a> + std::fmt::Debug>(
    mut reader: Reader<'a, O>,
) -> Result<(String, usize), Unread<'a>> {
    let option = reader.next().ok_or(Unread::Unknown(b""))??;
    Ok((format!("{option:?}"), reader.left()))
}
