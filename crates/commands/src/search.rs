//! The query engine's commands: `FT.*` over indexes of hashes.
//!
//! | file | holds |
//! |---|---|
//! | `definitions`, `state` | definitions as auxiliary state; live indexes that follow them |
//! | `create` | `FT.CREATE`, `FT.ALTER` |
//! | `manage` | dropping, listing, aliases, tags |
//! | `query` | options of `FT.SEARCH`, its run |
//! | `load` | hits, read and tested again under their locks |
//! | `reply` | replies of `FT.SEARCH` |
//! | `info` | `FT.INFO` |

mod arguments;
mod create;
mod definitions;
mod info;
mod load;
mod manage;
mod query;
mod reply;
mod state;

pub(crate) use state::DEFINITIONS;
pub use state::SearchState;

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::server::state::ServerState;
use crate::spec::{CommandSpec, Locks};
use definitions::Definitions;
use petrel_search::index::live::Live;
use petrel_search::index::schema::Schema;
use petrel_table::commands as meta;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::FT_CREATE, create::create).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_ALTER, create::alter).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_DROPINDEX, manage::drop_index).locking(Locks::Itself),
    CommandSpec::new(&meta::FT__LIST, manage::list).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_ALIASADD, manage::alias_add).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_ALIASUPDATE, manage::alias_update).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_ALIASDEL, manage::alias_delete).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_TAGVALS, manage::tag_values).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_INFO, info::info).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_SEARCH, query::search).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_EXPLAIN, query::explain).locking(Locks::Itself),
    CommandSpec::new(&meta::FT_EXPLAINCLI, query::explain_lines).locking(Locks::Itself),
];

const NO_PERMISSION: Fail =
    Fail::fixed("NOPERM User does not have the required permissions to query the index");

/// An index that a command works on.
struct OpenIndex {
    name: Box<[u8]>,
    live: Arc<Live>,
    schema: Arc<Schema>,
}

/// The name of an index, the first argument.
fn name_argument<'a>(ctx: &Ctx<'a>) -> Result<&'a [u8], Fail> {
    ctx.args().get(1).copied().ok_or_else(|| ctx.wrong_arity())
}

/// Rejects a command in a cluster, whose members have only some of the documents.
fn refuse_in_cluster(ctx: &Ctx<'_>) -> Outcome {
    let shared = &ctx.exec.shared;
    if shared.cluster.get().is_some() && shared.is_in_state(ServerState::Clustered) {
        return Err(Fail::fixed("ERR indexes are not available in a cluster yet"));
    }
    Ok(())
}

/// The index of a name or an alias in the selected database.
///
/// # Errors
/// `unknown` if there is none; or the user may not read all of its keys.
fn open(ctx: &mut Ctx<'_>, name: &[u8], unknown: impl FnOnce() -> Fail) -> Result<OpenIndex, Fail> {
    refuse_in_cluster(ctx)?;
    ctx.exec.ks.see_indexes();
    let db = ctx.db();
    let definitions = ctx.exec.aux::<Definitions>();
    let Some(definition) = definitions.find(db, name) else { return Err(unknown()) };
    let view = ctx.exec.ks.keyspace().indexes().view();
    let found = view.indexes.iter().find(|covering| covering.live.id == definition.id);
    let Some(covering) = found else { return Err(unknown()) };
    let prefixes = &covering.schema.prefixes;
    if !may_read(ctx, prefixes) {
        return Err(NO_PERMISSION);
    }
    covering.live.uses.fetch_add(1, Relaxed);
    covering.live.used_at_ms.store(ctx.exec.ks.now_ms() as u64, Relaxed);
    Ok(OpenIndex {
        name: definitions.name_of(db, name).into(),
        live: covering.live.clone(),
        schema: covering.schema.clone(),
    })
}

/// Whether the user may read every key of these prefixes.
fn may_read(ctx: &mut Ctx<'_>, prefixes: &[Box<[u8]>]) -> bool {
    if ctx.exec.user(ctx.session).is_some_and(|user| user.may_do_everything()) {
        return true;
    }
    let db = ctx.db();
    let permissions = ctx.exec.permissions(ctx.session);
    permissions
        .is_some_and(|own| prefixes.iter().all(|prefix| own.allow_reading_prefix(db, prefix)))
}

/// Changes the definitions, records them, and makes the indexes follow.
fn change_definitions<R>(
    ctx: &mut Ctx<'_>,
    change: impl FnOnce(&mut Definitions) -> Result<R, Fail>,
) -> Result<R, Fail> {
    let result = ctx.exec.change_aux(change)?;
    ctx.exec.shared.follow_definitions();
    ctx.exec.ks.see_indexes();
    Ok(result)
}

/// Drops the indexes of a database that was flushed, or of all.
pub(crate) fn forget_indexes(ctx: &mut Ctx<'_>, db: Option<u16>) -> Outcome {
    let definitions = ctx.exec.aux::<Definitions>();
    let is_there = definitions.indexes.keys().any(|(of, _)| db.is_none_or(|db| *of == db));
    if !is_there {
        return Ok(());
    }
    change_definitions(ctx, |all| {
        all.clear(db);
        Ok(())
    })
}

/// Moves the definitions of two databases that were swapped.
pub(crate) fn swap_indexes(ctx: &mut Ctx<'_>, a: u16, b: u16) -> Outcome {
    if a == b || ctx.exec.aux::<Definitions>().indexes.is_empty() {
        return Ok(());
    }
    change_definitions(ctx, |all| {
        all.swap(a, b);
        Ok(())
    })
}
