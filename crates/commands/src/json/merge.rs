//! JSON.MERGE: patches as RFC 7396 has them.

use super::set::{Setting, adding};
use super::{
    FOUND_TOO_MUCH, MOVED_MAX, NO_ROOT, Plan, document, each, fits, path_at, push, value_at,
};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use petrel_json::Action;
use petrel_json::{
    Batch, Change, Document, Edit, Kind, Misfit, Op, Parse, Path, Place, Step, Value,
    merge as changes_of, merged, without_nulls,
};
use petrel_keyspace::{Handle, JsonChange, Key};

/// Bytes that merges into values that lie in each other may copy.
const COPIED_MAX: usize = 1 << 30;
/// How many members may be compared by their names to find out what a patch changes.
const COMPARED_MAX: usize = 1 << 24;

/// `JSON.MERGE key path value`
pub(super) fn merge(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.args().len() != 4 {
        return Err(ctx.wrong_arity());
    }
    let (path, patch) = (path_at(ctx, 2)?, value_at(ctx, 3, Parse::default())?);
    let (key, db) = (ctx.key(1), ctx.db());
    let ks = &mut ctx.exec.ks;
    let merging = merging(document(ks.look(db, key))?, &path, patch.root())?;
    match merging.carry_out(ks, (db, key), &path)? {
        true => ctx.reply.simple("OK"),
        false => ctx.reply.null(),
    }
    Ok(())
}

/// A change of a merge: a value is set at a place, or what is there removed.
type Changed<'p> = (Vec<Step<'p>>, Option<Document>);

/// What merging a patch into the values at a path comes to.
enum Merging<'p> {
    /// The key gets this document.
    Root(Document),
    /// Something changes inside of one value.
    Changes(Vec<Changed<'p>>),
    /// Values are set; what is merged where nothing is.
    Values(Setting, Document),
}

impl Merging<'_> {
    /// Merges; whether everything is merged that was to be.
    fn carry_out(
        &self,
        ks: &mut Handle,
        (db, key): (u16, Key<'_>),
        path: &Path,
    ) -> Result<bool, Fail> {
        match self {
            Merging::Root(document) => {
                ks.json_change(db, key, JsonChange::Put { tape: document.tape() })?;
            }
            Merging::Changes(changes) => {
                for (place, value) in changes {
                    let op = value.as_ref().map_or(Op::Remove { count: 1 }, |v| Op::Set(v.tape()));
                    ks.json_change(db, key, JsonChange::At(Change { place, op }))?;
                }
            }
            Merging::Values(setting, value) => {
                return setting.carry_out(ks, (db, key), path, value);
            }
        }
        Ok(true)
    }
}

/// What merging a patch into what a path finds comes to; of no document if there is no such key.
fn merging<'p>(
    root: Option<Value<'_>>,
    path: &'p Path,
    patch: Value<'p>,
) -> Result<Merging<'p>, Fail> {
    let Some(root) = root else {
        return match path.is_root() {
            true => Ok(Merging::Root(without_nulls(patch))),
            false => Err(NO_ROOT),
        };
    };
    if let (Some(steps), Some(target)) = (path.steps(), path.find_static(root))
        && let Some(changes) = few_changes(&steps, root, target, patch)
    {
        return Ok(Merging::Changes(changes));
    }
    if path.is_root() {
        let merged = merged(root, patch);
        let is_fit = fits(0, merged.root().depth());
        return if is_fit { Ok(Merging::Root(merged)) } else { Err(Misfit::TooDeep.into()) };
    }
    let setting = merging_all(root, path, patch)?;
    Ok(Merging::Values(setting, without_nulls(patch)))
}

/// The changes that a patch makes in one value of a document, unless they are so many that it is
/// less to set the value.
fn few_changes<'p>(
    steps: &[Step<'p>],
    root: Value<'_>,
    target: Value<'_>,
    patch: Value<'p>,
) -> Option<Vec<Changed<'p>>> {
    // A member takes two bytes at least.
    if (patch.tape().len() / 2).saturating_mul(target.tape().len() / 2) > COMPARED_MAX {
        return None;
    }
    let changes = changes_of(steps, Some(target), patch);
    let mut weight = 0;
    for (place, value) in &changes {
        let op = value.as_ref().map_or(Op::Remove { count: 1 }, |value| Op::Set(value.tape()));
        let depth = value.as_ref().map_or(0, |value| value.root().depth());
        if !fits(place.len(), depth) || place.is_empty() && value.is_none() {
            return None;
        }
        weight += Change { place, op }.weight();
    }
    let moved = changes.len().saturating_mul(root.tape().len());
    let is_less = weight < target.tape().len() && moved <= MOVED_MAX;
    (is_less || changes.len() <= 1).then_some(changes)
}

fn merging_all(root: Value<'_>, path: &Path, patch: Value<'_>) -> Result<Setting, Fail> {
    let (mut batch, mut is_all, mut places) = (Batch::default(), true, Vec::new());
    each(path, root, &mut |target, steps| {
        places.push(Place::of(steps));
        if patch.kind() == Kind::Null {
            return push(&mut batch, root, (target, steps), Action::Remove);
        }
        let merged = merged(target, patch);
        if !fits(steps.len(), merged.root().depth()) {
            is_all = false;
            return Ok(());
        }
        push(&mut batch, root, (target, steps), Action::Set(merged.into_tape()))
    })?;
    if places.is_empty() {
        return match patch.kind() {
            // It removes nothing.
            Kind::Null => Ok(Setting::Nothing),
            _ => adding(root, path, &without_nulls(patch)),
        };
    }
    let count = batch.len();
    batch.settle();
    if batch.len() == count || patch.kind() == Kind::Null {
        return Ok(Setting::Values(Plan::of(root, batch)?, is_all));
    }
    let (document, is_all) = merged_inside(root, &places, patch)?;
    Ok(Setting::Values(Plan::Whole(document), is_all))
}

/// Merges into values that lie in each other: the outer ones first, then what is left of the inner
/// ones. Returns the document, and whether no value would have become too deep.
fn merged_inside(
    root: Value<'_>,
    places: &[Place],
    patch: Value<'_>,
) -> Result<(Document, bool), Fail> {
    let (mut tape, mut is_all, mut copied) = (root.tape().to_vec(), true, 0);
    for place in places {
        copied += tape.len();
        if copied > COPIED_MAX {
            return Err(FOUND_TOO_MUCH);
        }
        let place = place.steps();
        let Some(target) = value_of(Value::new(&tape), &place) else { continue };
        let merged = merged(target, patch);
        if !fits(place.len(), merged.root().depth()) {
            is_all = false;
            continue;
        }
        let change = Change { place: &place, op: Op::Set(merged.tape()) };
        Edit::of(&tape, &change)?.apply(&mut tape);
    }
    Ok((Document::of(Value::new(&tape)), is_all))
}

/// The value at a place, if there is one.
fn value_of<'d>(root: Value<'d>, place: &[Step<'_>]) -> Option<Value<'d>> {
    place.iter().try_fold(root, |value, step| match step {
        Step::Name(name) => value.member(name),
        Step::Index(index) => value.item(*index),
    })
}
