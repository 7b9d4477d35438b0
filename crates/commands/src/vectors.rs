//! Vector sets: elements with a vector each. Adding: `vectors/add.rs`; searching:
//! `vectors/similar.rs`.
//!
//! Commands that read take a reference to the set and unlock its stripe, so a long search blocks no
//! other command.

mod add;
mod similar;

use crate::arguments::random_count::draw_repeated;
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use crate::long::UNITS_PER_ITEM;
use crate::numbers::double;
use crate::spec::{CommandSpec, Locks};
use petrel_keyspace::{VectorChange, VectorError, parse_int};
use petrel_table::commands as meta;
use petrel_vector::{DIM_MAX, Linked, Quantisation, VectorSet};
use std::ops::Bound;
use std::sync::Arc;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::VADD, add::vadd),
    CommandSpec::new(&meta::VSIM, similar::vsim).locking(Locks::Itself),
    CommandSpec::new(&meta::VREM, vrem),
    CommandSpec::new(&meta::VCARD, vcard).locking(Locks::Itself),
    CommandSpec::new(&meta::VDIM, vdim).locking(Locks::Itself),
    CommandSpec::new(&meta::VEMB, vemb).locking(Locks::Itself),
    CommandSpec::new(&meta::VLINKS, vlinks).locking(Locks::Itself),
    CommandSpec::new(&meta::VINFO, vinfo).locking(Locks::Itself),
    CommandSpec::new(&meta::VISMEMBER, vismember).locking(Locks::Itself),
    CommandSpec::new(&meta::VSETATTR, vsetattr),
    CommandSpec::new(&meta::VGETATTR, vgetattr).locking(Locks::Itself),
    CommandSpec::new(&meta::VRANDMEMBER, vrandmember).locking(Locks::Itself),
    CommandSpec::new(&meta::VRANGE, vrange).locking(Locks::Itself),
];

const INVALID_VECTOR: Fail = Fail::fixed("ERR invalid vector specification");

impl From<VectorError> for Fail {
    fn from(error: VectorError) -> Self {
        match error {
            VectorError::WrongType => Fail::WRONG_TYPE,
            VectorError::WrongShape => INVALID_VECTOR,
            VectorError::Ended => Fail::fixed("ERR the command was ended before it was done"),
            VectorError::Full => Fail::fixed("ERR the vector set is full"),
        }
    }
}

/// Checks the number of arguments, which the commands do themselves, like those of a module.
fn expect(ctx: &Ctx<'_>, is_met: bool) -> Outcome {
    if is_met {
        return Ok(());
    }
    let name = ctx.command.spec.meta.name.to_ascii_uppercase();
    Err(Fail::new(format!("ERR wrong number of arguments for '{name}' command")))
}

/// The set at the first key. The key's stripe is locked only for this lookup.
fn set_at_key(ctx: &mut Ctx<'_>) -> Result<Option<Arc<VectorSet>>, Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    let gives_way = ctx.gives_way();
    let Executor { ks, shared, .. } = &mut *ctx.exec;
    let locks = !ks.holds_any();
    if locks {
        let is_kept =
            || shared.scripts.running.is_busy() || gives_way && shared.long.holds(key.hash);
        if !ks.lock_unless(key.hash, is_kept) {
            return Err(ctx.exec.kept_out());
        }
    }
    let set = ks.read(db, key).map(|view| view.vectors().cloned()).transpose();
    if locks {
        ks.unlock();
    }
    Ok(set?)
}

/// Parses a vector from argument `i` on: `FP32 blob` or `VALUES n x ...`. Returns its components
/// and the index of the next argument.
fn vector_at(ctx: &Ctx<'_>, i: usize) -> Result<(Vec<f32>, usize), Fail> {
    let args = ctx.args();
    let next = args.get(i + 1).ok_or(INVALID_VECTOR)?;
    if ctx.is(i, "FP32") {
        let (components, rest) = next.as_chunks::<4>();
        if components.is_empty() || components.len() > DIM_MAX || !rest.is_empty() {
            return Err(INVALID_VECTOR);
        }
        let vector = components.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
        return Ok((vector, i + 2));
    }
    if !ctx.is(i, "VALUES") {
        return Err(INVALID_VECTOR);
    }
    let dim = parse_int(next).and_then(|dim| usize::try_from(dim).ok());
    let dim = dim.filter(|&dim| dim > 0 && dim <= DIM_MAX).ok_or(INVALID_VECTOR)?;
    let values = args.get(i + 2..i + 2 + dim).ok_or(INVALID_VECTOR)?;
    let component = |text: &&[u8]| double::parse(text).map(|x| x as f32).ok_or(INVALID_VECTOR);
    Ok((values.iter().map(component).collect::<Result<_, _>>()?, i + 2 + dim))
}

/// Converts a distance to a similarity: 1 for equal directions, 0 for opposite ones.
fn score(distance: f32) -> f64 {
    1.0 - f64::from(distance) / 2.0
}

/// `VREM key element`
fn vrem(ctx: &mut Ctx<'_>) -> Outcome {
    expect(ctx, ctx.args().len() == 3)?;
    let (key, db, name) = (ctx.key(1), ctx.db(), ctx.arg(2));
    let was_there = ctx.exec.ks.vector_change(db, key, VectorChange::Remove { name })?;
    ctx.reply.boolean(was_there);
    Ok(())
}

/// `VSETATTR key element attributes`
fn vsetattr(ctx: &mut Ctx<'_>) -> Outcome {
    expect(ctx, ctx.args().len() == 4)?;
    let (key, db, name, attributes) = (ctx.key(1), ctx.db(), ctx.arg(2), ctx.arg(3));
    let change = VectorChange::SetAttributes { name, attributes };
    let is_there = ctx.exec.ks.vector_change(db, key, change)?;
    ctx.reply.boolean(is_there);
    Ok(())
}

/// `VCARD key`
fn vcard(ctx: &mut Ctx<'_>) -> Outcome {
    expect(ctx, ctx.args().len() == 2)?;
    let len = set_at_key(ctx)?.map_or(0, |set| set.len());
    ctx.number(len as i64)
}

/// `VDIM key`
fn vdim(ctx: &mut Ctx<'_>) -> Outcome {
    expect(ctx, ctx.args().len() == 2)?;
    let set = set_at_key(ctx)?.ok_or(Fail::fixed("ERR key does not exist"))?;
    ctx.number(i64::from(set.shape().dim))
}

/// `VISMEMBER key element`
fn vismember(ctx: &mut Ctx<'_>) -> Outcome {
    expect(ctx, ctx.args().len() == 3)?;
    let is_member = set_at_key(ctx)?.is_some_and(|set| set.contains(ctx.arg(2)));
    ctx.reply.boolean(is_member);
    Ok(())
}

/// `VGETATTR key element`
fn vgetattr(ctx: &mut Ctx<'_>) -> Outcome {
    expect(ctx, ctx.args().len() == 3)?;
    match set_at_key(ctx)?.and_then(|set| set.attributes(ctx.arg(2))) {
        Some(attributes) => ctx.reply.bulk(&attributes),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// `VEMB key element [RAW]`
fn vemb(ctx: &mut Ctx<'_>) -> Outcome {
    expect(ctx, ctx.args().len() >= 3)?;
    let options = 3..ctx.args().len();
    let is_raw = !options.is_empty();
    if options.into_iter().any(|i| !ctx.is(i, "RAW")) {
        return Err(Fail::fixed("ERR invalid option"));
    }
    let set = set_at_key(ctx)?;
    let found = set.and_then(|set| Some((*set.shape(), set.vector(ctx.arg(2))?)));
    let Some((shape, vector)) = found else {
        ctx.reply.null();
        return Ok(());
    };
    if !is_raw {
        let components = shape.decode(vector.as_ref());
        ctx.reply.array(components.len());
        components.iter().for_each(|&x| ctx.reply.double(x.into()));
        return Ok(());
    }
    let has_range = matches!(shape.quantisation, Quantisation::Q8 | Quantisation::RaBitQ);
    ctx.reply.array(3 + usize::from(has_range));
    ctx.reply.simple(shape.quantisation.name());
    ctx.reply.bulk(&vector.code);
    ctx.reply.double(vector.factors.norm.into());
    if has_range {
        ctx.reply.double(vector.factors.range.into());
    }
    Ok(())
}

/// `VLINKS key element [WITHSCORES]`
fn vlinks(ctx: &mut Ctx<'_>) -> Outcome {
    let len = ctx.args().len();
    let with_scores = len == 4 && ctx.is(3, "WITHSCORES");
    expect(ctx, len == 3 || with_scores)?;
    let Some(levels) = set_at_key(ctx)?.and_then(|set| set.links(ctx.arg(2))) else {
        ctx.reply.null();
        return Ok(());
    };
    ctx.reply.array(levels.len());
    for level in levels {
        if with_scores {
            ctx.reply.map(level.len());
        } else {
            ctx.reply.array(level.len());
        }
        for (name, distance) in level as Vec<Linked> {
            ctx.reply.bulk(&name);
            if with_scores {
                ctx.reply.double(score(distance));
            }
        }
    }
    Ok(())
}

/// `VINFO key`
fn vinfo(ctx: &mut Ctx<'_>) -> Outcome {
    expect(ctx, ctx.args().len() == 2)?;
    let Some(info) = set_at_key(ctx)?.map(|set| set.info()) else {
        ctx.reply.null_array();
        return Ok(());
    };
    ctx.reply.map(9);
    ctx.reply.simple("quant-type");
    ctx.reply.simple(info.shape.quantisation.name());
    for (name, n) in [
        ("hnsw-m", u64::from(info.shape.links)),
        ("vector-dim", u64::from(info.shape.dim)),
        ("projection-input-dim", u64::from(info.shape.input_dim.unwrap_or(0))),
        ("size", info.len as u64),
        ("max-level", info.top_level as u64),
        ("attributes-count", info.attributed as u64),
        ("vset-uid", info.id),
        ("hnsw-max-node-uid", info.inserted),
    ] {
        ctx.reply.simple(name);
        // All values are far below 2^63.
        ctx.reply.integer(n as i64);
    }
    Ok(())
}

/// `VRANDMEMBER key [count]`
fn vrandmember(ctx: &mut Ctx<'_>) -> Outcome {
    let len = ctx.args().len();
    expect(ctx, len == 2 || len == 3)?;
    let count = match len {
        2 => None,
        _ => {
            let count = parse_int(ctx.arg(2));
            Some(count.ok_or(Fail::fixed("ERR COUNT value is not an integer"))?)
        }
    };
    let set = set_at_key(ctx)?;
    let Executor { random, .. } = &mut *ctx.exec;
    let mut below = |bound: u64| random.below(bound);
    match (set, count) {
        (None, None) => ctx.reply.null(),
        (None, Some(_)) => ctx.reply.array(0),
        (Some(set), None) => match set.random(&mut below) {
            Some(name) => ctx.reply.bulk(&name),
            None => ctx.reply.null(),
        },
        (Some(set), Some(count)) if count >= 0 => {
            let names = set.sample(count as usize, &mut below);
            ctx.reply.array(names.len());
            names.iter().for_each(|name| ctx.reply.bulk(name));
        }
        (Some(set), Some(count)) => return draw_some(ctx, &set, count.unsigned_abs()),
    }
    Ok(())
}

/// Draws with repetition.
fn draw_some(ctx: &mut Ctx<'_>, set: &VectorSet, count: u64) -> Outcome {
    /// Maximum number of draws if the reply is not bounded otherwise.
    const DRAWS_MAX: u64 = 1 << 24;
    let reply_max = ctx.reply_max();
    if count > i64::MAX as u64 || (reply_max.is_none() && count > DRAWS_MAX) {
        return Err(Fail::fixed("ERR value is out of range"));
    }
    let mut pacer = ctx.exec.pacer();
    pacer.pace((count as usize).saturating_mul(UNITS_PER_ITEM))?;
    let (reply, random) = (&mut *ctx.reply, &mut ctx.exec.random);
    reply.array(count as usize);
    draw_repeated(count as usize, reply_max, &mut pacer, |run| {
        for _ in 0..run {
            // The set may be emptied meanwhile, but the length of the reply has been sent.
            match set.random(&mut |bound| random.below(bound)) {
                Some(name) => reply.bulk(&name),
                None => reply.null(),
            }
        }
        reply.written()
    })?;
    Ok(())
}

/// `VRANGE key start end [count]`
fn vrange(ctx: &mut Ctx<'_>) -> Outcome {
    let len = ctx.args().len();
    expect(ctx, len == 4 || len == 5)?;
    let (from, to) = (bound(ctx.arg(2), b"-")?, bound(ctx.arg(3), b"+")?);
    let max = if len == 5 { ctx.integer(4)? } else { -1 };
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let names = set_at_key(ctx)?.map_or_else(Vec::new, |set| set.range(from, to, max));
    ctx.reply.array(names.len());
    names.iter().for_each(|name| ctx.reply.bulk(name));
    Ok(())
}

/// Parses a bound of a range of names; `open` stands for no bound.
fn bound<'a>(text: &'a [u8], open: &[u8]) -> Result<Bound<&'a [u8]>, Fail> {
    match text {
        _ if text == open => Ok(Bound::Unbounded),
        b"-" | b"+" => {
            Err(Fail::fixed("ERR '-' can only be used as first argument, '+' only as second"))
        }
        [b'[', name @ ..] if !name.is_empty() => Ok(Bound::Included(name)),
        [b'(', name @ ..] if !name.is_empty() => Ok(Bound::Excluded(name)),
        _ => Err(Fail::fixed("ERR min or max not valid string range item")),
    }
}
