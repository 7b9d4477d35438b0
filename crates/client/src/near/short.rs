//! [`ShortReplies`]: copies of short strings that were read before, each in two cache lines at a
//! place that follows from the key's hash. A read finds one without a pointer to follow, a lock or
//! an atomic operation that waits for others.
//!
//! The map of the store has the same replies; a read that finds one there puts the copy here. All
//! that changes a key removes its copies. Both are done under the mutex of the key's shard, and
//! keys that share a bucket share a shard, so that no two threads write the same slot.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

use super::clock;
use super::entry::Question;
use super::store::SHARDS;

/// Words of 8 bytes of a key and its reply together.
const WORDS: usize = 12;

/// Buckets of the first part; a multiple of the store's shards, and a power of two.
const BUCKETS_MIN: usize = SHARDS;

/// Replies that share a place.
const SLOTS: usize = 4;

/// Parts of the table; the second is as long as the first, each other one as all before it.
const SEGMENTS: usize = 24;

/// A reply. Its words may be written while they are read; `version` tells afterwards whether they
/// were.
#[derive(Default)]
#[repr(align(128))]
struct Slot {
    /// Odd while the slot is written.
    version: AtomicU64,
    /// [`Question::word`]; 0 if the slot is empty.
    question: AtomicU64,
    /// By [`clock`].
    expires: AtomicU64,
    /// Bytes of the key, and from bit 32 those of the reply.
    lengths: AtomicU64,
    /// The key, then the reply; each begins a word.
    text: [AtomicU64; WORDS],
}

/// Slots that keys share, and a byte of each.
type Bucket = [Slot; SLOTS];

/// A part of the table. Marks are apart from the slots, so that those of many buckets stay in the
/// processor's cache, and which slot is read is known without a guess.
struct Segment {
    /// For each bucket, a byte per slot: 0 if it is empty.
    marks: Box<[AtomicU32]>,
    buckets: Box<[Bucket]>,
}

/// A byte in each place of a bucket's marks.
const ONES: u32 = 0x0101_0101;

/// The mark of a reply, in the lowest place.
#[inline]
fn mark(hash: u64, question: u64) -> u32 {
    (hash.wrapping_add(question.wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 57) as u32 | 0x80
}

/// Destination of a copied reply, before the read knows whether it is whole.
pub(super) type Room = [[u8; 8]; WORDS];

/// Room for a reply.
pub(super) const ROOM: Room = [[0; 8]; WORDS];

/// The word of a key or a reply that begins at a byte; behind its end there are zeros.
#[inline]
fn word(text: &[u8], from: usize) -> u64 {
    match text[from..].first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => last_word(text, from),
    }
}

/// Like [`word`], for fewer than 8 remaining bytes.
#[inline]
fn last_word(text: &[u8], from: usize) -> u64 {
    match text.last_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes) >> ((8 - (text.len() - from)) * 8),
        None => text.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

/// Number of words of a key or a reply with `len` bytes.
#[inline]
fn words(len: usize) -> usize {
    len.div_ceil(8)
}

impl Slot {
    /// Copies the reply of a key, unless the slot has another one, or is written meanwhile; where
    /// it lies then.
    #[inline]
    fn read(&self, key: &[u8], question: u64, room: &mut Room) -> Option<Range<usize>> {
        let version = self.version.load(Ordering::Acquire);
        if self.question() != question || !self.is_of(key) {
            return None;
        }
        let expires = self.expires.load(Ordering::Relaxed);
        let len = (self.lengths.load(Ordering::Relaxed) >> 32) as usize;
        // All words, so that how many there are decides nothing.
        let mut at = 0;
        while at < WORDS {
            room[at] = self.text[at].load(Ordering::Relaxed).to_le_bytes();
            at += 1;
        }
        fence(Ordering::Acquire);
        let is_whole = version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        if !is_whole || (expires != clock::NEVER && expires <= clock::now()) {
            return None;
        }
        let first = words(key.len()) * 8;
        Some(first..first + len)
    }

    /// Whether the key is this one.
    #[inline]
    fn is_of(&self, key: &[u8]) -> bool {
        if self.lengths.load(Ordering::Relaxed) as u32 as usize != key.len() {
            return false;
        }
        let mut differ = 0;
        let mut at = 0;
        while at < words(key.len()) && at < WORDS {
            differ |= self.text[at].load(Ordering::Relaxed) ^ word(key, at * 8);
            at += 1;
        }
        differ == 0
    }

    /// The key, for the thread that may write.
    fn key(&self) -> Vec<u8> {
        let words = self.text.iter().map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let len = self.lengths.load(Ordering::Relaxed) as u32 as usize;
        words.flatten().take(len).collect()
    }

    #[inline]
    fn question(&self) -> u64 {
        self.question.load(Ordering::Relaxed)
    }

    /// Has it written by the only thread that may.
    fn write(&self, write: impl FnOnce()) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        write();
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    fn fill(&self, question: u64, expires: u64, key: &[u8], reply: &[u8]) {
        self.write(|| {
            self.question.store(question, Ordering::Relaxed);
            self.expires.store(expires, Ordering::Relaxed);
            let lengths = (reply.len() as u64) << 32 | key.len() as u64;
            self.lengths.store(lengths, Ordering::Relaxed);
            let key = (0..words(key.len())).map(|at| word(key, at * 8));
            let reply = (0..words(reply.len())).map(|at| word(reply, at * 8));
            for (own, word) in self.text.iter().zip(key.chain(reply)) {
                own.store(word, Ordering::Relaxed);
            }
        });
    }

    fn empty(&self) {
        self.write(|| self.question.store(0, Ordering::Relaxed));
    }
}

/// Read by all, and written only when the table grows.
#[repr(align(128))]
pub(super) struct ShortReplies {
    /// Buckets that there are; 0 or a power of two.
    buckets: AtomicUsize,
    segments: [OnceLock<Segment>; SEGMENTS],
    buckets_max: usize,
    used: Used,
}

/// Slots that are not empty.
#[derive(Default)]
#[repr(align(128))]
struct Used(AtomicUsize);

impl ShortReplies {
    /// Creates a table of at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            buckets: AtomicUsize::new(0),
            segments: [const { OnceLock::new() }; SEGMENTS],
            buckets_max: bytes_max / size_of::<Bucket>(),
            used: Used::default(),
        }
    }

    /// The copy of a reply, if there is one and it has not expired.
    #[inline]
    pub(super) fn read<'r>(
        &self,
        hash: u64,
        key: &[u8],
        question: Question<'_>,
        room: &'r mut Room,
    ) -> Option<&'r [u8]> {
        let (bucket, marks) = self.bucket(hash)?;
        let word = question.word()?;
        let others = marks.load(Ordering::Relaxed) ^ mark(hash, word).wrapping_mul(ONES);
        let mut same = others.wrapping_sub(ONES) & !others & (ONES << 7);
        // One iteration, except for marks that are equal by chance.
        while same != 0 {
            let slot = &bucket[same.trailing_zeros() as usize / 8 % SLOTS];
            if let Some(at) = slot.read(key, word, room) {
                return room.as_flattened().get(at);
            }
            same &= same - 1;
        }
        None
    }

    /// The bucket of a hash, and its marks.
    #[inline]
    fn bucket(&self, hash: u64) -> Option<(&Bucket, &AtomicU32)> {
        let buckets = self.buckets.load(Ordering::Acquire);
        let at = hash as usize & buckets.checked_sub(1)?;
        let (segment, begin) = match (at / BUCKETS_MIN).checked_ilog2() {
            None => (0, 0),
            Some(log) => (log as usize + 1, BUCKETS_MIN << log),
        };
        let segment = self.segments.get(segment)?.get()?;
        Some((segment.buckets.get(at - begin)?, segment.marks.get(at - begin)?))
    }

    /// Whether a copy would take the place of no other.
    pub(super) fn has_room(&self, hash: u64) -> bool {
        match self.bucket(hash) {
            Some((_, marks)) => marks.load(Ordering::Relaxed) & (ONES << 7) != ONES << 7,
            None => self.buckets_max >= BUCKETS_MIN,
        }
    }

    /// Whether a reply is so short that it may be copied.
    pub(super) fn takes(key: &[u8], question: Question<'_>, reply: &[u8]) -> bool {
        question.word().is_some() && words(key.len()) + words(reply.len()) <= WORDS
    }

    /// Puts a copy where reads find it, if it is short. Under the mutex of the key's shard, like
    /// all that follows.
    pub(super) fn insert(
        &self,
        hash_of: impl Fn(&[u8]) -> u64,
        key: &[u8],
        question: Question<'_>,
        expires: u64,
        reply: &[u8],
    ) {
        let Some(word) = question.word().filter(|_| Self::takes(key, question, reply)) else {
            return;
        };
        let hash = hash_of(key);
        loop {
            let Some((bucket, marks)) = self.bucket(hash) else {
                if self.grow() { continue } else { return }
            };
            let is_same = |slot: &Slot| slot.is_of(key) && slot.question() == word;
            let is_elsewhere = |slot: &Slot| {
                let other = self.bucket(hash_of(&slot.key()));
                other.is_none_or(|(other, _)| !std::ptr::eq(other, bucket))
            };
            let at = bucket
                .iter()
                .position(is_same)
                .or_else(|| bucket.iter().position(|slot| slot.question() == 0))
                // An entry stored here before the table grew.
                .or_else(|| bucket.iter().position(is_elsewhere));
            if at.is_none() && self.is_dense() && self.grow() {
                continue;
            }
            let at = at.unwrap_or((hash >> 32) as usize % SLOTS);
            if bucket[at].question() == 0 {
                self.used.0.fetch_add(1, Ordering::Relaxed);
            }
            bucket[at].fill(word, expires, key, reply);
            let cleared = marks.load(Ordering::Relaxed) & !(0xFF << (8 * at));
            marks.store(cleared | mark(hash, word) << (8 * at), Ordering::Relaxed);
            return;
        }
    }

    /// Removes the copies of a key's replies; whether there were any.
    pub(super) fn remove(&self, hash: u64, key: &[u8]) -> bool {
        let Some((bucket, marks)) = self.bucket(hash) else { return false };
        let mut is_removed = false;
        for (at, slot) in bucket.iter().enumerate() {
            if slot.question() != 0 && slot.is_of(key) {
                slot.empty();
                let left = marks.load(Ordering::Relaxed) & !(0xFF << (8 * at));
                marks.store(left, Ordering::Relaxed);
                self.used.0.fetch_sub(1, Ordering::Relaxed);
                is_removed = true;
            }
        }
        is_removed
    }

    /// Removes all copies; under the mutexes of all shards.
    pub(super) fn clear(&self) {
        for segment in self.segments.iter().filter_map(OnceLock::get) {
            for (bucket, marks) in segment.buckets.iter().zip(&segment.marks) {
                if marks.swap(0, Ordering::Relaxed) != 0 {
                    bucket.iter().for_each(Slot::empty);
                }
            }
        }
        self.used.0.store(0, Ordering::Relaxed);
    }

    /// Bytes that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.load(Ordering::Relaxed) * size_of::<Bucket>()
    }

    /// Whether so much of it is used that a full bucket is no exception.
    fn is_dense(&self) -> bool {
        let slots = self.buckets.load(Ordering::Relaxed) * SLOTS;
        self.used.0.load(Ordering::Relaxed) > slots / 8 * 5
    }

    /// Makes it twice as long, if it may be. Copies stay where they are, and are not found there
    /// any more if their place is another now.
    fn grow(&self) -> bool {
        let buckets = self.buckets.load(Ordering::Acquire);
        let added = buckets.max(BUCKETS_MIN);
        let segment = match buckets {
            0 => 0,
            _ => (buckets / BUCKETS_MIN).ilog2() as usize + 1,
        };
        let Some(place) = self.segments.get(segment) else { return false };
        if buckets + added > self.buckets_max {
            return false;
        }
        place.get_or_init(|| Segment {
            marks: (0..added).map(|_| AtomicU32::default()).collect(),
            buckets: (0..added).map(|_| Bucket::default()).collect(),
        });
        // Another thread may have been as quick.
        let _ = self.buckets.compare_exchange(
            buckets,
            buckets + added,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        true
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;
    use std::sync::atomic::AtomicBool;

    use foldhash::fast::FixedState;

    use super::*;
    use crate::request::CommandInfo;

    fn hash(key: &[u8]) -> u64 {
        FixedState::default().hash_one(key)
    }

    fn question(name: &str) -> Question<'static> {
        Question::of_key(CommandInfo::find(name).unwrap())
    }

    fn read(short: &ShortReplies, key: &[u8], name: &str) -> Option<Vec<u8>> {
        let mut room = ROOM;
        short.read(hash(key), key, question(name), &mut room).map(<[u8]>::to_vec)
    }

    #[test]
    fn keys_and_replies_of_all_lengths_come_back() {
        let short = ShortReplies::new(1 << 20);
        let letters: Vec<u8> = (b'a'..=b'z').cycle().take(100).collect();
        for key_len in 0..=96 {
            for len in 0..=96 {
                let (key, reply) = (&letters[..key_len], &letters[100 - len..]);
                let takes = key_len.div_ceil(8) + len.div_ceil(8) <= WORDS;
                assert_eq!(ShortReplies::takes(key, question("GET"), reply), takes);
                short.insert(hash, key, question("GET"), clock::NEVER, reply);
                assert_eq!(read(&short, key, "GET").as_deref(), takes.then_some(reply));
                assert_eq!(read(&short, key, "STRLEN"), None);
                assert_eq!(short.remove(hash(key), key), takes);
                assert_eq!(read(&short, key, "GET"), None);
            }
        }
    }

    #[test]
    fn replies_of_a_key_go_together_and_what_expires_is_not_read() {
        let short = ShortReplies::new(1 << 20);
        for (name, reply) in [("GET", b"a"), ("STRLEN", b"b"), ("GET", b"c")] {
            short.insert(hash, b"k", question(name), clock::NEVER, reply);
        }
        assert_eq!(read(&short, b"k", "GET").unwrap(), b"c");
        assert_eq!(read(&short, b"k", "STRLEN").unwrap(), b"b");
        assert!(short.remove(hash(b"k"), b"k"));
        assert_eq!((read(&short, b"k", "GET"), read(&short, b"k", "STRLEN")), (None, None));
        short.insert(hash, b"k", question("GET"), clock::now(), b"a");
        assert_eq!(read(&short, b"k", "GET"), None);
        short.insert(hash, b"k", question("GET"), clock::NEVER, b"a");
        short.clear();
        assert_eq!((read(&short, b"k", "GET"), short.used.0.into_inner()), (None, 0));
    }

    #[test]
    fn it_grows_as_far_as_it_may_and_no_copy_is_of_another_key() {
        let bytes_max = 1 << 20;
        let short = ShortReplies::new(bytes_max);
        let key = |n: usize| format!("key:{n}").into_bytes();
        for n in 0..20_000 {
            short.insert(hash, &key(n), question("GET"), clock::NEVER, &key(n));
            assert_eq!(read(&short, &key(n), "GET").unwrap(), key(n));
        }
        assert!(short.bytes() <= bytes_max && short.bytes() > bytes_max / 2);
        let mut found = 0;
        for n in 0..20_000 {
            if let Some(reply) = read(&short, &key(n), "GET") {
                assert_eq!(reply, key(n));
                found += 1;
            }
            short.remove(hash(&key(n)), &key(n));
            assert_eq!(read(&short, &key(n), "GET"), None);
        }
        let slots = short.bytes() / size_of::<Slot>();
        assert!(found > slots / 2 && found <= slots, "{found} of {slots}");
        let none = ShortReplies::new(1000);
        none.insert(hash, b"k", question("GET"), clock::NEVER, b"a");
        assert!(!none.has_room(hash(b"k")) && none.bytes() == 0);
    }

    #[test]
    fn a_read_beside_a_writer_is_whole_and_not_older() {
        let short = ShortReplies::new(1 << 20);
        let (removed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        let reply = |count: u64| format!("{count:08}").repeat(8).into_bytes();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        let begun = removed.load(Ordering::SeqCst);
                        let Some(text) = read(&short, b"a key", "GET") else { continue };
                        let count = std::str::from_utf8(&text[..8]).unwrap().parse().unwrap();
                        assert_eq!(text, reply(count));
                        assert!(count > begun, "{count} after the removal of {begun}");
                    }
                });
            }
            for count in 1..20_000 {
                short.insert(hash, b"a key", question("GET"), clock::NEVER, &reply(count));
                short.insert(hash, b"another", question("GET"), clock::NEVER, b"b");
                short.remove(hash(b"a key"), b"a key");
                removed.store(count, Ordering::SeqCst);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
