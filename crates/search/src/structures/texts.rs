//! Texts of all TEXT fields of an index: terms, their postings, lengths of documents.
//!
//! A document's row is above those of all documents before it. A changed text is a new row;
//! postings of removed rows stay until [`Texts::vacuum`].

use crate::structures::column::{Column, PAGE};
use crate::structures::postings::{Posting, PostingCursor, Postings};
use crate::structures::terms::{TermId, Terms};
use crate::text::{Language, Tokens};
use std::mem::size_of;

/// Marks stems in the dictionary: no token begins with it.
const STEM_MARK: u8 = b'+';

/// Share of a field's weight that counts for stems.
const STEM_SHARE: f64 = 0.2;

/// Marks a document, in its largest frequency, that was added and not removed.
const PRESENT: u32 = 1 << 31;

/// Removed documents below which nothing is vacuumed.
const REMOVED_MIN: usize = 64;

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
    /// Whether an empty text is posted as an empty word.
    pub indexes_empty: bool,
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

/// Details of postings that are stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StoredDetails {
    /// Fields of words: needed for several fields, unless all are searched at once.
    pub fields: bool,
    /// Frequencies of words; all are 1 otherwise.
    pub frequencies: bool,
    /// Positions of words.
    pub positions: bool,
}

impl StoredDetails {
    /// All details that a number of fields needs.
    pub fn of(text_fields: usize) -> Self {
        Self { fields: text_fields > 1, frequencies: true, positions: true }
    }
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
    lengths: Column<Length>,
    /// Upper bound of the rows.
    end: u32,
    has_masks: bool,
    lacks_frequencies: bool,
    lacks_positions: bool,
    /// Number of postings.
    records: usize,
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
        Self::storing(StoredDetails::of(text_fields), language)
    }

    /// Texts, most of which are in `language`, of which these details are stored.
    pub fn storing(details: StoredDetails, language: Language) -> Self {
        Self {
            has_masks: details.fields,
            lacks_frequencies: !details.frequencies,
            lacks_positions: !details.positions,
            language,
            ..Self::default()
        }
    }

    /// Stores the fields of words from now on; words so far are those of the first field.
    pub fn store_fields(&mut self) {
        if std::mem::replace(&mut self.has_masks, true) {
            return;
        }
        for postings in &mut self.postings {
            self.posting_bytes -= postings.footprint();
            *postings = postings.with_masks();
            self.posting_bytes += postings.footprint();
        }
    }

    /// Whether the fields of words are stored.
    pub fn has_fields(&self) -> bool {
        self.has_masks
    }

    /// Whether positions of words are stored.
    pub fn has_positions(&self) -> bool {
        !self.lacks_positions
    }

    /// Number of postings, those of removed documents included until the next vacuum.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Bytes of the postings.
    pub fn posting_bytes(&self) -> usize {
        self.posting_bytes
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

    /// Length of a document, even of a removed one until the next vacuum.
    #[inline]
    pub fn length(&self, row: u32) -> Length {
        let Length { words, frequency_max } = self.lengths.get(row).copied().unwrap_or_default();
        Length { words, frequency_max: frequency_max & !PRESENT }
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
            + self.lengths.footprint()
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
        if row < self.end {
            return false;
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.found.clear();
        let words = self.collect(texts, language, is_stop_word, &mut scratch.found);
        let is_added = words.is_some();
        if let Some(words) = words {
            let frequency_max = self.post(row, texts, &mut scratch);
            self.end = row.saturating_add(1);
            let frequency_max = frequency_max.min(PRESENT - 1) | PRESENT;
            *self.lengths.get_mut(row) = Length { words, frequency_max };
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
            if text.text.is_empty() && text.indexes_empty {
                position += 1;
                words = words.saturating_add(weight_of(text, 1.0));
                found.push((self.intern(b"")?, position, field));
            }
            let mut tokens = Tokens::new(text.text);
            while let Some((token, _)) = tokens.token() {
                if is_stop_word(token) {
                    continue;
                }
                position += 1;
                words = words.saturating_add(weight_of(text, 1.0));
                let term = self.intern(token)?;
                found.push((term, position, field));
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

    fn intern(&mut self, word: &[u8]) -> Option<TermId> {
        let (term, is_new) = self.terms.insert(word)?;
        if is_new {
            self.postings.push(Postings::default());
            self.stems.push(TermId::MAX);
        }
        Some(term)
    }

    /// Finds the stem of a term; the term itself if the stem is no other word.
    fn learn_stem(&mut self, term: TermId, token: &[u8], language: Language) -> Option<TermId> {
        let stem = match language.stem(token) {
            Some(stem) if stem != token => {
                let marked = [&[STEM_MARK], &stem[..]].concat();
                self.intern(&marked)?
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
                if !self.lacks_positions {
                    scratch.positions.push(position);
                }
            }
            frequency_max = frequency_max.max(frequency);
            if self.lacks_frequencies {
                frequency = 1;
            }
            let posting = Posting { row, frequency, mask, positions: &scratch.positions };
            let postings = &mut self.postings[occurrences[0].0 as usize];
            let grown = postings.push(&posting, self.has_masks);
            self.posting_bytes = self.posting_bytes.saturating_add_signed(grown);
            self.records += 1;
        }
        frequency_max
    }

    /// Removes a document, if it is there. Its length and its postings stay until the next vacuum.
    pub fn remove(&mut self, row: u32) {
        if self.lengths.get(row).is_none_or(|length| length.frequency_max & PRESENT == 0) {
            return;
        }
        let length = self.lengths.get_mut(row);
        length.frequency_max &= !PRESENT;
        self.removed += 1;
        self.documents -= 1;
        self.words -= u64::from(length.words);
    }

    /// Whether more than a quarter of the documents that have postings are removed.
    pub fn needs_vacuum(&self) -> bool {
        self.removed > REMOVED_MIN && self.removed * 3 > self.documents
    }

    /// Begins a vacuum: documents that are removed from now on are those of the next.
    pub fn begin_vacuum(&mut self) {
        self.removed = 0;
    }

    /// Drops postings of rows that are not `kept` from the lists of terms, from one term on until
    /// about `budget` postings were looked at. Returns the next term; none at the end.
    pub fn vacuum(
        &mut self,
        from: usize,
        budget: usize,
        kept: &dyn Fn(u32) -> bool,
    ) -> Option<usize> {
        let mut looked_at = 0;
        for at in from..self.postings.len() {
            if looked_at >= budget {
                return Some(at);
            }
            let postings = &mut self.postings[at];
            let (before, len) = (postings.footprint(), postings.len());
            looked_at += 1 + len;
            postings.retain(self.has_masks, kept);
            self.records -= len - postings.len();
            let after = postings.footprint();
            // A rewritten list may have more spare room than before.
            self.posting_bytes = (self.posting_bytes + after).saturating_sub(before);
        }
        None
    }

    /// Frees lengths of documents by pages of rows that are `over`.
    pub fn drop_pages(&mut self, is_over: &dyn Fn(usize) -> bool) {
        for page in 0..(self.end as usize).div_ceil(PAGE) {
            if is_over(page) {
                self.lengths.drop_page(page);
            }
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
            indexes_empty: false,
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
        texts.begin_vacuum();
        let mut next = Some(0);
        while let Some(from) = next {
            next = texts.vacuum(from, 100, &|row| row % 4 == 0);
        }
        assert!(!texts.needs_vacuum() && texts.footprint() < before);
        assert_eq!(rows(&texts, "common").len(), 250);
        assert_eq!((texts.documents(), texts.mean_length(), texts.records()), (250, 2.0, 500));
        let bytes = texts.footprint();
        texts.drop_pages(&|page| page == 1);
        assert!(texts.footprint() < bytes);
    }

    #[test]
    fn details_that_are_not_stored_are_not_found() {
        let details = StoredDetails { fields: false, frequencies: false, positions: false };
        let mut texts = Texts::storing(details, Language::default());
        add(&mut texts, 0, &["word word", "word"]);
        assert_eq!(rows(&texts, "word"), [(0, 1)]);
        assert_eq!(texts.length(0).frequency_max, 4);
        let mut cursor = texts.cursor(texts.terms().find(b"word").unwrap()).unwrap();
        let mut positions = vec![7];
        cursor.positions(&mut positions);
        assert_eq!((positions, cursor.mask()), (vec![], 1));
    }

    #[test]
    fn fields_of_words_are_stored_later() {
        let mut texts = Texts::new(1, Language::default());
        for row in 0..300 {
            add(&mut texts, row, &["some word"]);
        }
        texts.store_fields();
        add(&mut texts, 300, &["", "word"]);
        let mut cursor = texts.cursor(texts.terms().find(b"word").unwrap()).unwrap();
        assert_eq!((cursor.mask(), texts.has_fields()), (1, true));
        cursor.seek(300);
        let mut positions = Vec::new();
        cursor.positions(&mut positions);
        assert_eq!((cursor.current(), cursor.mask(), positions), (Some(300), 2, vec![1]));
    }
}
