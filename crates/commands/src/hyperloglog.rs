//! HyperLogLog: approximate number of distinct elements, within a percent, in at most 12 KiB
//! (Flajolet et al., 2007). The string format is described in `hyperloglog/sketch.rs`.

mod dense;
mod estimate;
mod inspect;
mod murmur;
mod sketch;
mod sparse;

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::spec::CommandSpec;
use petrel_keyspace::event::class;
use petrel_keyspace::{Key, Value};
use petrel_table::commands as meta;
use sketch::{COUNT_AT, Draft, Form, HEADER, REGISTERS, Registers, STALE, STALE_AT, Sketch};

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::PFADD, pfadd),
    CommandSpec::new(&meta::PFCOUNT, pfcount),
    CommandSpec::new(&meta::PFMERGE, pfmerge),
    CommandSpec::new(&meta::PFDEBUG, inspect::pfdebug),
    CommandSpec::new(&meta::PFSELFTEST, inspect::pfselftest),
];

/// Units for reading a sketch.
const UNITS_PER_SKETCH: usize = 2000;

/// `PFADD key [element ...]`
fn pfadd(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let changed = match ctx.exec.ks.look(db, key) {
        None => create(ctx, key)?,
        Some(_) => match with_sketch(ctx, key, |sketch| Ok(sketch.form))? {
            Some(Form::Dense) => add_dense(ctx, key)?,
            _ => add_sparse(ctx, key)?,
        },
    };
    ctx.number(i64::from(changed))
}

/// Creates a sketch of the elements of `PFADD`.
fn create(ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<bool, Fail> {
    let (mut draft, sparse_max) = (Draft::empty(), sparse_max(ctx));
    for element in &ctx.args()[2..] {
        let (register, rank) = sketch::place(element);
        draft.raise(register, rank, sparse_max)?;
    }
    draft.make_stale();
    ctx.exec.ks.put(ctx.session.db, key, Value::Raw(draft.into_bytes().into()), None);
    Ok(true)
}

/// Adds elements to a dense sketch, in place.
fn add_dense(ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<bool, Fail> {
    let mut changed = false;
    for element in &ctx.args()[2..] {
        let (register, rank) = sketch::place(element);
        let patch = with_sketch(ctx, key, |sketch| {
            let lower = sketch.register(register)? < rank;
            Ok(lower.then(|| dense::patch(sketch.registers(), register, rank)))
        })?;
        if let Some((at, bytes, len)) = patch.flatten() {
            ctx.exec.ks.write_range(ctx.session.db, key, HEADER + at, &bytes[..len])?;
            changed = true;
        }
    }
    if changed {
        make_stale(ctx, key)?;
    }
    Ok(changed)
}

/// Adds elements to a sparse sketch. Copies it once a register has to be raised.
fn add_sparse(ctx: &mut Ctx<'_>, key: Key<'_>) -> Result<bool, Fail> {
    let sparse_max = sparse_max(ctx);
    let mut draft: Option<Draft> = None;
    for element in &ctx.args()[2..] {
        let (register, rank) = sketch::place(element);
        if let Some(draft) = &mut draft {
            draft.raise(register, rank, sparse_max)?;
            continue;
        }
        draft = with_sketch(ctx, key, |sketch| {
            if sketch.register(register)? >= rank {
                return Ok(None);
            }
            let mut draft = Draft::of(sketch);
            draft.raise(register, rank, sparse_max)?;
            Ok(Some(draft))
        })?
        .flatten();
    }
    let Some(mut draft) = draft else { return Ok(false) };
    draft.make_stale();
    store(ctx, key, draft)?;
    Ok(true)
}

/// `PFCOUNT key [key ...]`
fn pfcount(ctx: &mut Ctx<'_>) -> Outcome {
    let db = ctx.db();
    if ctx.args().len() > 2 {
        let (registers, _) = union(ctx)?;
        return ctx.number(estimate::estimate(&sketch::histogram(&registers)) as i64);
    }
    let key = ctx.key(1);
    ctx.exec.ks.read(db, key);
    let counted = with_sketch(ctx, key, |sketch| match sketch.count() {
        Some(count) => Ok((count, false)),
        None => Ok((estimate::estimate(&sketch.histogram()?), true)),
    })?;
    let (count, is_new) = counted.unwrap_or((0, false));
    if is_new {
        refresh_count(ctx, key, count)?;
    }
    ctx.number(count as i64)
}

/// Stores the count that a read has computed in the sketch. It follows from the registers, so it is
/// no change and no effect. A `PFCOUNT` from a primary does the same on a replica, so both have the
/// same bytes. For `WATCH` and client-side caching the key counts as modified, as in Redis.
fn refresh_count(ctx: &mut Ctx<'_>, key: Key<'_>, count: u64) -> Result<(), Fail> {
    let db = ctx.db();
    ctx.exec.ks.refresh_derived(db, key, COUNT_AT, &count.to_le_bytes())?;
    ctx.exec.ks.signal_modified(db, key);
    Ok(())
}

/// `PFMERGE destkey [sourcekey ...]`
fn pfmerge(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let (registers, form) = union(ctx)?;
    let draft = with_sketch(ctx, key, |sketch| Ok(Draft::of(sketch)))?;
    let mut draft = draft.unwrap_or_else(Draft::empty);
    if form == Form::Dense {
        draft.set_dense(&registers);
    } else {
        let sparse_max = sparse_max(ctx);
        for (register, rank) in registers.iter().enumerate().filter(|(_, rank)| **rank > 0) {
            draft.raise(register, *rank, sparse_max)?;
        }
    }
    draft.make_stale();
    store(ctx, key, draft)?;
    // Published even if nothing has changed, as in Redis.
    ctx.exec.ks.signal_modified(db, key);
    ctx.event(class::STRING, "pfadd", key.bytes);
    ctx.ok()
}

/// Union of the sketches at the arguments: the maximum of each register; dense if one of them is
/// dense.
fn union(ctx: &mut Ctx<'_>) -> Result<(Registers, Form), Fail> {
    let (mut registers, mut form) = ([0; REGISTERS], Form::Sparse);
    let (mut pacer, db) = (ctx.exec.pacer(), ctx.db());
    for i in 1..ctx.args().len() {
        pacer.pace(UNITS_PER_SKETCH)?;
        let key = ctx.key(i);
        ctx.exec.ks.read(db, key);
        with_sketch(ctx, key, |sketch| {
            if sketch.form == Form::Dense {
                form = Form::Dense;
            }
            sketch.raise(&mut registers)
        })?;
    }
    Ok((registers, form))
}

/// Reads the sketch at a key in place; `None` if the key does not exist.
fn with_sketch<T>(
    ctx: &Ctx<'_>,
    key: Key<'_>,
    read: impl FnOnce(Sketch<'_>) -> Result<T, Fail>,
) -> Result<Option<T>, Fail> {
    let Some(view) = ctx.exec.ks.view(ctx.session.db, key) else { return Ok(None) };
    let value = view.string()?;
    let mut digits = itoa::Buffer::new();
    read(Sketch::read(value.bytes(&mut digits))?).map(Some)
}

/// Marks the cached count of the sketch at a key as stale.
fn make_stale(ctx: &mut Ctx<'_>, key: Key<'_>) -> Outcome {
    let count = with_sketch(ctx, key, |sketch| Ok(sketch.count()))?;
    if let Some(count) = count.flatten() {
        let last = count.to_le_bytes()[STALE_AT - COUNT_AT] | STALE;
        ctx.exec.ks.write_range(ctx.session.db, key, STALE_AT, &[last])?;
    }
    Ok(())
}

/// Stores a changed sketch. Writes only the bytes that differ, unless it has become shorter.
fn store(ctx: &mut Ctx<'_>, key: Key<'_>, draft: Draft) -> Outcome {
    let db = ctx.session.db;
    let new = draft.bytes();
    let (mut expiry, mut changed) = (None, None);
    if let Some(view) = ctx.exec.ks.view(db, key) {
        expiry = view.expiry();
        let (value, mut digits) = (view.string()?, itoa::Buffer::new());
        let old = value.bytes(&mut digits);
        if new.len() >= old.len() {
            let differs = |(at, byte): (usize, &u8)| (old.get(at) != Some(byte)).then_some(at);
            let first = new.iter().enumerate().find_map(differs).unwrap_or(new.len());
            let last = new.iter().enumerate().rev().find_map(differs).unwrap_or(first);
            changed = Some(first..(last + 1).min(new.len()));
        }
    }
    match changed {
        Some(range) if range.is_empty() => {}
        Some(range) => {
            ctx.exec.ks.write_range(db, key, range.start, &new[range])?;
        }
        None => {
            ctx.exec.ks.put(db, key, Value::Raw(draft.into_bytes().into()), expiry);
        }
    }
    Ok(())
}

/// `hll-sparse-max-bytes`, which limits the whole string.
fn sparse_max(ctx: &Ctx<'_>) -> usize {
    ctx.exec.ks.keyspace().limits().hll_sparse_max_bytes().max(0) as usize
}
