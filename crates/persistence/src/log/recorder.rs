//! What one thread has recorded, on its way to the log.
//!
//! ```text
//! record  +--------------+-- ... --+-------+
//!         | length (u32) | effects | [lag] |    what was done under one hold of its locks: a command, a transaction, a script
//!         +--------------+-- ... --+-------+
//! length     of what follows: lowest 30 bits; bit 30: it follows in 8 bytes instead; bit 31: the last 8 bytes are the lag
//! lag        epochs between the block's and the one that the order of the first effect counts from
//! ```

use super::effect::{Context, put_effect, put_functions};
use super::group::Log;
use super::segment::{Segment, Size};
use parking_lot::Mutex;
use petrel_keyspace::{Effect, EffectSink, Epochs, Order};
use std::mem::{replace, take};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// [`Part::oldest`] of a thread that has handed over all that it committed.
const NONE: u64 = u64::MAX;

/// Lengths from here on have 8 bytes.
pub(super) const LENGTH_LONG: u32 = 1 << 30;
/// The last 8 bytes of the record are its lag.
pub(super) const HAS_LAG: u32 = 1 << 31;

/// A batch's first record, if it is not longer, is copied behind what the thread handed over before. So many bytes also go into the checksum at
/// once, while the cache holds them.
const COPIED_MAX: usize = 16 * 1024;

/// Memory of so many segments, and of so many bytes, is used again.
const SPARES_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 16 << 20;

/// What a thread and the log's own thread share.
pub(super) struct Part {
    /// The epoch of the oldest record that the thread has committed and not handed over, or an earlier one.
    oldest: AtomicU64,
    handed: Mutex<Handed>,
    /// The thread will record no more.
    pub gone: AtomicBool,
}

#[derive(Default)]
struct Handed {
    /// In the order of their epochs.
    segments: Vec<Segment>,
    bytes: usize,
    records: u64,
    spare: Vec<Vec<u8>>,
    /// The fewest of them that there were since [`Part::trim`].
    unused: usize,
}

impl Part {
    fn new() -> Self {
        let (oldest, gone) = (AtomicU64::new(NONE), AtomicBool::new(false));
        Part { oldest, handed: Mutex::default(), gone }
    }

    /// Whether every record of epochs up to this one, which has ended, is handed over.
    pub fn is_complete(&self, epoch: u64) -> bool {
        self.oldest.load(SeqCst) > epoch
    }

    /// Bytes and records that wait to be taken.
    pub fn waiting(&self) -> (usize, u64) {
        let handed = self.handed.lock();
        (handed.bytes, handed.records)
    }

    /// Takes what belongs to epochs up to this one.
    pub fn take(&self, epoch: u64, into: &mut Vec<Segment>) {
        let mut handed = self.handed.lock();
        let count = handed.segments.iter().take_while(|segment| segment.epoch <= epoch).count();
        for segment in handed.segments.drain(..count).collect::<Vec<_>>() {
            handed.bytes -= segment.len();
            handed.records -= segment.records;
            into.push(segment);
        }
    }

    /// Gives memory back that was taken.
    pub fn give_back(&self, memory: Vec<u8>) {
        self.handed.lock().keep(memory);
    }

    /// Frees what memory has not been used since the last call.
    pub fn trim(&self) {
        let freed: Vec<_> = {
            let mut handed = self.handed.lock();
            let unused = handed.unused.min(handed.spare.len());
            let freed = handed.spare.drain(..unused).collect();
            handed.unused = handed.spare.len();
            freed
        };
        drop(freed);
    }

    /// Hands over segments; how many bytes wait now.
    fn give(&self, segments: impl Iterator<Item = Segment>) -> usize {
        let mut handed = self.handed.lock();
        for segment in segments {
            handed.bytes += segment.len();
            handed.records += segment.records;
            handed.segments.push(segment);
        }
        handed.bytes
    }

    /// An empty segment to go on in after this one.
    fn next_segment(&self, before: &Segment) -> Segment {
        let mut next = Segment::like(before);
        self.handed.lock().equip(&mut next, before.is_full());
        next
    }

    /// A segment for records of this epoch, in which the thread has committed something that it has not handed over: the one that it handed over last,
    /// if that belongs to the epoch, is still there and has room. So what little a batch has to tell needs no memory of its own.
    fn last_segment(&self, epoch: u64) -> Segment {
        let mut handed = self.handed.lock();
        let has_room = |last: &mut Segment| last.epoch == epoch && !last.serial && !last.is_full();
        if let Some(last) = handed.segments.pop_if(has_room) {
            handed.bytes -= last.len();
            handed.records -= last.records;
            return last;
        }
        let is_busy = handed.segments.last().is_some_and(Segment::is_full);
        let mut segment = Segment::default();
        segment.epoch = epoch;
        handed.equip(&mut segment, is_busy);
        segment
    }
}

impl Handed {
    /// Gives a segment memory: some that was used before, if there is any.
    fn equip(&mut self, segment: &mut Segment, is_busy: bool) {
        let size = if is_busy { Size::Large } else { Size::Small };
        segment.set_memory(self.spare.pop().unwrap_or_default(), size);
        self.unused = self.unused.min(self.spare.len());
    }

    /// Keeps memory to be used again. Large ones are preferred, since whoever needed one will need more.
    fn keep(&mut self, memory: Vec<u8>) {
        if Size::of(&memory) == Size::Large {
            self.spare.retain(|memory| Size::of(memory) == Size::Large);
        } else if !self.spare.is_empty() {
            return;
        }
        let bytes: usize = self.spare.iter().map(|memory| memory.capacity()).sum();
        if bytes + memory.capacity() <= SPARE_BYTES_MAX && self.spare.len() < SPARES_MAX {
            self.spare.push(memory);
        }
    }
}

/// Records what one thread does.
pub struct Recorder {
    log: Arc<Log>,
    part: Arc<Part>,
    /// What was recorded before `current`.
    segments: Vec<Segment>,
    /// Memory for the first record of a batch.
    first: Vec<u8>,
    /// Records of the latest epoch, and the one that is not committed yet.
    current: Segment,
    /// Where the record begins that is not committed, if there is one.
    open: Option<usize>,
    context: Context,
    /// The epoch that the orders of the open record count from.
    base: u64,
    /// [`Part::oldest`] says that there is something to hand over.
    announced: bool,
}

impl Recorder {
    pub(super) fn new(log: Arc<Log>) -> Self {
        let part = Arc::new(Part::new());
        log.join(part.clone());
        Recorder {
            log,
            part,
            segments: Vec::new(),
            first: Vec::new(),
            current: Segment::default(),
            open: None,
            context: Context::default(),
            base: 0,
            announced: false,
        }
    }

    /// Begins a record, unless one is open.
    #[inline]
    fn begin(&mut self, order: Order) {
        if self.open.is_none() {
            if !self.current.has_memory() {
                self.begin_segment();
            }
            self.open = Some(self.current.bytes.len());
            self.current.bytes.extend_from_slice(&[0; 4]);
            self.base = order.epoch();
            self.context = Context { db: 0, order: Order::first_of(self.base) };
        }
    }

    /// Records the sources of all libraries of functions. Later calls, which any thread may make, have higher numbers.
    pub fn functions<'a>(&mut self, number: u64, sources: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.begin(Order::default());
        put_functions(&mut self.current.bytes, &mut self.context, Order(number), sources);
    }

    /// Completes the open record, which begins at `at` and belongs to `epoch`.
    fn end_record(&mut self, at: usize, epoch: u64) {
        let bytes = &mut self.current.bytes;
        let lag = epoch.wrapping_sub(self.base);
        let mut flags = 0;
        if lag != 0 {
            bytes.extend_from_slice(&lag.to_le_bytes());
            flags = HAS_LAG;
        }
        let len = bytes.len() - at - 4;
        let word = if len < LENGTH_LONG as usize {
            len as u32 | flags
        } else {
            let len = (len as u64).to_le_bytes();
            bytes.splice(at + 4..at + 4, len);
            LENGTH_LONG | flags
        };
        bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }

    /// Finds memory for a record.
    #[cold]
    fn begin_segment(&mut self) {
        if self.segments.is_empty() && self.first.capacity() > 0 {
            self.current.set_memory(take(&mut self.first), Size::Small);
        } else {
            let before = self.segments.last().unwrap_or(&self.current);
            self.current = self.part.next_segment(before);
        }
    }

    /// Moves the first record of a batch behind what was handed over before in this epoch. Not before it is committed: until then, which may take
    /// long, nobody need wait for this thread.
    fn go_on_in_last(&mut self, epoch: u64) {
        let mut last = self.part.last_segment(epoch);
        last.bytes.extend_from_slice(self.current.all());
        self.first = replace(&mut self.current, last).bytes;
    }

    /// Leaves the records before `at`, if there are any, behind.
    fn split_at(&mut self, at: usize) {
        if at > self.current.begin() {
            let mut next = self.part.next_segment(&self.current);
            self.current.split_off(at, &mut next);
            self.current.sum();
            self.segments.push(replace(&mut self.current, next));
        }
    }
}

impl EffectSink for Recorder {
    #[inline]
    fn record(&mut self, db: u16, order: Order, effect: &Effect<'_>) {
        self.begin(order);
        put_effect(&mut self.current.bytes, &mut self.context, db, order, effect);
    }

    fn commit(&mut self, epochs: &Epochs, alone: bool) -> u64 {
        let Some(at) = self.open.take() else { return epochs.now() };
        let is_first = !self.announced;
        if is_first {
            // Before the epoch is read: whoever ends that epoch afterwards waits for what belongs to it.
            self.part.oldest.store(epochs.now(), SeqCst);
            self.announced = true;
        }
        // Nobody else commits anything now if everything is held.
        let epoch = if alone { epochs.advance() + 1 } else { epochs.now() };
        self.end_record(at, epoch);
        if is_first && !alone && self.current.len() <= COPIED_MAX {
            self.go_on_in_last(epoch);
        } else if alone || epoch != self.current.epoch || self.current.serial {
            self.split_at(at);
            (self.current.epoch, self.current.serial) = (epoch, alone);
        }
        self.current.records += 1;
        self.current.expect_more();
        if self.current.is_full() {
            self.current.sum();
            self.segments.push(take(&mut self.current));
        } else if self.current.unsummed() >= COPIED_MAX {
            self.current.sum();
        }
        if alone {
            epochs.advance();
        }
        epoch
    }

    fn hand_over(&mut self) {
        if !self.announced {
            return;
        }
        if let Some(at) = self.open {
            // What is not committed stays.
            self.split_at(at);
            self.open = Some(self.current.begin());
        } else if self.current.len() > 0 {
            self.segments.push(take(&mut self.current));
        }
        let waiting = self.part.give(self.segments.drain(..));
        self.part.oldest.store(NONE, SeqCst);
        self.announced = false;
        self.log.handed_over(&self.part, waiting);
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.hand_over();
        self.part.gone.store(true, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::super::group::{Events, Policy};
    use super::*;
    use petrel_keyspace::{Keyspace, Options, StrRef};

    struct Deaf;

    impl Events for Deaf {
        fn durable(&self, _: u64) {}
        fn failed(&self, _: &str, _: bool) {}
        fn recovered(&self) {}
    }

    /// A recorder of a log that nobody writes.
    fn recorder() -> (Arc<Keyspace>, Recorder) {
        let log = Log::new(Policy::EverySecond, Box::new(Deaf));
        (Keyspace::new(&Options::default()), log.recorder())
    }

    fn write(recorder: &mut Recorder, epochs: &Epochs, len: usize) {
        let value = vec![b'v'; len];
        let effect = Effect::Put { key: b"key", value: StrRef::Bytes(&value), expiry: None };
        recorder.record(0, Order::first_of(epochs.now()), &effect);
        recorder.commit(epochs, false);
    }

    /// Records of each segment that waits.
    fn waiting(recorder: &Recorder) -> Vec<u64> {
        let handed = recorder.part.handed.lock();
        let len: usize = handed.segments.iter().map(Segment::len).sum();
        assert_eq!(len, handed.bytes);
        handed.segments.iter().map(|segment| segment.records).collect()
    }

    #[test]
    fn batches_of_an_epoch_go_on_in_one_segment() {
        let (keyspace, mut recorder) = recorder();
        let epochs = keyspace.epochs();
        for _ in 0..5 {
            write(&mut recorder, epochs, 100);
            write(&mut recorder, epochs, 100);
            recorder.hand_over();
        }
        assert_eq!(waiting(&recorder), [10]);
        epochs.advance();
        write(&mut recorder, epochs, 100);
        // It belongs to the next epoch, although the batch began in this one.
        epochs.advance();
        write(&mut recorder, epochs, 100);
        write(&mut recorder, epochs, 100);
        recorder.hand_over();
        assert_eq!(waiting(&recorder), [10, 1, 2]);
        // A long one is not copied.
        write(&mut recorder, epochs, 2 * COPIED_MAX);
        recorder.hand_over();
        write(&mut recorder, epochs, 100);
        recorder.hand_over();
        assert_eq!(waiting(&recorder), [10, 1, 2, 2]);
        let mut taken = Vec::new();
        recorder.part.take(epochs.now() - 1, &mut taken);
        assert_eq!(taken.iter().map(|segment| segment.records).collect::<Vec<_>>(), [10, 1]);
        assert_eq!(waiting(&recorder), [2, 2]);
    }

    #[test]
    fn memory_is_used_again_and_is_large_for_those_who_have_much_to_tell() {
        let (keyspace, mut recorder) = recorder();
        let epochs = keyspace.epochs();
        let mut places = Vec::new();
        for _ in 0..20 {
            for _ in 0..300 {
                write(&mut recorder, epochs, 10_000);
            }
            recorder.hand_over();
            epochs.advance();
            let mut taken = Vec::new();
            recorder.part.take(epochs.now(), &mut taken);
            assert!(taken.len() <= 4, "{}", taken.len());
            for segment in taken {
                places.push(segment.bytes.as_ptr());
                recorder.part.give_back(segment.bytes);
            }
        }
        let made = places.len();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() * 4 < made, "{} of {made}", places.len());
        let handed = recorder.part.handed.lock();
        assert!(handed.spare.iter().all(|memory| Size::of(memory) == Size::Large));
    }

    #[test]
    fn memory_that_is_not_used_for_a_while_is_freed() {
        let (keyspace, mut recorder) = recorder();
        let epochs = keyspace.epochs();
        let mut round = |records: usize| {
            for _ in 0..records {
                write(&mut recorder, epochs, 10_000);
            }
            recorder.hand_over();
            epochs.advance();
            let mut taken = Vec::new();
            recorder.part.take(epochs.now(), &mut taken);
            taken.into_iter().for_each(|segment| recorder.part.give_back(segment.bytes));
            recorder.part.clone()
        };
        let spares = |part: &Part| part.handed.lock().spare.len();
        // The first is small, and large ones are preferred to it.
        for records in [600, 600] {
            round(records);
        }
        let part = round(600);
        let many = spares(&part);
        assert!(many > 1, "{many}");
        part.trim();
        round(600);
        part.trim();
        assert!(spares(&part) > 0, "what was in use is kept");
        // One is used now and then, the others are not.
        round(1);
        part.trim();
        let few = spares(&part);
        assert!((1..many).contains(&few), "{few} of {many}");
        part.trim();
        part.trim();
        assert_eq!(spares(&part), 0);
    }
}
