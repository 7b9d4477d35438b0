//! A whole keyspace into an RDB file.

use crate::rdb::{FileError, FileWriter};
use petrel_keyspace::{Cursor, Handle};
use std::io::{Seek, Write};
use std::ops::ControlFlow;

/// Keys that are walked between two looks at what failed.
const KEYS_AT_ONCE: usize = 1024;

/// Writes every key of every database. `saved` is called after each run of keys with their number,
/// and may end the save. The thread holds the whole keyspace ([`Handle::lock_all`]), so the file
/// shows a single state. Expired keys are written as well, as in a snapshot, and stay in memory.
/// Returns the number of keys written.
///
/// # Errors
/// If the file cannot be written.
pub fn save<W: Write + Seek>(
    handle: &mut Handle,
    file: &mut FileWriter<W>,
    mut saved: impl FnMut(u64) -> ControlFlow<()>,
) -> Result<u64, FileError> {
    let (mut total, now) = (0, handle.now_ms());
    for db in 0..handle.keyspace().databases() {
        let stats = handle.keyspace().db_stats(db);
        if stats.keys == 0 {
            continue;
        }
        file.database(db, stats.keys, stats.volatile);
        let mut cursor = Cursor::default();
        loop {
            let (next, keys) = save_run(handle, db, cursor, now, file)?;
            total += keys;
            cursor = next;
            if saved(keys).is_break() || cursor == Cursor::default() {
                break;
            }
        }
    }
    Ok(total)
}

fn save_run<W: Write + Seek>(
    handle: &mut Handle,
    db: u16,
    cursor: Cursor,
    now: i64,
    file: &mut FileWriter<W>,
) -> Result<(Cursor, u64), FileError> {
    let usages = handle.usages();
    let (mut written, mut keys) = (Ok(()), 0);
    handle.ignore_expiry();
    let next = handle.scan(db, cursor, KEYS_AT_ONCE, |view| {
        if written.is_ok() {
            // A hash with only expired fields counts as absent.
            let is_gone = view.hash(now).is_ok_and(|hash| hash.alive() == 0);
            if !is_gone {
                written = file.key(view, usages.of(view), now);
                keys += 1;
            }
        }
    });
    handle.set_clock(now);
    written.map(|()| (next, keys))
}
