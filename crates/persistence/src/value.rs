//! Between a keyspace and the serialisation: its values as what feeds a sink, and as what a sink builds.

use crate::rdb::{
    self, Consumer, Error, Form, Group, Item, Pending, Shape, StreamId, StreamState, ValueSink,
    Writer,
};
use petrel_keyspace::{Handle, Key, StrRef, Type, Value, View, WrongType};

/// The payload of `DUMP`.
///
/// # Errors
/// If the value exceeds what the format can hold.
pub fn dump(view: View<'_>) -> Result<Vec<u8>, Error> {
    let form = form(view)?;
    let mut out = vec![form.type_byte()];
    let mut writer = Writer::new(&mut out, form, true);
    feed(view, &mut writer)?;
    writer.finish()?;
    rdb::seal(&mut out, 0, form);
    Ok(out)
}

/// Sets a key to what a payload of `DUMP` holds, whatever it held before; `expiry` in Unix milliseconds. One in the
/// past leaves no key. The key's stripe is held.
///
/// # Errors
/// If the payload is broken or holds what Petrel has no type for; nothing has changed then.
pub fn restore(
    handle: &mut Handle,
    db: u16,
    key: Key<'_>,
    expiry: Option<i64>,
    payload: &[u8],
) -> Result<(), Error> {
    let (type_byte, mut source) = rdb::open(payload)?;
    handle.build(db, key, expiry, |handle| {
        rdb::read_value(&mut source, type_byte, &mut Builder { handle, db, key })?;
        if expiry.is_some_and(|at| at <= handle.now_ms()) {
            handle.remove(db, key);
        }
        Ok(())
    })
}

const UNSUPPORTED: Error = Error::Unsupported("values of this type are not serialised");

/// The form in which a value is written.
fn form(view: View<'_>) -> Result<Form, Error> {
    match view.type_of() {
        Type::String => Ok(Form::String),
        _ => Err(UNSUPPORTED),
    }
}

/// Feeds a value to a sink.
fn feed(view: View<'_>, sink: &mut impl ValueSink) -> Result<(), Error> {
    match view.string() {
        Ok(StrRef::Bytes(text)) => sink.string(Item::Text(text)),
        Ok(StrRef::Int(n)) => sink.string(Item::Int(n)),
        Ok(StrRef::Blob(text)) => sink.string(Item::Text(text)),
        Err(WrongType) => Err(UNSUPPORTED),
    }
}

/// Makes a value at a key, which does not exist before.
struct Builder<'h, 'k> {
    handle: &'h mut Handle,
    db: u16,
    key: Key<'k>,
}

impl ValueSink for Builder<'_, '_> {
    fn string(&mut self, value: Item<'_>) -> Result<(), Error> {
        let value = match value {
            Item::Text(text) => Value::from_text(text),
            Item::Int(n) => Value::Int(n),
        };
        self.handle.put(self.db, self.key, value, None);
        Ok(())
    }

    fn begin(&mut self, _: Shape) -> Result<(), Error> {
        Err(UNSUPPORTED)
    }

    fn element(&mut self, _: Item<'_>) -> Result<(), Error> {
        Err(UNSUPPORTED)
    }

    fn scored(&mut self, _: Item<'_>, _: f64) -> Result<(), Error> {
        Err(UNSUPPORTED)
    }

    fn field(&mut self, _: Item<'_>, _: Item<'_>, _: Option<i64>) -> Result<(), Error> {
        Err(UNSUPPORTED)
    }

    fn entry(&mut self, _: StreamId, _: &[Item<'_>]) -> Result<(), Error> {
        Err(UNSUPPORTED)
    }

    fn state(&mut self, _: &StreamState) -> Result<(), Error> {
        Err(UNSUPPORTED)
    }

    fn group(&mut self, _: &Group<'_>) -> Result<(), Error> {
        Err(UNSUPPORTED)
    }

    fn consumer(&mut self, _: &Consumer<'_>) -> Result<(), Error> {
        Err(UNSUPPORTED)
    }

    fn pending(&mut self, _: &Pending) -> Result<(), Error> {
        Err(UNSUPPORTED)
    }
}
