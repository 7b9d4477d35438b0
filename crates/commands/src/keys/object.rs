//! OBJECT: the encoding and the usage of a value.

use crate::ctx::Ctx;
use crate::fail::{Fail, Outcome};
use crate::server::help::help;
use crate::spec::CommandSpec;
use petrel_keyspace::Key;
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[CommandSpec::container(
    &meta::OBJECT,
    &[
        CommandSpec::new(&meta::OBJECT_ENCODING, encoding),
        CommandSpec::new(&meta::OBJECT_FREQ, freq),
        CommandSpec::new(&meta::OBJECT_HELP, help),
        CommandSpec::new(&meta::OBJECT_IDLETIME, idletime),
        CommandSpec::new(&meta::OBJECT_REFCOUNT, refcount),
    ],
)];

/// `OBJECT ENCODING key`
fn encoding(ctx: &mut Ctx<'_>) -> Outcome {
    let Some(key) = existing(ctx) else { return Ok(()) };
    if let Some(view) = ctx.exec.ks.peek(ctx.session.db, key) {
        // Valkey has no compact encoding for hashes with field expiry or with common fields.
        let is_valkey = ctx.exec.shared.dialect().is_valkey();
        let encoding = match view.encoding() {
            "listpackex" | "template-array" if is_valkey => "hashtable",
            "template-listpack" if is_valkey => "listpack",
            other => other,
        };
        ctx.reply.bulk(encoding.as_bytes());
    }
    Ok(())
}

/// `OBJECT FREQ key`
fn freq(ctx: &mut Ctx<'_>) -> Outcome {
    let Some(key) = existing(ctx) else { return Ok(()) };
    let frequency = ctx.exec.ks.frequency(ctx.session.db, key).ok_or(Fail::fixed(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
    ))?;
    ctx.number(frequency.into())
}

/// `OBJECT IDLETIME key`
fn idletime(ctx: &mut Ctx<'_>) -> Outcome {
    let Some(key) = existing(ctx) else { return Ok(()) };
    let is_lfu = ctx.exec.ks.keyspace().policy().is_lfu();
    let untracked = if is_lfu {
        "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
    } else {
        "ERR The maxmemory policy in force keeps no idle time."
    };
    let seconds = ctx.exec.ks.idle_seconds(ctx.session.db, key).ok_or(Fail::fixed(untracked))?;
    ctx.number(seconds.into())
}

/// `OBJECT REFCOUNT key`: values are not shared between keys
fn refcount(ctx: &mut Ctx<'_>) -> Outcome {
    match existing(ctx) {
        Some(_) => ctx.number(1),
        None => Ok(()),
    }
}

/// The key at argument 2; if it does not exist, replies with null.
fn existing<'a>(ctx: &mut Ctx<'a>) -> Option<Key<'a>> {
    let key = ctx.key(2);
    let found = ctx.exec.ks.peek(ctx.session.db, key).is_some();
    ctx.exec.ks.count_read(found);
    if !found {
        ctx.reply.null();
    }
    found.then_some(key)
}
