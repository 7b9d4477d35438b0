//! Reply of `FUNCTION DUMP`: function libraries in the frame of a payload.
//!
//! ```text
//! +------+--------+-- ... --+---------------+----------------+
//! | 0xf5 | source |         | version (u16) | CRC-64 of what |
//! |      |  text  |         |               | precedes       |
//! +------+--------+-- ... --+---------------+----------------+
//! ```

use super::file::opcode;
use super::kind::{REDIS_VERSION_MAX, VALKEY_VERSIONS};
use super::lzf::Compressor;
use super::payload::Leniency;
use super::sum::checksum;
use super::text::{read_text, write_bytes};
use super::{Error, Item, Slice, Source};

/// The version that functions came with, which every release that has them reads.
const VERSION: u16 = 10;

/// The libraries of these source texts.
pub fn dump_functions<'s>(sources: impl Iterator<Item = &'s [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut compressor = Compressor::default();
    for source in sources {
        out.push(opcode::FUNCTION);
        write_bytes(&mut out, source, Some(&mut compressor));
    }
    out.extend_from_slice(&VERSION.to_le_bytes());
    let sum = checksum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// The source texts in a payload.
///
/// # Errors
/// [`Error::Frame`] if version or checksum are wrong; others if something else than functions is in
/// it.
pub fn restore_functions(payload: &[u8], leniency: Leniency) -> Result<Vec<Vec<u8>>, Error> {
    let (summed, sum) = payload.split_last_chunk().ok_or(Error::Frame)?;
    let (body, version) = summed.split_last_chunk().ok_or(Error::Frame)?;
    let version = u16::from_le_bytes(*version);
    let known = version <= REDIS_VERSION_MAX || VALKEY_VERSIONS.contains(&version);
    let sum = u64::from_le_bytes(*sum);
    let is_whole = sum == 0 || leniency.any_sum || checksum(summed) == sum;
    if !is_whole || !known && !leniency.any_version {
        return Err(Error::Frame);
    }
    let mut source = Slice::new(body);
    let (mut texts, mut scratch) = (Vec::new(), Vec::new());
    while source.left() > 0 {
        if source.byte()? != opcode::FUNCTION {
            return Err(Error::Malformed("given type is not a function"));
        }
        match read_text(&mut source, &mut scratch)? {
            Item::Text(text) => texts.push(text.to_vec()),
            Item::Int(_) => return Err(Error::Malformed("given type is not a function")),
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dumped_is_restored() {
        let texts: [&[u8]; 2] =
            [b"#!lua name=a\nredis.register_function('f', function() end)", b"b"];
        let payload = dump_functions(texts.iter().copied());
        assert_eq!(restore_functions(&payload, Leniency::default()).unwrap(), texts);
        for i in 0..payload.len() {
            let mut bad = payload.clone();
            bad[i] ^= 0x10;
            assert!(restore_functions(&bad, Leniency::default()).is_err(), "{i}");
            assert!(restore_functions(&payload[..i], Leniency::default()).is_err(), "{i}");
        }
        let empty = dump_functions(std::iter::empty());
        assert_eq!(empty.len(), 10);
        assert_eq!(restore_functions(&empty, Leniency::default()).unwrap(), Vec::<Vec<u8>>::new());
    }
}
