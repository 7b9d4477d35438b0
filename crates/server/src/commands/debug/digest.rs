//! DEBUG DIGEST and DIGEST-VALUE: the same digests as a Redis with the same data has, whatever the
//! order of its keys.
//!
//! ```text
//! mix(d, x) = SHA1(d xor SHA1(x))
//! value(d)  = mix(d, type), then
//!     string    mix(d, string)
//!     list      mix(d, element) for each, in order
//!     set       d xor SHA1(member) for each
//!     zset      d xor SHA1(mix(mix(0, member), score)) for each
//!     hash      d xor SHA1(mix(mix(0, field), value)) for each; before the last step, xor
//!               SHA1("!!hexpire!!") if the field has a time to live, but not in Valkey's dialect
//!     vectorset d xor SHA1(mix(mix(mix(mix(0, name), code), length), attributes)) for each, which
//!               is not Redis's
//!     ReJSON-RL mix(d, text), which is not Redis's
//!     stream    for each entry mix(d, "ms.seq"), then mix(d, x) for each field and value
//!   then xor SHA1("!!expire!!") if the key has a time to live
//! dataset   = per database: mix(d, number), then xor SHA1(value(mix(0, key))) for every key
//! ```

use petrel_commands::{Ctx, Outcome};
use petrel_keyspace::custom::{ValueDigest, ValueType};
use petrel_keyspace::{Cursor, Type, View};
use petrel_persistence::rdb::{
    Consumer, CustomItem, Error, Group, Item, Pending, Producers, Shape, StreamId, StreamState,
    ValueSink,
};
use petrel_persistence::value;
use petrel_resp::DoubleBuffer;
use sha1_smol::Sha1;

type Digest = [u8; 20];

/// `DEBUG DIGEST`
pub fn dataset(ctx: &mut Ctx<'_>) -> Outcome {
    let shows_fields = !ctx.dialect().is_valkey();
    let ks = &mut ctx.exec.ks;
    let locks = !ks.holds_any();
    if locks {
        ks.lock_all();
    }
    let mut sum = Digest::default();
    let now = ks.now_ms();
    for db in 0..ks.keyspace().databases() {
        let mut keys = Digest::default();
        let mut is_empty = true;
        ks.scan_removing(db, Cursor::default(), usize::MAX, &|_| false, |view| {
            is_empty = false;
            let mut own = Digest::default();
            mix(&mut own, view.key());
            mix_value(&mut own, &view, now, shows_fields);
            xor(&mut keys, &own);
        });
        if !is_empty {
            mix(&mut sum, &u32::from(db).to_be_bytes());
            fold(&mut sum, &keys);
        }
    }
    if locks {
        ks.unlock();
    }
    ctx.reply.simple(&hex(&sum));
    Ok(())
}

/// `DEBUG DIGEST-VALUE key [key ...]`
pub fn values(ctx: &mut Ctx<'_>) -> Outcome {
    let names = &ctx.args()[2..];
    let (db, shows_fields) = (ctx.session.db, !ctx.dialect().is_valkey());
    ctx.reply.array(names.len());
    for name in names {
        let ks = &mut ctx.exec.ks;
        let key = ks.key(name);
        let locks = !ks.holds_any();
        if locks {
            ks.lock(key.hash);
        }
        let mut digest = Digest::default();
        let now = ks.now_ms();
        if let Some(view) = ks.peek(db, key) {
            mix_value(&mut digest, &view, now, shows_fields);
        }
        if locks {
            ks.unlock();
        }
        ctx.reply.simple(&hex(&digest));
    }
    Ok(())
}

fn mix_value(digest: &mut Digest, view: &View<'_>, now_ms: i64, shows_fields: bool) {
    let kind: u32 = match view.type_of() {
        Type::String => 0,
        Type::List => 1,
        Type::Set => 2,
        Type::SortedSet => 3,
        Type::Hash => 4,
        Type::Stream => 6,
        // Redis's number for module types; each module adds data of its choice.
        Type::Custom(_) => 5,
    };
    mix(digest, &kind.to_be_bytes());
    let mut mixer = Mixer { digest, in_order: false, shows_fields };
    // The mixer refuses nothing.
    let _ = value::feed(*view, now_ms, &mut mixer);
    if view.expiry().is_some() {
        xor(digest, b"!!expire!!");
    }
}

/// Takes in whatever it is fed.
struct Mixer<'d> {
    digest: &'d mut Digest,
    /// Elements are those of a list.
    in_order: bool,
    /// Whether fields of a hash have a time to live is part of the digest.
    shows_fields: bool,
}

impl Mixer<'_> {
    fn mix(&mut self, item: Item<'_>) {
        mix(self.digest, item.bytes(&mut itoa::Buffer::new()));
    }

    /// Takes in an element that consists of two parts.
    fn xor_pair(&mut self, first: Item<'_>, second: &[u8], expires: bool) {
        let mut own = Digest::default();
        mix(&mut own, first.bytes(&mut itoa::Buffer::new()));
        mix(&mut own, second);
        if expires && self.shows_fields {
            xor(&mut own, b"!!hexpire!!");
        }
        xor(self.digest, &own);
    }
}

impl ValueDigest for Mixer<'_> {
    fn ordered(&mut self, part: &[u8]) {
        mix(self.digest, part);
    }

    fn unordered(&mut self, parts: &[&[u8]]) {
        let mut own = Digest::default();
        parts.iter().for_each(|part| mix(&mut own, part));
        xor(self.digest, &own);
    }
}

impl ValueSink for Mixer<'_> {
    fn string(&mut self, value: Item<'_>) -> Result<(), Error> {
        self.mix(value);
        Ok(())
    }

    fn begin(&mut self, shape: Shape) -> Result<(), Error> {
        self.in_order = matches!(shape, Shape::List { .. });
        Ok(())
    }

    fn element(&mut self, element: Item<'_>) -> Result<(), Error> {
        if self.in_order {
            self.mix(element);
        } else {
            xor(self.digest, element.bytes(&mut itoa::Buffer::new()));
        }
        Ok(())
    }

    fn scored(&mut self, member: Item<'_>, score: f64) -> Result<(), Error> {
        self.xor_pair(member, DoubleBuffer::new().format_for_digest(score), false);
        Ok(())
    }

    fn field(
        &mut self,
        field: Item<'_>,
        value: Item<'_>,
        expiry: Option<i64>,
    ) -> Result<(), Error> {
        let mut scratch = itoa::Buffer::new();
        self.xor_pair(field, value.bytes(&mut scratch), expiry.is_some());
        Ok(())
    }

    fn custom(&mut self, of: &'static ValueType, value: CustomItem<'_>) -> Result<(), Error> {
        (of.digest)(value.held(), self);
        Ok(())
    }

    fn entry(&mut self, id: StreamId, fields: &[Item<'_>]) -> Result<(), Error> {
        mix(self.digest, format!("{}.{}", id.ms, id.seq).as_bytes());
        fields.iter().for_each(|&item| self.mix(item));
        Ok(())
    }

    // Groups and producers are left out, as in Redis.

    fn state(&mut self, _: &StreamState) -> Result<(), Error> {
        Ok(())
    }

    fn group(&mut self, _: &Group<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn consumer(&mut self, _: &Consumer<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn pending(&mut self, _: &Pending) -> Result<(), Error> {
        Ok(())
    }

    fn given_back(&mut self, _: StreamId) -> Result<(), Error> {
        Ok(())
    }

    fn producers(&mut self, _: &Producers) -> Result<(), Error> {
        Ok(())
    }

    fn producer(&mut self, _: &[u8], _: usize) -> Result<(), Error> {
        Ok(())
    }

    fn produced(&mut self, _: &[u8], _: StreamId) -> Result<(), Error> {
        Ok(())
    }

    fn counters(&mut self, _: u64, _: u64) -> Result<(), Error> {
        Ok(())
    }
}

/// Takes `data` in, so that the order matters.
fn mix(digest: &mut Digest, data: &[u8]) {
    xor(digest, data);
    *digest = Sha1::from(&digest).digest().bytes();
}

/// Takes `data` in, so that the order does not matter.
fn xor(digest: &mut Digest, data: &[u8]) {
    fold(digest, &Sha1::from(data).digest().bytes());
}

fn fold(digest: &mut Digest, other: &Digest) {
    digest.iter_mut().zip(other).for_each(|(own, other)| *own ^= other);
}

fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
