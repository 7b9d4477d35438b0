//! A keyspace through an RDB file and back.

use petrel_keyspace::types::list::End;
use petrel_keyspace::types::stream::{Pending, StreamId};
use petrel_keyspace::{Cursor, FieldExpiry, Handle, Keyspace, Options, Policy, Value};
use petrel_persistence::rdb::{Dialect, Error, FileError, FileOptions, FileWriter, Leniency};
use petrel_persistence::{LoadOptions, Loaded, Progress, load, save, value};
use std::collections::BTreeMap;
use std::io::{self, Cursor as Memory};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A time that has not come.
const FAR: i64 = 1 << 50;

const PLAIN: FileOptions = FileOptions {
    compress: false,
    sum: true,
    dialect: Dialect::Redis,
    version_max: FileOptions::ANY_VERSION,
    only_redis_types: false,
};

/// Database and name of each key, with its payload and expiry.
type Contents = BTreeMap<(u16, Vec<u8>), (Vec<u8>, Option<i64>)>;

fn keyspace() -> Arc<Keyspace> {
    Keyspace::new(&Options { databases: 4, stripes: 64, ..Options::default() })
}

/// Runs `work` on a key with its stripe locked.
fn at<T>(
    ks: &mut Handle,
    name: &str,
    work: impl FnOnce(&mut Handle, petrel_keyspace::Key<'_>) -> T,
) -> T {
    let key = ks.key(name.as_bytes());
    ks.enter();
    ks.lock(key.hash);
    let result = work(ks, key);
    ks.unlock();
    ks.exit();
    result
}

fn fill(ks: &mut Handle, keys: usize) {
    for i in 0..keys {
        let (name, text) = (format!("key:{i}"), format!("value {i} ").repeat(i % 7));
        let expiry = (i % 3 == 0).then_some(FAR + i as i64);
        at(ks, &name, |ks, key| match i % 11 {
            0 => drop(ks.put(0, key, Value::Int(i as i64 * 12345), expiry)),
            1 => drop(ks.list_push(1, key, End::Back, &[b"a", text.as_bytes(), b"17"]).unwrap()),
            2 => drop(ks.set_add(0, key, &[b"x", text.as_bytes(), b"-5"]).unwrap()),
            3 => drop(ks.hash_set(3, key, &[b"f", text.as_bytes()], FieldExpiry::At(FAR)).unwrap()),
            4 => drop(ks.sorted_set_change(0, key, b"m", 1.5, |_| Some(i as f64 / 7.0)).unwrap()),
            _ => drop(ks.put((i % 4) as u16, key, Value::Bytes(text.as_bytes()), expiry)),
        });
    }
}

fn contents(ks: &mut Handle) -> Contents {
    let mut contents = Contents::new();
    ks.enter();
    for db in 0..ks.keyspace().databases() {
        let mut cursor = Cursor::default();
        loop {
            let now = ks.now_ms();
            cursor = ks.scan(db, cursor, 100, |view| {
                // Members come in the order of their hashes, which differs: sort the bytes.
                let mut payload = value::dump(view, now, Dialect::Redis).unwrap();
                payload.truncate(payload.len() - 8);
                payload.sort_unstable();
                contents.insert((db, view.key().to_vec()), (payload, view.expiry()));
            });
            if cursor == Cursor::default() {
                break;
            }
        }
    }
    ks.exit();
    contents
}

fn saved(ks: &mut Handle, options: FileOptions) -> Vec<u8> {
    let mut file = FileWriter::new(io::Cursor::new(Vec::new()), options).unwrap();
    file.aux("maker", b"petrel");
    ks.enter();
    ks.lock_all();
    save(ks, &mut file, |_| ControlFlow::Continue(())).unwrap();
    ks.unlock();
    ks.exit();
    let written = file.written();
    let bytes = file.finish().unwrap().into_inner();
    // The end and the checksum.
    assert_eq!(bytes.len() as u64, written + 9);
    bytes
}

fn loaded(bytes: &[u8], threads: usize) -> Result<(Loaded, Contents), FileError> {
    let keyspace = keyspace();
    let options =
        LoadOptions { threads, leniency: Leniency::default(), keeps_expired: false, merges: false };
    let progress = Progress::default();
    let loaded = load(bytes, bytes.len() as u64, &keyspace, options, &progress)?;
    let contents = contents(&mut keyspace.attach());
    assert_eq!(progress.keys.load(Relaxed), contents.len() as u64);
    Ok((loaded, contents))
}

#[test]
fn what_is_saved_is_loaded_by_any_number_of_threads() {
    let mut ks = keyspace().attach();
    fill(&mut ks, 20_000);
    let before = contents(&mut ks);
    assert_eq!(before.len(), 20_000);
    for (compress, sum) in [(false, true), (true, false), (true, true)] {
        let bytes = saved(&mut ks, FileOptions { compress, sum, ..PLAIN });
        for threads in [1, 2, 4] {
            let (file, after) = loaded(&bytes, threads).unwrap();
            assert!(after == before, "compress {compress}, sum {sum}, {threads} threads");
            assert_eq!(file.aux, [(b"maker".to_vec(), b"petrel".to_vec())]);
        }
    }
}

#[test]
fn the_version_is_the_lowest_that_holds_everything() {
    let version = |fill: &dyn Fn(&mut Handle)| {
        let mut ks = keyspace().attach();
        fill(&mut ks);
        let bytes = saved(&mut ks, PLAIN);
        (loaded(&bytes, 1).unwrap().0.version, bytes[..9].to_vec())
    };
    assert_eq!(version(&|_| {}), (9, b"REDIS0009".to_vec()));
    let expiring = |ks: &mut Handle| {
        at(ks, "h", |ks, key| {
            ks.hash_set(0, key, &[b"f", b"v"], FieldExpiry::At(FAR)).unwrap();
        });
    };
    assert_eq!(version(&expiring), (12, b"REDIS0012".to_vec()));
}

#[test]
fn what_older_versions_do_not_know_of_streams_is_left_out_where_that_is_asked_for() {
    let mut ks = keyspace().attach();
    at(&mut ks, "x", |ks, key| {
        let mut stream = ks.open_stream(0, key, true).unwrap().unwrap();
        for n in 1..5 {
            stream.add(StreamId::new(n, 1), &[b"f", b"v"]);
        }
        stream.delete(StreamId::new(4, 1));
        stream.put_group(b"g", StreamId::new(2, 1), Some(2));
        let owner = stream.see_consumer(b"g", b"c");
        stream.mark_active(b"g", b"c");
        stream.put_pending(b"g", StreamId::new(1, 1), Pending { owner, delivered_ms: 7, count: 2 });
        stream.remember_producer(b"p", b"1", StreamId::new(2, 1));
    });
    for (version_max, version) in [(14, 13), (12, 11), (11, 11), (10, 10), (9, 9)] {
        let bytes = saved(&mut ks, FileOptions { version_max, ..PLAIN });
        let keyspace = keyspace();
        let options = LoadOptions {
            threads: 1,
            leniency: Leniency::default(),
            keeps_expired: false,
            merges: false,
        };
        let loaded =
            load(&bytes[..], bytes.len() as u64, &keyspace, options, &Progress::default()).unwrap();
        assert_eq!(loaded.version, version);
        let mut other = keyspace.attach();
        at(&mut other, "x", |ks, key| {
            let stream = ks.view(0, key).unwrap().stream().unwrap();
            assert_eq!((stream.len(), stream.last_id()), (3, StreamId::new(4, 1)));
            assert_eq!(stream.added(), if version > 9 { 4 } else { 3 });
            assert_eq!(stream.producers().is_some(), version > 11);
            let group = stream.groups().get(b"g").unwrap();
            assert_eq!(group.pending_from(StreamId::MIN).next().unwrap().1.count, 2);
        });
    }
    at(&mut ks, "h", |ks, key| {
        ks.hash_set(0, key, &[b"f", b"v"], FieldExpiry::At(FAR)).unwrap();
    });
    ks.enter();
    ks.lock_all();
    let options = FileOptions { version_max: 11, ..PLAIN };
    let mut file = FileWriter::new(Memory::new(Vec::new()), options).unwrap();
    let refused = save(&mut ks, &mut file, |_| ControlFlow::Continue(()));
    assert!(matches!(refused, Err(FileError::Value(_))));
    ks.unlock();
    ks.exit();
}

#[test]
fn a_value_longer_than_a_run_is_built_where_it_is_read() {
    let mut ks = keyspace().attach();
    let long = vec![b'x'; 9 << 20];
    at(&mut ks, "string", |ks, key| ks.put(0, key, Value::Bytes(&long), None));
    at(&mut ks, "set", |ks, key| {
        for i in 0..400_000 {
            ks.set_add(0, key, &[format!("member number {i}").as_bytes()]).unwrap();
        }
    });
    fill(&mut ks, 100);
    let before = contents(&mut ks);
    let bytes = saved(&mut ks, PLAIN);
    for threads in [1, 3] {
        assert!(loaded(&bytes, threads).unwrap().1 == before, "{threads} threads");
    }
}

#[test]
fn usage_is_kept_under_the_policies_that_know_it() {
    let keyspace = keyspace();
    keyspace.set_memory_limit(0, Policy::AllKeysLfu);
    let mut ks = keyspace.attach();
    at(&mut ks, "k", |ks, key| {
        ks.put(0, key, Value::Int(1), None);
        ks.set_frequency(0, key, 77);
    });
    let bytes = saved(&mut ks, PLAIN);
    let again = self::keyspace();
    again.set_memory_limit(0, Policy::AllKeysLfu);
    let options = LoadOptions {
        threads: 1,
        leniency: Leniency::default(),
        keeps_expired: false,
        merges: false,
    };
    load(&bytes[..], bytes.len() as u64, &again, options, &Progress::default()).unwrap();
    let frequency = at(&mut again.attach(), "k", |ks, key| ks.frequency(0, key));
    assert_eq!(frequency, Some(77));
}

#[test]
fn keys_whose_time_has_passed_are_left_out() {
    let mut ks = keyspace().attach();
    ks.set_clock(1000);
    at(&mut ks, "past", |ks, key| ks.put(0, key, Value::Int(1), Some(2000)));
    at(&mut ks, "far", |ks, key| ks.put(0, key, Value::Int(1), Some(FAR)));
    // They are in the file nevertheless, and stay where they are.
    ks.set_clock(3000);
    let bytes = saved(&mut ks, PLAIN);
    assert_eq!((ks.keyspace().db_stats(0).keys, ks.now_ms()), (2, 3000));
    assert_eq!(counted(&bytes), (1, 1));
}

#[test]
fn a_hash_whose_fields_have_all_expired_is_not_there() {
    let mut ks = keyspace().attach();
    ks.set_clock(1000);
    for (name, of_g) in [("none left", 2000), ("one left", FAR)] {
        at(&mut ks, name, |ks, key| {
            ks.hash_set(0, key, &[b"f", b"v"], FieldExpiry::At(2000)).unwrap();
            ks.hash_set(0, key, &[b"g", b"v"], FieldExpiry::At(of_g)).unwrap();
        });
    }
    assert_eq!(counted(&saved(&mut ks, PLAIN)), (1, 1));
}

/// Loads a file now; how many keys there are, and how many had expired.
fn counted(bytes: &[u8]) -> (u64, u64) {
    let keyspace = keyspace();
    let leniency = Leniency::default();
    let options = LoadOptions { threads: 1, leniency, keeps_expired: false, merges: false };
    let progress = Progress::default();
    load(bytes, bytes.len() as u64, &keyspace, options, &progress).unwrap();
    assert_eq!(keyspace.db_stats(0).keys, progress.keys.load(Relaxed));
    (progress.keys.load(Relaxed), progress.expired.load(Relaxed))
}

#[test]
fn every_cut_and_every_flipped_byte_is_noticed() {
    let mut ks = keyspace().attach();
    fill(&mut ks, 11);
    let bytes = saved(&mut ks, FileOptions { compress: true, ..PLAIN });
    for len in 0..bytes.len() {
        assert!(loaded(&bytes[..len], 1).is_err(), "cut at {len} of {}", bytes.len());
    }
    let mut damaged = bytes.clone();
    for i in 0..bytes.len() {
        damaged[i] ^= 0x41;
        assert!(loaded(&damaged, 2).is_err(), "byte {i} of {}", bytes.len());
        damaged[i] = bytes[i];
    }
}

/// A file of these records, without a checksum.
fn file(records: &[u8]) -> Vec<u8> {
    [b"REDIS0009", records, b"\xff", &[0; 8]].concat()
}

#[test]
fn errors_say_what_and_where() {
    let error = |bytes: &[u8]| loaded(bytes, 1).unwrap_err();
    let twice = file(b"\xfe\x02\x00\x01k\x01a\x00\x01k\x01b");
    assert!(matches!(error(&twice), FileError::Duplicate { db: 2, .. }));
    // Of the second one, a hash, all fields have expired.
    let gone = b"\x00\x01k\x01a\x16\x01k\x01\x01f\x01v\x01\0\0\0\0\0\0\0";
    let gone = [&b"VALKEY080"[..], gone, b"\xff", &[0; 8]].concat();
    assert!(matches!(error(&gone), FileError::Duplicate { db: 0, .. }));
    assert!(matches!(
        error(&file(b"\xfe\x04\x00\x01k\x01a")),
        FileError::Databases { needed: 4, there: 4 }
    ));
    assert!(matches!(error(b"REDIS0099\xff"), FileError::Version(99)));
    assert!(matches!(error(b"REDIS"), FileError::NoRdbFile));
    assert!(matches!(error(&[]), FileError::NoRdbFile));
    let of_a_module = file(b"\x00\x01k\x01a\x06\x01m");
    let found = error(&of_a_module);
    assert!(
        matches!(found, FileError::Key { at: 14, error: Error::Unsupported(_), .. }),
        "{found}"
    );
    let without_key = file(b"\xfc\0\0\0\0\0\0\0\0\xfe\x00");
    assert!(matches!(error(&without_key), FileError::Format { at: 9, .. }));
}

#[test]
fn records_of_other_servers_are_read() {
    let bytes = file(
        &[
            // A module's data, sizes and slots; expiry in seconds, idle time; a function.
            &b"\xf7\x05\x01\x07\x03abcd\x04abcdefgh\x05\x02hi\x00\xfb\x02\x00\xf4\x01\x02\x03"[..],
            b"\xfd\xff\xff\xff\x7f\xf8\x0a\x00\x01a\x01v\xf9\x03\x00\x01b\xc0\x05",
            b"\xf5\x06source",
        ]
        .concat(),
    );
    let (file, contents) = loaded(&bytes, 2).unwrap();
    assert_eq!((file.functions, file.modules), (vec![b"source".to_vec()], 1));
    assert_eq!(contents[&(0, b"a".to_vec())].1, Some(i64::from(i32::MAX) * 1000));
    assert_eq!(contents.len(), 2);
}
