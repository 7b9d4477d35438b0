//! Commands that wait for strings, one for each kind of waiting.

use petrel_commands::spec::{Group, KeyFlags, Meta};
use petrel_commands::{Awaited, Block, CommandSpec, Ctx, Fail, Outcome};
use petrel_keyspace::parse_int;
use petrel_table::KeySpec;

const RW: KeyFlags = KeyFlags::RW;

const WAITGET: Meta = Meta {
    keys: &[KeySpec::range(1, -2, 1, RW)],
    ..Meta::new("waitget", -3, Group::String, "1.0.0")
};
const WAITMOVE: Meta = Meta {
    keys: &[KeySpec::at(1, RW), KeySpec::at(2, RW)],
    ..Meta::new("waitmove", 4, Group::String, "1.0.0")
};
const WAITLOOK: Meta =
    Meta { keys: &[KeySpec::at(1, RW)], ..Meta::new("waitlook", 4, Group::String, "1.0.0") };

pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&WAITGET, waitget),
    CommandSpec::new(&WAITMOVE, waitmove),
    CommandSpec::new(&WAITLOOK, waitlook),
];

fn string(ctx: &mut Ctx<'_>, i: usize) -> Option<Vec<u8>> {
    let (db, key) = (ctx.db(), ctx.key(i));
    ctx.exec.ks.read(db, key).and_then(|view| Some(view.string().ok()?.to_bytes().to_vec()))
}

/// `WAITGET key [key ...] timeout`: takes the first existing string, like BLPOP for lists
fn waitget(ctx: &mut Ctx<'_>) -> Outcome {
    let last = ctx.args().len() - 1;
    let deadline = ctx.timeout_seconds(last)?;
    for i in 1..last {
        if let Some(value) = string(ctx, i) {
            let (db, key) = (ctx.db(), ctx.key(i));
            ctx.exec.ks.remove(db, key);
            ctx.reply.array(2);
            ctx.reply.bulk(key.bytes);
            ctx.reply.bulk(&value);
            return Ok(());
        }
    }
    ctx.block(Block::on(1..last, Awaited::STRING).until(deadline))
}

/// `WAITMOVE source destination timeout`: moves a number, like BLMOVE for elements
fn waitmove(ctx: &mut Ctx<'_>) -> Outcome {
    let deadline = ctx.timeout_seconds(3)?;
    let Some(value) = string(ctx, 1) else {
        return ctx.block(Block::on(1..2, Awaited::STRING).until(deadline).or_null());
    };
    let (db, from, to) = (ctx.db(), ctx.key(1), ctx.key(2));
    ctx.exec.ks.remove(db, from);
    let number = parse_int(&value).ok_or(Fail::NOT_AN_INTEGER)?;
    ctx.exec.ks.add(db, to, number).map_err(|_| Fail::OVERFLOW)?;
    ctx.reply.bulk(&value);
    Ok(())
}

/// `WAITLOOK key after timeout`: reads a string that is greater than `after`, or reports that the
/// key was deleted, like XREADGROUP for streams. `$` stands for the current string.
fn waitlook(ctx: &mut Ctx<'_>) -> Outcome {
    let deadline = ctx.timeout_millis(ctx.arg(3))?;
    let Some(value) = string(ctx, 1) else {
        return Err(Fail::fixed("NONE there is no such string"));
    };
    let block = Block::on(1..2, Awaited::STRING.or_loss()).until(deadline);
    if ctx.arg(2) == b"$" {
        return ctx.block(block.replacing(2, value));
    }
    if &value[..] <= ctx.arg(2) {
        return ctx.block(block);
    }
    ctx.reply.bulk(&value);
    Ok(())
}
