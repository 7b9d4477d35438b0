//! Some keys of a keyspace that goes on serving, sent as they were at one moment and loaded into
//! another that goes on serving other keys.

use petrel_keyspace::types::list::End;
use petrel_keyspace::types::stream::{Pending, StreamId};
use petrel_keyspace::{
    Cursor, Effect, EffectHead, EffectSink, FieldExpiry, Handle, JsonChange, Key, Keyspace,
    Options, Origin, SinkSource, Type, Value, VectorChange, View,
};
use petrel_persistence::rdb::{Dialect, FileError, FileOptions, FileWriter, Leniency};
use petrel_persistence::{Image, KeyFilter, LoadFrom, Loaded, Progress, Settle, load_from, value};
use petrel_vector::{Quantisation, Shape};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

const DATABASES: u16 = 3;
const FIELDS: u64 = 4000;
const FAR: i64 = 1 << 50;
/// A time that has passed, except for a thread with its clock at [`THEN`].
const PAST: i64 = 2000;
const THEN: i64 = 1000;
const OTHERS: u64 = 50;
const PEER: Origin = Origin(1);
const OPTIONS: FileOptions = FileOptions {
    compress: true,
    sum: true,
    dialect: Dialect::Redis,
    version_max: FileOptions::ANY_VERSION,
    only_redis_types: false,
};

/// Database and name of each key, with its value and expiry.
type Contents = BTreeMap<(u16, Vec<u8>), (Vec<u8>, Option<i64>)>;

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

fn keyspace(stripes: usize) -> Arc<Keyspace> {
    Keyspace::new(&Options { databases: DATABASES, stripes, ..Options::default() })
}

/// About a third of all keys.
fn is_wanted(key: &[u8]) -> bool {
    key.iter().fold(7u32, |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 3 == 0
}

/// A key's value, in an order that does not depend on the places of its elements.
fn shown(view: View<'_>) -> Vec<u8> {
    match view.type_of() {
        Type::List => {
            let items = view.list().unwrap().iter_from(0).map(|item| item.to_vec());
            format!("{:?}", items.collect::<Vec<_>>()).into()
        }
        Type::Stream => {
            let stream = view.stream().unwrap();
            let entries: Vec<_> = stream.by_node().flatten().map(|entry| entry.id).collect();
            let group = stream.groups().get(b"group").map(|group| {
                group.pending_from(StreamId::MIN).map(|(id, _)| id).collect::<Vec<_>>()
            });
            format!("{entries:?} {:?} {group:?}", stream.last_id()).into()
        }
        Type::VECTOR_SET => {
            let set = view.vectors().unwrap().snapshot();
            let mut nodes: Vec<_> = set
                .nodes_from(0)
                .map(|node| (node.name().to_vec(), node.vector().code.to_vec()))
                .collect();
            nodes.sort();
            format!("{nodes:?}").into()
        }
        _ => {
            let mut payload = value::dump(view, 0, Dialect::Redis).unwrap();
            payload.truncate(payload.len() - 8);
            payload.sort_unstable();
            payload
        }
    }
}

/// Every key that `is_asked_for`, expired ones included. Everything is held.
fn contents(ks: &mut Handle, is_asked_for: impl Fn(&[u8]) -> bool) -> Contents {
    let mut contents = Contents::new();
    ks.ignore_expiry();
    for db in 0..DATABASES {
        let mut cursor = Cursor::default();
        loop {
            cursor = ks.scan(db, cursor, 100, |view| {
                if is_asked_for(view.key()) {
                    let name = (db, view.key().to_vec());
                    contents.insert(name, (shown(view), view.expiry()));
                }
            });
            if cursor == Cursor::default() {
                break;
            }
        }
    }
    ks.refresh_clock();
    contents
}

/// Runs `work` while everything is held.
fn exclusive<T>(ks: &mut Handle, work: impl FnOnce(&mut Handle) -> T) -> T {
    ks.enter();
    ks.lock_all();
    let done = work(ks);
    ks.unlock();
    ks.exit();
    done
}

fn put_vector(ks: &mut Handle, db: u16, key: Key<'_>, name: &[u8], at: f32) {
    let shape = Shape {
        dim: 3,
        quantisation: Quantisation::Q8,
        links: 8,
        input_dim: None,
        seed: Quantisation::Q8.seed(),
    };
    let encoded = shape.encode(&[at, 1.0, -at]).unwrap();
    let (vector, attributes) = (encoded.as_ref(), Some(&b"{}"[..]));
    let put = VectorChange::Put { shape, name, vector, given: b"", attributes, ef: 20 };
    let _ = ks.vector_change(db, key, put);
}

fn append(ks: &mut Handle, db: u16, key: Key<'_>, n: u64) {
    let Ok(Some(mut stream)) = ks.open_stream(db, key, true) else { return };
    let id = StreamId::new(stream.last_id().ms + 1, n);
    stream.add(id, &[b"field", b"value"]);
    stream.put_group(b"group", id, None);
    let owner = stream.see_consumer(b"group", b"consumer");
    stream.put_pending(b"group", id, Pending { owner, delivered_ms: 3, count: 1 });
}

fn document(ks: &mut Handle, db: u16, key: Key<'_>, text: &str) {
    let parsed = petrel_json::parse(text.as_bytes(), Default::default()).unwrap();
    let _ = ks.json_change(db, key, JsonChange::Put { tape: parsed.tape() });
}

/// Changes one key of any type. Its stripe is held.
fn change_key(ks: &mut Handle, db: u16, key: Key<'_>, random: &mut Random) {
    let n = random.below(1 << 30);
    let (text, filler) = (n.to_string(), vec![b'x'; random.below(2000) as usize]);
    let (text, member) = (text.as_bytes(), [b'a' + random.below(20) as u8]);
    // A key of another type answers that it is; nothing changes then.
    match random.below(16) {
        0 => drop(ks.put(db, key, Value::Bytes(&filler), None)),
        1 => drop(ks.put(db, key, Value::Int(7), Some(FAR))),
        2 => drop(ks.append(db, key, text)),
        3 | 4 => drop(ks.remove(db, key)),
        5 => drop(ks.set_expiry(db, key, Some(FAR + n as i64 % 100))),
        6 => drop(ks.list_push(db, key, End::Back, &[text, &filler])),
        7 => {
            if let Ok(Some(mut list)) = ks.list_mut(db, key) {
                list.pop(End::Front, 1, |_| ());
            }
        }
        8 => drop(ks.set_add(db, key, &[&member, text])),
        9 => drop(ks.hash_set(db, key, &[&member, text], FieldExpiry::At(FAR + n as i64 % 9))),
        10 => drop(ks.hash_set(db, key, &[&member, text], FieldExpiry::Clear)),
        11 => drop(ks.hash_remove(db, key, &[&member])),
        12 => {
            let more = |old: Option<f64>| Some(old.unwrap_or(0.0) + 0.5);
            let _ = ks.sorted_set_change(db, key, &member, 1.5, more);
        }
        13 => append(ks, db, key, n),
        14 => put_vector(ks, db, key, &member, n as f32),
        _ => document(ks, db, key, &format!("{{\"n\": {n}}}")),
    }
}

/// A field of a large hash.
fn field(n: u64) -> String {
    format!("field {n} of a large hash")
}

/// Changes something.
fn change(ks: &mut Handle, random: &mut Random) {
    let db = random.below(2) as u16;
    match random.below(2000) {
        0 => return exclusive(ks, |ks| ks.swap(0, 1)),
        1 => return exclusive(ks, |ks| ks.swap(1, 2)),
        2 => return drop(exclusive(ks, |ks| ks.clear(Some(db)))),
        _ => {}
    }
    let names = match random.below(3) {
        0 => [0, 1].map(|_| format!("large:{}", random.below(6))),
        _ => [0, 1].map(|_| format!("key:{}", random.below(120))),
    };
    let [key, other] = [ks.key(names[0].as_bytes()), ks.key(names[1].as_bytes())];
    ks.enter();
    ks.lock_many([key.hash, other.hash].into_iter());
    match random.below(12) {
        0 => drop(ks.rename(db, key, db, other)),
        1 => drop(ks.copy(db, key, 1 - db, other)),
        _ if names[0].starts_with("large") => {
            let (name, text) = (field(random.below(FIELDS)), random.below(1000).to_string());
            let pair = [name.as_bytes(), text.as_bytes()];
            let _ = ks.hash_set(0, key, &pair, FieldExpiry::Clear);
        }
        _ => change_key(ks, db, key, random),
    }
    ks.unlock();
    ks.exit();
}

/// Creates unchanging keys, some with expired parts, and large ones. The whole keyspace is locked.
fn fill(ks: &mut Handle) {
    ks.set_clock(THEN);
    for n in 0..6 {
        let name = format!("large:{n}");
        for n in 0..FIELDS {
            let expiry = if n % 2 == 0 { FieldExpiry::At(PAST) } else { FieldExpiry::Clear };
            let name = ks.key(name.as_bytes());
            ks.hash_set(0, name, &[field(n).as_bytes(), b"0"], expiry).unwrap();
        }
    }
    for n in 0..40 {
        let name = format!("expired:{n}");
        let (db, key) = (n % DATABASES, ks.key(name.as_bytes()));
        match n % 3 {
            0 => drop(ks.put(db, key, Value::Bytes(b"text"), Some(PAST))),
            1 => {
                ks.set_add(db, key, &[b"a", b"b"]).unwrap();
                ks.set_expiry(db, key, Some(PAST));
            }
            // All of its fields have expired.
            _ => drop(ks.hash_set(db, key, &[b"f", b"v"], FieldExpiry::At(PAST)).unwrap()),
        }
    }
    ks.refresh_clock();
}

/// Fills a database and begins a snapshot of the wanted keys; returns these keys and the snapshot.
fn begin(ks: &mut Handle) -> (Contents, Image) {
    let filter: Arc<KeyFilter> = Arc::new(is_wanted);
    exclusive(ks, |ks| {
        drop(ks.clear(Some(0)));
        fill(ks);
        let before = contents(ks, is_wanted);
        (before, Image::begin_some(ks, OPTIONS, filter).unwrap())
    })
}

fn write(ks: &mut Handle, image: Image) -> (u64, Vec<u8>) {
    assert_eq!(image.keys(), 0);
    let mut file = FileWriter::unseekable(Vec::new(), OPTIONS, 13).unwrap();
    let keys = image.write(ks, &mut file, |_| ControlFlow::Continue(())).unwrap();
    (keys.unwrap(), file.finish_unseekable().unwrap())
}

/// Notes whether effects carry the origin that they should.
#[derive(Clone, Default)]
struct Origins(Arc<[AtomicU64; 3]>);

impl Origins {
    /// Effects of the keyspace's own, of those loaded, and wrong ones.
    fn counts(&self) -> [u64; 3] {
        [0, 1, 2].map(|n| self.0[n].load(Relaxed))
    }
}

impl EffectSink for Origins {
    fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
        let is_other = effect.key().is_some_and(|key| key.starts_with(b"other:"));
        let sort = match (is_other, head.origin) {
            (true, Origin::LOCAL) => 0,
            (false, PEER) => 1,
            _ => 2,
        };
        self.0[sort].fetch_add(1, Relaxed);
    }
}

impl SinkSource for Origins {
    fn sink(&self) -> Box<dyn EffectSink> {
        Box::new(self.clone())
    }
}

fn from<'s>(settle: &'s Settle<'s>, threads: usize) -> LoadFrom<'s> {
    LoadFrom { origin: PEER, threads, leniency: Leniency::default(), settle }
}

fn load(
    bytes: &[u8],
    keyspace: &Arc<Keyspace>,
    from: LoadFrom<'_>,
    progress: &Progress,
) -> Result<Loaded, FileError> {
    load_from(bytes, bytes.len() as u64, keyspace, from, progress)
}

/// Loads a file into a keyspace that serves other keys meanwhile; returns the loaded keys.
fn load_beside(bytes: &[u8], threads: usize) -> Contents {
    let keyspace = keyspace(32);
    let mut ks = keyspace.attach();
    let origins = Origins::default();
    exclusive(&mut ks, |ks| ks.set_sinks("origins", Some(Arc::new(origins.clone()))));
    let (done, sum, settled) = (AtomicBool::new(false), AtomicI64::new(0), AtomicU64::new(0));
    let progress = Progress::default();
    std::thread::scope(|scope| {
        for seed in 1..3 {
            let (keyspace, done, sum) = (&keyspace, &done, &sum);
            scope.spawn(move || {
                let (mut ks, mut random) = (keyspace.attach(), Random(seed * 77_777));
                while !done.load(Relaxed) {
                    let name = format!("other:{}", random.below(OTHERS));
                    let key = ks.key(name.as_bytes());
                    ks.enter();
                    ks.lock(key.hash);
                    ks.add((seed % 2) as u16, key, 1).unwrap();
                    sum.fetch_add(1, Relaxed);
                    ks.unlock();
                    ks.exit();
                }
            });
        }
        while sum.load(Relaxed) == 0 {
            std::thread::yield_now();
        }
        let settle = |ks: &mut Handle| {
            assert!(!ks.is_inside() && !ks.holds_any());
            settled.fetch_add(1, Relaxed);
        };
        let loaded = load(bytes, &keyspace, from(&settle, threads), &progress);
        done.store(true, Relaxed);
        assert!(loaded.unwrap().is_whole);
    });
    let (of_others, of_peers) = (sum.load(Relaxed), progress.keys.load(Relaxed));
    let [own, loaded, wrong] = origins.counts();
    assert_eq!((own, wrong), (of_others as u64, 0));
    assert!(loaded >= of_peers + progress.expired.load(Relaxed));
    let others = exclusive(&mut ks, |ks| contents(ks, |key| key.starts_with(b"other:")));
    let is_loaded = |key: &[u8]| !key.starts_with(b"other:");
    let after = exclusive(&mut ks, |ks| contents(ks, is_loaded));
    assert!(!others.is_empty() && others.len() <= 2 * OTHERS as usize);
    assert_eq!(progress.keys.load(Relaxed) + progress.expired.load(Relaxed), after.len() as u64);
    if !after.is_empty() {
        assert!(settled.load(Relaxed) > 0);
        // Present keys are not replaced.
        let again = load(bytes, &keyspace, from(&|_| (), threads), &Progress::default());
        assert!(matches!(again, Err(FileError::Duplicate { .. })), "{again:?}");
        assert!(exclusive(&mut ks, |ks| contents(ks, is_loaded)) == after);
        assert_eq!(origins.counts(), [own, loaded, 0]);
    }
    after
}

#[test]
fn some_keys_are_those_of_one_moment_while_threads_change_them() {
    let keyspace = keyspace(64);
    let mut ks = keyspace.attach();
    let done = AtomicBool::new(false);
    let rounds: Vec<(Contents, u64, Vec<u8>)> = std::thread::scope(|scope| {
        for seed in 1..4 {
            let (keyspace, done) = (&keyspace, &done);
            scope.spawn(move || {
                let (mut ks, mut random) = (keyspace.attach(), Random(seed * 99_991));
                while !done.load(Relaxed) {
                    change(&mut ks, &mut random);
                }
            });
        }
        let rounds = (0..6).map(|n| {
            let (before, mut image) = begin(&mut ks);
            image.threads = 1 + n % 2;
            let (keys, bytes) = write(&mut ks, image);
            (before, keys, bytes)
        });
        let rounds = rounds.collect();
        done.store(true, Relaxed);
        rounds
    });
    let mut all = rounds.iter().flat_map(|(before, ..)| before.values());
    assert!(all.any(|(_, expiry)| *expiry == Some(PAST)));
    for (n, (before, keys, bytes)) in rounds.iter().enumerate() {
        assert_eq!(*keys, before.len() as u64);
        assert!(before.keys().any(|(_, key)| key.starts_with(b"large")));
        let after = load_beside(bytes, 1 + n % 3);
        let differs = before.iter().find(|(name, value)| after.get(name) != Some(value));
        assert!(differs.is_none(), "round {n}: {:?}", differs.map(|(name, _)| name));
        assert_eq!(after.len(), before.len());
    }
}

#[test]
fn keys_of_no_interest_are_gone_through_all_the_same() {
    let keyspace = keyspace(16);
    let mut ks = keyspace.attach();
    exclusive(&mut ks, fill);
    for _ in 0..2 {
        ks.enter();
        let image = Image::begin_some(&mut ks, OPTIONS, Arc::new(|_: &[u8]| false)).unwrap();
        ks.exit();
        // Change and flush them before the snapshot reaches them.
        let name = ks.key(b"large:1");
        ks.enter();
        ks.lock(name.hash);
        ks.hash_set(0, name, &[b"f", b"v"], FieldExpiry::Clear).unwrap();
        ks.unlock();
        ks.exit();
        drop(exclusive(&mut ks, |ks| ks.clear(Some(1))));
        let (keys, bytes) = write(&mut ks, image);
        assert_eq!(keys, 0);
        assert!(bytes.len() < 20, "{} bytes", bytes.len());
        assert!(load_beside(&bytes, 2).is_empty());
    }
    // It can be given up though there is nothing to be written.
    ks.enter();
    let image = Image::begin_some(&mut ks, OPTIONS, Arc::new(|_: &[u8]| false)).unwrap();
    ks.exit();
    let mut file = FileWriter::unseekable(Vec::new(), OPTIONS, 13).unwrap();
    let written = image.write(&mut ks, &mut file, |_| ControlFlow::Break(()));
    assert_eq!(written.unwrap(), None);
}

/// A file with one large key of each type that has elements, and small ones. The list and the text
/// are too long to be handed to another thread.
fn large_file(elements: u64) -> Vec<u8> {
    let (mut ks, mut random) = (keyspace(16).attach(), Random(31));
    exclusive(&mut ks, |ks| {
        for n in 0..elements {
            let (text, score) = (format!("element {n} of a large collection"), n as f64);
            let text = text.as_bytes();
            ks.set_add(0, ks.key(b"set"), &[text]).unwrap();
            ks.hash_set(0, ks.key(b"hash"), &[text, text], FieldExpiry::At(FAR)).unwrap();
            let long: String = (0..15).map(|_| format!("{:016x}", random.below(1 << 53))).collect();
            ks.list_push(0, ks.key(b"list"), End::Back, &[long.as_bytes()]).unwrap();
            ks.sorted_set_change(0, ks.key(b"scores"), text, score, |_| Some(score)).unwrap();
            append(ks, 0, ks.key(b"stream"), n);
            ks.put(1, ks.key(text), Value::Bytes(text), None);
        }
        for name in [&b"set"[..], b"hash", b"list", b"scores", b"stream"] {
            ks.set_expiry(0, ks.key(name), Some(FAR));
        }
        let text: Vec<u8> = (0..5 << 20).map(|_| random.below(256) as u8).collect();
        ks.put(0, ks.key(b"text"), Value::Bytes(&text), Some(FAR));
    });
    ks.enter();
    let image = Image::begin_some(&mut ks, OPTIONS, Arc::new(|_: &[u8]| true)).unwrap();
    ks.exit();
    let bytes = write(&mut ks, image).1;
    assert!(bytes.len() > 12 << 20, "{} bytes", bytes.len());
    bytes
}

#[test]
fn others_have_their_turn_while_a_large_value_is_loaded() {
    let bytes = large_file(25_000);
    let keyspace = keyspace(16);
    let (done, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = Progress::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut ks = keyspace.attach();
            while !done.load(Relaxed) {
                exclusive(&mut ks, |ks| {
                    let view = ks.view(0, ks.key(b"set"));
                    let len = view.map_or(0, |view| view.set().unwrap().len());
                    turns.fetch_add(u64::from((1..25_000).contains(&len)), Relaxed);
                });
            }
        });
        let loaded = load(&bytes, &keyspace, from(&|_| (), 2), &progress);
        done.store(true, Relaxed);
        assert!(loaded.unwrap().is_whole);
    });
    assert!(turns.load(Relaxed) > 3, "{} turns", turns.load(Relaxed));
    assert_eq!(progress.keys.load(Relaxed), 25_006);
    let after = exclusive(&mut keyspace.attach(), |ks| contents(ks, |_| true));
    assert!(after.iter().filter(|((db, _), _)| *db == 0).all(|(_, (_, at))| *at == Some(FAR)));
    assert_eq!(after.len(), 25_006);
}

#[test]
fn a_load_that_was_ended_early_says_so() {
    let bytes = large_file(20_000);
    for threads in [1, 3] {
        let (keyspace, progress, calls) = (keyspace(16), Progress::default(), AtomicU64::new(0));
        let settle = |_: &mut Handle| {
            if calls.fetch_add(1, Relaxed) >= 20 {
                progress.stop.store(true, Relaxed);
            }
        };
        let loaded = load(&bytes, &keyspace, from(&settle, threads), &progress).unwrap();
        assert!(!loaded.is_whole);
        let keys = exclusive(&mut keyspace.attach(), |ks| contents(ks, |_| true)).len();
        assert!(keys < 20_006);
    }
}

#[test]
fn a_large_value_that_another_thread_changes_meanwhile_is_an_error() {
    let bytes = large_file(20_000);
    for removes in [true, false] {
        let (keyspace, has_changed) = (keyspace(16), AtomicBool::new(false));
        let settle = |ks: &mut Handle| {
            let key = ks.key(b"set");
            ks.enter();
            ks.lock(key.hash);
            if ks.view(0, key).is_some_and(|view| view.set().unwrap().len() < 20_000) {
                has_changed.store(true, Relaxed);
                match removes {
                    true => drop(ks.remove(0, key)),
                    false => drop(ks.set_add(0, key, &[b"another"]).unwrap()),
                }
            }
            ks.unlock();
            ks.exit();
        };
        let loaded = load(&bytes, &keyspace, from(&settle, 1), &Progress::default());
        assert!(has_changed.load(Relaxed));
        let error = loaded.unwrap_err().to_string();
        assert!(error.contains("was changed while"), "{error}");
    }
}
