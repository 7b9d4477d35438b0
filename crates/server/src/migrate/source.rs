//! The keys here: serialised to be sent, and removed when they have arrived.

use crate::host::ServerHost;
use crate::state::migrate::{BYTES_AT_ONCE, Migration};
use petrel_commands::Executor;
use petrel_keyspace::{Handle, Key, KeyHash, WatchedKey};
use petrel_persistence::rdb::Dialect;
use petrel_persistence::value;

/// A key that is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct KeyRequest<'k> {
    /// The key.
    pub key: &'k [u8],
    /// Replace the target's key.
    pub replace: bool,
}

/// A key on its way.
pub struct Parcel<'k> {
    /// The key, as it is to be sent.
    pub request: KeyRequest<'k>,
    /// The `DUMP` payload.
    pub payload: Vec<u8>,
    /// Milliseconds that it has to live; 0 if it does not expire.
    pub ttl_ms: i64,
    /// Redis and Valkey read different forms of the value.
    pub has_dialects: bool,
    /// The key as it was; none if it stays here anyway.
    watched: Option<WatchedKey>,
}

/// State of a key after it was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// Nothing. It is removed if the target has it and it was to be moved.
    Settled,
    /// The value differs from the target's.
    Changed,
    /// The key was removed.
    Gone,
}

/// Serialises existing keys up to the limit; also returns the number of keys left over at the end.
pub fn pack<'k>(
    exec: &mut Executor,
    host: &mut ServerHost,
    migration: &Migration,
    requests: &[KeyRequest<'k>],
    dialect: Dialect,
) -> (Vec<Parcel<'k>>, usize) {
    let db = migration.from_db;
    in_batch(exec, host, requests.iter().map(|request| request.key), |handle| {
        let (mut parcels, mut bytes) = (Vec::new(), 0);
        for (at, &request) in requests.iter().enumerate() {
            if bytes > BYTES_AT_ONCE {
                return (parcels, requests.len() - at);
            }
            let key = handle.key(request.key);
            let Some(mut parcel) = parcel(handle, db, key, request, dialect) else { continue };
            if !migration.copy {
                parcel.watched = Some(handle.watch(db, key));
            }
            bytes += parcel.payload.len();
            parcels.push(parcel);
        }
        (parcels, 0)
    })
}

/// A key as it is now, if it exists.
fn parcel<'k>(
    handle: &mut Handle,
    db: u16,
    key: Key<'_>,
    request: KeyRequest<'k>,
    dialect: Dialect,
) -> Option<Parcel<'k>> {
    let now = handle.now_ms();
    let view = handle.read(db, key)?;
    let forms = [Dialect::Redis, Dialect::Valkey].map(|dialect| value::form(view, now, dialect));
    let payload = match value::dump(view, now, dialect) {
        Ok(payload) => payload,
        Err(error) => {
            tracing::warn!("a key cannot be migrated: {error}");
            return None;
        }
    };
    Some(Parcel {
        request,
        payload,
        ttl_ms: view.expiry().map_or(0, |at| (at - now).max(1)),
        has_dialects: forms[0] != forms[1],
        watched: None,
    })
}

/// Removes the keys that have arrived and are as they were sent, and says of each what became of
/// it.
pub fn settle(
    exec: &mut Executor,
    host: &mut ServerHost,
    migration: &Migration,
    parcels: &[Parcel<'_>],
    has_arrived: impl Fn(usize) -> bool,
) -> Vec<Outcome> {
    if migration.copy {
        return vec![Outcome::Settled; parcels.len()];
    }
    let db = migration.from_db;
    in_batch(exec, host, parcels.iter().map(|parcel| parcel.request.key), |handle| {
        let outcomes = parcels.iter().enumerate().map(|(at, parcel)| {
            let unchanged = parcel.watched.as_ref().is_none_or(|watched| {
                let unchanged = handle.unchanged(watched);
                handle.unwatch(watched);
                unchanged
            });
            let key = handle.key(parcel.request.key);
            match (has_arrived(at), unchanged) {
                (false, _) => Outcome::Settled,
                (true, true) => {
                    handle.remove(db, key);
                    Outcome::Settled
                }
                (true, false) if handle.peek(db, key).is_some() => Outcome::Changed,
                (true, false) => Outcome::Gone,
            }
        });
        outcomes.collect()
    })
}

/// Works on keys, in a batch of its own.
fn in_batch<'k, R>(
    exec: &mut Executor,
    host: &mut ServerHost,
    keys: impl Iterator<Item = &'k [u8]>,
    work: impl FnOnce(&mut Handle) -> R,
) -> R {
    exec.ks.refresh_clock();
    let hashes: Vec<KeyHash> = keys.map(|key| exec.ks.hash(key)).collect();
    exec.begin();
    let result = exec.on_keys(&hashes, host, work);
    exec.end();
    result
}
