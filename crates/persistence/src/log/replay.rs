//! A log into a keyspace, with every core.
//!
//! ```text
//! the calling thread   read blocks ─ find each effect's key ─┬─▶ a thread's share of the keys: sort by order, apply
//!                                                            └─▶ another's ...
//! ```
//!
//! A key's changes have ascending orders, whichever thread made them and whichever block they are
//! in, so each thread sorts its share and needs to know nothing of the others. Blocks that change
//! whole databases are applied alone, between all others. So are, within a batch, effects that take
//! their value from another key: their orders lie between earlier and later orders of both keys, so
//! every thread first applies its changes of lower orders.

use super::Malformed;
use super::effect::{Context, Logged, take_effect};
use super::format::BlockHead;
use super::number::Bytes;
use super::read::{BlockReader, LogError};
use super::recorder::{HAS_LAG, LENGTH_LONG};
use super::segment::FILLING;
use crate::effects::{GroupError, apply_logged};
use crate::load::Progress;
use parking_lot::Mutex;
use petrel_keyspace::{Effect, Handle, KeyHash, Keyspace, Order, Origin};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Barrier};

/// Bytes of records that are applied together.
const BATCH_LEN: usize = 2 << 20;

/// Number of changes prefetched before the first of them is applied.
const AHEAD: usize = 12;

/// Contents of a log file.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Replayed {
    /// Number of changes.
    pub effects: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// The epoch that the first block says was before it.
    pub follows: Option<u64>,
    /// Epoch of the last block, of this file or before.
    pub last_epoch: Option<u64>,
    /// Bytes of whole blocks.
    pub whole: u64,
    /// Bytes behind them, which were never known to be on the disk.
    pub torn: u64,
    /// Blocks in those bytes with a valid head.
    pub torn_blocks: u64,
    /// Identity shared by all files of the log.
    pub log_id: [u8; 16],
    /// Auxiliary state that was changed, by name: the number of the change, and the whole form.
    pub aux: BTreeMap<Vec<u8>, (u64, Vec<u8>)>,
}

/// Applies a log file of `len` bytes to a keyspace that no other thread changes meanwhile, with
/// `threads` threads including the caller. `previous` is the epoch before its first block, if
/// known. A torn end is reported, but is not an error.
///
/// # Errors
/// If the file cannot be read, or is damaged before its end. Changes applied until then stay.
pub fn replay<R: Read>(
    file: R,
    len: u64,
    keyspace: &Arc<Keyspace>,
    threads: usize,
    previous: Option<u64>,
    progress: &Progress,
) -> Result<Replayed, LogError> {
    let mut replayed = Replayed { last_epoch: previous, ..Replayed::default() };
    let reader = match BlockReader::new(file, len, previous) {
        Ok(reader) => reader,
        Err(LogError::Torn { at, lost }) => {
            (replayed.whole, replayed.torn) = (at, lost.bytes);
            return Ok(replayed);
        }
        Err(error) => return Err(error),
    };
    replayed.log_id = reader.head.log_id;
    let threads = threads.max(1);
    let damage = Damage::default();
    std::thread::scope(|scope| {
        let crew = (1..threads).map(|share| {
            let (send, receive) = sync_channel::<Job>(2);
            let damage = &damage;
            scope.spawn(move || {
                let mut target = Target::new(keyspace);
                for job in receive {
                    match job {
                        Job::Apply(batch) => target.apply(&batch, share, damage),
                        Job::Meet(barrier) => drop(barrier.wait()),
                    }
                }
            });
            send
        });
        let crew = crew.collect();
        let target = Target::new(keyspace);
        let batch = Batch::new(threads);
        let mut replay =
            Replay { reader, target, crew, batch, at: 0, replayed, damage: &damage, progress };
        let result = replay.run();
        let done = replay.meet();
        let replayed = replay.replayed;
        result.and(done).map(|()| replayed)
    })
}

/// Records of some blocks, and the assignment of their effects to threads.
struct Batch {
    bytes: Arc<Vec<u8>>,
    shares: Vec<Mutex<Vec<EffectPosition>>>,
    /// Effects that take their value from another key, which no thread applies by itself.
    copies: Vec<EffectPosition>,
    /// Position in the file.
    at: u64,
}

impl Batch {
    fn new(threads: usize) -> Self {
        let shares = (0..threads).map(|_| Mutex::default()).collect();
        Batch { bytes: Arc::default(), shares, copies: Vec::new(), at: 0 }
    }

    /// The changes of lower orders than `order`, as a batch of their own; each share is sorted.
    fn split_before(&mut self, order: Order) -> Batch {
        let shares = self.shares.iter_mut().map(|share| {
            let share = share.get_mut();
            let later = share.split_off(share.partition_point(|place| place.order < order));
            Mutex::new(std::mem::replace(share, later))
        });
        let shares = shares.collect();
        Batch { bytes: self.bytes.clone(), shares, copies: Vec::new(), at: self.at }
    }
}

/// Position of an effect.
#[derive(Clone, Copy)]
struct EffectPosition {
    order: Order,
    hash: KeyHash,
    at: usize,
    db: u16,
}

enum Job {
    Apply(Arc<Batch>),
    Meet(Arc<Barrier>),
}

/// The reading side.
struct Replay<'r, R> {
    reader: BlockReader<R>,
    target: Target,
    crew: Vec<SyncSender<Job>>,
    batch: Batch,
    /// Bytes of the batch that were looked through.
    at: usize,
    replayed: Replayed,
    damage: &'r Damage,
    progress: &'r Progress,
}

impl<R: Read> Replay<'_, R> {
    fn run(&mut self) -> Result<(), LogError> {
        loop {
            let block_at = self.reader.position();
            if self.batch.bytes.is_empty() {
                self.batch.at = block_at;
            }
            // A batch that was not sent has no other reference to its bytes.
            let next = self.reader.next(Arc::make_mut(&mut self.batch.bytes));
            self.replayed.whole = self.reader.position();
            self.replayed.last_epoch = self.reader.last_epoch();
            self.replayed.follows = self.reader.follows();
            let head = match next {
                Ok(Some(head)) => head,
                Ok(None) => return self.send(),
                Err(LogError::Torn { lost, .. }) => {
                    (self.replayed.torn, self.replayed.torn_blocks) = (lost.bytes, lost.blocks);
                    return self.send();
                }
                Err(error) => return Err(error),
            };
            self.replayed.blocks += 1;
            if head.serial {
                self.apply_serially(&head, block_at)?;
            } else {
                self.share_out(&head, block_at)?;
                if self.batch.bytes.len() >= BATCH_LEN {
                    self.send()?;
                }
            }
            let taken = self.reader.position() - block_at;
            self.progress.loaded.fetch_add(taken, Relaxed);
            if self.progress.stop.load(Relaxed) {
                return Ok(());
            }
        }
    }

    /// Assigns the effects of a block to threads.
    fn share_out(&mut self, head: &BlockHead, block_at: u64) -> Result<(), LogError> {
        let malformed = |_: Malformed| LogError::Record { at: block_at };
        let Batch { bytes, shares, copies, .. } = &mut self.batch;
        let handle = &self.target.handle;
        let there = handle.keyspace().databases();
        let threads = shares.len() as u32;
        let mut source = Bytes(&bytes[self.at..]);
        while !source.0.is_empty() {
            let (mut effects, mut context) =
                take_record(&mut source, head.epoch).map_err(malformed)?;
            while !effects.0.is_empty() {
                let at = effects.0.as_ptr().addr() - bytes.as_ptr().addr();
                // An effect says its database only where that changes.
                let before = context;
                let hash = |logged: Logged<'_>| match logged {
                    Logged::Effect(Effect::Aux { name, bytes }) => {
                        Err((name.to_vec(), bytes.to_vec()))
                    }
                    logged => {
                        let is_copy = logged.source().is_some();
                        Ok(logged.key().map(|key| (handle.hash(key), is_copy)))
                    }
                };
                let found = take_effect(&mut effects, &mut context, |_, logged| hash(logged));
                let db = context.db;
                if db >= there {
                    return Err(LogError::Databases { needed: db, there });
                }
                match found.map_err(malformed)? {
                    Ok(Some((hash, is_copy))) => {
                        let place =
                            EffectPosition { order: context.order, hash, at, db: before.db };
                        match is_copy {
                            true => copies.push(place),
                            false => {
                                shares[(hash.stripe() % threads) as usize].get_mut().push(place);
                            }
                        }
                        self.replayed.effects += 1;
                    }
                    // Such a change is in a serial block.
                    Ok(None) => return Err(LogError::Record { at: block_at }),
                    Err((name, form)) => self.replayed.note_aux(context.order.0, name, form),
                }
            }
        }
        self.at = bytes.len();
        Ok(())
    }

    /// Sends each thread its share.
    fn send(&mut self) -> Result<(), LogError> {
        if self.batch.bytes.is_empty() {
            return Ok(());
        }
        let threads = self.crew.len() + 1;
        let mut batch = std::mem::replace(&mut self.batch, Batch::new(threads));
        self.at = 0;
        let mut copies = std::mem::take(&mut batch.copies);
        if !copies.is_empty() {
            copies.sort_by_key(|place| place.order);
            let shares = batch.shares.iter_mut();
            shares.for_each(|share| share.get_mut().sort_by_key(|place| place.order));
        }
        for copy in copies {
            let before = batch.split_before(copy.order);
            self.hand_out(before)?;
            self.meet()?;
            self.target.apply_at(&batch, &copy).map_err(|unfit| unfit.in_block(batch.at))?;
        }
        self.hand_out(batch)
    }

    /// Gives every thread its share of a batch, and applies that of this one.
    fn hand_out(&mut self, batch: Batch) -> Result<(), LogError> {
        let batch = Arc::new(batch);
        for mate in &self.crew {
            // They wait for jobs as long as this thread may have some.
            let _ = mate.send(Job::Apply(batch.clone()));
        }
        self.target.apply(&batch, 0, self.damage);
        self.damage_found()
    }

    fn damage_found(&self) -> Result<(), LogError> {
        match self.damage.lock().take() {
            Some((at, unfit)) => Err(unfit.in_block(at)),
            None => Ok(()),
        }
    }

    /// Waits until every thread has applied its share.
    fn meet(&mut self) -> Result<(), LogError> {
        let barrier = Arc::new(Barrier::new(self.crew.len() + 1));
        for mate in &self.crew {
            let _ = mate.send(Job::Meet(barrier.clone()));
        }
        barrier.wait();
        self.damage_found()
    }

    /// Applies a block, which is the end of the batch, one effect after another.
    fn apply_serially(&mut self, head: &BlockHead, block_at: u64) -> Result<(), LogError> {
        let malformed = |_: Malformed| LogError::Record { at: block_at };
        let block = Arc::make_mut(&mut self.batch.bytes).split_off(self.at);
        self.send()?;
        self.meet()?;
        let there = self.target.handle.keyspace().databases();
        let mut source = Bytes(&block);
        let target = &mut self.target;
        while !source.0.is_empty() {
            let (mut effects, mut context) =
                take_record(&mut source, head.epoch).map_err(malformed)?;
            while !effects.0.is_empty() {
                let replayed = &mut self.replayed;
                let applied = take_effect(&mut effects, &mut context, |db, logged| match logged {
                    _ if db >= there => Err(LogError::Databases { needed: db, there }),
                    Logged::Effect(Effect::Aux { name, bytes }) => {
                        replayed.note_aux(0, name.to_vec(), bytes.to_vec());
                        Ok(())
                    }
                    logged => {
                        replayed.effects += 1;
                        target.handle.enter();
                        let applied = target.apply_alone(db, logged);
                        target.handle.exit();
                        applied.map_err(|unfit| unfit.in_block(block_at))
                    }
                });
                applied.map_err(malformed)??;
            }
        }
        Ok(())
    }
}

impl Replayed {
    fn note_aux(&mut self, number: u64, name: Vec<u8>, form: Vec<u8>) {
        let known = self.aux.entry(name).or_default();
        if known.0 <= number {
            *known = (number, form);
        }
    }
}

/// The effects of the next record of a block, and where they count from.
pub(super) fn take_record<'a>(
    source: &mut Bytes<'a>,
    epoch: u64,
) -> Result<(Bytes<'a>, Context), Malformed> {
    let (word, rest) = source.0.split_first_chunk().ok_or(Malformed)?;
    source.0 = rest;
    let word = u32::from_le_bytes(*word);
    let len = if word & LENGTH_LONG == 0 {
        u64::from(word & (LENGTH_LONG - 1))
    } else {
        source.fixed()?
    };
    let body = source.take(usize::try_from(len).map_err(|_| Malformed)?)?;
    let (effects, lag) = if word & HAS_LAG == 0 {
        (body, 0)
    } else {
        let (effects, lag) = body.split_last_chunk().ok_or(Malformed)?;
        (effects, u64::from_le_bytes(*lag))
    };
    let effects = if effects.first() == Some(&FILLING) { &[] } else { effects };
    let order = Order::first_of(epoch.wrapping_sub(lag));
    Ok((Bytes(effects), Context { db: 0, order }))
}

impl GroupError {
    /// The error of the block that begins at byte `at`.
    fn in_block(self, at: u64) -> LogError {
        match self {
            GroupError::Misfit(misfit) => LogError::Misfit { at, misfit },
            _ => LogError::Record { at },
        }
    }
}

/// The first record that a thread could not apply, and the block that it is in.
type Damage = Mutex<Option<(u64, GroupError)>>;

/// A thread's access to the keyspace.
struct Target {
    handle: Handle,
}

impl Target {
    fn new(keyspace: &Arc<Keyspace>) -> Self {
        let mut handle = keyspace.attach();
        // Keys that have expired since existed when the following changes were made.
        handle.ignore_expiry();
        Target { handle }
    }

    /// Applies a thread's share of a batch.
    fn apply(&mut self, batch: &Batch, share: usize, damage: &Damage) {
        let mut places = std::mem::take(&mut *batch.shares[share].lock());
        places.sort_by_key(|place| place.order);
        self.handle.enter();
        for (i, place) in places.iter().enumerate() {
            self.prefetch(&places, i);
            let mut source = Bytes(&batch.bytes[place.at..]);
            let mut context = Context { db: place.db, order: Order::default() };
            let applied = take_effect(&mut source, &mut context, |db, logged| {
                self.handle.lock(place.hash);
                let applied = self.apply_held(db, logged);
                self.handle.unlock();
                applied
            });
            if let Err(unfit) = applied.map_err(GroupError::from).and_then(|applied| applied) {
                damage.lock().get_or_insert((batch.at, unfit));
                break;
            }
        }
        self.handle.exit();
    }

    /// Applies an effect of a batch for which nothing is held yet.
    fn apply_at(&mut self, batch: &Batch, place: &EffectPosition) -> Result<(), GroupError> {
        let mut source = Bytes(&batch.bytes[place.at..]);
        let mut context = Context { db: place.db, order: Order::default() };
        self.handle.enter();
        let applied =
            take_effect(&mut source, &mut context, |db, logged| self.apply_alone(db, logged));
        self.handle.exit();
        applied.map_err(GroupError::from).and_then(|applied| applied)
    }

    /// Prefetches data for changes after this one.
    fn prefetch(&self, places: &[EffectPosition], i: usize) {
        if let Some(place) = places.get(i + 2 * AHEAD) {
            self.handle.prefetch_stripe(place.hash);
        }
        let Some(peek) = self.handle.peeker() else { return };
        if let Some(place) = places.get(i + AHEAD) {
            peek.prefetch_bucket(place.db, place.hash);
        }
        if let Some(place) = places.get(i + AHEAD / 2) {
            peek.prefetch_entry(place.db, place.hash, 2);
        }
    }

    /// Makes a change for which nothing is held yet.
    fn apply_alone(&mut self, db: u16, logged: Logged<'_>) -> Result<(), GroupError> {
        match logged.key() {
            Some(key) => {
                let other = logged.source().map(|(_, other)| self.handle.hash(other));
                let hashes = [Some(self.handle.hash(key)), other];
                self.handle.lock_many(hashes.into_iter().flatten());
            }
            None => self.handle.lock_all(),
        }
        let applied = self.apply_held(db, logged);
        self.handle.unlock();
        applied
    }

    /// Applies a change with its stripe, or the whole keyspace, locked.
    fn apply_held(&mut self, db: u16, logged: Logged<'_>) -> Result<(), GroupError> {
        apply_logged(&mut self.handle, db, logged, Origin::LOCAL, false)
    }
}
