//! Commands of tallies.

use super::{TALLY, Tally, add, drop_count};
use petrel_commands::{CommandSpec, Ctx, Fail, Outcome};
use petrel_keyspace::parse_int;
use petrel_table::Meta;
use petrel_table::commands as meta;

pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&ADD, tally_add),
    CommandSpec::new(&DROP, tally_drop),
    CommandSpec::new(&GET, tally_get),
];

// With `denyoom`: without it, no command makes room for what it adds.
static ADD: Meta = Meta { name: "tally.add", arity: 4, flags: meta::VADD.flags, ..meta::VSETATTR };
static DROP: Meta = Meta { name: "tally.drop", arity: 3, ..meta::VREM };
static GET: Meta = Meta { name: "tally.get", arity: 3, ..meta::VEMB };

/// `TALLY.ADD key name amount`
fn tally_add(ctx: &mut Ctx<'_>) -> Outcome {
    let amount = parse_int(ctx.arg(3)).ok_or(Fail::fixed("ERR no integer"))?;
    let (db, key, name) = (ctx.db(), ctx.key(1), ctx.arg(2));
    let sum = add(&mut ctx.exec.ks.slot(db, key, &TALLY)?, name, amount);
    ctx.number(sum)
}

/// `TALLY.DROP key name`
fn tally_drop(ctx: &mut Ctx<'_>) -> Outcome {
    let (db, key, name) = (ctx.db(), ctx.key(1), ctx.arg(2));
    let was_there = drop_count(&mut ctx.exec.ks.slot(db, key, &TALLY)?, name);
    ctx.number(was_there.into())
}

/// `TALLY.GET key name`
fn tally_get(ctx: &mut Ctx<'_>) -> Outcome {
    let (db, key, name) = (ctx.db(), ctx.key(1), ctx.arg(2));
    let count = match ctx.exec.ks.read(db, key) {
        Some(view) => view.custom::<Tally>()?.count(name),
        None => 0,
    };
    ctx.number(count)
}
