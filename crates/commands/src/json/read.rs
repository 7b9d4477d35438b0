//! What there is to know of the values of a document.

use super::{
    Asked, NO_KEY, NOT_THERE, all, coded_value_at, document, first, integer_at, no_such, path_at,
    wrong_kind,
};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use petrel_json::{Kind, Number, Value};
use petrel_keyspace::parse_int;
use petrel_resp::{Protocol, Reply};

/// What a command says of values that it is not for, and of what is not there.
struct Manner {
    /// What a legacy path is answered that finds a value of another kind.
    other: fn() -> Fail,
    /// What a legacy path is answered that finds nothing; nil if it is none.
    nothing: Option<Fail>,
    /// What a JSONPath is answered where there is no key; nil if it is none.
    no_key: Option<Fail>,
}

/// Answers what `write` says of each value that the path at argument 2 finds, or of the first; it
/// says whether the value is of the kind that the command is for, and writes nothing if not.
fn answer(
    ctx: &mut Ctx<'_>,
    manner: &Manner,
    write: impl Fn(Value<'_>, &mut dyn Reply) -> bool,
) -> Outcome {
    let (key, db, path) = (ctx.key(1), ctx.db(), path_at(ctx, 2)?);
    let reply = &mut *ctx.reply;
    let Some(root) = document(ctx.exec.ks.read(db, key))? else {
        if let (false, Some(error)) = (path.is_legacy(), &manner.no_key) {
            return Err(error.clone());
        }
        reply.null();
        return Ok(());
    };
    let path = path.path()?;
    if !path.is_legacy() {
        let found = all(&path, root)?;
        reply.array(found.len());
        for value in found {
            if !write(value, reply) {
                reply.null();
            }
        }
        return Ok(());
    }
    match (first(&path, root)?, &manner.nothing) {
        (Some(value), _) if write(value, reply) => Ok(()),
        (Some(_), _) => Err((manner.other)()),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => {
            reply.null();
            Ok(())
        }
    }
}

/// `JSON.TYPE key [path]`
pub(super) fn type_of(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, path) = (ctx.key(1), ctx.db(), path_at(ctx, 2)?);
    let reply = &mut *ctx.reply;
    // RESP3 has an array around what it was before.
    if reply.protocol() == Protocol::Resp3 {
        let found = document(ctx.exec.ks.read(db, key));
        let types = found?.map(|root| types_of(path, root)).transpose()?;
        reply.array(1);
        write_types(types, path, reply);
        return Ok(());
    }
    let types = document(ctx.exec.ks.read(db, key))?.map(|root| types_of(path, root));
    write_types(types.transpose()?, path, reply);
    Ok(())
}

fn types_of(path: Asked<'_>, root: Value<'_>) -> Result<Vec<&'static str>, Fail> {
    let path = path.path()?;
    let found = match path.is_legacy() {
        true => first(&path, root)?.into_iter().collect(),
        false => all(&path, root)?,
    };
    Ok(found.into_iter().map(|value| value.kind().name()).collect())
}

fn write_types(types: Option<Vec<&'static str>>, path: Asked<'_>, reply: &mut dyn Reply) {
    match (types, path.is_legacy()) {
        (Some(types), false) => {
            reply.array(types.len());
            types.iter().for_each(|name| reply.bulk(name.as_bytes()));
        }
        (Some(types), true) => match types.first() {
            Some(name) => reply.bulk(name.as_bytes()),
            None => reply.null(),
        },
        (None, _) => reply.null(),
    }
}

/// `JSON.STRLEN key [path]`
pub(super) fn str_len(ctx: &mut Ctx<'_>) -> Outcome {
    let manner =
        Manner { other: || wrong_kind("string"), nothing: Some(NOT_THERE), no_key: Some(NO_KEY) };
    answer(ctx, &manner, |value, reply| {
        value.string().inspect(|text| reply.integer(text.len() as i64)).is_some()
    })
}

/// `JSON.ARRLEN key [path]`
pub(super) fn arr_len(ctx: &mut Ctx<'_>) -> Outcome {
    let manner = Manner {
        other: || no_such("not an array"),
        nothing: Some(NOT_THERE),
        no_key: Some(NO_KEY),
    };
    answer(ctx, &manner, |value, reply| write_len(value, Kind::Array, reply))
}

/// `JSON.OBJLEN key [path]`
pub(super) fn obj_len(ctx: &mut Ctx<'_>) -> Outcome {
    let manner = Manner {
        other: || wrong_kind("object"),
        nothing: None,
        no_key: Some(no_such("not an object")),
    };
    answer(ctx, &manner, |value, reply| write_len(value, Kind::Object, reply))
}

fn write_len(value: Value<'_>, wanted: Kind, reply: &mut dyn Reply) -> bool {
    let is_wanted = value.kind() == wanted;
    if is_wanted {
        reply.integer(value.len() as i64);
    }
    is_wanted
}

/// `JSON.OBJKEYS key [path]`
pub(super) fn obj_keys(ctx: &mut Ctx<'_>) -> Outcome {
    let manner = Manner { other: || no_such("not an object"), nothing: None, no_key: Some(NO_KEY) };
    answer(ctx, &manner, |value, reply| {
        let is_object = value.kind() == Kind::Object;
        if is_object {
            reply.array(value.len());
            value.members().for_each(|(name, _)| reply.bulk(name));
        }
        is_object
    })
}

/// `JSON.RESP key [path]`
pub(super) fn resp(ctx: &mut Ctx<'_>) -> Outcome {
    let manner = Manner { other: || NOT_THERE, nothing: Some(NOT_THERE), no_key: None };
    answer(ctx, &manner, |value, reply| {
        write_resp(value, reply);
        true
    })
}

/// A container is an array that begins with its bracket.
fn write_resp(value: Value<'_>, reply: &mut dyn Reply) {
    match value.kind() {
        Kind::Null => reply.null(),
        Kind::Boolean => reply.simple(if value.boolean() == Some(true) { "true" } else { "false" }),
        Kind::Integer | Kind::Double => write_number(value, reply),
        Kind::String => reply.bulk(value.string().unwrap_or_default()),
        Kind::Array => {
            reply.array(1 + value.len());
            reply.simple("[");
            value.items().for_each(|item| write_resp(item, reply));
        }
        Kind::Object => {
            reply.array(1 + 2 * value.len());
            reply.simple("{");
            for (name, value) in value.members() {
                reply.bulk(name);
                write_resp(value, reply);
            }
        }
    }
}

/// A number as RESP has it.
pub(super) fn write_number(value: Value<'_>, reply: &mut dyn Reply) {
    match value.number() {
        Some(number) => write_of_number(number, reply),
        None => reply.null(),
    }
}

pub(super) fn write_of_number(number: Number, reply: &mut dyn Reply) {
    match number {
        Number::Integer(n) => reply.integer(n),
        number => reply.double(number.as_f64()),
    }
}

/// `JSON.ARRINDEX key path value [start [stop]]`
pub(super) fn arr_index(ctx: &mut Ctx<'_>) -> Outcome {
    let len = ctx.args().len();
    let start = if len > 4 { integer_at(ctx, 4)? } else { 0 };
    let stop = if len > 5 { integer_at(ctx, 5)? } else { 0 };
    if len > 6 {
        return Err(ctx.wrong_arity());
    }
    let wanted = coded_value_at(ctx, 3)?;
    let manner =
        Manner { other: || wrong_kind("array"), nothing: Some(NOT_THERE), no_key: Some(NOT_THERE) };
    let (key, db) = (ctx.key(1), ctx.db());
    if path_at(ctx, 2)?.is_legacy() && ctx.exec.ks.view(db, key).is_none() {
        return Err(NOT_THERE);
    }
    answer(ctx, &manner, |value, reply| {
        let is_array = value.kind() == Kind::Array;
        if is_array {
            let found = index_of(value, wanted.root(), start, stop);
            reply.integer(found.map_or(-1, |index| index as i64));
        }
        is_array
    })
}

/// Where an array has a value from one index up to another, which is 0 for the end. Negative ones
/// count from the end.
fn index_of(array: Value<'_>, wanted: Value<'_>, start: i64, stop: i64) -> Option<usize> {
    let len = array.len() as i64;
    let absolute = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let from = absolute(start).min((len - 1).max(0));
    let to = if stop == 0 { len } else { absolute(stop).min(len) };
    let taken = usize::try_from(to - from).unwrap_or(0);
    let mut items = array.items().enumerate().skip(from as usize).take(taken);
    items.find(|(_, item)| item.is_same(wanted)).map(|(index, _)| index)
}

/// `JSON.DEBUG MEMORY key [path]`, `JSON.DEBUG HELP`
pub(super) fn debug(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.is(1, "HELP") {
        let lines =
            ["MEMORY <key> [path] - bytes that the values take", "HELP                - this text"];
        ctx.reply.array(lines.len());
        lines.iter().for_each(|line| ctx.reply.bulk(line.as_bytes()));
        return Ok(());
    }
    if !ctx.is(1, "MEMORY") {
        return Err(Fail::fixed("ERR unknown subcommand - try `JSON.DEBUG HELP`"));
    }
    if ctx.args().len() < 3 {
        return Err(ctx.wrong_arity());
    }
    let (key, db, path) = (ctx.key(2), ctx.db(), path_at(ctx, 3)?);
    let reply = &mut *ctx.reply;
    match (document(ctx.exec.ks.peek(db, key))?, path.is_legacy()) {
        (None, true) => reply.integer(0),
        (None, false) => reply.array(0),
        (Some(root), true) => {
            let value = first(&*path.path()?, root)?.ok_or(NOT_THERE)?;
            reply.integer(value.tape().len() as i64);
        }
        (Some(root), false) => {
            let found = all(&*path.path()?, root)?;
            reply.array(found.len());
            found.iter().for_each(|value| reply.integer(value.tape().len() as i64));
        }
    }
    Ok(())
}

/// Argument `i` as an integer; none if it is not there or none.
pub(super) fn index_at(ctx: &Ctx<'_>, i: usize) -> Option<i64> {
    parse_int(ctx.args().get(i)?)
}
