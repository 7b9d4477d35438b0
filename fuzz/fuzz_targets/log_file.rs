//! Any bytes as a file of a log, and any records in a block whose checksums are right.

#![no_main]

use libfuzzer_sys::fuzz_target;
use petrel_keyspace::{Keyspace, Options};
use petrel_persistence::Progress;
use petrel_persistence::log::{BlockHead, FileHead, replay};

fuzz_target!(|data: &[u8]| {
    read(data);
    let (&flags, records) = data.split_first().unwrap_or((&0, &[]));
    let head = FileHead { version: 3, seq: 1, made_ms: 0, log_id: [0; 16] };
    let block = BlockHead { serial: flags & 1 != 0, epoch: 5, ..BlockHead::default() };
    read(&[&head.to_bytes()[..], &block.over(records).to_bytes(&head), records].concat());
});

fn read(bytes: &[u8]) {
    let keyspace = Keyspace::new(&Options { databases: 2, stripes: 2, ..Options::default() });
    // What is wrong is an error, and no more than that.
    let _ = replay(bytes, bytes.len() as u64, &keyspace, 1, None, &Progress::default());
}
