//! Keyspace, executor and simulated clock of a node.

mod apart;
mod caching;
mod data;
mod shares;

use crate::content::{Content, Family};
use crate::fault::Fault;
use crate::names::{DbKey, FLUSH, parse, slots_of, tagged};
use crate::witness::{Held, Spread, Witness};
use crate::workload::is_flush;
use apart::Scratch;
use caching::Caching;
use petrel_cluster::lanes::{Served, record_served};
use petrel_cluster::node::{GroupError, Host as ClusterHost};
use petrel_cluster::wire::{Refusal, Tag, WaitEnd};
use petrel_cluster::{Apart, Call, Executed, FROM_PEERS, Identity, Lanes, SLOTS, slot_of};
use petrel_commands::{
    Answer, Blocked, Command, Executor, FAMILIES, Fail, Host, Outcome, Registry, Session, Shared,
    Ticket, WaitEnd as End, transactions,
};
use petrel_keyspace::{
    Cleared, Effect, EffectHead, EffectSink, Handle, Key, Keyspace, Options, Ownership, Published,
    Removal, SinkSource,
};
use petrel_resp::{RespWriter, Value};
use petrel_table::keys::key_positions;
use std::any::Any;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

/// Time at which every run begins, in Unix milliseconds.
pub const START_MS: i64 = 1_700_000_000_000;

/// Reply of a transaction that was not executed.
const NULL_ARRAY: &[u8] = b"*-1\r\n";

/// Host of the executor.
struct CommandHost {
    own: Identity,
    /// The forwarded command being executed, if it may be blocked.
    may_wait: Option<Arc<Waiter>>,
    /// Blocked commands.
    waiting: BTreeMap<Tag, Arc<Blocked>>,
    /// Blocked commands that were executed since the last report.
    served: Vec<Arc<Waiter>>,
    /// Blocked commands that this node had forwarded to itself, with their replies.
    ended: Vec<(Arc<Waiter>, Vec<u8>)>,
    /// The tracking client.
    caching: Caching,
}

/// A forwarded command that is blocked, or may be.
pub struct Waiter {
    /// Identifies the command.
    pub tag: Tag,
    /// The slots of its keys.
    pub slots: Vec<u16>,
}

fn waiter_of(blocked: &Blocked) -> Option<Arc<Waiter>> {
    blocked.ticket().clone().downcast::<Waiter>().ok()
}

impl Host for CommandHost {
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }

    fn admit_protected(&mut self, _: Command) -> Outcome {
        Err(Fail::fixed("ERR not here"))
    }

    fn client_label(&mut self) -> (String, String) {
        (String::new(), String::new())
    }

    fn string_len_max(&self) -> usize {
        1 << 20
    }

    fn query_buffer_limit(&self) -> usize {
        1 << 20
    }

    fn discard(&mut self, _: Cleared) {}

    fn invalidate(&mut self, ks: &mut Handle, _: Option<&mut dyn petrel_resp::Reply>) {
        let taken = ks.take_invalidations();
        self.caching.deliver(self.own, &taken, ks);
    }

    fn ticket(&mut self) -> Option<Ticket> {
        Some(self.may_wait.clone()?)
    }

    fn act_for(&mut self, client: Ticket) -> Ticket {
        client
    }

    fn wait(&mut self, blocked: &Arc<Blocked>) {
        if let Some(waiter) = waiter_of(blocked) {
            self.waiting.insert(waiter.tag, blocked.clone());
        }
    }

    fn answer(&mut self, blocked: &Blocked, answer: Answer) -> bool {
        let Some(waiter) = waiter_of(blocked) else { return false };
        self.waiting.remove(&waiter.tag);
        self.served.push(waiter.clone());
        if waiter.tag.origin == self.own {
            self.ended.push((waiter, answer.bytes));
            return false;
        }
        let slots = waiter.slots[..].into();
        record_served(Served { tag: waiter.tag, slots, reply: answer.bytes });
        true
    }
}

/// Commits observed at a node.
#[derive(Default)]
struct Commits {
    /// Number of commits per slot, of any origin: the node's position in the slot's order.
    positions: BTreeMap<u16, u64>,
    /// Keys that the node has changed itself, and the position of the last change.
    own: BTreeMap<DbKey, u64>,
    /// Commits of commands of several slots that the node has made itself.
    spread: Vec<Spread>,
    /// Slots of the command in execution.
    slots: Vec<u16>,
}

/// Sink that observes a node's commits.
struct CommitObserver(Arc<Mutex<Commits>>);

impl SinkSource for CommitObserver {
    fn sink(&self) -> Box<dyn EffectSink> {
        Box::new(Overhearing { commits: self.0.clone(), touched: Vec::new(), is_atomic: false })
    }
}

struct Overhearing {
    commits: Arc<Mutex<Commits>>,
    /// Keys of the commit, and whether the node itself has changed them.
    touched: Vec<(DbKey, bool)>,
    /// The commit has changes of the node itself that are no expiry.
    is_atomic: bool,
}

impl EffectSink for Overhearing {
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
        if let Some(key) = effect.key() {
            self.touched.push(((head.db, key.to_vec()), head.origin != FROM_PEERS));
            let is_expiry = matches!(effect, Effect::Remove { why: Removal::Expired, .. });
            self.is_atomic |= head.origin != FROM_PEERS && !is_expiry;
        }
    }

    fn committed(&mut self, _: u64, _: bool) {
        let Ok(mut commits) = self.commits.lock() else { return };
        let slots = slots_of(self.touched.iter().map(|((_, key), _)| &key[..]));
        slots.iter().for_each(|slot| *commits.positions.entry(*slot).or_default() += 1);
        if std::mem::take(&mut self.is_atomic) {
            let is_of_command = slots.iter().any(|slot| commits.slots.contains(slot));
            let read = commits.slots.iter().filter(|slot| is_of_command && !slots.contains(slot));
            let at = |slot: &u16| (*slot, commits.positions.get(slot).copied().unwrap_or(0));
            let (changed, read) = (slots.iter().map(at).collect(), read.map(at).collect());
            commits.spread.push(Spread { changed, read });
        }
        for (key, is_own) in self.touched.drain(..) {
            let at = commits.positions[&slot_of(&key.1)];
            if is_own {
                commits.own.insert(key, at);
            }
        }
    }
}

/// A keyspace with its executor.
pub struct Machine {
    /// Identity of the node.
    pub identity: Identity,
    exec: Executor,
    host: CommandHost,
    /// For transactions of several primaries.
    scratch: Scratch,
    /// Changes may not fit after two deaths.
    pub may_misfit: bool,
    /// Simulated time, in Unix milliseconds.
    pub now_ms: i64,
    /// Slots that start empty here, until the node changes them.
    restarted: BTreeSet<u16>,
    commits: Arc<Mutex<Commits>>,
    witness: Rc<RefCell<Witness>>,
    /// Tells which slots this node may change.
    own: Option<Arc<dyn Ownership>>,
    /// Received bytes of a copy.
    copied: Vec<u8>,
    /// Watching clients, by node and identifier.
    watches: BTreeMap<(Identity, u64), Watched>,
    /// Flushes in progress, in order.
    flushes: VecDeque<Flush>,
    /// Deliberate fault.
    pub wrong: Option<Fault>,
    /// Transactions of watching clients: executed, and refused.
    pub watching: [u64; 2],
}

/// Flush of all keys of which this node is primary.
struct Flush {
    tag: Tag,
    slots: Vec<u16>,
    /// Keys still to be removed.
    keys: Vec<DbKey>,
    /// Whether a view was adopted since it began.
    is_late: bool,
}

/// Session of a watching client.
struct Watched {
    session: Session,
    slot: u16,
    /// Number of its watch commands that arrived here.
    forwarded: u16,
}

impl Machine {
    /// Sets the simulated time, in Unix milliseconds.
    pub fn set_time(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.exec.ks.set_clock(now_ms);
    }

    /// Creates an empty machine.
    pub fn new(identity: Identity, seed: u64, witness: Rc<RefCell<Witness>>) -> Self {
        let options = Options { databases: 4, stripes: 8, seed };
        let keyspace = Keyspace::new(&options);
        let mut ks = keyspace.attach();
        ks.set_clock(START_MS);
        let mut exec = Executor::new(ks, Shared::new(Registry::new(FAMILIES)));
        exec.seed(seed);
        let commits = Arc::default();
        let mut machine = Machine {
            identity,
            exec,
            host: CommandHost {
                own: identity,
                may_wait: None,
                waiting: BTreeMap::new(),
                served: Vec::new(),
                ended: Vec::new(),
                caching: Caching::default(),
            },
            scratch: Scratch::new(seed),
            may_misfit: false,
            now_ms: START_MS,
            restarted: BTreeSet::new(),
            commits,
            witness,
            own: None,
            copied: Vec::new(),
            watches: BTreeMap::new(),
            flushes: VecDeque::new(),
            wrong: None,
            watching: [0; 2],
        };
        machine.load_library(0);
        machine
    }

    /// Connects the keyspace to a cluster. With `expires_all` every node removes expired keys.
    pub fn join(
        &mut self,
        sinks: Arc<dyn SinkSource>,
        ownership: Arc<dyn Ownership>,
        expires_all: bool,
    ) {
        if !expires_all {
            self.exec.ks.keyspace().set_ownership(ownership.clone());
        }
        self.own = Some(ownership);
        self.set_sinks(Some(sinks));
    }

    /// Sets the lanes by which other nodes are notified of changes.
    pub fn notify_by(&mut self, lanes: Arc<Lanes>) {
        self.host.caching.lanes = Some(lanes);
    }

    /// Sets the sinks of commits.
    fn set_sinks(&mut self, sinks: Option<Arc<dyn SinkSource>>) {
        let observer: Arc<dyn SinkSource> = Arc::new(CommitObserver(self.commits.clone()));
        let observer = sinks.is_some().then_some(observer);
        self.exec.begin();
        self.exec.ks.lock_all();
        self.exec.ks.set_sinks("cluster", sinks);
        self.exec.ks.set_sinks("observer", observer);
        self.exec.ks.unlock();
        self.exec.end();
    }

    /// Notes the slots of the next command, until [`Machine::report`].
    pub fn note_slots(&mut self, slots: &[u16]) {
        if let Ok(mut commits) = self.commits.lock() {
            commits.slots = slots.to_vec();
        }
    }

    /// Executes a command of a client of this node; returns the encoded reply.
    pub fn run(&mut self, db: u16, is_transaction: bool, commands: &[Vec<&[u8]>]) -> Vec<u8> {
        let mut session = Session::new(true);
        let reply = self.run_in(&mut session, db, is_transaction, commands);
        self.abandon(session);
        reply
    }

    fn abandon(&mut self, mut session: Session) {
        self.exec.begin();
        transactions::abandon(&mut self.exec, &mut session);
        self.exec.end();
    }

    fn run_in(
        &mut self,
        session: &mut Session,
        db: u16,
        is_transaction: bool,
        commands: &[Vec<&[u8]>],
    ) -> Vec<u8> {
        self.exec.ks.set_clock(self.now_ms);
        session.db = db;
        let mut reply = Vec::new();
        self.exec.begin();
        if is_transaction {
            self.call(&[b"MULTI"], session, &mut reply);
        }
        for command in commands {
            reply.clear();
            self.call(command, session, &mut reply);
        }
        if is_transaction {
            reply.clear();
            self.call(&[b"EXEC"], session, &mut reply);
        }
        self.exec.end();
        reply
    }

    /// Like [`Machine::run`], for a client of any node, with an identifier if it watches keys.
    pub fn run_of(
        &mut self,
        (origin, client): (Identity, Option<u64>),
        db: u16,
        is_transaction: bool,
        commands: &[Vec<&[u8]>],
    ) -> Vec<u8> {
        let removed = self.removed_by(db, is_transaction, commands);
        let commands: Vec<Vec<&[u8]>> = commands
            .iter()
            .map(|command| match command[0] == FLUSH && is_transaction {
                true => removed.iter().map(Vec::as_slice).collect(),
                false => command.clone(),
            })
            .collect();
        let commands = &commands[..];
        let Some((client, before)) = client.map(|client| (client >> 16, client as u16)) else {
            return self.run(db, is_transaction, commands);
        };
        let key = commands[0][1].to_vec();
        let slot = slot_of(&key);
        let watched = self.watches.remove(&(origin, client));
        let new = || Watched { session: Session::new(true), slot, forwarded: 0 };
        let Watched { mut session, forwarded, .. } = watched.unwrap_or_else(new);
        // Watches of another primary, or of another view, are lost.
        let is_forgotten = before != forwarded && self.wrong != Some(Fault::IgnoresWatches);
        if is_forgotten && is_transaction {
            self.abandon(session);
            self.watching[1] += 1;
            return NULL_ARRAY.to_vec();
        }
        if !is_transaction {
            let reply = self.run_in(&mut session, db, false, commands);
            self.witness.borrow_mut().watched(client, (db, key), self.now_ms);
            match is_forgotten {
                true => self.abandon(session),
                false => {
                    let watched = Watched { session, slot, forwarded: before + 1 };
                    drop(self.watches.insert((origin, client), watched));
                }
            }
            return reply;
        }
        if self.wrong == Some(Fault::IgnoresWatches) {
            self.abandon(std::mem::replace(&mut session, Session::new(true)));
        }
        let last = self.witness.borrow().last(slot);
        let reply = self.run_in(&mut session, db, true, commands);
        self.abandon(session);
        let is_done = reply != NULL_ARRAY;
        self.watching[usize::from(!is_done)] += 1;
        if is_done {
            self.witness.borrow_mut().transaction(self.identity, client, last);
        }
        reply
    }

    fn begin_flush(&mut self, tag: Tag, call: &Call<&[u8]>) -> Executed {
        let mut keys = self.keys();
        let may_go = |key: &[u8]| Family::of(key).is_some_and(Family::may_be_removed);
        keys.retain(|(_, key)| self.is_primary(slot_of(key)) && may_go(key));
        self.witness.borrow_mut().flush_begins(tag, &keys);
        if self.wrong == Some(Fault::FlushesOneDatabase) {
            keys.retain(|(db, _)| *db == 0);
        }
        let slots = call.slots.clone();
        let done = (&slots[..], false, self.now_ms);
        self.witness.borrow_mut().executed(self.identity, tag, done);
        self.flushes.push_back(Flush { tag, slots, keys, is_late: false });
        Executed::Waits(None)
    }

    /// Ends flushes when a view is adopted, silently if their origins are not members.
    pub fn end_flushes(&mut self, is_member: impl Fn(Identity) -> bool) {
        self.flushes.retain(|flush| is_member(flush.tag.origin));
        self.flushes.iter_mut().for_each(|flush| flush.is_late = true);
    }

    /// Continues a flush. At its end returns tag, slots and reply.
    pub fn continue_flush(&mut self, count: usize) -> Option<(Tag, Vec<u16>, Vec<u8>)> {
        let mut flush = self.flushes.pop_front()?;
        if flush.is_late {
            return Some((flush.tag, flush.slots, b"-TRYAGAIN\r\n".to_vec()));
        }
        self.compare_survivors();
        let some: Vec<DbKey> = flush.keys.drain(..count.min(flush.keys.len())).collect();
        for (db, key) in some {
            if !self.is_primary(slot_of(&key)) {
                // It is on loan.
                flush.keys.push((db, key));
                continue;
            }
            self.run(db, false, &[vec![b"DEL", &key]]);
            self.report();
        }
        if !flush.keys.is_empty() {
            self.flushes.push_back(flush);
            return None;
        }
        self.witness.borrow_mut().flush_ends(self.identity, flush.tag);
        Some((flush.tag, flush.slots, b"+OK\r\n".to_vec()))
    }

    /// Ends watches that satisfy `which`.
    pub fn drop_watches(&mut self, which: impl Fn(Identity, u16) -> bool) {
        let watches = self.watches.iter();
        let dropped = watches.filter(|((origin, _), watched)| which(*origin, watched.slot));
        for name in dropped.map(|(name, _)| *name).collect::<Vec<_>>() {
            if let Some(watched) = self.watches.remove(&name) {
                self.abandon(watched.session);
            }
        }
    }

    /// Number of watching clients.
    pub fn watches(&self) -> usize {
        self.watches.len()
    }

    /// Publishes a message; the thread is outside of a batch.
    pub fn publish_message(&mut self, channel: &[u8], payload: &[u8]) {
        self.exec.begin();
        let message = Published { db: 0, is_sharded: false, channel, payload };
        self.exec.ks.record_message(&message);
        self.exec.end();
    }

    fn call(&mut self, args: &[&[u8]], session: &mut Session, out: &mut Vec<u8>) {
        let mut shared = Vec::new();
        let mut reply = RespWriter::new(out, &mut shared, session.protocol);
        let request = self.exec.prepare(args, None);
        self.exec.execute(&request, session, &mut self.host, &mut reply);
        assert!(shared.is_empty(), "values are short here");
    }

    /// Removes expired keys.
    pub fn expire(&mut self) {
        self.exec.ks.set_clock(self.now_ms);
        self.exec.begin();
        self.exec.ks.expire_step(std::time::Duration::from_secs(60));
        self.exec.end();
    }

    /// Content and expiry of a key, even if it has expired.
    pub fn content(&mut self, key: &DbKey) -> (Content, Option<i64>) {
        let now_ms = std::mem::replace(&mut self.now_ms, 0);
        let family = Family::of(&key.1).unwrap_or(Family::Text);
        let read = family.read(&key.1);
        let reply = self.run(key.0, false, &[read.iter().map(Vec::as_slice).collect()]);
        let content = Content::of_reply(family, &parse(&reply));
        let expiry = match content.is_there() {
            true => parse(&self.run(key.0, false, &[vec![b"PEXPIRETIME", &key.1]])),
            false => Value::Null,
        };
        self.now_ms = now_ms;
        let expiry = match expiry {
            Value::Integer(at) if at >= 0 => Some(at),
            _ => None,
        };
        (content, expiry)
    }

    /// All keys, including expired ones.
    pub fn keys(&mut self) -> Vec<DbKey> {
        let now_ms = std::mem::replace(&mut self.now_ms, 0);
        let mut keys = Vec::new();
        for db in 0..4 {
            let reply = parse(&self.run(db, false, &[vec![b"KEYS", b"*"]]));
            if let Value::Array(names) = reply {
                keys.extend(names.iter().filter_map(|name| Some((db, name.as_bytes()?.to_vec()))));
            }
        }
        self.now_ms = now_ms;
        keys.sort();
        keys
    }

    /// Reports this node's changes since the last call to the witness.
    pub fn report(&mut self) {
        self.deliver_invalidations();
        let (own, spread) = match self.commits.lock() {
            Ok(mut commits) => {
                commits.slots.clear();
                (std::mem::take(&mut commits.own), std::mem::take(&mut commits.spread))
            }
            Err(_) => return,
        };
        let held = |(key, at): (DbKey, u64)| {
            let (content, expiry) = self.content(&key);
            (at, Held { key, content, expiry })
        };
        let versions: Vec<_> = own.into_iter().map(held).collect();
        if !versions.is_empty() {
            self.witness.borrow_mut().committed(self.identity, versions, spread);
        }
        for waiter in std::mem::take(&mut self.host.served) {
            self.witness.borrow_mut().executed(
                self.identity,
                waiter.tag,
                (&waiter.slots, true, self.now_ms),
            );
        }
    }

    /// Commands that this node had forwarded to itself and that were blocked.
    pub fn ended(&mut self) -> Vec<(Arc<Waiter>, Vec<u8>)> {
        std::mem::take(&mut self.host.ended)
    }

    /// Ends the waits that satisfy `which`, to be forwarded again.
    pub fn dismiss(&mut self, which: impl Fn(&Waiter) -> bool) -> Vec<Arc<Waiter>> {
        let waiting = self.host.waiting.values().cloned();
        let mut dismissed = Vec::new();
        for blocked in waiting.collect::<Vec<_>>() {
            let Some(waiter) = waiter_of(&blocked).filter(|waiter| which(waiter)) else { continue };
            self.host.waiting.remove(&waiter.tag);
            self.exec.begin();
            if self.exec.give_up(&blocked) {
                dismissed.push(waiter);
            }
            self.exec.end();
        }
        dismissed
    }

    /// Whether a key exists for readers.
    pub fn has(&mut self, db: u16, key: &[u8]) -> bool {
        self.run(db, false, &[vec![b"EXISTS", key]]) == b":1\r\n"
    }

    /// Evicts a copy.
    pub fn evict(&mut self, (db, key): &DbKey) {
        let handle = &mut self.exec.ks;
        handle.enter();
        handle.lock(handle.hash(key));
        let remove = Effect::Remove { key, why: Removal::Evicted };
        if let Some(own) = &self.own {
            own.note_evicted(*db, key);
        }
        let removed = handle.apply(*db, &remove, FROM_PEERS);
        handle.unlock();
        handle.exit();
        if removed.is_err() {
            let text = format!("a copy of {} is not there", key.escape_ascii());
            self.witness.borrow_mut().violation(text);
        }
    }

    /// The node's position in a slot's order.
    pub fn position(&self, slot: u16) -> u64 {
        let commits = self.commits.lock();
        commits.ok().and_then(|commits| commits.positions.get(&slot).copied()).unwrap_or(0)
    }

    /// Contents of these keys.
    pub fn held(&mut self, keys: Vec<DbKey>) -> Vec<Held> {
        let held = |key: DbKey| {
            let (content, expiry) = self.content(&key);
            Held { key, content, expiry }
        };
        keys.into_iter().map(held).collect()
    }

    /// Whether this node is the primary of a slot and may change it.
    pub fn is_primary(&self, slot: u16) -> bool {
        self.own.as_ref().is_some_and(|own| own.is_primary(tagged("", slot).as_bytes()))
    }

    /// Before this node changes slots of a dead primary, lets the witness compare what survived of
    /// the primary's changes.
    pub fn compare_survivors(&mut self) {
        let Some(own) = &self.own else { return };
        let own = own.clone();
        self.compare_survivors_of(|slot| own.is_primary(tagged("", slot).as_bytes()));
    }

    /// Like [`Machine::compare_survivors`], for some slots of this primary.
    fn compare_survivors_of(&mut self, is_own: impl Fn(u16) -> bool) {
        let awaited = self.witness.borrow().awaited(self.identity, is_own);
        if awaited.is_empty() {
            return;
        }
        for slot in awaited {
            let keys = self.witness.borrow().keys_of(slot);
            if self.restarted.remove(&slot)
                && let Ok(mut commits) = self.commits.lock()
            {
                commits.positions.remove(&slot);
                self.witness.borrow_mut().restarts(slot);
            }
            let (held, at) = (self.held(keys), self.position(slot));
            self.witness.borrow_mut().taken_over(self.identity, (slot, at), &held);
        }
    }
}

impl ClusterHost for Machine {
    fn handle(&mut self) -> &mut Handle {
        &mut self.exec.ks
    }

    fn execute(&mut self, tag: Tag, call: &Call<&[u8]>, reply: &mut Vec<u8>) -> Executed {
        self.compare_survivors();
        debug_assert!(call.slots.iter().all(|&slot| slot < SLOTS));
        if is_flush(&call.commands) {
            return self.begin_flush(tag, call);
        }
        self.note_slots(&call.slots);
        let waiter = Arc::new(Waiter { tag, slots: call.slots.clone() });
        self.host.may_wait = (!call.is_transaction).then_some(waiter);
        let client = (tag.origin, call.client);
        *reply = self.run_of(client, call.db, call.is_transaction, &call.commands);
        self.host.may_wait = None;
        self.track_for(tag.origin, call);
        let changed = self.commits.lock().is_ok_and(|commits| !commits.own.is_empty());
        self.report();
        let done = (&call.slots[..], changed, self.now_ms);
        self.witness.borrow_mut().executed(self.identity, tag, done);
        match self.host.waiting.contains_key(&tag) {
            true => Executed::Waits(None),
            false => Executed::Replied,
        }
    }

    fn end_wait(&mut self, tag: Tag, end: WaitEnd) -> Option<Vec<u8>> {
        let blocked = self.host.waiting.remove(&tag)?;
        self.exec.begin();
        let is_over = !self.exec.give_up(&blocked);
        self.exec.end();
        (!is_over).then(|| match end {
            // Its client was answered while this primary was unreachable.
            WaitEnd::Gone => Vec::new(),
            WaitEnd::Timeout | WaitEnd::Error => self.exec.late_reply(&blocked, End::Timeout).bytes,
        })
    }

    fn unwatch(&mut self, origin: Identity, client: u64) {
        if let Some(watched) = self.watches.remove(&(origin, client >> 16)) {
            self.abandon(watched.session);
        }
    }

    fn changed(&mut self, _: bool, _: Option<u64>, _: u16, key: &[u8]) {
        let ks = &mut self.exec.ks;
        ks.enter();
        ks.invalidate_read(Key { bytes: key, hash: ks.hash(key) });
        ks.exit();
        self.deliver_invalidations();
    }

    fn publish(&mut self, _: bool, channel: &[u8], payload: &[u8]) {
        self.witness.borrow_mut().received(self.identity, channel, payload);
    }

    fn keys_read(&mut self, call: &Call<&[u8]>, keys: &mut Vec<Vec<u8>>) {
        for args in &call.commands {
            let Some(command) = self.exec.prepare(args, None).command else { continue };
            let mut found = Vec::new();
            if key_positions(command.spec.meta.keys, args, &mut found).is_ok() {
                keys.extend(found.iter().map(|key| args[key.index as usize].to_vec()));
            }
        }
    }

    fn copy_begins(&mut self) {
        self.copied.clear();
    }

    fn copy(&mut self, part: &[u8], _: bool) {
        self.copied.extend_from_slice(part);
    }

    fn keys_used(
        &mut self,
        _: Tag,
        call: &Call<&[u8]>,
        keys: &mut Vec<DbKey>,
    ) -> Result<(), Refusal> {
        // They are lent: this node shows its slots to others.
        self.compare_survivors_of(|slot| call.slots.contains(&slot));
        self.keys_of(call, keys).then_some(()).ok_or(Refusal::Unsupported)
    }

    fn execute_apart(
        &mut self,
        tag: Tag,
        call: &Call<&[u8]>,
        lent: &[&[u8]],
    ) -> Result<Apart, Refusal> {
        self.run_apart(tag, call, lent).ok_or(Refusal::Unsupported)
    }

    fn apply_part(&mut self, tag: Tag, groups: &[&[u8]]) -> Result<(), GroupError> {
        self.make_part(tag, groups)
    }

    fn differs(&mut self, from: Identity, error: GroupError) {
        let violation =
            format!("a change of {from:?} does not fit at {:?}: {error}", self.identity);
        self.witness.borrow_mut().violation(violation);
    }
}
