//! Feeds the indexes: notes which documents an effect touches, copies their fields under the locks,
//! applies the changes after the unlock and before anybody is answered.

use crate::handle::Handle;
use crate::state::documents::{Documents, Noted};
use crate::state::effect::Effect;
use crate::state::observers::DOCUMENTS;
use crate::structures::custom::TypeNumber;
use crate::structures::entry::Entry;
use crate::structures::hash::HashRef;
use crate::structures::json::change::place_of;
use crate::structures::key_hash::Key;
use crate::structures::view::View;
use petrel_json::{Step, Value, Work};
use petrel_search::index::batch::{ChangedKey, Copying};
use petrel_search::index::contents::{Contents, Extent};
use petrel_search::index::coverage::{self, Covering, Touched};
use petrel_search::index::json::JsonPaths;
use std::mem::take;

/// Documents from which on detached contents are freed by a thread of their own.
const FREED_INLINE_MAX: usize = 1000;

impl Handle {
    /// Takes the view of the indexes again. Documents noted so far are applied by the old one.
    pub(crate) fn renew_documents(&mut self) {
        self.flush_documents();
        let view = self.ks.indexes.view();
        let has_indexes = !view.indexes.is_empty();
        self.observers.set_bit(DOCUMENTS, has_indexes);
        match &mut self.observers.documents {
            Some(documents) => documents.view = view,
            documents if has_indexes => {
                let pending = self.ks.indexes.fence.join();
                *documents = Some(Box::new(Documents::new(view, pending)));
            }
            _ => {}
        }
    }

    /// Ends the thread's part in the indexes.
    pub(crate) fn leave_indexes(&mut self) {
        if let Some(documents) = self.observers.documents.take() {
            self.ks.indexes.fence.leave(&documents.pending);
        }
    }

    /// Notes the document that an effect touches, if an index covers its key.
    pub(crate) fn note_document(&mut self, db: u16, key: Key<'_>, effect: &Effect<'_>) {
        let Some(documents) = &mut self.observers.documents else { return };
        if documents.view.covering(db, key.bytes).is_empty() {
            return;
        }
        let touched = match *effect {
            Effect::FieldPut { field, .. }
            | Effect::FieldExpire { field, .. }
            | Effect::FieldRemove { field, .. } => return documents.note_field(db, key, field),
            Effect::Custom { of: TypeNumber::JSON, change, .. } => {
                return documents.note_place(db, key, place_of(change).as_deref());
            }
            Effect::Expire { .. } => Touched::EXPIRY,
            Effect::Put { .. }
            | Effect::Store { .. }
            | Effect::CopyFrom { .. }
            | Effect::Remove { .. } => Touched::WHOLE,
            // Elements of other collections: the key never was a document.
            _ => return,
        };
        documents.note_all(db, key, touched);
    }

    /// Whether an index may cover a key.
    pub(crate) fn is_document(&self, db: u16, key: Key<'_>) -> bool {
        let documents = self.observers.documents.as_ref();
        documents.is_some_and(|documents| !documents.view.covering(db, key.bytes).is_empty())
    }

    /// Notes a new hash: it is a document even if no index has any of its fields.
    #[inline(never)]
    pub(crate) fn note_new_document(&mut self, db: u16, key: Key<'_>) {
        if let Some(documents) = &mut self.observers.documents {
            documents.note_all(db, key, Touched::WHOLE);
        }
    }

    /// Notes that one index has to read a document again. The key's stripe is held.
    pub(crate) fn note_for_index(&mut self, db: u16, key: Key<'_>, index: u32) {
        if let Some(documents) = &mut self.observers.documents
            && documents.view.covering(db, key.bytes).contains(&index)
        {
            documents.note(db, (key.bytes, key.hash), index, Touched::SCANNED);
        }
    }

    /// Copies the noted documents, with their stripes held; returns whether there are any.
    pub(crate) fn copy_documents(&mut self) -> bool {
        let Some(mut documents) = self.observers.documents.take() else { return false };
        let has_any = !documents.noted.is_empty();
        if has_any {
            self.copy_noted(&mut documents);
        }
        self.observers.documents = Some(documents);
        has_any
    }

    fn copy_noted(&self, documents: &mut Documents) {
        let fence = &self.ks.indexes.fence;
        fence.begin(&documents.pending);
        let noted = take(&mut documents.noted);
        let mut last: Option<std::ops::Range<usize>> = None;
        let (mut sequence, mut follows) = (0, false);
        for one in &noted {
            let hash = one.hash.bits();
            // The indexes of one key share the change.
            if last.replace(one.key.clone()).as_ref() != Some(&one.key) {
                follows = fence.depart(hash);
                documents.departed.push(hash);
                sequence = fence.next();
            }
            self.copy_document(documents, one, sequence, follows);
        }
        documents.noted = noted;
        documents.noted.clear();
        documents.keys.clear();
    }

    fn copy_document(
        &self,
        documents: &mut Documents,
        noted: &Noted,
        sequence: u64,
        follows: bool,
    ) {
        let Documents { view, keys, batch, .. } = documents;
        let Some(covering) = view.indexes.get(noted.index as usize) else { return };
        let key = &keys[noted.key.clone()];
        let changed = ChangedKey { key, hash: noted.hash.bits(), sequence };
        let found = self.find(noted.db, Key { bytes: key, hash: noted.hash });
        let stored = found.and_then(|(_, entry)| Some((entry, Stored::of(entry, covering)?)));
        let Some((entry, stored)) = stored else {
            return batch.remove(noted.index, changed);
        };
        let is_whole = noted.touched.is_whole() || follows || covering.live.scan.is_running();
        let expiry = entry.expiry();
        if !is_whole && !noted.touched.has_fields() {
            return batch.expire(noted.index, changed, expiry);
        }
        let extent = match () {
            () if noted.touched.is_scanned() => Extent::Scanned,
            () if is_whole => Extent::Whole,
            () => Extent::Fields,
        };
        let copying = batch.put(noted.index, changed, extent, expiry);
        let is_wanted = |number| is_whole || noted.touched.has_field(number);
        match stored {
            Stored::Hash(hash) => copy_hash(&hash, covering, &is_wanted, copying),
            Stored::Json(root, paths) => copy_json(root, paths, &is_wanted, copying),
        }
    }

    /// Applies the copied changes. Nothing waits for a stripe meanwhile.
    pub(crate) fn apply_documents(&mut self) {
        let Some(documents) = &mut self.observers.documents else { return };
        let fence = &self.ks.indexes.fence;
        let grown = documents.batch.apply(&documents.view, fence);
        documents.departed.drain(..).for_each(|hash| fence.arrive(hash));
        fence.end(&documents.pending);
        self.count_foreign(grown);
    }

    /// Applies the changes of the held keys so far, for a query within a transaction or script.
    pub fn flush_documents(&mut self) {
        if self.copy_documents() {
            self.apply_documents();
        }
    }

    /// Takes the view of the indexes again if it has changed: for a command that has changed it.
    pub fn see_indexes(&mut self) {
        self.see_sinks();
    }

    /// Waits until every change that was visible before is in the indexes.
    pub fn wait_for_indexes(&mut self) {
        self.see_sinks();
        self.flush_documents();
        let own = self.observers.documents.as_ref().map(|documents| &documents.pending);
        self.ks.indexes.fence.wait(own);
    }

    /// Empties the indexes of a database that is cleared. Everything is held.
    pub(crate) fn clear_indexes(&mut self, db: u16) {
        let view = self.ks.indexes.view();
        for covering in view.indexes.iter().filter(|covering| covering.db == db) {
            let contents = covering.live.clear(&covering.schema);
            self.free_contents(contents, covering);
        }
    }

    /// Counts detached contents of an index as freed, and frees them.
    pub fn free_contents(&self, contents: Contents, covering: &Covering) {
        let left = covering.live.read().footprint() as i64;
        let left = if covering.live.is_dropped() { 0 } else { left };
        self.count_foreign(left - contents.footprint() as i64);
        if contents.documents().len() > FREED_INLINE_MAX {
            let freeing = std::thread::Builder::new().name("index-free".into());
            // Without a thread the contents are freed here.
            let _ = freeing.spawn(move || drop(contents));
        }
    }

    /// Moves the indexes of two databases with their documents. Everything is held.
    pub(crate) fn swap_indexes(&mut self, a: u16, b: u16) {
        let view = self.ks.indexes.view();
        if view.indexes.is_empty() {
            return;
        }
        self.flush_documents();
        let swapped = view.indexes.iter().map(|covering| {
            let db = match covering.db {
                db if db == a => b,
                db if db == b => a,
                db => db,
            };
            Covering::new(db, covering.live.clone(), covering.schema.clone())
        });
        self.ks.set_index_view(coverage::View::new(swapped.collect()));
        self.renew_observers();
    }
}

/// A document of an index.
enum Stored<'e> {
    Hash(HashRef<'e>),
    Json(Value<'e>, &'e JsonPaths),
}

impl<'e> Stored<'e> {
    /// The document of a key; none if it is of another type.
    fn of(entry: Entry, covering: &'e Covering) -> Option<Self> {
        match &covering.paths {
            Some(paths) => Some(Stored::Json(View::new(entry).json().ok()?, paths)),
            None => HashRef::of(entry, i64::MIN).map(Stored::Hash),
        }
    }
}

fn copy_hash(
    hash: &HashRef<'_>,
    covering: &Covering,
    is_wanted: &dyn Fn(u16) -> bool,
    mut copying: Copying<'_>,
) {
    let mut scratch = itoa::Buffer::new();
    for (name, number) in covering.schema.watched().filter(|(_, number)| is_wanted(*number)) {
        match hash.get(name) {
            Some(field) => {
                copying.field(number, Some(field.value.bytes(&mut scratch)), field.expiry);
            }
            None => copying.field(number, None, None),
        }
    }
}

fn copy_json(
    root: Value<'_>,
    paths: &JsonPaths,
    is_wanted: &dyn Fn(u16) -> bool,
    mut copying: Copying<'_>,
) {
    // One budget for all paths of the document.
    let mut work = Work::default();
    for number in paths.numbers().filter(|number| is_wanted(*number)) {
        copying.field_with(number, &mut |out| paths.list(number, root, &mut work, out));
    }
}

impl Documents {
    /// Notes a change of a JSON document at a place, or of all of it.
    fn note_place(&mut self, db: u16, key: Key<'_>, place: Option<&[Step<'_>]>) {
        let view = self.view.clone();
        for &index in view.covering(db, key.bytes) {
            let touched = view.indexes[index as usize].touched_at(place);
            if touched != Touched::default() {
                self.note(db, (key.bytes, key.hash), index, touched);
            }
        }
    }

    fn note_field(&mut self, db: u16, key: Key<'_>, field: &[u8]) {
        let view = self.view.clone();
        for &index in view.covering(db, key.bytes) {
            let touched = view.indexes[index as usize].touched(field);
            if touched != Touched::default() {
                self.note(db, (key.bytes, key.hash), index, touched);
            }
        }
    }

    fn note_all(&mut self, db: u16, key: Key<'_>, touched: Touched) {
        let view = self.view.clone();
        for &index in view.covering(db, key.bytes) {
            self.note(db, (key.bytes, key.hash), index, touched);
        }
    }
}
