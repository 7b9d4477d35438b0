//! JSON.MERGE: merge patches (RFC 7396).

use super::budget::Budget;
use super::set::{Setting, adding};
use super::{
    FOUND_TOO_MUCH, MOVED_MAX, NO_ROOT, Plan, document, each, fits, path_at, push, value_at,
};
use crate::ctx::Ctx;
use crate::execute::Executor;
use crate::fail::{Fail, Outcome};
use petrel_json::Action;
use petrel_json::{
    Batch, Change, Document, Edit, Kind, Misfit, Op, Parse, Path, Place, Step, Value,
    merge as changes_of, merged,
};
use petrel_keyspace::{Handle, JsonChange, Key};

/// Maximum bytes that merges into nested matches may copy.
const COPIED_MAX: usize = 256 << 20;
/// Maximum number of member name comparisons to find the changes of a patch.
const COMPARED_MAX: usize = 1 << 24;

/// `JSON.MERGE key path value`
pub(super) fn merge(ctx: &mut Ctx<'_>) -> Outcome {
    if ctx.args().len() > 4 {
        return Err(Fail::SYNTAX);
    }
    let (asked, patch) = (path_at(ctx, 2)?, value_at(ctx, 3, Parse::default()));
    let (key, db) = (ctx.key(1), ctx.db());
    let mut budget = Budget::of(&ctx.exec.ks, asked);
    let Executor { ks, paths, .. } = &mut *ctx.exec;
    let root = document(ks.look(db, key))?;
    let patch = patch?;
    if root.is_none() && !asked.is_root() {
        return Err(NO_ROOT);
    }
    let path = asked.path(paths)?;
    let merging = merging(root, &path, patch.root(), &mut budget)?;
    if merging.carry_out(ks, (db, key))? {
        ctx.reply.simple("OK")
    } else {
        ctx.reply.null()
    }
    Ok(())
}

/// Change of a merge: the value to set at a place, or `None` to remove it.
type Changed<'p> = (Vec<Step<'p>>, Option<Document>);

/// Result of merging a patch into the values at a path.
enum Merging<'p> {
    /// The key gets this document.
    Root(Document),
    /// Changes inside of one value.
    Changes(Vec<Changed<'p>>),
    /// Changes of values; `false` if some were left as they are because they would become too deep.
    Values(Plan<'p>, bool),
    /// Nothing changes.
    Nothing,
}

impl Merging<'_> {
    /// Carries out the merge; returns whether it is complete.
    fn carry_out(&self, ks: &mut Handle, (db, key): (u16, Key<'_>)) -> Result<bool, Fail> {
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
            Merging::Values(plan, is_all) => {
                plan.carry_out(ks, db, key)?;
                return Ok(*is_all);
            }
            Merging::Nothing => return Ok(false),
        }
        Ok(true)
    }
}

/// Merges a patch into the matches of a path. `root` is `None` if the key does not exist.
fn merging<'p>(
    root: Option<Value<'_>>,
    path: &'p Path,
    patch: Value<'p>,
    budget: &mut Budget,
) -> Result<Merging<'p>, Fail> {
    let Some(root) = root else {
        // A new document is the patch itself, with its nulls.
        return Ok(Merging::Root(Document::of(patch)));
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
    Ok(match merging_all(root, path, patch, budget)? {
        Setting::Values(plan, is_all) => Merging::Values(plan, is_all),
        _ => Merging::Nothing,
    })
}

/// Changes that a patch makes in one value of a document; `None` if setting the whole value takes
/// less.
fn few_changes<'p>(
    steps: &[Step<'p>],
    root: Value<'_>,
    target: Value<'_>,
    patch: Value<'p>,
) -> Option<Vec<Changed<'p>>> {
    if patch.kind() == Kind::Null {
        return Some(vec![(steps.to_vec(), Some(Document::of(patch)))]);
    }
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

fn merging_all<'p>(
    root: Value<'_>,
    path: &Path,
    patch: Value<'p>,
    budget: &mut Budget,
) -> Result<Setting<'p>, Fail> {
    let (mut batch, mut is_all, mut places) = (Batch::default(), true, Vec::new());
    let (mut held, mut count) = (merging_bytes(patch), 0);
    each(path, root, budget, &mut |target, steps, memory| {
        if !batch.may_push(root, target) {
            return Ok(());
        }
        let place = Place::of(steps);
        held += size_of::<Place>() + place.footprint();
        places.push(place);
        let merged = merged(target, patch);
        if !fits(steps.len(), merged.root().depth()) {
            is_all = false;
            return Ok(());
        }
        count += 1;
        let action = Action::Set(merged.into_tape().into());
        push(&mut batch, root, (target, steps), action, (memory, held))
    })?;
    if places.is_empty() {
        // The added value is the patch itself, with its nulls.
        return adding(root, path, patch, budget);
    }
    batch.settle();
    if batch.len() == count || patch.kind() == Kind::Null {
        return Ok(Setting::Values(Plan::of(root, batch, &mut budget.memory)?, is_all));
    }
    budget.memory.hold(held + batch.footprint() + 3 * (root.tape().len() + patch.tape().len()))?;
    let (document, is_all) = merged_inside(root, &places, patch)?;
    Ok(Setting::Values(Plan::Whole(document), is_all))
}

/// Memory for the table of a patch's members, in bytes.
fn merging_bytes(patch: Value<'_>) -> usize {
    /// A name and a value, and a byte of the table, which is half full.
    const PER_MEMBER: usize = 2 * (size_of::<(&[u8], Value<'_>)>() + 1);
    patch.members().map(|(_, value)| PER_MEMBER + merging_bytes(value)).sum()
}

/// Merges into nested matches: outer ones first, then the inner ones that still exist. Returns the
/// document, and whether no value would have become too deep.
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
