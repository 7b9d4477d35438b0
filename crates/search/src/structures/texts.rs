//! Texts of all TEXT fields of an index: terms, their postings, lengths of documents.
//!
//! A document's row is above those of all documents before it. A changed text is a new row;
//! postings of removed rows stay until [`Texts::vacuum`].

use crate::structures::postings::{Posting, PostingCursor, Postings};
use crate::structures::terms::{TermId, Terms};
use crate::text::{Language, Tokens};
use std::mem::size_of;

/// Marks stems in the dictionary: no token begins with it.
const STEM_MARK: u8 = b'+';

/// Share of a field's weight that counts for stems.
const STEM_SHARE: f64 = 0.2;

/// Occurrences for which memory is kept between documents.
const KEPT_OCCURRENCES: usize = 1 << 16;

/// A text of a document.
#[derive(Clone, Copy, Debug)]
pub struct FieldText<'t> {
    /// Number of the field among TEXT fields.
    pub field: usize,
    /// Weight of the field.
    pub weight: f64,
    /// Whether words are posted by their stem too.
    pub has_stems: bool,
    /// The text.
    pub text: &'t [u8],
}

/// Length of a document.
#[derive(Clone, Copy, Debug, Default)]
pub struct Length {
    /// Number of words, each counted as often as the weight of its field.
    pub words: u32,
    /// The largest frequency of a term.
    pub frequency_max: u32,
}

/// Texts of an index.
#[derive(Debug, Default)]
pub struct Texts {
    terms: Terms,
    postings: Vec<Postings>,
    /// The stem of each term in the index's language; itself if it has none, the largest number
    /// if it is not known.
    stems: Vec<TermId>,
    language: Language,
    lengths: Vec<Length>,
    has_masks: bool,
    documents: usize,
    words: u64,
    removed: usize,
    posting_bytes: usize,
    scratch: Scratch,
}

/// Occurrences of one document, collected by term.
#[derive(Debug, Default)]
struct Scratch {
    /// (term, position, field), in the order of the text.
    found: Vec<(TermId, u32, u8)>,
    positions: Vec<u32>,
}

impl Texts {
    /// Texts of an index with a number of TEXT fields, most of which are in `language`.
    pub fn new(text_fields: usize, language: Language) -> Self {
        Self { has_masks: text_fields > 1, language, ..Self::default() }
    }

    /// The dictionary.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Number of documents.
    pub fn documents(&self) -> usize {
        self.documents
    }

    /// Mean length of a document in words; 0 without documents.
    pub fn mean_length(&self) -> f64 {
        if self.documents == 0 { 0.0 } else { self.words as f64 / self.documents as f64 }
    }

    /// Length of a document.
    pub fn length(&self, row: u32) -> Length {
        self.lengths.get(row as usize).copied().unwrap_or_default()
    }

    /// Number of documents that contain a term, removed ones included until the next vacuum.
    pub fn frequency(&self, term: TermId) -> usize {
        self.postings.get(term as usize).map_or(0, Postings::len)
    }

    /// A cursor over the documents of a term.
    pub fn cursor(&self, term: TermId) -> Option<PostingCursor<'_>> {
        Some(PostingCursor::new(self.postings.get(term as usize)?, self.has_masks))
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.terms.footprint()
            + self.postings.capacity() * size_of::<Postings>()
            + self.posting_bytes
            + self.stems.capacity() * size_of::<TermId>()
            + self.lengths.capacity() * size_of::<Length>()
    }

    /// Adds a document. Returns false, and adds nothing, if its row is not above all others or the
    /// dictionary is full.
    pub fn add(
        &mut self,
        row: u32,
        texts: &[FieldText<'_>],
        language: Language,
        is_stop_word: &dyn Fn(&[u8]) -> bool,
    ) -> bool {
        if (row as usize) < self.lengths.len() {
            return false;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.found.clear();
        let words = self.collect(texts, language, is_stop_word, &mut scratch.found);
        let is_added = words.is_some();
        if let Some(words) = words {
            let frequency_max = self.post(row, texts, &mut scratch);
            self.lengths.resize(row as usize, Length::default());
            self.lengths.push(Length { words, frequency_max });
            self.documents += 1;
            self.words += u64::from(words);
        }
        scratch.found.shrink_to(KEPT_OCCURRENCES);
        scratch.positions.shrink_to(KEPT_OCCURRENCES);
        self.scratch = scratch;
        is_added
    }

    /// Collects occurrences of terms and stems. Returns the weighted number of words.
    fn collect(
        &mut self,
        texts: &[FieldText<'_>],
        language: Language,
        is_stop_word: &dyn Fn(&[u8]) -> bool,
        found: &mut Vec<(TermId, u32, u8)>,
    ) -> Option<u32> {
        let mut position = 0u32;
        let mut words = 0u32;
        for text in texts {
            let field = u8::try_from(text.field).unwrap_or(127).min(127);
            let mut tokens = Tokens::new(text.text);
            while let Some((token, _)) = tokens.token() {
                if is_stop_word(token) {
                    continue;
                }
                position += 1;
                words = words.saturating_add(weight_of(text, 1.0));
                let (term, is_new) = self.terms.insert(token)?;
                found.push((term, position, field));
                if is_new {
                    self.postings.push(Postings::default());
                    self.stems.push(TermId::MAX);
                }
                if !text.has_stems {
                    continue;
                }
                let stem = match self.stems[term as usize] {
                    stem if stem != TermId::MAX && language == self.language => stem,
                    _ => self.learn_stem(term, token, language)?,
                };
                if stem != term {
                    found.push((stem, position, field));
                }
            }
        }
        Some(words)
    }

    /// Finds the stem of a term; the term itself if the stem is no other word.
    fn learn_stem(&mut self, term: TermId, token: &[u8], language: Language) -> Option<TermId> {
        let stem = match language.stem(token) {
            Some(stem) if stem != token => {
                let marked = [&[STEM_MARK], &stem[..]].concat();
                let (stem, is_new) = self.terms.insert(&marked)?;
                if is_new {
                    self.postings.push(Postings::default());
                    self.stems.push(TermId::MAX);
                }
                stem
            }
            _ => term,
        };
        if language == self.language {
            self.stems[term as usize] = stem;
        }
        Some(stem)
    }

    /// Posts the collected occurrences. Returns the largest frequency.
    fn post(&mut self, row: u32, texts: &[FieldText<'_>], scratch: &mut Scratch) -> u32 {
        scratch.found.sort_unstable();
        let mut frequency_max = 0;
        for occurrences in scratch.found.chunk_by(|one, other| one.0 == other.0) {
            let is_stem = self.terms.text(occurrences[0].0).first() == Some(&STEM_MARK);
            let mut mask = 0u128;
            let mut frequency = 0u32;
            scratch.positions.clear();
            for &(_, position, field) in occurrences {
                mask |= 1 << field;
                let text = texts.iter().find(|text| text.field == usize::from(field));
                let share = if is_stem { STEM_SHARE } else { 1.0 };
                frequency = frequency.saturating_add(text.map_or(1, |text| weight_of(text, share)));
                scratch.positions.push(position);
            }
            frequency_max = frequency_max.max(frequency);
            let posting = Posting { row, frequency, mask, positions: &scratch.positions };
            let postings = &mut self.postings[occurrences[0].0 as usize];
            let grown = postings.push(&posting, self.has_masks);
            self.posting_bytes = self.posting_bytes.saturating_add_signed(grown);
        }
        frequency_max
    }

    /// Removes a document.
    pub fn remove(&mut self, row: u32) {
        let Some(length) = self.lengths.get_mut(row as usize) else { return };
        let Length { words, frequency_max } = std::mem::take(length);
        if frequency_max > 0 || words > 0 {
            self.removed += 1;
        }
        self.documents = self.documents.saturating_sub(1);
        self.words = self.words.saturating_sub(u64::from(words));
    }

    /// Whether more than a quarter of the documents that have postings are removed.
    pub fn needs_vacuum(&self) -> bool {
        self.removed > 64 && self.removed * 3 > self.documents
    }

    /// Drops postings of rows that are not `kept` from the lists of `terms`. The whole is done
    /// list by list.
    pub fn vacuum(&mut self, terms: std::ops::Range<usize>, kept: &dyn Fn(u32) -> bool) {
        let end = terms.end.min(self.postings.len());
        for at in terms.start.min(end)..end {
            let before = self.postings[at].footprint();
            self.postings[at].retain(self.has_masks, kept);
            let after = self.postings[at].footprint();
            // A rewritten list may have more spare room than before.
            self.posting_bytes = (self.posting_bytes + after).saturating_sub(before);
        }
        if end == self.postings.len() {
            self.removed = 0;
        }
    }
}

/// Count of a word of a text: the whole part of a share of the weight, at least 1.
fn weight_of(text: &FieldText<'_>, share: f64) -> u32 {
    ((text.weight * share) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(texts: &mut Texts, row: u32, fields: &[&str]) {
        let fields = fields.iter().enumerate().map(|(field, text)| FieldText {
            field,
            weight: 1.0 + field as f64 * 1.7,
            has_stems: true,
            text: text.as_bytes(),
        });
        let fields = fields.collect::<Vec<_>>();
        assert!(texts.add(row, &fields, Language::default(), &|word| word == b"the"));
    }

    fn rows(texts: &Texts, term: &str) -> Vec<(u32, u32)> {
        let Some(id) = texts.terms().find(term.as_bytes()) else { return Vec::new() };
        let mut cursor = texts.cursor(id).unwrap();
        let mut rows = Vec::new();
        while let Some(row) = cursor.current() {
            rows.push((row, cursor.frequency()));
            cursor.advance();
        }
        rows
    }

    #[test]
    fn words_and_stems_are_posted() {
        let mut texts = Texts::new(2, Language::default());
        add(&mut texts, 3, &["The running man", "runs"]);
        add(&mut texts, 5, &["run Running", ""]);
        assert_eq!(rows(&texts, "running"), [(3, 1), (5, 1)]);
        assert_eq!(rows(&texts, "run"), [(5, 1)]);
        // A word of the second field counts twice, a stem once.
        assert_eq!(rows(&texts, "runs"), [(3, 2)]);
        assert_eq!(rows(&texts, "+run"), [(3, 2), (5, 1)]);
        assert_eq!(rows(&texts, "the"), []);
        assert_eq!((texts.length(3).words, texts.length(3).frequency_max), (4, 2));
        assert_eq!((texts.documents(), texts.mean_length()), (2, 3.0));
        let id = texts.terms().find(b"running").unwrap();
        let mut cursor = texts.cursor(id).unwrap();
        let mut positions = Vec::new();
        cursor.seek(5);
        cursor.positions(&mut positions);
        assert_eq!((positions, cursor.mask()), (vec![2], 1));
    }

    #[test]
    fn vacuum_drops_removed_documents() {
        let mut texts = Texts::new(1, Language::default());
        for row in 0..1000 {
            add(&mut texts, row, &[&format!("word{} common", row % 10)]);
        }
        let before = texts.footprint();
        for row in (0..1000).filter(|row| row % 4 != 0) {
            texts.remove(row);
        }
        assert!(texts.needs_vacuum());
        assert_eq!(texts.frequency(texts.terms().find(b"common").unwrap()), 1000);
        texts.vacuum(0..usize::MAX, &|row| row % 4 == 0);
        assert!(!texts.needs_vacuum() && texts.footprint() < before);
        assert_eq!(rows(&texts, "common").len(), 250);
        assert_eq!((texts.documents(), texts.mean_length()), (250, 2.0));
    }
}
