//! Checker with a global view: records the order in which the primaries have changed each slot, and
//! checks that every read is explained by it.
//!
//! A slot's primary orders its changes, so the order is known, and each check is a walk along it:
//!
//! * a node reads a prefix of each slot's order, never a shorter one than before, and always with
//!   the effects of its own answered commands; so does each connection, in the order of its
//!   commands;
//! * only a slot's primary changes it;
//! * a forwarded command changes something at most once;
//! * no transaction is executed if a key that its client watches has changed;
//! * after a flush, each key that the primary had has changed;
//! * each node receives a message at most once, and those of one node and channel in their order;
//! * the changes of a dead node that survive are a prefix of all its changes, with everything that
//!   others have read.

use crate::chains::Chains;
use crate::content::Content;
use crate::names::DbKey;
use petrel_cluster::wire::Tag;
use petrel_cluster::{Identity, Node, View, slot_of};
use std::collections::{BTreeMap, BTreeSet};

/// Positions in the orders of slots. The low bits count the changes of the slot, the high bits how
/// often an end of its order was lost with its primary. So a lost position is greater than those
/// that survive, and less than later ones.
pub type Positions = BTreeMap<u16, u64>;

/// Mask of the bits that count changes.
pub const COUNT: u64 = (1 << 40) - 1;

/// Value of a key from a position of its slot's order on.
struct Version {
    at: u64,
    content: Content,
    expiry: Option<i64>,
}

/// Value of a key at a node.
pub struct Held {
    /// The key.
    pub key: DbKey,
    /// Value of the key.
    pub content: Content,
    /// Expiry in Unix milliseconds, even if it has passed.
    pub expiry: Option<i64>,
}

/// Observations of one execution of a forwarded command.
struct Executed {
    positions: Vec<(u16, u64)>,
    changed: bool,
    /// Clock of the executing node.
    now_ms: i64,
}

/// A commit of a command of several slots: slots and positions.
pub struct Spread {
    /// Changes that it has made.
    pub changed: Vec<(u16, u64)>,
    /// The last changes of other slots, which its command may have read.
    pub read: Vec<(u16, u64)>,
}

/// The checker's records of all nodes.
#[derive(Default)]
pub struct Witness {
    history: BTreeMap<DbKey, Vec<Version>>,
    /// The last position of each slot's order.
    last: Positions,
    views: BTreeMap<Identity, View>,
    /// The position up to which each node has read at least.
    seen: BTreeMap<Identity, Positions>,
    executed: BTreeMap<Tag, Vec<Executed>>,
    /// The first tags of commands that were forwarded again.
    names: BTreeMap<Tag, Tag>,
    /// An answered change may be lost with its primary: members hold only some slots, and changes
    /// are answered before another member has them.
    may_lose: bool,
    /// Clients see only changes that two members have.
    is_safe: bool,
    /// Last positions that clients were shown.
    acknowledged: Positions,
    /// Positions after which each slot's order has lost its end, in order of the losses.
    cuts: BTreeMap<u16, Vec<u64>>,
    /// Slots of dead nodes that no new primary has changed yet.
    awaited: BTreeSet<u16>,
    /// Commits of commands of several slots, each with the positions of it that were lost with a
    /// primary.
    together: Vec<(Spread, Vec<(u16, u64)>)>,
    /// Replies that must be unique, and their positions.
    unique: BTreeMap<(DbKey, Vec<u8>), (u16, u64)>,
    /// Elements that must persist.
    logged: BTreeMap<(DbKey, Vec<u8>), (u16, u64)>,
    /// By client and watched key: position of the slot, and time, when the watch began.
    watched: BTreeMap<(u64, DbKey), (u64, i64)>,
    /// Keys that a flush has to remove, with the positions of their slots.
    flushed: BTreeMap<Tag, Vec<(DbKey, u64)>>,
    /// Published messages: node and channel.
    published: Vec<(Identity, Vec<u8>)>,
    /// By receiver, sender and channel: number of the last message received.
    received: BTreeMap<(Identity, Identity, Vec<u8>), usize>,
    /// Transactions of several primaries.
    pub chains: Chains,
    /// Number of messages received.
    pub messages: u64,
    /// Number of completed flushes.
    pub flushes: u64,
    /// Violations found.
    pub violations: Vec<String>,
    /// Number of reads explained.
    pub reads: u64,
    /// Number of commits of primaries.
    pub commits: u64,
    /// Number of commits of several slots.
    pub spread: u64,
    /// Number of forwarded commands executed.
    pub forwarded: u64,
}

impl Witness {
    /// A checker for clusters in which members hold only some slots (`of_slots`), and in which
    /// clients see only changes that two members have (`is_safe`). With the first alone an answered
    /// change may be lost with its primary.
    pub fn new(of_slots: bool, is_safe: bool) -> Self {
        Witness { may_lose: of_slots && !is_safe, is_safe, ..Witness::default() }
    }

    /// Records that a client was shown these positions.
    pub fn acknowledged(&mut self, positions: &[(u16, u64)]) {
        for &(slot, at) in positions.iter().filter(|_| self.is_safe) {
            let last = self.acknowledged.entry(slot).or_default();
            *last = at.max(*last);
        }
    }

    /// The number of changes of each slot that clients were shown at most.
    pub fn shown(&self) -> Positions {
        self.acknowledged.iter().map(|(&slot, &at)| (slot, at & COUNT)).collect()
    }

    /// Reports a violation.
    pub fn violation(&mut self, text: String) {
        self.violations.push(text);
    }

    /// Records that a node adopts a view.
    pub fn adopts(&mut self, identity: Identity, view: View) {
        self.views.insert(identity, view);
    }

    /// The last position of a slot.
    pub fn last(&self, slot: u16) -> u64 {
        self.last.get(&slot).copied().unwrap_or(0)
    }

    /// Records and checks changes that a node has made itself, with their positions.
    pub fn committed(
        &mut self,
        by: Identity,
        mut versions: Vec<(u64, Held)>,
        mut spread: Vec<Spread>,
    ) {
        self.commits += 1;
        spread.retain(|commit| commit.changed.len() + commit.read.len() > 1);
        self.spread += spread.len() as u64;
        for mut commit in spread {
            for (slot, at) in commit.changed.iter_mut().chain(&mut commit.read) {
                *at |= self.last(*slot) & !COUNT;
            }
            self.together.push((commit, Vec::new()));
        }
        versions.sort_by_key(|(at, _)| *at);
        let before = self.last.clone();
        for (count, Held { key, content, expiry }) in versions {
            let slot = slot_of(&key.1);
            let at = self.last(slot) & !COUNT | count;
            let primary = self.views.get(&by).and_then(|view| view.slots.primary(slot));
            let is_next = at > before.get(&slot).copied().unwrap_or(0);
            if primary != Some(by.node) || self.awaited.contains(&slot) || !is_next {
                self.violation(format!(
                    "{by:?} has changed {} at {at}, but its primary is {primary:?} and its position {:?}",
                    shown(&key.1),
                    before.get(&slot)
                ));
            }
            self.last.insert(slot, at);
            self.history.entry(key).or_default().push(Version { at, content, expiry });
        }
    }

    /// The first position from `lower` on at which a key had this content at that time.
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

    /// Checks a client's read on a node (`is_primary`: on the primary), and returns the slot's
    /// position that explains it.
    pub fn read(
        &mut self,
        by: Identity,
        (key, content): (&DbKey, &Content),
        now_ms: i64,
        is_primary: bool,
    ) -> (u16, u64) {
        let slot = slot_of(&key.1);
        let seen = self.seen.get(&by).and_then(|seen| seen.get(&slot)).copied().unwrap_or(0);
        let lower = if is_primary { self.last(slot) } else { seen };
        match self.explain(key, content, now_ms, lower) {
            Some(at) => {
                self.reads += 1;
                self.seen.entry(by).or_default().insert(slot, at);
                (slot, at)
            }
            None => {
                let text = self.show_read(key, content, lower);
                self.violation(format!("{by:?} reads {text} (primary: {is_primary})"));
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
            "{}@{} of slot {} as {:?}, which it never was since position {lower}: {later:?}",
            shown(&key.1),
            key.0,
            slot_of(&key.1),
            texts(content)
        )
    }

    /// Checks the same read in the order of its connection's commands, given the positions that
    /// they have observed.
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

    /// Records the execution of a forwarded command.
    pub fn executed(
        &mut self,
        by: Identity,
        tag: Tag,
        (slots, changed, now_ms): (&[u16], bool, i64),
    ) {
        self.forwarded += 1;
        let tag = self.first_name(tag);
        self.chains.replaced(tag);
        let positions = slots.iter().map(|&slot| (slot, self.last(slot))).collect();
        let executed = self.executed.entry(tag).or_default();
        executed.push(Executed { positions, changed, now_ms });
        if executed.iter().filter(|executed| executed.changed).count() > 1 {
            self.violation(format!("{tag:?} was executed again, by {by:?}"));
        }
    }

    /// Records that a blocked command is forwarded again, under another tag.
    pub fn forwarded_again(&mut self, before: Tag, tag: Tag) {
        let first = self.first_name(before);
        self.names.insert(tag, first);
        // It may have been executed immediately.
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

    /// Records the answer to a forwarded command: its node has now observed the command's
    /// positions. Returns the positions and the time; none if the execution is lost.
    pub fn answered(&mut self, by: Identity, tag: Tag) -> Option<(Vec<(u16, u64)>, i64)> {
        let tag = self.first_name(tag);
        match self.chains.answered(tag) {
            Some(Ok((positions, now_ms))) => {
                self.has_seen(by, &positions);
                return Some((positions, now_ms));
            }
            Some(Err(text)) => {
                self.violation(text);
                return None;
            }
            None => {}
        }
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

    /// Checks a read that the primary has executed, at this position of the slot.
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
            self.violation(format!("{by:?} reads {text} at its primary"));
        }
    }

    /// Whether an observed position is lost, where that is allowed.
    pub fn is_lost(&self, (slot, at): (u16, u64)) -> bool {
        if !self.may_lose {
            return false;
        }
        let last = self.last(slot);
        let cuts = self.cuts.get(&slot).map(Vec::as_slice).unwrap_or_default();
        let later = cuts.iter().skip((at >> COUNT.count_ones()) as usize);
        at > last || later.into_iter().any(|&cut| at & COUNT > cut)
    }

    /// Records that a node has observed these positions.
    pub fn has_seen(&mut self, by: Identity, positions: &[(u16, u64)]) {
        let seen = self.seen.entry(by).or_default();
        for &(slot, at) in positions {
            let seen = seen.entry(slot).or_default();
            *seen = at.max(*seen);
        }
    }

    /// Records that a client watches a key at its primary.
    pub fn watched(&mut self, client: u64, key: DbKey, now_ms: i64) {
        let at = self.last(slot_of(&key.1));
        self.watched.insert((client, key), (at, now_ms));
    }

    /// Checks a transaction of a watching client, executed after this position of the slot.
    pub fn transaction(&mut self, by: Identity, client: u64, last: u64) {
        let first = (client, (0, Vec::new()));
        let watched = self.watched.range(first..).take_while(|((of, _), _)| *of == client);
        let has_changed = |((_, key), (at, now_ms)): (&(u64, DbKey), &(u64, i64))| {
            let versions = self.history.get(key).map(Vec::as_slice).unwrap_or_default();
            let first = versions.partition_point(|version| version.at <= *at);
            let next = versions.get(first).filter(|version| version.at <= last)?;
            // The removal of a key that had expired before the watch began is no change.
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

    /// Records that a primary begins to flush its keys.
    pub fn flush_begins(&mut self, tag: Tag, keys: &[DbKey]) {
        let at = |key: &DbKey| (key.clone(), self.last(slot_of(&key.1)));
        let keys = keys.iter().map(at).collect();
        self.flushed.insert(tag, keys);
    }

    /// Checks a completed flush.
    pub fn flush_ends(&mut self, by: Identity, tag: Tag) {
        for (key, at) in self.flushed.remove(&tag).unwrap_or_default() {
            let last = self.history.get(&key).and_then(|versions| versions.last());
            if last.is_none_or(|last| last.at <= at) {
                self.violation(format!("{by:?} has removed all but {}@{}", shown(&key.1), key.0));
            }
        }
        self.flushes += 1;
    }

    /// Records that a node publishes a message; returns its payload.
    pub fn publishes(&mut self, by: Identity, channel: &[u8]) -> Vec<u8> {
        self.published.push((by, channel.to_vec()));
        self.published.len().to_string().into_bytes()
    }

    /// Checks a message that a node receives.
    pub fn received(&mut self, by: Identity, channel: &[u8], payload: &[u8]) {
        self.messages += 1;
        let number = std::str::from_utf8(payload).ok().and_then(|text| text.parse().ok());
        let number: usize = number.unwrap_or(0);
        let sent = number.checked_sub(1).and_then(|at| self.published.get(at));
        let Some((from, _)) = sent.filter(|(_, of)| of == channel) else {
            return self
                .violation(format!("{by:?} receives {} which was not sent", shown(payload)));
        };
        let last = self.received.entry((by, *from, channel.to_vec())).or_default();
        let before = std::mem::replace(last, number);
        if before >= number {
            let text = format!("{by:?} receives message {number} of {from:?} after {before}");
            self.violation(text);
        }
    }

    /// Checks that a client's reply is unique.
    pub fn unique(&mut self, key: &DbKey, item: Vec<u8>, at: (u16, u64)) {
        if self.unique.insert((key.clone(), item.clone()), at).is_some() {
            self.violation(format!("{} of {} was given twice", shown(&item), shown(&key.1)));
        }
    }

    /// Records that a client was answered that an element was stored to persist.
    pub fn logged(&mut self, key: &DbKey, item: Vec<u8>, at: (u16, u64)) {
        self.logged.insert((key.clone(), item), at);
    }

    /// Records the death of a node that may have changed these slots.
    pub fn dies(&mut self, identity: Identity, slots: impl Iterator<Item = u16>) {
        self.seen.remove(&identity);
        self.awaited.extend(slots);
    }

    /// Slots of dead nodes of which this node is the next primary.
    pub fn awaited(&self, by: Identity, is_own: impl Fn(u16) -> bool) -> Vec<u16> {
        let Some(view) = self.views.get(&by) else { return Vec::new() };
        let awaited = self.awaited.iter();
        let awaited =
            awaited.filter(|&&slot| view.slots.primary(slot) == Some(by.node) && is_own(slot));
        awaited.copied().collect()
    }

    /// All keys of a slot in its history.
    pub fn keys_of(&self, slot: u16) -> Vec<DbKey> {
        self.history.keys().filter(|key| slot_of(&key.1) == slot).cloned().collect()
    }

    /// Checks the data with which a new primary takes over a slot: they are the contents at its
    /// position, and no node has observed a later one. The order continues from there.
    pub fn taken_over(&mut self, by: Identity, (slot, at): (u16, u64), held: &[Held]) {
        self.awaited.remove(&slot);
        let seen = self.seen.values().filter_map(|seen| seen.get(&slot)).copied();
        let seen = if self.may_lose { 0 } else { seen.max().unwrap_or(0) };
        let seen = seen.max(self.acknowledged.get(&slot).copied().unwrap_or(0));
        // The new primary gives lost parts of decisions other positions.
        let reached = self.chains.parts_from(slot, self.last(slot) & !COUNT | at);
        if reached < seen || at > self.last(slot) & COUNT {
            let last = self.last(slot);
            self.violation(format!(
                "{by:?} takes over slot {slot} at {at} of {last}, but {seen} was observed"
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
                    "{by:?} takes over {} at {at} as {content:?} {expiry:?} instead of {right:?}",
                    shown(&key.1)
                );
                self.violation(text);
            }
        }
        self.cut(slot, at);
    }

    /// Forgets what came after a position of a slot and died with its primary.
    fn cut(&mut self, slot: u16, at: u64) {
        if self.last(slot) & COUNT == at {
            return;
        }
        // Parts directly behind it get the same positions again.
        let parts_end = self.chains.parts_from(slot, self.last(slot) & !COUNT | at) & COUNT;
        let lost = (self.last(slot) & !COUNT) + COUNT + 1;
        self.last.insert(slot, lost | at);
        self.cuts.entry(slot).or_default().push(at);
        for (key, versions) in &mut self.history {
            if slot_of(&key.1) == slot {
                versions.retain(|version| version.at & COUNT <= at);
            }
        }
        self.chains.cut(slot, |version| version & COUNT <= at);
        let is_kept = |&(of, version): &(u16, u64)| of != slot || version & COUNT <= at;
        for (Spread { changed, read }, lost) in &mut self.together {
            let is_read = |&(of, version): &(u16, u64)| of != slot || version & COUNT <= parts_end;
            lost.extend(changed.iter().filter(|part| !is_kept(part)));
            lost.extend(read.iter().filter(|part| !is_read(part)));
            changed.retain(is_kept);
            read.retain(is_read);
        }
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

    /// Records that a slot starts empty because its data are lost.
    pub fn restarts(&mut self, slot: u16) {
        self.chains.restarts(slot);
        for (Spread { changed, read }, lost) in &mut self.together {
            [changed, read, lost].into_iter().for_each(|parts| parts.retain(|(of, _)| *of != slot));
        }
    }

    /// Checks that of each commit of several slots all changes are there, with everything that its
    /// command has read, or no change. After everything was delivered.
    pub fn compare_commits(&mut self) {
        let halves = self.together.iter();
        let halves = halves.filter(|(commit, lost)| !commit.changed.is_empty() && !lost.is_empty());
        let texts = halves.take(3).map(|(Spread { changed, .. }, lost)| {
            format!("of a commit {changed:?} are there, but {lost:?} are lost (slot, position)")
        });
        self.violations.extend(texts);
    }

    /// Checks that each transaction of several primaries has all its parts or none, after
    /// everything was delivered.
    pub fn compare_chains(&mut self) {
        let violations = self.chains.compare();
        self.violations.extend(violations);
    }

    /// Checks a key on loan to a transaction that is executed by a node: it has its last value.
    pub fn lent(&mut self, by: Identity, key: &DbKey, content: &Content, expiry: Option<i64>) {
        if self.awaited.contains(&slot_of(&key.1)) {
            return;
        }
        let last = self.history.get(key).and_then(|versions| versions.last());
        let (right, until) =
            last.map_or((Content::default(), None), |last| (last.content.clone(), last.expiry));
        if (content, expiry) != (&right, until) {
            let name = shown(&key.1);
            self.violation(format!(
                "{by:?} is lent {name} as {content:?} {expiry:?} instead of {right:?} {until:?}"
            ));
        }
    }

    /// Compares a node's contents with the history, after everything was delivered.
    pub fn compare(
        &mut self,
        by: Identity,
        held: &[Held],
        is_primary: impl Fn(u16) -> bool,
        may_copy: impl Fn(u16) -> bool,
    ) {
        let here: BTreeMap<_, _> =
            held.iter().map(|held| (&held.key, (&held.content, &held.expiry))).collect();
        let mut different = Vec::new();
        for (key, versions) in &self.history {
            let is_held = is_primary(slot_of(&key.1)) || here.contains_key(key);
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
        different.extend(unknown.map(|key| format!("{} was never written", shown(&key.1))));
        let is_foreign = |slot| !is_primary(slot) && !may_copy(slot);
        let foreign = here.keys().filter(|key| is_foreign(slot_of(&key.1)));
        different.extend(foreign.map(|key| format!("{} is left over", shown(&key.1))));
        for text in different.into_iter().take(5) {
            self.violation(format!("at rest {by:?} differs: {text}"));
        }
    }

    /// Checks that each persistent element is present exactly once, after everything was delivered.
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
