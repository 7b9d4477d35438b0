//! Runs closures on keys under their locks, and replays one keyspace's effects in another.
#![allow(dead_code, reason = "not every test holds keys in each way")]

use petrel_keyspace::{Effect, Handle, Key, Origin};
use std::sync::{Arc, Mutex};

/// Result of `work` on a key under its lock.
pub fn locked<T>(
    handle: &mut Handle,
    key: &[u8],
    work: impl FnOnce(&mut Handle, Key<'_>) -> T,
) -> T {
    let key = handle.key(key);
    handle.enter();
    handle.lock(key.hash);
    let result = work(handle, key);
    handle.unlock();
    handle.exit();
    result
}

/// Result of `work` on several keys under their locks.
pub fn locked_together<T>(
    handle: &mut Handle,
    keys: &[&[u8]],
    work: impl FnOnce(&mut Handle, &[Key<'_>]) -> T,
) -> T {
    let keys: Vec<Key<'_>> = keys.iter().map(|bytes| handle.key(bytes)).collect();
    handle.enter();
    handle.lock_many(keys.iter().map(|key| key.hash));
    let result = work(handle, &keys);
    handle.unlock();
    handle.exit();
    result
}

/// Makes `follower` apply each change of a key made by `handle`.
pub fn follow(handle: &mut Handle, follower: Arc<Mutex<Handle>>) {
    handle.set_sink(Some(Box::new(move |db, effect: &Effect<'_>| {
        let mut follower = follower.lock().unwrap();
        apply_held(&mut follower, db, effect);
    })));
}

/// Applies an effect with its key held, and the key that it copies from.
pub fn apply_held(follower: &mut Handle, db: u16, effect: &Effect<'_>) {
    let key = effect.key().expect("no effect on whole databases");
    let keys: Vec<&[u8]> = [key].into_iter().chain(effect.source().map(|(_, key)| key)).collect();
    locked_together(follower, &keys, |follower, _| {
        follower.apply(db, effect, Origin::LOCAL).unwrap()
    });
}
