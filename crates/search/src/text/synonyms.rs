//! Synonyms: groups of words that are found by each other.

use super::fold;
use std::collections::BTreeMap;
use std::mem::size_of;

/// Marks a group in the dictionary: no token begins with it, unless escaped.
const GROUP_MARK: u8 = b'~';

/// Groups of synonyms of an index.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Synonyms {
    /// Names of the groups of each word, in the order of their addition.
    groups: BTreeMap<Box<[u8]>, Vec<Box<[u8]>>>,
    /// Number of changes for which the present documents are read again.
    pub scans: u64,
}

impl Synonyms {
    /// Adds a word to a group.
    pub fn add(&mut self, group: &[u8], word: &[u8]) {
        let groups = self.groups.entry(fold(word).into()).or_default();
        if !groups.iter().any(|known| **known == *group) {
            groups.push(group.into());
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Words with the names of their groups, in ascending order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[Box<[u8]>])> {
        self.groups.iter().map(|(word, groups)| (&**word, &**groups))
    }

    /// Groups of a folded word, as the dictionary of terms names them.
    pub fn terms_of(&self, word: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
        let groups = self.groups.get(word).into_iter().flatten();
        groups.map(|group| [&[GROUP_MARK], &group[..]].concat())
    }

    /// Approximate bytes on the heap.
    pub fn footprint(&self) -> usize {
        let text = |text: &[u8]| text.len() + size_of::<Box<[u8]>>();
        let entry = |(word, groups): (&[u8], &[Box<[u8]>])| {
            let groups: usize = groups.iter().map(|group| text(group)).sum();
            text(word) + size_of::<Vec<Box<[u8]>>>() + groups
        };
        self.iter().map(entry).sum()
    }
}

/// Whether a term of the dictionary is that of a group.
pub(crate) fn is_group(term: &[u8]) -> bool {
    term.first() == Some(&GROUP_MARK)
}

/// Whether a term of the dictionary is a word: no stem, group or phonetic code.
pub(crate) fn is_term_of_word(term: &[u8]) -> bool {
    !matches!(term.first(), None | Some(b'+' | b'<' | &GROUP_MARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_groups() {
        let mut synonyms = Synonyms::default();
        for (group, word) in [("g", "Boy"), ("a b", "boy"), ("g", "boy"), ("g", "child")] {
            synonyms.add(group.as_bytes(), word.as_bytes());
        }
        let terms: Vec<_> = synonyms.terms_of(b"boy").collect();
        assert_eq!(terms, [&b"~g"[..], b"~a b"]);
        assert_eq!(synonyms.terms_of(b"Boy").count(), 0);
        assert_eq!(synonyms.iter().len(), 2);
        assert!(is_group(&terms[0]) && !is_group(b"boy") && synonyms.footprint() > 30);
    }
}
