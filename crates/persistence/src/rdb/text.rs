//! Strings: a length and the bytes, or one of four special forms.
//!
//! | form | then | string |
//! |---|---|---|
//! | 0, 1, 2 | 1, 2, 4 bytes | the decimal form of an integer |
//! | 3 | compressed length, length, the compressed bytes | see `lzf` |

use super::length::{Length, read_count, read_length, read_number, write_number};
use super::lzf::{self, Compressor};
use super::{Error, Item, Source};
use petrel_keyspace::parse_int;

const SPECIAL: u8 = 0xc0;
const INT_8: u8 = 0;
const INT_16: u8 = 1;
const INT_32: u8 = 2;
const COMPRESSED: u8 = 3;

/// Shorter strings are not worth compressing.
const COMPRESSED_MIN: usize = 21;
/// Bytes that compression must save at least.
const SAVED_MIN: usize = 4;

/// Bytes of a string at most.
const TEXT_LEN_MAX: usize = u32::MAX as usize - 1024;

/// Reads a string; `scratch` holds it if it was compressed.
#[inline]
pub fn read_text<'a, S: Source>(
    source: &'a mut S,
    scratch: &'a mut Vec<u8>,
) -> Result<Item<'a>, Error> {
    let form = match read_length(source)? {
        Length::Number(len) => {
            let len = checked_len(len)?;
            return Ok(Item::Text(source.take(len)?));
        }
        Length::Special(form) => form,
    };
    Ok(match form {
        INT_8 => Item::Int(i8::from_le_bytes(source.array()?).into()),
        INT_16 => Item::Int(i16::from_le_bytes(source.array()?).into()),
        INT_32 => Item::Int(i32::from_le_bytes(source.array()?).into()),
        COMPRESSED => {
            let compressed = read_count(source, 1)?;
            let len = checked_len(read_number(source)?)?;
            lzf::decompress(source.take(compressed)?, len, scratch)?;
            Item::Text(scratch)
        }
        _ => return Err(Error::Malformed("a string in no known form")),
    })
}

/// Elements of collections have lengths of 32 bits.
fn checked_len(len: u64) -> Result<usize, Error> {
    let len = usize::try_from(len).ok().filter(|&len| len <= TEXT_LEN_MAX);
    len.ok_or(Error::Malformed("a string of more than 4 GiB"))
}

/// Reads a string that is no text but a structure in bytes.
pub(super) fn read_blob<'a, S: Source>(
    source: &'a mut S,
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], Error> {
    match read_text(source, scratch)? {
        Item::Text(bytes) => Ok(bytes),
        Item::Int(_) => Err(Error::Malformed("an integer where a structure belongs")),
    }
}

/// A string that outlives the next one read.
#[derive(Debug, Default)]
pub(super) struct KeptText {
    text: Vec<u8>,
    int: Option<i64>,
}

impl KeptText {
    /// Reads a string and holds it.
    #[inline]
    pub(super) fn read<S: Source>(
        &mut self,
        source: &mut S,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.int = None;
        match read_text(source, scratch)? {
            Item::Int(n) => self.int = Some(n),
            Item::Text(text) => {
                self.text.clear();
                self.text.extend_from_slice(text);
            }
        }
        Ok(())
    }

    /// The string.
    #[inline]
    pub(super) fn item(&self) -> Item<'_> {
        self.int.map_or(Item::Text(&self.text), Item::Int)
    }
}

/// Writes a string, compressed if a compressor is given and it pays.
#[inline]
pub(super) fn write_text(out: &mut Vec<u8>, item: Item<'_>, compressor: Option<&mut Compressor>) {
    match item {
        Item::Int(n @ -0x80..=0x7f) => out.extend_from_slice(&[SPECIAL | INT_8, n as u8]),
        Item::Int(n @ -0x8000..=0x7fff) => {
            out.push(SPECIAL | INT_16);
            out.extend_from_slice(&(n as i16).to_le_bytes());
        }
        Item::Int(n @ -0x8000_0000..=0x7fff_ffff) => {
            out.push(SPECIAL | INT_32);
            out.extend_from_slice(&(n as i32).to_le_bytes());
        }
        Item::Int(n) => write_plain(out, itoa::Buffer::new().format(n).as_bytes()),
        Item::Text(text) => match short_int(text) {
            Some(n) => write_text(out, Item::Int(n), None),
            None => write_bytes(out, text, compressor),
        },
    }
}

/// Parses a decimal integer of at most 32 bits.
fn short_int(text: &[u8]) -> Option<i64> {
    /// Digits of a number of 32 bits, and a sign.
    const LEN_MAX: usize = 11;
    if text.len() > LEN_MAX {
        return None;
    }
    parse_int(text).filter(|&n| i32::try_from(n).is_ok())
}

/// Writes bytes, compressed if a compressor is given and it pays.
pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8], compressor: Option<&mut Compressor>) {
    let compressed = match compressor {
        Some(compressor) if bytes.len() >= COMPRESSED_MIN => {
            compressor.compress_likely(bytes, bytes.len() - SAVED_MIN)
        }
        _ => None,
    };
    let Some(compressed) = compressed else { return write_plain(out, bytes) };
    out.push(SPECIAL | COMPRESSED);
    write_number(out, compressed.len() as u64);
    write_number(out, bytes.len() as u64);
    out.extend_from_slice(compressed);
}

fn write_plain(out: &mut Vec<u8>, bytes: &[u8]) {
    write_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::super::Slice;
    use super::*;

    fn written(item: Item<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        write_text(&mut out, item, Some(&mut Compressor::default()));
        assert_eq!(read_text(&mut Slice::new(&out), &mut Vec::new()), Ok(item));
        out
    }

    #[test]
    fn small_integers_are_binary() {
        for (n, size) in [
            (0, 2),
            (-128, 2),
            (127, 2),
            (128, 3),
            (-32768, 3),
            (32768, 5),
            (i64::from(i32::MIN), 5),
        ] {
            assert_eq!(written(Item::Int(n)).len(), size, "{n}");
        }
        let mut out = Vec::new();
        write_text(&mut out, Item::Text(b"-7"), None);
        assert_eq!(out, [0xc0, 0xf9]);
        out.clear();
        write_text(&mut out, Item::Int(i64::MIN), None);
        assert_eq!(out, b"\x14-9223372036854775808");
    }

    #[test]
    fn long_texts_are_compressed_where_it_pays() {
        assert_eq!(written(Item::Text(b"abc")), b"\x03abc");
        assert_eq!(written(Item::Text(&[b'a'; 20])).len(), 21);
        assert!(written(Item::Text(&[b'a'; 21])).len() < 15);
        let distinct: Vec<u8> = (0..=255).collect();
        assert_eq!(written(Item::Text(&distinct)).len(), 258);
    }

    #[test]
    fn claims_beyond_the_bytes_are_refused() {
        let mut scratch = Vec::new();
        for bytes in [
            &[0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1][..],
            &[0x05, 1],
            &[0xc3, 0x01, 0x81, 0, 0, 0xff, 0, 0, 0, 0, 0, 0],
            &[0xc3, 0x81, 0, 0, 0xff, 0, 0, 0, 0, 0, 1, 0],
            &[0xc2, 0, 0],
            &[0xc4],
            &[],
        ] {
            assert!(read_text(&mut Slice::new(bytes), &mut scratch).is_err(), "{bytes:?}");
        }
        assert!(scratch.capacity() < 1000);
        assert!(read_blob(&mut Slice::new(&[0xc0, 1]), &mut scratch).is_err());
    }
}
