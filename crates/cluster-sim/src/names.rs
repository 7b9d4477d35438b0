//! Names of keys and commands, and replies as values.

use petrel_cluster::{SLOTS, slot_of};
use petrel_resp::{DecodeLimits, Value, decode};
use std::sync::OnceLock;

/// A key with its database.
pub type DbKey = (u16, Vec<u8>);

/// Command of a transaction that removes all keys of its slots.
pub const FLUSH: &[u8] = b"FLUSHDB";

/// Decodes a reply.
pub fn parse(reply: &[u8]) -> Value {
    match decode(reply, &DecodeLimits::default()) {
        Ok(Some((value, _))) => value,
        _ => Value::Error("no reply".into()),
    }
}

/// The distinct slots of some keys.
pub fn slots_of<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<u16> {
    let mut slots: Vec<u16> = keys.map(slot_of).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}

/// A key name in a slot.
pub fn tagged(name: &str, slot: u16) -> String {
    static TAGS: OnceLock<Vec<u32>> = OnceLock::new();
    let tags = TAGS.get_or_init(|| {
        let mut tags = vec![u32::MAX; SLOTS.into()];
        let mut missing = tags.len();
        for tag in 0.. {
            if missing == 0 {
                break;
            }
            let of_slot = &mut tags[usize::from(slot_of(tag.to_string().as_bytes()))];
            if *of_slot == u32::MAX {
                (*of_slot, missing) = (tag, missing - 1);
            }
        }
        tags
    });
    format!("{name}{{{}}}", tags[usize::from(slot)])
}
