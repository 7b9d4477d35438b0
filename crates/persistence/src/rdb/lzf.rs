//! LZF: the compression of long strings.
//!
//! ```text
//! 000nnnnn               n + 1 bytes follow as they are
//! lllooooo oooooooo      copy l + 2 bytes from o + 1 bytes back, l = 1 ..= 6
//! 111ooooo llllllll oooooooo   copy l + 9 bytes from o + 1 bytes back
//! ```
//!
//! A copy may reach into what it writes itself.

use super::Error;

/// Bytes that one byte of compressed data stands for at most: three stand for 264.
const EXPANSION_MAX: usize = 88;

const LITERALS_MAX: usize = 32;
const DISTANCE_MAX: usize = 1 << 13;
const MATCH_MIN: usize = 3;
const MATCH_MAX: usize = 264;
/// Copies shorter than this fit two bytes.
const LONG_MATCH: usize = 9;

/// Replaces `out` by what `input` stands for, which must be `len` bytes.
pub(super) fn decompress(input: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), Error> {
    const MALFORMED: Error = Error::Malformed("compressed data is broken");
    if len / EXPANSION_MAX > input.len() {
        return Err(MALFORMED);
    }
    out.clear();
    out.reserve(len);
    let mut at = 0;
    while let Some(&control) = input.get(at) {
        at += 1;
        if usize::from(control) < LITERALS_MAX {
            let count = usize::from(control) + 1;
            out.extend_from_slice(input.get(at..at + count).ok_or(MALFORMED)?);
            at += count;
        } else {
            let mut count = usize::from(control >> 5);
            if count == 7 {
                count += usize::from(*input.get(at).ok_or(MALFORMED)?);
                at += 1;
            }
            let low = *input.get(at).ok_or(MALFORMED)?;
            at += 1;
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
            copy_back(out, distance, count + 2).ok_or(MALFORMED)?;
        }
        if out.len() > len {
            return Err(MALFORMED);
        }
    }
    if out.len() == len { Ok(()) } else { Err(MALFORMED) }
}

/// Appends `count` bytes from `distance` back; none if there are not so many.
fn copy_back(out: &mut Vec<u8>, distance: usize, count: usize) -> Option<()> {
    let from = out.len().checked_sub(distance)?;
    let mut left = count;
    while left > 0 {
        let step = left.min(out.len() - from);
        out.extend_from_within(from..from + step);
        left -= step;
    }
    Some(())
}

/// Compresses, with memory of its own that is kept between calls.
#[derive(Debug, Default)]
pub(super) struct Compressor {
    /// Where three bytes were last seen, by their hash: the position plus one.
    seen: Vec<u32>,
    out: Vec<u8>,
}

impl Compressor {
    /// What stands for `input`, if it is at most `max` bytes.
    pub(super) fn compress(&mut self, input: &[u8], max: usize) -> Option<&[u8]> {
        // Positions are held in 32 bits.
        if input.len() <= MATCH_MIN || u32::try_from(input.len()).is_err() {
            return None;
        }
        let bits = input.len().ilog2().clamp(6, 14);
        self.seen.clear();
        self.seen.resize(1 << bits, 0);
        self.out.clear();
        let (mut at, mut literals) = (0, 0);
        while at + MATCH_MIN <= input.len() {
            let here = [input[at], input[at + 1], input[at + 2], 0];
            let hash = u32::from_le_bytes(here).wrapping_mul(0x9e37_79b1) >> (32 - bits);
            let before = std::mem::replace(&mut self.seen[hash as usize], at as u32 + 1) as usize;
            let len = match before.checked_sub(1) {
                Some(from) if at - from <= DISTANCE_MAX => matching(input, from, at),
                _ => 0,
            };
            if len < MATCH_MIN {
                at += 1;
                continue;
            }
            self.push_literals(&input[literals..at]);
            self.push_match(at - (before - 1), len);
            at += len;
            literals = at;
            if self.out.len() > max {
                return None;
            }
        }
        self.push_literals(&input[literals..]);
        (self.out.len() <= max).then_some(&self.out)
    }

    fn push_literals(&mut self, literals: &[u8]) {
        for run in literals.chunks(LITERALS_MAX) {
            self.out.push(run.len() as u8 - 1);
            self.out.extend_from_slice(run);
        }
    }

    fn push_match(&mut self, distance: usize, len: usize) {
        let offset = distance - 1;
        let high = (offset >> 8) as u8;
        if len < LONG_MATCH {
            self.out.push((len as u8 - 2) << 5 | high);
        } else {
            self.out.push(7 << 5 | high);
            self.out.push((len - LONG_MATCH) as u8);
        }
        self.out.push(offset as u8);
    }
}

/// Bytes that are the same from `from` and from `at` on, up to the longest that a copy says.
fn matching(input: &[u8], from: usize, at: usize) -> usize {
    let pairs = input[at..].iter().zip(&input[from..]);
    pairs.take(MATCH_MAX).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(input: &[u8]) -> Option<usize> {
        let mut compressor = Compressor::default();
        let compressed = compressor.compress(input, usize::MAX)?;
        let mut out = Vec::new();
        decompress(compressed, input.len(), &mut out).unwrap();
        assert_eq!(out, input);
        Some(compressed.len())
    }

    #[test]
    fn repetition_is_compressed() {
        assert!(round_trip(&[b'a'; 10_000]).unwrap() < 200);
        assert!(round_trip(&b"abcabcabd".repeat(100)).unwrap() < 60);
        let far: Vec<u8> = (0..20_000u32).flat_map(|n| (n % 5000).to_le_bytes()).collect();
        round_trip(&far).unwrap();
        let mut compressor = Compressor::default();
        assert_eq!(compressor.compress(b"abcdefgh", 7), None);
        assert_eq!(compressor.compress(b"abc", 100), None);
    }

    #[test]
    fn broken_data_is_refused() {
        let mut out = Vec::new();
        for (input, len) in [
            (&[0x20, 0x00][..], 3),
            (&[0x00, b'a', 0xe0], 3),
            (&[0x00, b'a', 0xe0, 0x01], 3),
            (&[0x00, b'a', 0x20], 4),
            (&[0x05, b'a'], 6),
            (&[0x00, b'a'], 2),
            (&[0x01, b'a', b'b'], 1),
            (&[0x00, b'a'], usize::MAX),
        ] {
            assert!(decompress(input, len, &mut out).is_err(), "{input:?}");
        }
        assert!(out.capacity() < 1000);
    }

    #[test]
    fn what_redis_compressed_is_read() {
        let mut out = Vec::new();
        decompress(&[0x01, 0x61, 0x61, 0xe0, 0x57, 0x00, 0x01, 0x61, 0x61], 100, &mut out).unwrap();
        assert_eq!(out, [b'a'; 100]);
    }

    proptest! {
        #[test]
        fn everything_round_trips(
            input in prop::collection::vec(0u8..4, 0..3000),
            noise in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            round_trip(&input);
            round_trip(&noise);
        }

        #[test]
        fn noise_is_no_danger(input in prop::collection::vec(any::<u8>(), 0..300), len in 0usize..2000) {
            let _ = decompress(&input, len, &mut Vec::new());
        }
    }
}
