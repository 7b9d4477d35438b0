//! Words that are not indexed.

/// Words that are not indexed unless an index names its own.
pub const STOP_WORDS: [&str; 33] = [
    "a", "is", "the", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into",
    "it", "no", "not", "of", "on", "or", "such", "that", "their", "then", "there", "these", "they",
    "this", "to", "was", "will", "with",
];

/// A set of words. First byte and length exclude most other words.
#[derive(Clone, Debug)]
pub struct StopWords {
    /// Sorted.
    words: Box<[Box<[u8]>]>,
    /// Lengths of the words by their first byte, as bits; the last bit is of all longer ones.
    lengths: [u16; 256],
}

impl Default for StopWords {
    fn default() -> Self {
        Self::new(STOP_WORDS)
    }
}

impl StopWords {
    /// A set of folded words.
    pub fn new<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Self {
        let mut words: Vec<Box<[u8]>> = words.into_iter().map(|w| w.as_ref().into()).collect();
        words.sort_unstable();
        words.dedup();
        let mut lengths = [0; 256];
        for word in &words {
            lengths[first(word)] |= length(word);
        }
        Self { words: words.into(), lengths }
    }

    /// Whether a folded word is among them.
    #[inline]
    pub fn contains(&self, word: &[u8]) -> bool {
        self.lengths[first(word)] & length(word) != 0
            && self.words.binary_search_by(|stop| (**stop).cmp(word)).is_ok()
    }
}

fn first(word: &[u8]) -> usize {
    word.first().map_or(0, |&byte| usize::from(byte))
}

fn length(word: &[u8]) -> u16 {
    1 << word.len().min(15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_words_are_contained() {
        let words = StopWords::default();
        assert!(STOP_WORDS.iter().all(|word| words.contains(word.as_bytes())));
        for word in ["", "th", "tha", "these ", "theses", "x", "zoo", "a long one of many letters"]
        {
            assert!(!words.contains(word.as_bytes()), "{word}");
        }
        let words = StopWords::new(["", "a long one of many letters"]);
        assert!(words.contains(b"") && words.contains(b"a long one of many letters"));
        assert!(!words.contains(b"a long one of many lettres") && !words.contains(b"a"));
    }
}
