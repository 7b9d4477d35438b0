//! Parsing and printing of numbers: doubles as Redis prints them, and the long double of
//! INCRBYFLOAT and HINCRBYFLOAT.

pub(crate) mod double;
pub(crate) mod extended;

use crate::fail::Fail;
use petrel_keyspace::parse_int;

/// Parses a 64-bit integer.
///
/// # Errors
/// If it is none.
#[inline]
pub fn integer(word: &[u8]) -> Result<i64, Fail> {
    parse_int(word).ok_or(Fail::NOT_AN_INTEGER)
}
