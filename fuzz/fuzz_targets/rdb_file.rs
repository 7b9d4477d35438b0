//! A file of a stranger's bytes must be refused or loaded; what was loaded must be saved and loaded again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_keyspace::{Keyspace, Options};
use petrel_persistence::rdb::{Dialect, FileOptions, FileWriter, Leniency};
use petrel_persistence::{LoadOptions, Progress, load, save};
use std::io::Cursor;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Loads a file; the keyspace and how many keys it has, if the file is whole.
fn loaded(bytes: &[u8]) -> Option<(Arc<Keyspace>, u64)> {
    let keyspace = Keyspace::new(&Options { stripes: 2, ..Options::default() });
    let leniency = Leniency { any_version: true, any_sum: true, any_count: true };
    let options = LoadOptions { threads: 1, leniency, keeps_expired: false, merges: false };
    let progress = Progress::default();
    let result = load(bytes, bytes.len() as u64, &keyspace, options, &progress);
    result.ok().map(|_| (keyspace, progress.keys.load(Relaxed)))
}

fuzz_target!(|input: &[u8]| {
    let file = [b"REDIS0011", input].concat();
    let Some((keyspace, keys)) = loaded(&file) else { return };
    let options = FileOptions {
        compress: true,
        sum: true,
        dialect: Dialect::Redis,
        version_max: FileOptions::ANY_VERSION,
        only_redis_types: false,
    };
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), options).expect("memory takes all");
    let mut handle = keyspace.attach();
    handle.enter();
    handle.lock_all();
    let saved = save(&mut handle, &mut writer, |_| ControlFlow::Continue(()));
    assert_eq!(saved.expect("memory takes all"), keys);
    handle.unlock();
    handle.exit();
    let again = writer.finish().expect("memory takes all").into_inner();
    assert_eq!(loaded(&again).map(|(_, keys)| keys), Some(keys));
});
