//! SUBSCRIBE, PUBLISH and their companions; how messages travel is described in
//! [`crate::state::pubsub`].

use crate::host::ServerHost;
use crate::state::pubsub::ChannelKind;
use petrel_commands::server::help::help;
use petrel_commands::{CommandSpec, Ctx, Fail, Modes, Outcome};
use petrel_keyspace::Published;
use petrel_table::commands as meta;

/// The commands of this family.
pub static COMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::SUBSCRIBE, |ctx| subscribe(ctx, ChannelKind::Channel, b"subscribe")),
    CommandSpec::new(&meta::PSUBSCRIBE, |ctx| subscribe(ctx, ChannelKind::Pattern, b"psubscribe")),
    CommandSpec::new(&meta::SSUBSCRIBE, |ctx| subscribe(ctx, ChannelKind::Shard, b"ssubscribe")),
    CommandSpec::new(&meta::UNSUBSCRIBE, |ctx| {
        unsubscribe(ctx, ChannelKind::Channel, b"unsubscribe")
    }),
    CommandSpec::new(&meta::PUNSUBSCRIBE, |ctx| {
        unsubscribe(ctx, ChannelKind::Pattern, b"punsubscribe")
    }),
    CommandSpec::new(&meta::SUNSUBSCRIBE, |ctx| {
        unsubscribe(ctx, ChannelKind::Shard, b"sunsubscribe")
    }),
    CommandSpec::new(&meta::PUBLISH, |ctx| publish(ctx, ChannelKind::Channel)),
    CommandSpec::new(&meta::SPUBLISH, |ctx| publish(ctx, ChannelKind::Shard)),
    CommandSpec::container(&meta::PUBSUB, SUBCOMMANDS),
];

static SUBCOMMANDS: &[CommandSpec] = &[
    CommandSpec::new(&meta::PUBSUB_CHANNELS, |ctx| channels(ctx, ChannelKind::Channel)),
    CommandSpec::new(&meta::PUBSUB_NUMPAT, numpat),
    CommandSpec::new(&meta::PUBSUB_NUMSUB, |ctx| numsub(ctx, ChannelKind::Channel)),
    CommandSpec::new(&meta::PUBSUB_SHARDCHANNELS, |ctx| channels(ctx, ChannelKind::Shard)),
    CommandSpec::new(&meta::PUBSUB_SHARDNUMSUB, |ctx| numsub(ctx, ChannelKind::Shard)),
    CommandSpec::new(&meta::PUBSUB_HELP, help),
];

/// `PUBLISH channel message`, `SPUBLISH shardchannel message`
fn publish(ctx: &mut Ctx<'_>, kind: ChannelKind) -> Outcome {
    let (channel, message) = (ctx.arg(1), ctx.arg(2));
    let receivers = ServerHost::of(ctx).publish_message(kind, channel, message);
    let is_sharded = kind == ChannelKind::Shard;
    let published = Published { db: ctx.session.db, is_sharded, channel, payload: message };
    ctx.exec.ks.record_message(&published);
    ctx.number(receivers as i64)
}

/// `SUBSCRIBE channel [channel ...]` and its likes: a push for each name.
fn subscribe(ctx: &mut Ctx<'_>, kind: ChannelKind, word: &[u8]) -> Outcome {
    let names = &ctx.args()[1..];
    ServerHost::of(ctx).admit_subscriptions(kind, names.len())?;
    if ctx.exec.ks.is_beyond_limit(names.iter().map(|name| name.len()).sum()) {
        return Err(Fail::OUT_OF_MEMORY);
    }
    for name in names {
        let grown = ServerHost::of(ctx).subscribe(kind, name);
        ctx.exec.ks.count_foreign(grown);
        ctx.session.set(Modes::SUBSCRIBER, true);
        confirm(ctx, kind, word, Some(name));
    }
    Ok(())
}

/// `UNSUBSCRIBE [channel [channel ...]]` and its likes: without a name, from all of the kind.
fn unsubscribe(ctx: &mut Ctx<'_>, kind: ChannelKind, word: &[u8]) -> Outcome {
    let named = &ctx.args()[1..];
    if named.is_empty() {
        let all = ServerHost::of(ctx).subscriptions(kind);
        if all.is_empty() {
            confirm(ctx, kind, word, None);
        }
        all.iter().for_each(|name| leave(ctx, kind, word, name));
    }
    named.iter().for_each(|name| leave(ctx, kind, word, name));
    Ok(())
}

fn leave(ctx: &mut Ctx<'_>, kind: ChannelKind, word: &[u8], name: &[u8]) {
    let host = ServerHost::of(ctx);
    let grown = host.unsubscribe(kind, name);
    let listens = host.is_subscriber();
    ctx.exec.ks.count_foreign(grown);
    ctx.session.set(Modes::SUBSCRIBER, listens);
    confirm(ctx, kind, word, Some(name));
}

/// Confirms a subscription or its end, after messages that were sent before.
fn confirm(ctx: &mut Ctx<'_>, kind: ChannelKind, word: &[u8], name: Option<&[u8]>) {
    // Inside the reply of EXEC there is no room for a message.
    if !ctx.session.in_exec {
        let protocol = ctx.reply.protocol();
        for push in ServerHost::of(ctx).take_own_pushes() {
            ctx.reply.encoded(&push.to_bytes(protocol));
        }
    }
    let host = ServerHost::of(ctx);
    let count = match kind {
        ChannelKind::Shard => host.count_subscriptions(ChannelKind::Shard),
        _ => {
            host.count_subscriptions(ChannelKind::Channel)
                + host.count_subscriptions(ChannelKind::Pattern)
        }
    };
    ctx.reply.push(3);
    ctx.reply.bulk(word);
    match name {
        Some(name) => ctx.reply.bulk(name),
        None => ctx.reply.null(),
    }
    ctx.reply.integer(count as i64);
}

/// `PUBSUB CHANNELS [pattern]`, `PUBSUB SHARDCHANNELS [pattern]`
fn channels(ctx: &mut Ctx<'_>, kind: ChannelKind) -> Outcome {
    let pattern = match *ctx.args() {
        [_, _] => None,
        [_, _, pattern] => Some(pattern),
        _ => {
            let name = String::from_utf8_lossy(ctx.arg(1));
            return Err(Fail::new(format!(
                "ERR unknown subcommand or wrong number of arguments for '{name}'. Try PUBSUB HELP."
            )));
        }
    };
    let names = ServerHost::of(ctx).server.channels.names(kind, pattern);
    ctx.reply.array(names.len());
    names.iter().for_each(|name| ctx.reply.bulk(name));
    Ok(())
}

/// `PUBSUB NUMSUB [channel [channel ...]]`, `PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]`
fn numsub(ctx: &mut Ctx<'_>, kind: ChannelKind) -> Outcome {
    let names = &ctx.args()[2..];
    ctx.reply.array(names.len() * 2);
    for name in names {
        let count = ServerHost::of(ctx).server.channels.subscribers(kind, name);
        ctx.reply.bulk(name);
        ctx.reply.integer(count as i64);
    }
    Ok(())
}

/// `PUBSUB NUMPAT`
fn numpat(ctx: &mut Ctx<'_>) -> Outcome {
    let patterns = ServerHost::of(ctx).server.channels.len(ChannelKind::Pattern);
    ctx.number(patterns as i64)
}
