//! ACL LOG.

use super::malformed;
use petrel_commands::acl::LogEntry;
use petrel_commands::{Ctx, Outcome};
use petrel_resp::Protocol;

/// Default number of entries shown.
const COUNT: usize = 10;

/// `ACL LOG [count | RESET]`
pub fn log(ctx: &mut Ctx<'_>) -> Outcome {
    let count = match ctx.args().len() {
        2 => COUNT,
        3 if ctx.is(2, "RESET") => {
            ctx.exec.shared.users.log.clear();
            return ctx.ok();
        }
        3 => usize::try_from(ctx.integer(2)?).unwrap_or(0),
        _ => return Err(malformed(ctx)),
    };
    let entries = ctx.exec.shared.users.log.newest(count);
    ctx.reply.array(entries.len());
    entries.iter().for_each(|entry| write_entry(ctx, entry));
    Ok(())
}

fn write_entry(ctx: &mut Ctx<'_>, entry: &LogEntry) {
    let age_ms = (ctx.exec.ks.now_ms() - entry.updated_ms).max(0);
    let age = age_ms as f64 / 1000.0;
    let reply = &mut *ctx.reply;
    reply.map(10);
    reply.bulk(b"count");
    reply.integer(entry.count as i64);
    let texts: [(&[u8], &[u8]); 4] = [
        (b"reason", entry.reason.as_bytes()),
        (b"context", entry.context.name().as_bytes()),
        (b"object", &entry.object),
        (b"username", &entry.user),
    ];
    for (name, text) in texts {
        reply.bulk(name);
        reply.bulk(text);
    }
    reply.bulk(b"age-seconds");
    match reply.protocol() {
        Protocol::Resp2 => reply.bulk(format!("{age}").as_bytes()),
        Protocol::Resp3 => reply.double(age),
    }
    reply.bulk(b"client-info");
    reply.bulk(&entry.client);
    let numbers: [(&[u8], i64); 3] = [
        (b"entry-id", entry.id as i64),
        (b"timestamp-created", entry.created_ms),
        (b"timestamp-last-updated", entry.updated_ms),
    ];
    for (name, number) in numbers {
        reply.bulk(name);
        reply.integer(number);
    }
}
