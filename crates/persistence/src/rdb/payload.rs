//! The frame of a `DUMP` payload: type byte before the value, version and checksum behind it.

use super::kind::{REDIS_VERSION_MAX, VALKEY_VERSIONS};
use super::{Error, Form, Slice};
use crc::{CRC_64_REDIS, Crc, Table};

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// Completes a payload: `out` holds, from `start` on, the type byte of `form` and the value.
pub fn seal(out: &mut Vec<u8>, start: usize, form: Form) {
    out.extend_from_slice(&form.version().to_le_bytes());
    let sum = CRC.checksum(&out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Checks version and checksum of a payload; answers the type byte and the value.
pub fn open(payload: &[u8]) -> Result<(u8, Slice<'_>), Error> {
    let (summed, sum) = payload.split_last_chunk().ok_or(Error::Frame)?;
    let (body, version) = summed.split_last_chunk().ok_or(Error::Frame)?;
    let version = u16::from_le_bytes(*version);
    if version > REDIS_VERSION_MAX && !VALKEY_VERSIONS.contains(&version) {
        return Err(Error::Frame);
    }
    if CRC.checksum(summed) != u64::from_le_bytes(*sum) {
        return Err(Error::Frame);
    }
    let (&type_byte, value) = body.split_first().ok_or(Error::Truncated)?;
    Ok((type_byte, Slice::new(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::Source;

    #[test]
    fn checksum_is_that_of_redis() {
        assert_eq!(CRC.checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn what_is_sealed_opens() {
        let mut out = b"before".to_vec();
        out.extend_from_slice(b"\x00\x03abc");
        seal(&mut out, 6, Form::String);
        let payload = &out[6..];
        let (type_byte, mut value) = open(payload).unwrap();
        assert_eq!((type_byte, value.take(4)), (0, Ok(&b"\x03abc"[..])));
        for i in 0..payload.len() {
            let mut bad = payload.to_vec();
            bad[i] ^= 0x10;
            assert_eq!(open(&bad).unwrap_err(), Error::Frame, "{i}");
            assert!(open(&payload[..i]).is_err(), "{i}");
        }
    }

    #[test]
    fn versions() {
        for (version, known) in
            [(1, true), (9, true), (14, true), (15, false), (79, false), (80, true), (81, false)]
        {
            let mut out = b"\x00\x03abc".to_vec();
            out.extend_from_slice(&u16::to_le_bytes(version));
            let sum = CRC.checksum(&out);
            out.extend_from_slice(&sum.to_le_bytes());
            assert_eq!(open(&out).is_ok(), known, "{version}");
        }
    }
}
