//! Prefetches the keys of received records: a batch has many independent cache misses, for which
//! the processor can wait together.

use super::{Host, Node};
use crate::view::Identity;
use crate::wire::{Record, is_effects, is_exec, is_kept, key_of_exec};
use petrel_keyspace::{Handle, KeyHash};
use petrel_persistence::effects::visit_keys;

/// Maximum number of records of a lane that are looked at.
const RECORDS_MAX: usize = 64;

/// Maximum size of effects that are looked at, in bytes: larger ones have many keys or large
/// values.
const EFFECTS_MAX: usize = 4 << 10;

/// Cache lines of an entry that are prefetched.
const LINES: usize = 2;

impl Node {
    /// Prefetches the keys of queued records of a node's lanes.
    pub(super) fn prefetch(&mut self, from: Identity, host: &mut dyn Host) {
        let Some(inboxes) = self.inboxes.get(&from) else { return };
        let (handle, ahead) = (host.handle(), &mut self.ahead);
        ahead.clear();
        for inbox in inboxes {
            for (_, record) in inbox.queued().take(RECORDS_MAX) {
                note_keys(handle, record, ahead);
            }
        }
        if ahead.len() < 2 {
            return;
        }
        handle.enter();
        if let Some(peek) = handle.peeker() {
            ahead.iter().for_each(|&(db, hash)| peek.prefetch_bucket(db, hash));
            ahead.iter().for_each(|&(db, hash)| peek.prefetch_entry(db, hash, LINES));
        }
        handle.exit();
    }
}

/// Adds the keys of a record, and prefetches their stripes.
fn note_keys(handle: &Handle, record: &[u8], ahead: &mut Vec<(u16, KeyHash)>) {
    let mut note = |db: u16, key: &[u8]| {
        let hash = handle.hash(key);
        handle.prefetch_stripe(hash);
        ahead.push((db, hash));
    };
    if is_exec(record) {
        if let Ok((db, key)) = key_of_exec(record) {
            note(db, key);
        }
        return;
    }
    let effects = match is_kept(record) {
        true => match Record::read(record) {
            Ok(Record::Kept { record, .. }) => record,
            _ => return,
        },
        false => record,
    };
    if effects.len() <= EFFECTS_MAX
        && is_effects(effects)
        && let Ok(Record::Effects { group, .. }) = Record::read(effects)
    {
        // A malformed group is reported when it is applied.
        let _ = visit_keys(group, |db, key| key.into_iter().for_each(|key| note(db, key)));
    }
}
