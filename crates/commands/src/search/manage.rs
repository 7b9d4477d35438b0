//! Indexes are dropped and listed, get other names, and show their tags.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::long::expect;
use crate::search::definitions::Definitions;
use crate::search::open::{change_definitions, name_argument, open, refuse_in_cluster};
use petrel_search::index::field::FieldStore;

/// Work units of the removal of a document's key.
const UNITS_PER_KEY: usize = 100;
/// Keys that are removed between two looks for other threads.
const KEYS_PER_LOOK: usize = 64;

const UNKNOWN_ALIAS_TARGET: Fail = Fail::fixed("Unknown index name (or name is an alias itself)");

/// `FT.DROPINDEX index [DD]`
pub(super) fn drop_index(ctx: &mut Ctx<'_>) -> Outcome {
    let name = name_argument(ctx)?;
    let index = open(ctx, name, || Fail::fixed("Unknown Index name"))?;
    let db = ctx.db();
    let keys: Vec<Box<[u8]>> = match ctx.args().get(2) {
        Some(option) if option.eq_ignore_ascii_case(b"DD") => {
            ctx.exec.ks.wait_for_indexes();
            let contents = index.live.read();
            let rows = contents.documents().visible().iter();
            rows.filter_map(|row| Some(contents.documents().get(row)?.key.clone())).collect()
        }
        _ => Vec::new(),
    };
    expect(keys.len() * UNITS_PER_KEY, ctx.exec.units_here)?;
    change_definitions(ctx, |all| {
        all.indexes.remove(&(db, index.name.clone()));
        all.aliases.retain(|(of, _), target| *of != db || *target != index.name);
        Ok(())
    })?;
    for some in keys.chunks(KEYS_PER_LOOK) {
        for key in some {
            remove_key(ctx, key);
        }
        ctx.exec.yield_within();
    }
    ctx.ok()
}

fn remove_key(ctx: &mut Ctx<'_>, key: &[u8]) {
    let db = ctx.db();
    let ks = &mut ctx.exec.ks;
    let key = ks.key(key);
    let nested = ks.holds_any();
    if !nested {
        ks.lock(key.hash);
    }
    ks.remove(db, key);
    if !nested {
        ks.unlock();
    }
}

/// `FT._LIST`
pub(super) fn list(ctx: &mut Ctx<'_>) -> Outcome {
    refuse_in_cluster(ctx)?;
    let (db, all) = (ctx.db(), ctx.exec.aux::<Definitions>());
    let own = || all.indexes.keys().filter(|(of, _)| *of == db);
    ctx.reply.set(own().count());
    own().for_each(|(_, name)| ctx.reply.bulk(name));
    Ok(())
}

/// `FT.ALIASADD alias index`
pub(super) fn alias_add(ctx: &mut Ctx<'_>) -> Outcome {
    alias(ctx, false)
}

/// `FT.ALIASUPDATE alias index`
pub(super) fn alias_update(ctx: &mut Ctx<'_>) -> Outcome {
    alias(ctx, true)
}

fn alias(ctx: &mut Ctx<'_>, replaces: bool) -> Outcome {
    let [_, alias, name] = *ctx.args() else { return Err(ctx.wrong_arity()) };
    let db = ctx.db();
    // The target is named itself, not by an alias.
    let is_index = |all: &Definitions| all.indexes.contains_key(&(db, name.into()));
    if !is_index(&ctx.exec.aux::<Definitions>()) {
        refuse_in_cluster(ctx)?;
        return Err(UNKNOWN_ALIAS_TARGET);
    }
    open(ctx, name, || UNKNOWN_ALIAS_TARGET)?;
    change_definitions(ctx, |all| {
        if !is_index(all) {
            return Err(UNKNOWN_ALIAS_TARGET);
        }
        if !replaces && all.aliases.contains_key(&(db, alias.into())) {
            return Err(Fail::fixed("Alias already exists"));
        }
        all.aliases.insert((db, alias.into()), name.into());
        Ok(())
    })?;
    ctx.ok()
}

/// `FT.ALIASDEL alias`
pub(super) fn alias_delete(ctx: &mut Ctx<'_>) -> Outcome {
    let alias = name_argument(ctx)?;
    let db = ctx.db();
    let unknown = Fail::fixed("Alias does not exist");
    if !ctx.exec.aux::<Definitions>().aliases.contains_key(&(db, alias.into())) {
        refuse_in_cluster(ctx)?;
        return Err(unknown);
    }
    open(ctx, alias, || unknown.clone())?;
    change_definitions(ctx, |all| {
        all.aliases.remove(&(db, alias.into())).map(|_| ()).ok_or(unknown)
    })?;
    ctx.ok()
}

/// `FT.TAGVALS index field`
pub(super) fn tag_values(ctx: &mut Ctx<'_>) -> Outcome {
    let [_, name, field] = *ctx.args() else { return Err(ctx.wrong_arity()) };
    let index = open(ctx, name, || Fail::fixed("Unknown Index name"))?;
    let number = index.schema.field(field).ok_or(Fail::fixed("No such field"))?;
    ctx.exec.ks.wait_for_indexes();
    let grown = index.live.expire_fields(ctx.exec.ks.now_ms());
    ctx.exec.ks.count_foreign(grown);
    let contents = index.live.read();
    let Some(FieldStore::Tags(store)) = contents.field(number) else {
        return Err(Fail::fixed("Not a tag field"));
    };
    ctx.reply.set(store.tags().count());
    for (tag, _) in store.tags().iter() {
        ctx.reply.bulk(tag);
    }
    Ok(())
}
