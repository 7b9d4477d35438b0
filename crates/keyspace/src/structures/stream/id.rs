//! IDs of stream entries.

use std::fmt;

/// The ID of an entry: Unix time in milliseconds, and a sequence number within the millisecond.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct StreamId {
    /// Milliseconds.
    pub ms: u64,
    /// The number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// `0-0`, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The greatest ID.
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    /// The ID `ms-seq`.
    pub const fn new(ms: u64, seq: u64) -> Self {
        StreamId { ms, seq }
    }

    /// The smallest greater ID; none above [`StreamId::MAX`].
    pub fn next(self) -> Option<Self> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => self.ms.checked_add(1).map(|ms| StreamId { ms, seq: 0 }),
        }
    }

    /// The greatest smaller ID; none below [`StreamId::MIN`].
    pub fn previous(self) -> Option<Self> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => self.ms.checked_sub(1).map(|ms| StreamId { ms, seq: u64::MAX }),
        }
    }

    /// Reads `ms-seq`, or `ms` alone with the sequence number `seq_if_missing`.
    pub fn parse(text: &[u8], seq_if_missing: u64) -> Option<Self> {
        match text.iter().position(|&c| c == b'-') {
            Some(at) => Some(StreamId::new(parse_part(&text[..at])?, parse_part(&text[at + 1..])?)),
            None => Some(StreamId::new(parse_part(text)?, seq_if_missing)),
        }
    }

    /// The text `ms-seq`, in `scratch`.
    pub fn text(self, scratch: &mut IdText) -> &[u8] {
        let mut digits = itoa::Buffer::new();
        let mut len = 0;
        for (part, end) in [(self.ms, &b"-"[..]), (self.seq, &b""[..])] {
            let part = digits.format(part).as_bytes();
            scratch.0[len..len + part.len()].copy_from_slice(part);
            len += part.len();
            scratch.0[len..len + end.len()].copy_from_slice(end);
            len += end.len();
        }
        &scratch.0[..len]
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// Room for the text of an ID.
#[derive(Clone, Copy, Debug)]
pub struct IdText([u8; 41]);

impl Default for IdText {
    fn default() -> Self {
        IdText([0; 41])
    }
}

/// Reads one part of an ID: decimal digits that fit 64 bits, leading zeros allowed.
fn parse_part(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |n, &c| {
        let digit = c.wrapping_sub(b'0');
        (digit <= 9).then(|| n.checked_mul(10)?.checked_add(u64::from(digit)))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for (text, id) in [
            ("0-0", StreamId::MIN),
            ("5", StreamId::new(5, 7)),
            ("5-9", StreamId::new(5, 9)),
            ("18446744073709551615-18446744073709551615", StreamId::MAX),
            ("007-01", StreamId::new(7, 1)),
        ] {
            assert_eq!(StreamId::parse(text.as_bytes(), 7), Some(id), "{text}");
        }
        for text in ["", "-", "5-", "-5", "a", "5-a", "5-5-5", "18446744073709551616", "1 ", "+1"] {
            assert_eq!(StreamId::parse(text.as_bytes(), 0), None, "{text}");
        }
        for id in [StreamId::MIN, StreamId::MAX, StreamId::new(1_526_919_030_474, 55)] {
            assert_eq!(id.text(&mut IdText::default()), id.to_string().as_bytes());
        }
    }

    #[test]
    fn neighbours() {
        assert_eq!(StreamId::new(1, u64::MAX).next(), Some(StreamId::new(2, 0)));
        assert_eq!(StreamId::new(2, 0).previous(), Some(StreamId::new(1, u64::MAX)));
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(StreamId::MIN.previous(), None);
    }
}
