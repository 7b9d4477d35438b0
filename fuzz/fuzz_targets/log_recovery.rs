//! A log with holes, cuts and flips at any place, and what a process that died has left, with the same.
//!
//! Whatever was changed, nothing panics; and what was changed behind the bytes that were synced costs no more than what follows.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_keyspace::{Keyspace, Options};
use petrel_persistence::Progress;
use petrel_persistence::log::{
    BlockHead, FileHead, Known, LogError, PendingEpoch, Remains, Replayed, Storage, Sync,
    append_pending, replay,
};
use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex};

const HEAD: FileHead = FileHead { version: 3, seq: 1, made_ms: 0, log_id: [0; 16] };

fuzz_target!(|data: &[u8]| {
    let (&which, data) = data.split_first().unwrap_or((&0, &[]));
    if which % 2 == 0 { log(data) } else { pending(data) }
});

/// Numbers from the input; 0 behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> usize {
        let (&byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        byte.into()
    }

    fn below(&mut self, n: usize) -> usize {
        (self.byte() << 8 | self.byte()) % n.max(1)
    }
}

/// A record that puts a string into a key.
fn record(key: u8, len: usize) -> Vec<u8> {
    // The kind, the order as a signed number, key and text behind their lengths.
    let mut effect = vec![1, 2, 1, key];
    effect.extend_from_slice(&[len as u8 & 0x7f | 0x80, (len >> 7) as u8]);
    effect.resize(effect.len() + len, key);
    [&(effect.len() as u32).to_le_bytes()[..], &effect].concat()
}

fn log(data: &[u8]) {
    let mut input = Input(data);
    let (mut bytes, mut places, mut said) = (HEAD.to_bytes().to_vec(), vec![64], Vec::new());
    let (mut synced, mut previous) = (64, 0);
    for i in 0..1 + input.byte() % 8 {
        if input.byte() % 2 == 0 {
            synced = places[input.byte() % places.len()].max(synced);
        }
        let records = record(i as u8, input.below(10_000));
        let epoch = previous + 1 + input.byte() as u64;
        let head = BlockHead { epoch, previous, synced: synced as u64, ..BlockHead::default() };
        bytes.extend_from_slice(&head.over(&records).to_bytes(&HEAD));
        bytes.extend_from_slice(&records);
        places.push(bytes.len());
        said.push(synced);
        previous = epoch;
    }
    let whole = bytes.clone();
    damage(&mut bytes, &mut input);
    let same = bytes.iter().zip(&whole).take_while(|(a, b)| a == b).count();
    let blocks = places[1..].iter().filter(|&&end| end <= same).count();
    match read(&bytes) {
        Ok(replayed) => {
            assert_eq!(replayed.blocks as usize, blocks);
            assert_eq!((replayed.whole + replayed.torn) as usize, bytes.len());
        }
        // There was something whole behind it that says that it had been on the disk.
        Err(LogError::Damaged { at, lost, .. }) => {
            assert_eq!(at as usize, places[blocks]);
            assert_eq!(lost.bytes as usize, bytes.len() - places[blocks]);
            assert!(said.iter().any(|&said| said > places[blocks]));
        }
        Err(_) => assert!(same < 64),
    }
}

/// Zeros, flips and cuts, up to four.
fn damage(bytes: &mut Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..input.byte() % 5 {
        let (how, at, len) = (input.byte() % 4, input.below(bytes.len()), input.below(9_000));
        let end = (at + len).min(bytes.len());
        match how {
            0 => bytes[at..end].fill(0),
            1 => bytes[at / 4096 * 4096..end.max(at / 4096 * 4096)].fill(0),
            2 if at < bytes.len() => bytes[at] ^= 1 << (len % 8),
            _ => bytes.truncate(at),
        }
    }
}

fn read(bytes: &[u8]) -> Result<Replayed, LogError> {
    let keyspace = Keyspace::new(&Options { databases: 2, stripes: 2, ..Options::default() });
    replay(bytes, bytes.len() as u64, &keyspace, 1, None, &Progress::default())
}

/// A file in memory.
#[derive(Clone, Default)]
struct InMemory(Arc<Mutex<Vec<u8>>>);

impl Storage for InMemory {
    fn append(&mut self, pieces: &[IoSlice<'_>], _: u64) -> io::Result<usize> {
        let mut bytes = self.0.lock().unwrap();
        pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    fn cut(&mut self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().truncate(len as usize);
        Ok(())
    }

    fn syncer(&self) -> Arc<dyn Sync> {
        Arc::new(Synced)
    }
}

struct Synced;

impl Sync for Synced {
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Slots with records, of which some bytes are others.
fn pending(data: &[u8]) {
    let mut input = Input(data);
    let slots = 1 + input.byte() % 5;
    let table_end = 4096 + 2048 * 64;
    let mut bytes = vec![0; table_end];
    bytes[..8].copy_from_slice(b"PETRPEND");
    bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&2048u32.to_le_bytes());
    // The checksum is that of the records of a block with the same bytes.
    let sum = BlockHead::default().over(&bytes[..56]).sum;
    bytes[56..60].copy_from_slice(&sum.to_le_bytes());
    for slot in 0..slots {
        let records = [record(slot as u8, input.below(2000)), record(7, input.byte())].concat();
        let words = [
            bytes.len() as u64,
            records.len() as u64 + input.byte() as u64 % 2,
            1 + input.byte() as u64,
            input.byte() as u64 % 3 / 2,
            records.len() as u64,
        ];
        for (i, word) in words.iter().enumerate() {
            bytes[4096 + slot * 64 + i * 8..][..8].copy_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&records);
        bytes.push(0);
    }
    for _ in 0..input.byte() % 4 {
        match input.byte() % 3 {
            0 => bytes[4096 + input.byte() % slots * 64 + input.byte() % 40] = input.byte() as u8,
            1 => {
                let at = table_end + input.below(bytes.len() - table_end);
                bytes[at] = input.byte() as u8;
            }
            _ => {
                let at = table_end + input.below(bytes.len() - table_end);
                let end = (at + input.below(300)).min(bytes.len());
                let some = input.0[..input.0.len().min(end - at)].to_vec();
                bytes[at..at + some.len()].copy_from_slice(&some);
            }
        }
    }
    if input.byte() % 4 == 1 {
        let len = input.below(300);
        // Of the head, or of the last slots.
        let len = if len % 2 == 0 { len } else { bytes.len().saturating_sub(len) };
        bytes.truncate(len);
    }
    let known = Known { log_id: Some([0; 16]), first_seq: 1, last_epoch: None };
    let Ok(Some(remains)) = Remains::parse(bytes) else { return };
    let _ = remains.hindrance(&known);
    let Ok((last, epochs)) = remains.behind(&known) else { return };
    let file = InMemory::default();
    file.0.lock().unwrap().extend_from_slice(&HEAD.to_bytes());
    append_pending(&epochs, Box::new(file.clone()), HEAD, last, 0).unwrap();
    let bytes = file.0.lock().unwrap().clone();
    match read(&bytes) {
        Ok(replayed) => assert_eq!(replayed.blocks, epochs.len() as u64),
        // What stands in a record is looked at closer when it is applied.
        Err(LogError::Record { .. } | LogError::Databases { .. } | LogError::Misfit { .. }) => {}
        Err(error) => panic!("{error}: {:?}", epochs.iter().map(of).collect::<Vec<_>>()),
    }
}

fn of(epoch: &PendingEpoch) -> (u64, bool, u64) {
    (epoch.epoch, epoch.serial, epoch.records)
}
