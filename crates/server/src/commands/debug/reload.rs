//! DEBUG RELOAD: every value through its serialised form and back, or the data from the file.

use crate::host::ServerHost;
use petrel_commands::{Ctx, Fail, Outcome};
use petrel_keyspace::{Cursor, Handle};
use petrel_persistence::rdb::{Dialect, Leniency};
use petrel_persistence::value;
use std::sync::atomic::Ordering::Relaxed;

/// Keys that are known at a time.
const KEYS_AT_ONCE: usize = 1024;

/// `DEBUG RELOAD [MERGE] [NOFLUSH] [NOSAVE]`: the data is saved, and each key is written to memory
/// and read again, which leaves nothing to be said by `MERGE`; whatever is there is there already
/// for `NOFLUSH`. With `NOSAVE` it is loaded from the file.
pub fn reload(ctx: &mut Ctx<'_>) -> Outcome {
    const FAILED: Fail = Fail::fixed("ERR Error trying to load the RDB dump, check server logs.");
    for i in 2..ctx.args().len() {
        if !ctx.is(i, "MERGE") && !ctx.is(i, "NOFLUSH") && !ctx.is(i, "NOSAVE") {
            return Err(Fail::fixed(
                "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
            ));
        }
    }
    let says = |word: &str| (2..ctx.args().len()).any(|i| ctx.is(i, word));
    let (keeps, merges, loads) = (says("NOFLUSH"), says("MERGE"), says("NOSAVE"));
    let server = ServerHost::of(ctx).server.clone();
    let ks = &mut ctx.exec.ks;
    if loads {
        if ks.holds_any() {
            return Err(FAILED);
        }
        server.reload_snapshot(ks, keeps, merges).map_err(|why| {
            tracing::error!("DEBUG RELOAD: {why}");
            FAILED
        })?;
        return ctx.ok();
    }
    let config = server.config.snapshot();
    let saved = match ks.holds_any() {
        true => server.save_holding(ks, &config),
        false => server.save(ks, &config),
    };
    // Why not is in the log.
    saved.map_err(|_| Fail::fixed("ERR"))?;
    let keyspace = ctx.exec.ks.keyspace();
    let has_keys = (0..keyspace.databases()).any(|db| keyspace.db_stats(db).keys > 0);
    if keeps && !merges && (has_keys || !ctx.exec.shared.aux_forms().is_empty()) {
        return Err(FAILED);
    }
    let ks = &mut ctx.exec.ks;
    let locks = !ks.holds_any();
    if locks {
        ks.lock_all();
    }
    let databases = ks.keyspace().databases();
    let reloaded = (0..databases).try_for_each(|db| reload_database(ks, db));
    // The reloaded data equal the saved data.
    server.snapshot.changes_then.store(server.keyspace.stats().changes, Relaxed);
    if locks {
        ks.unlock();
    }
    reloaded?;
    ctx.ok()
}

/// `DEBUG LOADAOF`: everything is loaded from the log again.
pub fn load_log(ctx: &mut Ctx<'_>) -> Outcome {
    const FAILED: Fail = Fail::fixed("ERR Error trying to load the AOF files, check server logs.");
    if ctx.exec.ks.holds_any() {
        return Err(Fail::fixed("ERR DEBUG LOADAOF cannot be used inside a transaction"));
    }
    let server = ServerHost::of(ctx).server.clone();
    server.reload_log(&mut ctx.exec.ks).map_err(|why| {
        tracing::error!("DEBUG LOADAOF: {why}");
        FAILED
    })?;
    ctx.ok()
}

fn reload_database(ks: &mut Handle, db: u16) -> Outcome {
    let mut cursor = Cursor::default();
    loop {
        let mut names = Vec::new();
        cursor = ks.scan(db, cursor, KEYS_AT_ONCE, |view| names.push(view.key().to_vec()));
        for name in names {
            reload_key(ks, db, &name)?;
        }
        if cursor == Cursor::default() {
            return Ok(());
        }
    }
}

fn reload_key(ks: &mut Handle, db: u16, name: &[u8]) -> Outcome {
    let (key, now) = (ks.key(name), ks.now_ms());
    let Some(view) = ks.peek(db, key) else { return Ok(()) };
    let expiry = view.expiry();
    let fail = |error| {
        let name = String::from_utf8_lossy(name);
        Fail::new(format!("ERR reloading '{name}' failed: {error}"))
    };
    let payload = value::dump(view, now, Dialect::Redis).map_err(fail)?;
    value::restore(ks, db, key, expiry, &payload, Leniency::default()).map_err(fail)
}
