//! Commands on individual keys of any type: DEL, EXISTS, TYPE, RENAME, COPY, MOVE. Expiry:
//! `expire.rs`; whole databases: `iterate.rs` and `databases.rs`.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::{expect, size_units};
use crate::modes::Modes;
use crate::spec::CommandSpec;
use petrel_keyspace::Key;
use petrel_keyspace::event::class;
use petrel_table::commands as meta;
use petrel_table::options::CopyOption;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::DEL, del),
    CommandSpec::new(&meta::UNLINK, del),
    CommandSpec::new(&meta::EXISTS, exists),
    CommandSpec::new(&meta::TOUCH, touch),
    CommandSpec::new(&meta::TYPE, type_of),
    CommandSpec::new(&meta::RENAME, rename),
    CommandSpec::new(&meta::RENAMENX, renamenx),
    CommandSpec::new(&meta::COPY, copy),
    CommandSpec::new(&meta::MOVE, move_to),
];

const SAME_KEY: Fail = Fail::fixed("ERR source and destination objects are the same");

/// `DEL key [key ...]`, and `UNLINK`: memory is freed after unlocking either way
fn del(ctx: &mut Ctx<'_>) -> Outcome {
    let db = ctx.db();
    let mut removed = 0;
    for i in 1..ctx.args().len() {
        let key = ctx.key(i);
        removed += i64::from(ctx.exec.ks.remove(db, key));
    }
    ctx.number(removed)
}

/// `EXISTS key [key ...]`
fn exists(ctx: &mut Ctx<'_>) -> Outcome {
    let mut existing = 0;
    for i in 1..ctx.args().len() {
        let found = is_there(ctx, ctx.db(), i);
        ctx.exec.ks.count_read(found);
        if !found {
            ctx.event(class::MISS, "keymiss", ctx.arg(i));
        }
        existing += i64::from(found);
    }
    ctx.number(existing)
}

/// `TOUCH key [key ...]`
fn touch(ctx: &mut Ctx<'_>) -> Outcome {
    let db = ctx.db();
    // `TOUCH` counts as use of a key even with `CLIENT NO-TOUCH`.
    ctx.exec.ks.set_touch(true);
    let mut existing = 0;
    for i in 1..ctx.args().len() {
        let key = ctx.key(i);
        existing += i64::from(ctx.exec.ks.read(db, key).is_some());
    }
    ctx.number(existing)
}

/// `TYPE key`
fn type_of(ctx: &mut Ctx<'_>) -> Outcome {
    let key = ctx.key(1);
    let name = ctx.exec.ks.peek(ctx.session.db, key).map(|view| view.type_of().name());
    ctx.exec.ks.count_read(name.is_some());
    if name.is_none() {
        ctx.event(class::MISS, "keymiss", key.bytes);
    }
    ctx.reply.simple(name.unwrap_or("none"));
    Ok(())
}

/// `RENAME key newkey`
fn rename(ctx: &mut Ctx<'_>) -> Outcome {
    let (from, to, db) = (ctx.key(1), ctx.key(2), ctx.db());
    if !arrive(ctx, RENAME, (db, from), (db, to)) {
        return Err(Fail::NO_SUCH_KEY);
    }
    ctx.ok()
}

/// `RENAMENX key newkey`
fn renamenx(ctx: &mut Ctx<'_>) -> Outcome {
    let db = ctx.db();
    if !is_there(ctx, db, 1) {
        return Err(Fail::NO_SUCH_KEY);
    }
    if is_there(ctx, db, 2) {
        return ctx.number(0);
    }
    let (from, to) = (ctx.key(1), ctx.key(2));
    arrive(ctx, RENAME, (db, from), (db, to));
    ctx.number(1)
}

/// `COPY source destination [DB destination-db] [REPLACE]`
fn copy(ctx: &mut Ctx<'_>) -> Outcome {
    let (mut to_db, mut replace) = (ctx.db(), false);
    for option in ctx.options(3) {
        match option? {
            CopyOption::Replace => replace = true,
            CopyOption::Db(db) => {
                to_db = ctx.database(db)?;
                if to_db != 0 && ctx.session.is(Modes::CLUSTER_CLIENT) {
                    return Err(Fail::DB_OUT_OF_RANGE);
                }
            }
        }
    }
    if to_db == ctx.db() && ctx.arg(1) == ctx.arg(2) {
        return Err(SAME_KEY);
    }
    let (from, to, db) = (ctx.key(1), ctx.key(2), ctx.db());
    let source = ctx.exec.ks.read(db, from).map(|view| (size_units(view), view.footprint()));
    let Some((units, bytes)) = source else { return ctx.number(0) };
    if !replace && is_there(ctx, to_db, 2) {
        return ctx.number(0);
    }
    expect(units, ctx.exec.units_here)?;
    ctx.hold_growth(bytes)?;
    arrive(ctx, COPY, (db, from), (to_db, to));
    ctx.number(1)
}

/// `MOVE key db`
fn move_to(ctx: &mut Ctx<'_>) -> Outcome {
    ctx.admit_databases()?;
    let to_db = ctx.database(ctx.arg(2))?;
    if to_db == ctx.db() {
        return Err(SAME_KEY);
    }
    let (key, db) = (ctx.key(1), ctx.db());
    if ctx.exec.ks.look(db, key).is_none() || is_there(ctx, to_db, 1) {
        return ctx.number(0);
    }
    let moved = arrive(ctx, MOVE, (db, key), (to_db, key));
    ctx.number(i64::from(moved))
}

/// Copy or move of a value to another key, and its keyspace events.
#[derive(Clone, Copy)]
struct Way {
    copies: bool,
    from: Option<&'static str>,
    to: &'static str,
}

const RENAME: Way = Way { copies: false, from: Some("rename_from"), to: "rename_to" };
const COPY: Way = Way { copies: true, from: None, to: "copy_to" };
const MOVE: Way = Way { copies: false, from: Some("move_from"), to: "move_to" };

/// Stores a value at another key, replacing the existing one, and publishes the events; false if
/// the source does not exist.
fn arrive(
    ctx: &mut Ctx<'_>,
    way: Way,
    (db, from): (u16, Key<'_>),
    (to_db, to): (u16, Key<'_>),
) -> bool {
    let ks = &mut ctx.exec.ks;
    let before = if ks.notes_events() { ks.peek(to_db, to).map(|old| old.type_of()) } else { None };
    let done = match way.copies {
        true => ks.copy(db, from, to_db, to),
        false => ks.rename(db, from, to_db, to),
    };
    // Renaming a key to itself changes nothing.
    if !done || !ks.notes_events() || (db, from.bytes) == (to_db, to.bytes) {
        return done;
    }
    if before.is_some() {
        ks.event(class::NEW, "new", to_db, to.bytes);
    }
    if let Some(name) = way.from {
        ks.event(class::GENERIC, name, db, from.bytes);
    }
    ks.event(class::GENERIC, way.to, to_db, to.bytes);
    let after = ks.peek(to_db, to).map(|new| new.type_of());
    if let (Some(before), Some(after)) = (before, after) {
        ks.overwritten(to_db, to, before, after);
    }
    true
}

/// Whether argument `i` is a key in `db`.
fn is_there(ctx: &mut Ctx<'_>, db: u16, i: usize) -> bool {
    let key = ctx.key(i);
    ctx.exec.ks.peek(db, key).is_some()
}
