//! The frame of a `DUMP` payload: type byte before the value, version and checksum behind it.

use super::kind::{REDIS_VERSION_MAX, VALKEY_VERSIONS, type_byte_in};
use super::sum::checksum;
use super::{Error, Form, Slice, Source, skip_value};

/// Completes a payload: `out` holds, from `start` on, the type byte of `form` and the value.
pub fn seal(out: &mut Vec<u8>, start: usize, form: Form) {
    out.extend_from_slice(&form.version().to_le_bytes());
    let sum = checksum(&out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Checks of a payload's frame to leave out.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Leniency {
    /// Accept any version; the value must still have a known form.
    pub any_version: bool,
    /// Any checksum may be.
    pub any_sum: bool,
    /// Counts that follow from the value may be wrong. Files are always read so.
    pub any_count: bool,
}

/// Checks version and checksum of a payload; answers the type byte and the value. A checksum of 0
/// says that there is none.
pub fn open(payload: &[u8], leniency: Leniency) -> Result<(u8, Slice<'_>), Error> {
    let (summed, sum) = payload.split_last_chunk().ok_or(Error::Frame)?;
    let (body, version) = summed.split_last_chunk().ok_or(Error::Frame)?;
    let version = u16::from_le_bytes(*version);
    let known = version <= REDIS_VERSION_MAX || VALKEY_VERSIONS.contains(&version);
    if !known && !leniency.any_version {
        return Err(Error::Frame);
    }
    let sum = u64::from_le_bytes(*sum);
    if sum != 0 && !leniency.any_sum && checksum(summed) != sum {
        return Err(Error::Frame);
    }
    let (&type_byte, value) = body.split_first().ok_or(Error::Truncated)?;
    Ok((type_byte_in(version, type_byte), Slice::new(value)))
}

/// Sums up the lengths that the compressed texts of a payload claim. Broken payloads are summed as
/// far as they go.
pub fn compressed_len(payload: &[u8]) -> u64 {
    let any = Leniency { any_version: true, any_sum: true, any_count: true };
    let Ok((type_byte, value)) = open(payload, any) else { return 0 };
    let mut source = CompressedTexts { value, len: 0 };
    // A broken payload is refused when it is read.
    let _ = skip_value(&mut source, type_byte);
    source.len
}

/// Sums up the lengths of compressed texts.
struct CompressedTexts<'a> {
    value: Slice<'a>,
    len: u64,
}

impl Source for CompressedTexts<'_> {
    fn take(&mut self, len: usize) -> Result<&[u8], Error> {
        self.value.take(len)
    }

    fn left(&self) -> usize {
        self.value.left()
    }

    fn note_compressed(&mut self, len: u64) {
        self.len = self.len.saturating_add(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::Source;

    const STRICT: Leniency = Leniency { any_version: false, any_sum: false, any_count: false };

    #[test]
    fn what_is_sealed_opens() {
        let mut out = b"before".to_vec();
        out.extend_from_slice(b"\x00\x03abc");
        seal(&mut out, 6, Form::String);
        let payload = &out[6..];
        let (type_byte, mut value) = open(payload, STRICT).unwrap();
        assert_eq!((type_byte, value.take(4)), (0, Ok(&b"\x03abc"[..])));
        for i in 0..payload.len() {
            let mut bad = payload.to_vec();
            bad[i] ^= 0x10;
            assert_eq!(open(&bad, STRICT).unwrap_err(), Error::Frame, "{i}");
            assert!(open(&payload[..i], STRICT).is_err(), "{i}");
        }
    }

    #[test]
    fn versions() {
        for (version, known) in
            [(1, true), (9, true), (15, true), (16, false), (79, false), (80, true), (81, false)]
        {
            let mut out = b"\x00\x03abc".to_vec();
            out.extend_from_slice(&u16::to_le_bytes(version));
            let sum = checksum(&out);
            out.extend_from_slice(&sum.to_le_bytes());
            assert_eq!(open(&out, STRICT).is_ok(), known, "{version}");
            let lenient = Leniency { any_version: true, ..STRICT };
            assert!(open(&out, lenient).is_ok(), "{version}");
        }
    }
    #[test]
    fn sums() {
        let payload = |sum: u64| [&b"\x00\x03abc\x09\x00"[..], &sum.to_le_bytes()].concat();
        assert!(open(&payload(0), STRICT).is_ok());
        assert!(open(&payload(1), STRICT).is_err());
        assert!(open(&payload(1), Leniency { any_sum: true, ..STRICT }).is_ok());
    }
}
