//! Texts of all TEXT fields of an index: terms, their postings, lengths of documents.
//!
//! A document's row is above those of all documents before it. A changed text is a new row;
//! postings of removed rows stay until [`Texts::vacuum`].

use crate::structures::column::{Column, PAGE};
use crate::structures::postings::{GROUP_ROWS, List, Posting, PostingCursor, Postings};
use crate::structures::terms::{TermId, Terms};
use crate::text::{Language, Synonyms, Tokens};
use std::mem::size_of;
use std::sync::Arc;

/// Marks stems in the dictionary: no token begins with it.
const STEM_MARK: u8 = b'+';

/// Share of a field's weight that counts for stems.
const STEM_SHARE: f64 = 0.2;

/// Occurrences for which memory is kept between documents.
const KEPT_OCCURRENCES: usize = 1 << 12;

/// Positions between two texts of one field (`MULTITEXTSLOP`).
const TEXT_GAP: u32 = 99;

/// Words and bytes of a batch.
const BATCH_WORDS: usize = 64;
const BATCH_BYTES: usize = 1024;

/// A stem that is not known.
const UNKNOWN: TermId = TermId::MAX;

/// Marks a document, in its largest frequency, that was added and not removed.
const PRESENT: u32 = 1 << 31;

/// Removed documents below which nothing is vacuumed.
const REMOVED_MIN: usize = 64;

/// Places of a vacuum from this on are pages of the dictionary.
const FIRST_PAGE: usize = usize::MAX / 2;

/// Postings that count as much as a term, or a page of terms, in a vacuum.
const TERM_WORK: usize = 4;
const PAGE_WORK: usize = 4096;

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
    /// Whether the text is another one of the same field: its words are far from those before it.
    pub is_further: bool,
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

/// Entry of a term in the dictionary.
#[derive(Clone, Copy, Debug)]
pub struct TermEntry {
    list: List,
    /// A word's stem in the index's language, itself if it has none, or [`UNKNOWN`]. A stem has the
    /// number of words that refer to it.
    stem: u32,
}

impl Default for TermEntry {
    fn default() -> Self {
        Self { list: List::default(), stem: UNKNOWN }
    }
}

/// Texts of an index.
#[derive(Debug, Default)]
pub struct Texts {
    terms: Terms<TermEntry>,
    postings: Postings,
    language: Language,
    synonyms: Arc<Synonyms>,
    lengths: Column<Length>,
    /// Upper bound of the rows.
    end: u32,
    has_fields: bool,
    lacks_frequencies: bool,
    /// Number of postings.
    records: usize,
    documents: usize,
    words: u64,
    removed: usize,
    /// Place of a vacuum within the list of its next term.
    group: usize,
    scratch: Scratch,
}

/// Occurrences of one document, collected by term.
#[derive(Debug, Default)]
struct Scratch {
    /// Term in the upper half, position in the lower.
    found: Vec<u64>,
    /// Last position of each text, and its number.
    ends: Vec<(u32, usize)>,
    positions: Vec<u32>,
    token: Vec<u8>,
    batch: Batch,
}

/// Words that are looked up together.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    /// End of each word in the bytes.
    ends: Vec<usize>,
    hashes: Vec<u64>,
    ids: Vec<TermId>,
}

impl Batch {
    fn push(&mut self, word: &[u8], hash: u64) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
    }

    fn is_full(&self) -> bool {
        self.ends.len() >= BATCH_WORDS || self.bytes.len() >= BATCH_BYTES
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(2 * BATCH_BYTES);
        self.ends.clear();
        self.hashes.clear();
    }

    fn footprint(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.hashes.capacity() * size_of::<u64>()
            + self.ids.capacity() * size_of::<TermId>()
    }
}

impl Scratch {
    fn footprint(&self) -> usize {
        self.found.capacity() * size_of::<u64>()
            + self.ends.capacity() * size_of::<(u32, usize)>()
            + self.positions.capacity() * size_of::<u32>()
            + self.token.capacity()
            + self.batch.footprint()
    }

    fn shrink(&mut self) {
        if self.found.capacity() > KEPT_OCCURRENCES || self.token.capacity() > KEPT_OCCURRENCES {
            *self = Self::default();
        }
    }
}

impl Texts {
    /// Texts of an index with a number of TEXT fields, most of which are in `language`.
    pub fn new(text_fields: usize, language: Language) -> Self {
        Self::storing(StoredDetails::of(text_fields), language)
    }

    /// Texts, most of which are in `language`, of which these details are stored.
    pub fn storing(details: StoredDetails, language: Language) -> Self {
        Self {
            postings: Postings::storing(details.positions),
            has_fields: details.fields,
            lacks_frequencies: !details.frequencies,
            language,
            ..Self::default()
        }
    }

    /// Stores the fields of words from now on; words so far are those of the first field.
    pub fn store_fields(&mut self) {
        self.has_fields = true;
    }

    /// Posts words by these synonyms too from now on.
    pub fn set_synonyms(&mut self, synonyms: &Arc<Synonyms>) {
        self.synonyms = synonyms.clone();
    }

    /// Whether the fields of words are stored.
    pub fn has_fields(&self) -> bool {
        self.has_fields
    }

    /// Whether positions of words are stored.
    pub fn has_positions(&self) -> bool {
        self.postings.has_positions()
    }

    /// Number of postings, those of removed documents included until the next vacuum.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Bytes of the postings.
    pub fn posting_bytes(&self) -> usize {
        self.postings.footprint()
    }

    /// The dictionary. Numbers of terms are valid until the next change.
    pub fn terms(&self) -> &Terms<TermEntry> {
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
        self.terms.value(term).map_or(0, |entry| self.postings.len(&entry.list))
    }

    /// A cursor over the documents of a term.
    pub fn cursor(&self, term: TermId) -> Option<PostingCursor<'_>> {
        Some(self.postings.cursor(&self.terms.value(term)?.list))
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.footprints().into_iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes on the heap by structure.
    pub fn footprints(&self) -> [(&'static str, usize); 7] {
        let [texts, records, tables] = self.terms.footprints();
        let [blocks, directories, scratch] = self.postings.footprints();
        [
            ("texts of terms", texts),
            ("records of terms", records),
            ("hash tables", tables),
            ("postings", blocks),
            ("directories of long lists", directories),
            ("lengths of documents", self.lengths.footprint()),
            ("scratch memory", scratch + self.scratch.footprint()),
        ]
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
        scratch.ends.clear();
        let words = self.collect(texts, language, is_stop_word, &mut scratch);
        if let Some(words) = words {
            let frequency_max = self.post(row, texts, &mut scratch);
            self.end = row.saturating_add(1);
            let frequency_max = frequency_max.min(PRESENT - 1) | PRESENT;
            *self.lengths.get_mut(row) = Length { words, frequency_max };
            self.documents += 1;
            self.words += u64::from(words);
        }
        scratch.shrink();
        self.scratch = scratch;
        words.is_some()
    }

    /// Collects occurrences of terms and stems. Returns the weighted number of words.
    fn collect(
        &mut self,
        texts: &[FieldText<'_>],
        language: Language,
        is_stop_word: &dyn Fn(&[u8]) -> bool,
        scratch: &mut Scratch,
    ) -> Option<u32> {
        let (mut position, mut words) = (0u32, 0u32);
        for (number, text) in texts.iter().enumerate() {
            if text.is_further {
                // As in Redis, an empty text takes the place of a word.
                let is_empty = text.text.is_empty() && !text.indexes_empty;
                position = position.checked_add(TEXT_GAP + u32::from(is_empty))?;
            }
            let start = position;
            if text.text.is_empty() && text.indexes_empty {
                position = position.checked_add(1)?;
                let (term, _) = self.terms.insert(b"")?;
                scratch.found.push(occurrence(term, position));
            }
            let mut tokens = Tokens::with_buffer(text.text, std::mem::take(&mut scratch.token));
            let mut batch = std::mem::take(&mut scratch.batch);
            batch.clear();
            while let Some((token, _)) = tokens.token() {
                if is_stop_word(token) {
                    continue;
                }
                batch.push(token, self.terms.hash(token));
                if batch.is_full() {
                    position = self.collect_batch(&mut batch, text, language, position, scratch)?;
                }
            }
            position = self.collect_batch(&mut batch, text, language, position, scratch)?;
            (scratch.token, scratch.batch) = (tokens.into_buffer(), batch);
            scratch.ends.push((position, number));
            let count = u64::from(position - start) * u64::from(weight_of(text, 1.0));
            words = words.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
        Some(words)
    }

    /// Collects the occurrences of a batch of words after a position, and empties it. Returns the
    /// last position.
    fn collect_batch(
        &mut self,
        batch: &mut Batch,
        text: &FieldText<'_>,
        language: Language,
        mut position: u32,
        scratch: &mut Scratch,
    ) -> Option<u32> {
        let is_usual = language == self.language;
        self.terms.likely(&batch.hashes, &mut batch.ids);
        let mut start = 0;
        for ((&end, &hash), &likely) in batch.ends.iter().zip(&batch.hashes).zip(&batch.ids) {
            let token = batch.bytes.get(start..end)?;
            start = end;
            position = position.checked_add(1)?;
            let term = self.terms.insert_likely(token, hash, likely)?;
            scratch.found.push(occurrence(term, position));
            if !self.synonyms.is_empty() {
                self.collect_synonyms(token, position, scratch)?;
            }
            if !text.has_stems {
                continue;
            }
            let known = self.terms.value(term).map_or(UNKNOWN, |entry| entry.stem);
            let stem = if is_usual && known != UNKNOWN {
                known
            } else {
                self.learn_stem(term, token, language)?
            };
            if stem != term {
                scratch.found.push(occurrence(stem, position));
            }
        }
        batch.clear();
        Some(position)
    }

    fn collect_synonyms(
        &mut self,
        token: &[u8],
        position: u32,
        scratch: &mut Scratch,
    ) -> Option<()> {
        let synonyms = self.synonyms.clone();
        // The dictionary has no terms with a NUL.
        for group in synonyms.terms_of(token).filter(|group| !group.contains(&0)) {
            let (term, _) = self.terms.insert(&group)?;
            scratch.found.push(occurrence(term, position));
        }
        Some(())
    }

    /// Finds the stem of a term; the term itself if the stem is no other word.
    fn learn_stem(&mut self, term: TermId, token: &[u8], language: Language) -> Option<TermId> {
        let is_usual = language == self.language;
        let stem = match language.stem(token) {
            Some(stem) if stem != token => {
                let marked = [&[STEM_MARK], &stem[..]].concat();
                let (stem, is_new) = self.terms.insert(&marked)?;
                if let Some(entry) = self.terms.value_mut(stem) {
                    let references = if is_new { 0 } else { entry.stem };
                    entry.stem = references + u32::from(is_usual);
                }
                stem
            }
            _ => term,
        };
        if is_usual && let Some(entry) = self.terms.value_mut(term) {
            entry.stem = stem;
        }
        Some(stem)
    }

    /// Posts the collected occurrences. Returns the largest frequency.
    fn post(&mut self, row: u32, texts: &[FieldText<'_>], scratch: &mut Scratch) -> u32 {
        scratch.found.sort_unstable();
        self.touch(&scratch.found);
        let is_plain = texts.len() <= 1 && texts.iter().all(|text| weight_of(text, 1.0) == 1);
        let plain_mask = texts.first().map_or(1, mask_of);
        let mut posted = 0;
        let mut frequency_max = 0;
        for occurrences in scratch.found.chunk_by(|one, other| one >> 32 == other >> 32) {
            let term = (occurrences[0] >> 32) as TermId;
            scratch.positions.clear();
            scratch.positions.extend(occurrences.iter().map(|&occurrence| occurrence as u32));
            let positions = &scratch.positions[..];
            let (mut frequency, mut mask) = if is_plain {
                (positions.len() as u32, plain_mask)
            } else {
                self.weigh(term, positions, texts, &scratch.ends)
            };
            frequency_max = frequency_max.max(frequency);
            if self.lacks_frequencies {
                frequency = 1;
            }
            if !self.has_fields {
                mask = 1;
            }
            let posting = Posting { row, frequency, mask, positions };
            if let Some(entry) = self.terms.value_mut(term) {
                posted += usize::from(self.postings.push(&mut entry.list, &posting));
            }
        }
        self.records += posted;
        frequency_max
    }

    /// Reads the ends of the lists that postings are added to.
    fn touch(&self, found: &[u64]) {
        let mut last = None;
        let mut touched = 0;
        for occurrence in found {
            let term = (occurrence >> 32) as TermId;
            if last.replace(term) != Some(term)
                && let Some(entry) = self.terms.value(term)
            {
                touched ^= self.postings.touch(&entry.list);
            }
        }
        std::hint::black_box(touched);
    }

    /// Weighted frequency and fields of a term at positions of a document.
    fn weigh(
        &self,
        term: TermId,
        positions: &[u32],
        texts: &[FieldText<'_>],
        ends: &[(u32, usize)],
    ) -> (u32, u128) {
        let share = if self.is_stem(term) { STEM_SHARE } else { 1.0 };
        let (mut frequency, mut mask) = (0u32, 0);
        let mut ends = ends.iter().peekable();
        for &position in positions {
            while ends.next_if(|(end, _)| *end < position).is_some() {}
            if let Some(text) = ends.peek().and_then(|(_, number)| texts.get(*number)) {
                frequency = frequency.saturating_add(weight_of(text, share));
                mask |= mask_of(text);
            }
        }
        (frequency, mask)
    }

    fn is_stem(&self, term: TermId) -> bool {
        self.terms.text(term).first() == Some(&STEM_MARK)
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
        (self.removed, self.group) = (0, 0);
    }

    /// Drops postings of rows that are not `kept` and terms without postings, and joins sparse
    /// pages, from a place on until about `budget` postings were looked at. Returns the next place;
    /// none at the end. The first place is 0.
    pub fn vacuum(
        &mut self,
        from: usize,
        budget: usize,
        kept: &dyn Fn(u32) -> bool,
    ) -> Option<usize> {
        let mut place = from;
        let mut work = 0;
        while work < budget {
            if place < self.terms.end() {
                work += TERM_WORK + self.vacuum_group(&mut place, kept);
                continue;
            }
            let page = place.saturating_sub(FIRST_PAGE);
            if page >= self.terms.pages() {
                self.scratch = Scratch::default();
                return None;
            }
            self.terms.compact_page(page);
            place = FIRST_PAGE + page + 1;
            work += PAGE_WORK;
        }
        Some(place)
    }

    /// Vacuums a group of the list of a term. Returns an upper bound of the postings looked at.
    fn vacuum_group(&mut self, place: &mut usize, kept: &dyn Fn(u32) -> bool) -> usize {
        let term = *place as TermId;
        let group = std::mem::take(&mut self.group);
        let Some(entry) = self.terms.value_mut(term) else {
            *place += 1;
            return 0;
        };
        let before = self.postings.len(&entry.list);
        let next = self.postings.vacuum(&mut entry.list, group, &mut |row| kept(row));
        self.records -= before - self.postings.len(&entry.list);
        match next {
            Some(group) => self.group = group,
            None => {
                *place += 1;
                self.drop_unused(term);
            }
        }
        before.min(GROUP_ROWS)
    }

    /// Frees lengths of documents by pages of rows that are `over`.
    pub fn drop_pages(&mut self, is_over: &dyn Fn(usize) -> bool) {
        for page in 0..(self.end as usize).div_ceil(PAGE) {
            if is_over(page) {
                self.lengths.drop_page(page);
            }
        }
    }

    /// Removes a term that has no postings, and its stem if that has none either.
    fn drop_unused(&mut self, term: TermId) {
        let Some(entry) = self.terms.value(term) else { return };
        let (len, stem) = (self.postings.len(&entry.list), entry.stem);
        if len > 0 {
            return;
        }
        if self.is_stem(term) {
            if stem == 0 {
                self.terms.remove(term);
            }
            return;
        }
        self.terms.remove(term);
        if stem == UNKNOWN || stem == term {
            return;
        }
        if let Some(entry) = self.terms.value_mut(stem) {
            entry.stem = entry.stem.saturating_sub(1);
            if entry.stem == 0 {
                self.drop_unused(stem);
            }
        }
    }
}

fn occurrence(term: TermId, position: u32) -> u64 {
    u64::from(term) << 32 | u64::from(position)
}

/// Count of a word of a text: the whole part of a share of the weight, at least 1.
fn weight_of(text: &FieldText<'_>, share: f64) -> u32 {
    ((text.weight * share) as u32).max(1)
}

fn mask_of(text: &FieldText<'_>) -> u128 {
    1 << text.field.min(127)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(texts: &mut Texts, row: u32, fields: &[&str]) {
        let fields = fields.iter().enumerate().map(|(field, text)| FieldText {
            indexes_empty: false,
            is_further: false,
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
