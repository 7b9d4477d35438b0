//! Commands that change values in place: numbers, strings, booleans, arrays.

use super::budget::Budget;
use super::get::{Form, with_text};
use super::read::{index_at, write_of_number};
use super::{
    Asked, NO_KEY, Plan, carry_out_one, coded_value_at, document, each, fits, integer_at, no_such,
    path_at, push, values_at, wrong_kind,
};
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use petrel_json::tape::Writer;
use petrel_json::{Action, Arithmetic, ArithmeticError, Batch, Kind, Misfit, Number, Value};
use petrel_resp::{Protocol, Reply};

/// Action on a value, or `None` to leave it, and the result to reply.
type Planned<'v, R> = (Option<Action<'v>>, R);

/// Plans the change of a value below the given number of containers.
type Plans<'p, 'v, R> = dyn Fn(Value<'_>, usize) -> Result<Option<Planned<'v, R>>, Fail> + 'p;

/// Writes the reply from the results in match order and from the document before the changes; on
/// failure it has written nothing. The number is the memory in bytes that it takes per value,
/// beside the reply.
type Finish<'f, R> = (&'f dyn Fn(&[Option<R>], Value<'_>, &mut dyn Reply) -> Outcome, usize);

/// Changes the matches of a path. `plan` gets each value and the number of containers around it; it
/// returns `None` for a value of another kind.
///
/// The reply is written before anything changes, because it may contain removed values.
fn update<'v, R>(
    ctx: &mut Ctx<'_>,
    asked: Asked<'_>,
    plan: &Plans<'_, 'v, R>,
    (finish, bytes): Finish<'_, R>,
) -> Outcome {
    let (key, db) = (ctx.key(1), ctx.db());
    let mut budget = Budget::of(&ctx.exec.ks, asked);
    let (reply, Executor { ks, paths, .. }) = (&mut *ctx.reply, &mut *ctx.exec);
    let root = document(ks.look(db, key))?.ok_or(NO_KEY)?;
    let (path, begin) = (&*asked.path(paths)?, reply.place());
    if let Some(steps) = path.steps() {
        let Some(value) = path.find_static(root) else { return finish(&[], root, reply) };
        let Some((action, said)) = plan(value, steps.len())? else {
            return finish(&[None], root, reply);
        };
        finish(&[Some(said)], root, reply)?;
        let Some(action) = action else { return Ok(()) };
        let made = carry_out_one(ks, db, key, steps, &action);
        return made.inspect_err(|_| reply.take_back(begin));
    }
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    each(path, root, &mut budget, &mut |value, steps, memory| {
        let planned = plan(value, steps.len())?;
        let (action, said) = planned.map_or((None, None), |(action, said)| (action, Some(said)));
        all.push(said);
        let held = all.capacity() * (size_of::<Option<R>>() + bytes);
        match action {
            Some(action) => push(&mut batch, root, (value, steps), action, (memory, held)),
            None => memory.hold(batch.footprint() + held),
        }
    })?;
    let plan = Plan::of(root, batch, &mut budget.memory)?;
    finish(&all, root, reply)?;
    plan.carry_out(ks, db, key).inspect_err(|_| reply.take_back(begin))
}

/// Replies with the result of each value; for a legacy path with the last, and an error if nothing
/// matched.
fn answer<R>(
    is_legacy: bool,
    said: &[Option<R>],
    what: &str,
    reply: &mut dyn Reply,
    write: &dyn Fn(&R, &mut dyn Reply),
) -> Outcome {
    if is_legacy {
        let last = said.iter().flatten().next_back().ok_or_else(|| no_such(what))?;
        write(last, reply);
        return Ok(());
    }
    answer_all(said, reply, write);
    Ok(())
}

fn answer_all<R>(said: &[Option<R>], reply: &mut dyn Reply, write: &dyn Fn(&R, &mut dyn Reply)) {
    reply.array(said.len());
    for said in said {
        if reply.is_dropped() {
            return;
        }
        match said {
            Some(said) => write(said, reply),
            None => reply.null(),
        }
    }
}

fn write_len(len: &usize, reply: &mut dyn Reply) {
    // No document has more than `i64::MAX` elements.
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

/// Argument `i` as a JSON number. Most are integers, which need no JSON parser.
fn number_at(ctx: &Ctx<'_>, i: usize) -> Result<Number, Fail> {
    if let Some(integer) = index_at(ctx, i) {
        return Ok(Number::Integer(integer));
    }
    let value = coded_value_at(ctx, i)?;
    value.root().number().ok_or(Fail::fixed("bad input number"))
}

/// Carries out an arithmetic command. RESP3 replies with an array of the new numbers; RESP2 with
/// their text: an array, or the last one for a legacy path.
fn calculate(ctx: &mut Ctx<'_>, how: Arithmetic) -> Outcome {
    /// Typical bytes of a number's text.
    const DIGITS: usize = 24;
    // An argument other than a number is an error only if the path matches a number.
    let (path, with) = (path_at(ctx, 2)?, number_at(ctx, 3));
    let plan = |value: Value<'_>, _| {
        let Some(number) = value.number() else { return Ok(None) };
        let with = with.as_ref().map_err(Fail::clone)?;
        let result = number.combine(how, *with).map_err(|error| match error {
            ArithmeticError::Overflow => Fail::fixed("ERR numeric overflow"),
            ArithmeticError::NotANumber => Fail::fixed("ERR result is not a number"),
        })?;
        let mut writer = Writer::default();
        result.write(&mut writer);
        Ok(Some((Some(Action::Set(writer.into_bytes().into())), result)))
    };
    let is_legacy = path.is_legacy();
    let finish = |said: &[Option<Number>], _: Value<'_>, reply: &mut dyn Reply| {
        if reply.protocol() == Protocol::Resp3 {
            answer_all(said, reply, &|result, reply| write_of_number(*result, reply));
            return Ok(());
        }
        with_text(|text| {
            print_results(said, is_legacy, text)?;
            reply.bulk(text);
            Ok(())
        })
    };
    update(ctx, path, &plan, (&finish, DIGITS))
}

fn print_results(said: &[Option<Number>], is_legacy: bool, text: &mut Vec<u8>) -> Outcome {
    if is_legacy {
        let last = said.iter().flatten().next_back();
        last.ok_or_else(|| no_such("does not contains a number"))?.print(text);
        return Ok(());
    }
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
    Ok(())
}

/// `JSON.STRAPPEND key [path] value`
pub(super) fn str_append(ctx: &mut Ctx<'_>) -> Outcome {
    let (path, at) = match ctx.args().len() {
        3 => (path_at(ctx, usize::MAX)?, 2),
        4 => (path_at(ctx, 2)?, 3),
        _ => return Err(ctx.wrong_arity()),
    };
    // An argument other than a string is an error only if the path matches a string.
    let appended = coded_value_at(ctx, at);
    let plan = |value: Value<'_>, _| {
        let Some(text) = value.string() else { return Ok(None) };
        let appended = appended.as_ref().map_err(Fail::clone)?;
        let more = appended.root().string().ok_or_else(|| wrong_kind("string"))?;
        let mut writer = Writer::default();
        writer.string(&[text, more].concat());
        Ok(Some((Some(Action::Set(writer.into_bytes().into())), text.len() + more.len())))
    };
    let is_legacy = path.is_legacy();
    let finish = |said: &[_], _: Value<'_>, reply: &mut dyn Reply| {
        answer(is_legacy, said, "not a string", reply, &write_len)
    };
    update(ctx, path, &plan, (&finish, 0))
}

/// `JSON.TOGGLE key path`
pub(super) fn toggle(ctx: &mut Ctx<'_>) -> Outcome {
    let path = path_at(ctx, 2)?;
    let plan = |value: Value<'_>, _| {
        let Some(is_true) = value.boolean() else { return Ok(None) };
        let mut writer = Writer::default();
        writer.boolean(!is_true);
        Ok(Some((Some(Action::Set(writer.into_bytes().into())), !is_true)))
    };
    let is_legacy = path.is_legacy();
    let write = |is_true: &bool, reply: &mut dyn Reply| match is_legacy {
        true => reply.bulk(if *is_true { b"true" } else { b"false" }),
        false => reply.integer(i64::from(*is_true)),
    };
    let finish = |said: &[_], _: Value<'_>, reply: &mut dyn Reply| {
        answer(is_legacy, said, "not a bool", reply, &write)
    };
    update(ctx, path, &plan, (&finish, 0))
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
    let plan = |value: Value<'_>, outer: usize| {
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
        let action = Action::Insert { index, count, values: values[..].into() };
        Ok(Some((Some(action), len + count)))
    };
    let is_legacy = path.is_legacy();
    let finish = |said: &[_], _: Value<'_>, reply: &mut dyn Reply| {
        answer(is_legacy, said, "not an array", reply, &write_len)
    };
    update(ctx, path, &plan, (&finish, 0))
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
    // A popped value is identified by its place until it is written.
    let plan = |value: Value<'_>, _| {
        if value.kind() != Kind::Array {
            return Ok(None);
        }
        let last = value.len().saturating_sub(1) as i64;
        let index = if index < 0 { index.saturating_add(last + 1) } else { index };
        let index = index.clamp(0, last) as usize;
        let popped = value.item(index).map(|popped| popped.tape().as_ptr().addr());
        Ok(Some((popped.map(|_| Action::Take(index)), popped)))
    };
    let is_legacy = path.is_legacy();
    let finish = |said: &[Option<Option<usize>>], root: Value<'_>, reply: &mut dyn Reply| {
        let base = root.tape().as_ptr().addr();
        answer(is_legacy, said, "not an array", reply, &|popped, reply| match popped {
            Some(at) => form.write(Value::new(&root.tape()[at - base..]), reply),
            None => reply.null(),
        })
    };
    update(ctx, path, &plan, (&finish, 0))
}

/// `JSON.ARRTRIM key path start stop`
pub(super) fn arr_trim(ctx: &mut Ctx<'_>) -> Outcome {
    let (path, start, stop) = (path_at(ctx, 2)?, integer_at(ctx, 3)?, integer_at(ctx, 4)?);
    let plan = |value: Value<'_>, _| {
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
    };
    let is_legacy = path.is_legacy();
    let finish = |said: &[_], _: Value<'_>, reply: &mut dyn Reply| {
        answer(is_legacy, said, "not an array", reply, &write_len)
    };
    update(ctx, path, &plan, (&finish, 0))
}
