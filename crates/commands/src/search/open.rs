//! Opens indexes by name, with the user's permissions, and changes their definitions.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::search::definitions::{Definitions, Name};
use crate::search::dictionaries::Dictionaries;
use crate::server::state::ServerState;
use petrel_search::index::json::JsonPaths;
use petrel_search::index::live::Live;
use petrel_search::index::schema::Schema;
use petrel_search::index::texts::TextRules;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Error of a user without permission to read all keys of an index.
pub(super) const NO_PERMISSION: Fail =
    Fail::fixed("NOPERM User does not have the required permissions to query the index");

/// An index that a command works on.
pub(super) struct OpenIndex {
    pub name: Box<[u8]>,
    pub live: Arc<Live>,
    pub schema: Arc<Schema>,
    /// Paths of the fields, of JSON documents.
    pub paths: Option<Arc<JsonPaths>>,
}

impl OpenIndex {
    /// Rules of the words of the index, if it has any.
    pub fn rules(&self) -> Option<Arc<TextRules>> {
        if !self.schema.has_texts() {
            return None;
        }
        let contents = self.live.read();
        let rules = contents.texts().map(|texts| texts.rules().clone());
        Some(rules.unwrap_or_else(|| Arc::new(TextRules::of(&self.schema))))
    }
}

/// The name of an index, the first argument.
pub(super) fn name_argument<'a>(ctx: &Ctx<'a>) -> Result<&'a [u8], Fail> {
    ctx.args().get(1).copied().ok_or_else(|| ctx.wrong_arity())
}

/// Rejects a command in a cluster: a member has only some of the documents.
pub(super) fn refuse_in_cluster(ctx: &Ctx<'_>) -> Outcome {
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
pub(super) fn open(
    ctx: &mut Ctx<'_>,
    name: &[u8],
    unknown: impl FnOnce() -> Fail,
) -> Result<OpenIndex, Fail> {
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
        paths: covering.paths.clone(),
    })
}

/// Whether the user may read every key of these prefixes.
pub(super) fn may_read(ctx: &mut Ctx<'_>, prefixes: &[Box<[u8]>]) -> bool {
    if ctx.exec.user(ctx.session).is_some_and(|user| user.may_do_everything()) {
        return true;
    }
    let db = ctx.db();
    let permissions = ctx.exec.permissions(ctx.session);
    permissions
        .is_some_and(|own| prefixes.iter().all(|prefix| own.allow_reading_prefix(db, prefix)))
}

/// Changes the definitions, records them, and makes the indexes follow.
pub(super) fn change_definitions<R>(
    ctx: &mut Ctx<'_>,
    change: impl FnOnce(&mut Definitions) -> Result<R, Fail>,
) -> Result<R, Fail> {
    let result = ctx.exec.change_aux(change)?;
    ctx.exec.shared.follow_definitions();
    ctx.exec.ks.see_indexes();
    Ok(result)
}

/// Drops the indexes and dictionaries of a database that was flushed, or of all.
pub(crate) fn forget_indexes(ctx: &mut Ctx<'_>, db: Option<u16>) -> Outcome {
    let definitions = ctx.exec.aux::<Definitions>();
    let is_of = |(of, _): &Name| db.is_none_or(|db| *of == db);
    if ctx.exec.aux::<Dictionaries>().0.keys().any(is_of) {
        ctx.exec.change_aux(|all: &mut Dictionaries| {
            all.clear(db);
            Ok(())
        })?;
    }
    if !definitions.indexes.keys().any(is_of) {
        return Ok(());
    }
    change_definitions(ctx, |all| {
        all.clear(db);
        Ok(())
    })
}

/// Moves the indexes and dictionaries of two databases that were swapped.
pub(crate) fn swap_indexes(ctx: &mut Ctx<'_>, a: u16, b: u16) -> Outcome {
    if a == b {
        return Ok(());
    }
    if !ctx.exec.aux::<Dictionaries>().0.is_empty() {
        ctx.exec.change_aux(|all: &mut Dictionaries| {
            all.swap(a, b);
            Ok(())
        })?;
    }
    if ctx.exec.aux::<Definitions>().indexes.is_empty() {
        return Ok(());
    }
    change_definitions(ctx, |all| {
        all.swap(a, b);
        Ok(())
    })
}
