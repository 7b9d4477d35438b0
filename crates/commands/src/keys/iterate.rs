//! Iteration over the keys of a database: KEYS, SCAN and RANDOMKEY. Stripes are locked one at a
//! time and for a few keys, so that a scan of many keys delays no other command for long.

use crate::arguments::scan::{self, Found, Options, Scanned};
use crate::cluster::{Cluster, Primary};
use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::glob::{Case, Pattern};
use crate::keys::cluster_cursor::ClusterCursor;
use crate::modes::Modes;
use crate::server::state::ServerState;
use crate::spec::{CommandSpec, Locks};
use petrel_keyspace::{Cursor, View};
use petrel_table::commands as meta;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::KEYS, keys).locking(Locks::Itself),
    CommandSpec::new(&meta::SCAN, scan).locking(Locks::Itself),
    CommandSpec::new(&meta::RANDOMKEY, randomkey).locking(Locks::Itself),
];

/// Keys scanned per lock of a stripe: the number doubles while a scan takes no longer than
/// [`HOLD_NANOS`], and halves otherwise.
const KEYS_PER_HOLD_FIRST: usize = 8;
const KEYS_PER_HOLD_MAX: usize = 512;
const HOLD_NANOS: u64 = 200_000;

/// Keys between two checks whether [`scan_keys`] is to end.
const KEYS_PER_WALK: usize = 4096;

/// Work units for scanning a key.
const UNITS_PER_KEY: usize = 8;

/// Maximum number of draws for a key of a slot of this node.
const OWN_TRIES: usize = 100;

/// `KEYS pattern`
fn keys(ctx: &mut Ctx<'_>) -> Outcome {
    let pattern = Pattern::new(ctx.arg(1), Case::Sensitive);
    let named = |key: &[u8]| pattern.matches(key);
    let (_, found) = walk(ctx, Cursor::default(), usize::MAX, &named, &|_| true)?;
    found.write(ctx);
    Ok(())
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
fn scan(ctx: &mut Ctx<'_>) -> Outcome {
    let cursor = Cursor::from_number(scan::cursor(ctx, 1)?);
    let options = Options::parse(ctx, 2, Scanned::Keys)?;
    let named = |key: &[u8]| options.admits(key);
    let typed = |view: &View<'_>| {
        let is_type = |name: &[u8]| name.eq_ignore_ascii_case(view.type_of().name().as_bytes());
        options.type_name.is_none_or(is_type)
    };
    if let Some(cluster) = own_keys_only(ctx) {
        let named = |key: &[u8]| is_own(key, &*cluster) && named(key);
        let (cursor, found) = walk(ctx, cursor, options.count, &named, &typed)?;
        return found.write_with_cursor(ctx, cursor.number());
    }
    let Some(cluster) = ctx.exec.shared.cluster_of_few().cloned() else {
        let (cursor, found) = walk(ctx, cursor, options.count, &named, &typed)?;
        return found.write_with_cursor(ctx, cursor.number());
    };
    let stripes = ctx.exec.ks.keyspace().stripes() as usize;
    let Some(at) = ClusterCursor::read(cursor.number(), stripes, &*cluster) else {
        return Found::default()
            .write_with_cursor(ctx, ClusterCursor::restarted(stripes, &*cluster));
    };
    let named = |key: &[u8]| is_own(key, &*cluster) && named(key);
    let (next, found) = walk(ctx, at.local(), options.count, &named, &typed)?;
    found.write_with_cursor(ctx, at.go_on(next, stripes, &*cluster))
}

/// The cluster, if the client is one of Redis Cluster, which is shown the keys of this node's slots
/// only.
fn own_keys_only(ctx: &Ctx<'_>) -> Option<Arc<dyn Cluster>> {
    let shared = &ctx.exec.shared;
    let cluster = shared.cluster.get().filter(|_| shared.is_in_state(ServerState::Clustered));
    cluster.filter(|_| ctx.session.is(Modes::CLUSTER_CLIENT)).cloned()
}

/// Whether this node is the primary of a key.
fn is_own(key: &[u8], cluster: &dyn Cluster) -> bool {
    cluster.primary_of(cluster.slot_of(key)) == Primary::Here
}

/// Scans `count` keys or a few more, and keeps those with a matching name and type. Removes expired
/// keys with a matching name; in Valkey's dialect those with matching name and type. Gives up if a
/// slow script holds a stripe.
fn walk(
    ctx: &mut Ctx<'_>,
    mut cursor: Cursor,
    mut count: usize,
    named: &dyn Fn(&[u8]) -> bool,
    typed: &dyn Fn(&View<'_>) -> bool,
) -> Result<(Cursor, Found), Fail> {
    let db = ctx.db();
    let by_type = ctx.dialect().is_valkey();
    let removable = |view: &View<'_>| named(view.key()) && (!by_type || typed(view));
    let mut found = Found::default();
    let gives_way = ctx.gives_way() && ctx.exec.helping.is_none();
    let shared = ctx.exec.shared.clone();
    let is_kept = || shared.scripts.running.is_busy() || gives_way && shared.long.any();
    let mut per_hold = KEYS_PER_HOLD_FIRST;
    loop {
        let began = ctx.exec.now();
        let (mut seen, mut units) = (0, 0);
        let each = |view: View<'_>| {
            seen += 1;
            units += UNITS_PER_KEY + view.key().len() / 64;
            if named(view.key()) && typed(&view) {
                found.push(view.key());
            }
        };
        let at_once = count.min(per_hold);
        // A script scans stripes that it holds itself.
        let next = ctx.exec.ks.scan_unless(db, cursor, at_once, &removable, each, is_kept);
        let Some(next) = next else { return Err(ctx.exec.kept_out()) };
        cursor = next;
        let nanos = ctx.exec.nanos_between(began, ctx.exec.now());
        let is_long = nanos > HOLD_NANOS;
        per_hold = if is_long { per_hold / 2 } else { per_hold * 2 }.clamp(1, KEYS_PER_HOLD_MAX);
        count = count.saturating_sub(seen);
        if cursor == Cursor::default() || count == 0 {
            return Ok((cursor, found));
        }
        if !ctx.exec.yield_within_unless_busy() {
            return Err(ctx.exec.kept_out());
        }
        // Pattern matching may have taken longer than estimated.
        ctx.pace(units.max(nanos as usize / 16))?;
    }
}

/// Calls `visit` with each key of the selected database, until it breaks. Keys that are added or
/// removed meanwhile may be missed.
pub(crate) fn scan_keys(
    ctx: &mut Ctx<'_>,
    visit: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Outcome {
    let visit = RefCell::new((visit, false));
    let typed = |view: &View<'_>| {
        let (visit, is_over) = &mut *visit.borrow_mut();
        *is_over = *is_over || visit(view.key()).is_break();
        false
    };
    let mut cursor = Cursor::default();
    loop {
        (cursor, _) = walk(ctx, cursor, KEYS_PER_WALK, &|_| true, &typed)?;
        if cursor == Cursor::default() || visit.borrow().1 {
            return Ok(());
        }
    }
}

/// `RANDOMKEY`
fn randomkey(ctx: &mut Ctx<'_>) -> Outcome {
    let cluster = own_keys_only(ctx).or_else(|| ctx.exec.shared.cluster_of_few().cloned());
    let key = match cluster {
        Some(cluster) => random_own(ctx, &*cluster)?,
        None => draw(ctx),
    };
    match key {
        Some(key) => ctx.reply.bulk(&key),
        None => ctx.reply.null(),
    }
    Ok(())
}

fn draw(ctx: &mut Ctx<'_>) -> Option<Vec<u8>> {
    let db = ctx.db();
    let crate::Executor { ks, random, .. } = &mut *ctx.exec;
    ks.random_key(db, &mut || random.next())
}

/// A random key of a slot of this node; the first such key if no draw hits one.
fn random_own(ctx: &mut Ctx<'_>, cluster: &dyn Cluster) -> Result<Option<Vec<u8>>, Fail> {
    for _ in 0..OWN_TRIES {
        match draw(ctx) {
            Some(key) if !is_own(&key, cluster) => {}
            drawn => return Ok(drawn),
        }
    }
    let mut cursor = Cursor::default();
    loop {
        let own = |key: &[u8]| is_own(key, cluster);
        let (next, found) = walk(ctx, cursor, KEYS_PER_HOLD_MAX, &own, &|_| true)?;
        if let Some(first) = found.first() {
            return Ok(Some(first.to_vec()));
        }
        cursor = next;
        if cursor == Cursor::default() {
            return Ok(None);
        }
    }
}
