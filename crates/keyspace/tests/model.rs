//! Random operations against a map that is too simple to be wrong.

mod holding;

use bytes::Bytes;
use holding::locked;
use petrel_keyspace::{
    AddError, Cursor, DbStats, Effect, Handle, Keyspace, Options, Origin, Removal, StrRef, Value,
    View, blob_bytes, parse_int,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

const DATABASES: u16 = 3;
const START_MS: i64 = 1_000_000;

#[derive(Clone, Debug)]
enum Op {
    Put(u16, u16, Text, Option<i64>),
    Remove(u16, u16),
    SetExpiry(u16, u16, Option<i64>),
    Add(u16, u16, i64),
    Append(u16, u16, Text),
    Write(u16, u16, usize, Text),
    Rename(u16, u16, u16, u16),
    Copy(u16, u16, u16, u16),
    Fill(u16, u16),
    Drain(u16, u16),
    Advance(i64),
    Clear(u16),
    Swap(u16, u16),
    ExpireSome,
    Tick,
}

/// A value described by its construction, so that failures print short.
#[derive(Clone, Debug)]
enum Text {
    Int(i64),
    Repeated(u8, usize),
    Blob(u8, usize),
    Raw(u8, usize),
}

impl Text {
    fn bytes(&self) -> Vec<u8> {
        match *self {
            Text::Int(n) => n.to_string().into_bytes(),
            Text::Repeated(byte, len) | Text::Blob(byte, len) | Text::Raw(byte, len) => {
                vec![byte; len]
            }
        }
    }

    fn put(&self, handle: &mut Handle, db: u16, key: &[u8], expiry: Option<i64>) -> bool {
        let bytes = self.bytes();
        let value = match self {
            Text::Int(n) => Value::Int(*n),
            Text::Repeated(..) => Value::Bytes(&bytes),
            Text::Blob(..) => Value::Blob(Bytes::from(bytes)),
            Text::Raw(..) => Value::Raw(Bytes::from(bytes)),
        };
        locked(handle, key, |handle, key| handle.put(db, key, value, expiry))
    }
}

fn text() -> impl Strategy<Value = Text> {
    let len = prop_oneof![
        8 => 0usize..100,
        3 => 100usize..5_000,
        2 => 16_380usize..16_390,
        1 => 16_384usize..70_000,
    ];
    prop_oneof![
        prop_oneof![any::<i64>(), -20i64..20].prop_map(Text::Int),
        (b'a'..b'e', len.clone()).prop_map(|(byte, len)| Text::Repeated(byte, len)),
        (b'a'..b'e', len.clone()).prop_map(|(byte, len)| Text::Blob(byte, len)),
        (b'1'..b'3', len).prop_map(|(byte, len)| Text::Raw(byte, len)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let db = || prop_oneof![4 => Just(0u16), 1 => 1..DATABASES];
    let key = || prop_oneof![6 => 0u16..30, 2 => 0u16..600, 1 => Just(WIDE_KEY)];
    let expiry = || prop_oneof![2 => Just(None), 1 => (0i64..3_000).prop_map(Some)];
    prop_oneof![
        6 => (db(), key(), text(), expiry()).prop_map(|(db, k, t, e)| Op::Put(db, k, t, e)),
        4 => (db(), key()).prop_map(|(db, k)| Op::Remove(db, k)),
        3 => (db(), key(), expiry()).prop_map(|(db, k, e)| Op::SetExpiry(db, k, e)),
        3 => (db(), key(), prop_oneof![-9i64..9, any::<i64>()])
            .prop_map(|(db, k, n)| Op::Add(db, k, n)),
        2 => (db(), key(), text()).prop_map(|(db, k, t)| Op::Append(db, k, t)),
        3 => (db(), key(), 0usize..20_000, text()).prop_map(|(db, k, at, t)| Op::Write(db, k, at, t)),
        2 => (db(), key(), db(), key()).prop_map(|(a, k, b, l)| Op::Rename(a, k, b, l)),
        2 => (db(), key(), db(), key()).prop_map(|(a, k, b, l)| Op::Copy(a, k, b, l)),
        2 => (db(), 1u16..600).prop_map(|(db, n)| Op::Fill(db, n)),
        2 => (db(), 1u16..600).prop_map(|(db, n)| Op::Drain(db, n)),
        2 => (0i64..2_000).prop_map(Op::Advance),
        1 => db().prop_map(Op::Clear),
        1 => (db(), db()).prop_map(|(a, b)| Op::Swap(a, b)),
        2 => Just(Op::ExpireSome),
        1 => Just(Op::Tick),
    ]
}

/// A key longer than 16 bits can express.
const WIDE_KEY: u16 = u16::MAX;

fn key_bytes(key: u16) -> Vec<u8> {
    if key == WIDE_KEY { vec![b'w'; 70_000] } else { format!("key:{key}").into_bytes() }
}

fn exclusive<T>(handle: &mut Handle, work: impl FnOnce(&mut Handle) -> T) -> T {
    handle.enter();
    handle.lock_all();
    let result = work(handle);
    handle.unlock();
    handle.exit();
    result
}

/// Expected content of a database.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct Model {
    keys: HashMap<Vec<u8>, (Vec<u8>, Option<i64>)>,
}

impl Model {
    fn expire(&mut self, now: i64) {
        self.keys.retain(|_, (_, expiry)| expiry.is_none_or(|at| at > now));
    }
}

struct Pair {
    handle: Handle,
    models: Vec<Model>,
    now: i64,
}

impl Pair {
    fn new(keyspace: &Arc<Keyspace>) -> Self {
        let mut handle = keyspace.attach();
        handle.set_clock(START_MS);
        Pair { handle, models: vec![Model::default(); DATABASES.into()], now: START_MS }
    }

    fn model(&mut self, db: u16) -> &mut HashMap<Vec<u8>, (Vec<u8>, Option<i64>)> {
        &mut self.models[usize::from(db)].keys
    }

    /// Runs an operation on both and compares the results.
    fn run(&mut self, op: &Op) {
        let now = self.now;
        match op {
            Op::Put(db, key, text, ttl) => {
                self.put(*db, &key_bytes(*key), text, ttl.map(|t| now + t))
            }
            Op::Remove(db, key) => self.remove(*db, &key_bytes(*key)),
            Op::SetExpiry(db, key, ttl) => {
                self.set_expiry(*db, &key_bytes(*key), ttl.map(|t| now + t))
            }
            Op::Add(db, key, delta) => self.add(*db, &key_bytes(*key), *delta),
            Op::Append(db, key, text) => self.append(*db, &key_bytes(*key), &text.bytes()),
            Op::Write(db, key, offset, text) => {
                self.write(*db, &key_bytes(*key), *offset, &text.bytes());
            }
            Op::Rename(a, from, b, to) => {
                self.transfer(*a, &key_bytes(*from), *b, &key_bytes(*to), true);
            }
            Op::Copy(a, from, b, to) if (a, from) != (b, to) => {
                self.transfer(*a, &key_bytes(*from), *b, &key_bytes(*to), false);
            }
            Op::Copy(..) => {}
            Op::Fill(db, count) => {
                for key in 0..*count {
                    self.put(
                        *db,
                        &key_bytes(key),
                        &Text::Repeated(b'f', usize::from(key % 50)),
                        None,
                    );
                }
            }
            Op::Drain(db, count) => {
                for key in 0..*count {
                    self.remove(*db, &key_bytes(key));
                }
            }
            Op::Advance(by) => {
                self.now += by;
                self.handle.set_clock(self.now);
                let now = self.now;
                self.models.iter_mut().for_each(|model| model.expire(now));
            }
            Op::Clear(db) => {
                exclusive(&mut self.handle, |handle| drop(handle.clear(Some(*db))));
                self.model(*db).clear();
            }
            Op::Swap(a, b) => {
                exclusive(&mut self.handle, |handle| handle.swap(*a, *b));
                self.models.swap((*a).into(), (*b).into());
            }
            Op::ExpireSome | Op::Tick => self.housekeep(matches!(op, Op::Tick)),
        }
    }

    fn housekeep(&mut self, compact: bool) {
        let budget = std::time::Duration::from_millis(50);
        self.handle.enter();
        if compact {
            self.handle.compact_step(budget, 0);
        } else {
            self.handle.expire_step(budget);
        }
        self.handle.exit();
        self.handle.free_retired();
    }

    fn put(&mut self, db: u16, key: &[u8], text: &Text, expiry: Option<i64>) {
        let existed = text.put(&mut self.handle, db, key, expiry);
        let old = self.model(db).insert(key.to_vec(), (text.bytes(), expiry));
        assert_eq!(existed, old.is_some());
        let now = self.now;
        self.models[usize::from(db)].expire(now);
    }

    fn remove(&mut self, db: u16, key: &[u8]) {
        let existed = locked(&mut self.handle, key, |handle, key| handle.remove(db, key));
        assert_eq!(existed, self.model(db).remove(key).is_some());
    }

    fn set_expiry(&mut self, db: u16, key: &[u8], expiry: Option<i64>) {
        let existed =
            locked(&mut self.handle, key, |handle, key| handle.set_expiry(db, key, expiry));
        let entry = self.model(db).get_mut(key);
        assert_eq!(existed, entry.is_some());
        if let Some((_, at)) = entry {
            *at = expiry;
        }
        let now = self.now;
        self.models[usize::from(db)].expire(now);
    }

    fn add(&mut self, db: u16, key: &[u8], delta: i64) {
        let sum = locked(&mut self.handle, key, |handle, key| handle.add(db, key, delta));
        let entry = self.model(db).entry(key.to_vec()).or_insert((b"0".to_vec(), None));
        let expected = match parse_int(&entry.0) {
            None => Err(AddError::NotAnInteger),
            Some(old) => old.checked_add(delta).ok_or(AddError::Overflow),
        };
        assert_eq!(sum, expected);
        if let Ok(sum) = expected {
            entry.0 = sum.to_string().into_bytes();
        }
    }

    fn append(&mut self, db: u16, key: &[u8], bytes: &[u8]) {
        let len = locked(&mut self.handle, key, |handle, key| handle.append(db, key, bytes));
        let text = &mut self.model(db).entry(key.to_vec()).or_default().0;
        text.extend_from_slice(bytes);
        assert_eq!(len, Ok(text.len()));
    }

    fn write(&mut self, db: u16, key: &[u8], offset: usize, bytes: &[u8]) {
        let len =
            locked(&mut self.handle, key, |handle, key| handle.write_range(db, key, offset, bytes));
        let text = &mut self.model(db).entry(key.to_vec()).or_default().0;
        let end = offset + bytes.len();
        text.resize(text.len().max(end), 0);
        text[offset..end].copy_from_slice(bytes);
        assert_eq!(len, Ok(text.len()));
    }

    fn transfer(&mut self, a: u16, from: &[u8], b: u16, to: &[u8], rename: bool) {
        let (handle, keys) = (&mut self.handle, [from, to]);
        let hashes = keys.map(|key| handle.hash(key));
        handle.enter();
        handle.lock_many(hashes.into_iter());
        let keys = keys.map(|key| handle.key(key));
        let existed = if rename {
            handle.rename(a, keys[0], b, keys[1])
        } else {
            handle.copy(a, keys[0], b, keys[1])
        };
        handle.unlock();
        handle.exit();
        let entry =
            if rename { self.model(a).remove(from) } else { self.model(a).get(from).cloned() };
        assert_eq!(existed, entry.is_some());
        if let Some(entry) = entry {
            self.model(b).insert(to.to_vec(), entry);
        }
    }

    /// Compares all keys, by lookup and by scan, and the counters with the content of the tables.
    fn check(&mut self) {
        for db in 0..DATABASES {
            let model = self.models[usize::from(db)].clone();
            for (key, (text, expiry)) in &model.keys {
                let found = locked(&mut self.handle, key, |handle, key| {
                    handle
                        .read(db, key)
                        .map(|view| (view.string().unwrap().to_bytes(), view.expiry()))
                });
                assert_eq!(found.as_ref(), Some(&(Bytes::copy_from_slice(text), *expiry)));
            }
            let walked = contents(&mut self.handle, db, 7);
            assert!(
                walked == model,
                "db {db}: {} walked, {} there",
                walked.keys.len(),
                model.keys.len()
            );
        }
        check_accounts(&mut self.handle);
        self.handle.set_clock(self.now);
    }
}

/// Content of a database, scanned `count` keys at a time; no key may occur twice.
fn contents(handle: &mut Handle, db: u16, count: usize) -> Model {
    let mut model = Model::default();
    walk(handle, db, count, |view| {
        let entry = (view.string().unwrap().to_bytes().to_vec(), view.expiry());
        assert!(model.keys.insert(view.key().to_vec(), entry).is_none(), "key seen twice");
    });
    model
}

fn walk(handle: &mut Handle, db: u16, count: usize, mut each: impl FnMut(View<'_>)) {
    let mut cursor = Cursor::default();
    loop {
        handle.enter();
        cursor = handle.scan(db, cursor, count, &mut each);
        handle.exit();
        if cursor == Cursor::default() {
            return;
        }
    }
}

/// Checks the counters against the entries, including expired ones, and against the heap.
fn check_accounts(handle: &mut Handle) {
    handle.set_clock(0);
    let (mut footprints, mut blobs) = (0, 0);
    for db in 0..DATABASES {
        let mut found = DbStats::default();
        walk(handle, db, 100, |view| {
            footprints += view.footprint() as u64;
            if let Ok(StrRef::Blob(blob)) = view.string() {
                blobs += blob_bytes(blob.len()) as u64;
            }
            found.keys += 1;
            found.volatile += u64::from(view.expiry().is_some());
        });
        assert_eq!(handle.keyspace().db_stats(db), found);
    }
    handle.free_retired();
    let stats = handle.keyspace().stats();
    assert_eq!(stats.used, footprints + stats.tables);
    let heap = handle.keyspace().heap().stats();
    assert_eq!(heap.live_bytes + heap.huge_bytes, stats.used - blobs);
}

fn keyspace(stripes: usize) -> Arc<Keyspace> {
    Keyspace::new(&Options { databases: DATABASES, stripes, seed: 42 })
}

/// An effect that owns its data.
enum Kept {
    Put(Vec<u8>, Vec<u8>, Option<i64>),
    Remove(Vec<u8>, Removal),
    Expire(Vec<u8>, Option<i64>),
    Add(Vec<u8>, i64),
    Write(Vec<u8>, usize, Vec<u8>),
    Clear,
    Swap(u16),
}

impl Kept {
    fn new(effect: &Effect<'_>) -> Self {
        match *effect {
            Effect::Put { key, value, expiry } => {
                Kept::Put(key.to_vec(), value.to_bytes().to_vec(), expiry)
            }
            Effect::Remove { key, why } => Kept::Remove(key.to_vec(), why),
            Effect::Expire { key, expiry } => Kept::Expire(key.to_vec(), expiry),
            Effect::Add { key, delta } => Kept::Add(key.to_vec(), delta),
            Effect::Write { key, offset, bytes } => {
                Kept::Write(key.to_vec(), offset, bytes.to_vec())
            }
            Effect::Clear => Kept::Clear,
            Effect::Swap { with } => Kept::Swap(with),
            _ => unreachable!("no effect of strings"),
        }
    }

    fn apply(&self, handle: &mut Handle, db: u16) {
        let effect = match self {
            Kept::Put(key, value, expiry) => {
                Effect::Put { key, value: StrRef::Bytes(value), expiry: *expiry }
            }
            Kept::Remove(key, why) => Effect::Remove { key, why: *why },
            Kept::Expire(key, expiry) => Effect::Expire { key, expiry: *expiry },
            Kept::Add(key, delta) => Effect::Add { key, delta: *delta },
            Kept::Write(key, offset, bytes) => Effect::Write { key, offset: *offset, bytes },
            Kept::Clear => Effect::Clear,
            Kept::Swap(with) => Effect::Swap { with: *with },
        };
        match effect.key() {
            Some(key) => {
                locked(handle, key, |handle, _| handle.apply(db, &effect, Origin::LOCAL).unwrap())
            }
            None => exclusive(handle, |handle| handle.apply(db, &effect, Origin::LOCAL).unwrap()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_a_map(stripes in 1usize..5, ops in prop::collection::vec(op(), 1..60)) {
        let keyspace = keyspace(stripes);
        let mut pair = Pair::new(&keyspace);
        for op in &ops {
            pair.run(op);
        }
        pair.check();
        exclusive(&mut pair.handle, |handle| drop(handle.clear(None)));
        let stats = keyspace.stats();
        prop_assert_eq!((stats.used, stats.tables), (0, 0));
        let heap = keyspace.heap().stats();
        prop_assert_eq!(heap.live_bytes + heap.huge_bytes, 0);
    }

    #[test]
    fn effects_rebuild_the_state(stripes in 1usize..5, ops in prop::collection::vec(op(), 1..40)) {
        let kept: Arc<Mutex<Vec<(u16, Kept)>>> = Arc::default();
        let mut pair = Pair::new(&keyspace(stripes));
        let log = kept.clone();
        pair.handle.set_sink(Some(Box::new(move |db: u16, effect: &Effect<'_>| {
            log.lock().unwrap().push((db, Kept::new(effect)));
        })));
        for op in &ops {
            pair.run(op);
        }
        // The origin of an effect decides about expiry, not the follower.
        let mut copy = keyspace(1).attach();
        copy.set_clock(0);
        for (db, effect) in kept.lock().unwrap().iter() {
            effect.apply(&mut copy, *db);
        }
        copy.set_clock(pair.now);
        for db in 0..DATABASES {
            prop_assert!(contents(&mut copy, db, 50) == pair.models[usize::from(db)]);
        }
        check_accounts(&mut copy);
    }

    #[test]
    fn watches_see_every_change(
        before in prop::collection::vec(op(), 0..15),
        ops in prop::collection::vec(op(), 1..15),
        watched in 0u16..30,
    ) {
        let mut pair = Pair::new(&keyspace(2));
        before.iter().for_each(|op| pair.run(op));
        let bytes = key_bytes(watched);
        let watch = locked(&mut pair.handle, &bytes, |handle, key| handle.watch(0, key));
        let old = pair.models[0].keys.get(&bytes).cloned();
        ops.iter().for_each(|op| pair.run(op));
        let unchanged = locked(&mut pair.handle, &bytes, |handle, _| handle.unchanged(&watch));
        locked(&mut pair.handle, &bytes, |handle, _| handle.unwatch(&watch));
        if unchanged {
            prop_assert!(pair.models[0].keys.get(&bytes) == old.as_ref());
        } else {
            prop_assert!(ops.iter().any(|op| may_change(op, watched)));
        }
    }
}

/// False if the operation does not change the key of database 0.
fn may_change(op: &Op, watched: u16) -> bool {
    match *op {
        Op::Put(db, key, ..)
        | Op::Remove(db, key)
        | Op::SetExpiry(db, key, _)
        | Op::Add(db, key, _)
        | Op::Append(db, key, _)
        | Op::Write(db, key, ..)
        | Op::Copy(_, _, db, key) => db == 0 && key == watched,
        Op::Rename(a, from, b, to) => (a, from) == (0, watched) || (b, to) == (0, watched),
        Op::Fill(db, count) | Op::Drain(db, count) => db == 0 && watched < count,
        Op::Clear(db) => db == 0,
        Op::Swap(a, b) => a != b && (a == 0 || b == 0),
        // A key with an expiry may be evicted.
        Op::Advance(_) => true,
        Op::ExpireSome | Op::Tick => false,
    }
}

/// Fewer cases under a sanitizer, which makes each slow.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(192)
}
