//! DEBUG OBJECT, LISTPACK and HTSTATS: how a value is held, and how keys are.

use crate::host::ServerHost;
use petrel_commands::{Ctx, Fail, Outcome};
use petrel_keyspace::{TypeLimits, View};
use petrel_persistence::rdb::Dialect;
use petrel_persistence::value;

/// Bits of the clock by which the policies measure the time since a key was used.
const ACCESS_CLOCK_MASK: i64 = (1 << 24) - 1;

/// Bytes of a `DUMP` payload beside the value: its type, version and checksum.
const PAYLOAD_FRAME: usize = 1 + 2 + 8;

/// `DEBUG OBJECT key`: of a key that has expired too, as long as it has not been removed.
pub fn object(ctx: &mut Ctx<'_>) -> Outcome {
    let compressed = ServerHost::of(ctx).config.foreign.list_compress_depth != 0;
    let (db, key) = (ctx.session.db, ctx.exec.ks.key(ctx.arg(2)));
    let locks = !ctx.exec.ks.holds_any();
    if locks {
        ctx.exec.ks.lock(key.hash);
    }
    let ks = &mut ctx.exec.ks;
    let lives = ks.view(db, key).is_some();
    let idle = if lives { ks.idle_seconds(db, key).unwrap_or(0) } else { 0 };
    let frequency = if lives { ks.frequency(db, key) } else { None };
    let (now, keyspace) = (ks.now_ms(), ks.keyspace().clone());
    let text = ks.view_stored(db, key).map(|view| {
        let lru = (now / 1000 - i64::from(idle)) & ACCESS_CLOCK_MASK;
        let frequency = frequency.map(|n| format!(" lfu_freq:{n}")).unwrap_or_default();
        let serialized = value::dump(view, now, Dialect::Redis).map_or(0, |dump| dump.len());
        format!(
            "Value at:{:p} refcount:1 encoding:{} serializedlength:{} lru:{lru} lru_seconds_idle:{idle}{frequency}{}",
            view.key().as_ptr(),
            view.encoding(),
            serialized.saturating_sub(PAYLOAD_FRAME),
            quicklist(view, keyspace.limits(), compressed),
        )
    });
    if locks {
        ctx.exec.ks.unlock();
    }
    ctx.reply.simple(&text.ok_or(Fail::NO_SUCH_KEY)?);
    Ok(())
}

/// `DEBUG LISTPACK key`: logs the size of a small collection.
pub fn listpack(ctx: &mut Ctx<'_>) -> Outcome {
    let (db, key) = (ctx.session.db, ctx.exec.ks.key(ctx.arg(2)));
    let locks = !ctx.exec.ks.holds_any();
    if locks {
        ctx.exec.ks.lock(key.hash);
    }
    let ks = &mut ctx.exec.ks;
    let found = ks.peek(db, key).map(|view| (view.encoding(), view.footprint()));
    if locks {
        ks.unlock();
    }
    let (encoding, bytes) = found.ok_or(Fail::NO_SUCH_KEY)?;
    if !encoding.starts_with("listpack") {
        return Err(Fail::fixed("ERR Not a listpack encoded object."));
    }
    tracing::info!("DEBUG LISTPACK: {encoding} of {bytes} bytes, key included");
    ctx.reply.simple("Listpack structure printed on stdout");
    Ok(())
}

/// `DEBUG HTSTATS dbid [full]`: the tables of a database as if they were one. Expiries lie with
/// their keys, so there is no table of them.
pub fn tables(ctx: &mut Ctx<'_>) -> Outcome {
    let databases = ctx.exec.ks.keyspace().databases();
    let db = ctx.integer(2)?;
    let db = u16::try_from(db).ok().filter(|db| *db < databases);
    let db = db.ok_or(Fail::fixed("ERR Out of range database"))?;
    let keys = ctx.exec.ks.keyspace().db_stats(db).keys;
    let slots = ctx.exec.ks.table_slots(db);
    ctx.reply.verbatim(
        b"txt",
        format!(
            "[Dictionary HT]\nHash table 0 stats (main hash table):\n table size: {slots}\n \
             number of entries: {keys}\n rehashing index: -1\n[Expires HT]\n"
        )
        .as_bytes(),
    );
    Ok(())
}

/// Describes a quicklist as Redis would store it, with its nodes.
fn quicklist(view: View<'_>, limits: &TypeLimits, compressed: bool) -> String {
    let list = match view.list() {
        Ok(list) if view.encoding() == "quicklist" => list,
        _ => return String::new(),
    };
    let nodes = list.quicklist_nodes(limits);
    format!(
        " ql_nodes:{} ql_avg_node:{:.2} ql_listpack_max:{} ql_compressed:{} ql_uncompressed_size:{}",
        nodes.count,
        list.len() as f64 / nodes.count.max(1) as f64,
        limits.list_max_listpack_size(),
        u8::from(compressed),
        nodes.bytes,
    )
}
