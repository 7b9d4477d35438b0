//! Operations on whole databases, and between keys and databases.

use crate::effect::{Effect, Removal};
use crate::entry::{Entry, StrRef, Value};
use crate::handle::{Handle, Key};
use crate::heap::Cache;
use crate::table::Table;

/// Tables that were taken out of the keyspace, with everything in them. Freeing them takes time in proportion to
/// their keys, and needs no lock: it is for the thread that can afford it.
#[must_use = "dropping frees every entry on the spot"]
pub struct Cleared {
    tables: Vec<Table>,
    cache: Cache,
}

impl Cleared {
    /// Keys that were removed.
    pub fn keys(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }
}

impl Drop for Cleared {
    fn drop(&mut self) {
        for table in &mut self.tables {
            if let Some(array) = table.drain(|entry| entry.release(&mut self.cache)) {
                // SAFETY: the table was taken out under the exclusive intent, so no thread was in a batch then, and
                // none has seen the array since.
                unsafe { array.free(&mut self.cache) };
            }
        }
    }
}

impl Handle {
    /// Removes every key of a database, or of all. The keyspace is held exclusively ([`Handle::lock_all`]).
    pub fn clear(&mut self, db: Option<u16>) -> Cleared {
        let databases = match db {
            Some(db) => db..db + 1,
            None => 0..self.ks.databases,
        };
        let mut cleared = Cleared { tables: Vec::new(), cache: self.ks.heap.cache() };
        for db in databases {
            let (mut entries, mut bytes) = (0i64, 0i64);
            for stripe in 0..self.ks.stripes.len() as u32 {
                self.touch_database(stripe, db, None);
                let ghost = self.stripe_at(stripe).ghost.take();
                bytes += ghost.map_or(0, |ghost| ghost.footprint() as i64);
                let table = self.stripe_at(stripe).take_table(db);
                bytes += table.footprint() as i64;
                entries += table.weight() as i64;
                if table.buckets() > 0 {
                    cleared.tables.push(table);
                }
            }
            self.forget_counts(db);
            self.count_bytes(-bytes, -entries);
            if let Some(sink) = &mut self.sink {
                sink.record(db, &Effect::Clear);
            }
        }
        cleared
    }

    /// Lets two databases change places. The keyspace is held exclusively.
    pub fn swap(&mut self, a: u16, b: u16) {
        if a == b {
            return;
        }
        for stripe in 0..self.ks.stripes.len() as u32 {
            self.touch_database(stripe, a, Some(b));
            self.touch_database(stripe, b, Some(a));
            self.stripe_at(stripe).swap_tables(a, b, usize::from(self.ks.databases));
        }
        for thread in self.ks.threads() {
            let (a, b) = (&thread.dbs[usize::from(a)], &thread.dbs[usize::from(b)]);
            let (keys, volatile) =
                (a.keys.get() - b.keys.get(), a.volatile.get() - b.volatile.get());
            a.keys.add(-keys);
            b.keys.add(keys);
            a.volatile.add(-volatile);
            b.volatile.add(volatile);
        }
        if let Some(sink) = &mut self.sink {
            sink.record(a, &Effect::Swap { with: b });
        }
    }

    /// Moves a value with its expiry to another name or database, over whatever is there. Both stripes are held.
    /// False if `from` does not exist.
    pub fn rename(&mut self, from_db: u16, from: Key<'_>, to_db: u16, to: Key<'_>) -> bool {
        if from_db == to_db && from.bytes == to.bytes {
            return self.find_alive(from_db, from).is_some();
        }
        if !self.copy(from_db, from, to_db, to) {
            return false;
        }
        if let Some((at, entry)) = self.find(from_db, from) {
            self.remove_at(from_db, from, at, entry, Removal::Deleted);
        }
        true
    }

    /// Copies a value with its expiry to another name or database, over whatever is there. Both stripes are held.
    /// False if `from` does not exist.
    pub fn copy(&mut self, from_db: u16, from: Key<'_>, to_db: u16, to: Key<'_>) -> bool {
        let Some((_, source)) = self.find_alive(from_db, from) else { return false };
        // The source's block stays where it is until the locks are released, so its value may be borrowed meanwhile.
        let entry = duplicate(source, &mut self.cache, to.bytes);
        match self.find(to_db, to) {
            Some((at, old)) => {
                self.replace_entry(to_db, to, at, old, entry);
                self.bury(old);
            }
            None => self.insert_entry(to_db, to, entry),
        }
        let effect = Effect::Put { key: to.bytes, value: entry.value(), expiry: entry.expiry() };
        self.record(to_db, to, &effect);
        true
    }

    /// Marks watched keys of `db` as changed that exist in it, or in `other`, which takes its place. What has expired in
    /// `other` brings nothing that was not there. Keys of `db` that are waited for become ready.
    fn touch_database(&mut self, stripe: u32, db: u16, other: Option<u16>) {
        let Some(mut interest) = self.stripe_at(stripe).interest.take() else { return };
        self.ready.extend(interest.waiting.make_database_ready(db, &self.ks.waits));
        interest.watched.touch_database(db, |bytes| {
            let key = self.key(bytes);
            self.find(db, key).is_some()
                || other
                    .and_then(|other| self.find(other, key))
                    .is_some_and(|(_, entry)| !self.is_expired(entry))
        });
        self.stripe_at(stripe).interest = Some(interest);
    }

    fn forget_counts(&self, db: u16) {
        for thread in self.ks.threads() {
            let counters = &thread.dbs[usize::from(db)];
            counters.keys.reset();
            counters.volatile.reset();
        }
    }
}

fn duplicate(source: Entry, cache: &mut Cache, key: &[u8]) -> Entry {
    let value = match source.value() {
        StrRef::Int(n) => Value::Int(n),
        StrRef::Blob(blob) => Value::Blob(blob.clone()),
        StrRef::Bytes(text) if source.encoding() == "raw" => {
            Value::Raw(bytes::Bytes::copy_from_slice(text))
        }
        StrRef::Bytes(text) => Value::Bytes(text),
    };
    Entry::new(cache, key, value, source.expiry(), source.access())
}
