//! Values of a keyspace, built of what a sink is fed.

use crate::rdb::{
    Consumer, Error, Group, Item, Pending, Producers, Shape, StreamId, StreamState, ValueSink,
};
use petrel_keyspace::types::list::End;
use petrel_keyspace::{Handle, Key, Value, WrongType};

const TWICE: Error = Error::Refused("an element is there twice");

/// Makes the value of a key that does not exist, whose stripe is held. It is meant for [`Handle::build`]: if anything
/// is refused, what was made until then is to be discarded.
pub struct Builder<'h, 'k> {
    handle: &'h mut Handle,
    db: u16,
    key: Key<'k>,
    /// Elements are members of a set.
    is_set: bool,
}

impl<'h, 'k> Builder<'h, 'k> {
    /// A builder of the value at a key.
    pub fn new(handle: &'h mut Handle, db: u16, key: Key<'k>) -> Self {
        Builder { handle, db, key, is_set: false }
    }
}

fn wrong_type(_: WrongType) -> Error {
    Error::Refused("a value of two types")
}

fn new(is_new: bool) -> Result<(), Error> {
    if is_new { Ok(()) } else { Err(TWICE) }
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

    fn begin(&mut self, shape: Shape) -> Result<(), Error> {
        self.is_set = matches!(shape, Shape::Set { .. });
        Ok(())
    }

    fn element(&mut self, element: Item<'_>) -> Result<(), Error> {
        let mut scratch = itoa::Buffer::new();
        let text = element.bytes(&mut scratch);
        if self.is_set {
            let added = self.handle.set_add(self.db, self.key, &[text]).map_err(wrong_type)?;
            return new(added == 1);
        }
        self.handle.list_push(self.db, self.key, End::Back, &[text]).map_err(wrong_type)?;
        Ok(())
    }

    fn scored(&mut self, member: Item<'_>, score: f64) -> Result<(), Error> {
        let mut scratch = itoa::Buffer::new();
        let member = member.bytes(&mut scratch);
        let change = self
            .handle
            .sorted_set_change(self.db, self.key, member, score, |_| Some(score))
            .map_err(wrong_type)?;
        new(change.old.is_none())
    }

    fn field(&mut self, _: Item<'_>, _: Item<'_>, _: Option<i64>) -> Result<(), Error> {
        Err(TWICE)
    }

    fn entry(&mut self, _: StreamId, _: &[Item<'_>]) -> Result<(), Error> {
        Err(TWICE)
    }

    fn state(&mut self, _: &StreamState) -> Result<(), Error> {
        Err(TWICE)
    }

    fn group(&mut self, _: &Group<'_>) -> Result<(), Error> {
        Err(TWICE)
    }

    fn consumer(&mut self, _: &Consumer<'_>) -> Result<(), Error> {
        Err(TWICE)
    }

    fn pending(&mut self, _: &Pending) -> Result<(), Error> {
        Err(TWICE)
    }

    fn given_back(&mut self, _: StreamId) -> Result<(), Error> {
        Err(TWICE)
    }

    fn producers(&mut self, _: &Producers) -> Result<(), Error> {
        Err(TWICE)
    }

    fn producer(&mut self, _: &[u8], _: usize) -> Result<(), Error> {
        Err(TWICE)
    }

    fn produced(&mut self, _: &[u8], _: StreamId) -> Result<(), Error> {
        Err(TWICE)
    }

    fn counters(&mut self, _: u64, _: u64) -> Result<(), Error> {
        Err(TWICE)
    }
}
