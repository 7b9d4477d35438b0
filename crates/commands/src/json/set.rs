//! Commands that replace and remove values: JSON.SET, JSON.MSET, JSON.DEL, JSON.CLEAR.

use super::budget::Budget;
use super::{
    Asked, NO_KEY, NO_ROOT, PathCache, Plan, document, each, fits, path_at, push, value_at,
};
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use petrel_json::{
    Action, Batch, Change, Document, FloatType, Kind, Op, Parse, Path, Value, parse,
};
use petrel_keyspace::event::class;
use petrel_keyspace::{Handle, JsonChange, Key, Naming};
use petrel_table::options::{JsonSetOption, Unread};
use std::ops::ControlFlow;
use std::sync::Arc;

const NOT_STATIC: Fail = Fail::fixed("Err wrong static path");

/// Condition of JSON.SET on its path: `NX` or `XX`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Condition {
    None,
    /// `NX`: the path has no match.
    Nothing,
    /// `XX`: the path has a match.
    Something,
}

/// Result of setting a value at a path.
pub(super) enum Setting<'v> {
    /// The value becomes the document.
    Root,
    /// Changes of values; `false` if some were left as they are because they would become too deep.
    Values(Plan<'v>, bool),
    /// The value is set at the place of a static path.
    Static,
    /// Nothing changes.
    Nothing,
}

impl Setting<'_> {
    /// Carries out the change; returns whether it is complete.
    pub fn carry_out(
        &self,
        ks: &mut Handle,
        (db, key): (u16, Key<'_>),
        path: Option<&Path>,
        value: &Document,
    ) -> Result<bool, Fail> {
        let tape = value.tape();
        match self {
            Setting::Root => ks.json_change(db, key, JsonChange::Put { tape })?,
            Setting::Static => {
                let place = path.and_then(Path::steps).unwrap_or_default();
                let change = Change { place: &place, op: Op::Set(tape) };
                ks.json_change(db, key, JsonChange::At(change))?;
            }
            Setting::Values(plan, is_all) => {
                plan.carry_out(ks, db, key)?;
                return Ok(*is_all);
            }
            Setting::Nothing => return Ok(false),
        }
        Ok(true)
    }
}

/// Sets a value where there is no document.
fn creating<'v>(path: Asked<'_>, condition: Condition) -> Result<Setting<'v>, Fail> {
    match (condition, path.is_root()) {
        (Condition::Something, _) => Ok(Setting::Nothing),
        (_, true) => Ok(Setting::Root),
        (_, false) => Err(NO_ROOT),
    }
}

/// Plans setting a value. Returns the parsed path too if there is a document.
fn prepare<'v>(
    root: Option<Value<'_>>,
    (asked, paths): (Asked<'_>, &mut PathCache),
    value: &'v Document,
    condition: Condition,
    budget: &mut Budget,
) -> Result<(Setting<'v>, Option<Arc<Path>>), Fail> {
    let Some(root) = root else {
        return Ok((creating(asked, condition)?, None));
    };
    let path = asked.path(paths)?;
    Ok((setting(root, &path, value, condition, budget)?, Some(path)))
}

/// Plans setting a value at a path of a document.
fn setting<'v>(
    root: Value<'_>,
    path: &Path,
    value: &'v Document,
    condition: Condition,
    budget: &mut Budget,
) -> Result<Setting<'v>, Fail> {
    if path.is_root() {
        let is_barred = condition == Condition::Nothing;
        return Ok(if is_barred { Setting::Nothing } else { Setting::Root });
    }
    let depth = value.root().depth();
    if let Some(steps) = path.steps()
        && path.find_static(root).is_some()
    {
        let is_set = condition != Condition::Nothing && fits(steps.len(), depth);
        return Ok(if is_set { Setting::Static } else { Setting::Nothing });
    }
    if condition == Condition::Nothing && !path.is_static() {
        return Err(NOT_STATIC);
    }
    let (mut batch, mut is_all, mut any) = (Batch::default(), true, false);
    each(path, root, budget, &mut |found, steps, memory| {
        any = true;
        if !fits(steps.len(), depth) {
            is_all = false;
            return Ok(());
        }
        let action = Action::Set(value.tape().into());
        push(&mut batch, root, (found, steps), action, (memory, 0))
    })?;
    match (any, condition) {
        (true, Condition::Nothing) | (false, Condition::Something) => Ok(Setting::Nothing),
        (true, _) => Ok(Setting::Values(Plan::of(root, batch, &mut budget.memory)?, is_all)),
        (false, _) => adding(root, path, value.root(), budget),
    }
}

/// Plans setting a value at a path without matches: an object may get another member.
pub(super) fn adding<'v>(
    root: Value<'_>,
    path: &Path,
    value: Value<'v>,
    budget: &mut Budget,
) -> Result<Setting<'v>, Fail> {
    if !path.is_static() {
        return Err(NOT_STATIC);
    }
    let Some(name) = path.last_name() else {
        return Err(Fail::fixed("ERR array index out of range"));
    };
    let (mut batch, depth) = (Batch::default(), value.depth());
    path.search_parents(root, &mut budget.work, &mut |parent, steps, _| {
        if parent.kind() == Kind::Object && fits(steps.len() + 1, depth) {
            let action = Action::Add(name.to_vec().into(), value.tape().into());
            batch.push(root, parent, steps, action);
        }
        ControlFlow::Continue(())
    })?;
    match batch.is_empty() {
        true => Ok(Setting::Nothing),
        false => Ok(Setting::Values(Plan::of(root, batch, &mut budget.memory)?, true)),
    }
}

/// `JSON.SET key path value [NX | XX] [FPHA FP16 | BF16 | FP32 | FP64] [FORMAT JSON]`
pub(super) fn set(ctx: &mut Ctx<'_>) -> Outcome {
    let (mut condition, mut how) = (Condition::None, Parse::default());
    for option in ctx.options(4) {
        match option {
            Ok(JsonSetOption::Format(name)) => {
                let is = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
                if !["JSON", "STRING"].iter().any(is) {
                    return Err(Fail::fixed("ERR wrong format"));
                }
            }
            Ok(JsonSetOption::Nx) if condition == Condition::None => condition = Condition::Nothing,
            Ok(JsonSetOption::Xx) if condition == Condition::None => {
                condition = Condition::Something;
            }
            Ok(JsonSetOption::Fpha(name)) => {
                let of = FloatType::from_name(name).ok_or(Fail::fixed("ERR invalid FPHA type"))?;
                how.floats = Some(of);
            }
            Err(Unread::Incomplete(_)) => return Err(ctx.wrong_arity()),
            _ => return Err(Fail::SYNTAX),
        }
    }
    let (asked, value) = (path_at(ctx, 2)?, value_at(ctx, 3, how));
    let (key, db) = (ctx.key(1), ctx.db());
    let mut budget = Budget::of(&ctx.exec.ks, asked);
    let Executor { ks, paths, .. } = &mut *ctx.exec;
    let root = document(ks.look(db, key))?;
    let value = value?;
    let (setting, path) = prepare(root, (asked, paths), &value, condition, &mut budget)?;
    match setting.carry_out(ks, (db, key), path.as_deref(), &value)? {
        true => ctx.reply.simple("OK"),
        false => ctx.reply.null(),
    }
    Ok(())
}

/// `JSON.MSET key path value [key path value ...]`: if a triplet is invalid, nothing is set.
pub(super) fn mset(ctx: &mut Ctx<'_>) -> Outcome {
    let (len, db) = (ctx.args().len(), ctx.db());
    let mut triplets = Vec::with_capacity(len / 3);
    let mut budget = Budget::of_many(&ctx.exec.ks);
    for i in (1..len).step_by(3) {
        let (key, asked) = (ctx.key(i), path_at(ctx, i + 1)?);
        let value = match i + 2 < len {
            true => value_at(ctx, i + 2, Parse::default()),
            false => Err(ctx.wrong_arity()),
        };
        let Executor { ks, paths, .. } = &mut *ctx.exec;
        let root = document(ks.look(db, key))?;
        if root.is_none() {
            creating(asked, Condition::None)?;
        }
        let path = root.map(|_| asked.path(paths)).transpose()?;
        let value = value?;
        if let Some((root, path)) = root.zip(path) {
            setting(root, &path, &value, Condition::None, &mut budget)?;
        }
        triplets.push((key, asked, value));
    }
    // A second budget of the same size, for the changes.
    let mut budget = Budget::of_many(&ctx.exec.ks);
    let Executor { ks, paths, .. } = &mut *ctx.exec;
    let mut is_all = true;
    for (key, asked, value) in &triplets {
        // An earlier triplet may have changed the path of a later one.
        let root = document(ks.look(db, *key));
        let prepared = root
            .and_then(|root| prepare(root, (*asked, paths), value, Condition::None, &mut budget));
        is_all &= match prepared {
            // The parent of the path is no object.
            Ok((Setting::Nothing, _)) => true,
            Ok((setting, path)) => {
                setting.carry_out(ks, (db, *key), path.as_deref(), value).unwrap_or_default()
            }
            Err(_) => false,
        };
    }
    if is_all {
        ctx.reply.simple("OK")
    } else {
        ctx.reply.null()
    }
    Ok(())
}

/// `JSON.DEL key [path]`, `JSON.FORGET key [path]`
pub(super) fn del(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, asked) = (ctx.key(1), ctx.db(), path_at(ctx, 2)?);
    let mut budget = Budget::of(&ctx.exec.ks, asked);
    let Executor { ks, paths, .. } = &mut *ctx.exec;
    let Some(root) = document(ks.look(db, key))? else { return ctx.number(0) };
    let (mut batch, path) = (Batch::default(), asked.path(paths)?);
    if !path.is_root() {
        each(&path, root, &mut budget, &mut |value, steps, memory| {
            push(&mut batch, root, (value, steps), Action::Remove, (memory, 0))
        })?;
        batch.settle();
        if batch.is_empty() {
            return ctx.number(0);
        }
    }
    let removed = batch.len().max(1);
    // Removing the last value removes the document.
    if path.is_root() || batch.empties(root) {
        ks.name_events(Naming::Stated);
        ks.remove(db, key);
        ctx.event(class::MODULE, "json.del", key.bytes);
    } else {
        Plan::of(root, batch, &mut budget.memory)?.carry_out(ks, db, key)?;
    }
    ctx.number(removed as i64)
}

/// `JSON.CLEAR key [path]`
pub(super) fn clear(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.args().len() > 3 {
        return Err(ctx.wrong_arity());
    }
    let (key, db, path) = (ctx.key(1), ctx.db(), path_at(ctx, 2)?);
    let mut budget = Budget::of(&ctx.exec.ks, path);
    let Executor { ks, paths, .. } = &mut *ctx.exec;
    let root = document(ks.look(db, key))?.ok_or(NO_KEY)?;
    let mut batch = Batch::default();
    each(&*path.path(paths)?, root, &mut budget, &mut |value, steps, memory| {
        let Some(text) = cleared(value) else { return Ok(()) };
        let tape = parse(text, Parse::default()).map(Document::into_tape);
        let action = Action::Set(tape.unwrap_or_default().into());
        push(&mut batch, root, (value, steps), action, (memory, 0))
    })?;
    batch.settle();
    let cleared = batch.len();
    Plan::of(root, batch, &mut budget.memory)?.carry_out(ks, db, key)?;
    ctx.number(cleared as i64)
}

/// Cleared form of a value; `None` if it is cleared already, or of a kind that cannot be cleared.
fn cleared(value: Value<'_>) -> Option<&'static [u8]> {
    let is_zero = |value: Value<'_>| value.number().is_none_or(|number| number.as_f64() == 0.0);
    match value.kind() {
        Kind::Array if !value.is_empty() => Some(b"[]"),
        Kind::Object if !value.is_empty() => Some(b"{}"),
        Kind::Integer | Kind::Double if !is_zero(value) => Some(b"0"),
        _ => None,
    }
}
