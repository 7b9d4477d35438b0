//! What changes values where they are: numbers, strings, booleans, arrays.

use super::get::{Form, with_text};
use super::read::{index_at, write_of_number};
use super::{
    Asked, NO_KEY, Plan, carry_out_one, coded_value_at, document, each, fits, integer_at, no_such,
    path_at, push, values_at, wrong_kind,
};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use petrel_json::tape::Writer;
use petrel_json::{
    Action, Arithmetic, ArithmeticError, Batch, Document, Kind, Misfit, Number, Value,
};
use petrel_resp::{Protocol, Reply};

/// What becomes of a value, and what is said of it. No action: it stays what it is.
type Planned<R> = (Option<Action>, R);

/// Says it of each value, which lies in so many containers.
type Plans<'p, R> = dyn Fn(Value<'_>, usize) -> Result<Option<Planned<R>>, Fail> + 'p;

/// Changes the values that a path finds, as `plan` says of each: none if the value is not of the
/// kind that the command is for. It is told in how many containers the value lies. Returns what is
/// said of each value, in the order in which they were found.
fn update<R>(
    ctx: &mut Ctx<'_>,
    path: Asked<'_>,
    plan: &Plans<'_, R>,
) -> Result<Vec<Option<R>>, Fail> {
    let (key, db) = (ctx.key(1), ctx.db());
    let ks = &mut ctx.exec.ks;
    let root = document(ks.look(db, key))?.ok_or(NO_KEY)?;
    let path = &*path.path()?;
    if let Some(steps) = path.steps() {
        let Some(value) = path.find_static(root) else { return Ok(Vec::new()) };
        let Some((action, said)) = plan(value, steps.len())? else { return Ok(vec![None]) };
        if let Some(action) = action {
            carry_out_one(ks, db, key, steps, &action)?;
        }
        return Ok(vec![Some(said)]);
    }
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    each(path, root, &mut |value, steps| {
        let Some((action, said)) = plan(value, steps.len())? else {
            all.push(None);
            return Ok(());
        };
        all.push(Some(said));
        action.map_or(Ok(()), |action| push(&mut batch, root, (value, steps), action))
    })?;
    Plan::of(root, batch)?.carry_out(ks, db, key)?;
    Ok(all)
}

/// Answers what was said of each value: of the last one, if the path is a legacy path, which must
/// have found something.
fn answer<R>(
    ctx: &mut Ctx<'_>,
    path: Asked<'_>,
    said: Vec<Option<R>>,
    what: &str,
    write: &dyn Fn(&R, &mut dyn Reply),
) -> Outcome {
    if path.is_legacy() {
        let last = said.iter().flatten().next_back().ok_or_else(|| no_such(what))?;
        write(last, ctx.reply);
        return Ok(());
    }
    answer_all(ctx.reply, said, write);
    Ok(())
}

fn answer_all<R>(reply: &mut dyn Reply, said: Vec<Option<R>>, write: &dyn Fn(&R, &mut dyn Reply)) {
    reply.array(said.len());
    for said in &said {
        match said {
            Some(said) => write(said, reply),
            None => reply.null(),
        }
    }
}

fn write_len(len: &usize, reply: &mut dyn Reply) {
    // No document has so many.
    reply.integer(*len as i64);
}

/// `JSON.NUMINCRBY key path value`
pub(super) fn num_incr_by(ctx: &mut Ctx<'_>) -> Outcome {
    calculate(ctx, Arithmetic::Add)
}

/// `JSON.NUMMULTBY key path value`
pub(super) fn num_mult_by(ctx: &mut Ctx<'_>) -> Outcome {
    calculate(ctx, Arithmetic::Multiply)
}

/// `JSON.NUMPOWBY key path value`
pub(super) fn num_pow_by(ctx: &mut Ctx<'_>) -> Outcome {
    calculate(ctx, Arithmetic::Power)
}

/// Argument `i` as a number in JSON; most are integers, whose text is the same elsewhere.
fn number_at(ctx: &Ctx<'_>, i: usize) -> Result<Number, Fail> {
    if let Some(integer) = index_at(ctx, i) {
        return Ok(Number::Integer(integer));
    }
    let value = coded_value_at(ctx, i)?;
    value.root().number().ok_or(Fail::fixed("bad input number"))
}

/// RESP3 has an array of the new numbers, whatever the path; RESP2 has them as text: an array, or
/// the last one.
fn calculate(ctx: &mut Ctx<'_>, how: Arithmetic) -> Outcome {
    // What is no number is an error once there is a number to change.
    let (path, with) = (path_at(ctx, 2)?, number_at(ctx, 3));
    let said = update(ctx, path, &|value, _| {
        let Some(number) = value.number() else { return Ok(None) };
        let with = with.as_ref().map_err(Fail::clone)?;
        let result = number.combine(how, *with).map_err(|error| match error {
            ArithmeticError::Overflow => Fail::fixed("ERR numeric overflow"),
            ArithmeticError::NotANumber => Fail::fixed("ERR result is not a number"),
        })?;
        let mut writer = Writer::default();
        result.write(&mut writer);
        Ok(Some((Some(Action::Set(writer.into_bytes())), result)))
    })?;
    if ctx.reply.protocol() == Protocol::Resp3 {
        answer_all(ctx.reply, said, &|result: &Number, reply| write_of_number(*result, reply));
        return Ok(());
    }
    with_text(|text| {
        if path.is_legacy() {
            let last = said.iter().flatten().next_back();
            let last = last.ok_or_else(|| no_such("does not contains a number"))?;
            last.print(text);
        } else {
            text.push(b'[');
            for (index, said) in said.iter().enumerate() {
                if index > 0 {
                    text.push(b',');
                }
                match said {
                    Some(said) => said.print(text),
                    None => text.extend_from_slice(b"null"),
                }
            }
            text.push(b']');
        }
        ctx.reply.bulk(text);
        Ok(())
    })
}

/// `JSON.STRAPPEND key [path] value`
pub(super) fn str_append(ctx: &mut Ctx<'_>) -> Outcome {
    let (path, at) = match ctx.args().len() {
        3 => (path_at(ctx, usize::MAX)?, 2),
        4 => (path_at(ctx, 2)?, 3),
        _ => return Err(ctx.wrong_arity()),
    };
    // What is no string is an error once there is a string to append it to.
    let appended = coded_value_at(ctx, at);
    let said = update(ctx, path, &|value, _| {
        let Some(text) = value.string() else { return Ok(None) };
        let appended = appended.as_ref().map_err(Fail::clone)?;
        let more = appended.root().string().ok_or_else(|| wrong_kind("string"))?;
        let mut writer = Writer::default();
        writer.string(&[text, more].concat());
        Ok(Some((Some(Action::Set(writer.into_bytes())), text.len() + more.len())))
    })?;
    answer(ctx, path, said, "not a string", &write_len)
}

/// `JSON.TOGGLE key path`
pub(super) fn toggle(ctx: &mut Ctx<'_>) -> Outcome {
    let path = path_at(ctx, 2)?;
    let said = update(ctx, path, &|value, _| {
        let Some(is_true) = value.boolean() else { return Ok(None) };
        let mut writer = Writer::default();
        writer.boolean(!is_true);
        Ok(Some((Some(Action::Set(writer.into_bytes())), !is_true)))
    })?;
    let is_legacy = path.is_legacy();
    answer(ctx, path, said, "not a bool", &|is_true, reply| match is_legacy {
        true => reply.bulk(if *is_true { b"true" } else { b"false" }),
        false => reply.integer(i64::from(*is_true)),
    })
}

/// `JSON.ARRAPPEND key path value [value ...]`
pub(super) fn arr_append(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.args().len() < 4 {
        return Err(ctx.wrong_arity());
    }
    let path = path_at(ctx, 2)?;
    insert(ctx, path, None, 3)
}

/// `JSON.ARRINSERT key path index value [value ...]`
pub(super) fn arr_insert(ctx: &mut Ctx<'_>) -> Outcome {
    let (path, index) = (path_at(ctx, 2)?, integer_at(ctx, 3)?);
    insert(ctx, path, Some(index), 4)
}

/// Inserts the values from argument `from` on at an index, or appends them.
fn insert(ctx: &mut Ctx<'_>, path: Asked<'_>, index: Option<i64>, from: usize) -> Outcome {
    let (count, values, depth) = values_at(ctx, from)?;
    let said = update(ctx, path, &|value, outer| {
        if value.kind() != Kind::Array {
            return Ok(None);
        }
        if !fits(outer + 1, depth) {
            return Err(Misfit::TooDeep.into());
        }
        let len = value.len();
        let index = match index {
            None => len,
            Some(index) => {
                let absolute = if index < 0 { index.saturating_add(len as i64) } else { index };
                let index = usize::try_from(absolute).ok().filter(|&index| index <= len);
                index.ok_or(Fail::fixed("ERR index out of bounds"))?
            }
        };
        let action = Action::Insert { index, count, values: values.clone() };
        Ok(Some((Some(action), len + count)))
    })?;
    answer(ctx, path, said, "not an array", &write_len)
}

/// `JSON.ARRPOP key [path [index]]`
pub(super) fn arr_pop(ctx: &mut Ctx<'_>) -> Outcome {
    let (mut at, mut form) = (2, Form::Text);
    if ctx.args().len() > 3 && ctx.is(2, "FORMAT") {
        form = Form::from_name(ctx.arg(3), "STRINGS")?;
        Form::check(ctx.reply)?;
        at = 4;
    }
    let (path, index) = (path_at(ctx, at)?, index_at(ctx, at + 1).unwrap_or(-1));
    if at == 4 && path.is_legacy() && form != Form::Text {
        return Err(Fail::fixed("Legacy paths are supported only with FORMAT STRINGS"));
    }
    let said = update(ctx, path, &|value, _| {
        if value.kind() != Kind::Array {
            return Ok(None);
        }
        let last = value.len().saturating_sub(1) as i64;
        let index = if index < 0 { index.saturating_add(last + 1) } else { index };
        let index = index.clamp(0, last) as usize;
        let popped = value.item(index).map(Document::of);
        Ok(Some((popped.is_some().then_some(Action::Take(index)), popped)))
    })?;
    answer(ctx, path, said, "not an array", &|popped, reply| match popped {
        Some(popped) => form.write(popped.root(), reply),
        None => reply.null(),
    })
}

/// `JSON.ARRTRIM key path start stop`
pub(super) fn arr_trim(ctx: &mut Ctx<'_>) -> Outcome {
    let (path, start, stop) = (path_at(ctx, 2)?, integer_at(ctx, 3)?, integer_at(ctx, 4)?);
    let said = update(ctx, path, &|value, _| {
        if value.kind() != Kind::Array {
            return Ok(None);
        }
        let of = value.len();
        let absolute = |index: i64| {
            if index < 0 { index.saturating_add(of as i64).max(0) } else { index }
        };
        let (from, last) = (absolute(start), absolute(stop).min(of as i64 - 1));
        let (from, count) = match from <= last {
            true => (from as usize, (last - from + 1) as usize),
            false => (0, 0),
        };
        let action = (count < of).then_some(Action::Keep { from, count, of });
        Ok(Some((action, count)))
    })?;
    answer(ctx, path, said, "not an array", &write_len)
}
