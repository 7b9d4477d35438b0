//! Recorder of one thread: buffers records for the log.
//!
//! ```text
//! record  +--------------+-- ... --+-------+
//!         | length (u32) | effects | [lag] |    changes under one hold of its locks: a command, a transaction, a script
//!         +--------------+-- ... --+-------+
//! length     of what follows: lowest 30 bits; bit 30: it follows in 8 bytes instead; bit 31: the last 8 bytes are the lag
//! lag        epochs between the block's and the one that the order of the first effect counts from
//! ```

use super::effect::{Context, put_effect, put_encoded};
use super::group::Log;
use super::pending::Pending;
use super::segment::{Memory, Segment, Size};
use parking_lot::Mutex;
use petrel_keyspace::{Effect, EffectHead, EffectSink, Encoded, Epochs, Order};
use std::mem::replace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// [`Part::oldest`] of a thread that has handed over all that it committed.
const NONE: u64 = u64::MAX;

/// Lengths from here on have 8 bytes.
pub(super) const LENGTH_LONG: u32 = 1 << 30;
/// The last 8 bytes of the record are its lag.
pub(super) const HAS_LAG: u32 = 1 << 31;

/// This many bytes go into the checksum at once, while the cache holds them.
const SUMMED_AT_ONCE: usize = 16 * 1024;

/// Memory of a record that is kept for the next one.
const RECORD_KEPT_MAX: usize = 1 << 20;

/// Number and bytes of segments kept for reuse.
const SPARES_MAX: usize = 4;
const SPARE_BYTES_MAX: usize = 16 << 20;

/// State shared by a thread and the log's thread.
pub(super) struct Part {
    /// The epoch of the oldest record that the thread has committed and not handed over, or an
    /// earlier one.
    oldest: AtomicU64,
    handed: Mutex<Handed>,
    /// The thread will record no more.
    pub gone: AtomicBool,
    /// The memory-mapped pending file that backs record buffers, if available.
    pending: Option<Arc<Pending>>,
}

#[derive(Default)]
struct Handed {
    /// In the order of their epochs.
    segments: Vec<Segment>,
    bytes: usize,
    records: u64,
    spare: Vec<Memory>,
    /// The fewest of them that there were since [`Part::trim`].
    unused: usize,
}

impl Part {
    fn new(pending: Option<Arc<Pending>>) -> Self {
        let (oldest, gone) = (AtomicU64::new(NONE), AtomicBool::new(false));
        Part { oldest, handed: Mutex::default(), gone, pending }
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

    /// Returns the memory of a segment that has been written.
    pub fn give_back(&self, segment: Segment) {
        let Some(memory) = segment.into_memory() else { return };
        memory.retire();
        // What ends with the process is not used again where there may be better.
        if memory.is_shared() == self.pending.is_some() {
            let left = self.handed.lock().keep(memory);
            drop(left);
        }
    }

    /// Frees memory unused since the last call, except a little for the next record.
    pub fn trim(&self) {
        let freed: Vec<_> = {
            let mut handed = self.handed.lock();
            let unused = handed.unused.min(handed.spare.len());
            let is_last = unused == handed.spare.len();
            let keeps = is_last && handed.spare.last().is_some_and(|m| m.size() == Size::Small);
            let freed = handed.spare.drain(..unused - usize::from(keeps)).collect();
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
        debug_assert!(handed.segments.is_sorted_by_key(|segment| segment.epoch));
        handed.bytes
    }

    /// Returns a segment for a record of `len` bytes in this epoch: the one handed over last, if it
    /// belongs to the epoch, is still there and has space, otherwise an empty one. So a batch with
    /// few records needs no memory of its own.
    fn segment(&self, epoch: u64, serial: bool, len: usize, before: &Segment) -> Segment {
        let mut handed = self.handed.lock();
        let goes_on = |last: &mut Segment| {
            last.epoch == epoch && !last.serial && !serial && !last.is_full() && last.has_room(len)
        };
        // The next segment handed over follows it, so nothing of this batch may be queued yet.
        if before.epoch != epoch
            && let Some(last) = handed.segments.pop_if(goes_on)
        {
            handed.bytes -= last.len();
            handed.records -= last.records;
            return last;
        }
        let is_busy = before.is_full() || handed.segments.last().is_some_and(Segment::is_full);
        let size = match is_busy || !Memory::fits(Size::Small, len) {
            true => Size::Large,
            false => Size::Small,
        };
        let used = handed.spare.pop_if(|memory| memory.len() >= size.room());
        handed.unused = handed.unused.min(handed.spare.len());
        drop(handed);
        let memory = used.unwrap_or_else(|| Memory::new(self.pending.as_ref(), size));
        Segment::new(epoch, serial, memory)
    }
}

impl Handed {
    /// Keeps memory for reuse; returns the part that is not kept. Large segments are preferred: a
    /// thread that needed one will need more.
    fn keep(&mut self, memory: Memory) -> Vec<Memory> {
        let is_large = |memory: &mut Memory| memory.size() == Size::Large;
        let mut left = Vec::new();
        if memory.size() == Size::Large {
            left.extend(self.spare.extract_if(.., |memory| !is_large(memory)));
        } else if !self.spare.is_empty() {
            return vec![memory];
        }
        let bytes: usize = self.spare.iter().map(Memory::len).sum();
        if bytes + memory.len() <= SPARE_BYTES_MAX && self.spare.len() < SPARES_MAX {
            self.spare.push(memory);
        } else {
            left.push(memory);
        }
        left
    }
}

/// Records what one thread does.
pub struct Recorder {
    log: Arc<Log>,
    part: Arc<Part>,
    /// Commits before `current`.
    segments: Vec<Segment>,
    /// The latest commits, not handed over.
    current: Segment,
    /// The record that is not committed; empty if there is none.
    open: Vec<u8>,
    context: Context,
    /// The epoch that the orders of the open record count from.
    base: u64,
    /// [`Part::oldest`] says that there is something to hand over.
    announced: bool,
}

impl Recorder {
    pub(super) fn new(log: Arc<Log>) -> Self {
        let part = Arc::new(Part::new(log.pending().cloned()));
        log.join(part.clone());
        Recorder {
            log,
            part,
            segments: Vec::new(),
            current: Segment::default(),
            open: Vec::new(),
            context: Context::default(),
            base: 0,
            announced: false,
        }
    }

    /// Begins a record, unless one is open.
    #[inline]
    fn begin(&mut self, order: Order) {
        if self.open.is_empty() {
            self.open.extend_from_slice(&[0; 4]);
            self.base = order.epoch();
            self.context = Context { db: 0, order: Order::first_of(self.base) };
        }
    }

    /// Completes the open record, which belongs to `epoch`.
    fn end_record(&mut self, epoch: u64) {
        let bytes = &mut self.open;
        let lag = epoch.wrapping_sub(self.base);
        let mut flags = 0;
        if lag != 0 {
            bytes.extend_from_slice(&lag.to_le_bytes());
            flags = HAS_LAG;
        }
        let len = bytes.len() - 4;
        let word = if len < LENGTH_LONG as usize {
            len as u32 | flags
        } else {
            let len = (len as u64).to_le_bytes();
            bytes.splice(4..4, len);
            LENGTH_LONG | flags
        };
        bytes[..4].copy_from_slice(&word.to_le_bytes());
    }

    /// Puts the completed record into another segment than the current one.
    #[cold]
    fn append_elsewhere(&mut self, epoch: u64, serial: bool) {
        let len = self.open.len();
        assert!(epoch >= self.current.epoch, "a thread's records are in the order of epochs");
        self.current.sum();
        if Memory::fits(Size::Large, len) {
            let mut next = self.part.segment(epoch, serial, len, &self.current);
            next.append_record(&self.open);
            self.leave(next);
        } else {
            let memory = Memory::of_record(self.part.pending.as_ref(), &self.open);
            self.leave(Segment::of_record(epoch, serial, memory, len));
        }
    }

    /// Goes on in the next segment.
    fn leave(&mut self, next: Segment) {
        let before = replace(&mut self.current, next);
        if before.len() > 0 {
            self.segments.push(before);
        }
    }
}

impl EffectSink for Recorder {
    #[inline]
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
        self.begin(head.order);
        put_effect(&mut self.open, &mut self.context, head.db, head.order, effect);
    }

    fn record_encoded<'s>(
        &'s mut self,
        head: EffectHead,
        effect: &Effect<'_>,
        encoded: Option<Encoded<'s>>,
    ) -> Option<Encoded<'s>> {
        self.begin(head.order);
        let (out, context) = (&mut self.open, &mut self.context);
        match encoded {
            Some(encoded) => put_encoded(out, context, head.db, head.order, encoded),
            None => return Some(put_effect(out, context, head.db, head.order, effect)),
        }
        encoded
    }

    fn commit(&mut self, epochs: &Epochs, alone: bool) -> u64 {
        if self.open.is_empty() {
            return epochs.now();
        }
        if !self.announced {
            // Before the epoch is read: the thread that ends that epoch afterwards waits for what
            // belongs to it.
            self.part.oldest.store(epochs.now(), SeqCst);
            self.announced = true;
        }
        // No other thread commits anything now if everything is held.
        let epoch = if alone { epochs.advance() + 1 } else { epochs.now() };
        self.end_record(epoch);
        let current = &mut self.current;
        let goes_on = epoch == current.epoch && !alone && !current.serial;
        if goes_on && !current.is_full() && current.has_room(self.open.len()) {
            current.append_record(&self.open);
        } else {
            self.append_elsewhere(epoch, alone);
        }
        self.open.clear();
        if self.open.capacity() > RECORD_KEPT_MAX {
            self.open = Vec::new();
        }
        self.current.expect_more();
        if self.current.unsummed() >= SUMMED_AT_ONCE {
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
        // The uncommitted record stays.
        self.leave(Segment::default());
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
    use super::super::group::Policy;
    use super::super::tests::Deaf;
    use super::*;
    use petrel_keyspace::{Keyspace, Options, Origin, StrRef};

    /// A recorder of a log without a writer.
    fn recorder() -> (Arc<Keyspace>, Recorder) {
        let log = Log::new(Policy::EverySecond, Box::new(Deaf), None);
        (Keyspace::new(&Options::default()), log.recorder())
    }

    fn write(recorder: &mut Recorder, epochs: &Epochs, len: usize) {
        let value = vec![b'v'; len];
        let effect = Effect::Put { key: b"key", value: StrRef::Bytes(&value), expiry: None };
        let head =
            EffectHead { db: 0, order: Order::first_of(epochs.now()), origin: Origin::LOCAL };
        recorder.record(head, &effect);
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
        // One that there is no room for has memory of its own, and is not gone on behind.
        write(&mut recorder, epochs, 3 << 20);
        recorder.hand_over();
        write(&mut recorder, epochs, 100);
        recorder.hand_over();
        assert_eq!(waiting(&recorder), [10, 1, 2, 1, 1]);
        let mut taken = Vec::new();
        recorder.part.take(epochs.now() - 1, &mut taken);
        assert_eq!(taken.iter().map(|segment| segment.records).collect::<Vec<_>>(), [10, 1]);
        assert_eq!(waiting(&recorder), [2, 1, 1]);
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
                places.push(segment.all().as_ptr());
                recorder.part.give_back(segment);
            }
        }
        let made = places.len();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() * 4 < made, "{} of {made}", places.len());
        let handed = recorder.part.handed.lock();
        assert!(handed.spare.iter().all(|memory| memory.size() == Size::Large));
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
            taken.into_iter().for_each(|segment| recorder.part.give_back(segment));
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
        // A small one stays for what comes next.
        let handed = part.handed.lock();
        assert!(handed.spare.iter().all(|memory| memory.size() == Size::Small));
        assert!(handed.spare.len() <= 1);
    }
}
