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
use super::segment::Segment;
use parking_lot::Mutex;
use petrel_keyspace::{Effect, EffectSink, Epochs, Order};
use std::mem::replace;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

/// [`Part::oldest`] of a thread that has handed over all that it committed.
const NONE: u64 = u64::MAX;

/// Lengths from here on have 8 bytes.
pub(super) const LENGTH_LONG: u32 = 1 << 30;
/// The last 8 bytes of the record are its lag.
pub(super) const HAS_LAG: u32 = 1 << 31;

/// Fewer bytes are copied behind what the thread handed over before; more are given as they lie. So many also go into the checksum at once.
const COPIED_MAX: usize = 16 * 1024;

/// Buffers of so many bytes, and so many of them, are used again.
const SPARE_BYTES_MAX: usize = 8 << 20;
const SPARES_MAX: usize = 64;

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
    spare_bytes: usize,
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
        let mut handed = self.handed.lock();
        let spare_bytes = handed.spare_bytes + memory.capacity();
        if spare_bytes <= SPARE_BYTES_MAX && handed.spare.len() < SPARES_MAX {
            handed.spare.push(memory);
            handed.spare_bytes = spare_bytes;
        }
    }

    /// Hands over records; how many bytes wait now.
    fn give(&self, segments: &mut Vec<Segment>, last: &mut Segment) -> usize {
        let is_copied = last.len() <= COPIED_MAX;
        if !is_copied {
            last.sum();
        }
        let mut handed = self.handed.lock();
        for segment in segments.drain(..) {
            handed.add(segment);
        }
        if last.len() > 0 {
            match handed.segments.last_mut() {
                Some(before) if is_copied && before.takes(last) => {
                    let (len, records) = (last.len(), last.records);
                    before.take(last);
                    handed.bytes += len;
                    handed.records += records;
                }
                _ => {
                    last.sum();
                    let next = Segment::like(last, handed.spare());
                    handed.add(replace(last, next));
                }
            }
        }
        handed.bytes
    }

    /// Memory that was used before, if there is any.
    fn spare(&self) -> Vec<u8> {
        self.handed.lock().spare()
    }
}

impl Handed {
    fn add(&mut self, segment: Segment) {
        self.bytes += segment.len();
        self.records += segment.records;
        self.segments.push(segment);
    }

    fn spare(&mut self) -> Vec<u8> {
        let memory = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= memory.capacity();
        memory
    }
}

/// Records what one thread does.
pub struct Recorder {
    log: Arc<Log>,
    part: Arc<Part>,
    /// What was recorded before `current`.
    segments: Vec<Segment>,
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
                self.current = self.empty();
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

    /// An empty segment like the current one.
    #[cold]
    fn empty(&self) -> Segment {
        let mut segment = Segment::like(&self.current, self.part.spare());
        if !segment.has_memory() {
            segment.begin_at(0);
        }
        segment
    }

    /// Leaves the records before `at`, if there are any, behind.
    fn split_at(&mut self, at: usize) {
        if at > self.current.begin() {
            let mut next = self.empty();
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
        if !self.announced {
            // Before the epoch is read: whoever ends that epoch afterwards waits for what belongs to it.
            self.part.oldest.store(epochs.now(), SeqCst);
            self.announced = true;
        }
        // Nobody else commits anything now if everything is held.
        let epoch = if alone { epochs.advance() + 1 } else { epochs.now() };
        self.end_record(at, epoch);
        if alone || epoch != self.current.epoch || self.current.serial {
            self.split_at(at);
            (self.current.epoch, self.current.serial) = (epoch, alone);
        }
        self.current.records += 1;
        if self.current.is_full() {
            self.current.sum();
            let next = Segment::like(&self.current, Vec::new());
            self.segments.push(replace(&mut self.current, next));
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
        let waiting = match self.open {
            None => self.part.give(&mut self.segments, &mut self.current),
            Some(at) => {
                // What is not committed stays.
                self.split_at(at);
                self.open = Some(self.current.begin());
                self.part.give(&mut self.segments, &mut Segment::default())
            }
        };
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
