//! Recovery of pending records.

use super::format::checksum;
use super::pending::{ENTRY_LEN, FIXED_LEN, HEAD_LEN, LEN, Pending, SLOTS_AT};
use super::tests::{Deaf, Draw, Fake, HEAD, change, everything, in_lock, keyspace, read_back};
use super::*;
use petrel_keyspace::{Keyspace, Value};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A directory that is deleted at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("petrel-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn pending(&self) -> PathBuf {
        self.0.join("a.aof.pending")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A log in memory with a file of pending records.
struct Fixture {
    scratch: Scratch,
    keyspace: Arc<Keyspace>,
    log: Arc<Log>,
}

impl Fixture {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        let pending = Pending::create(scratch.pending(), HEAD.log_id, 0).unwrap();
        let log = Log::new(Policy::EverySecond, Box::new(Deaf), Some(pending));
        let keyspace = keyspace();
        let mut handle = keyspace.attach();
        handle.enter();
        handle.lock_all();
        handle.set_sinks(LogSource::NAME, Some(Arc::new(LogSource(log.clone()))));
        handle.unlock();
        handle.exit();
        Fixture { scratch, keyspace, log }
    }

    /// Changes by several threads, in several epochs.
    fn work(&self, seed: u64) {
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let keyspace = self.keyspace.clone();
                scope.spawn(move || {
                    let mut handle = keyspace.attach();
                    let mut draw = Draw(seed + thread);
                    for i in 0..1000 {
                        change(&mut handle, &mut draw);
                        if i % 100 == 0 {
                            keyspace.epochs().advance();
                        }
                    }
                });
            }
        });
    }

    fn remains(&self) -> Remains {
        Remains::read(&self.scratch.pending()).unwrap().unwrap()
    }
}

fn known(last_epoch: Option<u64>) -> Known {
    Known { log_id: Some(HEAD.log_id), first_seq: HEAD.seq, last_epoch }
}

/// Returns a log file with the pending records appended.
fn appended(epochs: &[PendingEpoch], previous: u64) -> Vec<u8> {
    let file = Fake::new();
    append_pending(epochs, Box::new(file.clone()), HEAD, previous, 0).unwrap();
    file.bytes()
}

#[test]
fn what_was_committed_and_not_written_is_there() {
    let fixture = Fixture::new("pending-all");
    fixture.work(1);
    // One that is longer than any slot.
    let mut handle = fixture.keyspace.attach();
    handle.enter();
    in_lock(&mut handle, "long", |handle, key| {
        handle.put(0, key, Value::from_text(&[b'x'; 5 << 20]), None);
    });
    let remains = fixture.remains();
    assert_eq!(remains.hindrance(&known(None)), None);
    let (last, epochs) = remains.behind(&known(None)).unwrap();
    assert_eq!(last, 0);
    assert!(epochs.len() > 10 && epochs.iter().any(|epoch| epoch.serial));
    assert!(epochs.iter().any(|epoch| epoch.slots.len() > 1));
    let (restored, replayed) = read_back(&appended(&epochs, last), 2).unwrap();
    assert_eq!(replayed.blocks, epochs.len() as u64);
    handle.exit();
    assert!(everything(&restored) == everything(&fixture.keyspace));
}

#[test]
fn what_the_log_has_is_not_taken_again() {
    let fixture = Fixture::new("pending-rest");
    let file = Fake::new();
    let thread =
        fixture.log.start(fixture.keyspace.clone(), Box::new(file.clone()), HEAD, 0).unwrap();
    for (round, room) in [(1, None), (2, Some(20_000)), (3, None)] {
        file.set_room(room);
        fixture.work(100 * round);
        let epoch = fixture.keyspace.epochs().now();
        fixture.log.want(epoch);
        // Until all of it is written, or it has failed.
        let is_over = || match room {
            Some(_) => fixture.log.has_failed(),
            None => fixture.log.durable() >= epoch,
        };
        while !is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let written = file.bytes();
        let whole = read_back(&written, 1).unwrap();
        let remains = fixture.remains();
        assert_eq!(remains.hindrance(&known(whole.1.last_epoch)), None);
        let (last, epochs) = remains.behind(&known(whole.1.last_epoch)).unwrap();
        assert_eq!(Some(last), whole.1.last_epoch);
        assert!(room.is_none() || !epochs.is_empty());
        let more = appended(&epochs, last)[HEAD.to_bytes().len()..].to_vec();
        let both = [&written[..whole.1.whole as usize], &more].concat();
        let (restored, _) = read_back(&both, 2).unwrap();
        assert!(everything(&restored) == everything(&fixture.keyspace), "{round}");
    }
    fixture.log.stop();
    thread.join().unwrap();
    assert!(!fixture.scratch.pending().exists());
}

#[test]
fn what_belongs_to_another_boot_or_log_is_not_used() {
    let fixture = Fixture::new("pending-other");
    fixture.work(7);
    let is_used = |known: &Known| fixture.remains().hindrance(known).is_none();
    assert!(is_used(&known(Some(3))));
    assert!(!is_used(&Known { log_id: Some([1; 16]), ..known(Some(3)) }));
    assert!(!is_used(&Known { log_id: None, ..known(Some(3)) }));
    // A log that was put back in time.
    fixture.log.pending().unwrap().set_written(20);
    assert!(is_used(&known(Some(20))));
    assert!(!is_used(&known(Some(19))) && !is_used(&known(None)));
    // After a rewrite the base holds all that came before its file.
    fixture.log.pending().unwrap().set_first(5, 26);
    fixture.log.pending().unwrap().set_first(6, 31);
    for (first_seq, behind) in [(5, 25), (6, 30)] {
        let known = Known { first_seq, ..known(None) };
        assert!(is_used(&known));
        let (last, epochs) = fixture.remains().behind(&known).unwrap();
        assert!(last == behind && epochs.iter().all(|epoch| epoch.epoch > behind));
    }
    // A copy, made at an unknown time.
    let copy = fixture.scratch.0.join("copy");
    fs::copy(fixture.scratch.pending(), &copy).unwrap();
    assert!(Remains::read(&copy).unwrap().unwrap().hindrance(&known(Some(20))).is_some());
    let mut bytes = fs::read(&copy).unwrap();
    bytes[32] ^= 1;
    let sum = checksum(&bytes[..FIXED_LEN - 4]);
    bytes[FIXED_LEN - 4..FIXED_LEN].copy_from_slice(&sum.to_le_bytes());
    let other = Remains::parse(bytes).unwrap().unwrap();
    assert!(!other.is_of_this_boot() && other.hindrance(&known(Some(20))).is_some());
    assert!(Remains::read(&fixture.scratch.0.join("none")).unwrap().is_none());
}

#[test]
fn a_file_that_is_damaged_is_refused_and_no_more() {
    let fixture = Fixture::new("pending-damaged");
    fixture.work(9);
    let whole = fs::read(fixture.scratch.pending()).unwrap();
    let all = |bytes: Vec<u8>| {
        let remains = Remains::parse(bytes)?;
        remains.map(|remains| remains.behind(&known(None))).transpose()
    };
    assert!(all(whole.clone()).unwrap().unwrap().1.len() > 10);
    let mut refused = 0;
    for seed in 0..300 {
        let mut draw = Draw(seed);
        let mut bytes = whole.clone();
        match seed % 3 {
            // Somewhere, in the table, and at the end.
            0 => {
                let at = draw.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << draw.below(8);
            }
            1 => {
                let slot = HEAD_LEN + draw.below(12) as usize * ENTRY_LEN;
                bytes[slot + draw.below(5) as usize * 8 + draw.below(8) as usize] ^= 0x11;
            }
            _ => bytes.truncate(draw.below(whole.len() as u64) as usize),
        }
        if let Err(error) = all(bytes) {
            assert!(error.to_string().contains("at byte "), "{error}");
            refused += 1;
        }
    }
    assert!(refused > 50, "{refused}");
    // A length that ends within a record.
    let mut bytes = whole.clone();
    let slot = (HEAD_LEN..SLOTS_AT).step_by(ENTRY_LEN).find(|at| bytes[at + LEN * 8] > 1).unwrap();
    bytes[slot + LEN * 8] -= 1;
    assert!(matches!(all(bytes), Err(PendingError::Malformed { .. })));
}

#[test]
fn memory_of_the_file_is_given_back() {
    let fixture = Fixture::new("pending-space");
    let len = || fs::metadata(fixture.scratch.pending()).unwrap().len();
    let pending = fixture.log.pending().unwrap();
    let slot = |pages: usize| pending.slot(pages * 4096, b"content").unwrap();
    let (first, second, third) = (slot(10), slot(20), slot(5));
    assert_eq!(len(), (SLOTS_AT + 35 * 4096) as u64);
    assert!(second.mapping.bytes().starts_with(b"content\0"));
    drop(second);
    // It takes the first gap that is large enough.
    let (fourth, fifth) = (slot(15), slot(6));
    assert_eq!(len(), (SLOTS_AT + 41 * 4096) as u64);
    drop((third, fourth, fifth));
    assert_eq!(len(), (SLOTS_AT + 10 * 4096) as u64);
    drop(first);
    assert_eq!(len(), SLOTS_AT as u64);
}

#[test]
fn a_file_that_was_cut_is_refused_unless_nothing_of_use_is_missing() {
    let fixture = Fixture::new("pending-cut");
    fixture.work(11);
    let whole = fs::read(fixture.scratch.pending()).unwrap();
    let all = |bytes: Vec<u8>| {
        let remains = Remains::parse(bytes)?;
        remains.map(|remains| remains.behind(&known(None))).transpose()
    };
    let expected = all(whole.clone()).unwrap();
    // Each length of the head, and those around each page, and so around each slot.
    let around = (0..=whole.len()).step_by(4096).flat_map(|page| {
        let page = page as isize;
        [page - 1, page, page + 1]
    });
    let around =
        around.filter_map(|len| usize::try_from(len).ok().filter(|&len| len <= whole.len()));
    let mut refused = 0;
    for len in (0..200).chain(around) {
        match all(whole[..len].to_vec()) {
            // A power cut may leave this; a start skips the file and says so.
            Ok(None) => assert_eq!(len, 0),
            Ok(found) => assert!(found == expected, "{len}"),
            Err(PendingError::Malformed { .. }) => refused += 1,
            Err(error) => panic!("{len}: {error}"),
        }
    }
    assert!(refused > 200, "{refused}");
    // Of another boot it says nothing, whatever is left of it.
    let mut other = whole;
    other[32] ^= 1;
    let sum = checksum(&other[..FIXED_LEN - 4]);
    other[FIXED_LEN - 4..FIXED_LEN].copy_from_slice(&sum.to_le_bytes());
    let copy = fixture.scratch.0.join("copy");
    for len in [60, 4096, SLOTS_AT, SLOTS_AT + 4096] {
        fs::write(&copy, &other[..len]).unwrap();
        assert!(Remains::read(&copy).unwrap().is_none_or(|remains| !remains.is_of_this_boot()));
    }
}
