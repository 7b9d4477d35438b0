//! Walking the keys of a database: KEYS, SCAN and RANDOMKEY. Stripes are held one at a time and for a few keys, so
//! that a walk over many keys delays nobody else.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::glob::{self, Case};
use crate::spec::{CommandSpec, Locks};
use crate::table::generic as meta;
use petrel_keyspace::{Cursor, View};

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::KEYS, keys).locking(Locks::Itself),
    CommandSpec::new(&meta::SCAN, scan).locking(Locks::Itself),
    CommandSpec::new(&meta::RANDOMKEY, randomkey).locking(Locks::Itself),
];

/// Keys that a walk looks at before it lets go of the stripe.
const KEYS_PER_HOLD: usize = 512;
/// Keys that one call of `SCAN` looks at unless told otherwise.
const SCAN_COUNT: usize = 10;
/// The types that `SCAN` may ask for.
const TYPES: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];

/// Copies of keys, one behind the other.
#[derive(Default)]
struct Found {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Found {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn write(&self, ctx: &mut Ctx<'_>) {
        ctx.reply.array(self.ends.len());
        let mut begin = 0;
        for &end in &self.ends {
            ctx.reply.bulk(&self.bytes[begin..end]);
            begin = end;
        }
    }
}

/// Which keys of a walk are wanted.
#[derive(Default)]
struct Filter<'a> {
    pattern: Option<&'a [u8]>,
    type_name: Option<&'a [u8]>,
}

impl Filter<'_> {
    fn admits(&self, view: &View<'_>) -> bool {
        let is_type = |name: &[u8]| name.eq_ignore_ascii_case(view.type_of().name().as_bytes());
        self.pattern.is_none_or(|pattern| glob::matches(pattern, view.key(), Case::Sensitive))
            && self.type_name.is_none_or(is_type)
    }
}

/// `KEYS pattern`
fn keys(ctx: &mut Ctx<'_>) -> Outcome {
    let filter = Filter { pattern: Some(ctx.arg(1)), type_name: None };
    let (_, found) = walk(ctx, Cursor::default(), usize::MAX, &filter);
    found.write(ctx);
    Ok(())
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
fn scan(ctx: &mut Ctx<'_>) -> Outcome {
    let cursor = parse_cursor(ctx.arg(1)).ok_or(Fail::fixed("ERR invalid cursor"))?;
    let (mut count, mut filter) = (SCAN_COUNT, Filter::default());
    let mut i = 2;
    while i < ctx.args().len() {
        if ctx.is(i, "NOVALUES") {
            return Err(Fail::fixed("ERR NOVALUES option can only be used in HSCAN"));
        }
        if i + 1 == ctx.args().len() {
            return Err(Fail::SYNTAX);
        }
        if ctx.is(i, "COUNT") {
            count = match ctx.integer(i + 1)? {
                count @ 1.. => usize::try_from(count).unwrap_or(usize::MAX),
                _ => return Err(Fail::SYNTAX),
            };
        } else if ctx.is(i, "MATCH") {
            filter.pattern = Some(ctx.arg(i + 1));
        } else if ctx.is(i, "TYPE") {
            filter.type_name = Some(known_type(ctx.arg(i + 1))?);
        } else {
            return Err(Fail::SYNTAX);
        }
        i += 2;
    }
    let (cursor, found) = walk(ctx, cursor, count, &filter);
    ctx.reply.array(2);
    ctx.reply.bulk(itoa::Buffer::new().format(cursor.number()).as_bytes());
    found.write(ctx);
    Ok(())
}

/// The cursor that a client sent; as lenient as C's `strtoull` is towards spaces and a plus sign.
fn parse_cursor(text: &[u8]) -> Option<Cursor> {
    let text = text.trim_ascii_start();
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok().map(Cursor::from_number)
}

fn known_type(name: &[u8]) -> Result<&[u8], Fail> {
    if TYPES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
        Ok(name)
    } else {
        Err(Fail::new([b"ERR unknown type name '", name, b"'"].concat()))
    }
}

/// Looks at `count` keys or a few more, and keeps those that are wanted.
fn walk(
    ctx: &mut Ctx<'_>,
    mut cursor: Cursor,
    mut count: usize,
    filter: &Filter<'_>,
) -> (Cursor, Found) {
    let db = ctx.db();
    let mut found = Found::default();
    loop {
        let mut seen = 0;
        cursor = ctx.exec.ks.scan(db, cursor, count.min(KEYS_PER_HOLD), |view| {
            seen += 1;
            if filter.admits(&view) {
                found.push(view.key());
            }
        });
        count = count.saturating_sub(seen);
        if cursor == Cursor::default() || count == 0 {
            return (cursor, found);
        }
        ctx.exec.yield_within();
    }
}

/// `RANDOMKEY`
fn randomkey(ctx: &mut Ctx<'_>) -> Outcome {
    let db = ctx.db();
    let crate::Executor { ks, random, .. } = &mut *ctx.exec;
    match ks.random_key(db, &mut || random.next()) {
        Some(key) => ctx.reply.bulk(&key),
        None => ctx.reply.null(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors() {
        for (text, number) in
            [("0", 0), ("+7", 7), (" 12", 12), ("18446744073709551615", u64::MAX), ("007", 7)]
        {
            assert_eq!(parse_cursor(text.as_bytes()), Some(Cursor::from_number(number)), "{text}");
        }
        for text in ["", "+", "-1", "1 ", "++1", "x", "0x1", "18446744073709551616"] {
            assert_eq!(parse_cursor(text.as_bytes()), None, "{text}");
        }
    }
}
