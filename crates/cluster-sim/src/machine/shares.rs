//! Commands over all keys: agreed function libraries, and flushes of a primary's slots within a
//! transaction.

use super::Machine;
use crate::content::Family;
use crate::names::{FLUSH, slots_of};
use petrel_cluster::slot_of;
use std::collections::BTreeSet;

/// Function library; functions write the version number in place of `N`.
const LIBRARY: &str = "#!lua name=lib\n\
    redis.register_function('put', function(keys, args)\n\
    return redis.call('SET', keys[1], args[1] .. 'N') end)\n\
    redis.register_function('add', function(keys, args)\n\
    redis.call('APPEND', keys[1], 'N') return redis.call('APPEND', keys[1], args[1]) end)";

impl Machine {
    /// Loads a version of the function library. Members agree on it outside of the lanes, and load
    /// it at different times.
    pub fn load_library(&mut self, number: u64) {
        let code = LIBRARY.replace('N', &number.to_string());
        let load: Vec<&[u8]> = vec![b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()];
        self.call_apart(&mut petrel_commands::Session::new(true), &load);
        let reply = self.run(0, false, &[load]);
        if reply.first() == Some(&b'-') {
            let text = format!("a library is not loaded: {}", reply.escape_ascii());
            self.witness.borrow_mut().violation(text);
        }
    }

    /// The command that replaces `FLUSHDB` in a transaction: it removes the keys of its slots,
    /// including keys that the transaction creates.
    pub(super) fn removed_by(
        &mut self,
        db: u16,
        is_transaction: bool,
        commands: &[Vec<&[u8]>],
    ) -> Vec<Vec<u8>> {
        if !is_transaction || !commands.iter().any(|command| command[0] == FLUSH) {
            return Vec::new();
        }
        let words = commands.iter().flatten().copied();
        let named: BTreeSet<&[u8]> = words.filter(|word| word.contains(&b'{')).collect();
        let slots = slots_of(named.iter().copied());
        let is_of = |key: &[u8]| {
            slots.contains(&slot_of(key)) && Family::of(key).is_some_and(Family::may_be_removed)
        };
        let here = self.keys().into_iter().filter(|(of, key)| *of == db && is_of(key));
        let mut keys: BTreeSet<Vec<u8>> = here.map(|(_, key)| key).collect();
        keys.extend(named.iter().filter(|key| is_of(key)).map(|key| key.to_vec()));
        std::iter::once(b"DEL".to_vec()).chain(keys).collect()
    }
}
