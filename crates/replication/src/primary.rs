//! Messages of a primary before its stream: the reply to `PSYNC`, the line before a copy of its
//! data, and the end of that copy.

use crate::frame::{IS_PETREL, READS_FRAMES};
use memchr::memmem;

/// Length in bytes of the end mark of a copy without an announced length.
pub const MARK_LEN: usize = 40;

/// Bytes of the name of a history.
const ID_LEN: usize = 40;

/// Successful replies to `PSYNC`.
#[derive(Debug, Eq, PartialEq)]
pub enum Offer {
    /// A copy of the data, and then the stream from behind this offset of this history on.
    Copy {
        /// The history: 40 characters.
        id: String,
        /// Bytes of it that the copy has.
        offset: i64,
        /// Words about the stream.
        words: Words,
    },
    /// The part of the stream that this server lacks, under the same replication ID or another.
    Continue {
        /// The name that the history goes on under, if that is said.
        id: Option<String>,
        /// Words about the stream.
        words: Words,
    },
}

/// Words about the stream after a reply to `PSYNC`, of which Redis has none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Words {
    /// Changes may come as frames.
    pub frames: bool,
    /// The primary is Petrel, and so are all that its stream passed before it.
    pub is_petrel: bool,
}

impl Words {
    fn read<'a>(words: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut read = Words::default();
        for word in words {
            read.frames |= word == READS_FRAMES.as_bytes();
            read.is_petrel |= word == IS_PETREL.as_bytes();
        }
        read
    }
}

/// Reasons why no stream follows a `PSYNC`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoOffer {
    /// The primary cannot serve replicas at this moment.
    NotNow,
    /// An error, or no reply to `PSYNC`.
    Refused,
    /// The answer is cut or names nothing that there could be.
    Malformed,
}

impl Offer {
    /// Reads the answer to `PSYNC`, without its end of line.
    ///
    /// # Errors
    /// If it promises nothing.
    pub fn read(reply: &[u8]) -> Result<Self, NoOffer> {
        let mut words = reply.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let text = |word: &[u8]| std::str::from_utf8(word).ok().map(str::to_owned);
        let is_id = |id: &&[u8]| id.len() == ID_LEN && id.iter().all(u8::is_ascii_graphic);
        match words.next() {
            Some(b"+FULLRESYNC") => {
                let id = words.next().filter(is_id).and_then(text);
                let offset = words.next().and_then(text).and_then(|offset| offset.parse().ok());
                let words = Words::read(words);
                match (id, offset.filter(|&offset: &i64| offset >= 0)) {
                    (Some(id), Some(offset)) => Ok(Offer::Copy { id, offset, words }),
                    _ => Err(NoOffer::Malformed),
                }
            }
            Some(b"+CONTINUE") => match words.next() {
                None => Ok(Offer::Continue { id: None, words: Words::default() }),
                Some(id) if is_id(&id) => {
                    Ok(Offer::Continue { id: text(id), words: Words::read(words) })
                }
                Some(_) => Err(NoOffer::Malformed),
            },
            Some(b"-NOMASTERLINK" | b"-LOADING") => Err(NoOffer::NotNow),
            _ => Err(NoOffer::Refused),
        }
    }
}

/// End of a copy, as the primary announces it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Extent {
    /// A length in bytes.
    Length(u64),
    /// Before these bytes.
    Mark([u8; MARK_LEN]),
}

impl Extent {
    /// Reads the line before a copy, without its end; none if it is no such line.
    pub fn read(line: &[u8]) -> Option<Self> {
        let text = line.strip_prefix(b"$")?;
        if let Some(mark) = text.strip_prefix(b"EOF:") {
            return mark.try_into().map(Extent::Mark).ok();
        }
        let is_number = text.iter().all(u8::is_ascii_digit);
        let digits = std::str::from_utf8(text).ok().filter(|_| is_number)?;
        digits.parse().ok().map(Extent::Length)
    }

    /// Number of received bytes that belong to the copy, after `len` earlier bytes, and whether the
    /// copy is complete with them. An end mark follows the bytes of a complete one.
    pub fn take(&self, received: &[u8], len: u64) -> (usize, bool) {
        match self {
            Extent::Length(total) => {
                let left = usize::try_from(total.saturating_sub(len)).unwrap_or(usize::MAX);
                let taken = left.min(received.len());
                (taken, taken == left)
            }
            Extent::Mark(mark) => match memmem::find(received, mark) {
                Some(at) => (at, true),
                // The mark may have begun.
                None => (received.len().saturating_sub(MARK_LEN - 1), false),
            },
        }
    }

    /// Bytes behind a whole copy that are none of the stream's.
    pub fn mark_len(&self) -> usize {
        if matches!(self, Extent::Mark(_)) { MARK_LEN } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_psync_are_understood_or_refused() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        for (more, frames, is_petrel) in [
            ("", false, false),
            (" other", false, false),
            (" petrel-effects-2", true, false),
            (" petrel", false, true),
            (" petrel petrel-effects-2", true, true),
        ] {
            let words = Words { frames, is_petrel };
            let copy = format!("+FULLRESYNC {id} 17{more}");
            let expected = Offer::Copy { id: id.into(), offset: 17, words };
            assert_eq!(Offer::read(copy.as_bytes()), Ok(expected));
            let renamed = format!("+CONTINUE {id}{more}");
            let expected = Offer::Continue { id: Some(id.into()), words };
            assert_eq!(Offer::read(renamed.as_bytes()), Ok(expected));
        }
        let expected = Offer::Continue { id: None, words: Words::default() };
        assert_eq!(Offer::read(b"+CONTINUE"), Ok(expected));
        for (nonsense, why) in [
            (&b"+FULLRESYNC"[..], NoOffer::Malformed),
            (b"+FULLRESYNC short 1", NoOffer::Malformed),
            (b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 -1", NoOffer::Malformed),
            (b"+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 x", NoOffer::Malformed),
            (b"+CONTINUE short", NoOffer::Malformed),
            (b"+OK", NoOffer::Refused),
            (b"-ERR unknown command 'PSYNC'", NoOffer::Refused),
            (b"-LOADING x", NoOffer::NotNow),
            (b"", NoOffer::Refused),
        ] {
            assert_eq!(Offer::read(nonsense), Err(why), "{nonsense:?}");
        }
    }

    #[test]
    fn a_copy_ends_by_length_or_mark() {
        let mark: [u8; MARK_LEN] = *b"0123456789abcdef0123456789abcdef01234567";
        assert_eq!(Extent::read(b"$17"), Some(Extent::Length(17)));
        let line = [&b"$EOF:"[..], &mark].concat();
        assert_eq!(Extent::read(&line), Some(Extent::Mark(mark)));
        for wrong in [&b"17"[..], b"$", b"$-1", b"$+1", b"$EOF:short", b"-ERR no", b"$x", b""] {
            assert_eq!(Extent::read(wrong), None, "{wrong:?}");
        }
        assert_eq!(Extent::Length(5).take(b"abc", 0), (3, false));
        assert_eq!(Extent::Length(5).take(b"abc", 3), (2, true));
        assert_eq!(Extent::Length(0).take(b"", 0), (0, true));
    }

    #[test]
    fn a_mark_is_found_however_it_is_cut() {
        let mark: [u8; MARK_LEN] = *b"0123456789abcdef0123456789abcdef01234567";
        let whole = [&b"the data 0123"[..], &mark, b"*1\r\n"].concat();
        for cut in 0..=whole.len() {
            let (mut data, mut received, mut is_whole) = (Vec::new(), Vec::new(), false);
            for part in [&whole[..cut], &whole[cut..]] {
                if is_whole {
                    break;
                }
                received.extend_from_slice(part);
                let (taken, ends) = Extent::Mark(mark).take(&received, 0);
                data.extend(received.drain(..taken));
                is_whole = ends;
            }
            assert!(is_whole, "{cut}");
            assert_eq!(data, b"the data 0123");
        }
    }
}
