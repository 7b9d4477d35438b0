//! Files of which parts never reached the disk, and files that are damaged: one is cut, the other
//! refused.

use super::effect::{Context, put_effect};
use super::format::{BLOCK_HEAD_LEN, FILE_HEAD_LEN, FileHead, VERSION};
use super::recover::InMemory;
use super::segment::{Memory, Segment};
use super::tests::Draw;
use super::writer::Writer;
use super::*;
use crate::load::Progress;
use petrel_keyspace::{Effect, Keyspace, Options, Order, StrRef};

const HEAD: FileHead = FileHead { version: VERSION, seq: 3, made_ms: 0, log_id: [5; 16] };

/// A file as the log's thread writes it, with syncs now and then.
struct Written {
    bytes: Vec<u8>,
    /// Starts of the blocks, and the end of the last.
    places: Vec<usize>,
    /// This many bytes were synced in the end.
    synced: usize,
    /// Synced length stated in each block.
    said: Vec<usize>,
}

impl Written {
    /// Blocks that end at this byte or before.
    fn whole_at(&self, at: usize) -> usize {
        self.places[1..].iter().filter(|&&end| end <= at).count()
    }

    /// The first block that such a change touches.
    fn touched_by(&self, damaged: &[u8]) -> Option<usize> {
        let at = self.bytes.iter().zip(damaged).position(|(a, b)| a != b)?;
        Some(self.whole_at(at))
    }
}

fn written(draw: &mut Draw) -> Written {
    let file = InMemory::default();
    file.0.lock().extend_from_slice(&HEAD.to_bytes());
    let mut writer = Writer::new(Box::new(file.clone()), HEAD, 0);
    let (mut places, mut said) = (vec![FILE_HEAD_LEN], Vec::new());
    let mut synced = FILE_HEAD_LEN;
    for i in 0..2 + draw.below(12) {
        if draw.below(3) == 0 {
            synced = places[draw.below(places.len() as u64) as usize].max(synced);
        }
        let epoch = 2 * i + 1;
        // Now and then one that fills pages.
        let len = if draw.below(5) == 0 { 70_000 } else { 10 + draw.below(9_000) };
        let value = vec![draw.below(256) as u8; len as usize];
        let mut record = vec![0; 4];
        let mut context = Context { db: 0, order: Order::first_of(epoch) };
        let key = format!("key {i}");
        let effect =
            Effect::Put { key: key.as_bytes(), value: StrRef::Bytes(&value), expiry: None };
        put_effect(&mut record, &mut context, 0, Order::first_of(epoch), &effect);
        let len = record.len() as u32 - 4;
        record[..4].copy_from_slice(&len.to_le_bytes());
        let mut segment = Segment::new(epoch, false, Memory::own(128 * 1024));
        segment.append_record(&record);
        writer.block(&mut [&mut segment], 1000 + i as i64, synced as u64, false).unwrap();
        said.push(synced);
        places.push(writer.len() as usize);
    }
    let bytes = file.0.lock().clone();
    let known = places.iter().filter(|&&at| at >= synced).copied().collect::<Vec<_>>();
    let synced = known[draw.below(known.len() as u64) as usize];
    Written { bytes, places, synced, said }
}

fn read_back(bytes: &[u8]) -> (Result<Replayed, LogError>, u64) {
    let keyspace = Keyspace::new(&Options { databases: 1, stripes: 4, ..Options::default() });
    let len = bytes.len() as u64;
    let replayed = replay(bytes, len, &keyspace, 1, None, &Progress::default());
    (replayed, keyspace.db_stats(0).keys)
}

/// Some ranges behind this byte read as zeros, or the file ends there.
fn lose(bytes: &mut Vec<u8>, from: usize, draw: &mut Draw) {
    let len = bytes.len() - from;
    for _ in 0..1 + draw.below(3) {
        if len == 0 {
            return;
        }
        let at = from + draw.below(len as u64) as usize;
        // The system writes pages.
        let (mut begin, mut end) = (at, (at + 1 + draw.below(9_000) as usize).min(bytes.len()));
        if draw.below(2) == 0 {
            (begin, end) = ((at / 4096 * 4096).max(from), (at / 4096 + 1) * 4096);
        }
        let end = end.min(bytes.len());
        bytes[begin.min(end)..end].fill(0);
    }
    if draw.below(4) == 0 {
        bytes.truncate(from + draw.below(len as u64 + 1) as usize);
    }
}

#[test]
fn what_was_never_synced_may_be_missing_anywhere() {
    let mut with_blocks_behind = 0;
    for seed in 0..400 {
        let mut draw = Draw(seed);
        let file = written(&mut draw);
        let mut bytes = file.bytes.clone();
        lose(&mut bytes, file.synced, &mut draw);
        let whole = file.whole_at(bytes.len()).min(file.touched_by(&bytes).unwrap_or(usize::MAX));
        let (replayed, keys) = read_back(&bytes);
        let replayed = replayed.unwrap_or_else(|error| panic!("{seed}: {error}"));
        // Exactly the blocks before the first hole survive, at least all synced ones.
        assert_eq!(replayed.blocks, whole as u64, "{seed}");
        assert_eq!(replayed.whole as usize, file.places[whole], "{seed}");
        assert!(replayed.whole as usize >= file.synced);
        assert_eq!((replayed.whole + replayed.torn) as usize, bytes.len(), "{seed}");
        assert_eq!(keys, whole as u64);
        with_blocks_behind += u64::from(replayed.torn_blocks > 1);
        // The remaining part is a valid file.
        let (again, keys) = read_back(&bytes[..replayed.whole as usize]);
        assert_eq!((again.unwrap().torn, keys), (0, whole as u64));
    }
    assert!(with_blocks_behind > 20, "{with_blocks_behind}");
}

#[test]
fn damage_before_what_was_synced_is_an_error_that_says_where() {
    let (mut damaged, mut torn) = (0, 0);
    for seed in 0..400 {
        let mut draw = Draw(1000 + seed);
        let file = written(&mut draw);
        let mut bytes = file.bytes.clone();
        let at = FILE_HEAD_LEN + draw.below((bytes.len() - FILE_HEAD_LEN) as u64) as usize;
        bytes[at] ^= 1 << draw.below(8);
        let touched = file.touched_by(&bytes).unwrap();
        // Synced length according to the blocks after it.
        let known = file.said[touched + 1..].iter().copied().max().unwrap_or(0);
        let begin = file.places[touched];
        match read_back(&bytes).0 {
            Ok(replayed) => {
                assert!(begin >= known, "{seed}");
                assert_eq!(replayed.whole as usize, begin, "{seed}");
                torn += 1;
            }
            Err(LogError::Damaged { at, next, lost }) => {
                assert!(begin < known, "{seed}");
                assert_eq!((at as usize, next as usize), (begin, file.places[touched + 1]));
                assert_eq!(lost.bytes as usize, bytes.len() - begin);
                let heads = file.said.len() - touched;
                assert!(lost.blocks as usize == heads || lost.blocks as usize == heads - 1);
                assert_eq!(lost.written_ms.unwrap().1, 999 + file.said.len() as i64);
                damaged += 1;
            }
            Err(error) => panic!("{seed}: {error}"),
        }
    }
    assert!(damaged > 50 && torn > 50, "{damaged} {torn}");
}

#[test]
fn a_value_that_looks_like_a_block_is_none() {
    // A valid block of another log within an unfinished write.
    let other = FileHead { log_id: [6; 16], ..HEAD };
    let block = BlockHead { epoch: 1, synced: 1 << 40, ..BlockHead::default() }.over(b"");
    let mut bytes = HEAD.to_bytes().to_vec();
    bytes.extend_from_slice(&[1; BLOCK_HEAD_LEN]);
    bytes.extend_from_slice(&block.to_bytes(&other));
    assert_eq!(read_back(&bytes).0.unwrap().torn as usize, 2 * BLOCK_HEAD_LEN);
    bytes.extend_from_slice(&block.to_bytes(&HEAD));
    assert!(matches!(read_back(&bytes).0, Err(LogError::Damaged { at: 64, .. })));
}
