//! What has really happened: the order in which the homes have changed each slot, and whether what
//! anybody reads can be explained by it.
//!
//! A slot's primary numbers its changes, so their order is known, and each check is a walk along
//! it:
//!
//! * a node reads a prefix of each slot's order, never a shorter one than before, and never without
//!   what its own commands were answered; so does each connection, in the order of its commands;
//! * only a slot's primary changes it;
//! * a forwarded command changes something once at most;
//! * no transaction is executed of a client that watches keys which have changed since;
//! * where all keys of a home were removed, each that it had has changed meanwhile;
//! * each node gets a message once at most, and those of one node and channel in their order;
//! * what survives a node is a prefix of what it has done, with everything that others have read.

use crate::content::Content;
use crate::machine::DbKey;
use petrel_cluster::wire::Tag;
use petrel_cluster::{Identity, Node, View, slot_of};
use std::collections::{BTreeMap, BTreeSet};

/// Positions in the orders of slots: how many changes of the slot there were, in the low bits;
/// above them, how often the end of its order was lost. What was seen of that is behind what there
/// is, and before what comes later.
pub type Positions = BTreeMap<u16, u64>;

/// The bits of a position that count changes.
const COUNT: u64 = (1 << 40) - 1;

/// What a key held from a position of its slot's order on.
struct Version {
    at: u64,
    content: Content,
    expiry: Option<i64>,
}

/// What a node has of a key.
pub struct Held {
    /// The key.
    pub key: DbKey,
    /// Its value.
    pub content: Content,
    /// Its expiry, in Unix milliseconds, whether that has passed or not.
    pub expiry: Option<i64>,
}

/// What one execution of a forwarded command has seen.
struct Executed {
    positions: Vec<(u16, u64)>,
    changed: bool,
    /// By the clock of the node that did.
    now_ms: i64,
}

/// The only one who sees all nodes.
#[derive(Default)]
pub struct Witness {
    history: BTreeMap<DbKey, Vec<Version>>,
    /// The last position of each slot's order.
    last: Positions,
    views: BTreeMap<Identity, View>,
    /// How far each node has read at least.
    seen: BTreeMap<Identity, Positions>,
    executed: BTreeMap<Tag, Vec<Executed>>,
    /// The first names of commands that were forwarded again.
    names: BTreeMap<Tag, Tag>,
    /// A change that was answered may be lost with its home: not all members hold everything.
    may_lose: bool,
    /// Where the order of each slot has lost its end, one after another.
    cuts: BTreeMap<u16, Vec<u64>>,
    /// Slots of nodes that have died.
    awaited: BTreeSet<u16>,
    /// Replies that nobody else may get, and where they were given.
    unique: BTreeMap<(DbKey, Vec<u8>), (u16, u64)>,
    /// Elements that stay.
    logged: BTreeMap<(DbKey, Vec<u8>), (u16, u64)>,
    /// By client and key that it watches: the last position of the slot at that time, and the time.
    watched: BTreeMap<(u64, DbKey), (u64, i64)>,
    /// Keys that are to be removed at a home, and the positions of their slots.
    flushed: BTreeMap<Tag, Vec<(DbKey, u64)>>,
    /// Messages by number: their nodes and channels.
    published: Vec<(Identity, Vec<u8>)>,
    /// By the node that has got messages, and the node and the channel that they were of: how many
    /// messages of the run had been published with the last one.
    heard: BTreeMap<(Identity, Identity, Vec<u8>), usize>,
    /// Messages that nodes have got.
    pub messages: u64,
    /// How often all keys of a home were removed.
    pub flushes: u64,
    /// What was found.
    pub violations: Vec<String>,
    /// Reads that were explained.
    pub reads: u64,
    /// Commits of homes.
    pub commits: u64,
    /// Commands that homes have executed for others.
    pub forwarded: u64,
}

impl Witness {
    /// One of a cluster in which a change that was answered may be lost with its home.
    pub fn of_homes() -> Self {
        Witness { may_lose: true, ..Witness::default() }
    }

    /// Something is wrong.
    pub fn violation(&mut self, text: String) {
        self.violations.push(text);
    }

    /// A node adopts a view.
    pub fn adopts(&mut self, identity: Identity, view: View) {
        self.views.insert(identity, view);
    }

    /// The last position of a slot.
    pub fn last(&self, slot: u16) -> u64 {
        self.last.get(&slot).copied().unwrap_or(0)
    }

    /// A node has changed keys by itself; the positions of the changes in their slots.
    pub fn committed(&mut self, by: Identity, mut versions: Vec<(u64, Held)>) {
        self.commits += 1;
        versions.sort_by_key(|(at, _)| *at);
        let before = self.last.clone();
        for (count, Held { key, content, expiry }) in versions {
            let slot = slot_of(&key.1);
            let at = self.last(slot) & !COUNT | count;
            let primary = self.views.get(&by).and_then(|view| view.slots.primary(slot));
            let is_next = at > before.get(&slot).copied().unwrap_or(0);
            if primary != Some(by.node) || self.awaited.contains(&slot) || !is_next {
                self.violation(format!(
                    "{by:?} has changed {} at {at}, whose primary is {primary:?} and which is at {:?}",
                    shown(&key.1),
                    before.get(&slot)
                ));
            }
            self.last.insert(slot, at);
            self.history.entry(key).or_default().push(Version { at, content, expiry });
        }
    }

    /// The first position from `lower` on at which a key held this at the time.
    fn explain(&self, key: &DbKey, content: &Content, now_ms: i64, lower: u64) -> Option<u64> {
        let absent = Content::default();
        let versions = self.history.get(key).map(Vec::as_slice).unwrap_or_default();
        let first = versions.partition_point(|version| version.at <= lower);
        if first == 0 && *content == absent {
            return Some(lower);
        }
        let fits = |version: &&Version| match version.expiry {
            Some(at) if at <= now_ms => *content == absent,
            _ => *content == version.content,
        };
        let found = versions[first.saturating_sub(1)..].iter().find(fits)?;
        Some(found.at.max(lower))
    }

    /// A client's read on a node; `is_home` if it was of the primary. The position that it has
    /// seen.
    pub fn read(
        &mut self,
        by: Identity,
        (key, content): (&DbKey, &Content),
        now_ms: i64,
        is_home: bool,
    ) -> (u16, u64) {
        let slot = slot_of(&key.1);
        let seen = self.seen.get(&by).and_then(|seen| seen.get(&slot)).copied().unwrap_or(0);
        let lower = if is_home { self.last(slot) } else { seen };
        match self.explain(key, content, now_ms, lower) {
            Some(at) => {
                self.reads += 1;
                self.seen.entry(by).or_default().insert(slot, at);
                (slot, at)
            }
            None => {
                let text = self.show_read(key, content, lower);
                self.violation(format!("{by:?} reads {text} (home: {is_home})"));
                (slot, lower)
            }
        }
    }

    fn show_read(&self, key: &DbKey, content: &Content, lower: u64) -> String {
        let versions = self.history.get(key).map(Vec::as_slice).unwrap_or_default();
        let first = versions.partition_point(|version| version.at <= lower).saturating_sub(1);
        let texts = |content: &Content| -> Vec<String> {
            content.0.iter().map(|text| shown(text)).collect()
        };
        let later: Vec<_> = versions[first..]
            .iter()
            .map(|version| (version.at, texts(&version.content), version.expiry))
            .collect();
        format!(
            "{}@{} of slot {} as {:?}, which it never was from position {lower} on: {later:?}",
            shown(&key.1),
            key.0,
            slot_of(&key.1),
            texts(content)
        )
    }

    /// The same read in the order of its connection's commands, which have seen this much before.
    pub fn read_in_order(
        &mut self,
        seen: &mut Positions,
        (key, content): (&DbKey, &Content),
        now_ms: i64,
    ) {
        let slot = slot_of(&key.1);
        let lower = seen.get(&slot).copied().unwrap_or(0);
        match self.explain(key, content, now_ms, lower) {
            Some(at) => drop(seen.insert(slot, at)),
            None => {
                let text = self.show_read(key, content, lower);
                self.violation(format!("after earlier commands, a connection reads {text}"));
            }
        }
    }

    /// A home has executed a forwarded command.
    pub fn executed(
        &mut self,
        by: Identity,
        tag: Tag,
        (slots, changed, now_ms): (&[u16], bool, i64),
    ) {
        self.forwarded += 1;
        let tag = self.first_name(tag);
        let positions = slots.iter().map(|&slot| (slot, self.last(slot))).collect();
        let executed = self.executed.entry(tag).or_default();
        executed.push(Executed { positions, changed, now_ms });
        if executed.iter().filter(|executed| executed.changed).count() > 1 {
            self.violation(format!("{tag:?} was executed again, by {by:?}"));
        }
    }

    /// A command that has waited at its home is forwarded again, by another name.
    pub fn forwarded_again(&mut self, before: Tag, tag: Tag) {
        let first = self.first_name(before);
        self.names.insert(tag, first);
        // It may have been executed at once.
        let by_name = self.executed.remove(&tag).unwrap_or_default();
        let executed = self.executed.entry(first).or_default();
        executed.extend(by_name);
        if executed.iter().filter(|executed| executed.changed).count() > 1 {
            self.violation(format!("{tag:?} was executed as {first:?} before"));
        }
    }

    fn first_name(&self, tag: Tag) -> Tag {
        self.names.get(&tag).copied().unwrap_or(tag)
    }

    /// A forwarded command was answered: what it has seen, the node has seen from now on.
    /// Its positions and the time; none if they are lost.
    pub fn answered(&mut self, by: Identity, tag: Tag) -> Option<(Vec<(u16, u64)>, i64)> {
        let tag = self.first_name(tag);
        let Some(executed) = self.executed.get(&tag).and_then(|all| all.last()) else {
            if !self.may_lose {
                self.violation(format!("{tag:?} was answered, but what it has done is lost"));
            }
            return None;
        };
        let (positions, now_ms) = (executed.positions.clone(), executed.now_ms);
        self.has_seen(by, &positions);
        Some((positions, now_ms))
    }

    /// A read that was executed at the home of its key, at this position of the slot.
    pub fn read_at(
        &mut self,
        by: Identity,
        (key, content): (&DbKey, &Content),
        now_ms: i64,
        at: u64,
    ) {
        if self.explain(key, content, now_ms, at) == Some(at) {
            self.reads += 1;
        } else {
            let text = self.show_read(key, content, at);
            self.violation(format!("{by:?} reads {text} at its home"));
        }
    }

    /// Whether a position that was seen is lost, where that may be.
    pub fn is_lost(&self, (slot, at): (u16, u64)) -> bool {
        if !self.may_lose {
            return false;
        }
        let last = self.last(slot);
        let cuts = self.cuts.get(&slot).map(Vec::as_slice).unwrap_or_default();
        let later = cuts.iter().skip((at >> COUNT.count_ones()) as usize);
        at > last || later.into_iter().any(|&cut| at & COUNT > cut)
    }

    /// A node has seen these positions.
    pub fn has_seen(&mut self, by: Identity, positions: &[(u16, u64)]) {
        let seen = self.seen.entry(by).or_default();
        for &(slot, at) in positions {
            let seen = seen.entry(slot).or_default();
            *seen = at.max(*seen);
        }
    }

    /// A client watches a key, at its home.
    pub fn watched(&mut self, client: u64, key: DbKey, now_ms: i64) {
        let at = self.last(slot_of(&key.1));
        self.watched.insert((client, key), (at, now_ms));
    }

    /// A transaction of a client that watches keys was executed, behind this position of their
    /// slot.
    pub fn transaction(&mut self, by: Identity, client: u64, last: u64) {
        let first = (client, (0, Vec::new()));
        let watched = self.watched.range(first..).take_while(|((of, _), _)| *of == client);
        let has_changed = |((_, key), (at, now_ms)): (&(u64, DbKey), &(u64, i64))| {
            let versions = self.history.get(key).map(Vec::as_slice).unwrap_or_default();
            let first = versions.partition_point(|version| version.at <= *at);
            let next = versions.get(first).filter(|version| version.at <= last)?;
            // That its time was over already when it was watched is no change.
            let before = first.checked_sub(1).and_then(|before| versions[before].expiry);
            let was_over = before.is_some_and(|expiry| expiry <= *now_ms);
            let is_changed = !was_over || next.content.is_there() || {
                versions.get(first + 1).is_some_and(|version| version.at <= last)
            };
            is_changed.then(|| (shown(&key.1), *at, next.at))
        };
        if let Some((key, at, changed)) = watched.into_iter().find_map(has_changed) {
            self.violation(format!(
                "{by:?} executes a transaction though {key}, watched at {at}, has changed at {changed}"
            ));
        }
    }

    /// A home begins to remove all its keys.
    pub fn flush_begins(&mut self, tag: Tag, keys: &[DbKey]) {
        let at = |key: &DbKey| (key.clone(), self.last(slot_of(&key.1)));
        let keys = keys.iter().map(at).collect();
        self.flushed.insert(tag, keys);
    }

    /// It says that it has.
    pub fn flush_ends(&mut self, by: Identity, tag: Tag) {
        for (key, at) in self.flushed.remove(&tag).unwrap_or_default() {
            let last = self.history.get(&key).and_then(|versions| versions.last());
            if last.is_none_or(|last| last.at <= at) {
                self.violation(format!("{by:?} has removed all but {}@{}", shown(&key.1), key.0));
            }
        }
        self.flushes += 1;
    }

    /// A node publishes a message; what it says.
    pub fn publishes(&mut self, by: Identity, channel: &[u8]) -> Vec<u8> {
        self.published.push((by, channel.to_vec()));
        self.published.len().to_string().into_bytes()
    }

    /// A node has got a message.
    pub fn heard(&mut self, by: Identity, channel: &[u8], payload: &[u8]) {
        self.messages += 1;
        let number = std::str::from_utf8(payload).ok().and_then(|text| text.parse().ok());
        let number: usize = number.unwrap_or(0);
        let sent = number.checked_sub(1).and_then(|at| self.published.get(at));
        let Some((from, _)) = sent.filter(|(_, of)| of == channel) else {
            return self.violation(format!("{by:?} gets {} which was not sent", shown(payload)));
        };
        let last = self.heard.entry((by, *from, channel.to_vec())).or_default();
        let before = std::mem::replace(last, number);
        if before >= number {
            let text = format!("{by:?} gets message {number} of {from:?} behind {before}");
            self.violation(text);
        }
    }

    /// A client was given what nobody else may get.
    pub fn unique(&mut self, key: &DbKey, item: Vec<u8>, at: (u16, u64)) {
        if self.unique.insert((key.clone(), item.clone()), at).is_some() {
            self.violation(format!("{} of {} was given twice", shown(&item), shown(&key.1)));
        }
    }

    /// A client was told that an element is there, to stay.
    pub fn logged(&mut self, key: &DbKey, item: Vec<u8>, at: (u16, u64)) {
        self.logged.insert((key.clone(), item), at);
    }

    /// A node has died, which may have changed these slots.
    pub fn dies(&mut self, identity: Identity, slots: impl Iterator<Item = u16>) {
        self.seen.remove(&identity);
        self.awaited.extend(slots);
    }

    /// Slots of nodes that have died which this node changes next.
    pub fn awaited(&self, by: Identity, is_own: impl Fn(u16) -> bool) -> Vec<u16> {
        let Some(view) = self.views.get(&by) else { return Vec::new() };
        let awaited = self.awaited.iter();
        let awaited =
            awaited.filter(|&&slot| view.slots.primary(slot) == Some(by.node) && is_own(slot));
        awaited.copied().collect()
    }

    /// All keys of a slot that there ever were.
    pub fn keys_of(&self, slot: u16) -> Vec<DbKey> {
        self.history.keys().filter(|key| slot_of(&key.1) == slot).cloned().collect()
    }

    /// What the next primary of a slot has of it must be what there was at its position, and nobody
    /// has seen beyond that; the order goes on from there.
    pub fn taken_over(&mut self, by: Identity, (slot, at): (u16, u64), held: &[Held]) {
        self.awaited.remove(&slot);
        let seen = self.seen.values().filter_map(|seen| seen.get(&slot)).copied();
        let seen = if self.may_lose { 0 } else { seen.max().unwrap_or(0) };
        if self.last(slot) & !COUNT | at < seen || at > self.last(slot) & COUNT {
            let last = self.last(slot);
            self.violation(format!(
                "{by:?} goes on with slot {slot} at {at} of {last}, and {seen} was seen"
            ));
        }
        for Held { key, content, expiry } in held {
            let versions = self.history.get(key).map(Vec::as_slice).unwrap_or_default();
            let next = versions.partition_point(|version| version.at & COUNT <= at);
            let is_right = match next.checked_sub(1).map(|last| &versions[last]) {
                Some(version) => version.content == *content && version.expiry == *expiry,
                None => !content.is_there(),
            };
            if !is_right {
                let right = next.checked_sub(1).map(|last| &versions[last]);
                let right = right.map(|version| (version.at, &version.content, version.expiry));
                let text = format!(
                    "{by:?} goes on with another {} at {at}: {content:?} {expiry:?} instead of {right:?}",
                    shown(&key.1)
                );
                self.violation(text);
            }
        }
        self.cut(slot, at);
    }

    /// What came after a position of a slot died with its primary.
    fn cut(&mut self, slot: u16, at: u64) {
        if self.last(slot) & COUNT == at {
            return;
        }
        let lost = (self.last(slot) & !COUNT) + COUNT + 1;
        self.last.insert(slot, lost | at);
        self.cuts.entry(slot).or_default().push(at);
        for (key, versions) in &mut self.history {
            if slot_of(&key.1) == slot {
                versions.retain(|version| version.at & COUNT <= at);
            }
        }
        let is_kept = |&(of, version): &(u16, u64)| of != slot || version & COUNT <= at;
        for executed in self.executed.values_mut() {
            executed.retain(|executed| !executed.changed || executed.positions.iter().all(is_kept));
            for executed in executed {
                let positions = executed.positions.iter_mut();
                let of_slot = positions.filter(|position| position.0 == slot);
                of_slot.filter(|position| position.1 & COUNT > at).for_each(|position| {
                    position.1 = lost | at;
                });
            }
        }
        self.unique.retain(|_, position| is_kept(position));
        self.logged.retain(|_, position| is_kept(position));
    }

    /// At rest: what a node holds must be what the homes have made.
    pub fn compare(
        &mut self,
        by: Identity,
        held: &[Held],
        is_home: impl Fn(u16) -> bool,
        may_copy: impl Fn(u16) -> bool,
    ) {
        let here: BTreeMap<_, _> =
            held.iter().map(|held| (&held.key, (&held.content, &held.expiry))).collect();
        let mut different = Vec::new();
        for (key, versions) in &self.history {
            let is_held = is_home(slot_of(&key.1)) || here.contains_key(key);
            let Some(last) = versions.last().filter(|_| is_held) else { continue };
            let there = here.get(key).map(|&(content, expiry)| (content.clone(), *expiry));
            let (content, expiry) = there.unwrap_or_default();
            if (&content, expiry) != (&last.content, last.expiry) {
                let version = (&last.content, last.expiry);
                different.push(format!(
                    "{}@{}: {content:?} {expiry:?} instead of {version:?}",
                    shown(&key.1),
                    key.0
                ));
            }
        }
        let known =
            |key: &&DbKey| self.history.get(*key).is_some_and(|versions| !versions.is_empty());
        let unknown = here.keys().filter(|key| !known(key));
        different.extend(unknown.map(|key| format!("{} came from nowhere", shown(&key.1))));
        let is_foreign = |slot| !is_home(slot) && !may_copy(slot);
        let foreign = here.keys().filter(|key| is_foreign(slot_of(&key.1)));
        different.extend(foreign.map(|key| format!("{} is left there", shown(&key.1))));
        for text in different.into_iter().take(5) {
            self.violation(format!("at rest {by:?} differs: {text}"));
        }
    }

    /// At rest: elements that stay are there once.
    pub fn compare_logs(&mut self, node: Node) {
        let mut wrong = Vec::new();
        for (key, item) in self.logged.keys() {
            let versions = self.history.get(key).map(Vec::as_slice).unwrap_or_default();
            let content = versions.last().map(|version| &version.content.0[..]);
            let count = content.unwrap_or_default().iter().filter(|text| *text == item).count();
            if count != 1 {
                wrong.push(format!(
                    "at rest {} is {count} times in {} ({node:?})",
                    shown(item),
                    shown(&key.1)
                ));
            }
        }
        self.violations.append(&mut wrong);
    }
}

fn shown(text: &[u8]) -> String {
    text.escape_ascii().to_string()
}
