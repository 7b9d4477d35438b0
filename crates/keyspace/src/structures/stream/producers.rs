//! Idempotent producers of a stream: recent IDs chosen by producers, so that an entry sent twice is
//! added once.

use crate::structures::stream::id::StreamId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Default retention time of an ID in seconds, changed by `XCFGSET`.
const DURATION_S: u32 = 100;
/// Default number of IDs retained per producer, changed by `XCFGSET`.
const IDS_MAX: u32 = 100;
/// Bytes of an ID in addition to its text.
const ID_BYTES: usize = 256;
/// Bytes of a producer in addition to its name.
const PRODUCER_BYTES: usize = 128;

/// The producers of a stream, each with the IDs of its latest entries.
#[derive(Clone, Debug)]
pub struct Producers {
    duration_s: u32,
    ids_max: u32,
    added: u64,
    duplicates: u64,
    producers: BTreeMap<Arc<[u8]>, Producer>,
    /// Every retained ID with its producer, by the stream ID of its entry: the oldest first.
    by_entry: BTreeSet<Remembered>,
    bytes: usize,
}

/// An entry, its producer, and the producer's ID for it.
type Remembered = (StreamId, Arc<[u8]>, Arc<[u8]>);

#[derive(Clone, Debug, Default)]
struct Producer {
    entries: BTreeMap<Arc<[u8]>, StreamId>,
    /// The IDs by stream ID, oldest first.
    order: BTreeSet<(StreamId, Arc<[u8]>)>,
}

impl Default for Producers {
    fn default() -> Self {
        Producers {
            duration_s: DURATION_S,
            ids_max: IDS_MAX,
            added: 0,
            duplicates: 0,
            producers: BTreeMap::new(),
            by_entry: BTreeSet::new(),
            bytes: size_of::<Self>(),
        }
    }
}

impl Producers {
    /// Retention time of an ID in seconds.
    pub fn duration_s(&self) -> u32 {
        self.duration_s
    }

    /// Number of IDs retained per producer.
    pub fn ids_max(&self) -> u32 {
        self.ids_max
    }

    /// Number of IDs ever added.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Number of entries that were sent again.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Number of producers with a retained ID.
    pub fn producers_len(&self) -> usize {
        self.producers.len()
    }

    /// Number of retained IDs.
    pub fn ids_len(&self) -> usize {
        self.by_entry.len()
    }

    /// Bytes of memory.
    pub fn footprint(&self) -> usize {
        self.bytes
    }

    /// Every retained ID, as entry, producer and ID, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (StreamId, &[u8], &[u8])> {
        self.by_entry.iter().map(|(entry, producer, id)| (*entry, &**producer, &**id))
    }

    /// The entry with this ID of a producer, if the ID is still retained.
    pub fn entry(&self, producer: &[u8], id: &[u8]) -> Option<StreamId> {
        self.producers.get(producer)?.entries.get(id).copied()
    }

    /// Counts an entry that was sent again.
    pub fn count_duplicate(&mut self) {
        self.duplicates += 1;
    }

    /// Sets the counters (when a stream is restored).
    pub fn set_counters(&mut self, added: u64, duplicates: u64) {
        self.added = added;
        self.duplicates = duplicates;
    }

    /// Sets the retention time and number of IDs; drops all IDs if either changes.
    pub fn configure(&mut self, duration_s: u32, ids_max: u32) {
        if (duration_s, ids_max) == (self.duration_s, self.ids_max) {
            return;
        }
        let (added, duplicates) = (self.added, self.duplicates);
        *self = Producers { duration_s, ids_max, added, duplicates, ..Producers::default() };
    }

    /// Drops the IDs of entries older than the retention time.
    pub fn forget_until(&mut self, now_ms: u64) {
        let kept_from = now_ms.saturating_sub(u64::from(self.duration_s) * 1000);
        while let Some(oldest) = self.by_entry.first().filter(|oldest| oldest.0.ms < kept_from) {
            self.forget(&oldest.clone());
        }
    }

    /// Adds a producer's new ID for an entry. Drops the producer's oldest ID if there are too many.
    pub fn remember(&mut self, producer: &[u8], id: &[u8], entry: StreamId) {
        let name: Arc<[u8]> = match self.producers.get_key_value(producer) {
            Some((name, _)) => Arc::clone(name),
            None => {
                self.bytes += PRODUCER_BYTES + producer.len();
                producer.into()
            }
        };
        let id: Arc<[u8]> = id.into();
        let of_producer = self.producers.entry(Arc::clone(&name)).or_default();
        of_producer.entries.insert(Arc::clone(&id), entry);
        of_producer.order.insert((entry, Arc::clone(&id)));
        let oldest = match of_producer.order.len() > self.ids_max as usize {
            true => of_producer.order.first().cloned(),
            false => None,
        };
        self.bytes += ID_BYTES + id.len();
        self.by_entry.insert((entry, Arc::clone(&name), id));
        self.added += 1;
        if let Some((entry, id)) = oldest {
            self.forget(&(entry, name, id));
        }
    }

    fn forget(&mut self, remembered: &Remembered) {
        if !self.by_entry.remove(remembered) {
            return;
        }
        let (entry, name, id) = remembered;
        self.bytes -= ID_BYTES + id.len();
        let Some(producer) = self.producers.get_mut(name) else { return };
        producer.entries.remove(id);
        producer.order.remove(&(*entry, Arc::clone(id)));
        if producer.entries.is_empty() {
            self.producers.remove(name);
            self.bytes -= PRODUCER_BYTES + name.len();
        }
    }
}
