//! Between a keyspace and the serialisation: its values as what feeds a sink, and as what a sink
//! builds.

mod build;
mod feed;
mod stream;

pub use build::Builder;
pub(crate) use build::Hold;
pub use feed::{feed, feed_element, form, shape};

use crate::rdb::{self, Dialect, Error, Leniency, Writer};
use petrel_keyspace::{Handle, Key, View};

/// The moment of a value as it is stored: nothing of it has expired.
pub(crate) const NOTHING_EXPIRED: i64 = 0;

/// The payload of `DUMP`, of the value as it is at a moment in Unix milliseconds.
///
/// # Errors
/// If the value exceeds what the format can hold.
pub fn dump(view: View<'_>, now_ms: i64, dialect: Dialect) -> Result<Vec<u8>, Error> {
    dump_within(view, now_ms, dialect, u16::MAX)
}

/// The same for servers that know no newer version of RDB, as far as that can be: what such a
/// version does not know of a stream is left out.
///
/// # Errors
/// If the value exceeds what the format can hold.
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

/// Sets a key to what a payload of `DUMP` holds, whatever it held before; `expiry` in Unix
/// milliseconds. One in the past leaves no key. The key's stripe is held.
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
        let mut builder = Builder::new(handle, db, key).keeping_expired();
        rdb::read_value(&mut source, type_byte, &mut builder)?;
        builder.finish();
        if expiry.is_some_and(|at| at <= handle.now_ms()) && !handle.keeps_expired() {
            handle.remove(db, key);
            handle.count_expired();
        }
        Ok(())
    })
}
