//! Contents of an index: the present state, and what running queries need of the past.
//!
//! A change replaces values in place. While a query is suspended, the values that it may still need
//! are kept as an earlier version. A query of stamp S skips rows that have changed since S, and
//! takes their versions of S instead.

use crate::index::document::{Document, Value, Values};
use crate::index::field::{FieldStore, Misfit, value_bytes};
use crate::index::json::Listed;
use crate::index::schema::{LANGUAGE, SCORE, Schema, parse_number};
use crate::index::texts::{DocumentTexts, KeptTexts, TextIndex};
use crate::structures::documents::Documents;
use std::collections::{BTreeSet, HashMap};
use std::mem::size_of;
use std::num::NonZeroI64;
use std::ops::Range;

/// A change of one document.
#[derive(Clone, Copy, Debug)]
pub struct Change<'c> {
    /// The key.
    pub key: &'c [u8],
    /// Hash of the key.
    pub hash: u64,
    /// Position among the changes of the key.
    pub sequence: u64,
    /// The change itself.
    pub kind: ChangeKind<'c>,
}

/// Kinds of changes.
#[derive(Clone, Copy, Debug)]
pub enum ChangeKind<'c> {
    /// The key has no document any more.
    Remove,
    /// Only the expiry of the key changed.
    Expire(Option<i64>),
    /// Values of fields. Unnamed fields keep theirs, unless all are stated: then they are removed.
    Put {
        /// The stated fields.
        extent: Extent,
        /// Expiry of the key in Unix milliseconds.
        expiry: Option<i64>,
        /// The fields.
        fields: &'c [FieldChange],
        /// Bytes that the fields refer to.
        bytes: &'c [u8],
    },
}

/// Fields that a change states.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Extent {
    /// Some.
    Fields,
    /// All.
    Whole,
    /// All, read by a walk over present keys: a document that is indexed already has not changed.
    Scanned,
}

/// A changed field.
#[derive(Clone, Debug)]
pub struct FieldChange {
    /// Number of the field, [`SCORE`] or [`LANGUAGE`].
    pub number: u16,
    /// Bytes of the value; none if the document lacks the field.
    pub value: Option<Range<usize>>,
    /// Expiry of the field in Unix milliseconds.
    pub expiry: Option<i64>,
}

/// Circumstances of a change.
#[derive(Clone, Copy, Debug)]
pub struct Applying {
    /// Stamp of the latest suspended query.
    pub snapshot: Option<u64>,
    /// Whether another change of the key may be applied later that was made earlier.
    pub in_flight: bool,
}

/// An earlier version of a document.
#[derive(Debug)]
pub struct Version {
    /// The key.
    pub key: Box<[u8]>,
    /// Stamps from which and before which it was valid.
    pub stamps: Range<u64>,
    /// Expiry of the key in Unix milliseconds.
    pub expiry: Option<i64>,
    /// Score of the document.
    pub score: f32,
    /// The row, which orders results.
    pub row: u32,
    /// The values.
    pub values: Values,
}

/// Failures of a field.
#[derive(Clone, Debug, Default)]
pub struct FieldErrors {
    /// Number of failures.
    pub count: u64,
    /// The last one.
    pub last: Option<Failure>,
}

/// A value that does not fit its field.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Text of the error.
    pub text: Box<[u8]>,
    /// Key of the document.
    pub key: Box<[u8]>,
}

/// Contents of an index.
#[derive(Debug)]
pub struct Contents {
    documents: Documents,
    fields: Vec<FieldStore>,
    /// Words of the TEXT fields, if there are any.
    texts: Option<Box<TextIndex>>,
    default_score: f32,
    /// Changes carry values of JSON documents ([`crate::index::json::Listed`]).
    is_json: bool,
    /// The stamp at the beginning, which tells these contents from those before a flush.
    born: u64,
    stamp: u64,
    /// Values of hidden documents.
    hidden: HashMap<u32, Values>,
    /// Expiries of fields, by row.
    expiries: HashMap<u32, Vec<(u16, i64)>>,
    /// The earliest expiry of each row with such fields.
    due: BTreeSet<(i64, u32)>,
    /// Removed documents of which an earlier change may still come, with the removal's number.
    tombstones: Vec<(u64, u64)>,
    versions: Vec<Version>,
    errors: Vec<FieldErrors>,
    failures: FieldErrors,
    /// Number of extensions of the schema for which all documents are read again.
    layout: u16,
    /// Number of scans for synonyms ([`crate::text::Synonyms::scans`]).
    synonym_scans: u64,
    field_bytes: usize,
    version_bytes: usize,
    hidden_bytes: usize,
}

impl Contents {
    /// Contents without documents. `stamp` is above those of all earlier contents.
    pub fn new(schema: &Schema, stamp: u64) -> Self {
        let mut contents = Contents {
            documents: Documents::new(schema.has_texts()),
            fields: Vec::new(),
            texts: None,
            default_score: schema.documents.score.unwrap_or(1.0) as f32,
            is_json: schema.is_json(),
            born: stamp,
            stamp,
            hidden: HashMap::new(),
            expiries: HashMap::new(),
            due: BTreeSet::new(),
            tombstones: Vec::new(),
            versions: Vec::new(),
            errors: Vec::new(),
            failures: FieldErrors::default(),
            layout: 0,
            synonym_scans: schema.synonyms.scans,
            field_bytes: 0,
            version_bytes: 0,
            hidden_bytes: 0,
        };
        contents.extend(schema);
        contents
    }

    /// Adds the fields of a schema beyond the present ones, of which no document has values yet,
    /// and takes over its synonyms.
    pub fn extend(&mut self, schema: &Schema) {
        let has_scan = self.synonym_scans != schema.synonyms.scans;
        if has_scan || self.fields.len() < schema.fields.len() {
            self.layout = self.layout.wrapping_add(1);
        }
        self.synonym_scans = schema.synonyms.scans;
        for field in &schema.fields[self.fields.len()..] {
            let mut store = FieldStore::new(field);
            for row in self.documents.visible().iter() {
                store.set_missing(row, true);
            }
            self.field_bytes += store.footprint() + size_of::<FieldStore>();
            self.fields.push(store);
            self.errors.push(FieldErrors::default());
        }
        let old = std::mem::take(&mut self.hidden);
        for (row, values) in old {
            let mut values = values.into_vec();
            values.resize(self.fields.len(), Value::Missing);
            self.hidden.insert(row, values.into());
        }
        match &mut self.texts {
            Some(texts) => texts.change(schema),
            None if schema.has_texts() => {
                self.documents.keep_order();
                self.texts = Some(Box::new(TextIndex::new(schema)));
            }
            None => {}
        }
    }

    /// The stamp of the last change.
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// The stamp at the beginning: that of no other contents of the index.
    pub fn born(&self) -> u64 {
        self.born
    }

    /// The documents.
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    /// Number of documents that queries can see.
    pub fn len(&self) -> usize {
        self.documents.visible().len()
    }

    /// Whether no document can be seen.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Contents of a field.
    pub fn field(&self, number: usize) -> Option<&FieldStore> {
        self.fields.get(number)
    }

    /// Words of the TEXT fields, if there are any.
    pub fn texts(&self) -> Option<&TextIndex> {
        self.texts.as_deref()
    }

    /// Score of documents that state none.
    pub fn default_score(&self) -> f32 {
        self.default_score
    }

    /// Whether fields of a document expire.
    pub fn has_expiring_fields(&self, row: u32) -> bool {
        !self.expiries.is_empty() && self.expiries.contains_key(&row)
    }

    /// Versions that suspended queries may need.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Failures of each field.
    pub fn errors(&self) -> &[FieldErrors] {
        &self.errors
    }

    /// Failures of all fields.
    pub fn failures(&self) -> &FieldErrors {
        &self.failures
    }

    /// Bytes on the heap.
    pub fn footprint(&self) -> usize {
        // A set of expiries has about 24 bytes for each.
        let expiries = self.expiries.capacity() * (size_of::<(u32, Vec<(u16, i64)>)>() + 1)
            + self.due.len() * (24 + 2 * size_of::<(u16, i64)>());
        self.documents.footprint()
            + self.field_bytes
            + self.texts.as_ref().map_or(0, |texts| texts.footprint())
            + self.version_bytes
            + self.hidden_bytes
            + self.hidden.capacity() * (size_of::<(u32, Values)>() + 1)
            + self.versions.capacity() * size_of::<Version>()
            + self.tombstones.capacity() * size_of::<(u64, u64)>()
            + expiries
    }

    /// Begins changes that queries see at once.
    pub fn begin(&mut self) {
        self.stamp += 1;
    }

    /// Forgets versions that ended before the earliest suspended query began (`None`: there is
    /// none), and removals of which no earlier change can come.
    pub fn clean(&mut self, earliest: Option<u64>, mut in_flight: impl FnMut(u64) -> bool) {
        if !self.versions.is_empty() {
            self.versions
                .retain(|version| earliest.is_some_and(|earliest| version.stamps.end > earliest));
            self.version_bytes = self.versions.iter().map(Version::bytes).sum();
            if self.versions.is_empty() {
                self.versions = Vec::new();
            }
        }
        if !self.tombstones.is_empty() {
            self.tombstones.retain(|&(hash, _)| in_flight(hash));
        }
    }

    /// Applies a change. Later changes of the same document win, whatever comes first.
    pub fn apply(&mut self, change: &Change<'_>, applying: Applying) {
        let found = self.documents.find(change.hash, change.key);
        let latest = match found {
            Some(row) => self.documents.get(row).map_or(0, |document| document.sequence),
            None => self.removed_at(change.hash),
        };
        if latest > change.sequence {
            return;
        }
        match change.kind {
            ChangeKind::Remove => {
                if let Some(row) = found {
                    self.keep_version(row, applying.snapshot);
                    self.remove(row);
                    self.vacuum();
                }
                if applying.in_flight {
                    self.tombstones.push((change.hash, change.sequence));
                }
            }
            ChangeKind::Expire(expiry) => {
                let Some(row) = found else { return };
                self.keep_version(row, applying.snapshot);
                self.touch(row, change.sequence, expiry);
            }
            ChangeKind::Put { extent: Extent::Scanned, .. }
                if found.is_some_and(|row| self.knows_all_fields(row)) => {}
            ChangeKind::Put { extent, expiry, fields, bytes } => {
                let is_whole = extent != Extent::Fields;
                let row = match found {
                    Some(row) => row,
                    None => match self.documents.add(change.hash, change.key) {
                        Some(row) => row,
                        None => return,
                    },
                };
                if found.is_some() {
                    self.keep_version(row, applying.snapshot);
                } else {
                    self.documents.get_mut(row).score = self.default_score;
                }
                self.touch(row, change.sequence, expiry);
                if is_whole {
                    self.documents.get_mut(row).layout = self.layout;
                }
                self.put(row, found.is_none(), is_whole, fields, bytes);
                self.vacuum();
            }
        }
    }

    /// Whether a document was read since the schema was extended.
    fn knows_all_fields(&self, row: u32) -> bool {
        let document = self.documents.get(row);
        document.is_some_and(|document| document.layout == self.layout)
    }

    /// Number of the last removal of a key with this hash.
    fn removed_at(&self, hash: u64) -> u64 {
        let removals = self.tombstones.iter().filter(|(removed, _)| *removed == hash);
        removals.map(|&(_, sequence)| sequence).max().unwrap_or(0)
    }

    fn touch(&mut self, row: u32, sequence: u64, expiry: Option<i64>) {
        let document = self.documents.get_mut(row);
        document.sequence = sequence;
        document.stamp = self.stamp;
        // The year 1970 is past as well.
        self.documents.set_expiry(row, expiry.and_then(|at| NonZeroI64::new(at.max(1))));
    }

    /// Keeps the present values of a document that is about to change, if a suspended query can see
    /// them.
    fn keep_version(&mut self, row: u32, snapshot: Option<u64>) {
        let Some(document) = self.documents.get(row) else { return };
        if document.is_hidden || snapshot.is_none_or(|snapshot| document.stamp > snapshot) {
            return;
        }
        let version = Version {
            key: document.key.clone(),
            stamps: document.stamp..self.stamp,
            expiry: document.expiry.map(NonZeroI64::get),
            score: document.score,
            row,
            values: self.fields.iter().map(|field| field.get(row)).collect(),
        };
        self.version_bytes += version.bytes();
        self.versions.push(version);
    }

    fn change_field<R>(
        &mut self,
        number: usize,
        change: impl FnOnce(&mut FieldStore) -> R,
    ) -> Option<R> {
        let field = self.fields.get_mut(number)?;
        let before = field.footprint();
        let result = change(field);
        self.field_bytes = self.field_bytes + field.footprint() - before;
        Some(result)
    }

    fn put(
        &mut self,
        row: u32,
        is_new: bool,
        is_whole: bool,
        fields: &[FieldChange],
        bytes: &[u8],
    ) {
        if is_whole {
            self.set_expiries(row, Vec::new());
        }
        if fields.iter().any(|field| field.expiry.is_some()) || !self.expiries.is_empty() {
            self.change_expiries(row, fields);
        }
        let text_of = |field: &FieldChange| field.value.clone().and_then(|value| bytes.get(value));
        if let Some(score) = fields.iter().find(|field| field.number == SCORE) {
            let number = text_of(score).and_then(parse_number);
            let score = number.map_or(self.default_score, |score| score as f32);
            self.documents.set_score(row, score);
        }
        if self.hidden.contains_key(&row) {
            self.put_hidden(row, is_whole, fields, bytes);
            return;
        }
        let has_texts = self.states_texts(is_whole, fields);
        let row = if has_texts && !is_new { self.renew(row) } else { row };
        if is_new {
            for number in 0..self.fields.len() {
                if self.fields[number].missing().is_some() {
                    self.change_field(number, |field| field.set_missing(row, true));
                }
            }
        } else if is_whole {
            let named = |number| fields.iter().any(|field| usize::from(field.number) == number);
            for number in (0..self.fields.len()).filter(|&number| !named(number)) {
                self.change_field(number, |field| field.set(row, &Value::Missing));
            }
        }
        let mut misfits = Vec::new();
        for field in fields {
            let text = text_of(field);
            let number = usize::from(field.number);
            let is_json = self.is_json;
            if let Some(Err(Misfit)) = self.change_field(number, |store| match is_json {
                true => store.set_listed(row, text),
                false => store.set_text(row, text),
            }) {
                misfits.push(number);
                self.note_failure(number, row, text.unwrap_or_default());
            }
        }
        if has_texts {
            self.put_texts(row, !misfits.is_empty(), fields, bytes);
        }
        if misfits.is_empty() {
            self.documents.hide(row, false);
        } else {
            self.hide(row, &misfits);
        }
    }

    /// Whether a change states the texts of its document: it states all or none.
    fn states_texts(&self, is_whole: bool, fields: &[FieldChange]) -> bool {
        let Some(texts) = &self.texts else { return false };
        let is_text = |number| number == LANGUAGE || texts.rules().has_field(number);
        is_whole || fields.iter().any(|field| is_text(field.number))
    }

    /// Indexes the texts that a change states, unless the document is hidden. They are kept if they
    /// may have to be indexed again.
    fn put_texts(&mut self, row: u32, is_hidden: bool, fields: &[FieldChange], bytes: &[u8]) {
        let Some(texts) = &mut self.texts else { return };
        let (mut given, mut language) = (Vec::new(), None);
        for field in fields {
            let Some(text) = field.value.clone().and_then(|value| bytes.get(value)) else {
                continue;
            };
            match field.number {
                LANGUAGE => language = Some(text),
                number if texts.rules().has_field(number) && self.is_json => {
                    given.extend(Listed::read(text).texts().map(|text| (number, text)));
                }
                number if texts.rules().has_field(number) => given.push((number, text)),
                _ => {}
            }
        }
        let document = DocumentTexts { texts: &given, language };
        let expires = self.expiries.get(&row).is_some_and(|expiries| {
            let is_text = |number| number == LANGUAGE || texts.rules().has_field(number);
            expiries.iter().any(|&(number, _)| is_text(number))
        });
        if is_hidden || expires {
            texts.keep(row, KeptTexts::of(document));
        } else {
            texts.take_kept(row);
        }
        match is_hidden {
            true => texts.remove(row),
            false => {
                texts.add(row, document);
            }
        }
    }

    /// Moves a document to a row above all others, for its changed texts. Returns the row.
    fn renew(&mut self, row: u32) -> u32 {
        let Some(new) = self.documents.renew(row) else { return row };
        for number in 0..self.fields.len() {
            self.change_field(number, |field| field.rename(row, new));
        }
        let expiries = self.expiries.get(&row).cloned().unwrap_or_default();
        self.set_expiries(row, Vec::new());
        self.set_expiries(new, expiries);
        if let Some(texts) = &mut self.texts {
            texts.take_kept(row);
            texts.remove(row);
        }
        self.release(row);
        new
    }

    /// Gives a row back that has no document any more.
    fn release(&mut self, row: u32) {
        if let Some(page) = self.documents.release(row) {
            for number in 0..self.fields.len() {
                self.change_field(number, |field| field.drop_page(page));
            }
        }
    }

    /// Drops some words of removed documents. Suspended queries may still need them.
    fn vacuum(&mut self) {
        let documents = &self.documents;
        if let Some(texts) = &mut self.texts
            && self.versions.is_empty()
        {
            let is_kept = |row| documents.get(row).is_some();
            texts.vacuum(&is_kept, &|page| documents.is_page_over(page));
        }
    }

    /// Takes a document with values that do not fit out of the fields.
    fn hide(&mut self, row: u32, misfits: &[usize]) {
        let mut values: Values = self.fields.iter().map(|field| field.get(row)).collect();
        misfits.iter().for_each(|&number| values[number] = Value::Misfit);
        self.clear_row(row);
        self.documents.hide(row, true);
        self.hidden_bytes += values_bytes(&values);
        self.hidden.insert(row, values);
    }

    /// Changes values of a hidden document, and shows it once all fit.
    fn put_hidden(&mut self, row: u32, is_whole: bool, fields: &[FieldChange], bytes: &[u8]) {
        let Some(mut values) = self.hidden.remove(&row) else { return };
        self.hidden_bytes -= values_bytes(&values);
        if is_whole {
            values.fill(Value::Missing);
        }
        if self.states_texts(is_whole, fields) {
            self.put_texts(row, true, fields, bytes);
        }
        for field in fields {
            let number = usize::from(field.number);
            let Some(value) = values.get_mut(number) else { continue };
            let text = field.value.clone().and_then(|value| bytes.get(value));
            // The field converts the text; the row is not searched while it is hidden.
            let is_json = self.is_json;
            let converted = self.change_field(number, |store| {
                let set = match is_json {
                    true => store.set_listed(row, text),
                    false => store.set_text(row, text),
                };
                let value = if set.is_ok() { store.get(row) } else { Value::Misfit };
                store.set(row, &Value::Missing);
                store.set_missing(row, false);
                value
            });
            *value = converted.unwrap_or_default();
            if *value == Value::Misfit {
                self.note_failure(number, row, text.unwrap_or_default());
            }
        }
        self.show_if_fit(row, values);
    }

    /// Puts a document into the fields if all values fit, else it stays hidden.
    fn show_if_fit(&mut self, row: u32, values: Values) {
        if values.contains(&Value::Misfit) {
            self.hidden_bytes += values_bytes(&values);
            self.hidden.insert(row, values);
            return;
        }
        let row = self.restore_texts(row);
        for (number, value) in values.iter().enumerate() {
            self.change_field(number, |field| {
                field.set_missing(row, *value == Value::Missing);
                field.set(row, value);
            });
        }
        self.documents.hide(row, false);
    }

    /// Indexes the kept texts of a document that is shown again. Returns its row.
    fn restore_texts(&mut self, row: u32) -> u32 {
        let kept = self.texts.as_mut().and_then(|texts| texts.take_kept(row));
        // Without kept texts, its words still stand at its row.
        kept.map_or(row, |kept| self.index_again(row, kept))
    }

    /// Indexes other texts of a document, at a row above all others. Returns the row.
    fn index_again(&mut self, row: u32, kept: KeptTexts) -> u32 {
        let row = self.renew(row);
        let Some(texts) = &mut self.texts else { return row };
        let given: Vec<_> = kept.texts.iter().map(|(number, text)| (*number, &**text)).collect();
        texts.add(row, DocumentTexts { texts: &given, language: kept.language.as_deref() });
        let is_text = |number| number == LANGUAGE || texts.rules().has_field(number);
        let expiries = self.expiries.get(&row);
        if expiries.is_some_and(|own| own.iter().any(|&(number, _)| is_text(number))) {
            texts.keep(row, kept);
        }
        row
    }

    fn note_failure(&mut self, number: usize, row: u32, text: &[u8]) {
        let key = self.documents.get(row).map(|document| document.key.clone());
        let text = match self.is_json.then(|| Listed::read(text)) {
            Some(Listed::Misfit(text)) => text.to_vec(),
            _ => self.fields[number].misfit(text),
        };
        let last = Some(Failure { text: text.into(), key: key.unwrap_or_default() });
        // As in Redis, failures of JSON values are not counted by field.
        let of_field = Some(&mut self.errors[number]).filter(|_| !self.is_json);
        for errors in of_field.into_iter().chain([&mut self.failures]) {
            errors.count += 1;
            errors.last.clone_from(&last);
        }
    }

    fn clear_row(&mut self, row: u32) {
        for number in 0..self.fields.len() {
            self.change_field(number, |field| {
                field.set(row, &Value::Missing);
                field.set_missing(row, false);
            });
        }
    }

    fn remove(&mut self, row: u32) {
        match self.hidden.remove(&row) {
            Some(values) => self.hidden_bytes -= values_bytes(&values),
            None => self.clear_row(row),
        }
        self.set_expiries(row, Vec::new());
        self.documents.remove(row);
        if let Some(texts) = &mut self.texts {
            texts.take_kept(row);
            texts.remove(row);
        }
        self.release(row);
    }

    fn change_expiries(&mut self, row: u32, fields: &[FieldChange]) {
        let mut expiries = self.expiries.get(&row).cloned().unwrap_or_default();
        for field in fields {
            expiries.retain(|(number, _)| *number != field.number);
            expiries.extend(field.expiry.map(|at| (field.number, at)));
        }
        self.set_expiries(row, expiries);
    }

    fn set_expiries(&mut self, row: u32, expiries: Vec<(u16, i64)>) {
        let earliest = |expiries: &Vec<(u16, i64)>| expiries.iter().map(|(_, at)| *at).min();
        if let Some(old) = self.expiries.remove(&row).as_ref().and_then(earliest) {
            self.due.remove(&(old, row));
        }
        if let Some(at) = earliest(&expiries) {
            self.due.insert((at, row));
            self.expiries.insert(row, expiries);
        }
    }

    /// Whether fields have expired at a time in Unix milliseconds that are still indexed.
    pub fn has_expired_fields(&self, now_ms: i64) -> bool {
        self.due.first().is_some_and(|&(at, _)| at <= now_ms)
    }

    /// Removes the fields that have expired at a time in Unix milliseconds.
    pub fn expire_fields(&mut self, now_ms: i64, snapshot: Option<u64>) {
        if !self.has_expired_fields(now_ms) {
            return;
        }
        self.begin();
        while let Some(&(at, row)) = self.due.first()
            && at <= now_ms
        {
            let expiries = self.expiries.get(&row).cloned().unwrap_or_default();
            let (expired, left): (Vec<_>, Vec<_>) =
                expiries.into_iter().partition(|(_, at)| *at <= now_ms);
            self.set_expiries(row, left);
            self.keep_version(row, snapshot);
            self.documents.get_mut(row).stamp = self.stamp;
            let row = self.expire_texts(row, &expired);
            let hidden = self.hidden.remove(&row);
            if let Some(mut values) = hidden {
                self.hidden_bytes -= values_bytes(&values);
                for (number, _) in expired {
                    if let Some(value) = values.get_mut(usize::from(number)) {
                        *value = Value::Missing;
                    }
                }
                self.show_if_fit(row, values);
                continue;
            }
            for (number, _) in expired {
                if number == SCORE {
                    self.documents.set_score(row, self.default_score);
                }
                self.change_field(usize::from(number), |field| field.set(row, &Value::Missing));
            }
        }
    }

    /// Removes the words of expired texts. Returns the row of the document.
    fn expire_texts(&mut self, row: u32, expired: &[(u16, i64)]) -> u32 {
        let Some(texts) = &mut self.texts else { return row };
        let is_expired = |number: u16| expired.iter().any(|&(expired, _)| expired == number);
        let rules = texts.rules();
        let has_texts = |&(number, _): &(u16, i64)| number == LANGUAGE || rules.has_field(number);
        if !expired.iter().any(has_texts) {
            return row;
        }
        let Some(mut kept) = texts.take_kept(row) else { return row };
        kept.texts.retain(|&(number, _)| !is_expired(number));
        if is_expired(LANGUAGE) {
            kept.language = None;
        }
        if self.hidden.contains_key(&row) {
            texts.keep(row, kept);
            return row;
        }
        let row = self.index_again(row, kept);
        self.documents.hide(row, false);
        row
    }

    /// A document's present values.
    pub fn row(&self, row: u32) -> Row<'_> {
        Row { contents: self, row }
    }
}

fn values_bytes(values: &Values) -> usize {
    size_of_val(&**values) + values.iter().map(value_bytes).sum::<usize>()
}

impl Version {
    fn bytes(&self) -> usize {
        self.key.len() + values_bytes(&self.values)
    }
}

/// A document of an index.
#[derive(Clone, Copy)]
pub struct Row<'c> {
    contents: &'c Contents,
    row: u32,
}

impl Document for Row<'_> {
    fn vector(&self, field: usize, each: &mut dyn FnMut(&[u8])) {
        if let Some(FieldStore::Vectors(store)) = self.contents.field(field)
            && let Some(vector) = store.get(self.row)
        {
            each(vector);
        }
    }

    fn any_number(&self, field: usize, each: &mut dyn FnMut(f64) -> bool) -> bool {
        match self.contents.field(field) {
            Some(FieldStore::Numbers(store)) => store.any_number(self.row, each),
            _ => false,
        }
    }

    fn any_tag(&self, field: usize, each: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        match self.contents.field(field) {
            Some(FieldStore::Tags(store)) => store.tags_of(self.row).any(each),
            _ => false,
        }
    }

    fn is_missing(&self, field: usize) -> bool {
        self.contents.field(field).is_none_or(|field| field.is_missing(self.row))
    }
}
