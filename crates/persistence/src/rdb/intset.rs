//! Intsets: integers of one width in ascending order.
//!
//! ```text
//! +-----------+-------------+----------+-- ... --+
//! | width u32 | members u32 | member   |         |
//! +-----------+-------------+----------+-- ... --+
//! ```

use super::Error;

const MALFORMED: Error = Error::Malformed("an intset is broken");

/// The members.
pub(super) fn members(bytes: &[u8]) -> Result<impl ExactSizeIterator<Item = i64>, Error> {
    let (&[w0, w1, w2, w3, n0, n1, n2, n3], members) =
        bytes.split_first_chunk().ok_or(MALFORMED)?;
    let width = u32::from_le_bytes([w0, w1, w2, w3]) as usize;
    let len = u32::from_le_bytes([n0, n1, n2, n3]) as usize;
    if !matches!(width, 2 | 4 | 8)
        || members.len() / width != len
        || !members.len().is_multiple_of(width)
    {
        return Err(MALFORMED);
    }
    let members = members.chunks_exact(width).map(signed);
    if members.clone().is_sorted_by(|a, b| a < b) { Ok(members) } else { Err(MALFORMED) }
}

/// A little-endian number of up to eight bytes, with a sign.
fn signed(bytes: &[u8]) -> i64 {
    let mut wide = [0; 8];
    let start = wide.len() - bytes.len();
    wide[start..].copy_from_slice(bytes);
    i64::from_le_bytes(wide) >> (8 * start)
}

#[cfg(test)]
mod tests {
    fn read(width: u32, len: u32, members: &[u8]) -> Option<Vec<i64>> {
        let bytes = [&width.to_le_bytes(), &len.to_le_bytes(), members].concat();
        Some(super::members(&bytes).ok()?.collect())
    }

    #[test]
    fn each_width() {
        assert_eq!(read(2, 2, &[0xff, 0xff, 5, 0]), Some(vec![-1, 5]));
        assert_eq!(read(4, 1, &[0, 0, 0, 0x80]), Some(vec![i32::MIN.into()]));
        assert_eq!(read(8, 1, &i64::MIN.to_le_bytes()), Some(vec![i64::MIN]));
        assert_eq!(read(2, 0, &[]), Some(vec![]));
    }

    #[test]
    fn broken_ones_are_refused() {
        for (width, len, members) in [
            (3, 0, &[][..]),
            (0, 0, &[]),
            (2, 1, &[]),
            (2, 1, &[1, 0, 0]),
            (2, 2, &[1, 0, 1, 0]),
            (2, 2, &[2, 0, 1, 0]),
            (2, u32::MAX, &[1, 0]),
        ] {
            assert_eq!(read(width, len, members), None, "{width} {len} {members:?}");
        }
        assert!(super::members(&[2, 0, 0]).is_err());
    }
}
