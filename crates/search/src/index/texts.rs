//! Words of the TEXT fields of an index: from the texts of a document to terms.

use crate::index::schema::{FieldKind, IndexFlag, Schema};
use crate::structures::texts::{FieldText, StoredDetails, Texts};
use crate::text::{Language, STOP_WORDS, Synonyms};
use std::collections::{HashMap, HashSet};
use std::mem::size_of;
use std::sync::Arc;

/// Postings looked at by a change while removed documents are vacuumed. A change adds fewer, so the
/// vacuum ends.
const VACUUM_BUDGET: usize = 2048;

/// Rules by which texts become terms.
#[derive(Clone, Debug)]
pub struct TextRules {
    fields: Vec<TextField>,
    /// Language of documents that state none.
    language: Language,
    stop_words: HashSet<Box<[u8]>, foldhash::fast::FixedState>,
    stop_word_len_max: usize,
    details: StoredDetails,
    synonyms: Arc<Synonyms>,
}

/// A searched TEXT field.
#[derive(Clone, Debug)]
struct TextField {
    /// Number among the fields.
    number: u16,
    weight: f64,
    has_stems: bool,
    indexes_empty: bool,
}

/// The texts of a document.
#[derive(Clone, Copy, Debug, Default)]
pub struct DocumentTexts<'d> {
    /// Number and value of each text that the document has; texts of one field are adjacent.
    pub texts: &'d [(u16, &'d [u8])],
    /// Name of the document's language, if it states one.
    pub language: Option<&'d [u8]>,
}

impl TextRules {
    /// The rules of a schema.
    pub fn of(schema: &Schema) -> Self {
        let stop_words: HashSet<Box<[u8]>, _> = match &schema.stop_words {
            Some(words) => words.iter().map(|word| word.to_ascii_lowercase().into()).collect(),
            None => STOP_WORDS.iter().map(|word| word.as_bytes().into()).collect(),
        };
        let language = schema.documents.language.as_deref().and_then(Language::of);
        TextRules {
            fields: fields_of(schema),
            language: language.unwrap_or_default(),
            stop_word_len_max: stop_words.iter().map(|word| word.len()).max().unwrap_or(0),
            stop_words,
            synonyms: schema.synonyms.clone(),
            details: StoredDetails {
                fields: schema.texts().count() > 1 && !schema.has_flag(IndexFlag::NoFields),
                frequencies: !schema.has_flag(IndexFlag::NoFrequencies),
                positions: !schema.has_flag(IndexFlag::NoOffsets),
            },
        }
    }

    /// Whether a folded word is not indexed.
    #[inline]
    pub fn is_stop_word(&self, word: &[u8]) -> bool {
        word.len() <= self.stop_word_len_max && self.stop_words.contains(word)
    }

    /// Language of documents that state none.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Synonyms of words.
    pub fn synonyms(&self) -> &Arc<Synonyms> {
        &self.synonyms
    }

    /// Empty texts by these rules.
    pub fn empty(&self) -> Texts {
        let mut texts = Texts::storing(self.details, self.language);
        texts.set_synonyms(&self.synonyms);
        texts
    }

    /// Whether a field is a searched text.
    pub fn has_field(&self, number: u16) -> bool {
        self.fields.iter().any(|field| field.number == number)
    }

    /// The searched texts, by their number among the fields.
    pub fn fields(&self) -> impl Iterator<Item = u16> + '_ {
        self.fields.iter().map(|field| field.number)
    }

    /// Adds the texts of a document to `texts`. Returns false if they cannot be added.
    pub fn add(&self, texts: &mut Texts, row: u32, document: DocumentTexts<'_>) -> bool {
        let language = document.language.and_then(Language::of).unwrap_or(self.language);
        let mut before = None;
        let given = document.texts.iter().filter_map(|&(number, text)| {
            let at = self.fields.iter().position(|field| field.number == number)?;
            let is_further = before.replace(at) == Some(at);
            let &TextField { weight, has_stems, indexes_empty, .. } = &self.fields[at];
            Some(FieldText { field: at, weight, has_stems, indexes_empty, is_further, text })
        });
        // Most documents have few texts.
        let given: Vec<FieldText<'_>> = given.collect();
        texts.add(row, &given, language, &|word| self.is_stop_word(word))
    }
}

fn fields_of(schema: &Schema) -> Vec<TextField> {
    let fields = schema.texts().map(|number| {
        let field = &schema.fields[number];
        let (weight, has_stems) = match field.kind {
            FieldKind::Text { weight, is_unstemmed, .. } => (weight, !is_unstemmed),
            _ => (1.0, true),
        };
        TextField { number: number as u16, weight, has_stems, indexes_empty: field.indexes_empty }
    });
    fields.collect()
}

/// Words of an index, and texts of documents that may be indexed again.
#[derive(Debug)]
pub struct TextIndex {
    rules: Arc<TextRules>,
    texts: Texts,
    /// Texts of documents that are hidden or have fields that expire.
    kept: HashMap<u32, KeptTexts>,
    kept_bytes: usize,
    /// The next term of a vacuum.
    vacuum: Option<usize>,
}

/// The texts of a document.
#[derive(Clone, Debug, Default)]
pub struct KeptTexts {
    /// Number and value of each text.
    pub texts: Vec<(u16, Box<[u8]>)>,
    /// Name of the document's language, if it states one.
    pub language: Option<Box<[u8]>>,
}

impl KeptTexts {
    /// Copies texts.
    pub fn of(document: DocumentTexts<'_>) -> Self {
        KeptTexts {
            texts: document.texts.iter().map(|&(number, text)| (number, text.into())).collect(),
            language: document.language.map(Into::into),
        }
    }

    fn bytes(&self) -> usize {
        let texts = self.texts.iter().map(|(_, text)| size_of::<(u16, Box<[u8]>)>() + text.len());
        texts.sum::<usize>() + self.language.as_ref().map_or(0, |language| language.len())
    }
}

impl TextIndex {
    /// Words of no document.
    pub fn new(schema: &Schema) -> Self {
        let rules = Arc::new(TextRules::of(schema));
        let texts = rules.empty();
        TextIndex { rules, texts, kept: HashMap::new(), kept_bytes: 0, vacuum: None }
    }

    /// Takes over the rules of a schema with more fields or other synonyms.
    pub fn change(&mut self, schema: &Schema) {
        self.rules = Arc::new(TextRules::of(schema));
        if self.rules.details.fields {
            self.texts.store_fields();
        }
        self.texts.set_synonyms(&self.rules.synonyms);
    }

    /// The rules.
    pub fn rules(&self) -> &Arc<TextRules> {
        &self.rules
    }

    /// The words.
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        self.texts.footprint()
            + self.rules.synonyms.footprint()
            + self.kept_bytes
            + self.kept.capacity() * (size_of::<(u32, KeptTexts)>() + 1)
    }

    /// Adds a document.
    pub fn add(&mut self, row: u32, document: DocumentTexts<'_>) -> bool {
        self.rules.add(&mut self.texts, row, document)
    }

    /// Removes a document that was added.
    pub fn remove(&mut self, row: u32) {
        self.texts.remove(row);
    }

    /// Keeps the texts of a document.
    pub fn keep(&mut self, row: u32, texts: KeptTexts) {
        self.kept_bytes += texts.bytes();
        if let Some(old) = self.kept.insert(row, texts) {
            self.kept_bytes -= old.bytes();
        }
    }

    /// Takes the kept texts of a document.
    pub fn take_kept(&mut self, row: u32) -> Option<KeptTexts> {
        let kept = self.kept.remove(&row)?;
        self.kept_bytes -= kept.bytes();
        Some(kept)
    }

    /// Drops some postings of removed documents, if there are many of them.
    pub fn vacuum(&mut self, kept: &dyn Fn(u32) -> bool, is_page_over: &dyn Fn(usize) -> bool) {
        let from = match self.vacuum {
            Some(from) => from,
            None if self.texts.needs_vacuum() => {
                self.texts.begin_vacuum();
                0
            }
            None => return,
        };
        self.vacuum = self.texts.vacuum(from, VACUUM_BUDGET, kept);
        if self.vacuum.is_none() {
            self.texts.drop_pages(is_page_over);
        }
    }
}
