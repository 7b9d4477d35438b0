//! JSON commands that describe values: JSON.TYPE, JSON.STRLEN and the like.

use super::budget::Budget;
use super::{
    NO_KEY, NOT_THERE, coded_value_at, document, first, integer_at, no_such, path_at, wrong_kind,
};
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use petrel_json::{Document, Kind, Number, Path, SearchError, Value, Work};
use petrel_keyspace::parse_int;
use petrel_resp::{Protocol, Reply};
use std::ops::ControlFlow;

/// Maximum number of matches kept from a search.
const KEPT_MAX: usize = 4096;

/// Matches of a path. Their number is sent before them. Few matches are kept; many are searched for
/// a second time.
pub(super) struct Found<'d> {
    count: usize,
    kept: Vec<Value<'d>>,
    /// The values of a projection, as an array.
    made: Option<Document>,
}

impl<'d> Found<'d> {
    /// Searches for matches, and takes the steps that `cost` returns for each, for its later use.
    ///
    /// # Errors
    /// If that is too much. Another search is not, then.
    pub fn of(
        path: &Path,
        root: Value<'d>,
        budget: &mut Budget,
        cost: impl Fn(Value<'_>) -> u64,
    ) -> Result<Self, Fail> {
        let mut found = Found { count: 0, kept: Vec::new(), made: None };
        if let Some(made) = path.project(root, &mut budget.work)? {
            for value in made.root().items() {
                budget.work.spend(cost(value))?;
            }
            budget.memory.hold(made.tape().len())?;
            found.count = made.root().len();
            found.made = Some(made);
            return Ok(found);
        }
        if path.is_static() {
            found.kept.extend(path.find_static(root));
            found.count = found.kept.len();
            return Ok(found);
        }
        let (before, mut taken) = (budget.work.left(), Ok(()));
        path.search(root, &mut budget.work, &mut |value, _, work| {
            taken = work.spend(cost(value));
            if found.count < KEPT_MAX {
                found.kept.push(value);
            }
            found.count += 1;
            if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        taken?;
        if found.count > KEPT_MAX {
            // Cost of the second search.
            budget.work.spend(before - budget.work.left())?;
            found.kept = Vec::new();
        }
        Ok(found)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Calls `visit` for each match.
    pub fn each(&self, path: &Path, root: Value<'d>, visit: &mut dyn FnMut(Value<'_>)) {
        if let Some(made) = &self.made {
            return made.root().items().for_each(visit);
        }
        if self.count <= KEPT_MAX {
            return self.kept.iter().copied().for_each(visit);
        }
        let done = path.search(root, &mut Work::default(), &mut |value, _, _| {
            visit(value);
            ControlFlow::Continue(())
        });
        debug_assert_eq!(done, Ok(()), "it was done before");
    }
}

/// Replies of a command to missing values and values of another kind.
struct Manner {
    /// Error if a legacy path matches a value of another kind.
    other: fn() -> Fail,
    /// Error if a legacy path matches nothing; `None` replies nil.
    nothing: Option<Fail>,
    /// Error if the key of a JSONPath does not exist; `None` replies nil.
    no_key: Option<Fail>,
    /// Whether the path may be a projection.
    computes: bool,
}

/// Replies with each match of the path at argument 2, or with the first of a legacy path. `write`
/// returns false, and writes nothing, for a value of another kind. `cost` returns the steps that it
/// takes.
fn answer(
    ctx: &mut Ctx<'_>,
    manner: &Manner,
    cost: fn(Value<'_>) -> u64,
    write: impl Fn(Value<'_>, &mut dyn Reply) -> bool,
) -> Outcome {
    let (key, db, path) = (ctx.key(1), ctx.db(), path_at(ctx, 2)?);
    let mut budget = Budget::of(&ctx.exec.ks, path);
    let (reply, Executor { ks, paths, .. }) = (&mut *ctx.reply, &mut *ctx.exec);
    let Some(root) = document(ks.read(db, key))? else {
        if let (false, Some(error)) = (path.is_legacy(), &manner.no_key) {
            return Err(error.clone());
        }
        reply.null();
        return Ok(());
    };
    let path = if manner.computes { path.query(paths)? } else { path.path(paths)? };
    if !path.is_legacy() {
        let found = Found::of(&path, root, &mut budget, cost)?;
        reply.array(found.count());
        found.each(&path, root, &mut |value| {
            if !reply.is_dropped() && !write(value, reply) {
                reply.null();
            }
        });
        return Ok(());
    }
    match (first(&path, root, &mut budget)?, &manner.nothing) {
        (Some(value), _) if write(value, reply) => Ok(()),
        (Some(_), _) => Err((manner.other)()),
        (None, Some(error)) => Err(error.clone()),
        (None, None) => {
            reply.null();
            Ok(())
        }
    }
}

/// Cost of values that all take the same time.
fn little(_: Value<'_>) -> u64 {
    0
}

/// `JSON.TYPE key [path]`
pub(super) fn type_of(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, path) = (ctx.key(1), ctx.db(), path_at(ctx, 2)?);
    let mut budget = Budget::of(&ctx.exec.ks, path);
    let (reply, Executor { ks, paths, .. }) = (&mut *ctx.reply, &mut *ctx.exec);
    // RESP3 replies have an additional array around the type.
    let is_wrapped = reply.protocol() == Protocol::Resp3;
    let wrap = |reply: &mut dyn Reply| {
        if is_wrapped {
            reply.array(1);
        }
    };
    let Some(root) = document(ks.read(db, key))? else {
        wrap(reply);
        reply.null();
        return Ok(());
    };
    let path = path.path(paths)?;
    if path.is_legacy() {
        let value = first(&path, root, &mut budget)?;
        wrap(reply);
        match value {
            Some(value) => reply.bulk(value.kind().name().as_bytes()),
            None => reply.null(),
        }
        return Ok(());
    }
    let found = Found::of(&path, root, &mut budget, little)?;
    wrap(reply);
    reply.array(found.count());
    found.each(&path, root, &mut |value| reply.bulk(value.kind().name().as_bytes()));
    Ok(())
}

/// `JSON.STRLEN key [path]`
pub(super) fn str_len(ctx: &mut Ctx<'_>) -> Outcome {
    let manner = Manner {
        other: || wrong_kind("string"),
        nothing: Some(NOT_THERE),
        no_key: Some(NO_KEY),
        computes: false,
    };
    answer(ctx, &manner, little, |value, reply| {
        value.string().inspect(|text| reply.integer(text.len() as i64)).is_some()
    })
}

/// `JSON.ARRLEN key [path]`
pub(super) fn arr_len(ctx: &mut Ctx<'_>) -> Outcome {
    let manner = Manner {
        other: || no_such("not an array"),
        nothing: Some(NOT_THERE),
        no_key: Some(NO_KEY),
        computes: false,
    };
    answer(ctx, &manner, little, |value, reply| write_len(value, Kind::Array, reply))
}

/// `JSON.OBJLEN key [path]`
pub(super) fn obj_len(ctx: &mut Ctx<'_>) -> Outcome {
    let manner = Manner {
        other: || wrong_kind("object"),
        nothing: None,
        no_key: Some(no_such("not an object")),
        computes: false,
    };
    answer(ctx, &manner, little, |value, reply| write_len(value, Kind::Object, reply))
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
    let manner = Manner {
        other: || no_such("not an object"),
        nothing: None,
        no_key: Some(NO_KEY),
        computes: false,
    };
    answer(ctx, &manner, listing, |value, reply| {
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
    let manner =
        Manner { other: || NOT_THERE, nothing: Some(NOT_THERE), no_key: None, computes: true };
    answer(ctx, &manner, writing, |value, reply| {
        write_resp(value, reply);
        true
    })
}

/// Steps for writing the names of an object.
fn listing(value: Value<'_>) -> u64 {
    match value.kind() {
        Kind::Object => 2 * value.len() as u64 + value.tape().len() as u64 / 64,
        _ => 0,
    }
}

/// Steps for writing all of a value.
pub(super) fn writing(value: Value<'_>) -> u64 {
    value.tape().len() as u64 / 8
}

/// Writes a container as an array with its bracket as first element.
fn write_resp(value: Value<'_>, reply: &mut dyn Reply) {
    match value.kind() {
        Kind::Null => reply.null(),
        Kind::Boolean => reply.simple(if value.boolean() == Some(true) { "true" } else { "false" }),
        Kind::Integer | Kind::Double => write_number(value, reply),
        Kind::String => reply.bulk(value.string().unwrap_or_default()),
        Kind::Array => {
            reply.array(1 + value.len());
            reply.simple("[");
            for item in value.items() {
                if reply.is_dropped() {
                    return;
                }
                write_resp(item, reply);
            }
        }
        Kind::Object => {
            reply.array(1 + 2 * value.len());
            reply.simple("{");
            for (name, value) in value.members() {
                if reply.is_dropped() {
                    return;
                }
                reply.bulk(name);
                write_resp(value, reply);
            }
        }
    }
}

/// Writes a number in RESP.
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
    let (key, db, path) = (ctx.key(1), ctx.db(), path_at(ctx, 2)?);
    if path.is_legacy() && ctx.exec.ks.view(db, key).is_none() {
        return Err(NOT_THERE);
    }
    let mut budget = Budget::of(&ctx.exec.ks, path);
    let (reply, Executor { ks, paths, .. }) = (&mut *ctx.reply, &mut *ctx.exec);
    let Some(root) = document(ks.read(db, key))? else { return Err(NOT_THERE) };
    let path = path.path(paths)?;
    let (wanted, range) = (wanted.root(), (start, stop));
    if path.is_legacy() {
        let array = first(&path, root, &mut budget)?.ok_or(NOT_THERE)?;
        if array.kind() != Kind::Array {
            return Err(wrong_kind("array"));
        }
        reply.integer(index_of(array, wanted, range, &mut budget.work)?);
        return Ok(());
    }
    let (mut found, mut failed) = (Vec::new(), None);
    let Budget { work, memory } = &mut budget;
    path.search(root, work, &mut |value, _, work| {
        let is_array = value.kind() == Kind::Array;
        let index = is_array.then(|| index_of(value, wanted, range, work)).transpose();
        let added = index.map_err(Fail::from).and_then(|index| {
            found.push(index);
            memory.hold(found.capacity() * size_of::<Option<i64>>())
        });
        failed = added.err();
        if failed.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if let Some(fail) = failed {
        return Err(fail);
    }
    reply.array(found.len());
    for index in found {
        match index {
            Some(index) => reply.integer(index),
            None => reply.null(),
        }
    }
    Ok(())
}

/// Index of a value in an array between two indices, where 0 as the second is the end; -1 if it is
/// not found. Negative indices count from the end.
fn index_of(
    array: Value<'_>,
    wanted: Value<'_>,
    (start, stop): (i64, i64),
    work: &mut Work,
) -> Result<i64, SearchError> {
    let len = array.len() as i64;
    let absolute = |index: i64| if index < 0 { index.saturating_add(len).max(0) } else { index };
    let from = absolute(start).min((len - 1).max(0));
    let to = if stop == 0 { len } else { absolute(stop).min(len) };
    let taken = usize::try_from(to - from).unwrap_or(0);
    work.spend(from as u64 / 4)?;
    for (index, item) in array.items().enumerate().skip(from as usize).take(taken) {
        if item.is_same_within(wanted, work)? {
            return Ok(index as i64);
        }
    }
    Ok(-1)
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
    let mut budget = Budget::of(&ctx.exec.ks, path);
    let (reply, Executor { ks, paths, .. }) = (&mut *ctx.reply, &mut *ctx.exec);
    let Some(root) = document(ks.peek(db, key))? else {
        if path.is_legacy() {
            reply.integer(0)
        } else {
            reply.array(0)
        }
        return Ok(());
    };
    let path = path.path(paths)?;
    if path.is_legacy() {
        let value = first(&path, root, &mut budget)?.ok_or(NOT_THERE)?;
        reply.integer(value.tape().len() as i64);
        return Ok(());
    }
    let found = Found::of(&path, root, &mut budget, little)?;
    reply.array(found.count());
    found.each(&path, root, &mut |value| reply.integer(value.tape().len() as i64));
    Ok(())
}

/// Argument `i` as an integer; `None` if it is missing or no integer.
pub(super) fn index_at(ctx: &Ctx<'_>, i: usize) -> Option<i64> {
    parse_int(ctx.args().get(i)?)
}
