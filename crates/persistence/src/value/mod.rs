//! Conversion between a keyspace's values and their serialisation: values feed a sink, and a sink
//! builds values.

mod build;
mod feed;
mod stream;

pub use build::Builder;
pub(crate) use build::Hold;
pub use feed::{feed, feed_element, form, is_of_redis, shape};

use crate::rdb::{self, Dialect, Error, FileOptions, Leniency, Writer};
use petrel_keyspace::{Handle, Key, View};

/// The moment of a value as it is stored: nothing of it has expired.
pub(crate) const NOTHING_EXPIRED: i64 = 0;

/// The payload of `DUMP`, of the value as it is at a moment in Unix milliseconds.
///
/// # Errors
/// If the value exceeds the limits of the format.
pub fn dump(view: View<'_>, now_ms: i64, dialect: Dialect) -> Result<Vec<u8>, Error> {
    dump_within(view, now_ms, dialect, u16::MAX)
}

/// Like [`dump`], for servers that know RDB up to `version_max`, as far as possible: parts of a
/// stream unknown to that version are omitted.
///
/// # Errors
/// If the value exceeds the limits of the format.
pub fn dump_within(
    view: View<'_>,
    now_ms: i64,
    dialect: Dialect,
    version_max: u16,
) -> Result<Vec<u8>, Error> {
    let form = form(view, now_ms, dialect).within(version_max);
    let mut out = vec![form.type_byte()];
    let mut writer = Writer::new(&mut out, form, true);
    feed(view, now_ms, &mut writer)?;
    writer.finish()?;
    rdb::seal(&mut out, 0, form);
    Ok(out)
}

/// The version of RDB for servers of which only the one allowed is known: without a limit, compact
/// hashes are sent as ordinary ones, which every server takes.
pub fn least_common(version_max: u16) -> u16 {
    match version_max {
        FileOptions::ANY_VERSION => rdb::COMPACT_VERSION - 1,
        stated => stated,
    }
}

/// Like [`dump`], for values that take long: `pace` is called with the number of bytes since the
/// last call, and ends it by returning false. None then.
///
/// # Errors
/// If the value exceeds the limits of the format.
pub fn dump_paced(
    view: View<'_>,
    now_ms: i64,
    dialect: Dialect,
    pace: &mut dyn FnMut(usize) -> bool,
) -> Result<Option<Vec<u8>>, Error> {
    let form = form(view, now_ms, dialect);
    let (mut whole, mut part, mut is_over) = (Vec::new(), vec![form.type_byte()], false);
    let mut spill = |part: &mut Vec<u8>| {
        is_over |= !pace(part.len());
        if !is_over {
            whole.append(part);
        }
    };
    let mut writer = Writer::new(&mut part, form, true).spilling(&mut spill);
    let written = feed(view, now_ms, &mut writer).and_then(|()| writer.finish());
    if is_over {
        return Ok(None);
    }
    written?;
    whole.append(&mut part);
    rdb::seal(&mut whole, 0, form);
    Ok(Some(whole))
}

/// Sets a key to the value of a `DUMP` payload, replacing any other; `expiry` is in Unix
/// milliseconds. A past one leaves no key. The key's stripe is locked.
///
/// # Errors
/// If the payload is broken or holds what Petrel has no type for; nothing has changed then.
pub fn restore(
    handle: &mut Handle,
    db: u16,
    key: Key<'_>,
    expiry: Option<i64>,
    payload: &[u8],
    leniency: Leniency,
) -> Result<(), Error> {
    let (type_byte, mut source) = rdb::open(payload, leniency)?;
    handle.build(db, key, expiry, |handle| {
        let mut builder = Builder::new(handle, db, key).keeping_expired().refusing_unknown();
        rdb::read_value(&mut source, type_byte, &mut builder)?;
        if let Some(what) = builder.miscounted().filter(|_| !leniency.any_count) {
            return Err(Error::Malformed(what));
        }
        builder.finish();
        if expiry.is_some_and(|at| at <= handle.now_ms()) && !handle.keeps_expired() {
            handle.remove(db, key);
            handle.count_expired();
        }
        Ok(())
    })
}
