//! Schemas: sets of field names, stored once for all compact hashes that have them.
//!
//! ```text
//! names    the shortest first, those of one length by their bytes: "age" "name" "email"
//! lengths  by length: index of the first name that is at least as long, and its offset
//! ```
//!
//! A compact hash owns a reference to its schema, so reading one takes no lock. The table of
//! schemas, behind a mutex, is used only to find or make one for new field names, and by the last
//! owner of one that removes it.

use crate::structures::key_hash::KeyHasher;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Names from this length on share a bucket of [`Schema::lengths`].
const LONG: usize = 63;

/// Names in a bucket up to which they are compared one by one.
const WALKED: usize = 16;

/// Bytes of a name that are compared at once.
const WORD: usize = 8;

/// Bytes of a schema in the table, with the unused part of the table, and of its counts.
const OVERHEAD: usize = size_of::<Schema>() + 2 * size_of::<usize>() + 2 * SLOT;
const SLOT: usize = size_of::<(u64, Weak<Schema>)>();

/// A set of field names.
#[derive(Debug)]
pub struct Schema {
    /// The names without separators.
    names: Box<[u8]>,
    /// End of each name in [`Schema::names`].
    ends: Box<[u32]>,
    /// Index of the first name of at least this length; as long as the longest name, up to
    /// [`LONG`], requires.
    lengths: Box<[u32]>,
    hash: u64,
    /// References to it that are not those of keys.
    holds: AtomicUsize,
    table: Arc<Schemas>,
}

impl Schema {
    fn new(names: &[&[u8]], hash: u64, table: Arc<Schemas>) -> Self {
        let mut all = Vec::with_capacity(names.iter().map(|name| name.len()).sum());
        let mut ends = Vec::with_capacity(names.len());
        let longest = names.last().map_or(0, |name| name.len()).min(LONG);
        let mut lengths = vec![0; longest + 2];
        for name in names {
            all.extend_from_slice(name);
            ends.push(all.len() as u32);
            lengths[name.len().min(LONG) + 1] += 1;
        }
        for len in 1..lengths.len() {
            lengths[len] += lengths[len - 1];
        }
        Schema {
            names: all.into(),
            ends: ends.into(),
            lengths: lengths.into(),
            hash,
            holds: AtomicUsize::new(0),
            table,
        }
    }

    /// Number of names.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The name at an index below [`Schema::len`].
    #[inline]
    pub fn name(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.names[start..self.ends[index] as usize]
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.name(index))
    }

    /// Index of a name.
    #[inline]
    pub fn index(&self, name: &[u8]) -> Option<usize> {
        let len = name.len().min(LONG);
        let bounds = self.lengths.get(len..len + 2)?;
        let (first, end) = (bounds[0] as usize, bounds[1] as usize);
        if end - first > WALKED || len == LONG {
            return self.search(name, first, end);
        }
        // Names of one length mostly have equal first bytes and different last bytes.
        let mut at = if first == 0 { 0 } else { self.ends[first - 1] as usize };
        for index in first..end {
            let own = &self.names[at..at + len];
            if own.last_chunk::<WORD>() == name.last_chunk() && own == name {
                return Some(index);
            }
            at += len;
        }
        None
    }

    #[inline(never)]
    fn search(&self, name: &[u8], mut low: usize, mut high: usize) -> Option<usize> {
        while low < high {
            let middle = (low + high) / 2;
            match order(self.name(middle), name) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Some(middle),
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Bytes of memory.
    fn bytes(&self) -> usize {
        OVERHEAD + self.names.len() + 4 * (self.ends.len() + self.lengths.len())
    }

    fn is_of(&self, names: &[&[u8]]) -> bool {
        self.len() == names.len() && self.names().zip(names).all(|(own, name)| own == *name)
    }
}

/// The order of names: the shortest first, then by bytes. That of Redis, in which `HGETALL` returns
/// the fields.
pub(crate) fn order(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

impl Drop for Schema {
    fn drop(&mut self) {
        self.table.bytes.fetch_sub(self.bytes(), Relaxed);
        let mut table = self.table.lock();
        // Another schema may have taken the place since.
        let is_own = |weak: &Weak<Schema>| std::ptr::eq(weak.as_ptr(), self);
        if table.get(&self.hash).is_some_and(is_own) {
            table.remove(&self.hash);
        }
    }
}

/// The schemas of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    /// By the hash of the names.
    table: Mutex<HashMap<u64, Weak<Schema>>>,
    bytes: AtomicUsize,
}

impl Schemas {
    /// The schema of these names, which are sorted by [`order`] and distinct. `make`: it is made if
    /// there is none. None as well if other names have the same hash.
    pub fn get(
        self: &Arc<Self>,
        names: &[&[u8]],
        hasher: &KeyHasher,
        make: bool,
    ) -> Option<Arc<Schema>> {
        let hash = hasher.hash_of_all(names);
        let found = self.lock().get(&hash).and_then(Weak::upgrade);
        if let Some(schema) = found {
            return schema.is_of(names).then_some(schema);
        }
        if !make {
            return None;
        }
        let schema = Arc::new(Schema::new(names, hash, self.clone()));
        self.bytes.fetch_add(schema.bytes(), Relaxed);
        let mut table = self.lock();
        let other = table.get(&hash).and_then(Weak::upgrade);
        if other.is_none() {
            table.insert(hash, Arc::downgrade(&schema));
        }
        // A schema that is dropped below locks the table.
        drop(table);
        match other {
            Some(other) => other.is_of(names).then_some(other),
            None => Some(schema),
        }
    }

    /// Bytes of all schemas.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Number of schemas, and of the keys that have one.
    pub fn counts(&self) -> SchemaCounts {
        let all: Vec<Arc<Schema>> = self.lock().values().filter_map(Weak::upgrade).collect();
        let keys = all.iter().map(keys_beside_one).sum();
        SchemaCounts { schemas: all.len(), keys, bytes: self.bytes() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Weak<Schema>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Number of keys with a schema, to which the caller has a reference of its own.
pub(crate) fn keys_beside_one(schema: &Arc<Schema>) -> usize {
    let others = Arc::strong_count(schema) - 1;
    others.saturating_sub(schema.holds.load(Relaxed))
}

/// Share of a schema's bytes of each key that has it; one of these keys is the caller's.
pub(crate) fn share(schema: &Schema, references: usize) -> usize {
    let keys = references.saturating_sub(schema.holds.load(Relaxed)).max(1);
    schema.bytes().div_ceil(keys)
}

/// Numbers of a keyspace's schemas.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SchemaCounts {
    /// Number of schemas.
    pub schemas: usize,
    /// Number of compact hashes.
    pub keys: usize,
    /// Bytes of the schemas.
    pub bytes: usize,
}

/// A reference to a schema that is not that of a key.
#[derive(Debug)]
pub struct SchemaHold(Arc<Schema>);

impl SchemaHold {
    pub(crate) fn new(schema: Arc<Schema>) -> Self {
        schema.holds.fetch_add(1, Relaxed);
        SchemaHold(schema)
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.0
    }
}

impl Drop for SchemaHold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Relaxed);
    }
}

/// Field names in the order in which their values will be given, for
/// [`Handle::hash_import`](crate::Handle::hash_import).
#[derive(Debug)]
pub struct FieldNames {
    /// None if the names cannot be shared.
    pub(crate) hold: Option<SchemaHold>,
    /// The names, the shortest first, each with the index of its value.
    pub(crate) sorted: Box<[(Box<[u8]>, u32)]>,
}

impl FieldNames {
    /// Number of names.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasher() -> KeyHasher {
        KeyHasher::new(7, 0)
    }

    fn sorted<'n>(names: &[&'n str]) -> Vec<&'n [u8]> {
        let mut names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        names.sort_by(|a, b| order(a, b));
        names
    }

    #[test]
    fn names_are_found() {
        let schemas = Arc::new(Schemas::default());
        let long: Vec<String> = (0..200).map(|n| format!("{}{n:03}", "x".repeat(n))).collect();
        let equal: Vec<String> = (0..200).map(|n| format!("field:{n:03}")).collect();
        let sets: [Vec<&str>; 5] = [
            vec![""],
            vec!["email", "name", "age", ""],
            long.iter().map(String::as_str).collect(),
            equal.iter().map(String::as_str).collect(),
            vec!["a"],
        ];
        for set in &sets {
            let names = sorted(set);
            let schema = schemas.get(&names, &hasher(), true).unwrap();
            assert!(schema.names().eq(names.iter().copied()));
            for (index, name) in names.iter().enumerate() {
                assert_eq!(schema.index(name), Some(index), "{}", name.escape_ascii());
            }
            for other in ["b", "xx", "field:200", "field:0000", &"x".repeat(300)] {
                assert_eq!(schema.index(other.as_bytes()), None, "{other}");
            }
        }
    }

    #[test]
    fn a_schema_lives_as_long_as_its_owners() {
        let schemas = Arc::new(Schemas::default());
        let names = sorted(&["name", "age"]);
        let first = schemas.get(&names, &hasher(), true).unwrap();
        let second = schemas.get(&names, &hasher(), false).unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        let hold = SchemaHold::new(second);
        let counts = schemas.counts();
        assert_eq!((counts.schemas, counts.keys), (1, 1));
        assert_eq!(counts.bytes, first.bytes());
        drop((first, hold));
        assert_eq!(schemas.counts(), SchemaCounts::default());
        assert!(schemas.get(&names, &hasher(), false).is_none());
    }
}
