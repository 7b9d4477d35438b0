//! What replaces and removes values: JSON.SET, JSON.MSET, JSON.DEL, JSON.CLEAR.

use super::{Asked, NO_KEY, NO_ROOT, Plan, document, each, fits, path_at, push, value_at};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use petrel_json::{
    Action, Batch, Change, Document, FloatType, Kind, Op, Parse, Path, Value, parse,
};
use petrel_keyspace::event::class;
use petrel_keyspace::{Handle, JsonChange, Key, Naming};
use petrel_table::options::{JsonSetOption, Unread};
use std::rc::Rc;

const NOT_STATIC: Fail = Fail::fixed("Err wrong static path");

/// What JSON.SET demands of its path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Condition {
    None,
    /// Nothing is there.
    Nothing,
    /// Something is there.
    Something,
}

/// What setting a value at a path comes to.
pub(super) enum Setting {
    /// The key gets the value.
    Root,
    /// Values change. Some others would have become too deep, if `false`, and stay what they are.
    Values(Plan, bool),
    /// The value is set at the place that the path names.
    Static,
    /// Nothing changes.
    Nothing,
}

impl Setting {
    /// Sets the value; whether all is set that was to be.
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

/// What setting a value comes to where there is no document.
fn creating(path: Asked<'_>, condition: Condition) -> Result<Setting, Fail> {
    match (condition, path.is_root()) {
        (Condition::Something, _) => Ok(Setting::Nothing),
        (_, true) => Ok(Setting::Root),
        (_, false) => Err(NO_ROOT),
    }
}

/// What setting a value comes to, and the path in a document.
fn prepare(
    root: Option<Value<'_>>,
    asked: Asked<'_>,
    value: &Document,
    condition: Condition,
) -> Result<(Setting, Option<Rc<Path>>), Fail> {
    let Some(root) = root else {
        return Ok((creating(asked, condition)?, None));
    };
    let path = asked.path()?;
    Ok((setting(root, &path, value, condition)?, Some(path)))
}

/// What setting a value at a path of a document comes to.
fn setting(
    root: Value<'_>,
    path: &Path,
    value: &Document,
    condition: Condition,
) -> Result<Setting, Fail> {
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
    each(path, root, &mut |found, steps| {
        any = true;
        if !fits(steps.len(), depth) {
            is_all = false;
            return Ok(());
        }
        push(&mut batch, root, (found, steps), Action::Set(value.tape().to_vec()))
    })?;
    match (any, condition) {
        (true, Condition::Nothing) | (false, Condition::Something) => Ok(Setting::Nothing),
        (true, _) => Ok(Setting::Values(Plan::of(root, batch)?, is_all)),
        (false, _) => adding(root, path, value),
    }
}

/// What setting a value comes to where nothing is: an object may get another member.
pub(super) fn adding(root: Value<'_>, path: &Path, value: &Document) -> Result<Setting, Fail> {
    if !path.is_static() {
        return Err(NOT_STATIC);
    }
    let Some(name) = path.last_name() else {
        return Err(Fail::fixed("ERR array index out of range"));
    };
    let (mut batch, depth) = (Batch::default(), value.root().depth());
    path.find_parents(root, &mut |parent, steps| {
        if parent.kind() == Kind::Object && fits(steps.len() + 1, depth) {
            let action = Action::Add(name.to_vec(), value.tape().to_vec());
            batch.push(root, parent, steps, action);
        }
    })?;
    match batch.is_empty() {
        true => Ok(Setting::Nothing),
        false => Ok(Setting::Values(Plan::of(root, batch)?, true)),
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
    let ks = &mut ctx.exec.ks;
    let root = document(ks.look(db, key))?;
    let value = value?;
    let (setting, path) = prepare(root, asked, &value, condition)?;
    match setting.carry_out(ks, (db, key), path.as_deref(), &value)? {
        true => ctx.reply.simple("OK"),
        false => ctx.reply.null(),
    }
    Ok(())
}

/// `JSON.MSET key path value [key path value ...]`: an error before anything is set is all that
/// happens.
pub(super) fn mset(ctx: &mut Ctx<'_>) -> Outcome {
    let (len, db) = (ctx.args().len(), ctx.db());
    let mut triplets = Vec::with_capacity(len / 3);
    for i in (1..len).step_by(3) {
        let (key, asked) = (ctx.key(i), path_at(ctx, i + 1)?);
        let value = match i + 2 < len {
            true => value_at(ctx, i + 2, Parse::default()),
            false => Err(ctx.wrong_arity()),
        };
        let root = document(ctx.exec.ks.look(db, key))?;
        if root.is_none() {
            creating(asked, Condition::None)?;
        }
        let path = root.map(|_| asked.path()).transpose()?;
        let value = value?;
        if let Some((root, path)) = root.zip(path) {
            setting(root, &path, &value, Condition::None)?;
        }
        triplets.push((key, asked, value));
    }
    let ks = &mut ctx.exec.ks;
    let mut is_all = true;
    for (key, asked, value) in &triplets {
        // What an earlier triplet has changed may be in the way of a later one.
        let root = document(ks.look(db, *key));
        let prepared = root.and_then(|root| prepare(root, *asked, value, Condition::None));
        is_all &= match prepared {
            // No object is where the value would be added.
            Ok((Setting::Nothing, _)) => true,
            Ok((setting, path)) => {
                setting.carry_out(ks, (db, *key), path.as_deref(), value).unwrap_or_default()
            }
            Err(_) => false,
        };
    }
    match is_all {
        true => ctx.reply.simple("OK"),
        false => ctx.reply.null(),
    }
    Ok(())
}

/// `JSON.DEL key [path]`, `JSON.FORGET key [path]`
pub(super) fn del(ctx: &mut Ctx<'_>) -> Outcome {
    let (key, db, asked) = (ctx.key(1), ctx.db(), path_at(ctx, 2)?);
    let ks = &mut ctx.exec.ks;
    let Some(root) = document(ks.look(db, key))? else { return ctx.number(0) };
    let (mut batch, path) = (Batch::default(), asked.path()?);
    if !path.is_root() {
        each(&path, root, &mut |value, steps| {
            push(&mut batch, root, (value, steps), Action::Remove)
        })?;
        batch.settle();
        if batch.is_empty() {
            return ctx.number(0);
        }
    }
    let removed = batch.len().max(1);
    // Without its last value the document is gone.
    if path.is_root() || batch.empties(root) {
        ks.name_events(Naming::Stated);
        ks.remove(db, key);
        ctx.event(class::MODULE, "json.del", key.bytes);
    } else {
        Plan::of(root, batch)?.carry_out(ks, db, key)?;
    }
    ctx.number(removed as i64)
}

/// `JSON.CLEAR key [path]`
pub(super) fn clear(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.args().len() > 3 {
        return Err(ctx.wrong_arity());
    }
    let (key, db, path) = (ctx.key(1), ctx.db(), path_at(ctx, 2)?);
    let ks = &mut ctx.exec.ks;
    let root = document(ks.look(db, key))?.ok_or(NO_KEY)?;
    let mut batch = Batch::default();
    each(&*path.path()?, root, &mut |value, steps| match cleared(value) {
        Some(text) => {
            let tape = parse(text, Parse::default()).map(Document::into_tape);
            push(&mut batch, root, (value, steps), Action::Set(tape.unwrap_or_default()))
        }
        None => Ok(()),
    })?;
    batch.settle();
    let cleared = batch.len();
    Plan::of(root, batch)?.carry_out(ks, db, key)?;
    ctx.number(cleared as i64)
}

/// What a value is when it was cleared; none if it is that already, or never is.
fn cleared(value: Value<'_>) -> Option<&'static [u8]> {
    let is_zero = |value: Value<'_>| value.number().is_none_or(|number| number.as_f64() == 0.0);
    match value.kind() {
        Kind::Array if !value.is_empty() => Some(b"[]"),
        Kind::Object if !value.is_empty() => Some(b"{}"),
        Kind::Integer | Kind::Double if !is_zero(value) => Some(b"0"),
        _ => None,
    }
}
