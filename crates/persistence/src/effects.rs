//! Groups of effects as bytes, for what carries them elsewhere than to a log: the log's own
//! encoding, each effect with an order of +0, for its place in the group is its order.
//!
//! ```text
//! group   +--------+--------+-- ... --+      the first effect's database, if none is said, is 0
//!         | effect | effect |         |
//!         +--------+--------+-- ... --+
//! ```

use crate::log::effect::{Context, Logged, ROWS, put_effect, put_encoded, sample, take_effect};
use crate::rdb::read_to_end;
use crate::value::Builder;
use petrel_keyspace::aux_state::NamedForm;
use petrel_keyspace::custom::number::{Bytes, Malformed};
use petrel_keyspace::{
    Cleared, Effect, Encoded, Handle, Key, KeyHash, Misfit, Order, Origin, Removal,
};
use std::fmt;

/// Writes the effects of one group.
#[derive(Debug, Default)]
pub struct GroupWriter {
    bytes: Vec<u8>,
    context: Context,
}

impl GroupWriter {
    /// Appends an effect.
    #[inline]
    pub fn add(&mut self, db: u16, effect: &Effect<'_>) {
        self.add_encoded(db, effect, None);
    }

    /// Appends an effect that another sink may have encoded; returns its bytes for the next sink.
    #[inline]
    pub fn add_encoded<'s>(
        &'s mut self,
        db: u16,
        effect: &Effect<'_>,
        encoded: Option<Encoded<'s>>,
    ) -> Encoded<'s> {
        let (out, context, order) = (&mut self.bytes, &mut self.context, Order::default());
        let Some(encoded) = encoded else { return put_effect(out, context, db, order, effect) };
        put_encoded(out, context, db, order, encoded);
        encoded
    }

    /// Bytes written since the last [`GroupWriter::clear`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Like [`GroupWriter::bytes`], for a caller that takes or copies them; [`GroupWriter::clear`]
    /// must follow.
    pub fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Whether nothing was.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Begins a new group.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.context = Context::default();
    }
}

/// Groups of one effect, of every kind: a corpus for fuzzers.
#[doc(hidden)]
pub fn samples() -> Vec<Vec<u8>> {
    let rounds = |row| (0..SAMPLE_ROUNDS).map(move |round| sample(row, round));
    ROWS.iter().flat_map(rounds).collect()
}

/// Samples of each kind of effect in the corpus.
const SAMPLE_ROUNDS: usize = 6;

/// Reason that a group could not be applied.
#[derive(Debug)]
pub enum GroupError {
    /// The bytes are malformed; nothing was applied.
    Malformed,
    /// A database number is too high; nothing was applied.
    Database(u16),
    /// A value in it cannot be read; what stands before it was applied.
    Value,
    /// An effect does not fit the present value; the effects before it were applied.
    Misfit(Misfit),
}

impl From<Malformed> for GroupError {
    fn from(_: Malformed) -> Self {
        GroupError::Malformed
    }
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupError::Malformed => f.write_str("the bytes are no effects"),
            GroupError::Database(db) => write!(f, "there is no database {db}"),
            GroupError::Value => f.write_str("a value cannot be read"),
            GroupError::Misfit(misfit) => misfit.fmt(f),
        }
    }
}

impl std::error::Error for GroupError {}

/// Shows `visit` the keys of a group, with their databases, in order and as often as they stand
/// there; those too that an effect takes its value from. None for an effect of a whole database.
///
/// # Errors
/// If the bytes are no group.
pub fn visit_keys(
    group: &[u8],
    mut visit: impl FnMut(u16, Option<&[u8]>),
) -> Result<(), Malformed> {
    let (mut bytes, mut context) = (Bytes(group), Context::default());
    while !bytes.0.is_empty() {
        take_effect(&mut bytes, &mut context, |db, logged| {
            visit(db, logged.key());
            logged.source().into_iter().for_each(|(from_db, from)| visit(from_db, Some(from)));
        })?;
    }
    Ok(())
}

/// Applies a group as [`Handle::apply`] does, with the stripes of all its keys held, so that others
/// see all of it or nothing. The thread is in a batch and holds nothing; `hashes` is room.
///
/// # Errors
/// If the group is malformed or does not fit the present data.
pub fn apply_group(
    handle: &mut Handle,
    group: &[u8],
    origin: Origin,
    hashes: &mut Vec<KeyHash>,
) -> Result<(), GroupError> {
    lock_and(handle, &[group], hashes, |handle| apply_held(handle, group, origin))
}

/// Like [`apply_group`], for several groups that others see all of or nothing of.
///
/// # Errors
/// Errors of [`apply_group`].
pub fn apply_groups(
    handle: &mut Handle,
    groups: &[&[u8]],
    origin: Origin,
    hashes: &mut Vec<KeyHash>,
) -> Result<(), GroupError> {
    lock_and(handle, groups, hashes, |handle| {
        groups.iter().try_for_each(|group| apply_held(handle, group, origin))
    })
}

/// First bytes of the member of an `SREM` or `SMOVE` in a stream of commands: a group follows that
/// no command of Redis makes. Redis finds no such member, and Petrel applies the group if the
/// primary announces it: a client of another server can make such a member.
const HIDDEN: &[u8] = b"\0petrel-effects\0";

/// Writes an effect for streams of commands, as the member of `SREM` of its key, or of `SMOVE` from
/// its [`Effect::source`]. On a Redis replica the key is absent, so that nothing changes there.
pub fn hide(db: u16, effect: &Effect<'_>) -> Vec<u8> {
    let mut writer = GroupWriter::default();
    writer.add(db, effect);
    [HIDDEN, writer.bytes()].concat()
}

/// The group in a member, if it is one of [`hide`].
pub fn hidden(argument: &[u8]) -> Option<&[u8]> {
    argument.strip_prefix(HIDDEN)
}

/// Writes auxiliary state for streams of commands, as the argument of an `ECHO`: nothing happens at
/// a Redis replica.
pub fn hide_aux(name: &[u8], bytes: &[u8]) -> Vec<u8> {
    hide(0, &Effect::Aux { name, bytes })
}

/// The name and the whole form in an argument of [`hide_aux`]; none if it is another argument.
///
/// # Errors
/// If something else than auxiliary state is hidden in it.
pub fn hidden_aux(argument: &[u8]) -> Option<Result<NamedForm, Malformed>> {
    let (mut bytes, mut context) = (Bytes(hidden(argument)?), Context::default());
    let taken = take_effect(&mut bytes, &mut context, |_, logged| match logged {
        Logged::Effect(Effect::Aux { name, bytes }) => Ok((name.to_vec(), bytes.to_vec())),
        _ => Err(Malformed),
    });
    Some(taken.flatten().and_then(|taken| bytes.end().map(|()| taken)))
}

/// Applies a group of effects on these keys. Their stripes are held.
///
/// # Errors
/// If the group is malformed, has other keys, or does not fit the present data.
pub fn apply_hidden(handle: &mut Handle, group: &[u8], keys: &[&[u8]]) -> Result<(), GroupError> {
    let (databases, mut beyond, mut is_held) = (handle.keyspace().databases(), None, true);
    visit_keys(group, |db, key| {
        beyond = beyond.or((db >= databases).then_some(db));
        is_held &= key.is_some_and(|key| keys.contains(&key));
    })?;
    match beyond {
        Some(db) => Err(GroupError::Database(db)),
        None if !is_held => Err(GroupError::Malformed),
        None => apply_held(handle, group, Origin::LOCAL),
    }
}

/// Operations of a group that the keyspace alone cannot apply.
pub trait Keeper {
    /// A database was emptied: its former contents are to be freed.
    fn cleared(&mut self, cleared: Cleared);

    /// Auxiliary state has this whole form from now on.
    fn aux(&mut self, handle: &mut Handle, name: &[u8], bytes: &[u8]);

    /// An effect does not fit the present value, and is skipped.
    fn misfit(&mut self, misfit: Misfit);

    /// The group was applied; its stripes, or everything, are held.
    fn applied(&mut self, handle: &mut Handle);
}

/// Appends the keys of a group to `keys`: their databases, and the hashes that determine the
/// stripes to lock. Returns true if the group needs the whole keyspace locked, which is malformed
/// unless `may_be_whole`.
///
/// # Errors
/// If the group is malformed, or names a database that is not there.
pub fn survey(
    handle: &Handle,
    group: &[u8],
    may_be_whole: bool,
    keys: &mut Vec<(u16, KeyHash)>,
) -> Result<bool, GroupError> {
    match find_keys(handle, group, |db, hash| keys.push((db, hash)))? {
        (true, _) if !may_be_whole => Err(GroupError::Malformed),
        (_, Some(db)) => Err(GroupError::Database(db)),
        (whole, None) => Ok(whole),
    }
}

/// Passes the keys of a group to `note`. Returns whether it needs the whole keyspace locked, and a
/// database of it that is not there.
fn find_keys(
    handle: &Handle,
    group: &[u8],
    mut note: impl FnMut(u16, KeyHash),
) -> Result<(bool, Option<u16>), Malformed> {
    let databases = handle.keyspace().databases();
    let (mut beyond, mut whole) = (None, false);
    visit_keys(group, |db, key| {
        beyond = beyond.or((db >= databases).then_some(db));
        match key {
            Some(key) => note(db, handle.hash(key)),
            None => whole = true,
        }
    })?;
    Ok((whole, beyond))
}

/// Applies a surveyed group like [`apply_group`], except that effects outside of the keyspace go to
/// `keeper`, and effects that do not fit the present value are skipped.
///
/// # Errors
/// If a value in it cannot be read: what stands before it was applied.
pub fn apply_surveyed(
    handle: &mut Handle,
    group: &[u8],
    keys: &[(u16, KeyHash)],
    whole: bool,
    keeper: &mut dyn Keeper,
) -> Result<(), GroupError> {
    if keys.is_empty() && !whole {
        return Ok(());
    }
    hold(handle, keys.iter().map(|(_, hash)| *hash), whole);
    let applied = each(group, |db, logged| match logged {
        Logged::Effect(Effect::Aux { name, bytes }) => {
            keeper.aux(handle, name, bytes);
            Ok(())
        }
        Logged::Effect(Effect::Clear) => {
            keeper.cleared(handle.on_behalf(Origin::LOCAL, |handle| handle.clear(Some(db))));
            Ok(())
        }
        logged => match apply_one(handle, db, logged, Origin::LOCAL) {
            Err(GroupError::Misfit(misfit)) => {
                keeper.misfit(misfit);
                Ok(())
            }
            applied => applied,
        },
    });
    keeper.applied(handle);
    handle.unlock();
    applied
}

/// Locks the stripes of keys, of which there is one at least, or everything.
#[inline]
fn hold(handle: &mut Handle, mut hashes: impl Iterator<Item = KeyHash> + Clone, whole: bool) {
    if whole {
        return handle.lock_all();
    }
    let all = hashes.clone();
    let first = hashes.next();
    match first {
        Some(first) if hashes.all(|hash| hash.stripe() == first.stripe()) => handle.lock(first),
        _ => handle.lock_many(all),
    }
}

/// Holds the stripes of the keys of groups while they are applied.
fn lock_and(
    handle: &mut Handle,
    groups: &[&[u8]],
    hashes: &mut Vec<KeyHash>,
    apply: impl FnOnce(&mut Handle) -> Result<(), GroupError>,
) -> Result<(), GroupError> {
    hashes.clear();
    let mut whole = false;
    for group in groups {
        let (is_whole, beyond) = find_keys(handle, group, |_, hash| hashes.push(hash))?;
        if let Some(db) = beyond {
            return Err(GroupError::Database(db));
        }
        whole |= is_whole;
    }
    if hashes.is_empty() && !whole {
        return Ok(());
    }
    hold(handle, hashes.iter().copied(), whole);
    let applied = apply(handle);
    handle.unlock();
    applied
}

/// Applies those effects of a group that concern present keys, for a keyspace with copies of some
/// keys: the copy equals the original before, and equals it or is removed afterwards. A change does
/// not count as a use of a copy; copies unused for `idle_max` seconds are removed. `absent` is
/// called for keys that are absent or are removed for that reason. Otherwise like [`apply_group`].
///
/// # Errors
/// Errors of [`apply_group`].
pub fn apply_to_copies(
    handle: &mut Handle,
    group: &[u8],
    (origin, idle_max): (Origin, u32),
    hashes: &mut Vec<KeyHash>,
    mut absent: impl FnMut(u16, &[u8]),
) -> Result<(), GroupError> {
    lock_and(handle, &[group], hashes, |handle| {
        each(group, |db, logged| {
            let Some(bytes) = logged.key() else { return Ok(()) };
            if !is_there(handle, db, bytes) {
                absent(db, bytes);
                return Ok(());
            }
            let key = Key { bytes, hash: handle.hash(bytes) };
            let idle = handle.unused_seconds(db, key).unwrap_or(0);
            if idle >= idle_max {
                absent(db, bytes);
            }
            let lacks = |(from_db, from): (u16, &[u8])| !is_there(handle, from_db, from);
            if idle >= idle_max || logged.source().is_some_and(lacks) {
                let remove = Effect::Remove { key: bytes, why: Removal::Deleted };
                return handle.apply(db, &remove, origin).map_err(GroupError::Misfit);
            }
            apply_one(handle, db, logged, origin)?;
            if idle > 0 {
                handle.set_unused_seconds(db, key, idle);
            }
            Ok(())
        })
    })
}

/// Whether there is a key, whether its time has passed or not. Its stripe is held.
fn is_there(handle: &Handle, db: u16, key: &[u8]) -> bool {
    handle.view_stored(db, Key { bytes: key, hash: handle.hash(key) }).is_some()
}

fn apply_held(handle: &mut Handle, group: &[u8], origin: Origin) -> Result<(), GroupError> {
    each(group, |db, logged| apply_one(handle, db, logged, origin))
}

/// Hands out the effects of a group.
fn each(
    group: &[u8],
    mut apply: impl FnMut(u16, Logged<'_>) -> Result<(), GroupError>,
) -> Result<(), GroupError> {
    let (mut bytes, mut context) = (Bytes(group), Context::default());
    while !bytes.0.is_empty() {
        take_effect(&mut bytes, &mut context, &mut apply)??;
    }
    Ok(())
}

/// Applies a change of keys with their stripes held.
fn apply_one(
    handle: &mut Handle,
    db: u16,
    logged: Logged<'_>,
    origin: Origin,
) -> Result<(), GroupError> {
    apply_logged(handle, db, logged, origin, true)
}

/// Applies a change of keys with their stripes held. `keeps_expired`: fields of a stored hash that
/// have expired are part of it.
pub(crate) fn apply_logged(
    handle: &mut Handle,
    db: u16,
    logged: Logged<'_>,
    origin: Origin,
    keeps_expired: bool,
) -> Result<(), GroupError> {
    match logged {
        Logged::Effect(effect) => handle.apply(db, &effect, origin).map_err(GroupError::Misfit),
        Logged::Store { key, expiry, type_byte, value } => {
            let key = Key { bytes: key, hash: handle.hash(key) };
            handle.on_behalf(origin, |handle| {
                handle.build(db, key, expiry, |handle| {
                    let builder = Builder::new(handle, db, key);
                    let mut builder =
                        if keeps_expired { builder.keeping_expired() } else { builder };
                    read_to_end(value, type_byte, &mut builder).map_err(|_| GroupError::Value)?;
                    builder.finish();
                    Ok(())
                })
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use petrel_keyspace::types::list::End;
    use petrel_keyspace::{EffectHead, EffectSink, Keyspace, Options, StrRef, Value};
    use std::sync::{Arc, Mutex};

    const PEER: Origin = Origin(7);

    type Heard = Arc<Mutex<Vec<(Origin, String)>>>;

    struct Listener(Heard);

    impl EffectSink for Listener {
        fn record(&mut self, head: EffectHead, effect: &Effect<'_>) {
            self.0.lock().unwrap().push((head.origin, format!("{effect:?}")));
        }
    }

    fn group(effects: &[(u16, Effect<'_>)]) -> Vec<u8> {
        let mut writer = GroupWriter::default();
        effects.iter().for_each(|(db, effect)| writer.add(*db, effect));
        writer.bytes().to_vec()
    }

    #[test]
    fn a_group_is_applied_with_its_origin() {
        let mut handle = Keyspace::new(&Options::default()).attach();
        let heard = Heard::default();
        handle.set_sink(Some(Box::new(Listener(heard.clone()))));
        let value = StrRef::Bytes(b"v");
        let push = |key, element| Effect::ListPush { key, end: End::Back, element };
        let bytes = group(&[
            (0, Effect::Put { key: b"a", value, expiry: Some(5) }),
            (3, Effect::Put { key: b"b", value, expiry: None }),
            (0, push(b"l", b"x")),
            (0, Effect::CopyFrom { key: b"m", from_db: 0, from: b"l", moved: true, value: None }),
        ]);
        let mut keys = Vec::new();
        visit_keys(&bytes, |db, key| keys.push((db, key.unwrap().to_vec()))).unwrap();
        let expected: [(u16, &[u8]); 5] = [(0, b"a"), (3, b"b"), (0, b"l"), (0, b"m"), (0, b"l")];
        assert!(keys.iter().map(|(db, key)| (*db, &key[..])).eq(expected));
        handle.enter();
        apply_group(&mut handle, &bytes, PEER, &mut Vec::new()).unwrap();
        let (a, m) = (handle.key(b"a"), handle.key(b"m"));
        handle.lock_many([a.hash, m.hash].into_iter());
        // Expired, but its removal was not received.
        assert_eq!(handle.view_stored(0, a).and_then(|view| view.expiry()), Some(5));
        let stored = handle.view_stored(0, m).unwrap();
        let mut out = Vec::new();
        let mut writer = GroupWriter::default();
        writer.add(0, &Effect::Store { key: b"n", value: stored, expiry: Some(9) });
        out.extend_from_slice(writer.bytes());
        handle.unlock();
        apply_group(&mut handle, &out, PEER, &mut Vec::new()).unwrap();
        handle.exit();
        let heard = heard.lock().unwrap();
        assert!(heard.iter().all(|(origin, _)| *origin == PEER), "{heard:?}");
        assert_eq!(heard.len(), 6, "{heard:?}");
    }

    #[test]
    fn copies_are_kept_up_to_date_or_gone() {
        let mut handle = Keyspace::new(&Options::default()).attach();
        let put = |handle: &mut Handle, key: &[u8]| {
            assert!(handle.store(0, key, Value::Bytes(b"old"), None).is_ok());
        };
        [&b"a"[..], b"m", b"n", b"o"].into_iter().for_each(|key| put(&mut handle, key));
        let value = StrRef::Bytes(b"new");
        let from =
            |key, from| Effect::CopyFrom { key, from_db: 0, from, moved: false, value: None };
        let write = |key| Effect::Write { key, offset: 3, bytes: b"er" };
        let remove = |key| Effect::Remove { key, why: Removal::Deleted };
        let bytes = group(&[
            (0, Effect::Put { key: b"a", value, expiry: None }),
            (0, Effect::Put { key: b"b", value, expiry: None }),
            (0, write(b"a")),
            (0, write(b"b")),
            (0, from(b"m", b"a")),
            (0, from(b"n", b"c")),
            (0, remove(b"o")),
            (0, Effect::Put { key: b"o", value, expiry: None }),
        ]);
        let mut absent = Vec::new();
        handle.enter();
        apply_to_copies(&mut handle, &bytes, (PEER, 60), &mut Vec::new(), |db, key| {
            absent.push((db, key.to_vec()));
        })
        .unwrap();
        handle.exit();
        assert_eq!(absent, [(0, b"b".to_vec()), (0, b"b".to_vec()), (0, b"o".to_vec())]);
        let mut read = |key: &[u8]| {
            handle.enter();
            let key = Key { bytes: key, hash: handle.hash(key) };
            handle.lock(key.hash);
            let is_there = handle.view_stored(0, key).is_some();
            handle.unlock();
            handle.exit();
            is_there
        };
        let there = [&b"a"[..], b"b", b"m", b"n", b"o"].map(&mut read);
        assert_eq!(there, [true, false, true, false, false]);
    }

    #[test]
    fn copies_that_are_not_read_are_removed_by_the_next_change() {
        let mut handle = Keyspace::new(&Options::default()).attach();
        let value = StrRef::Bytes(b"new");
        let keys = [&b"a"[..], b"b"];
        for (key, idle) in keys.into_iter().zip([30, 90]) {
            assert!(handle.store(0, key, Value::Bytes(b"old"), None).is_ok());
            handle.enter();
            let key = handle.key(key);
            handle.lock(key.hash);
            assert!(handle.set_idle_seconds(0, key, idle));
            handle.unlock();
            handle.exit();
        }
        let put = |key| (0, Effect::Put { key, value, expiry: None });
        let bytes = group(&keys.map(put));
        let mut absent = Vec::new();
        handle.enter();
        let note = |_, key: &[u8]| absent.push(key.to_vec());
        apply_to_copies(&mut handle, &bytes, (PEER, 60), &mut Vec::new(), note).unwrap();
        assert_eq!(absent, [b"b"]);
        let keys = keys.map(|key| handle.key(key));
        handle.lock_many(keys.iter().map(|key| key.hash));
        // A change is no use.
        let idle = keys.map(|key| handle.idle_seconds(0, key));
        assert!(idle[0].is_some_and(|idle| idle >= 30) && idle[1].is_none(), "{idle:?}");
        let changed = handle.view_stored(0, keys[0]).and_then(|view| view.string().ok());
        assert!(matches!(changed, Some(StrRef::Bytes(b"new"))), "{changed:?}");
        handle.unlock();
        handle.exit();
    }

    #[test]
    fn a_copy_whose_time_passes_waits_for_its_home() {
        let mut handle = Keyspace::new(&Options::default()).attach();
        assert!(handle.store(0, b"a", Value::Bytes(b"old"), None).is_ok());
        let heard = Heard::default();
        handle.set_sink(Some(Box::new(Listener(heard.clone()))));
        handle.enter();
        let key = handle.key(b"a");
        handle.lock(key.hash);
        assert!(handle.set_idle_seconds(0, key, 30));
        handle.unlock();
        let value = StrRef::Bytes(b"new");
        let bytes = group(&[(0, Effect::Put { key: b"a", value, expiry: Some(5) })]);
        let absent = |_, key: &[u8]| panic!("{key:?} is there");
        apply_to_copies(&mut handle, &bytes, (PEER, 60), &mut Vec::new(), absent).unwrap();
        handle.lock(key.hash);
        assert_eq!(handle.view_stored(0, key).and_then(|view| view.expiry()), Some(5));
        handle.unlock();
        handle.exit();
        let heard = heard.lock().unwrap();
        assert!(heard.iter().all(|(origin, _)| *origin == PEER), "{heard:?}");
    }

    #[test]
    fn samples_of_every_effect_are_applied_or_refused() {
        let keyspace = Keyspace::new(&Options { databases: 2, ..Options::default() });
        let (mut handle, mut applied) = (keyspace.attach(), 0);
        handle.enter();
        // The second time some find the values that they need.
        for group in samples().iter().chain(&samples()) {
            let done = apply_group(&mut handle, group, PEER, &mut Vec::new());
            assert!(!matches!(done, Err(GroupError::Malformed)), "{group:?}");
            applied += usize::from(done.is_ok());
        }
        handle.exit();
        assert!(applied > 50, "{applied}");
    }

    #[test]
    fn what_is_no_group_changes_nothing() {
        let mut handle = Keyspace::new(&Options { databases: 2, ..Options::default() }).attach();
        handle.store(0, b"k", Value::Bytes(b"v"), None).unwrap();
        let remove = |key| Effect::Remove { key, why: Removal::Deleted };
        let mut torn = group(&[(0, remove(b"k")), (0, remove(b"other"))]);
        torn.pop();
        handle.enter();
        let mut apply = |bytes: &[u8]| apply_group(&mut handle, bytes, PEER, &mut Vec::new());
        assert!(matches!(apply(&torn), Err(GroupError::Malformed)));
        let beyond = group(&[(0, remove(b"k")), (2, remove(b"k"))]);
        assert!(matches!(apply(&beyond), Err(GroupError::Database(2))));
        let misfit = group(&[(0, Effect::ListPop { key: b"k", end: End::Back })]);
        assert!(matches!(apply(&misfit), Err(GroupError::Misfit(_))));
        assert!(apply(&[]).is_ok());
        handle.exit();
        assert_eq!(handle.load(0, b"k").as_deref(), Some(&b"v"[..]));
    }
}
