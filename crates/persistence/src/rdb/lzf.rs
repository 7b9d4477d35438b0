//! LZF: the compression of long strings.
//!
//! ```text
//! 000nnnnn               n + 1 bytes follow as they are
//! lllooooo oooooooo      copy l + 2 bytes from o + 1 bytes back, l = 1 ..= 6
//! 111ooooo llllllll oooooooo   copy l + 9 bytes from o + 1 bytes back
//! ```
//!
//! A copy may overlap its own output.

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

/// Appends `count` bytes from `distance` back; `None` if the output is shorter than that.
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

/// Bits of the hash of three bytes: for short inputs, so that the table stays in the L1 cache, and
/// for long ones.
const SHORT_BITS: u32 = 11;
const LONG_BITS: u32 = 14;
/// Inputs up to this length are short.
const SHORT_MAX: usize = 4096;

/// Number of probes without a match after which the step between probes grows by one:
/// incompressible input is given up quickly.
const PROBES_PER_STEP: u32 = 32;

/// Number of consecutive incompressible strings after which some are not tried.
const FAILURES_MIN: u32 = 8;
/// Strings that are passed over between two that are tried, at most.
const PASSED_MAX: u32 = 63;

/// Compresses, with memory of its own that is kept between calls.
///
/// Strings of one kind come in long runs. So one that does not compress says something about those
/// after it: with each failure in a row more strings are passed over untried, and the first success
/// ends that.
#[derive(Debug, Default)]
pub(super) struct Compressor {
    /// Last position of three bytes by their hash, as an offset from `base`. Lower values belong to
    /// earlier inputs.
    seen: Vec<u32>,
    base: u32,
    out: Vec<u8>,
    /// Strings in a row that did not get shorter.
    failures: u32,
    /// Strings that are still to be passed over.
    passing: u32,
}

impl Compressor {
    /// Compresses `input` to at most `max` bytes, unless the strings before it were incompressible.
    pub(super) fn compress_likely(&mut self, input: &[u8], max: usize) -> Option<&[u8]> {
        if input.len() < SHORT_MAX && self.passing > 0 {
            self.passing -= 1;
            return None;
        }
        if self.compress(input, max).is_some() {
            (self.failures, self.passing) = (0, 0);
            return Some(&self.out);
        }
        self.failures += 1;
        self.passing = self.failures.saturating_sub(FAILURES_MIN).min(PASSED_MAX);
        None
    }

    /// Compresses `input` to at most `max` bytes.
    pub(super) fn compress(&mut self, input: &[u8], max: usize) -> Option<&[u8]> {
        // Positions are held in 32 bits.
        let len = u32::try_from(input.len()).ok().filter(|&len| len < u32::MAX / 2)?;
        if input.len() <= MATCH_MIN {
            return None;
        }
        let bits = if input.len() <= SHORT_MAX { SHORT_BITS } else { LONG_BITS };
        let base = self.begin(bits, len);
        let (mut at, mut literals, mut probes) = (0, 0, PROBES_PER_STEP);
        while let Some(here) = input.get(at..at + 4) {
            let three = u32::from_le_bytes([here[0], here[1], here[2], 0]);
            let hash = three.wrapping_mul(0x9e37_79b1) >> (32 - bits);
            let now = base + at as u32;
            let before = std::mem::replace(&mut self.seen[hash as usize], now);
            let len = match before >= base && now - before <= DISTANCE_MAX as u32 {
                true => matching(input, (before - base) as usize, at),
                false => 0,
            };
            if len < MATCH_MIN {
                at += (probes / PROBES_PER_STEP) as usize;
                probes += 1;
                continue;
            }
            self.push_literals(&input[literals..at]);
            self.push_match((now - before) as usize, len);
            at += len;
            (literals, probes) = (at, PROBES_PER_STEP);
            if self.out.len() > max {
                return None;
            }
        }
        if self.out.len() + input.len() - literals > max {
            return None;
        }
        self.push_literals(&input[literals..]);
        (self.out.len() <= max).then_some(&self.out)
    }

    /// Prepares the table for an input, invalidating positions of earlier inputs by raising the
    /// base, which is returned.
    fn begin(&mut self, bits: u32, len: u32) -> u32 {
        if self.seen.len() < 1 << bits {
            self.seen.resize(1 << bits, 0);
        }
        let base = self.base.max(1);
        self.base = match base.checked_add(len) {
            Some(next) => next,
            None => {
                self.seen.fill(0);
                1 + len
            }
        };
        self.out.clear();
        self.base - len
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
#[inline]
fn matching(input: &[u8], from: usize, at: usize) -> usize {
    let max = MATCH_MAX.min(input.len() - at);
    let (ahead, behind) = (&input[at..at + max], &input[from..from + max]);
    let mut len = 0;
    for (a, b) in ahead.chunks_exact(8).zip(behind.chunks_exact(8)) {
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let differ = word(a) ^ word(b);
        if differ != 0 {
            return len + differ.trailing_zeros() as usize / 8;
        }
        len += 8;
    }
    len + ahead[len..].iter().zip(&behind[len..]).take_while(|(a, b)| a == b).count()
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

    #[test]
    fn what_does_not_compress_is_soon_passed_over() {
        let mut state = 1u64;
        let mut noise = move || {
            let mut bytes = Vec::new();
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                bytes.extend_from_slice(&(state ^ state >> 29).to_le_bytes());
            }
            bytes
        };
        let mut compressor = Compressor::default();
        for _ in 0..200 {
            assert_eq!(compressor.compress_likely(&noise(), 92), None);
        }
        assert!(compressor.passing > 0 || compressor.failures > FAILURES_MIN + PASSED_MAX);
        let tries =
            (0..=PASSED_MAX).find(|_| compressor.compress_likely(&[b'a'; 96], 92).is_some());
        assert!(tries.is_some(), "it is tried again");
        assert_eq!((compressor.failures, compressor.passing), (0, 0));
        assert!(compressor.compress_likely(&[b'a'; 96], 92).is_some(), "and now always");
    }

    #[test]
    fn an_input_is_not_matched_with_those_before_it() {
        let mut compressor = Compressor::default();
        let mut out = Vec::new();
        for n in 0..2000usize {
            let input: Vec<u8> = (0..40 + n % 60).map(|i| (i * (n % 7)) as u8).collect();
            if n == 1000 {
                compressor.base = u32::MAX - 500;
            }
            if let Some(compressed) = compressor.compress(&input, usize::MAX) {
                decompress(compressed, input.len(), &mut out).unwrap();
                assert_eq!(out, input, "{n}");
            }
        }
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
