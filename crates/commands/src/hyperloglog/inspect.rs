//! PFDEBUG and PFSELFTEST: inspection and self-test of HyperLogLogs.

use super::sketch::{self, Draft, Form, REGISTERS};
use super::{dense, estimate, sparse, store, with_sketch};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use petrel_keyspace::Key;
use std::sync::atomic::Ordering::Relaxed;

/// `PFDEBUG GETREG | DECODE | ENCODING | TODENSE key`, `PFDEBUG SIMD ON | OFF`
pub(super) fn pfdebug(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.is(1, "SIMD") {
        return simd(ctx);
    }
    let (key, db) = (ctx.key(2), ctx.db());
    ctx.exec.ks.look(db, key).ok_or(Fail::fixed("ERR The specified key does not exist"))?;
    let form = with_sketch(ctx, key, |sketch| Ok(sketch.form))?.unwrap_or(Form::Sparse);
    if ctx.is(1, "GETREG") {
        make_dense(ctx, key)?;
        let mut registers = [0; REGISTERS];
        with_sketch(ctx, key, |sketch| sketch.raise(&mut registers))?;
        ctx.reply.array(REGISTERS);
        registers.iter().for_each(|value| ctx.reply.integer((*value).into()));
        Ok(())
    } else if ctx.is(1, "DECODE") {
        if form == Form::Dense {
            return Err(Fail::fixed("ERR HLL encoding is not sparse"));
        }
        let text = with_sketch(ctx, key, |sketch| {
            Ok(sparse::runs(sketch.registers()).map(show).collect::<Vec<_>>().join(" "))
        })?;
        ctx.reply.bulk(text.unwrap_or_default().as_bytes());
        Ok(())
    } else if ctx.is(1, "ENCODING") {
        ctx.reply.simple(if form == Form::Dense { "dense" } else { "sparse" });
        Ok(())
    } else if ctx.is(1, "TODENSE") {
        make_dense(ctx, key)?;
        ctx.number(i64::from(form == Form::Sparse))
    } else {
        let unknown = [b"ERR Unknown PFDEBUG subcommand '", ctx.arg(1), b"'"].concat();
        Err(Fail::new(unknown))
    }
}

/// `PFDEBUG SIMD ON | OFF`: unpacks dense registers eight at a time or one by one.
fn simd(ctx: &mut Ctx<'_>) -> Outcome {
    let (on, answer) = match () {
        () if ctx.is(2, "ON") => (true, "enabled"),
        () if ctx.is(2, "OFF") => (false, "disabled"),
        () => return Err(Fail::fixed("ERR Argument must be ON or OFF")),
    };
    dense::BY_WORD.store(on, Relaxed);
    ctx.reply.simple(answer);
    Ok(())
}

fn make_dense(ctx: &mut Ctx<'_>, key: Key<'_>) -> Outcome {
    let draft = with_sketch(ctx, key, |sketch| match sketch.form {
        Form::Dense => Ok(None),
        Form::Sparse => {
            let mut draft = Draft::of(sketch);
            draft.make_dense()?;
            Ok(Some(draft))
        }
    })?;
    draft.flatten().map_or(Ok(()), |draft| store(ctx, key, draft))
}

/// A run in the format of `PFDEBUG DECODE`: `z` and `Z` for zeros of one byte and of two, `v` for a
/// value.
fn show(run: sparse::Run) -> String {
    match (run.value, run.size) {
        (0, 1) => format!("z:{}", run.len),
        (0, _) => format!("Z:{}", run.len),
        (value, _) => format!("v:{value},{}", run.len),
    }
}

/// `PFSELFTEST`
pub(super) fn pfselftest(ctx: &mut Ctx<'_>) -> Outcome {
    check_registers(ctx)?;
    check_counts(ctx)?;
    ctx.ok()
}

/// Checks that registers hold their raised values, independent of their neighbours.
fn check_registers(ctx: &mut Ctx<'_>) -> Outcome {
    let (mut draft, mut expected) = (Draft::empty(), [0; REGISTERS]);
    for _ in 0..4 * REGISTERS {
        let drawn = ctx.exec.random() as usize;
        let (register, rank) = (drawn % REGISTERS, (drawn / REGISTERS % 64) as u8);
        draft.raise(register, rank, usize::MAX)?;
        expected[register] = rank.max(expected[register]);
    }
    let mut registers = [0; REGISTERS];
    draft.sketch().raise(&mut registers)?;
    if registers != expected {
        return Err(Fail::fixed("TESTFAILED a register does not hold what it was raised to"));
    }
    Ok(())
}

/// Checks that sparse and dense sketches have equal counts, with small enough errors.
fn check_counts(ctx: &mut Ctx<'_>) -> Outcome {
    const ELEMENTS: u64 = 100_000;
    /// Six standard deviations, of 1.04 / sqrt(registers) each, and one element.
    const ERROR_MAX: f64 = 6.0 * 1.04 / 128.0;
    let (mut sparse, mut dense) = (Draft::empty(), Draft::empty());
    dense.make_dense()?;
    let seed = ctx.exec.random();
    for n in 1..=ELEMENTS {
        let (register, rank) = sketch::place(&(seed ^ n).to_le_bytes());
        sparse.raise(register, rank, 3000)?;
        dense.raise(register, rank, 0)?;
        if !n.is_power_of_two() && n != ELEMENTS {
            continue;
        }
        let count = estimate::estimate(&dense.sketch().histogram()?);
        if estimate::estimate(&sparse.sketch().histogram()?) != count {
            return Err(Fail::fixed("TESTFAILED sparse and dense sketches count differently"));
        }
        if count.abs_diff(n) as f64 > ERROR_MAX * n as f64 + 1.0 {
            return Err(Fail::new(format!("TESTFAILED {n} elements are counted as {count}")));
        }
    }
    Ok(())
}
