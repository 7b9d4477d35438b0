//! Subscriptions shared by all workers: number of subscribers of each channel or pattern, by
//! worker.

use super::{ChannelKind, Name};
use foldhash::quality::RandomState;
use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use petrel_commands::glob::{Case, Pattern, matches};
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// Locks per kind of channel; a power of two.
const SHARDS: usize = 64;

/// Tables are made smaller when they are mostly empty and have room for more than this.
const RETAINED_MAX: usize = 1024;

/// Subscribers by worker.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Counts(Vec<(u16, u32)>);

impl Counts {
    /// Workers with subscribers, and their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.0.iter().map(|&(worker, count)| (usize::from(worker), count))
    }

    /// Subscribers of all workers.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|&(_, count)| u64::from(count)).sum()
    }

    /// Adds those of `other`.
    pub fn add_all(&mut self, other: &Counts) {
        other.0.iter().for_each(|&(worker, count)| self.add(worker, count));
    }

    fn add(&mut self, worker: u16, count: u32) {
        match self.0.iter_mut().find(|(known, _)| *known == worker) {
            Some((_, known)) => *known += count,
            None => self.0.push((worker, count)),
        }
    }

    fn remove_one(&mut self, worker: u16) {
        if let Some(at) = self.0.iter().position(|&(known, _)| known == worker) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.swap_remove(at);
            }
        }
    }
}

/// Names with their subscribers.
type Table = HashMap<Name, Counts, RandomState>;

/// Channels of one kind, spread over locks of their own.
struct Channels {
    len: AtomicUsize,
    shards: Box<[Shard]>,
}

#[derive(Default)]
#[repr(align(64))]
struct Shard(Mutex<Table>);

/// All subscribed names, with their subscribers' workers.
pub struct Directory {
    hasher: RandomState,
    channels: Channels,
    shard_channels: Channels,
    patterns: RwLock<Table>,
    patterns_len: AtomicUsize,
    /// Connections that are subscribed to something.
    clients: AtomicUsize,
}

impl Default for Directory {
    fn default() -> Self {
        let channels = || Channels {
            len: AtomicUsize::new(0),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
        };
        Directory {
            hasher: RandomState::default(),
            channels: channels(),
            shard_channels: channels(),
            patterns: RwLock::default(),
            patterns_len: AtomicUsize::new(0),
            clients: AtomicUsize::new(0),
        }
    }
}

/// The locks under which the subscribers of one name are changed.
pub enum SubscribersLock<'d> {
    /// The lock of a channel's shard.
    Shard(MutexGuard<'d, Table>, &'d AtomicUsize),
    /// The lock of all patterns.
    Patterns(RwLockWriteGuard<'d, Table>, &'d AtomicUsize),
}

impl SubscribersLock<'_> {
    fn parts(&mut self) -> (&mut Table, &AtomicUsize) {
        match self {
            SubscribersLock::Shard(table, len) => (table, len),
            SubscribersLock::Patterns(table, len) => (table, len),
        }
    }

    /// Adds a subscriber; returns the shared copy of the name.
    pub fn add(&mut self, name: &[u8], worker: u16) -> Name {
        let (table, len) = self.parts();
        if let Some((known, _)) = table.get_key_value(name) {
            let known = known.clone();
            if let Some(counts) = table.get_mut(name) {
                counts.add(worker, 1);
            }
            return known;
        }
        let name = Name::from(name);
        let mut counts = Counts::default();
        counts.add(worker, 1);
        table.insert(name.clone(), counts);
        len.fetch_add(1, SeqCst);
        name
    }

    /// Counts one subscriber less.
    pub fn remove(&mut self, name: &[u8], worker: u16) {
        let (table, len) = self.parts();
        let Some(counts) = table.get_mut(name) else { return };
        counts.remove_one(worker);
        if counts.0.is_empty() {
            table.remove(name);
            len.fetch_sub(1, SeqCst);
            if table.capacity() > RETAINED_MAX && table.len() < table.capacity() / 8 {
                table.shrink_to(table.len() * 2);
            }
        }
    }
}

/// Everything that a message must know of its subscribers; they cannot change while it is held.
pub struct Audience<'d> {
    /// The patterns that match.
    pub patterns: Vec<Name>,
    /// Subscribers to the channel and to matching patterns, by worker.
    pub counts: Counts,
    _shard: MutexGuard<'d, Table>,
    _patterns: Option<RwLockReadGuard<'d, Table>>,
}

impl Directory {
    /// Whether there can be no listener: there are no subscriptions of a kind that could match.
    #[inline]
    pub fn is_silent(&self, kind: ChannelKind) -> bool {
        match kind {
            ChannelKind::Shard => self.shard_channels.len.load(SeqCst) == 0,
            _ => self.channels.len.load(SeqCst) == 0 && self.patterns_len.load(SeqCst) == 0,
        }
    }

    /// Locks the table that a subscription to this name changes.
    pub fn hold(&self, kind: ChannelKind, name: &[u8]) -> SubscribersLock<'_> {
        match kind {
            ChannelKind::Pattern => {
                SubscribersLock::Patterns(self.patterns.write(), &self.patterns_len)
            }
            ChannelKind::Channel => {
                SubscribersLock::Shard(self.shard(&self.channels, name), &self.channels.len)
            }
            ChannelKind::Shard => SubscribersLock::Shard(
                self.shard(&self.shard_channels, name),
                &self.shard_channels.len,
            ),
        }
    }

    /// The receivers of a channel's message; none if there are none.
    pub fn audience(&self, kind: ChannelKind, channel: &[u8]) -> Option<Audience<'_>> {
        let of_kind =
            if kind == ChannelKind::Shard { &self.shard_channels } else { &self.channels };
        let asks_patterns = kind == ChannelKind::Channel && self.patterns_len.load(SeqCst) > 0;
        let all_patterns = asks_patterns.then(|| self.patterns.read());
        let shard = self.shard(of_kind, channel);
        let mut counts = shard.get(channel).cloned().unwrap_or_default();
        let mut patterns = Vec::new();
        for (pattern, listening) in all_patterns.iter().flat_map(|all| all.iter()) {
            if matches(pattern, channel, Case::Sensitive) {
                counts.add_all(listening);
                patterns.push(pattern.clone());
            }
        }
        if counts.0.is_empty() {
            return None;
        }
        Some(Audience { patterns, counts, _shard: shard, _patterns: all_patterns })
    }

    /// Names of the channels of a kind that have subscribers and match the pattern, if there is
    /// one.
    pub fn names(&self, kind: ChannelKind, pattern: Option<&[u8]>) -> Vec<Name> {
        let pattern = pattern.map(|pattern| Pattern::new(pattern, Case::Sensitive));
        let admits = |name: &&Name| pattern.as_ref().is_none_or(|pattern| pattern.matches(name));
        let shards = self.of(kind).shards.iter();
        shards
            .flat_map(|shard| shard.0.lock().keys().filter(admits).cloned().collect::<Vec<_>>())
            .collect()
    }

    /// Number of a channel's subscribers.
    pub fn subscribers(&self, kind: ChannelKind, channel: &[u8]) -> u64 {
        self.shard(self.of(kind), channel).get(channel).map_or(0, Counts::total)
    }

    /// Number of names of a kind with subscribers.
    pub fn len(&self, kind: ChannelKind) -> usize {
        match kind {
            ChannelKind::Pattern => self.patterns_len.load(Relaxed),
            _ => self.of(kind).len.load(Relaxed),
        }
    }

    /// Connections that are subscribed to something.
    pub fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// A connection has begun to listen, or does so no longer.
    pub fn count_client(&self, listens: bool) {
        if listens {
            self.clients.fetch_add(1, Relaxed);
        } else {
            self.clients.fetch_sub(1, Relaxed);
        }
    }

    fn of(&self, kind: ChannelKind) -> &Channels {
        if kind == ChannelKind::Shard { &self.shard_channels } else { &self.channels }
    }

    fn shard<'d>(&self, of_kind: &'d Channels, name: &[u8]) -> MutexGuard<'d, Table> {
        of_kind.shards[self.hasher.hash_one(name) as usize % SHARDS].0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_counted_by_worker() {
        let directory = Directory::default();
        assert!(
            directory.is_silent(ChannelKind::Channel) && directory.is_silent(ChannelKind::Shard)
        );
        directory.hold(ChannelKind::Channel, b"c").add(b"c", 0);
        directory.hold(ChannelKind::Channel, b"c").add(b"c", 1);
        directory.hold(ChannelKind::Channel, b"c").add(b"c", 1);
        directory.hold(ChannelKind::Pattern, b"c*").add(b"c*", 3);
        let audience = directory.audience(ChannelKind::Channel, b"c").unwrap();
        assert_eq!(audience.counts.total(), 4);
        assert_eq!(audience.counts.iter().collect::<Vec<_>>(), [(0, 1), (1, 2), (3, 1)]);
        assert_eq!(audience.patterns.len(), 1);
        drop(audience);
        assert_eq!(directory.subscribers(ChannelKind::Channel, b"c"), 3);
        assert_eq!(directory.audience(ChannelKind::Channel, b"cc").unwrap().counts.total(), 1);
        assert!(directory.audience(ChannelKind::Channel, b"d").is_none());
        assert!(directory.is_silent(ChannelKind::Shard));
    }

    #[test]
    fn what_nobody_listens_to_is_forgotten() {
        let directory = Directory::default();
        for worker in [0, 1] {
            directory.hold(ChannelKind::Shard, b"s").add(b"s", worker);
        }
        assert_eq!(directory.names(ChannelKind::Shard, Some(b"?")), [Name::from(&b"s"[..])]);
        assert!(directory.names(ChannelKind::Shard, Some(b"x")).is_empty());
        directory.hold(ChannelKind::Shard, b"s").remove(b"s", 0);
        directory.hold(ChannelKind::Shard, b"s").remove(b"other", 0);
        assert_eq!(directory.len(ChannelKind::Shard), 1);
        directory.hold(ChannelKind::Shard, b"s").remove(b"s", 1);
        assert_eq!(directory.len(ChannelKind::Shard), 0);
        assert!(directory.is_silent(ChannelKind::Shard));
    }
}
