//! Tests of the whole log: records of several threads, written and read back.

use super::format::{BLOCK_HEAD_LEN, FileHead, VERSION};
use super::*;
use crate::Image;
use crate::load::{LoadFrom, Progress, load_from};
use crate::rdb::{Dialect, FileOptions, FileWriter, Leniency};
use parking_lot::Mutex;
use petrel_keyspace::types::list::End;
use petrel_keyspace::{FieldExpiry, Handle, Key, Keyspace, Options, Origin, StrRef, Value, View};
use std::io::{self, IoSlice};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// The head of every file.
pub(super) const HEAD: FileHead =
    FileHead { version: VERSION, seq: 1, made_ms: 0, log_id: [7; 16] };

/// A file in memory that fails on request.
#[derive(Clone, Default)]
pub(super) struct Fake(Arc<FakeState>);

#[derive(Default)]
struct FakeState {
    bytes: Mutex<Vec<u8>>,
    /// Bytes of the file that were synced.
    synced: AtomicU64,
    /// The file can have this many bytes more; none is any number.
    room: Mutex<Option<usize>>,
    sync_fails: AtomicBool,
    /// A sync takes until this is false.
    sync_waits: AtomicBool,
}

impl Fake {
    pub fn new() -> Self {
        let fake = Fake::default();
        fake.0.bytes.lock().extend_from_slice(&HEAD.to_bytes());
        fake
    }

    /// The file can have this many bytes more.
    pub fn set_room(&self, room: Option<usize>) {
        *self.0.room.lock() = room;
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.bytes.lock().clone()
    }
}

impl Storage for Fake {
    fn append(&mut self, pieces: &[IoSlice<'_>], _: u64) -> io::Result<usize> {
        let mut room = self.0.room.lock();
        let all: usize = pieces.iter().map(|piece| piece.len()).sum();
        let count = room.map_or(all, |room| room.min(all));
        if count == 0 && all > 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *room = room.map(|room| room - count);
        let joined: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
        self.0.bytes.lock().extend_from_slice(&joined[..count]);
        Ok(count)
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.0.bytes.lock().truncate(len as usize);
        Ok(())
    }

    fn syncer(&self) -> Arc<dyn Sync> {
        self.0.clone()
    }
}

impl Sync for FakeState {
    fn sync(&self) -> io::Result<()> {
        while self.sync_waits.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.sync_fails.load(SeqCst) {
            return Err(io::Error::other("input/output error"));
        }
        let len = self.bytes.lock().len() as u64;
        self.synced.fetch_max(len, SeqCst);
        Ok(())
    }
}

/// Hears nothing of the log.
pub(super) struct Deaf;

impl Events for Deaf {
    fn durable(&self, _: u64) {}
    fn failed(&self, _: &str, _: bool) {}
    fn recovered(&self) {}
}

/// Calls of the log's listener.
#[derive(Default)]
struct Heard {
    durable: AtomicU64,
    failures: Mutex<Vec<(String, bool)>>,
    recoveries: AtomicU64,
}

impl Events for Arc<Heard> {
    fn durable(&self, epoch: u64) {
        self.durable.fetch_max(epoch, SeqCst);
    }

    fn failed(&self, why: &str, needs_base: bool) {
        self.failures.lock().push((why.into(), needs_base));
    }

    fn recovered(&self) {
        self.recoveries.fetch_add(1, SeqCst);
    }
}

struct Fixture {
    keyspace: Arc<Keyspace>,
    file: Fake,
    log: Arc<Log>,
    heard: Arc<Heard>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Fixture {
    fn new(policy: Policy) -> Self {
        let keyspace = keyspace();
        let (file, heard) = (Fake::new(), Arc::new(Heard::default()));
        let log = Log::new(policy, Box::new(heard.clone()), None);
        let thread = log.start(keyspace.clone(), Box::new(file.clone()), HEAD, 0).unwrap();
        let mut handle = keyspace.attach();
        handle.enter();
        handle.lock_all();
        handle.set_sinks(LogSource::NAME, Some(Arc::new(LogSource(log.clone()))));
        handle.unlock();
        handle.exit();
        Fixture { keyspace, file, log, heard, thread: Some(thread) }
    }

    fn stop(&mut self) {
        self.log.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

pub(super) fn keyspace() -> Arc<Keyspace> {
    Keyspace::new(&Options { databases: 4, stripes: 8, ..Options::default() })
}

/// Numbers that look drawn.
pub(super) struct Draw(pub u64);

impl Draw {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

pub(super) fn in_lock<T>(
    handle: &mut Handle,
    name: &str,
    work: impl FnOnce(&mut Handle, Key<'_>) -> T,
) -> T {
    let key = Key { bytes: name.as_bytes(), hash: handle.hash(name.as_bytes()) };
    handle.lock(key.hash);
    let done = work(handle, key);
    handle.unlock();
    done
}

/// A change of any kind.
pub(super) fn change(handle: &mut Handle, draw: &mut Draw) {
    let db = draw.below(3) as u16;
    let n = draw.below(20);
    let text = format!("text {}", draw.below(50));
    let text = text.as_bytes();
    handle.enter();
    match draw.below(13) {
        0 => in_lock(handle, &format!("s{n}"), |handle, key| {
            handle.put(
                db,
                key,
                Value::from_text(text),
                n.is_multiple_of(3).then_some(5_000_000_000_000),
            );
        }),
        1 => {
            in_lock(handle, &format!("i{n}"), |handle, key| assert!(handle.add(db, key, 3).is_ok()))
        }
        2 => in_lock(handle, &format!("l{n}"), |handle, key| {
            let end = if n.is_multiple_of(2) { End::Front } else { End::Back };
            handle.list_push(db, key, end, &[text, b"more"]).unwrap();
        }),
        3 => in_lock(handle, &format!("h{n}"), |handle, key| {
            let expiry =
                if n.is_multiple_of(2) { FieldExpiry::Clear } else { FieldExpiry::At(1 << 42) };
            handle.hash_set(db, key, &[text, b"value"], expiry).unwrap();
        }),
        4 => in_lock(handle, &format!("m{n}"), |handle, key| {
            handle.set_add(db, key, &[text]).unwrap();
        }),
        5 => in_lock(handle, &format!("z{n}"), |handle, key| {
            let score = n as f64 / 4.0;
            handle.sorted_set_change(db, key, text, score, |_| Some(score)).unwrap();
        }),
        6 => in_lock(handle, &format!("m{n}"), |handle, key| {
            handle.set_remove(db, key, &[text]).unwrap();
        }),
        7 => in_lock(handle, &format!("s{n}"), |handle, key| {
            handle.remove(db, key);
        }),
        8 => in_lock(handle, &format!("s{n}"), |handle, key| {
            handle.write_range(db, key, n as usize, text).unwrap();
        }),
        9 | 10 => {
            let kind = ["s", "l", "h", "m", "z"][draw.below(5) as usize];
            let (from, to) = (format!("{kind}{n}"), format!("{kind}{}", draw.below(20)));
            let hash = |name: &str| handle.hash(name.as_bytes());
            let keys = [hash(&from), hash(&to)];
            handle.lock_many(keys.into_iter());
            let (from, to) = (from.as_bytes(), to.as_bytes());
            let from = Key { bytes: from, hash: keys[0] };
            let to = Key { bytes: to, hash: keys[1] };
            if draw.below(2) == 0 && from.bytes != to.bytes {
                handle.copy(db, from, 3, to);
            } else {
                handle.rename(db, from, db, to);
            }
            handle.unlock();
        }
        11 if draw.below(30) == 0 => {
            handle.lock_all();
            if n.is_multiple_of(2) {
                handle.swap(db, (db + 1) % 4);
            } else {
                drop(handle.clear(Some(db)));
            }
            handle.unlock();
        }
        _ => in_lock(handle, &format!("l{n}"), |handle, key| {
            if let Ok(Some(mut list)) = handle.list_mut(db, key) {
                list.pop(End::Back, 1, |_| ());
            }
        }),
    }
    handle.exit();
}

fn describe(view: View<'_>) -> String {
    let payload = crate::value::dump(view, 0, crate::rdb::Dialect::Redis).unwrap();
    let text = view.string().map(|string| match string {
        StrRef::Bytes(bytes) => bytes.to_vec(),
        StrRef::Int(n) => n.to_string().into_bytes(),
        StrRef::Blob(blob) => blob.to_vec(),
    });
    match text {
        Ok(text) => format!("{:?} {:?}", text, view.expiry()),
        Err(_) if view.set().is_ok() || view.hash(0).is_ok() => {
            // Their order is the hash function's.
            let mut sorted = payload;
            sorted.truncate(sorted.len() - 10);
            sorted.sort_unstable();
            format!("{sorted:?} {:?}", view.expiry())
        }
        Err(_) => format!("{payload:?} {:?}", view.expiry()),
    }
}

/// Every key with its value.
pub(super) fn everything(keyspace: &Arc<Keyspace>) -> Vec<(u16, Vec<u8>, String)> {
    let mut handle = keyspace.attach();
    let mut all = Vec::new();
    handle.enter();
    handle.lock_all();
    for db in 0..keyspace.databases() {
        let mut cursor = Default::default();
        loop {
            // Expired keys are present as well.
            handle.ignore_expiry();
            cursor = handle.scan(db, cursor, 100, |view| {
                all.push((db, view.key().to_vec(), describe(view)));
            });
            if cursor == Default::default() {
                break;
            }
        }
    }
    handle.unlock();
    handle.exit();
    all.sort();
    all
}

pub(super) fn read_back(
    bytes: &[u8],
    threads: usize,
) -> Result<(Arc<Keyspace>, Replayed), LogError> {
    let keyspace = keyspace();
    let len = bytes.len() as u64;
    let replayed = replay(bytes, len, &keyspace, threads, None, &Progress::default())?;
    Ok((keyspace, replayed))
}

#[test]
fn what_threads_did_together_is_read_back() {
    for (policy, threads) in [(Policy::EverySecond, 3), (Policy::Always, 2), (Policy::No, 1)] {
        let mut fixture = Fixture::new(policy);
        std::thread::scope(|scope| {
            for seed in 0..3 {
                let keyspace = fixture.keyspace.clone();
                scope.spawn(move || {
                    let mut handle = keyspace.attach();
                    let mut draw = Draw(seed);
                    (0..3000).for_each(|_| change(&mut handle, &mut draw));
                });
            }
        });
        fixture.stop();
        let bytes = fixture.file.bytes();
        assert_eq!(fixture.file.0.synced.load(SeqCst), bytes.len() as u64);
        let (restored, replayed) = read_back(&bytes, threads).unwrap();
        assert_eq!(replayed.torn, 0);
        assert_eq!(everything(&restored), everything(&fixture.keyspace), "{policy:?}");
        assert!(everything(&restored).len() > 50);
    }
}

#[test]
fn what_was_loaded_beside_other_keys_is_in_the_log() {
    let sender = keyspace();
    let (mut handle, mut draw) = (sender.attach(), Draw(5));
    (0..3000).for_each(|_| change(&mut handle, &mut draw));
    handle.enter();
    handle.lock_all();
    for n in 0..20_000 {
        let text = format!("member {n} of a large set");
        handle.set_add(1, handle.key(b"large"), &[text.as_bytes()]).unwrap();
    }
    // As a replica has it that waits for its primary to remove it.
    handle.put(2, handle.key(b"expired"), Value::Int(5), Some(1000));
    let options = FileOptions {
        compress: false,
        sum: true,
        dialect: Dialect::Redis,
        version_max: FileOptions::ANY_VERSION,
        only_redis_types: false,
    };
    let image = Image::begin_some(&mut handle, options, Arc::new(|_: &[u8]| true)).unwrap();
    handle.unlock();
    handle.exit();
    let mut file = FileWriter::unseekable(Vec::new(), options, 13).unwrap();
    image.write(&mut handle, &mut file, |_| ControlFlow::Continue(())).unwrap().unwrap();
    let bytes = file.finish_unseekable().unwrap();

    for threads in [1, 3] {
        let mut fixture = Fixture::new(Policy::EverySecond);
        let mut other = fixture.keyspace.attach();
        other.enter();
        in_lock(&mut other, "other", |handle, key| handle.put(0, key, Value::Int(1), None));
        other.exit();
        let (origin, leniency) = (Origin(1), Leniency::default());
        let from = LoadFrom { origin, threads, leniency, settle: &|_| () };
        let len = bytes.len() as u64;
        let progress = Progress::default();
        let loaded = load_from(&bytes[..], len, &fixture.keyspace, from, &progress).unwrap();
        assert!(loaded.is_whole);
        drop(other);
        // All of it belongs to this epoch or one before.
        let epoch = fixture.keyspace.epochs().now();
        fixture.log.want(epoch);
        while fixture.log.durable() < epoch {
            std::thread::yield_now();
        }
        let synced = fixture.file.0.synced.load(SeqCst) as usize;
        let (restored, _) = read_back(&fixture.file.bytes()[..synced], threads).unwrap();
        let restored = everything(&restored);
        assert!(restored.contains(&(0, b"other".to_vec(), format!("{:?} None", b"1"))));
        assert_eq!(restored.len(), everything(&sender).len() + 1);
        assert_eq!(restored, everything(&fixture.keyspace));
        fixture.stop();
    }
}

#[test]
fn with_always_an_epoch_is_durable_soon() {
    let mut fixture = Fixture::new(Policy::Always);
    let mut handle = fixture.keyspace.attach();
    for i in 0..50 {
        handle.enter();
        in_lock(&mut handle, "key", |handle, key| assert!(handle.add(0, key, 1).is_ok()));
        let need = handle.take_need();
        assert!(need > 0);
        handle.exit();
        let mut waited = 0;
        while fixture.log.durable() < need {
            std::thread::sleep(Duration::from_millis(1));
            waited += 1;
            assert!(waited < 10_000, "epoch {need} did not become durable");
        }
        // Durable changes are in the synced part of the file.
        let synced = fixture.file.0.synced.load(SeqCst) as usize;
        let (restored, _) = read_back(&fixture.file.bytes()[..synced], 1).unwrap();
        let expected = format!("{:?} None", (i + 1).to_string().as_bytes());
        assert_eq!(everything(&restored)[0].2, expected);
        // A reader of durable data need not wait.
        handle.enter();
        in_lock(&mut handle, "key", |_, _| ());
        assert!(handle.take_need() <= fixture.log.durable());
        handle.exit();
    }
    drop(handle);
    fixture.stop();
    assert_eq!(fixture.heard.failures.lock().len(), 0);
}

/// A log of some blocks, and where each begins.
fn some_blocks() -> (Vec<u8>, Vec<usize>) {
    let mut fixture = Fixture::new(Policy::Always);
    let mut handle = fixture.keyspace.attach();
    for i in 0..5 {
        handle.enter();
        in_lock(&mut handle, &format!("key {i}"), |handle, key| {
            handle.put(0, key, Value::from_text(b"value"), None);
        });
        let need = handle.take_need();
        handle.exit();
        while fixture.log.durable() < need {
            std::thread::yield_now();
        }
    }
    drop(handle);
    fixture.stop();
    let bytes = fixture.file.bytes();
    let mut places = Vec::new();
    let mut reader = BlockReader::new(&bytes[..], bytes.len() as u64, None).unwrap();
    loop {
        let at = reader.position() as usize;
        match reader.next(&mut Vec::new()).unwrap() {
            Some(_) => places.push(at),
            None => break,
        }
    }
    assert!(reader.has_ended());
    (bytes, places)
}

#[test]
fn a_torn_end_is_told_and_damage_is_an_error() {
    let (bytes, places) = some_blocks();
    for len in 0..bytes.len() {
        let (restored, replayed) = read_back(&bytes[..len], 2).unwrap();
        let whole = places.iter().skip(1).filter(|&&at| at <= len).count();
        let end = bytes.len() - BLOCK_HEAD_LEN;
        let whole = whole + usize::from(len >= end);
        assert_eq!(everything(&restored).len(), whole, "{len}");
        assert_eq!(replayed.whole + replayed.torn, len as u64, "{len}");
    }
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x20;
        let last = at >= bytes.len() - BLOCK_HEAD_LEN;
        match read_back(&bad, 2) {
            // The mark of the end, behind which there is nothing: it could have been written in
            // part.
            Ok((_, replayed)) => assert!(last && replayed.torn > 0, "{at}"),
            Err(error) => assert!(!last, "{at} {error}"),
        }
    }
}

#[test]
fn a_missing_block_is_an_error() {
    let (bytes, places) = some_blocks();
    let mut gap = bytes.clone();
    gap.drain(places[1]..places[2]);
    assert!(matches!(read_back(&gap, 1), Err(LogError::Gap { .. })));
}

#[test]
fn a_full_disk_loses_nothing() {
    let mut fixture = Fixture::new(Policy::Always);
    *fixture.file.0.room.lock() = Some(100);
    let mut handle = fixture.keyspace.attach();
    handle.enter();
    in_lock(&mut handle, "key", |handle, key| {
        handle.put(0, key, Value::from_text(&[b'x'; 500]), None);
    });
    let need = handle.take_need();
    handle.exit();
    while fixture.heard.failures.lock().is_empty() {
        std::thread::yield_now();
    }
    assert!(fixture.log.has_failed());
    assert!(fixture.log.durable() < need);
    assert!(!fixture.heard.failures.lock()[0].1);
    *fixture.file.0.room.lock() = None;
    while fixture.log.durable() < need || fixture.log.has_failed() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(fixture.heard.recoveries.load(SeqCst), 1);
    drop(handle);
    fixture.stop();
    let (restored, replayed) = read_back(&fixture.file.bytes(), 1).unwrap();
    assert_eq!((everything(&restored).len(), replayed.torn), (1, 0));
}

#[test]
fn after_a_failed_sync_nothing_is_durable_before_a_new_base() {
    let mut fixture = Fixture::new(Policy::Always);
    fixture.file.0.sync_fails.store(true, SeqCst);
    let mut handle = fixture.keyspace.attach();
    handle.enter();
    in_lock(&mut handle, "key", |handle, key| assert!(handle.add(0, key, 1).is_ok()));
    let need = handle.take_need();
    handle.exit();
    while fixture.heard.failures.lock().iter().all(|(_, needs_base)| !needs_base) {
        std::thread::yield_now();
    }
    // The disk works again, but possibly lost data are still lost.
    fixture.file.0.sync_fails.store(false, SeqCst);
    std::thread::sleep(Duration::from_millis(20));
    assert!(fixture.log.durable() < need);
    let next = Fake::new();
    handle.enter();
    handle.lock_all();
    let file = Box::new(next.clone());
    fixture.log.rotate(&fixture.keyspace, file, HEAD, true);
    handle.unlock();
    handle.exit();
    std::thread::sleep(Duration::from_millis(20));
    assert!(fixture.log.durable() < need);
    fixture.log.has_base();
    while fixture.log.durable() < need || fixture.log.has_failed() {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(handle);
    fixture.stop();
    let (restored, replayed) = read_back(&next.bytes(), 1).unwrap();
    assert_eq!((everything(&restored).len(), replayed.torn), (0, 0));
}

#[test]
fn a_log_that_is_stopped_amid_a_long_sync_has_everything() {
    let mut fixture = Fixture::new(Policy::EverySecond);
    let mut handle = fixture.keyspace.attach();
    let mut put = |key: &str| {
        handle.enter();
        in_lock(&mut handle, key, |handle, key| {
            handle.put(0, key, Value::from_text(b"value"), None);
        });
        handle.exit();
    };
    fixture.file.0.sync_waits.store(true, SeqCst);
    put("first");
    fixture.log.want(fixture.keyspace.epochs().now());
    // Until the sync has taken so long that nothing more is written.
    while fixture.log.syncs_delayed() == 0 {
        std::thread::sleep(Duration::from_millis(10));
    }
    put("second");
    let epoch = fixture.keyspace.epochs().now();
    std::thread::sleep(Duration::from_millis(200));
    // What little comes meanwhile goes on in the same epoch, and so in the same memory.
    assert_eq!(fixture.keyspace.epochs().now(), epoch);
    fixture.log.stop();
    fixture.file.0.sync_waits.store(false, SeqCst);
    drop(handle);
    fixture.stop();
    let (restored, replayed) = read_back(&fixture.file.bytes(), 1).unwrap();
    assert_eq!((everything(&restored).len(), replayed.torn), (2, 0));
}

/// Paths of a stored file of this version and of its expected contents.
fn checked_in(version: u16) -> [std::path::PathBuf; 2] {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    [data.join(format!("log-v{version}.log")), data.join(format!("log-v{version}.txt"))]
}

#[test]
fn files_of_all_versions_open() {
    if std::env::var_os("PETREL_REGENERATE").is_some() {
        let mut fixture = Fixture::new(Policy::No);
        let mut handle = fixture.keyspace.attach();
        let mut draw = Draw(7);
        (0..400).for_each(|_| change(&mut handle, &mut draw));
        // A block that is large enough to be filled up.
        handle.enter();
        in_lock(&mut handle, "large", |handle, key| {
            handle.put(0, key, Value::from_text(&[b'x'; 66_000]), None);
        });
        handle.exit();
        drop(handle);
        fixture.stop();
        let [log, text] = checked_in(VERSION);
        std::fs::write(&log, fixture.file.bytes()).unwrap();
        std::fs::write(&text, listing(&fixture.keyspace)).unwrap();
    }
    for version in 1..=VERSION {
        let [log, text] = checked_in(version);
        let bytes = std::fs::read(&log).unwrap();
        assert_eq!(FileHead::from_bytes(&bytes).unwrap().version, version);
        let (restored, replayed) = read_back(&bytes, 2).unwrap();
        assert_eq!((replayed.torn, replayed.log_id), (0, [7; 16]));
        assert_eq!(listing(&restored), std::fs::read_to_string(&text).unwrap());
    }
}

/// What a key of a value type holds, as text.
fn shown(view: petrel_keyspace::View<'_>) -> String {
    let mut text = Vec::new();
    if let Ok(document) = view.json() {
        petrel_json::print(document, &petrel_json::Format::default(), &mut text);
    }
    if let Ok(set) = view.vectors() {
        let snapshot = set.snapshot();
        for node in snapshot.nodes_from(0) {
            let attributes = node.attributes().unwrap_or_default();
            text.extend_from_slice(&[node.name(), b" ", attributes, b" "].concat());
            let components = snapshot.shape().decode(node.vector());
            text.extend_from_slice(format!("{components:.1?};").as_bytes());
        }
    }
    String::from_utf8(text).unwrap()
}

/// A file that a server wrote before value types had numbers in the log: see `old_kinds.rs`.
#[test]
fn changes_of_value_types_in_old_files_are_read() {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let bytes = std::fs::read(data.join("log-v3-types.log")).unwrap();
    let (restored, replayed) = read_back(&bytes, 2).unwrap();
    assert_eq!((replayed.torn, FileHead::from_bytes(&bytes).unwrap().version), (0, 3));
    let mut handle = restored.attach();
    handle.enter();
    let mut of =
        |name: &str| in_lock(&mut handle, name, |handle, key| handle.view(0, key).map(shown));
    let document = r#"{"a":["x",[true],2,3,4],"b":{"c":"other"}}"#;
    assert_eq!(of("doc").as_deref(), Some(document));
    assert_eq!(of("copied").as_deref(), Some(document));
    assert_eq!(of("short").as_deref(), Some("[1]"));
    let long = (1..3000).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    assert_eq!(of("long"), Some(format!("[{long}]")));
    let vectors = r#"one {"n":1} [1.0, 0.0, 0.5];two {"n":2} [0.0, 1.0, 0.5];"#;
    assert_eq!(of("vs").as_deref(), Some(vectors));
    assert!(of("reduced").unwrap().starts_with("r  ["));
    assert_eq!((of("gone"), of("s").as_deref()), (None, Some("")));
    handle.exit();
}

#[test]
fn large_blocks_are_whole_pages() {
    for policy in [Policy::EverySecond, Policy::Always] {
        let mut fixture = Fixture::new(policy);
        std::thread::scope(|scope| {
            for seed in 0..2 {
                let keyspace = fixture.keyspace.clone();
                scope.spawn(move || {
                    let mut handle = keyspace.attach();
                    let mut draw = Draw(seed);
                    for i in 0..700 {
                        // Values of many lengths, some beyond the size of a segment.
                        let len = [3000, 60_000, 400_000]
                            [usize::from(i % 50 == 0) + usize::from(i % 100 == 0)];
                        let value = vec![b'a' + (i % 26) as u8; draw.below(len) as usize];
                        handle.enter();
                        in_lock(&mut handle, &format!("{seed} {}", i % 90), |handle, key| {
                            handle.put(0, key, Value::from_text(&value), None);
                        });
                        if i % 7 == 0 {
                            handle.exit();
                            handle.enter();
                            change(&mut handle, &mut draw);
                        }
                        handle.exit();
                    }
                });
            }
        });
        fixture.stop();
        let bytes = fixture.file.bytes();
        let mut reader = BlockReader::new(&bytes[..], bytes.len() as u64, None).unwrap();
        let mut large = 0;
        loop {
            let mut body = Vec::new();
            let Some(head) = reader.next(&mut body).unwrap() else { break };
            if head.len > 128 * 1024 {
                assert_eq!(reader.position() % 4096, 0);
                large += 1;
            }
        }
        assert!(large > 0);
        let (restored, replayed) = read_back(&bytes, 2).unwrap();
        assert_eq!(replayed.torn, 0);
        assert!(everything(&restored) == everything(&fixture.keyspace), "{policy:?}");
    }
}

fn listing(keyspace: &Arc<Keyspace>) -> String {
    let line = |(db, key, what): (u16, Vec<u8>, String)| {
        format!("{db} {} {what}\n", String::from_utf8_lossy(&key))
    };
    everything(keyspace).into_iter().map(line).collect()
}
