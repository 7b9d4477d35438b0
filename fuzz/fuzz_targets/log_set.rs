//! A log of several files, of which one was cut or damaged, or whose manifest was cut.
//!
//! The loaded state is one that existed. If it is not the last one, only the end of the last file
//! with blocks is missing.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_keyspace::{Keyspace, Options};
use petrel_persistence::Progress;
use petrel_persistence::log::{
    BlockHead, Chain, Entry, FileHead, FileKind, Manifest, Piece, replay,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const LOG_ID: [u8; 16] = [7; 16];

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

/// A record that puts a string into a key of its own.
fn record(key: usize, len: usize) -> Vec<u8> {
    let mut effect = vec![1, 2, 2, (key >> 8) as u8, key as u8, len as u8 & 0x7f];
    effect.resize(effect.len() + (len & 0x7f), 7);
    [&(effect.len() as u32).to_le_bytes()[..], &effect].concat()
}

/// A log, and what there is of it.
struct Set {
    manifest: String,
    files: BTreeMap<String, Vec<u8>>,
    names: Vec<String>,
    /// Blocks of each file.
    blocks: Vec<usize>,
}

fn written(input: &mut Input<'_>) -> Set {
    let mut entries = Vec::new();
    let mut previous = 0;
    if input.byte() % 2 == 0 {
        // What a base holds is read elsewhere.
        previous = input.byte() as u64;
        let base = Entry::new("a.aof.1.base.rdb".into(), 1, FileKind::Base);
        entries.push(Entry { epoch: Some(previous + 1), ..base });
    }
    let mut set = Set {
        manifest: String::new(),
        files: BTreeMap::new(),
        names: Vec::new(),
        blocks: Vec::new(),
    };
    let mut key = 0;
    for seq in 2..3 + input.byte() as u64 % 4 {
        let head = FileHead { version: 3, seq, made_ms: 0, log_id: LOG_ID };
        let mut bytes = head.to_bytes().to_vec();
        let count = input.byte() % 4;
        for _ in 0..count {
            let epoch = previous + 1 + input.byte() as u64;
            let records = record(key, input.byte());
            let synced = if input.byte() % 2 == 0 { bytes.len() as u64 } else { 64 };
            let block = BlockHead { epoch, previous, synced, ..BlockHead::default() };
            bytes.extend_from_slice(&block.over(&records).to_bytes(&head));
            bytes.extend_from_slice(&records);
            (previous, key) = (epoch, key + 1);
        }
        let name = format!("a.aof.{seq}.effects.log");
        entries.push(Entry::new(name.clone(), seq, FileKind::Effects));
        set.files.insert(name.clone(), bytes);
        set.names.push(name);
        set.blocks.push(count);
    }
    set.manifest = Manifest::own(entries).to_string();
    set
}

/// How many blocks are loaded; none if the load is refused.
fn load(set: &Set) -> Option<usize> {
    let manifest = Manifest::parse(&set.manifest).ok()?;
    let keyspace: Arc<Keyspace> =
        Keyspace::new(&Options { databases: 2, stripes: 2, ..Options::default() });
    let mut chain = Chain::new(&manifest);
    for entry in manifest.logs() {
        let file = set.files.get(&entry.name)?;
        let (len, previous) = (file.len() as u64, chain.last_epoch);
        let replayed = replay(&file[..], len, &keyspace, 1, previous, &Progress::default());
        chain.add(entry, &Piece::from(&replayed.ok()?)).ok()?;
    }
    Some(keyspace.db_stats(0).keys as usize)
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let mut set = written(&mut input);
    let all: usize = set.blocks.iter().sum();
    assert_eq!(load(&set), Some(all));
    if input.byte() % 4 == 0 {
        let len = input.below(set.manifest.len());
        set.manifest.truncate(len);
        assert!(load(&set).is_none_or(|loaded| loaded == all && len + 1 >= set.manifest.len()));
        return;
    }
    let which = input.byte() % set.names.len();
    let file = set.files.get_mut(&set.names[which]).expect("it is there");
    let whole = file.clone();
    match input.byte() % 3 {
        0 => file.truncate(input.below(whole.len() + 1)),
        1 => {
            let at = input.below(whole.len());
            file[at] ^= 1 << (input.byte() % 8);
        }
        _ => {
            let at = input.below(whole.len());
            let end = (at + input.below(300)).min(whole.len());
            file[at..end].fill(0);
        }
    }
    let is_same = *file == whole;
    let before: usize = set.blocks[..which].iter().sum();
    let behind: usize = set.blocks[which + 1..].iter().sum();
    match load(&set) {
        Some(loaded) if loaded == all => {}
        // Blocks of the last file with some, from one on.
        Some(loaded) => {
            assert!(behind == 0 && (before..all).contains(&loaded), "{loaded} of {all}")
        }
        None => assert!(!is_same),
    }
});
